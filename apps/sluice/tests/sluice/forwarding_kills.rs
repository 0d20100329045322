//! A router that forwards by XDP at a high rate while each of its processes is killed, and while the FEA is replaced by a new process:
//! no packet is lost in the router. The long test takes the Internet's IPv4 table, the release executable, and as many packets as the
//! generator makes.

use crate::SLUICE;
use sluice_base::Rng;
use sluice_lab::Topology;
use sluice_load::bird::Feed;
use sluice_load::{RoutingTable, source};
use sluice_pktgen::destinations::random_hosts;
use sluice_pktgen::{Generator, Running, Sink, Spec};
use sluice_router_lab::bird::kill;
use sluice_router_lab::xdp::{forwarding, is_live, station};
use sluice_router_lab::{Count, RouterLab, alone, possible, share};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The processes in the order in which they are killed.
const VICTIMS: [&str; 4] = ["fea", "rib", "bgp", "manager"];
/// Routes where a full table is too much.
const SMALL: usize = 50_000;
/// Packets a second where the generator is not to take all it can.
const RATE: u64 = 20_000;
/// Destinations of the packets: a power of two.
const DESTINATIONS: usize = 4096;
/// The packets' stream.
const STREAM: u32 = 31;
/// The longest time for a full table to arrive everywhere, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(150);

const TOPOLOGY: &str = "
[nodes.a]
[nodes.feed]
daemon = 'bird'
[nodes.sluice]
daemon = 'sluice'
config = '''
interfaces { forwarding { engine xdp; } }
protocols bgp {
    local-as 64500;
    router-id 10.0.0.1;
    default-policy accept;
    neighbor 10.2.0.2 { peer-as 64501; connect-retry-time 1; }
}
'''
[[links]]
a = 'a:eth0'
b = 'sluice:eth0'
xdp = true
a_addresses = ['10.1.0.2/24']
b_addresses = ['10.1.0.1/24']
[[links]]
a = 'feed:eth0'
b = 'sluice:eth1'
xdp = true
a_addresses = ['10.2.0.2/24']
b_addresses = ['10.2.0.1/24']
";

/// The subject of the test: the executable, the table, and the packets a second.
struct Subject {
    program: PathBuf,
    table: RoutingTable,
    rate: Option<NonZeroU64>,
}

impl Subject {
    fn small() -> Self {
        let table = source::find(None).unwrap().0.thinned(SMALL, 0);
        Subject { program: SLUICE.into(), table, rate: NonZeroU64::new(RATE) }
    }

    fn full(program: PathBuf) -> Self {
        let table = source::find(None).unwrap().0.thinned(usize::MAX, 0);
        Subject { program, table, rate: None }
    }
}

/// The packets under way.
struct Traffic {
    running: Running,
    sink: Sink,
    full: u64,
}

impl Traffic {
    fn start(lab: &RouterLab, subject: &Subject) -> Self {
        let prefixes: Vec<_> = subject.table.v4.iter().map(|a| a.prefix).collect();
        let destinations = random_hosts(&prefixes, DESTINATIONS, &mut Rng::from_seed(5));
        let mut spec = Spec::udp("eth0", station(lab, "eth0"), "10.1.0.2".parse().unwrap(), destinations);
        (spec.stream, spec.rate) = (STREAM, subject.rate);
        let full = full_rings(lab);
        let sink = lab.lab.inside("feed", || Sink::attach("eth0", STREAM)).unwrap().unwrap();
        let running = lab.lab.inside("a", || Generator::new(spec).start()).unwrap().unwrap();
        Traffic { running, sink, full }
    }

    /// Waits until packets arrive that were sent after the call.
    fn flows(&self, lab: &RouterLab) {
        let before = self.sink.tally().expected;
        lab.until("packets arrive", |_| self.sink.tally().expected > before);
    }

    /// Ends the packets; returns how many were sent, how many the router lost, and how many met a full ring of a link.
    fn end(self, lab: &RouterLab) -> (u64, u64, u64) {
        let sent = self.running.stop().unwrap().packets;
        let lost = |full: u64| sent.saturating_sub(self.sink.tally().received + full);
        // The last packets are still under way.
        let mut full = 0;
        sluice_lab::until(Duration::from_secs(10), || {
            full = full_rings(lab) - self.full;
            lost(full) == 0
        });
        let tally = self.sink.tally();
        assert_eq!((tally.duplicates, tally.late), (0, 0));
        (sent, lost(full), full)
    }
}

/// Returns the frames that found the ring of a link's other end full (`tx_dropped` of a veth): those of the source, and those of the router
/// to the sink. The processor that takes frames from the ring had no time; no router can know.
fn full_rings(lab: &RouterLab) -> u64 {
    let of = |node: &str, interface: &str| -> u64 {
        let text = lab.lab.exec(node, "cat", ["/proc/net/dev"]).unwrap();
        let counts = text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
        // Eight counts of received frames; then octets, frames, errors and drops of sent ones.
        counts.unwrap().split_whitespace().nth(8 + 3).unwrap().parse().unwrap()
    };
    of("a", "eth0") + of("sluice", "eth1")
}

/// Waits until the RIB and the fast path have all routes.
fn converged(lab: &RouterLab, count: usize) {
    let expected = Count { v4: count, v6: 0 };
    lab.until_within(PATIENCE, "the RIB has all routes", |lab| {
        lab.ready() && lab.rib("bgp") == (expected, true)
    });
    let count_text = count.to_string();
    lab.until_within(PATIENCE, "the fast path has all routes", |lab| {
        let shown = forwarding(lab);
        shown["live"] == true && shown["routes"].as_str() == Some(&*count_text) && shown["unresolved"] == "0"
    });
}

#[test]
fn no_packet_is_lost_whoever_dies() {
    let _machine = share();
    if possible() {
        kill_and_replace(&Subject::small());
    }
}

#[test]
fn no_packet_is_lost_at_full_rate_and_full_table_whoever_dies() {
    let program = sluice_testkit::long!("forwarding");
    let _machine = alone();
    if possible() {
        kill_and_replace(&Subject::full(program));
    }
}

/// Kills each process under traffic, and replaces the FEA.
fn kill_and_replace(subject: &Subject) {
    let begin = Instant::now();
    let say = |what: String| println!("[{:6.1} s] {what}", begin.elapsed().as_secs_f64());
    let mut topology: Topology = TOPOLOGY.parse().unwrap();
    let feed = Feed {
        router_id: "10.2.0.2",
        local_as: 64501,
        local: ("10.2.0.2", "2001:db8:2::2"),
        neighbor: ("10.2.0.1", 64500),
        table: &subject.table,
    };
    topology.nodes.get_mut("feed").unwrap().config = Some(feed.config());
    let mut lab = RouterLab::up(&topology, &subject.program);
    let count = subject.table.v4.len();
    converged(&lab, count);
    say(format!("{count} routes are in the fast path"));

    let traffic = Traffic::start(&lab, subject);
    traffic.flows(&lab);
    for victim in VICTIMS {
        match victim {
            "manager" => {
                lab.kill(lab.pid("manager").unwrap());
                traffic.flows(&lab);
                lab.lab.stop("sluice", true).unwrap();
                lab.lab.start("sluice").unwrap();
                lab.until("the router answers again", RouterLab::ready);
            }
            component => kill(&lab, component),
        }
        converged(&lab, count);
        traffic.flows(&lab);
        say(format!("{victim} was killed and is back; {} packets so far", traffic.running.sent()));
    }
    let replaced = lab.cli(&["restart", "fea"]);
    assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stdout));
    // With the engine `xdp`, a new FEA goes live once the RIB's origins have announced all of their routes: BGP, which was killed, has the
    // packets at full rate beside its session.
    lab.until_within(PATIENCE, "the new FEA forwards", is_live);
    converged(&lab, count);
    traffic.flows(&lab);
    say("the FEA was replaced".into());
    let (sent, lost, full) = traffic.end(&lab);
    say(format!("{sent} packets sent, {lost} lost in the router, {full} met a full ring"));
    assert!(sent > 0 && lost == 0, "{lost} of {sent} packets are lost: {}", forwarding(&lab));
    let log = lab.whole_log();
    for event in ["rib.engine.differs", "fea.engine.mended"] {
        assert!(!log.contains(event), "no change is lost, and still: {event}");
    }
    lab.lab.stop("sluice", true).unwrap();
}
