//! Further routing daemons on the host.

use super::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Programs with routes or BGP's port, and their descriptions.
const DAEMONS: [(&str, &str); 12] = [
    ("bird", "BIRD"),
    ("bird6", "BIRD"),
    ("zebra", "FRR or Quagga"),
    ("bgpd", "FRR, Quagga or OpenBGPD"),
    ("ospfd", "FRR or Quagga"),
    ("isisd", "FRR"),
    ("ripd", "FRR or Quagga"),
    ("gobgpd", "GoBGP"),
    ("holod", "Holo"),
    ("rustybgpd", "RustyBGP"),
    ("xorp_rtrmgr", "XORP"),
    ("babeld", "babeld"),
];
/// BGP's port.
const BGP: u16 = 179;
/// The state of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";

/// Runs the checks for other routing programs.
pub fn findings() -> Vec<Finding> {
    vec![daemons(), port()]
}

/// Returns the processes of the current network namespace by name.
fn processes() -> BTreeMap<String, Vec<u32>> {
    let own = std::fs::read_link("/proc/self/ns/net").ok();
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if std::fs::read_link(entry.path().join("ns/net")).ok() != own {
            continue;
        }
        if let Ok(name) = std::fs::read_to_string(entry.path().join("comm")) {
            found.entry(name.trim().to_string()).or_default().push(pid);
        }
    }
    found
}

fn daemons() -> Finding {
    let running = processes();
    let others: Vec<String> = DAEMONS
        .iter()
        .filter_map(|(name, what)| Some((name, what, running.get(*name)?)))
        .map(|(name, what, pids)| format!("{name} ({what}, pid {})", pids[0]))
        .collect();
    match others.is_empty() {
        true => Finding::ok("other-daemons", "no other routing daemon runs here"),
        false => Finding::warn(
            "other-daemons",
            format!("runs already: {}", others.join(", ")),
            "two that write routes get in each other's way: stop it, or give each a network namespace",
        ),
    }
}

fn port() -> Finding {
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let local = fields.get(1).and_then(|a| a.rsplit_once(':'));
            let number = local.and_then(|(_, p)| u16::from_str_radix(p, 16).ok());
            if number == Some(BGP) && fields.get(3) == Some(&LISTEN) {
                inodes.extend(fields.get(9).map(|i| format!("socket:[{i}]")));
            }
        }
    }
    if inodes.is_empty() {
        return Finding::ok("port-179", "free");
    }
    let holders = inodes.iter().map(|inode| holders(inode));
    // One of the router's is held by its FEA too, whatever the executable of its BGP.
    let others: BTreeSet<String> = holders.filter(|names| !names.contains("sluice")).map(in_words).collect();
    match others.is_empty() {
        true => Finding::ok("port-179", "held by the router itself"),
        false => Finding::fail(
            "port-179",
            format!("held by {}", others.into_iter().collect::<Vec<_>>().join(", ")),
            "stop it: neighbors could not connect to this router",
        ),
    }
}

fn in_words(holders: BTreeSet<String>) -> String {
    match holders.is_empty() {
        true => "a process that cannot be seen from here".into(),
        false => holders.into_iter().collect::<Vec<_>>().join(" and "),
    }
}

/// Returns the names of the processes with a socket.
fn holders(inode: &str) -> BTreeSet<String> {
    let has_it = |process: &Path| {
        let held = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        held.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|target| target.as_os_str() == inode)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let names = processes.filter(|p| has_it(p)).filter_map(|p| std::fs::read_to_string(p.join("comm")).ok());
    names.map(|name| name.trim().to_string()).collect()
}
