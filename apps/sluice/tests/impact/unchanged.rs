//! An unchanged configuration has no effect, however applied: committed, loaded, read again, with every default written
//! out.

use crate::network::{BASE, NEIGHBORS, Network};
use crate::router_lab::possible;
use crate::touched::Reported;
use crate::wire::What;
use sluice_config::{Node, NodeKind};
use std::collections::BTreeMap;

/// `KEEPALIVE`s of each direction of each session to wait for before silence means anything: more than a single
/// interval.
const INTERVALS: usize = 2;

/// Returns the time when each session began, by the neighbors' word and the router's.
fn sessions(network: &Network) -> Vec<String> {
    let mut all: Vec<String> = ["outer", "inner"]
        .iter()
        .flat_map(|node| {
            let text = network.lab.birdc(node, "show protocols");
            text.lines().filter(|l| l.contains("BGP")).map(String::from).collect::<Vec<_>>()
        })
        .collect();
    all.extend(NEIGHBORS.map(|n| {
        let neighbor = network.lab.neighbor(n);
        format!("{n} {} {}", neighbor["state"], neighbor["flaps"])
    }));
    all
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
    let (before, since) = (network.now(), sessions(&network));
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
    let all_heard = || {
        let packets = &network.packets()[keepalives..];
        let count = |from: &str, to: bool| {
            let end = |p: &crate::wire::Packet| if to { p.to } else { p.from }.to_string();
            packets.iter().filter(|p| p.what == What::Keepalive && end(p) == from).count()
        };
        NEIGHBORS.iter().all(|n| count(n, true) >= INTERVALS && count(n, false) >= INTERVALS)
    };
    assert!(network.until(all_heard), "no KEEPALIVEs: {}", network.summary());
    let touched = network.touched(&before);
    assert!(!touched.any && touched.processes.is_empty(), "{touched:?}");
    assert_eq!(sessions(&network), since);
}
