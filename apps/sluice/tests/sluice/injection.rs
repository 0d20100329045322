//! Traces played into BGP (`request bgp inject`): what is injected leaves as it came, stays out of the kernel, and goes on request. Torn
//! traces, garbage, and a real table.

use crate::SLUICE;
use serde_json::Value;
use sluice_base::{Asn, RouterId};
use sluice_bgpsim::wire::attribute::{Attributes, code, put_header};
use sluice_load::wide;
use sluice_mrt::{Entry, Peer, Record, Writer, records};
use sluice_router_lab::{RouterLab, possible, share};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The source of the router `sluice`, and the router behind it.
const SOURCE: &str = "192.0.2.1";
const AS: u32 = 64501;

const LAB: &str = "
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { static { route 192.0.2.77/32 { next-hop 10.1.0.2; } } bgp {
    local-as 64500; router-id 10.1.0.1; default-policy accept;
    group traces { peer-as 64501; import [ some ]; }
    neighbor 10.1.0.2 { peer-as 64500; connect-retry-time 1; ipv4-unicast { enabled true; } ipv6-unicast { enabled true; } }
} }
policy {
    prefix-list unwanted { prefix [ 203.0.113.0/24 ]; }
    policy-statement some { term unwanted { from { prefix-list unwanted; } then { reject; } } }
}
'''
[nodes.behind]
daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device { }
protocol bgp sluice { local 10.1.0.2 as 64500; neighbor 10.1.0.1 as 64500; connect delay time 1; connect retry time 1;
    ipv4 { import all; export none; }; ipv6 { import all; export none; }; }
'''
[[links]]
a = 'sluice:behind'
b = 'behind:sluice'
a_addresses = ['10.1.0.1/24', 'fd00:1::1/64']
b_addresses = ['10.1.0.2/24', 'fd00:1::2/64']
";

/// The attributes of each route of a peer in a table, by prefix and path identifier. The next hop is among them.
type Routes = BTreeMap<String, Vec<(u8, u8, Vec<u8>)>>;

fn attributes(octets: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    Attributes::new(octets).map(Result::unwrap).map(|a| (a.flags & 0xe0, a.code, a.value.to_vec())).collect()
}

/// Returns the routes of a peer in a trace.
fn routes_of(trace: &[u8], peer: IpAddr) -> Routes {
    let mut all = Routes::new();
    let mut numbers = Vec::new();
    for record in records(trace) {
        match record {
            Record::PeerIndex(index) => {
                let of_peer = index.peers.iter().zip(0_u16..).filter(|(known, _)| known.address == peer);
                numbers = of_peer.map(|(_, number)| number).collect();
            }
            Record::Rib(rib) => {
                for entry in rib.entries.iter().filter(|entry| numbers.contains(&entry.peer)) {
                    let name = format!("{} {:?}", rib.prefix, entry.path_id);
                    all.insert(name, attributes(entry.attributes));
                }
            }
            _ => {}
        }
    }
    all
}

/// A table of the source with routes of both families, with attributes of many kinds.
fn table() -> Vec<u8> {
    let mut writer = Writer::new();
    let peer =
        |address: &str| Peer { router_id: RouterId(7), address: address.parse().unwrap(), asn: Asn(AS) };
    writer.peer_index(5, RouterId(9), "", &[peer("192.0.2.9"), peer(SOURCE)]).unwrap();
    let put = |more: &[(u8, u8, &[u8])]| {
        let mut out = vec![];
        let path = [2, 2, 0, 0, 0xfb, 0xf5, 0, 3, 0, 7];
        let mut all: Vec<(u8, u8, &[u8])> = vec![(0x40, code::ORIGIN, &[0]), (0x40, code::AS_PATH, &path)];
        all.extend(more);
        for (flags, code, value) in all {
            put_header(&mut out, flags, code, value.len());
            out.extend_from_slice(value);
        }
        out
    };
    let hop: (u8, u8, &[u8]) = (0x40, code::NEXT_HOP, &[192, 0, 2, 77]);
    let plain = put(&[hop]);
    let rich = put(&[
        hop,
        (0x80, code::MULTI_EXIT_DISC, &[0, 0, 0, 9]),
        (0xc0, code::COMMUNITIES, &[0xfb, 0xf5, 0, 7, 0xfb, 0xf5, 0, 8]),
        (0xc0, code::LARGE_COMMUNITY, &[0, 0, 0xfb, 0xf5, 0, 0, 0, 1, 0, 0, 0, 2]),
        (0xe0, 99, &[1, 2, 3]),
    ]);
    let hop6: Vec<u8> = [&[16], &"2001:db8::77".parse::<std::net::Ipv6Addr>().unwrap().octets()[..]].concat();
    let ipv6 = put(&[(0x80, code::MP_REACH_NLRI, &hop6)]);
    let rows: [(&str, u16, &[u8]); 5] = [
        ("198.51.100.0/24", 1, &rich),
        ("198.51.100.0/25", 1, &plain),
        ("203.0.113.0/24", 1, &plain),
        ("203.0.113.128/25", 0, &plain),
        ("2001:db8:7::/48", 1, &ipv6),
    ];
    for ((prefix, peer, attributes), number) in rows.into_iter().zip(0..) {
        let entry = Entry { peer, originated: 5, path_id: None, attributes };
        writer.rib(5, number, prefix.parse().unwrap(), &[entry]).unwrap();
    }
    writer.take()
}

/// A lab whose router has its session, with a trace in a file.
fn lab_with(trace: &[u8]) -> (RouterLab, PathBuf) {
    let lab = RouterLab::up(&LAB.parse().unwrap(), Path::new(SLUICE));
    lab.until("the session is up", |lab| lab.established("10.1.0.2"));
    lab.until("the static route is there", |lab| lab.kernel().v4 == 1);
    let file = lab.lab.dir("sluice").join("trace.mrt");
    std::fs::write(&file, trace).unwrap();
    (lab, file)
}

fn inject(lab: &RouterLab, file: &Path, more: &[&str]) -> Output {
    let words = ["request", "bgp", "inject", file.to_str().unwrap(), SOURCE];
    lab.cli(&[&words[..], more].concat())
}

/// Returns a field of the injection.
fn shown(lab: &RouterLab, field: &str) -> Value {
    lab.ask(&["show", "bgp", "injections"])["injections"][0][field].clone()
}

/// Returns the prefixes that BIRD has from the router.
fn at_bird(lab: &RouterLab) -> usize {
    let shown = lab.birdc("behind", "show route protocol sluice");
    shown.lines().filter(|line| line.split_whitespace().next().is_some_and(|word| word.contains('/'))).count()
}

/// Dumps the router's table, and returns the routes of the source.
fn dumped(lab: &RouterLab) -> Routes {
    let file = lab.lab.dir("sluice").join("dump.mrt");
    let _ = std::fs::remove_file(&file);
    assert!(lab.cli(&["request", "bgp", "dump-table", file.to_str().unwrap()]).status.success());
    routes_of(&std::fs::read(&file).unwrap(), SOURCE.parse().unwrap())
}

#[test]
fn what_is_injected_leaves_as_it_came_and_stays_out_of_the_kernel() {
    let _share = share();
    if !possible() {
        return;
    }
    let trace = table();
    let (lab, file) = lab_with(&trace);
    let done = inject(&lab, &file, &["peer-as", "64501"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let reply: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((wide(&reply["updates"]), wide(&reply["of_others"])), (Some(4), Some(1)), "{reply}");
    lab.until("BIRD has the routes", |lab| at_bird(lab) == 4);
    // The table has the routes octet for octet, and BIRD the attributes of each kind.
    assert_eq!(dumped(&lab), routes_of(&trace, SOURCE.parse().unwrap()));
    let route = lab.birdc("behind", "show route 198.51.100.0/24 all");
    for expected in
        ["BGP.as_path: 64501 196615", "BGP.med: 9", "(64501,7) (64501,8)", "(64501, 1, 2)", "BGP.63"]
    {
        assert!(route.contains(expected), "{expected}: {route}");
    }
    let unknown = route.lines().find(|line| line.contains("BGP.63")).unwrap();
    assert!(unknown.contains("01 02 03") || unknown.contains("1 2 3"), "{unknown}");
    // The static route alone.
    assert_eq!((lab.kernel().v4, lab.kernel().v6, lab.rib("bgp").0.v4), (1, 0, 0));
    assert_eq!((shown(&lab, "state"), shown(&lab, "installed")), ("whole".into(), false.into()));
    // A trace is no neighbor.
    assert_eq!(lab.ask(&["show", "bgp", "neighbor"])["neighbors"].as_array().map(Vec::len), Some(1));
    let explained = lab.ask(&["explain", "198.51.100.0/24"]).to_string();
    assert!(explained.contains(SOURCE), "{explained}");

    // An upgrade of BGP ends the injection, and the session stays.
    let pid = lab.pid("bgp");
    assert!(lab.cli(&["restart", "bgp"]).status.success());
    lab.until("there is another process", |lab| lab.pid("bgp").is_some_and(|new| Some(new) != pid));
    lab.until("the routes are gone", |lab| at_bird(lab) == 0);
    assert!(lab.whole_log().contains("injected routes are removed: another process takes over"));

    // By the statements of a group, into the kernel: the next hop of the routes must be reachable.
    let done = inject(&lab, &file, &["group", "traces", "install"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    lab.until("the kernel has the routes", |lab| lab.kernel().v4 == 3);
    lab.until("BIRD has the routes", |lab| at_bird(lab) == 2);
    // A second trace follows the first as in one session; other options are another source.
    assert!(!inject(&lab, &file, &["peer-as", "64501"]).status.success());
    assert!(inject(&lab, &file, &["group", "traces", "install"]).status.success());
    assert_eq!(wide(&shown(&lab, "routes")), Some(4));
    // A changed policy holds for injected routes.
    assert!(lab.cli(&["configure", "delete protocols bgp group traces import", "commit"]).status.success());
    lab.until("BIRD has the routes", |lab| at_bird(lab) == 3);
    assert!(lab.cli(&["request", "bgp", "stop-injection", SOURCE]).status.success());
    lab.until("the routes are gone", |lab| at_bird(lab) == 0 && lab.kernel().v4 == 1);
    assert!(!lab.cli(&["request", "bgp", "stop-injection", SOURCE]).status.success());
    assert!(lab.established("10.1.0.2") && lab.restarts() == 0);
}

#[test]
fn bad_traces_are_refused_with_their_place() {
    let _share = share();
    if !possible() {
        return;
    }
    let trace = table();
    let (lab, file) = lab_with(&trace[..trace.len() - 1]);
    let said =
        |done: &Output| String::from_utf8_lossy(&[&done.stdout[..], &done.stderr].concat()).into_owned();
    let peer_as = ["peer-as", "64501"];
    let torn = inject(&lab, &file, &peer_as);
    let text = said(&torn);
    assert!(!torn.status.success() && text.contains("record 6, which begins at octet"), "{text}");
    assert!(text.contains("the trace ends in the middle of the record"), "{text}");
    // What was read stays, until the operator removes it.
    lab.until("BIRD has the routes", |lab| at_bird(lab) == 3);
    assert_eq!(shown(&lab, "state"), "failed");
    assert!(shown(&lab, "problem").as_str().unwrap().contains("record 6"));
    assert!(lab.cli(&["request", "bgp", "stop-injection"]).status.success());
    lab.until("the routes are gone", |lab| at_bird(lab) == 0);

    let mut garbage = trace.clone();
    garbage.extend((0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8));
    for bad in [&garbage, &garbage[trace.len()..].to_vec(), &b"not a trace at all".to_vec()] {
        std::fs::write(&file, bad).unwrap();
        let done = inject(&lab, &file, &peer_as);
        assert!(!done.status.success() && said(&done).contains("which begins at octet"), "{}", said(&done));
        assert!(lab.cli(&["request", "bgp", "stop-injection"]).status.success());
    }
    // Each refusal has its reason: no AS, no such group, a neighbor's address, no file, no pace.
    std::fs::write(&file, &trace).unwrap();
    let cases: [(&[&str], &str); 3] =
        [(&[], "peer-as"), (&["group", "none"], "none"), (&["peer-as", "64501", "speed", "0"], "speed")];
    for (more, expected) in cases {
        let done = inject(&lab, &file, more);
        assert!(!done.status.success() && said(&done).contains(expected), "{more:?}: {}", said(&done));
    }
    let words = ["request", "bgp", "inject", file.to_str().unwrap(), "10.1.0.2", "peer-as", "64501"];
    assert!(said(&lab.cli(&words)).contains("10.1.0.2 is a neighbor"));
    let missing = lab.lab.dir("sluice").join("missing.mrt");
    assert!(!inject(&lab, &missing, &peer_as).status.success());
    // Nothing is left, and another peer's routes are named.
    assert_eq!(lab.ask(&["show", "bgp", "injections"])["injections"].as_array().map(Vec::len), Some(0));
    let done = inject(&lab, &file, &["peer-as", "64501", "peer", "192.0.2.9", "speed", "1000"]);
    assert!(done.status.success(), "{}", said(&done));
    lab.until("BIRD has the route", |lab| at_bird(lab) == 1);
    assert!(lab.established("10.1.0.2") && lab.restarts() == 0);
}

#[test]
fn a_table_of_the_internet_leaves_as_it_came() {
    let _share = share();
    let Some(trace) = sluice_testkit::read("data/bgp/rib/rv2.rib.20140523.0600.first9072.mrt.xz") else {
        return;
    };
    if !possible() {
        return;
    }
    // The peer with the most routes whose attributes are all well-formed.
    let peer: IpAddr = "154.11.98.225".parse().unwrap();
    let expected = routes_of(&trace, peer);
    assert!(expected.len() > 5000, "{}", expected.len());
    let (lab, file) = lab_with(&trace);
    let done = inject(&lab, &file, &["peer-as", "852", "peer", "154.11.98.225"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    lab.until("BIRD has the routes", |lab| at_bird(lab) == expected.len());
    let found = dumped(&lab);
    let other: Vec<_> =
        expected.iter().filter(|(name, route)| found.get(*name) != Some(route)).take(3).collect();
    assert!(other.is_empty(), "{other:?}\n{:?}", other.first().map(|(name, _)| found.get(*name)));
    assert_eq!(lab.rib("bgp").0.v4, 0);
}
