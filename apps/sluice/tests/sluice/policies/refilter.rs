//! A changed import policy on the wire (XORP, sections 5.1.2 and 8.3): the neighbor is not asked for its routes again, receivers
//! get UPDATEs for the routes whose outcome changes and for no others, single routes of another neighbor pass meanwhile, and
//! the result equals that of a router that has the new policy from the start.

use crate::policies::feed;
use crate::policies::network::{LOCAL_AS, Role, Router};
use crate::policies::peer::{self, Peer, Words};
use sluice_base::{IpPrefix, Ipv4Prefix, Prefix};
use sluice_load::RoutingTable;
use sluice_router_lab::RouterLab;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const ROUTER: Router = Router { node: "sluice", number: 2 };
/// The router that begins with the new policy.
const COLD: Router = Router { node: "cold", number: 1 };
/// IPv4 and IPv6 routes without a full table.
pub const SMALL: (usize, usize) = (30_000, 0);
/// The longest time for a phase.
const PATIENCE: Duration = Duration::from_secs(240);
/// The time without a route after which nothing more comes.
const QUIET: Duration = Duration::from_secs(1);
/// The memory that may be added to the tenth of the memory before: a read buffer, an order with policies.
const SLACK: u64 = 4 << 20;

/// The new policy gives these routes a community.
const CHANGED: &str = "64.0.0.0/3";
/// The new policy rejects these routes.
const REJECTED: &str = "192.0.0.0/4";

/// The first policy accepts all routes; the second one changes some and rejects some.
fn config(router: Router, policy: &str) -> String {
    let mut text = format!(
        "policy {{
prefix-list changed {{ prefix \"{CHANGED} orlonger\"; }}
prefix-list rejected {{ prefix \"{REJECTED} orlonger\"; }}
community mark {{ member {LOCAL_AS}:7; }}
policy-statement first {{ term all {{ then {{ accept; }} }} }}
policy-statement second {{
    term rejected {{ from {{ prefix-list rejected; }} then {{ reject; }} }}
    term changed {{ from {{ prefix-list changed; }} then {{ community-add mark; accept; }} }}
    term rest {{ then {{ accept; }} }}
}}
}}
protocols {{ bgp {{ local-as {LOCAL_AS}; router-id {}; default-policy reject;
",
        router.address(Role::Feeder)
    );
    let neighbors = [
        (Role::Feeder, 1, format!("import {policy}")),
        (Role::Feeder, 2, "import first".to_owned()),
        (Role::External, 1, "export first".to_owned()),
    ];
    for (role, number, policy) in neighbors {
        let (address, asn) = (router.peer(role, number), role.asn());
        writeln!(text, "neighbor {address} {{ peer-as {asn}; passive; {policy}; }}").unwrap();
    }
    text + "} }\n"
}

fn topology() -> String {
    let routes = ROUTER.routes().chain(COLD.routes()).collect::<Vec<_>>().join(", ");
    let mut text = format!("[nodes.peers]\nroutes = [{routes}]\n");
    for (router, policy) in [(ROUTER, "first"), (COLD, "second")] {
        let (node, config) = (router.node, config(router, policy));
        write!(text, "[nodes.{node}]\ndaemon = 'sluice'\nconfig = '''\n{config}'''\n").unwrap();
    }
    ROUTER.links(&mut text);
    COLD.links(&mut text);
    text
}

/// Changes the policy, and compares.
pub fn run(program: &Path, table: &RoutingTable) {
    let lab = RouterLab::up(&topology().parse().unwrap(), program);
    lab.lab.inside("peers", || compare(&lab, table)).unwrap();
}

fn compare(lab: &RouterLab, table: &RoutingTable) {
    let mut neighbors = Neighbors::connect(ROUTER, table);
    neighbors.receive_all(table.v4.len());
    show_received(lab);
    let before = lab.memory("bgp").unwrap();
    let (announced, withdrawn) = (neighbors.receiver.announced, neighbors.receiver.withdrawn);

    let changer = std::thread::scope(|scope| {
        let commit = scope.spawn(|| change(lab));
        let watched = neighbors.watch(lab, || commit.is_finished());
        commit.join().unwrap();
        watched
    });
    neighbors.wait_until_quiet();

    let within = |part: &str| {
        let part: Ipv4Prefix = part.parse().unwrap();
        let is_within = |prefix: IpPrefix| matches!(prefix, IpPrefix::V4(prefix) if part.contains(prefix.addr()) && prefix.len() >= part.len());
        table.v4.iter().filter(|a| is_within(a.prefix)).count()
    };
    let announced = neighbors.receiver.announced - announced - changer.waits.len();
    assert_eq!(announced, within(CHANGED), "routes announced again, beside the single ones");
    assert_eq!(neighbors.receiver.withdrawn - withdrawn, within(REJECTED), "withdrawn routes");
    assert_eq!(neighbors.feeder.refreshes, 0, "ROUTE-REFRESH messages");
    let limit = before + before / 10 + SLACK;
    assert!(changer.memory <= limit, "{} octets during the walk, {before} before", changer.memory);

    let mut cold = Neighbors::connect(COLD, table);
    cold.receive_all(table.v4.len() - within(REJECTED));
    let single: Vec<_> = changer.waits.iter().map(|(prefix, _)| *prefix).collect();
    neighbors.receiver.routes.retain(|prefix, _| !single.contains(prefix));
    assert!(
        neighbors.receiver.routes == cold.receiver.routes,
        "the result differs from that of a cold start"
    );
    report(table, &changer, before);
}

/// Prints the time to the first and to the last line of a listing of all routes of the feeder.
fn show_received(lab: &RouterLab) {
    let feeder = ROUTER.peer(Role::Feeder, 1).to_string();
    let begin = Instant::now();
    let mut command = lab.lab.command(ROUTER.node, &lab.program).unwrap();
    command.args(["show", "bgp", "neighbor", &feeder, "received", "--run-dir"]).arg(lab.run_dir());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().expect("a line").unwrap();
    let first = begin.elapsed();
    let rest = lines.count();
    assert!(child.wait().unwrap().success());
    println!("routes of a neighbor: the first line after {first:?}, {rest} more after {:?}", begin.elapsed());
}

/// Commits the second policy.
fn change(lab: &RouterLab) {
    let leaf = format!("protocols bgp neighbor {} import", ROUTER.peer(Role::Feeder, 1));
    let (delete, set) = (format!("delete {leaf}"), format!("set {leaf} second"));
    let output = lab.cli(&["configure", &delete, &set, "commit"]);
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

/// The observations while the policy changes.
#[derive(Default)]
struct Watched {
    /// Single routes of the other neighbor, and the time that each took to the receiver.
    waits: Vec<(Ipv4Prefix, Duration)>,
    /// The most memory of BGP's process, in octets.
    memory: u64,
}

struct Neighbors {
    feeder: Peer,
    other: Peer,
    receiver: Peer,
    words: Words,
}

impl Neighbors {
    /// Connects the neighbors of a router; the feeder announces the table.
    fn connect(router: Router, table: &RoutingTable) -> Self {
        let [mut feeder, other] = [1, 2].map(|number| Peer::connect(router, Role::Feeder, number));
        feeder.announce(&feed::table(table, feeder.address));
        let receiver = Peer::connect(router, Role::External, 1);
        Neighbors { feeder, other, receiver, words: Words::default() }
    }

    fn pump(&mut self) -> bool {
        let Neighbors { feeder, other, receiver, words } = self;
        [feeder, other, receiver].into_iter().fold(false, |any, peer| peer.pump(words) | any)
    }

    fn wait(&self) {
        peer::wait([&self.feeder, &self.other, &self.receiver], Duration::from_millis(1));
    }

    /// Waits until the receiver has a number of routes.
    fn receive_all(&mut self, count: usize) {
        let begin = Instant::now();
        while self.receiver.routes.len() < count {
            self.pump();
            self.wait();
            let got = self.receiver.routes.len();
            assert!(begin.elapsed() < PATIENCE, "{got} of {count} routes have come");
        }
        self.wait_until_quiet();
    }

    /// Waits until nothing has come for [`QUIET`].
    fn wait_until_quiet(&mut self) {
        let (begin, mut last) = (Instant::now(), Instant::now());
        while last.elapsed() < QUIET {
            if self.pump() {
                last = Instant::now();
            }
            self.wait();
            assert!(begin.elapsed() < PATIENCE, "routes come without an end");
        }
    }

    /// Sends single routes of the other neighbor, each after the arrival of the one before, until the walk is over.
    fn watch(&mut self, lab: &RouterLab, is_committed: impl Fn() -> bool) -> Watched {
        let mut watched = Watched::default();
        let (begin, mut last_change) = (Instant::now(), Instant::now());
        let mut changes = self.receiver.announced + self.receiver.withdrawn;
        while !is_committed() || last_change.elapsed() < QUIET {
            let (prefix, octets) = feed::single(self.other.address, watched.waits.len() as u32);
            self.other.announce(&octets);
            let sent = Instant::now();
            while !self.receiver.routes.contains_key(&prefix) {
                self.pump();
                self.wait();
                assert!(begin.elapsed() < PATIENCE, "{prefix} does not pass");
            }
            watched.waits.push((prefix, sent.elapsed()));
            watched.memory = watched.memory.max(lab.memory("bgp").unwrap());
            let now = self.receiver.announced + self.receiver.withdrawn;
            if now > changes + 1 {
                last_change = Instant::now();
            }
            changes = now;
        }
        watched
    }
}

fn report(table: &RoutingTable, watched: &Watched, before: u64) {
    let mut waits: Vec<Duration> = watched.waits.iter().map(|(_, wait)| *wait).collect();
    waits.sort_unstable();
    let share = |part: usize| waits[(waits.len() - 1) * part / 100];
    println!(
        "{} routes filtered again: {} single routes meanwhile, median {:?}, p99 {:?}, longest {:?}; \
         memory {} MiB before, at most {} MiB",
        table.v4.len(),
        waits.len(),
        share(50),
        share(99),
        share(100),
        before >> 20,
        watched.memory >> 20
    );
}
