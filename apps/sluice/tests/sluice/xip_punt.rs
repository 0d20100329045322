//! Packets of XIP that come up to the process: by AF_XDP, by the packet socket, and more of them than the process has memory for.

use crate::SLUICE;
use crate::xip::{FAR, FAR_DOMAIN, MIDDLE, NEAR, NEAR_DOMAIN, cache, far, replies, row};
use sluice_router_lab::bird::{commit, kill};
use sluice_router_lab::xip::{config, counter, link, mac, node, ping};
use sluice_router_lab::{RouterLab, possible, share};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// Sends XIP packets for domains that nobody knows, each for another one, from a node's first interface to a link-layer address.
fn flood(lab: &RouterLab, node: &str, to: &str, first: u32, count: u32) {
    let program = "import socket, sys\n\
                   s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)\n\
                   to = ('eth0', 0xc0de, 0, 0, bytes.fromhex(sys.argv[1].replace(':', '')))\n\
                   before = bytes.fromhex('010000008001007e00000010') + b'\\x5a' * 16\n\
                   for n in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):\n\
                   \x20   s.sendto(before + n.to_bytes(4, 'big') + b'\\x00\\x7f\\x7f\\x7f', to)\n";
    let arguments = ["-c", program, to, &first.to_string(), &count.to_string()];
    lab.lab.exec(node, "python3", arguments).unwrap();
}

/// Returns true if the packets of all interfaces of the router `sluice` come up by the named way.
fn comes_up_by(lab: &RouterLab, way: &str) -> bool {
    let interfaces = lab.ask(&["show", "xip", "interfaces"])["interfaces"].clone();
    interfaces.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(|i| i["punt_path"] == way))
}

#[test]
fn packets_come_up_by_af_xdp_and_by_the_packet_socket_instead() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&row("both").parse().unwrap(), Path::new(SLUICE));
    lab.until("packets come up by AF_XDP", |lab| {
        ping(lab, "near", &far()) == "reply" && comes_up_by(lab, "af-xdp")
    });
    // Checked hits come up too.
    commit(&lab, "set xip cache shadow-interval 0");
    let to = mac(&lab, "sluice", "eth0");
    // Floods rows of which no other flood has one, and returns how many of their packets came up by each way.
    let flooded = |first: u32, count: u32| {
        let counts = |lab: &RouterLab| {
            let punts = ["af-xdp", "packet-socket", "lost"].map(|way| counter(lab, "punt", way));
            (punts, counter(lab, "fast", "to-user"))
        };
        let ([rings, sockets, lost], up) = counts(&lab);
        flood(&lab, "near", &to, first, count);
        lab.until("the flood is over", |lab| {
            let (now, up_now) = counts(lab);
            now.iter().sum::<u64>() - rings - sockets - lost >= (up_now - up).min(u64::from(count))
        });
        let ([rings_now, sockets_now, lost_now], up_now) = counts(&lab);
        assert!(lost_now - lost < u64::from(count) / 2, "{lost_now}");
        (rings_now - rings, sockets_now - sockets, up_now - up)
    };
    let (rings, sockets, up) = flooded(0, 200);
    assert!(rings >= 100 && sockets == 0, "{rings} {sockets} {up}");

    // The other way is the operator's choice, and the way back.
    commit(&lab, "set xip punt-path packet-socket");
    lab.until("packets come up by the packet socket", |lab| comes_up_by(lab, "packet-socket"));
    let (rings, sockets, up) = flooded(1_000, 200);
    assert!(rings == 0 && sockets >= 100, "{rings} {sockets} {up}");
    commit(&lab, "delete xip punt-path");
    lab.until("packets come up by AF_XDP again", |lab| comes_up_by(lab, "af-xdp"));

    // The budget holds in front of both.
    commit(&lab, "set xip budget rate 10");
    commit(&lab, "set xip budget burst 10");
    let over = counter(&lab, "fast", "over-budget");
    let rings = counter(&lab, "punt", "af-xdp");
    flood(&lab, "near", &to, 2_000, 500);
    lab.until("the budget is used up", |lab| counter(lab, "fast", "over-budget") >= over + 400);
    assert!(counter(&lab, "punt", "af-xdp") < rings + 100);
    commit(&lab, "delete xip budget");
    let up = counter(&lab, "fast", "to-user");
    lab.until("the sender has a budget again", |lab| {
        flood(lab, "near", &to, 2_600, 1);
        counter(lab, "fast", "to-user") > up
    });

    // Whatever is refused to the process, packets come by the packet socket.
    limit(&lab, "--memlock=0");
    commit(&lab, "set xip punt-path packet-socket");
    commit(&lab, "delete xip punt-path");
    lab.until("the process may lock no memory", |lab| {
        let shown = lab.ask(&["show", "xip", "interfaces"])["interfaces"].to_string();
        comes_up_by(lab, "packet-socket") && shown.contains("no memory")
    });
    let (rings, sockets, up) = flooded(1_500, 200);
    assert!(rings == 0 && sockets >= 100, "{rings} {sockets} {up}");

    // The sockets end with their process: rows that are known flow, and the next process has sockets of its own.
    lab.until("the rows are cached", |lab| {
        let up = counter(lab, "fast", "to-user");
        ping(lab, "near", &far()) == "reply" && counter(lab, "fast", "to-user") == up
    });
    let before = lab.pid("xip");
    kill(&lab, "xip");
    replies(&lab, 5);
    lab.until("the next process has sockets", |lab| {
        lab.pid("xip").is_some_and(|pid| Some(pid) != before) && comes_up_by(lab, "af-xdp")
    });
    lab.until("the far host answers", |lab| ping(lab, "near", &far()) == "reply");
    let (rings, sockets, up) = flooded(3_000, 200);
    assert!(rings >= 100 && sockets == 0, "{rings} {sockets} {up}");
}

/// Bounds a resource of the process `xip`, by an option of prlimit(1).
fn limit(lab: &RouterLab, option: &str) {
    let pid = lab.pid("xip").unwrap();
    // The process's own user may bound it, where root without CAP_SYS_RESOURCE may not.
    let owner = std::fs::metadata(format!("/proc/{pid}/task")).unwrap();
    let mut command = std::process::Command::new("prlimit");
    command.args(["--pid", &pid.to_string(), option]).uid(owner.uid()).gid(owner.gid());
    assert!(command.status().unwrap().success());
}

/// Bounds the address space of the process `xip` to what it has and some octets more.
fn starve(lab: &RouterLab, more: u64) -> u64 {
    let pid = lab.pid("xip").unwrap();
    let sizes = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    limit(lab, &format!("--as={}", pages * 4096 + more));
    pid
}

/// Rows flood in while the process has no memory left: it dies and comes back, or lives within its bounds. Cached rows and IP flow.
#[test]
fn a_process_without_memory_costs_neither_cached_rows_nor_ip() {
    let _share = share();
    if !possible() {
        return;
    }
    let near = config("kernel", &["eth0"], &[NEAR, NEAR_DOMAIN], &[(FAR_DOMAIN, MIDDLE)], "");
    let redirects = [(NEAR_DOMAIN, NEAR), (FAR_DOMAIN, FAR)];
    let middle = config("both; ipv4 true", &["eth0", "eth1", "eth2"], &[MIDDLE], &redirects, "");
    let far = config("kernel", &["eth0"], &[FAR, FAR_DOMAIN], &[(NEAR_DOMAIN, MIDDLE)], "");
    let host = |name: &str, config: &str, gateway: &str| {
        format!(
            "[nodes.{name}]\ndaemon = 'sluice'\nroutes = ['default via {gateway}']\nconfig = '''{config}'''\n"
        )
    };
    let addressed = |node: &str, interface: &str, net: u8| {
        format!(
            "[[links]]\na = '{node}:eth0'\nb = 'sluice:{interface}'\nxdp = true\n\
             a_addresses = ['10.{net}.0.2/24']\nb_addresses = ['10.{net}.0.1/24']\n"
        )
    };
    let topology = host("near", &near, "10.1.0.1")
        + &node("sluice", &middle)
        + &host("far", &far, "10.2.0.1")
        + "[nodes.flood]\n"
        + &addressed("near", "eth0", 1)
        + &addressed("far", "eth1", 2)
        + &link("flood:eth0", "sluice:eth2");
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    let is_warm = |lab: &RouterLab| {
        let before = counter(lab, "fast", "to-user");
        let answered = (0..3).all(|_| ping(lab, "near", &self::far()) == "reply");
        answered && counter(lab, "fast", "to-user") == before && cache(lab, "rows") >= 2
    };
    lab.until("the rows of the far host are cached", is_warm);
    let to = mac(&lab, "sluice", "eth2");
    let pings = || {
        let mut command = lab.lab.command("near", "ping").unwrap();
        command.args(["-n", "-q", "-i", "0.05", "-W", "2", "-c", "200", "10.2.0.2"]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let all_received = |pings: std::process::Child| {
        let said = String::from_utf8(pings.wait_with_output().unwrap().stdout).unwrap();
        assert!(said.contains(" 200 received"), "{said}");
    };

    // No room for more than a few rows: the process ends. Without it, and until its successor has the program, cached rows flow.
    let ip = pings();
    let starved = starve(&lab, 64 << 10);
    flood(&lab, "flood", &to, 0, 20_000);
    assert_eq!(ping(&lab, "near", &self::far()), "reply");
    // What a busy machine drops takes no memory.
    let mut first = 20_000;
    lab.until("the process has ended", |lab| {
        flood(lab, "flood", &to, first, 20_000);
        first += 20_000;
        lab.pid("xip").is_none_or(|pid| pid != starved)
    });
    lab.until("xip is back", |lab| {
        assert_eq!(ping(lab, "near", &self::far()), "reply");
        lab.pid("xip").is_some() && lab.ask(&["show", "xip", "principals"])["fast_path"] == true
    });
    lab.until("the rows are cached again", is_warm);
    all_received(ip);

    // With a small cache, 100,000 rows need no more memory than some.
    commit(&lab, "set xip cache lines 1024");
    lab.until("the rows are in the small cache", is_warm);
    flood(&lab, "flood", &to, 10_000_000, 20_000);
    lab.until("the rows are still cached", is_warm);
    let ip = pings();
    let bounded = starve(&lab, 16 << 20);
    for round in 0..5 {
        flood(&lab, "flood", &to, 20_000_000 + round * 20_000, 20_000);
        assert_eq!(ping(&lab, "near", &self::far()), "reply");
    }
    assert_eq!(lab.pid("xip"), Some(bounded), "{}", lab.last_end("xip"));
    assert!(cache(&lab, "rows") <= 4096 && cache(&lab, "stored") > 4096);
    all_received(ip);
}
