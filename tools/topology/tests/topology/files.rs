//! Published files, and hostile files.

use proptest::prelude::*;
use sluice_base::Asn;
use sluice_testkit::tar;
use sluice_topology::{NodeId, Relationship, Role, Topology};
use std::collections::BTreeSet;

/// Checks the invariants of a topology.
fn check(topology: &Topology) {
    let mut known = BTreeSet::new();
    for link in &topology.links {
        assert!(link.a.index() < topology.nodes.len() && link.b.index() < topology.nodes.len());
        assert!(link.a != link.b && known.insert((link.a.min(link.b), link.a.max(link.b))));
        assert!(link.bandwidth > 0 && !link.delay.is_zero());
    }
    assert!(topology.nodes.iter().all(|n| n.asn.0 != 0 && n.asn != Asn::TRANS));
}

fn shared(path: &str) -> Option<String> {
    Some(String::from_utf8(sluice_testkit::read(path)?).unwrap())
}

const GRAPHML: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d3"/>
  <key attr.name="label" attr.type="string" for="node" id="d2"/>
  <key attr.name="Longitude" attr.type="double" for="node" id="d1"/>
  <key attr.name="Latitude" attr.type="double" for="node" id="d0"/>
  <graph edgedefault="undirected">
    <node id="0"><data key="d0">52.5</data><data key="d1">13.4</data><data key="d2">Berlin</data></node>
    <node id="1"><data key="d0">59.9</data><data key="d1">17.6</data><data key="d2">Uppsala</data></node>
    <node id="2"/>
    <edge source="0" target="1"><data key="d3">1000000000.0</data></edge>
    <edge source="1" target="0"><data key="d3">10000000000.0</data></edge>
    <edge source="1" target="2"/>
    <edge source="2" target="2"/>
  </graph>
</graphml>
"#;

const BRITE: &str = "Topology: ( 3 Nodes, 2 Edges )
Model (3 - ASWaxman):  3 1000 100 1  2  0.15 0.2 1 4 10.0 1024.0 

Nodes: ( 3 )
0\t610\t997\t9\t9\t0\tAS_NODE
1\t292\t419\t21\t21\t1\tAS_NODE
2\t574\t798\t14\t14\t23455\tAS_NODE


Edges: ( 2 )
0\t2\t0\t202.2\t0.674\t0.5\t2\t0\tE_AS\tU
1\t2\t1\t472.4\t-1\t10\t2\t1\tE_AS\tU
";

const CAIDA: &str = "# source:topology|BGP|20240801|ripe|rrc00
1|2|-1|bgp
1|3|0|mlp
70000|1|-1
";

#[test]
fn graphml() {
    let topology = Topology::parse_text("zoo", GRAPHML).unwrap();
    check(&topology);
    let names: Vec<&str> = topology.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["Berlin", "Uppsala", "as3"]);
    let [one, two] = &topology.links[..] else { panic!("two links") };
    assert_eq!((one.bandwidth, two.bandwidth), (10_000_000_000, 1_000_000_000));
    // 860 km, at 200 km a millisecond.
    assert!((4250..4350).contains(&one.delay.as_micros()), "{:?}", one.delay);
    assert_eq!(two.delay.as_micros(), 1000);
}

#[test]
fn brite() {
    let topology = Topology::parse_text("brite", BRITE).unwrap();
    check(&topology);
    let ases: Vec<u32> = topology.nodes.iter().map(|n| n.asn.0).collect();
    assert_eq!(ases, [1, 2, 23457]);
    let [one, two] = &topology.links[..] else { panic!("two links") };
    assert_eq!((one.a, one.b, one.delay.as_micros(), one.bandwidth), (NodeId(2), NodeId(0), 674, 500_000));
    assert_eq!((two.delay.as_micros(), two.bandwidth), (1000, 10_000_000));
}

#[test]
fn caida() {
    let topology = Topology::parse_text("caida", CAIDA).unwrap();
    check(&topology);
    let ases: Vec<u32> = topology.nodes.iter().map(|n| n.asn.0).collect();
    assert_eq!(ases, [1, 2, 3, 70000]);
    let roles: Vec<_> =
        topology.links.iter().map(|l| (l.other(NodeId(0)), l.role_seen_from(NodeId(0)))).collect();
    let expected =
        [(NodeId(1), Some(Role::Customer)), (NodeId(2), Some(Role::Peer)), (NodeId(3), Some(Role::Provider))];
    assert_eq!(roles, expected);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = Topology::parse_text("file", text).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    let caida = "file: line 1: expected AS|AS|-1 or AS|AS|0, GraphML, or a topology of BRITE's";
    check("", caida);
    check("1|2|-1\n1|2\n", "file: line 2: expected AS|AS|-1 or AS|AS|0");
    check("1|2|-1\n1|x|0", "file: line 2: `x` is not an AS number");
    check("0|2|-1", "file: line 1: `0` is not an AS number");
    check("1|2|7", "file: line 1: `7` is not -1 (provider of) or 0 (peer)");
    check("1|2|-1\n#\n2|1|0", "file: line 3: `2` and `1` were linked before");
    check("5|5|0", "file: line 1: `5` is linked to itself");
    let brite = |from: &str, to: &str, expected: &str| check(&BRITE.replace(from, to), expected);
    brite("Nodes: ( 3 )", "Nodes: ( many )", "file: line 4: `many` is not a number");
    brite("Nodes: ( 3 )", "Nodes: ( 9000000 )", "file: line 4: more than 1000000 nodes");
    brite("Nodes: ( 3 )", "Nodes: ( 2 )", "file: line 7: expected Edges: ( M )");
    brite("Edges: ( 2 )", "Edges: ( 3 )", "file: line 13: the file announces 3 edges and has 2");
    brite("574\t798", "574", "file: line 7: `AS_NODE` is not an AS number");
    brite("1\t2\t1", "1\t2\t9", "file: line 12: there is no node `9`");
    brite("1\t2\t1", "1\t0\t2", "file: line 12: `0` and `2` were linked before");
    brite("1\t292", "0\t292", "file: line 6: node `0` was there before");
    brite("472.4\t-1", "472.4\tNaN", "file: line 12: `NaN` is not finite");
    brite("\t23455\t", "\t4294967295\t", "file: line 7: `4294967295` is not an AS number");
    let graphml = |from: &str, to: &str, expected: &str| check(&GRAPHML.replace(from, to), expected);
    graphml(
        "source=\"1\" target=\"2\"",
        "source=\"1\"",
        "file: line 13: expected an edge's source and target",
    );
    graphml("source=\"1\" target=\"2\"", "source=\"1\" target=\"x\"", "file: line 13: there is no node `x`");
    graphml("<node id=\"2\"", "<node id=\"1\"", "file: line 10: node `1` was there before");
    graphml("52.5", "north", "file: line 8: `north` is not a number");
    graphml("<graph ", "<grape ", "file: line 15: expected 'grape' tag, not 'graph' at 15:3");
}

/// XML that is made to take memory, time or the stack.
#[test]
fn xml_that_wants_too_much() {
    let deep = "<a>".repeat(500_000);
    assert!(Topology::parse_text("deep", &deep).is_err());
    assert!(Topology::parse_text("deep", &(deep + &"</a>".repeat(500_000))).is_err());
    let entities = "<!DOCTYPE a [<!ENTITY b \"xxxxxxxxxx\">]><graphml>&b;</graphml>";
    let error = Topology::parse_text("entities", entities).unwrap_err().to_string();
    assert!(error.contains("DTD"), "{error}");
}

#[test]
fn the_zoo() {
    let Some(archive) = sluice_testkit::read("data/topologies/topology-zoo-graphml.tar.zst") else { return };
    let files: Vec<_> =
        tar::files(&archive).into_iter().filter(|(name, _)| name.ends_with(".graphml")).collect();
    assert_eq!(files.len(), 138);
    for (name, text) in files {
        let topology = Topology::parse_text(&name, std::str::from_utf8(text).unwrap()).unwrap();
        check(&topology);
        assert!(topology.nodes.len() > 3 && topology.links.len() > 2, "{name}");
        let part = topology.induced(&topology.largest_part());
        assert!(part.is_connected() && part.nodes.len() > 3, "{name}");
    }
}

#[test]
fn brite_samples() {
    for (name, nodes, links) in [("brite-as", 1000, 2000), ("brite-bottomup", 100, 200)] {
        let Some(text) = shared(&format!("data/topologies/{name}.brite.zst")) else { return };
        let topology = Topology::parse_text(name, &text).unwrap();
        check(&topology);
        assert_eq!((topology.nodes.len(), topology.links.len()), (nodes, links), "{name}");
        assert!(topology.is_connected());
    }
}

#[test]
fn the_internet_of_1998_and_2024() {
    for (name, nodes, transit, peers) in [
        ("caida-serial1-19980101.as-rel.txt.bz2", 3233, 4921, 852),
        ("caida-serial2-20240801.as-rel2.txt.bz2", 77_242, 160_571, 411_302),
    ] {
        let Some(path) = sluice_testkit::shared(&format!("data/topologies/{name}")) else { return };
        let word = path.display().to_string();
        let all = Topology::parse_spec(&word, 1).unwrap();
        check(&all);
        let count = |r| all.links.iter().filter(|l| l.relationship == r).count();
        let counts = (all.nodes.len(), count(Relationship::CustomerOf), count(Relationship::Peer));
        assert_eq!(counts, (nodes, transit, peers));
        let top = Topology::parse_spec(&format!("{word},top=300"), 1).unwrap();
        check(&top);
        assert!(top.is_connected() && top.nodes.len() > 290, "{}", top.nodes.len());
    }
}

/// Pieces of real text in any order, and lines with any field.
fn hostile() -> impl Strategy<Value = String> {
    let lines: Vec<&'static str> = [GRAPHML, BRITE, CAIDA].into_iter().flat_map(str::lines).collect();
    let line = prop_oneof![
        4 => prop::sample::select(lines),
        1 => Just("Nodes: ( 2 )"),
        1 => Just("Edges: ( 1 )"),
        1 => Just("<node id=\"9\">"),
        1 => Just("4294967295|4294967294|-1|x"),
    ];
    let lines = prop::collection::vec(line.prop_map(String::from), 0..30).prop_map(|lines| lines.join("\n"));
    (prop::sample::select(vec!["", "<graphml><graph>", "Topology:\n"]), lines, ".{0,40}")
        .prop_map(|(head, lines, tail)| format!("{head}{lines}{tail}"))
}

proptest! {
    #[test]
    fn no_text_panics(text in hostile()) {
        match Topology::parse_text("text", &text) {
            Ok(topology) => check(&topology),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
