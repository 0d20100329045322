//! Monitoring stations (BMP, RFC 7854): pmacct's daemon as the station, its connections read by tshark, and stations that come, go, and do
//! not read.

use crate::SLUICE;
use serde_json::Value;
use sluice_lab::process::ProcessId;
use sluice_load::wide;
use sluice_router_lab::bird::commit;
use sluice_router_lab::speaker::{End, Speaker, base, usual};
use sluice_router_lab::{RouterLab, possible, share};
use sluice_testkit::tshark;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A value that ORIGIN does not have (RFC 4271, section 5.1.1).
const ORIGIN_OF_NO_MEANING: u8 = 9;

/// The port of the stations.
const PORT: u16 = 5000;

/// A LAN: the router, a neighbor that announces, one that receives, and hosts for stations.
fn topology(stations: &str) -> sluice_lab::Topology {
    let sluice = format!(
        "policy {{ policy-statement in {{
            term no {{ from {{ prefix 203.0.113.0/24; }} then {{ reject; }} }}
            term all {{ then {{ local-preference 300; accept; }} }}
        }} }}
        protocols {{ bgp {{
            local-as 64500; router-id 10.9.0.1; default-policy accept;
            network 192.0.2.0/24;
            neighbor 10.9.0.2 {{ peer-as 64501; connect-retry-time 1; ipv6-unicast enabled; import in; }}
            neighbor 10.9.0.3 {{ peer-as 64502; connect-retry-time 1; }}
            neighbor 10.9.0.5 {{ peer-as 64505; passive; }}
            bmp {{ {stations} }}
        }} }}"
    );
    let bird = |host: u8, asn: u32, routes: &str, channels: &str| {
        format!(
            "router id 10.9.0.{host};\nprotocol device {{ }}\n{routes}
             protocol bgp sluice {{ local 10.9.0.{host} as {asn}; neighbor 10.9.0.1 as 64500;
             connect delay time 1; connect retry time 1; error wait time 1, 2; {channels} }}\n"
        )
    };
    let announced =
        "protocol static own4 { ipv4; route 198.51.100.0/24 blackhole; route 203.0.113.0/24 blackhole; }
        protocol static own6 { ipv6; route 2001:db8:77::/48 blackhole; }";
    let feed = bird(
        2,
        64501,
        announced,
        "ipv4 { import none; export all; }; ipv6 { import none; export all; next hop address 2001:db8:9::2; };",
    );
    let receiver = bird(3, 64502, "", "ipv4 { import all; export none; };");
    let nodes =
        [("sluice", 1, "sluice", &*sluice), ("feed", 2, "bird", &feed), ("bird", 3, "bird", &receiver)];
    let mut text = String::from("[nodes.lan]\ndaemon = 'switch'\n[nodes.station]\n[nodes.deaf]\n");
    for (name, _, daemon, config) in nodes {
        text += &format!("[nodes.{name}]\ndaemon = '{daemon}'\nconfig = '''\n{config}\n'''\n");
    }
    for (name, host) in nodes.iter().map(|node| (node.0, node.1)).chain([("station", 4), ("deaf", 5)]) {
        text += &format!(
            "[[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.9.0.{host}/24', '2001:db8:9::{host}/64']\n"
        );
    }
    text.parse().unwrap()
}

fn station(name: &str, host: u8, more: &str) -> String {
    format!("station {name} {{ address 10.9.0.{host}; port {PORT}; retry-interval 1; {more} }}")
}

const ALL_RIBS: &str = "monitor [ pre-policy post-policy local-rib adj-rib-out-pre adj-rib-out-post ];";

/// pmacct's station.
struct Pmacct {
    log: PathBuf,
    process: ProcessId,
}

impl Pmacct {
    fn start(lab: &mut RouterLab) -> Self {
        let folder = lab.lab.dir("station");
        std::fs::create_dir_all(&folder).unwrap();
        let (config, log) = (folder.join("pmbmpd.conf"), folder.join("bmp.json"));
        let _ = std::fs::remove_file(&log);
        let text = format!(
            "bmp_daemon_ip: 10.9.0.4\nbmp_daemon_port: {PORT}\nbmp_daemon_msglog_file: {}\n",
            log.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = lab.lab.command("station", "pmbmpd").unwrap();
        command.arg("-f").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Pmacct { log, process: lab.lab.spawn("station", "pmbmpd", command).unwrap() }
    }

    /// The messages so far.
    fn messages(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The latest word about each route of a RIB: `pre`, `post`, `loc`, `out-pre` or `out-post`, the peer and the prefix.
    fn routes(&self) -> BTreeSet<(String, String, String)> {
        let mut routes = BTreeSet::new();
        for message in self.messages() {
            let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
            let is = |name: &str| message[name].as_u64() == Some(1);
            if text("bmp_msg_type") == "peer_down" {
                routes.retain(|(_, peer, _)| *peer != text("peer_ip"));
            }
            if text("bmp_msg_type") != "route_monitor" || text("ip_prefix").is_empty() {
                continue;
            }
            let rib = match (is("is_loc"), is("is_out"), is("is_post")) {
                (true, ..) => "loc",
                (_, false, false) => "pre",
                (_, false, true) => "post",
                (_, true, false) => "out-pre",
                (_, true, true) => "out-post",
            };
            let route = (rib.to_owned(), text("peer_ip"), text("ip_prefix"));
            if text("log_type") == "withdraw" {
                routes.remove(&route);
            } else {
                routes.insert(route);
            }
        }
        routes
    }
}

fn routes(of: &[(&str, &str, &str)]) -> BTreeSet<(String, String, String)> {
    of.iter().map(|(rib, peer, prefix)| ((*rib).into(), (*peer).into(), (*prefix).into())).collect()
}

/// A field of a station.
fn shown(lab: &RouterLab, name: &str, field: &str) -> Value {
    let all = lab.ask(&["show", "bgp", "bmp"]);
    let stations = all["stations"].as_array().cloned().unwrap_or_default();
    stations.into_iter().find(|station| station["name"] == name).map_or(Value::Null, |s| s[field].clone())
}

fn count(lab: &RouterLab, name: &str, field: &str) -> u64 {
    wide(&shown(lab, name, field)).unwrap_or(0)
}

fn possible_with(program: &str, argument: &str) -> bool {
    if !possible() {
        return false;
    }
    let is_there = Command::new(program).arg(argument).output().is_ok();
    if !is_there {
        sluice_testkit::skipped(format!("{program} is not installed"));
    }
    is_there
}

/// Captures the packets of the stations' port.
fn capture(lab: &mut RouterLab) -> (PathBuf, ProcessId) {
    let file = lab.lab.dir("station").join("bmp.pcap");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut command = lab.lab.command("station", "tcpdump").unwrap();
    command
        .args(["-U", "--immediate-mode", "-s", "0", "-i", "lan", "-w"])
        .arg(&file)
        .args(["port", &PORT.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = lab.lab.spawn("station", "tcpdump", command).unwrap();
    lab.until("the capture begins", |_| file.exists());
    (file, process)
}

#[test]
fn a_station_knows_what_the_router_holds() {
    let _share = share();
    if !possible_with("pmbmpd", "-V") {
        return;
    }
    let own = station("own", 4, &format!("{ALL_RIBS} statistics-interval 1; mirror-malformed true;"));
    let mut lab = RouterLab::up(&topology(&own), Path::new(SLUICE));
    let (file, dump) = capture(&mut lab);
    let mut pmacct = Pmacct::start(&mut lab);
    lab.until("neighbors", |l| l.established("10.9.0.2") && l.established("10.9.0.3"));
    let before = [
        ("pre", "10.9.0.2", "198.51.100.0/24"),
        ("pre", "10.9.0.2", "203.0.113.0/24"),
        ("pre", "10.9.0.2", "2001:db8:77::/48"),
        ("post", "10.9.0.2", "198.51.100.0/24"),
        ("post", "10.9.0.2", "2001:db8:77::/48"),
        ("loc", "0.0.0.0", "192.0.2.0/24"),
        ("loc", "0.0.0.0", "198.51.100.0/24"),
        ("loc", "0.0.0.0", "2001:db8:77::/48"),
        ("out-pre", "10.9.0.2", "192.0.2.0/24"),
        ("out-post", "10.9.0.2", "192.0.2.0/24"),
        ("out-pre", "10.9.0.3", "192.0.2.0/24"),
        ("out-post", "10.9.0.3", "192.0.2.0/24"),
        ("out-pre", "10.9.0.3", "198.51.100.0/24"),
        ("out-post", "10.9.0.3", "198.51.100.0/24"),
    ];
    lab.until(&format!("the station knows all: {:?}", pmacct.log), |_| pmacct.routes() == routes(&before));
    lab.until("all is sent", |l| shown(l, "own", "state") == "up" && count(l, "own", "behind") == 0);
    assert_eq!(count(&lab, "own", "peers"), 2);
    lab.until("statistics come", |_| pmacct.messages().iter().any(|m| m["bmp_msg_type"] == "stats"));
    // A neighbor goes: Peer Down, and its selected routes go.
    assert!(lab.birdc("feed", "disable own4").contains("disabled"));
    lab.until("the withdrawals arrive", |_| {
        pmacct
            .routes()
            .iter()
            .all(|(_, _, prefix)| !["198.51.100.0/24", "203.0.113.0/24"].contains(&&**prefix))
    });
    assert!(lab.birdc("feed", "disable sluice").contains("disabled"));
    let left = [
        ("loc", "0.0.0.0", "192.0.2.0/24"),
        ("out-pre", "10.9.0.3", "192.0.2.0/24"),
        ("out-post", "10.9.0.3", "192.0.2.0/24"),
    ];
    lab.until("Peer Down", |_| pmacct.routes() == routes(&left));
    assert!(lab.birdc("feed", "enable sluice").contains("enabled"));
    assert!(lab.birdc("feed", "enable own4").contains("enabled"));
    lab.until("all comes again", |_| pmacct.routes() == routes(&before));
    // The station goes, and comes again: it is sent everything again.
    let failures = count(&lab, "own", "failures");
    pmacct.process.kill();
    lab.until("the connection is lost", |l| count(l, "own", "failures") > failures);
    pmacct = Pmacct::start(&mut lab);
    lab.until("the station knows all again", |_| pmacct.routes() == routes(&before));
    // The next process has the sessions from before, and connects to the station anew.
    let flaps = |lab: &RouterLab| wide(&lab.neighbor("10.9.0.2")["flaps"]);
    let (before_upgrade, pid) = (flaps(&lab), lab.pid("bgp"));
    assert!(lab.cli(&["upgrade", "bgp", "--binary", SLUICE]).status.success());
    assert_ne!(lab.pid("bgp"), pid);
    lab.until("the next process has the station", |l| shown(l, "own", "state") == "up");
    assert!(lab.established("10.9.0.2") && flaps(&lab) == before_upgrade, "no session ended");
    lab.until("the station knows all from the next process", |_| pmacct.routes() == routes(&before));
    // A malformed UPDATE goes to the station as it came.
    let (local, router) = (Ipv4Addr::new(10, 9, 0, 5), Ipv4Addr::new(10, 9, 0, 1));
    let mut speaker = Speaker::connect(&lab, "deaf", local, router, &usual(64505));
    let mut attributes = base(&[64505], local);
    attributes[0].2 = vec![ORIGIN_OF_NO_MEANING];
    speaker.announce(&attributes, &["198.18.5.0/24"]);
    lab.until("the UPDATE is mirrored", |l| count(l, "own", "mirrored") == 1);
    // So does one that ends the session: its attributes are longer than the message.
    speaker.update(&[0, 0, 0, 9, 1]);
    assert!(matches!(speaker.end(), End::Notification(n) if n.code == 3));
    lab.until("the UPDATE is mirrored", |l| count(l, "own", "mirrored") == 2);
    // The station is taken out of the configuration.
    commit(&lab, "delete protocols bgp bmp");
    lab.until("the last message", |_| pmacct.messages().iter().any(|m| m["bmp_msg_type"] == "term"));
    dump.stop();
    let decode = || tshark::decode_with(&file, "bmp", &["-d", &format!("tcp.port=={PORT},bmp")]);
    let read_all = |_: &RouterLab| {
        let packets = decode();
        packets.is_none_or(|packets| packets.iter().any(|packet| packet.shown("bmp.type").contains(&"5")))
    };
    lab.until("the capture is whole", read_all);
    // Without tshark, the test is recorded as skipped.
    let Some(packets) = decode() else { return };
    let mirrors = |packet: &tshark::Packet| packet.shown("bmp.type").contains(&"6");
    assert!(packets.iter().any(mirrors), "no mirrored UPDATE among {} packets", packets.len());
    // What is malformed in the mirrored UPDATE is a complaint.
    for packet in packets.iter().filter(|packet| !mirrors(packet)) {
        // tshark 4.0 reads the information behind the OPENs of the Loc-RIB as the beginning of a message.
        let has_information =
            packet.shown("bmp.type").contains(&"3") && packet.shown("bmp.peer.type").contains(&"3");
        assert!(has_information || packet.complaints().is_empty(), "{packet:?}");
    }
}

/// Routes that the neighbor announces to the router of the deaf station.
const MANY: usize = 30_000;

#[test]
fn a_station_that_does_not_read_disturbs_nobody() {
    let _share = share();
    if !possible_with("python3", "--version") {
        return;
    }
    let mut topology = topology(&station("deaf", 5, ""));
    let routes: String =
        (0..MANY).map(|n| format!("route 10.{}.{}.0/24 blackhole;\n", 20 + n / 256, n % 256)).collect();
    let feed = topology.nodes.get_mut("feed").unwrap();
    *feed.config.as_mut().unwrap() += &format!("protocol static many {{ ipv4; {routes} }}\n");
    let mut lab = RouterLab::up(&topology, Path::new(SLUICE));
    // Octets that the station does not take wait in the router, and not in the kernel.
    let small = lab.lab.output("sluice", "sysctl", ["-w", "net.ipv4.tcp_wmem=4096 4096 16384"]).unwrap();
    assert!(small.status.success());
    let mut command = lab.lab.command("deaf", "python3").unwrap();
    let program = format!(
        "import socket\ns = socket.socket()\ns.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n\
         s.bind(('10.9.0.5', {PORT}))\ns.listen()\nheld = []\nwhile True: held.append(s.accept())"
    );
    command.args(["-c", &program]).stdin(Stdio::null());
    let deaf = lab.lab.spawn("deaf", "python3", command).unwrap();
    let all = MANY + 2;
    lab.until("all routes", |l| l.received("10.9.0.2").v4 == all && l.established("10.9.0.3"));
    lab.until("connected", |l| count(l, "deaf", "connections") > 0);
    // The neighbor's routes change while the station takes nothing, until the router gives the station up.
    let is_given_up = |lab: &RouterLab| {
        shown(lab, "deaf", "problem").as_str().is_some_and(|problem| problem.contains("too slowly"))
    };
    for _ in 0..30 {
        if is_given_up(&lab) {
            break;
        }
        assert!(lab.birdc("feed", "disable many").contains("disabled"));
        lab.until("withdrawn", |l| l.received("10.9.0.2").v4 == 2);
        assert!(lab.birdc("feed", "enable many").contains("enabled"));
        lab.until("announced", |l| l.received("10.9.0.2").v4 == all);
    }
    lab.until("given up", is_given_up);
    lab.until("connected again", |l| count(l, "deaf", "connections") > 1);
    let failures = count(&lab, "deaf", "failures");
    deaf.kill();
    lab.until("the connection is lost", |l| count(l, "deaf", "failures") > failures);
    for neighbor in ["10.9.0.2", "10.9.0.3"] {
        assert_eq!(wide(&lab.neighbor(neighbor)["flaps"]), Some(0));
    }
    assert_eq!(lab.restarts(), 0);
}
