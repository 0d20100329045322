//! Traces in files (MRT, RFC 6396), read by bgpdump: dumps of the table on a schedule, and messages as neighbors sent them; also where files
//! cannot be written.

use crate::SLUICE;
use serde_json::Value;
use sluice_load::wide;
use sluice_router_lab::bgpdump::{self, routes};
use sluice_router_lab::{RouterLab, possible, share};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const NEIGHBOR: &str = "10.1.0.2";

/// The router, and BIRD with so many prefixes. The router writes these traces.
fn topology(prefixes: usize, daemon: &str, traces: &str) -> sluice_lab::Topology {
    let prefix = |i: usize| format!("route 20.{}.{}.0/24 blackhole;", i / 256, i % 256);
    let all: Vec<String> = (0..prefixes).map(prefix).collect();
    let sluice = format!(
        "protocols {{ bgp {{
            local-as 64500; router-id 10.1.0.1; default-policy accept;
            neighbor {NEIGHBOR} {{ peer-as 64501; connect-retry-time 1; }}
            mrt {{ {traces} }}
        }} }}"
    );
    let text = format!(
        "[nodes.bird]
daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device {{ }}
protocol static {{ ipv4; {} }}
protocol bgp {{ local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500;
    connect delay time 1; connect retry time 1; error wait time 1, 2; ipv4 {{ import all; export all; }}; }}
'''
[nodes.sluice]
{daemon} '''
{sluice}
'''
{}
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.1.0.1/24']
b_addresses = ['10.1.0.2/24']
",
        all.join(" "),
        if daemon.starts_with("files") { "}" } else { "" },
    );
    text.parse().unwrap()
}

/// The daemon of a router that the lab starts.
const STARTED: &str = "daemon = 'sluice'\nconfig =";
/// The files of a router that a test starts.
const BY_HAND: &str = "files = { 'router.conf' =";

/// Questions about the files of traces.
trait Traces {
    /// Returns a field of a kind of trace.
    fn trace(&self, kind: &str, field: &str) -> Value;
    fn count(&self, kind: &str, field: &str) -> u64;
    /// Waits for so many more whole files.
    fn more_files(&self, kind: &str, number: u64);
    fn problem(&self, kind: &str) -> String;
}

impl Traces for RouterLab {
    fn trace(&self, kind: &str, field: &str) -> Value {
        let all = self.ask(&["show", "bgp", "mrt"]);
        let mut traces = all["traces"].as_array().into_iter().flatten();
        traces.find(|trace| trace["kind"] == kind).map_or(Value::Null, |trace| trace[field].clone())
    }

    fn count(&self, kind: &str, field: &str) -> u64 {
        wide(&self.trace(kind, field)).unwrap_or(0)
    }

    fn more_files(&self, kind: &str, number: u64) {
        let before = self.count(kind, "files");
        self.until("more files are whole", |lab| lab.count(kind, "files") >= before + number);
    }

    fn problem(&self, kind: &str) -> String {
        self.trace(kind, "problem").as_str().unwrap_or_default().into()
    }
}

/// The folder of BGP's files.
fn files(lab: &RouterLab) -> PathBuf {
    lab.run_dir().join("state/files/bgp")
}

/// Returns the names of whole files in a folder, oldest first.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|n| n.ends_with(".mrt"))
        .collect();
    names.sort();
    names
}

#[test]
fn dumps_of_the_table_are_written_on_schedule() {
    let _share = share();
    if !possible() || !bgpdump::is_installed() {
        return;
    }
    let traces = "table { interval 1; keep 3; }";
    let lab = RouterLab::up(&topology(3, STARTED, traces), Path::new(SLUICE));
    lab.until("the routes have come", |lab| lab.received(NEIGHBOR).v4 == 3);
    lab.more_files("table", 5);
    let folder = files(&lab).join("table");
    // While a file is made whole, the oldest of four is not yet removed.
    assert!((3..=4).contains(&names(&folder).len()), "{:?}", names(&folder));
    let route = |third: u8| {
        [NEIGHBOR, "64501", &format!("20.0.{third}.0/24"), "64501", NEIGHBOR, ""].map(String::from).to_vec()
    };
    let newest = lab.trace("table", "newest");
    let file = files(&lab).join(newest.as_str().unwrap());
    assert_eq!(routes(&file), BTreeSet::from([route(0), route(1), route(2)]));
    assert!(lab.cli(&["status"]).status.success());

    // A folder that cannot be written is reported, and nothing stops for it.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    lab.until("the failure is reported", |lab| lab.problem("table").contains("the folder cannot be used"));
    lab.until("the router is degraded", |lab| lab.cli(&["status"]).status.code() == Some(8));
    assert!(lab.established(NEIGHBOR));
    // One event, whatever the number of files.
    let before = lab.count("table", "failures");
    lab.until("more files fail", |lab| lab.count("table", "failures") >= before + 2);
    assert_eq!(lab.whole_log().matches("no trace (table)").count(), 1, "{}", lab.whole_log());
    fs::remove_file(&folder).unwrap();
    // A missing folder is made.
    lab.more_files("table", 2);
    assert!(lab.whole_log().contains("traces (table) are written again"));
    lab.until("all is well", |lab| lab.cli(&["status"]).status.success());

    // The files stay when none are written any more, also those that were begun.
    assert!(lab.cli(&["configure", "delete protocols bgp mrt", "commit"]).status.success());
    assert_eq!(lab.ask(&["show", "bgp", "mrt"])["traces"].as_array().map(Vec::len), Some(0));
    assert!(!names(&folder).is_empty());
    assert!(lab.established(NEIGHBOR));
    assert_eq!(lab.restarts(), 0);
}

/// Mounts a small disk on a folder, and becomes the rest of the words.
const ON_A_SMALL_DISK: &str =
    "mkdir -p \"$1\" && mount -t tmpfs -o size=16k disk \"$1\" && shift && exec \"$@\"";

#[test]
fn a_full_disk_costs_traces_alone() {
    let _share = share();
    if !possible() || !bgpdump::is_installed() {
        return;
    }
    // 1,000 routes have more than 16 KiB.
    let mut lab = RouterLab::up(&topology(1000, BY_HAND, "table interval 1;"), Path::new(SLUICE));
    let folder = files(&lab).join("table");
    let config = lab.lab.dir("sluice").join("router.conf");
    let mut command = lab.lab.command("sluice", "unshare").unwrap();
    command.args(["--mount", "--propagation", "private", "sh", "-c", ON_A_SMALL_DISK, "sh"]);
    command.arg(&folder).args([SLUICE, "start", "--config"]).arg(config).arg("--run-dir").arg(lab.run_dir());
    let log = fs::File::create(lab.lab.dir("sluice").join("sluice.log")).unwrap();
    command.stderr(log);
    let id = lab.lab.spawn("sluice", "sluice", command).unwrap();
    lab.enter = ["nsenter", "--mount", "--target", &id.pid.to_string()].map(Into::into).into();
    lab.until("the routes have come", |lab| lab.received(NEIGHBOR).v4 == 1000);
    lab.until("the failure is reported", |lab| lab.problem("table").contains("the file cannot be written"));
    lab.until("the router is degraded", |lab| lab.cli(&["status"]).status.code() == Some(8));
    assert!(lab.established(NEIGHBOR));

    let in_router = |words: &[&str]| {
        let (program, args) = lab.enter.split_first().unwrap();
        lab.lab.exec("sluice", program, args.iter().map(String::as_str).chain(words.iter().copied())).unwrap()
    };
    let disk = folder.display().to_string();
    in_router(&["mount", "-o", "remount,size=4m", &disk]);
    lab.until("a trace is whole", |lab| {
        lab.problem("table").is_empty() && lab.count("table", "routes") >= 1000
    });
    // Nothing is left of files that were not whole, but for the one that is being written.
    let parts = in_router(&["ls", &disk]).lines().filter(|name| name.ends_with(".part")).count();
    assert!(parts <= 1);
    assert!(lab.established(NEIGHBOR));
    assert_eq!(lab.restarts(), 0);
}

/// ExaBGP, which announces two routes and withdraws one on request, and BIRD, which sends path identifiers.
const SENDERS: &str = "
[nodes.exabgp]
daemon = 'exabgp'
config = '''
process routes { run @DIR@/routes.sh; encoder text; }
neighbor 10.2.0.1 {
    router-id 10.2.0.2; local-address 10.2.0.2; local-as 64502; peer-as 64500;
    family { ipv4 unicast; }
    api { processes [ routes ]; }
}
'''
files = { 'routes.sh' = '''#!/bin/sh
mkfifo @DIR@/withdraw
echo announce route 198.51.100.0/24 next-hop self community [ 64502:7 ]
echo announce route 203.0.113.0/24 next-hop self attribute [ 0x63 0xe0 0x0102 ]
read order < @DIR@/withdraw
echo withdraw route 203.0.113.0/24 next-hop self
read order < @DIR@/withdraw
''' }
[nodes.bird]
daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 20.0.7.0/24 blackhole; }
protocol bgp { local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500;
    connect delay time 1; connect retry time 1; error wait time 1, 2; ipv4 { import all; export all; add paths tx; }; }
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { bgp {
    local-as 64500; router-id 10.1.0.1; default-policy accept;
    neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; add-path { receive true; } }
    neighbor 10.2.0.2 { peer-as 64502; connect-retry-time 1; }
    mrt { updates interval 1; }
} }
'''
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.1.0.1/24']
b_addresses = ['10.1.0.2/24']
[[links]]
a = 'sluice:exabgp'
b = 'exabgp:sluice'
a_addresses = ['10.2.0.1/24']
b_addresses = ['10.2.0.2/24']
";
const EXABGP: &str = "10.2.0.2";

/// Begins to capture the packets of ExaBGP's session.
fn capture(lab: &mut RouterLab) -> PathBuf {
    let file = lab.lab.dir("exabgp").join("bgp.pcap");
    let mut command = lab.lab.command("exabgp", "tcpdump").unwrap();
    command
        .args(["-U", "--immediate-mode", "-s", "0", "-i", "sluice", "-w"])
        .arg(&file)
        .args(["port", "179"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    lab.lab.spawn("exabgp", "tcpdump", command).unwrap();
    lab.until("the capture begins", |_| file.exists());
    file
}

/// Returns the messages of a neighbor in all whole files, one after the other.
fn recorded(folder: &Path, neighbor: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    for name in names(folder) {
        let file = fs::read(folder.join(name)).unwrap();
        let messages = sluice_mrt::messages(&file).filter(|m| m.peer.to_string() == neighbor);
        messages.for_each(|message| octets.extend_from_slice(message.octets));
    }
    octets
}

/// Returns what bgpdump reads of a neighbor in all whole files: announcements, withdrawals and changes of state, and their subject.
fn changes(folder: &Path, neighbor: &str) -> Vec<String> {
    let all = names(folder).into_iter().flat_map(|name| bgpdump::lines(&folder.join(name)));
    all.filter(|line| line[3] == neighbor)
        .map(|line| format!("{} {}", line[2], line[5..].join(" ")))
        .collect()
}

#[test]
fn messages_are_written_as_neighbors_sent_them() {
    let _share = share();
    if !possible() || !bgpdump::is_installed() {
        return;
    }
    for program in ["exabgp", "tcpdump"] {
        if std::process::Command::new(program).arg("--version").output().is_err() {
            return sluice_testkit::skipped(format!("{program} is not installed"));
        }
    }
    let mut lab = RouterLab::up(&SENDERS.parse().unwrap(), Path::new(SLUICE));
    lab.until("the routes have come", |lab| lab.received(EXABGP).v4 == 2 && lab.received(NEIGHBOR).v4 == 1);
    let packets = capture(&mut lab);
    // The whole of a session is captured.
    assert!(lab.cli(&["clear", "bgp", "neighbor", EXABGP]).status.success());
    lab.until("the session is another", |lab| {
        wide(&lab.neighbor(EXABGP)["flaps"]) == Some(1) && lab.received(EXABGP).v4 == 2
    });
    fs::write(lab.lab.dir("exabgp").join("withdraw"), "").unwrap();
    lab.until("a route is withdrawn", |lab| lab.received(EXABGP).v4 == 1);
    let streams = sluice_testkit::capture::tcp_streams(&fs::read(&packets).unwrap(), 179);
    lab.more_files("updates", 2);

    // The octets are those of the stream that ExaBGP sent.
    let folder = files(&lab).join("updates");
    let octets = recorded(&folder, EXABGP);
    let is_recorded = |stream: &Vec<u8>| octets.windows(stream.len()).any(|part| part == stream);
    let longest = streams.iter().filter(|stream| is_recorded(stream)).map(Vec::len).max();
    assert!(longest > Some(200), "{longest:?} of {:?}", streams.iter().map(Vec::len).collect::<Vec<_>>());
    let all = changes(&folder, EXABGP);
    let place = |start: &str| all.iter().rposition(|line| line.starts_with(start)).expect(start);
    assert!(place("STATE 5 6") < place("A 203.0.113.0/24 64502 IGP"), "{all:?}");
    assert!(place("A 203.0.113.0/24 64502") < place("W 203.0.113.0/24"), "{all:?}");
    assert!(all[place("A 198.51.100.0/24")].contains("64502:7"), "{all:?}");
    // A prefix with its path identifier, which bgpdump reads only from records with ADDPATH.
    let of_bird = changes(&folder, NEIGHBOR);
    assert!(of_bird.iter().any(|line| line.starts_with("A 20.0.7.0/24 2 64501")), "{of_bird:?}");
    assert_eq!(lab.count("updates", "lost"), 0);

    // Without a file, messages are counted and the session stays.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    lab.until("the failure is reported", |lab| lab.problem("updates").contains("the folder cannot be used"));
    lab.birdc("bird", "disable static1");
    lab.until("the route is withdrawn", |lab| lab.received(NEIGHBOR).v4 == 0);
    lab.until("the loss is counted", |lab| lab.count("updates", "lost") > 0);
    assert!(lab.established(EXABGP));
    fs::remove_file(&folder).unwrap();
    lab.more_files("updates", 1);
    lab.birdc("bird", "enable static1");
    lab.until("the route is back", |lab| lab.received(NEIGHBOR).v4 == 1);
    lab.more_files("updates", 1);
    assert!(changes(&folder, NEIGHBOR).iter().any(|line| line.starts_with("A 20.0.7.0/24")));
    assert_eq!(lab.restarts(), 0);

    // A live upgrade loses no message: what came before it is whole, what comes after it is in another file.
    assert!(lab.cli(&["upgrade", "bgp", "--binary", SLUICE]).status.success(), "{}", lab.whole_log());
    assert!(lab.established(NEIGHBOR));
    lab.birdc("bird", "disable static1");
    lab.until("the route is withdrawn", |lab| lab.received(NEIGHBOR).v4 == 0);
    lab.more_files("updates", 1);
    assert!(changes(&folder, NEIGHBOR).last().is_some_and(|line| line.starts_with("W 20.0.7.0/24")));
}
