//! An unchanged configuration has no effect, however applied: committed, loaded, read again, with every default written
//! out.

use crate::impact::network::{BASE, NEIGHBORS, Network};
use crate::impact::touched::Reported;
use crate::impact::wire::What;
use sluice_config::{Node, NodeKind};
use sluice_router_lab::possible;
use std::collections::BTreeMap;

/// `KEEPALIVE`s of each direction of each session to wait for before silence means anything: more than a single
/// interval.
const INTERVALS: usize = 2;

/// The sessions as their ends see them, and the milliseconds of the day at which BIRD saw each come up.
fn sessions(network: &Network) -> (Vec<String>, Vec<i64>) {
    let (mut all, mut times) = (Vec::new(), Vec::new());
    for node in ["outer", "inner"] {
        for line in network.lab.birdc(node, "show protocols").lines().filter(|line| line.contains("BGP")) {
            // Name, protocol, table, state, since, info.
            let columns: Vec<&str> = line.split_whitespace().collect();
            times.push(milliseconds(columns[4]));
            all.push([&columns[..4], &columns[5..]].concat().join(" "));
        }
    }
    all.extend(NEIGHBORS.map(|n| {
        let neighbor = network.lab.neighbor(n);
        format!("{n} {} {}", neighbor["state"], neighbor["flaps"])
    }));
    (all, times)
}

/// The milliseconds of a time of day like `04:40:01.269`.
fn milliseconds(time: &str) -> i64 {
    let seconds = time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap());
    (seconds * 1000.0).round() as i64
}

/// True if each pair of times differs by less than a second: BIRD reckons the time of day anew for each answer, so that
/// the last digits vary.
fn are_same_times(before: &[i64], after: &[i64]) -> bool {
    const DAY: i64 = 24 * 3600 * 1000;
    let near = |(a, b): (&i64, &i64)| ((a - b).rem_euclid(DAY) + 1000) % DAY < 2000;
    before.len() == after.len() && before.iter().zip(after).all(near)
}

/// Returns `set` statements of every default left out by the base configuration.
fn defaults(schema: &[Node]) -> Vec<String> {
    let mut statements = Vec::new();
    for node in schema {
        write_out(node, &node.name, &mut statements);
    }
    statements
}

fn write_out(node: &Node, path: &str, statements: &mut Vec<String>) {
    match &node.kind {
        NodeKind::Leaf(leaf) => {
            if let Some(default) = &leaf.default
                && !BASE.iter().any(|line| line.starts_with(&format!("{path} ")))
            {
                statements.push(format!("set {path} {default}"));
            }
        }
        NodeKind::LeafList(_) => {}
        // A default inside would make the container exist.
        NodeKind::Container { presence: true }
            if !BASE.iter().any(|line| line.starts_with(&format!("{path} "))) => {}
        NodeKind::Container { .. } => {
            for child in &node.children {
                write_out(child, &format!("{path} {}", child.name), statements);
            }
        }
        NodeKind::List { .. } => {
            // The entries that the base configuration has.
            let entries: BTreeMap<&str, ()> = BASE
                .iter()
                .filter_map(|line| line.strip_prefix(&format!("{path} ")))
                .filter_map(|rest| Some((rest.split(' ').next()?, ())))
                .collect();
            for entry in entries.keys() {
                for child in &node.children {
                    write_out(child, &format!("{path} {entry} {}", child.name), statements);
                }
            }
        }
    }
}

#[test]
fn what_stays_as_it_is_touches_nothing() {
    if !possible() {
        return;
    }
    let network = Network::up();
    let file = network.lab.lab.dir("sluice").join("config");
    let name = file.display().to_string();
    let (before, (up, since)) = (network.now(), sessions(&network));
    let read_again = |times: usize| {
        network.lab.signal("-HUP", network.lab.pid("manager").unwrap());
        let times_read = || network.lab.whole_log().matches("configuration read again").count();
        assert!(network.until(|| times_read() >= times), "it was not read: {}", network.log());
    };
    assert_eq!(network.commit(&[]), Ok(Reported::default()));
    read_again(1);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(network.commit(&[format!("load replace {name}")]), Ok(Reported::default()));

    // Only asked, whatever it would cost.
    let costly = [
        "set protocols bgp router-id 10.0.0.99",
        "set protocols bgp neighbor 10.1.0.2 hold-time 30",
        "set interfaces interface extra enabled false",
    ];
    let words: Vec<&str> =
        ["configure"].into_iter().chain(costly).chain(["commit check", "discard"]).collect();
    let asked = network.lab.ask(&words);
    let effects = &asked["results"][0]["result"]["effects"];
    assert_ne!(Reported::of(effects), Reported::default(), "{asked}");

    // All defaults in words: another text, the same router.
    let defaults = defaults(&network.schema());
    assert!(defaults.len() > 20, "{defaults:?}");
    assert_eq!(network.commit(&defaults), Ok(Reported::default()));
    // The file follows.
    let in_words = || std::fs::read_to_string(&file).unwrap_or_default();
    assert!(network.until(|| in_words().len() > text.len()), "the defaults were not written: {}", in_words());
    read_again(2);
    // And back, as somebody who edits the file.
    std::fs::write(&file, text).unwrap();
    read_again(3);

    let keepalives = network.packets().len();
    let all_received = || {
        let packets = network.packets();
        let packets = &packets[keepalives..];
        let count = |from: &str, to: bool| {
            let end = |p: &crate::impact::wire::Packet| if to { p.to } else { p.from }.to_string();
            packets.iter().filter(|p| p.what == What::Keepalive && end(p) == from).count()
        };
        NEIGHBORS.iter().all(|n| count(n, true) >= INTERVALS && count(n, false) >= INTERVALS)
    };
    assert!(network.until(all_received), "no KEEPALIVEs: {}", network.summary());
    let touched = network.touched(&before);
    assert!(!touched.any && touched.processes.is_empty(), "{touched:?}");
    let (still_up, still_since) = sessions(&network);
    assert_eq!(still_up, up);
    assert!(are_same_times(&since, &still_since), "{since:?} {still_since:?}");
}
