//! The comparison of a daemon with Sluice.

use crate::policies::daemon::{Daemon, Place};
use crate::policies::feed::{self, Extent};
use crate::policies::network::{LOCAL_AS, Role, Router};
use crate::policies::pair::Pair;
use crate::policies::peer::{self, Peer, Routes, Words};
use sluice_bgpsim::trace::Trace;
use sluice_router_lab::RouterLab;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const OURS: Router = Router { node: "sluice", number: 2 };
/// The longest time between two looks at all sockets: shorter than [`QUIET`], which no event ends.
const LOOK: Duration = Duration::from_millis(20);
/// The time in which a daemon at rest uses less than a fiftieth of a processor.
const REST: Duration = Duration::from_secs(1);
/// The longest time for the other daemon to read and to write all tables.
const LONG_PATIENCE: Duration = Duration::from_secs(120);
/// The time without a route after which equal tables count: nothing more comes.
const QUIET: Duration = Duration::from_millis(60);
/// The longest time for Sluice to filter all routes again.
const PATIENCE: Duration = Duration::from_secs(5);
/// The differences that are shown of a receiver.
const SHOWN: usize = 3;

/// The receivers with differences after which no further pair is tried.
const ENOUGH: usize = 20;

/// The received routes by place, pair and role.
type Expected = BTreeMap<(Place, usize, Role), Routes>;

/// Runs all pairs of a daemon.
pub fn run(daemon: Daemon, program: &Path, extent: Extent) {
    let Some(octets) = feed::trace() else { return };
    let trace = Trace::read(&octets).unwrap();
    let pairs = chosen(Pair::read_all(daemon.name()));
    let lab = RouterLab::up(&topology(daemon, &pairs).parse().unwrap(), program);
    let failures = lab.lab.inside("peers", || {
        let mut words = Words::default();
        let begin = Instant::now();
        let expected = expect(&lab, daemon, &pairs, (&trace, extent), &mut words);
        println!("{}: {} pairs, {:.1} s", daemon.name(), pairs.len(), begin.elapsed().as_secs_f64());
        Comparison::new(&lab, daemon, (&trace, extent), words).run(&pairs, &expected)
    });
    let failures = failures.unwrap();
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

/// Returns the pairs whose names have `SLUICE_POLICY` in them, or all.
fn chosen(all: Vec<Pair>) -> Vec<Pair> {
    let Some(part) = std::env::var("SLUICE_POLICY").ok() else { return all };
    all.into_iter().filter(|pair| pair.name.contains(&part)).collect()
}

fn topology(daemon: Daemon, pairs: &[Pair]) -> String {
    let routes = daemon.router().routes().chain(OURS.routes()).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "[nodes.{0}]\ndaemon = '{0}'\nconfig = '''\n{1}'''\n[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n{2}'''\n\
         [nodes.peers]\nroutes = [{routes}]\n",
        daemon.name(),
        daemon.config(pairs),
        config(pairs),
    );
    daemon.router().links(&mut text);
    OURS.links(&mut text);
    text
}

/// Receivers at which FRR is known to differ: `docs/policy-proof.md` has the reasons.
const KNOWN: &[(&str, Place, Role)] = &[
    ("med-added", Place::Export, Role::External),
    ("med-added", Place::Export, Role::TwoOctets),
    ("path-replaced", Place::Export, Role::Internal),
];

const EVERYTHING: &str = "policy-statement everything { term all { then { accept; } } }";
/// Rules that FRR has without a policy, after the route-maps at import: a route with BLACKHOLE gets NO_EXPORT (RFC 7999,
/// section 3.2), and a route with GRACEFUL_SHUTDOWN gets LOCAL_PREF 0 (RFC 8326, section 4.3), which Sluice sets before
/// the policies. Our policies at import are followed by these rules at the receivers.
const RULES_OF_FRR: &str = "
community frr-blackhole { member blackhole; }
community frr-inside { member no-export; }
community frr-shutdown { member graceful-shutdown; }
policy-statement frr-before {
    term shutdown { from { community frr-shutdown; } then { local-preference 100; } }
}
policy-statement frr-after {
    term blackhole { from { community frr-blackhole; } then { community-add frr-inside; } }
    term shutdown { from { community frr-shutdown; } then { local-preference 0; } }
}
policy-statement frr-outside {
    term blackhole { from { community frr-blackhole; } then { reject; } }
}
";

/// Our configuration: without a policy nothing is accepted from or announced to any neighbor.
fn config(pairs: &[Pair]) -> String {
    let mut text = format!("policy {{\n{EVERYTHING}{RULES_OF_FRR}");
    pairs.iter().for_each(|pair| text += &pair.ours);
    writeln!(
        text,
        "}}\nprotocols {{ bgp {{ local-as {LOCAL_AS}; router-id {}; default-policy reject;",
        OURS.address(Role::Feeder)
    )
    .unwrap();
    for role in Role::ALL {
        let (peer, asn) = (OURS.peer(role, 1), role.asn());
        let direction = if role == Role::Feeder { "import" } else { "export" };
        writeln!(text, "neighbor {peer} {{ peer-as {asn}; passive; {direction} everything; }}").unwrap();
    }
    text + "} }\n"
}

/// Connects all neighbors of the daemon, and returns the routes that each receives: whole tables, because the receivers
/// connect when the daemon has nothing to do any more, and read up to the End-of-RIB marker.
fn expect(
    lab: &RouterLab,
    daemon: Daemon,
    pairs: &[Pair],
    (trace, extent): (&Trace<'_>, Extent),
    words: &mut Words,
) -> Expected {
    let router = daemon.router();
    let numbers = (0..pairs.len()).map(|pair| Place::Import.number(pair)).chain([Place::Export.number(0)]);
    let feeders = numbers.map(|number| {
        let mut feeder = Peer::connect(router, Role::Feeder, number);
        feeder.announce(&feed::feed(trace, extent, router.peer(Role::Feeder, number)));
        feeder
    });
    let mut feeders: Vec<Peer> = feeders.collect();
    while !feeders.iter().all(Peer::is_sent) {
        for feeder in &mut feeders {
            feeder.pump(words);
        }
        peer::wait(&feeders, LOOK);
    }
    await_rest(lab, daemon);
    let mut receivers = BTreeMap::new();
    for place in Place::ALL {
        for pair in 0..pairs.len() {
            for role in Role::RECEIVERS {
                receivers.insert((place, pair, role), Peer::connect(router, role, place.number(pair)));
            }
        }
    }
    let begin = Instant::now();
    while !receivers.values().all(|receiver| receiver.is_complete) {
        assert!(begin.elapsed() < LONG_PATIENCE, "{} does not end its tables", daemon.name());
        for receiver in receivers.values_mut() {
            receiver.pump(words);
        }
        peer::wait(receivers.values(), LOOK);
    }
    receivers.into_iter().map(|(key, receiver)| (key, receiver.routes)).collect()
}

/// Waits until the daemon has not used the processor for some time.
fn await_rest(lab: &RouterLab, daemon: Daemon) {
    let used =
        || bench_lab::of_node(&lab.lab, daemon.name()).iter().map(|process| process.cpu_s).sum::<f64>();
    let begin = Instant::now();
    let mut before = used();
    loop {
        std::thread::sleep(REST);
        let now = used();
        if now - before < REST.as_secs_f64() / 50.0 {
            return;
        }
        before = now;
        assert!(begin.elapsed() < LONG_PATIENCE, "{} does not come to rest", daemon.name());
    }
}

/// Our side of the comparison.
struct Comparison<'l> {
    lab: &'l RouterLab,
    daemon: Daemon,
    words: Words,
    feeder: Peer,
    receivers: BTreeMap<Role, Peer>,
}

impl<'l> Comparison<'l> {
    fn new(lab: &'l RouterLab, daemon: Daemon, (trace, extent): (&Trace<'_>, Extent), words: Words) -> Self {
        let mut feeder = Peer::connect(OURS, Role::Feeder, 1);
        feeder.announce(&feed::feed(trace, extent, OURS.peer(Role::Feeder, 1)));
        let receivers = Role::RECEIVERS.map(|role| (role, Peer::connect(OURS, role, 1))).into();
        Comparison { lab, daemon, words, feeder, receivers }
    }

    /// Tries each pair at each place; returns the differences.
    fn run(mut self, pairs: &[Pair], expected: &Expected) -> Vec<String> {
        let mut failures = vec![];
        let (mut routes, begin) = (0, Instant::now());
        for place in Place::ALL {
            for (number, pair) in pairs.iter().enumerate() {
                if failures.len() >= ENOUGH {
                    break;
                }
                self.bind(place, &pair.name);
                let of = |role| &expected[&(place, number, role)];
                self.await_equality(&pair.name, place, of);
                for role in Role::RECEIVERS {
                    routes += of(role).len();
                    let differences = self.differences(role, of(role));
                    let receiver = format!("{} at {place:?}, {role:?}", pair.name);
                    match (KNOWN.contains(&(&pair.name, place, role)), differences.is_empty()) {
                        (false, false) => failures.push(format!("{receiver}:\n{differences}")),
                        (true, true) => {
                            failures.push(format!("{receiver}: no difference is left; say so in KNOWN"))
                        }
                        _ => {}
                    }
                }
            }
        }
        println!("{routes} routes compared, {:.1} s", begin.elapsed().as_secs_f64());
        failures
    }

    /// Commits a policy at a place, and at the other places what accepts everything.
    fn bind(&self, place: Place, policy: &str) {
        let mut statements = vec!["configure".to_owned()];
        for role in Role::ALL {
            let (own_place, direction) = match role {
                Role::Feeder => (Place::Import, "import"),
                _ => (Place::Export, "export"),
            };
            let policies = match self.daemon {
                Daemon::Frr if place == Place::Import && role == Role::Feeder => {
                    format!("frr-before {policy}")
                }
                _ if own_place == place => policy.to_owned(),
                Daemon::Bird => "everything".to_owned(),
                Daemon::Frr if matches!(role, Role::Feeder | Role::Internal) => {
                    "frr-after everything".to_owned()
                }
                Daemon::Frr => "frr-outside everything".to_owned(),
            };
            let leaf = format!("protocols bgp neighbor {} {direction}", OURS.peer(role, 1));
            statements.push(format!("delete {leaf}"));
            statements.extend(policies.split(' ').map(|policy| format!("set {leaf} {policy}")));
        }
        statements.push("commit".into());
        let words: Vec<&str> = statements.iter().map(|statement| &**statement).collect();
        let output = self.lab.cli(&words);
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&text));
    }

    /// Waits until all receivers have the expected routes, apart from those that are known to differ; a few seconds if they
    /// never have.
    fn await_equality<'e>(&mut self, pair: &str, place: Place, expected: impl Fn(Role) -> &'e Routes) {
        let is_known = |role| KNOWN.contains(&(pair, place, role));
        let (begin, mut last) = (Instant::now(), Instant::now());
        while begin.elapsed() < PATIENCE {
            self.feeder.pump(&mut self.words);
            let mut any = !self.feeder.is_sent();
            for receiver in self.receivers.values_mut() {
                any |= receiver.pump(&mut self.words);
            }
            if any {
                last = Instant::now();
                continue;
            }
            let mut receivers = self.receivers.iter();
            let is_equal =
                receivers.all(|(role, receiver)| is_known(*role) || receiver.routes == *expected(*role));
            if is_equal && last.elapsed() > QUIET {
                return;
            }
            peer::wait(self.receivers.values().chain([&self.feeder]), LOOK);
        }
    }

    /// Describes the differences of a receiver's routes.
    fn differences(&self, role: Role, expected: &Routes) -> String {
        let got = &self.receivers[&role].routes;
        let all = got.keys().chain(expected.keys().filter(|prefix| !got.contains_key(prefix)));
        let differing: Vec<_> = all.filter(|prefix| got.get(prefix) != expected.get(prefix)).collect();
        let mut text = String::new();
        let shown =
            |routes: &Routes, prefix| routes.get(prefix).map_or("no route".to_owned(), ToString::to_string);
        for prefix in differing.iter().take(SHOWN) {
            let (theirs, ours) = (shown(expected, prefix), shown(got, prefix));
            writeln!(text, "  {prefix}\n    {}: {theirs}\n    sluice: {ours}", self.daemon.name()).unwrap();
        }
        if differing.len() > SHOWN {
            writeln!(text, "  ... {} prefixes", differing.len()).unwrap();
        }
        text
    }
}
