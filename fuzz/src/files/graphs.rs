//! External topologies, from files and from words of a command line.

use sluice_topology::Topology;

/// Invariants of a topology.
fn check(topology: &Topology) {
    for link in &topology.links {
        assert!(link.a.index() < topology.nodes.len() && link.b.index() < topology.nodes.len());
        assert!(link.a != link.b && link.bandwidth > 0 && !link.delay.is_zero());
    }
    assert!(topology.nodes.iter().all(|n| n.asn.0 != 0));
    let part = topology.induced(&topology.largest_part());
    assert!(part.is_connected() && part.nodes.len() <= topology.nodes.len());
}

/// A file of any format.
pub fn text(octets: &[u8]) {
    match Topology::parse_text("fuzz", &String::from_utf8_lossy(octets)) {
        Ok(topology) => check(&topology),
        Err(error) => assert!(error.to_string().starts_with("fuzz: line ")),
    }
}

/// A word of a command line, if it asks for little: no number of more than two digits, and no file.
pub fn word(octets: &[u8]) {
    let word = String::from_utf8_lossy(octets);
    let is_small = word.split(|c: char| !c.is_ascii_digit()).all(|number| number.len() <= 2);
    let is_file = !word.contains(':') || word.contains('/');
    if is_small && !is_file {
        match Topology::parse_spec(&word, 1) {
            Ok(topology) => check(&topology),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn octets(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// AS relationships, of both series.
pub fn caida() -> Vec<Vec<u8>> {
    octets(&["# source:topology|BGP\n1|2|-1\n1|3|0\n", "1|2|-1|bgp\n70000|1|0|mlp\n"])
}

/// BRITE's format.
pub fn brite() -> Vec<Vec<u8>> {
    octets(&["Topology: ( 3 Nodes, 2 Edges )\nModel (3 - ASWaxman): 3 1000\n\nNodes: ( 3 )\n\
         0\t610\t997\t9\t9\t0\tAS_NODE\n1\t292\t419\t21\t21\t1\tAS_NODE\n2\t574\t798\t14\t14\t2\tAS_NODE\n\n\
         Edges: ( 2 )\n0\t2\t0\t202.2\t0.674\t0.5\t2\t0\tE_AS\tU\n1\t2\t1\t472.4\t-1\t10\t2\t1\tE_AS\tU\n"])
}

/// GraphML.
pub fn graphml() -> Vec<Vec<u8>> {
    octets(&["<?xml version=\"1.0\"?><graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
         <key attr.name=\"LinkSpeedRaw\" for=\"edge\" id=\"d3\"/><key attr.name=\"Latitude\" for=\"node\" id=\"d0\"/>\n\
         <key attr.name=\"Longitude\" for=\"node\" id=\"d1\"/><graph>\n\
         <node id=\"0\"><data key=\"d0\">52.5</data><data key=\"d1\">13.4</data></node>\n\
         <node id=\"1\"><data key=\"d0\">59.9</data><data key=\"d1\">17.6</data></node>\n\
         <edge source=\"0\" target=\"1\"><data key=\"d3\">1e9</data></edge>\n</graph></graphml>\n"])
}

/// Words, with every option.
pub fn words() -> Vec<Vec<u8>> {
    octets(&[
        "waxman:30,m=2,alpha=0.15,beta=0.2,bw=exp",
        "ba:40,m=3,bw=pareto,bw-min=1,bw-max=99",
        "glp:20,m=1,p=0.4,glp-beta=0.6,part=largest",
        "grid:5x4,top=9,relationships=hierarchy",
        "thesis:40",
        "ring:9",
        "mesh:9,relationships=none",
    ])
}
