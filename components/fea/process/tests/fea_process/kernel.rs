//! The engine against the real kernel, in a namespace of its own.

use sluice_base::*;
use sluice_fea::{Configuration, Drive, Effect, Fea, Input, LinkConfiguration};
use sluice_fea_process::linux::LinuxEngine;
use sluice_lab::{Lab, LabOptions};
use std::fs::File;
use std::net::IpAddr;
use std::time;

const TABLE: TableId = TableId::MAIN;

const TOPOLOGY: &str = "
[nodes.r]
forwarding = true
[nodes.a]
[nodes.b]
[[links]]
a = 'r:eth0'
b = 'a:eth0'
a_addresses = ['10.0.0.1/24', 'fd00::1/64']
b_addresses = ['10.0.0.2/24', 'fd00::2/64']
[[links]]
a = 'r:eth1'
b = 'b:eth0'
a_addresses = ['10.0.1.1/24', 'fd00:1::1/64']
b_addresses = ['10.0.1.2/24', 'fd00:1::2/64']
";

/// A lab, and an FEA whose engine is the kernel of node `r`.
struct Bench {
    lab: Lab,
    drive: Drive<LinuxEngine>,
    effects: Vec<Effect>,
    origin: time::Instant,
}

/// An engine in the namespace of `node`: sockets belong to the namespace in which they were opened.
fn engine_in(lab: &Lab, node: &str) -> LinuxEngine {
    lab.inside(node, || LinuxEngine::open().unwrap()).unwrap()
}

impl Bench {
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            sluice_testkit::skipped("not root");
            return None;
        }
        let lab = Lab::up(&TOPOLOGY.parse().unwrap(), LabOptions::unique("fea")).unwrap();
        let drive = Drive::new(Fea::new(1), engine_in(&lab, "r"));
        let mut bench = Bench { lab, drive, effects: Vec::new(), origin: time::Instant::now() };
        bench.quiet();
        Some(bench)
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    fn quiet(&mut self) {
        let now = self.now();
        self.drive.quiesce(now, &mut self.effects);
    }

    fn input(&mut self, input: Input) {
        let now = self.now();
        self.drive.handle(now, input, &mut self.effects);
        self.quiet();
    }

    /// Handles what the kernel reports until `done`.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Bench) -> bool) {
        let deadline = time::Instant::now() + time::Duration::from_secs(20);
        loop {
            self.quiet();
            let now = self.now();
            if self.drive.next_deadline().is_some_and(|d| d <= now) {
                self.drive.on_deadline(now, &mut self.effects);
            }
            if done(self) {
                return;
            }
            assert!(time::Instant::now() < deadline, "never: {what}; {:?}", self.effects);
            use nix::poll::{PollFd, PollFlags, poll};
            let mut fds = [PollFd::new(self.drive.engine().descriptor(), PollFlags::POLLIN)];
            poll(&mut fds, 20u8).unwrap();
        }
    }

    fn index(&mut self, name: &str) -> InterfaceIndex {
        let all = self.drive.core().interfaces().unwrap();
        all.iter().find(|i| i.name == name).unwrap().index
    }

    fn hop(&mut self, gateway: &str, interface: &str) -> NextHop {
        NextHop::via_on(gateway.parse().unwrap(), self.index(interface))
    }

    fn set4(&mut self, group: u32, forwarding: Forwarding, prefixes: &[&str]) {
        self.input(Input::UpdateIpv4(TABLE, batch(group, forwarding, prefixes)));
    }

    fn set6(&mut self, group: u32, forwarding: Forwarding, prefixes: &[&str]) {
        self.input(Input::UpdateIpv6(TABLE, batch(group, forwarding, prefixes)));
    }

    fn ip(&self, args: &str) -> String {
        self.lab.exec("r", "ip", args.split(' ')).unwrap()
    }

    fn ours(&self) -> usize {
        self.ip("route show proto 83").lines().count()
    }

    fn rejections(&mut self) -> Vec<(String, String)> {
        let rejected = |e: Effect| match e {
            Effect::Rejected { prefix, reason, .. } => Some((prefix.to_string(), reason)),
            _ => None,
        };
        self.effects.drain(..).filter_map(rejected).collect()
    }

    /// A process of the FEA that starts again: nothing is left but the kernel.
    fn restart(&mut self) {
        self.drive = Drive::new(Fea::new(2), engine_in(&self.lab, "r"));
        self.quiet();
        self.until("the snapshot", |b| b.drive.core().interfaces().is_some());
    }
}

fn batch<P: Prefix>(group: u32, forwarding: Forwarding, prefixes: &[&str]) -> FibBatch<P> {
    let route = |p: &&str| FibRoute {
        prefix: p.parse().unwrap(),
        group: Some(GroupId(group)),
        is_external: false,
        provenance: Provenance::new(1, 1),
    };
    FibBatch {
        groups: vec![(GroupId(group), forwarding)],
        routes: prefixes.iter().map(route).collect(),
        unused: Vec::new(),
    }
}

#[test]
fn interfaces_are_seen_and_configured() {
    let Some(mut bench) = Bench::new() else { return };
    bench.until("the snapshot", |b| b.drive.core().interfaces().is_some());
    let all = bench.drive.core().interfaces().unwrap();
    let eth0 = all.iter().find(|i| i.name == "eth0").unwrap().clone();
    assert!(eth0.admin_up && eth0.mtu == 1500 && eth0.mac.len() == 6 && !eth0.loopback);
    let has = |a: &str| eth0.addresses.iter().any(|x| x.addr == a.parse::<IpAddr>().unwrap());
    assert!(has("10.0.0.1") && has("fd00::1"));
    assert!(all.iter().any(|i| i.loopback && i.name == "lo"));
    let address = |a: &str, prefix_len| InterfaceAddress { addr: a.parse().unwrap(), prefix_len, peer: None };
    let link = LinkConfiguration {
        enabled: Some(true),
        mtu: Some(1400),
        addresses: [address("192.0.2.1", 24), address("2001:db8::1", 64)].into(),
    };
    let mut configuration = Configuration::default();
    configuration.interfaces.insert("eth0".into(), link);
    configuration.forwarding.insert(Family::Ipv4, false);
    bench.input(Input::Configure(configuration.clone()));
    bench.until("it is reported", |b| {
        let all = b.drive.core().interfaces().unwrap();
        let eth0 = all.iter().find(|i| i.name == "eth0").unwrap();
        eth0.mtu == 1400 && eth0.addresses.iter().filter(|a| a.prefix_len != 64).count() == 2
    });
    let text = bench.ip("address show dev eth0");
    assert!(text.contains("192.0.2.1/24") && text.contains("2001:db8::1/64") && text.contains("10.0.0.1/24"));
    assert_eq!(bench.lab.exec("r", "cat", ["/proc/sys/net/ipv4/ip_forward"]).unwrap(), "0\n");
    configuration.interfaces.get_mut("eth0").unwrap().addresses.clear();
    bench.input(Input::Configure(configuration));
    let text = bench.ip("address show dev eth0");
    assert!(!text.contains("192.0.2.1") && !text.contains("2001:db8::1/64") && text.contains("10.0.0.1/24"));
}

/// Other addresses of a subnet stay when the first one goes, and whatever others change at an interface is set again.
#[test]
fn interfaces_stay_as_configured() {
    let Some(mut bench) = Bench::new() else { return };
    bench.until("the snapshot", |b| b.drive.core().interfaces().is_some());
    let configure = |bench: &mut Bench, addresses: &[(&str, u8)]| {
        let address = |(a, prefix_len): &(&str, u8)| InterfaceAddress {
            addr: a.parse().unwrap(),
            prefix_len: *prefix_len,
            peer: None,
        };
        let addresses = addresses.iter().map(address).collect();
        let link = LinkConfiguration { enabled: Some(true), mtu: Some(1400), addresses };
        let interfaces = [("eth0".into(), link)].into();
        bench.input(Input::Configure(Configuration { interfaces, ..Configuration::default() }));
    };
    let shows = |bench: &Bench, parts: &[&str]| {
        let shown = bench.ip("address show dev eth0");
        parts.iter().all(|part| shown.contains(part))
    };
    configure(&mut bench, &[("192.0.2.1", 24), ("192.0.2.2", 24), ("192.0.2.3", 24), ("2001:db8::1", 64)]);
    configure(&mut bench, &[("192.0.2.2", 24), ("192.0.2.3", 24), ("2001:db8::1", 64)]);
    assert!(shows(&bench, &["192.0.2.2/24", "192.0.2.3/24"]) && !shows(&bench, &["192.0.2.1/24"]));
    bench.until("all is as configured", |b| b.drive.core().problems().is_empty());

    // A kernel that promotes no address removes the others with the first one.
    let off = "for f in /proc/sys/net/ipv4/conf/*/promote_secondaries; do echo 0 >$f; done";
    bench.lab.exec("r", "sh", ["-c", off]).unwrap();
    let all = ["192.0.2.2/24", "192.0.2.3/24", "2001:db8::1/64", "10.0.0.1/24", "mtu 1400", ",UP"];
    let changes = [
        "address del 192.0.2.2/24 dev eth0",
        "address del 2001:db8::1/64 dev eth0",
        "link set eth0 mtu 1500",
        "link set eth0 mtu 1000",
        "link set eth0 down",
    ];
    for change in changes {
        bench.ip(change);
        bench.until(change, |b| shows(b, &all) && b.drive.core().problems().is_empty());
    }
    // So it is after a change of the configuration.
    configure(&mut bench, &[("192.0.2.3", 24), ("2001:db8::1", 64)]);
    bench.until("the other address is there", |b| {
        shows(b, &["192.0.2.3/24"]) && b.drive.core().problems().is_empty()
    });
}

#[test]
fn every_kind_of_route() {
    let Some(mut bench) = Bench::new() else { return };
    let a = bench.hop("10.0.0.2", "eth0");
    let b = NextHop { weight: 3, ..bench.hop("10.0.1.2", "eth1") };
    let v6 = bench.hop("fd00::2", "eth0");
    let b6 = bench.hop("fd00:1::2", "eth1");
    let index = bench.index("eth1");
    bench.set4(1, Forwarding::one(a), &["198.51.100.0/24", "0.0.0.0/0"]);
    bench.set4(2, Forwarding::many([a, b]).unwrap(), &["203.0.113.0/24"]);
    bench.set4(3, Forwarding::one(v6), &["192.0.2.0/24"]);
    bench.set4(4, Forwarding::Discard, &["192.0.3.0/24"]);
    bench.set4(5, Forwarding::Reject, &["192.0.4.0/24"]);
    bench.set4(6, Forwarding::one(NextHop::on(index)), &["192.0.5.0/24"]);
    bench.set6(1, Forwarding::many([v6, b6]).unwrap(), &["2001:db8:1::/48", "::/0"]);
    bench.set6(2, Forwarding::Discard, &["2001:db8:2::/48"]);
    bench.set6(3, Forwarding::Reject, &["2001:db8:3::/48"]);
    assert_eq!(bench.rejections(), []);
    assert_eq!(bench.ours(), 7);
    assert_eq!(bench.ip("-6 route show proto 83").lines().filter(|l| !l.starts_with('\t')).count(), 4);
    let get = |to: &str| bench.lab.output("r", "ip", ["route", "get", to]).unwrap();
    let via = |to: &str| String::from_utf8(get(to).stdout).unwrap();
    assert!(via("198.51.100.1").contains("via 10.0.0.2 dev eth0"));
    assert!(via("8.8.8.8").contains("via 10.0.0.2 dev eth0"));
    assert!(via("192.0.2.1").contains("via inet6 fd00::2 dev eth0"));
    assert!(via("192.0.5.1").contains("dev eth1"));
    assert!(!get("192.0.3.1").status.success() && !get("192.0.4.1").status.success());
    assert!(!get("2001:db8:2::1").status.success() && !get("2001:db8:3::1").status.success());
    let groups = bench.ip("nexthop show proto 83");
    assert!(groups.contains(",3"), "weight 3: {groups}");
    bench.lab.exec("r", "ping", ["-c1", "-W2", "10.0.0.2"]).unwrap();
    // A discarding route turned into a forwarding one, and one of type "unreachable": all in place.
    bench.set4(4, Forwarding::one(a), &[]);
    bench.set4(5, Forwarding::one(a), &[]);
    assert!(
        bench.ip("route get 192.0.3.1").contains("eth0") && bench.ip("route get 192.0.4.1").contains("eth0")
    );
    let prefixes = ["198.51.100.0/24", "0.0.0.0/0", "203.0.113.0/24", "192.0.2.0/24", "192.0.3.0/24"];
    let gone = |p: &&str| FibRoute {
        prefix: p.parse().unwrap(),
        group: None,
        is_external: false,
        provenance: Provenance::NONE,
    };
    let routes = prefixes.iter().map(gone).collect();
    bench.input(Input::UpdateIpv4(TABLE, FibBatch { routes, ..FibBatch::default() }));
    assert_eq!(bench.ours(), 2);
}

/// Routes of another table than the main one, of both families: only that table has them, and changes from outside are repaired.
#[test]
fn routes_of_another_table() {
    let Some(mut bench) = Bench::new() else { return };
    let table = TableId(1000);
    let (a, b) = (bench.hop("10.0.0.2", "eth0"), bench.hop("fd00::2", "eth0"));
    let announce = |bench: &mut Bench| {
        let v4 = batch(1, Forwarding::one(a), &["198.51.100.0/24", "0.0.0.0/0"]);
        bench.input(Input::UpdateIpv4(table, v4));
        bench.input(Input::UpdateIpv6(table, batch(2, Forwarding::one(b), &["2001:db8:1::/48"])));
    };
    announce(&mut bench);
    // A prefix that both tables have is two routes.
    let c = bench.hop("10.0.1.2", "eth1");
    bench.set4(3, Forwarding::one(c), &["198.51.100.0/24"]);
    assert_eq!(bench.rejections(), []);
    let shown = |bench: &Bench| {
        [
            bench.ip("route show table 1000 proto 83").lines().count(),
            bench.ip("-6 route show table 1000 proto 83").lines().count(),
            bench.ip("route show table main proto 83").lines().count(),
            bench.ip("-6 route show table main proto 83").lines().count(),
        ]
    };
    assert_eq!(shown(&bench), [2, 1, 1, 0]);
    bench.ip("rule add to 198.51.100.0/24 lookup 1000 priority 100");
    assert!(bench.ip("route get 198.51.100.1").contains("via 10.0.0.2 dev eth0"));
    bench.ip("rule del priority 100");
    assert!(bench.ip("route get 198.51.100.1").contains("via 10.0.1.2 dev eth1"));
    // Another program takes a route out of the table.
    bench.ip("route del 198.51.100.0/24 table 1000");
    bench.until("the route is back", |b| shown(b) == [2, 1, 1, 0]);
    let prefix = "198.51.100.0/24".parse().unwrap();
    let routes = vec![FibRoute { prefix, group: None, is_external: false, provenance: Provenance::NONE }];
    bench.input(Input::UpdateIpv4(table, FibBatch { routes, ..FibBatch::default() }));
    assert_eq!(shown(&bench), [1, 1, 1, 0], "the main table keeps its route");
}

/// A group that no route uses any more leaves no object behind in the kernel.
/// Routes of other programs that the kernel prefers are known, whenever they came.
#[test]
fn routes_of_other_programs_that_precede_are_known() {
    let Some(mut bench) = Bench::new() else { return };
    bench.ip("route add default via 10.0.1.2 proto dhcp");
    bench.ip("route add 203.0.113.0/24 via 10.0.1.2 proto dhcp");
    bench.restart();
    let overriding = |b: &mut Bench| -> Vec<String> {
        let all = b.drive.core().overriding(10);
        all.iter().map(|route| format!("{} {} {}", route.prefix, route.protocol, route.metric)).collect()
    };
    assert_eq!(overriding(&mut bench), Vec::<String>::new(), "no route of ours");
    let way = Forwarding::one(bench.hop("10.0.0.2", "eth0"));
    bench.set4(1, way, &["0.0.0.0/0", "198.51.100.0/24"]);
    let way = Forwarding::one(bench.hop("fd00::2", "eth0"));
    bench.set6(2, way, &["2001:db8::/32"]);
    assert_eq!(overriding(&mut bench), ["0.0.0.0/0 16 0"]);
    assert!(bench.drive.core().problems()[0].contains("the route to 0.0.0.0/0"));
    bench.ip("route add 198.51.100.0/24 via 10.0.1.2 metric 19 proto static");
    bench.ip("route add 198.51.100.0/24 via 10.0.1.2 metric 21 proto static");
    bench.ip("-6 route add 2001:db8::/32 via fd00:1::2 metric 1");
    bench.ip("-6 route append 2001:db8::/32 via fd00:1::3 metric 1");
    let all = ["0.0.0.0/0 16 0", "198.51.100.0/24 4 19", "2001:db8::/32 3 1"];
    bench.until("all are known", |b| overriding(b) == all);
    bench.ip("-6 route del 2001:db8::/32 via fd00:1::3 metric 1");
    bench.ip("route del default proto dhcp");
    bench.until("one is gone", |b| overriding(b) == all[1..]);
    bench.ip("-6 route del 2001:db8::/32 via fd00:1::2 metric 1");
    bench.ip("route del 198.51.100.0/24 metric 19");
    bench.ip("route add 0.0.0.0/0 via 10.0.1.2 proto dhcp");
    bench.until("the other route is back", |b| overriding(b) == all[..1]);
    bench.ip("link set eth1 down");
    bench.until("the kernel forwards by all routes", |b| b.drive.core().problems().is_empty());
}

#[test]
fn unused_next_hops_go() {
    let Some(mut bench) = Bench::new() else { return };
    let (a, b) = (bench.hop("10.0.0.2", "eth0"), bench.hop("10.0.1.2", "eth1"));
    bench.set4(1, Forwarding::many([a, b]).unwrap(), &["198.51.100.0/24"]);
    assert!(bench.ip("nexthop show proto 83").lines().count() > 0);
    let prefix = "198.51.100.0/24".parse().unwrap();
    let routes = vec![FibRoute { prefix, group: None, is_external: false, provenance: Provenance::NONE }];
    let gone = FibBatch { groups: Vec::new(), routes, unused: vec![GroupId(1)] };
    bench.input(Input::UpdateIpv4(TABLE, gone));
    bench.quiet();
    assert_eq!(bench.ip("nexthop show proto 83"), "");
}

#[test]
fn refusals_name_the_reason() {
    let Some(mut bench) = Bench::new() else { return };
    bench.ip("route add 198.51.100.0/24 via 10.0.1.2 metric 20");
    bench.ip("-6 route add 2001:db8::/32 via fd00:1::2 metric 20");
    bench.quiet();
    let (a, a6) = (bench.hop("10.0.0.2", "eth0"), bench.hop("fd00::2", "eth0"));
    let off = bench.hop("172.16.0.1", "eth0");
    bench.set4(1, Forwarding::one(a), &["198.51.100.0/24", "198.51.101.0/24"]);
    bench.set4(2, Forwarding::one(off), &["203.0.113.0/24", "203.0.114.0/24"]);
    bench.set6(1, Forwarding::one(a6), &["2001:db8::/32"]);
    bench.set6(2, Forwarding::one(a), &["2001:db8:1::/48"]);
    let rejected = bench.rejections();
    let reason = |p: &str| &rejected.iter().find(|(q, _)| q == p).unwrap_or_else(|| panic!("{p}")).1;
    assert!(reason("198.51.100.0/24").contains("another program's route"), "{rejected:?}");
    assert!(reason("2001:db8::/32").contains("another program's route"));
    assert!(reason("203.0.113.0/24").contains("unreachable") || reason("203.0.113.0/24").contains("gateway"));
    assert!(reason("203.0.114.0/24").contains("nvalid"), "{rejected:?}");
    assert!(reason("2001:db8:1::/48").contains("IPv4 nexthop"), "{rejected:?}");
    assert_eq!(rejected.len(), 5);
    assert_eq!(bench.ours(), 1);
    assert!(bench.ip("route show 198.51.100.0/24").contains("via 10.0.1.2"), "somebody else's stays");
    // It leaves, and ours takes the place.
    bench.ip("route del 198.51.100.0/24 metric 20");
    bench.until("ours is there", |b| b.ours() == 2);
}

#[test]
fn changes_from_outside_are_repaired() {
    let Some(mut bench) = Bench::new() else { return };
    let (a, b) = (bench.hop("10.0.0.2", "eth0"), bench.hop("10.0.1.2", "eth1"));
    let a6 = bench.hop("fd00::2", "eth0");
    bench.set4(1, Forwarding::one(a), &["198.51.100.0/24", "198.51.101.0/24"]);
    bench.set4(2, Forwarding::many([a, b]).unwrap(), &["198.51.102.0/24"]);
    bench.set6(1, Forwarding::one(a6), &["2001:db8::/32"]);
    bench.ip("route del 198.51.100.0/24");
    bench.until("a deleted route is back", |b| b.ours() == 3);
    bench.ip("route replace 198.51.101.0/24 via 10.0.1.2 metric 20");
    bench.until("a changed route is as it was", |b| b.ours() == 3);
    bench.ip("-6 route del 2001:db8::/32");
    bench.until("a deleted IPv6 route is back", |b| !b.ip("-6 route show proto 83").is_empty());
    // What another program replaces carries that program's mark: members, and groups.
    let objects = |b: &Bench| b.ip("nexthop show proto 83");
    let before = objects(&bench);
    let id_of = |what: &str| {
        let line = before.lines().find(|l| l.contains(what)).unwrap();
        line.split(' ').nth(1).unwrap().to_owned()
    };
    let (member, group) = (id_of("via 10.0.0.2"), id_of("group"));
    bench.ip(&format!("nexthop replace id {member} via 10.0.1.2 dev eth1"));
    bench.until("a replaced member is as it was", |b| objects(b) == before);
    bench.ip("nexthop add id 5 via 10.0.1.2 dev eth1");
    bench.ip(&format!("nexthop replace id {group} group 5"));
    bench.until("a replaced group is as it was", |b| objects(b) == before);
    bench.ip("nexthop del id 5");
    bench.ip("nexthop flush proto 83");
    bench.until("all is back", |b| b.ours() == 3 && !b.ip("-6 route show proto 83").is_empty());
    let ecmp = bench.ip("route show 198.51.102.0/24");
    let id = ecmp.split(' ').skip_while(|w| *w != "nhid").nth(1).unwrap();
    assert!(bench.ip(&format!("nexthop show id {id}")).contains('/'), "two members");
}

#[test]
fn forwarding_that_others_switch_is_as_configured_again() {
    let Some(mut bench) = Bench::new() else { return };
    let forwarding = [(Family::Ipv4, true), (Family::Ipv6, false)].into_iter().collect();
    bench.input(Input::Configure(Configuration { forwarding, ..Configuration::default() }));
    let ipv4 = "/proc/sys/net/ipv4/ip_forward";
    let ipv6 = "/proc/sys/net/ipv6/conf/all/forwarding";
    let is = |b: &Bench, file: &str| b.lab.exec("r", "cat", [file]).unwrap().trim().to_owned();
    let switch = |b: &Bench, file: &str, value: &str| {
        b.lab.exec("r", "sh", ["-c", &format!("echo {value} >{file}")]).unwrap();
    };
    switch(&bench, ipv4, "0");
    bench.until("IPv4 is forwarded again", |b| is(b, ipv4) == "1");
    switch(&bench, ipv6, "1");
    bench.until("IPv6 is not forwarded again", |b| is(b, ipv6) == "0");
    // Switched while nobody listened: the next life notices.
    switch(&bench, ipv4, "0");
    bench.restart();
    let forwarding = [(Family::Ipv4, true)].into_iter().collect();
    bench.input(Input::Configure(Configuration { forwarding, ..Configuration::default() }));
    assert_eq!(is(&bench, ipv4), "1");
}

#[test]
fn a_link_goes_down_and_comes_back() {
    let Some(mut bench) = Bench::new() else { return };
    let (a, b) = (bench.hop("10.0.0.2", "eth0"), bench.hop("10.0.1.2", "eth1"));
    let a6 = bench.hop("fd00::2", "eth0");
    bench.set4(1, Forwarding::one(a), &["198.51.100.0/24", "198.51.101.0/24"]);
    bench.set4(2, Forwarding::many([a, b]).unwrap(), &["198.51.102.0/24"]);
    bench.set6(1, Forwarding::one(a6), &["2001:db8::/32"]);
    assert_eq!(bench.rejections(), []);
    bench.ip("link set eth0 down");
    let mut rejected = Vec::new();
    bench.until("the owner knows", |b| {
        rejected.extend(b.rejections());
        rejected.len() >= 3
    });
    assert_eq!(bench.ours(), 1, "the other path stays");
    assert!(bench.ip("route get 198.51.102.1").contains("eth1"));
    bench.ip("link set eth0 up");
    bench.ip("address replace fd00::1/64 dev eth0 nodad");
    bench.until("all is back", |b| b.ours() == 3 && !b.ip("-6 route show proto 83").is_empty());
    bench.until("both paths", |b| {
        let groups = b.ip("nexthop show proto 83");
        groups.lines().any(|l| l.contains("group") && l.contains('/'))
    });
}

#[test]
fn a_backup_forwards_when_the_link_is_lost() {
    let Some(mut bench) = Bench::new() else { return };
    let (a, b) = (bench.hop("10.0.0.2", "eth0"), bench.hop("10.0.1.2", "eth1"));
    let prefixes = ["198.51.100.0/24", "198.51.101.0/24"];
    bench.set4(1, Forwarding::many([a, b.as_backup()]).unwrap(), &prefixes);
    assert!(bench.ip("route get 198.51.100.1").contains("eth0"));
    bench.ip("link set eth0 down");
    bench.until("the backup forwards", |bench| {
        bench.ours() == 2 && bench.ip("route get 198.51.101.1").contains("eth1")
    });
    let objects = bench.ip("nexthop show proto 83");
    // The RIB finds the same, later: nothing is left to write.
    bench.set4(1, Forwarding::one(b), &prefixes);
    assert_eq!((bench.ours(), bench.ip("nexthop show proto 83")), (2, objects));
    assert_eq!(bench.rejections(), []);
    bench.ip("link set eth0 up");
    bench.set4(1, Forwarding::many([a, b.as_backup()]).unwrap(), &prefixes);
    bench.until("the first next hop forwards", |bench| bench.ip("route get 198.51.100.1").contains("eth0"));
}

#[test]
fn a_restart_changes_nothing() {
    let Some(mut bench) = Bench::new() else { return };
    bench.ip("route add 203.0.113.0/24 via 10.0.1.2");
    bench.ip("nexthop add id 77 via 10.0.1.2 dev eth1");
    let (a, b) = (bench.hop("10.0.0.2", "eth0"), bench.hop("10.0.1.2", "eth1"));
    let a6 = bench.hop("fd00::2", "eth0");
    let announce = |bench: &mut Bench| {
        bench.set4(1, Forwarding::one(a), &["198.51.100.0/24"]);
        bench.set4(2, Forwarding::many([a, b]).unwrap(), &["198.51.101.0/24"]);
        bench.set4(3, Forwarding::Reject, &["198.51.102.0/24"]);
        bench.set4(4, Forwarding::Discard, &["198.51.103.0/24"]);
        bench.set6(1, Forwarding::one(a6), &["2001:db8::/32"]);
    };
    announce(&mut bench);
    bench.set4(9, Forwarding::one(b), &["192.0.2.0/24"]);
    let mut monitor = bench.lab.command("r", "ip").unwrap();
    let log = bench.lab.dir("r").join("monitor");
    monitor.args(["monitor", "all"]).stdout(File::create(&log).unwrap());
    bench.lab.spawn("r", "monitor", monitor).unwrap();
    // The monitor prints when it is ready: something harmless is done until it shows.
    bench.until("the monitor prints", |b| {
        b.ip("address replace 192.0.2.77/32 dev lo");
        b.ip("address del 192.0.2.77/32 dev lo");
        std::fs::read_to_string(&log).unwrap().contains("Deleted")
    });
    let before = bench.ip("nexthop show proto 83");
    bench.restart();
    bench.input(Input::BeginResync(TABLE));
    announce(&mut bench);
    let count = |log: &std::path::Path| {
        let text = std::fs::read_to_string(log).unwrap();
        text.lines().filter(|l| l.contains("proto 83")).count()
    };
    assert_eq!(count(&log), 0);
    bench.input(Input::EndResync(TABLE));
    bench.until("the sweep is printed", |_| count(&log) > 0);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("proto 83")).collect();
    assert!(lines.iter().all(|l| l.contains("Deleted")), "only what was not announced goes: {lines:?}");
    assert_eq!(lines.iter().filter(|l| l.contains("192.0.2.0/24")).count(), 1);
    assert!(bench.effects.iter().any(|e| matches!(e, Effect::Resynced { kept: 4, swept: 1, .. })));
    assert_eq!(bench.ours(), 4);
    let after = bench.ip("nexthop show proto 83");
    assert!(after.lines().all(|l| before.contains(l)), "no object is new");
    assert!(
        bench.ip("route show 203.0.113.0/24").contains("10.0.1.2")
            && bench.ip("nexthop show id 77").contains("10.0.1.2")
    );
}

#[test]
fn a_lost_notice_is_made_up_for() {
    let Some(mut bench) = Bench::new() else { return };
    let a = bench.hop("10.0.0.2", "eth0");
    bench.set4(1, Forwarding::one(a), &["198.51.100.0/24", "198.51.101.0/24"]);
    bench.ip("route del 198.51.100.0/24");
    // No listener received it.
    bench.drive = {
        let drive = std::mem::replace(&mut bench.drive, Drive::new(Fea::new(3), engine_in(&bench.lab, "a")));
        drive.with_engine(engine_in(&bench.lab, "r"))
    };
    bench.input(Input::Notice(sluice_fea::Notice::Overrun));
    bench.until("it is back", |b| b.ours() == 2);
}
