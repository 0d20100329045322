//! What generated topologies promise.

use proptest::prelude::*;
use sluice_base::Duration;
use sluice_topology::{CENTER_DEGREE, NodeId, Place, Relationship, Topology, hierarchy};
use std::collections::BTreeSet;

fn made(spec: &str, seed: u64) -> Topology {
    let topology = Topology::parse_spec(spec, seed).unwrap_or_else(|e| panic!("{spec}: {e}"));
    let mut known = BTreeSet::new();
    for link in &topology.links {
        assert!(link.a != link.b && known.insert((link.a.min(link.b), link.a.max(link.b))), "{spec}");
        assert!(link.bandwidth > 0 && link.delay >= Duration::from_micros(10), "{spec}");
    }
    assert!(topology.is_connected(), "{spec}");
    topology
}

/// FNV-1a over nodes and links.
fn fingerprint(topology: &Topology) -> u64 {
    let nodes = topology.nodes.iter().map(|n| u64::from(n.asn.0));
    let links = topology.links.iter();
    let links = links.flat_map(|l| [l.a.0.into(), l.b.0.into(), l.delay.as_nanos() as u64, l.bandwidth]);
    nodes
        .chain(links)
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn degrees() {
    let check = |spec: &str, nodes: usize, links: usize, least: usize| {
        let topology = made(spec, 7);
        let adjacency = topology.adjacency();
        let lowest = topology.ids().map(|n| adjacency.degree(n)).min().unwrap_or(0);
        assert_eq!((topology.nodes.len(), topology.links.len(), lowest), (nodes, links, least), "{spec}");
    };
    check("waxman:1", 1, 0, 0);
    check("waxman:200,m=2", 200, 1 + 2 * 198, 2);
    check("waxman:50,m=60", 50, 50 * 49 / 2, 49);
    check("ba:1", 1, 0, 0);
    check("ba:300,m=3", 300, 6 + 3 * 296, 3);
    check("glp:300,m=2,p=0,glp-beta=0", 300, 3 + 2 * 297, 2);
    check("mesh:9", 9, 36, 8);
    check("grid:5x4", 20, 31, 2);
}

#[test]
fn near_nodes_are_linked_more_often() {
    let mean = |beta: &str| {
        let topology = made(&format!("waxman:400,m=3,beta={beta}"), 3);
        topology.links.iter().map(|l| l.delay.as_secs_f64()).sum::<f64>() / topology.links.len() as f64
    };
    assert!(mean("0.05") < 0.6 * mean("1"), "{} {}", mean("0.05"), mean("1"));
}

#[test]
fn the_rich_get_richer() {
    for spec in ["ba:1000,m=2", "glp:1000,m=1,p=0.45"] {
        let topology = made(spec, 5);
        let adjacency = topology.adjacency();
        let mut degrees: Vec<usize> = topology.ids().map(|n| adjacency.degree(n)).collect();
        degrees.sort_unstable();
        assert!(degrees[999] > 10 * degrees[500], "{spec}: {} {}", degrees[999], degrees[500]);
    }
}

#[test]
fn bandwidths() {
    let check = |words: &str, low: u64, high: u64, mean: std::ops::Range<f64>| {
        let topology = made(&format!("ba:2000,m=2,{words}"), 1);
        let all: Vec<f64> = topology.links.iter().map(|l| l.bandwidth as f64 / 1e6).collect();
        assert!(all.iter().all(|b| (low as f64..=high as f64).contains(b)), "{words}");
        let found = all.iter().sum::<f64>() / all.len() as f64;
        assert!(mean.contains(&found), "{words}: {found}");
    };
    check("bw=const,bw-min=100", 100, 100, 99.9..100.1);
    check("bw-min=10,bw-max=1000", 10, 1000, 490.0..520.0);
    check("bw=exp,bw-min=50,bw-max=100000", 0, 100_000, 47.0..53.0);
    check("bw=pareto,bw-min=10,bw-max=1000", 10, 1000, 30.0..40.0);
}

#[test]
fn the_thesis() {
    for seed in 0..5 {
        let topology = made("thesis", seed);
        let adjacency = topology.adjacency();
        assert_eq!(topology.nodes.len(), 1000);
        assert_eq!(adjacency.degree(NodeId(0)), CENTER_DEGREE);
        assert_eq!(topology.nodes[0].place, Some(Place::Plane { x: 500.0, y: 500.0 }));
        let degrees: BTreeSet<usize> = topology.ids().map(|n| adjacency.degree(n)).collect();
        assert_eq!(degrees, (10..=15).collect());
    }
    assert_eq!(made("thesis:32", 1).nodes.len(), 32);
}

/// The same seed, the same octets: a changed generator fails here, because traces made with the generator change too.
#[test]
fn seeds_repeat() {
    let check = |spec: &str, expected: u64| {
        let first = made(spec, 42);
        assert_eq!(first, made(spec, 42), "{spec}");
        assert_ne!(first, made(spec, 43), "{spec}");
        assert_eq!(fingerprint(&first), expected, "{spec}");
    };
    check("waxman:100", 0xe9f7_27af_d27d_f632);
    check("ba:100", 0x3156_7b9d_e456_6745);
    check("glp:100", 0xe0f2_d97f_c00a_5d2d);
    check("thesis", 0x4575_c472_545d_6787);
}

#[test]
fn words_that_mean_nothing() {
    let check = |spec: &str, expected: &str| {
        let error = Topology::parse_spec(spec, 1).unwrap_err().to_string();
        assert!(error.contains(expected), "{spec}: {error}");
    };
    check("ring", "expected `ring:N`");
    check("ring:0", "expected a number from 1 to 1000000");
    check("mesh:100000", "expected a number from 1 to 2828");
    check("grid:5", "expected `grid:WxH`");
    check("grid:2000x2000", "from 1 to 500");
    check("thesis:16", "from 32");
    check("ba:10,m=0", "expected a number from 1 to 1000");
    check("ba:1000000,m=5", "from 1 to 4");
    check("ba:10,m=2,m=3", "said twice");
    check("ba:10,alpha=1", "`alpha` is no option of `ba:10`");
    check("waxman:10,beta=0", "above 0");
    check("waxman:10,bw=fast", "expected `const`");
    check("ring:5,relationships=love", "expected `hierarchy`");
    check("/nowhere/at/all.graphml", "/nowhere/at/all.graphml");
}

fn spec() -> impl Strategy<Value = String> {
    prop_oneof![
        (1usize..80, 1usize..4).prop_map(|(n, m)| format!("waxman:{n},m={m}")),
        (1usize..80, 1usize..4).prop_map(|(n, m)| format!("ba:{n},m={m}")),
        (1usize..80, 1usize..4).prop_map(|(n, m)| format!("glp:{n},m={m}")),
        (32usize..80).prop_map(|n| format!("thesis:{n}")),
        (1usize..20).prop_map(|n| format!("ring:{n}")),
        (1usize..20).prop_map(|n| format!("star:{n}")),
        (1usize..12).prop_map(|n| format!("mesh:{n}")),
        (1usize..8, 1usize..8).prop_map(|(w, h)| format!("grid:{w}x{h}")),
    ]
}

/// Returns true if a node is its own provider over several links.
fn has_provider_cycle(topology: &Topology) -> bool {
    let mut customers = vec![0; topology.nodes.len()];
    let transit = || topology.links.iter().filter(|l| l.relationship == Relationship::CustomerOf);
    transit().for_each(|l| customers[l.b.index()] += 1);
    let mut free: Vec<NodeId> = topology.ids().filter(|n| customers[n.index()] == 0).collect();
    let mut done = 0;
    while let Some(node) = free.pop() {
        done += 1;
        for link in transit().filter(|l| l.a == node) {
            customers[link.b.index()] -= 1;
            if customers[link.b.index()] == 0 {
                free.push(link.b);
            }
        }
    }
    done < topology.nodes.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The two promises of the hierarchy: no cycles of providers, and every node reaches every node.
    #[test]
    fn hierarchies_reach_everybody(spec in spec(), seed in any::<u64>()) {
        let topology = made(&format!("{spec},relationships=hierarchy"), seed);
        prop_assert!(topology.links.iter().all(|l| l.relationship != Relationship::None));
        prop_assert!(!has_provider_cycle(&topology));
        let adjacency = topology.adjacency();
        for origin in topology.ids() {
            let reached = hierarchy::reached(&topology, &adjacency, origin);
            prop_assert!(reached.iter().all(|r| *r), "{spec}: {origin:?}");
        }
    }
}
