//! The comparison of a daemon with Sluice.

use crate::daemon::{Daemon, Place};
use crate::feed;
use crate::network::{LOCAL_AS, Role, Router};
use crate::pair::Pair;
use crate::peer::{Peer, Routes, Words};
use crate::router_lab::{RouterLab, SLUICE};
use sluice_bgpsim::trace::Trace;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const OURS: Router = Router { node: "sluice", number: 2 };
/// The pause between two looks at all sockets.
const PAUSE: Duration = Duration::from_millis(2);
/// The time without a route after which the other daemon, whose policies never change, has sent everything.
const QUIET: Duration = Duration::from_secs(2);
/// The longest time for Sluice to filter all routes again.
const PATIENCE: Duration = Duration::from_secs(20);
/// The differences that are shown of a receiver.
const SHOWN: usize = 3;

/// The received routes by place, pair and role.
type Expected = BTreeMap<(Place, usize, Role), Routes>;

/// Runs all pairs of a daemon.
pub fn run(daemon: Daemon) {
    let Some(octets) = feed::trace() else { return };
    let trace = Trace::read(&octets).unwrap();
    let pairs = chosen(Pair::read_all(daemon.name()));
    let lab = RouterLab::up(&topology(daemon, &pairs).parse().unwrap(), Path::new(SLUICE));
    let failures = bench_lab::inside(&lab.lab, "peers", || {
        let mut words = Words::default();
        let begin = Instant::now();
        let expected = expect(daemon, &pairs, &trace, &mut words);
        println!("{}: {} pairs, {:.1} s", daemon.name(), pairs.len(), begin.elapsed().as_secs_f64());
        Ok(Comparison::new(&lab, daemon, &trace, words).run(&pairs, &expected))
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

/// Our configuration: without a policy nothing is accepted from or announced to any neighbor.
fn config(pairs: &[Pair]) -> String {
    let mut text = "policy {\npolicy-statement everything { term all { then { accept; } } }\n".to_owned();
    pairs.iter().for_each(|pair| text += &pair.ours);
    writeln!(
        text,
        "}}\nprotocols {{ bgp {{ local-as {LOCAL_AS}; router-id {}; default-policy reject;",
        OURS.address(Role::Feeder)
    )
    .unwrap();
    for role in Role::ALL {
        let direction = if role == Role::Feeder { "import" } else { "export" };
        let (peer, asn) = (OURS.peer(role, 1), role.asn());
        writeln!(text, "neighbor {peer} {{ peer-as {asn}; passive; {direction} everything; }}").unwrap();
    }
    text + "} }\n"
}

/// Connects all neighbors of the daemon, and returns the routes that each receives.
fn expect(daemon: Daemon, pairs: &[Pair], trace: &Trace<'_>, words: &mut Words) -> Expected {
    let router = daemon.router();
    let mut receivers = BTreeMap::new();
    let mut feeders = vec![];
    for place in Place::ALL {
        for pair in 0..pairs.len() {
            let number = place.number(pair);
            if place == Place::Import || pair == 0 {
                feeders
                    .push((Peer::connect(router, Role::Feeder, number), router.peer(Role::Feeder, number)));
            }
            for role in Role::RECEIVERS {
                receivers.insert((place, pair, role), Peer::connect(router, role, number));
            }
        }
    }
    for (feeder, address) in &mut feeders {
        feeder.announce(&feed::feed(trace, *address));
    }
    let mut last = Instant::now();
    while last.elapsed() < QUIET {
        let mut is_busy = false;
        for (feeder, _) in &mut feeders {
            feeder.pump(words);
            is_busy |= !feeder.is_sent();
        }
        for receiver in receivers.values_mut() {
            is_busy |= receiver.pump(words);
        }
        if is_busy {
            last = Instant::now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
    receivers.into_iter().map(|(key, receiver)| (key, receiver.routes)).collect()
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
    fn new(lab: &'l RouterLab, daemon: Daemon, trace: &Trace<'_>, words: Words) -> Self {
        let mut feeder = Peer::connect(OURS, Role::Feeder, 1);
        feeder.announce(&feed::feed(trace, OURS.peer(Role::Feeder, 1)));
        let receivers = Role::RECEIVERS.map(|role| (role, Peer::connect(OURS, role, 1))).into();
        Comparison { lab, daemon, words, feeder, receivers }
    }

    /// Tries each pair at each place; returns the differences.
    fn run(mut self, pairs: &[Pair], expected: &Expected) -> Vec<String> {
        let mut failures = vec![];
        let (mut routes, begin) = (0, Instant::now());
        for place in Place::ALL {
            for (number, pair) in pairs.iter().enumerate() {
                self.bind(place, &pair.name);
                let of = |role| &expected[&(place, number, role)];
                self.await_equality(of);
                for role in Role::RECEIVERS {
                    routes += of(role).len();
                    let differences = self.differences(role, of(role));
                    if !differences.is_empty() {
                        failures.push(format!("{} at {place:?}, {role:?}:\n{differences}", pair.name));
                    }
                }
            }
            self.bind(place, "everything");
        }
        println!("{routes} routes compared, {:.1} s", begin.elapsed().as_secs_f64());
        failures
    }

    /// Commits a policy.
    fn bind(&self, place: Place, policy: &str) {
        let (roles, direction) = match place {
            Place::Import => (&[Role::Feeder][..], "import"),
            Place::Export => (&Role::RECEIVERS[..], "export"),
        };
        let mut statements = vec!["configure".to_owned()];
        for role in roles {
            let leaf = format!("protocols bgp neighbor {} {direction}", OURS.peer(*role, 1));
            statements.extend([format!("delete {leaf}"), format!("set {leaf} {policy}")]);
        }
        statements.push("commit".into());
        let words: Vec<&str> = statements.iter().map(|statement| &**statement).collect();
        let output = self.lab.cli(&words);
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&text));
    }

    fn await_equality<'e>(&mut self, expected: impl Fn(Role) -> &'e Routes) {
        let begin = Instant::now();
        loop {
            self.feeder.pump(&mut self.words);
            let mut any = !self.feeder.is_sent();
            for receiver in self.receivers.values_mut() {
                any |= receiver.pump(&mut self.words);
            }
            if any {
                continue;
            }
            let is_equal = self.receivers.iter().all(|(role, receiver)| receiver.routes == *expected(*role));
            if is_equal || begin.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(PAUSE);
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
