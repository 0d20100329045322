//! The capabilities of the kernel's network.

use super::Finding;
use std::io::ErrorKind;
use std::process::Command;

/// Runs the checks of the kernel's network.
pub fn findings() -> Vec<Finding> {
    vec![next_hop_objects(), forwarding(), md5(), reverse_path()]
}

fn sysctl(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/")))
        .ok()
        .map(|v| v.trim().to_string())
}

fn next_hop_objects() -> Finding {
    match sysctl("net.ipv4.nexthop_compat_mode") {
        Some(_) => Finding::ok("next-hops", "the kernel has next-hop objects"),
        None => Finding::fail(
            "next-hops",
            "the kernel has no next-hop objects (net.ipv4.nexthop_compat_mode is not there)",
            "a kernel of 5.3 or later; in a container /proc/sys has to be visible",
        ),
    }
}

fn forwarding() -> Finding {
    let names = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
    let missing: Vec<&str> = names.into_iter().filter(|n| sysctl(n).is_none()).collect();
    if !missing.is_empty() {
        return Finding::warn(
            "forwarding",
            format!("{} cannot be read", missing.join(", ")),
            "a family that the kernel does not have cannot be routed; in a container make /proc/sys writable",
        );
    }
    let off: Vec<&str> = names.into_iter().filter(|n| sysctl(n).as_deref() == Some("0")).collect();
    let writable = std::fs::OpenOptions::new().write(true).open("/proc/sys/net/ipv4/ip_forward").is_ok();
    match (off.is_empty(), writable) {
        (true, _) => Finding::ok("forwarding", "on for IPv4 and IPv6"),
        (false, true) => {
            Finding::ok("forwarding", "off; a router switches it on where its configuration wants it")
        }
        (false, false) => Finding::warn(
            "forwarding",
            format!("{} is 0 and cannot be changed from here", off.join(", ")),
            "sysctl -w NAME=1 on the host, or make /proc/sys writable",
        ),
    }
}

/// Returns true if TCP accepts MD5 keys: tested on a socket without a connection.
fn md5() -> Finding {
    let config =
        ["/proc/config.gz", &format!("/boot/config-{}", sysctl("kernel.osrelease").unwrap_or_default())]
            .iter()
            .find_map(|path| match path.ends_with(".gz") {
                true => Command::new("zcat").arg(path).output().ok().map(|o| o.stdout),
                false => std::fs::read(path).ok(),
            })
            .filter(|text| !text.is_empty());
    let Some(text) = config else {
        return Finding::ok(
            "tcp-md5",
            "not known before a neighbor has a password: the kernel's configuration is not readable",
        );
    };
    match String::from_utf8_lossy(&text).contains("CONFIG_TCP_MD5SIG=y") {
        true => Finding::ok("tcp-md5", "the kernel takes passwords of BGP neighbors"),
        false => Finding::warn(
            "tcp-md5",
            "the kernel is built without TCP MD5 (CONFIG_TCP_MD5SIG)",
            "neighbors with `password` need another kernel",
        ),
    }
}

fn reverse_path() -> Finding {
    match std::fs::metadata("/proc/sys/net/ipv4/conf/all/rp_filter").map_err(|e| e.kind()) {
        Err(ErrorKind::NotFound) => Finding::ok("rp-filter", "not there"),
        _ if sysctl("net.ipv4.conf.all.rp_filter").as_deref() == Some("1") => Finding::warn(
            "rp-filter",
            "packets whose way back is another are dropped (net.ipv4.conf.all.rp_filter is 1)",
            "sysctl -w net.ipv4.conf.all.rp_filter=2, unless that is wanted",
        ),
        _ => Finding::ok("rp-filter", "does not drop packets that come another way"),
    }
}
