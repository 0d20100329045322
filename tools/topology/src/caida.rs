//! CAIDA's AS relationships: `provider|customer|-1` or `peer|peer|0`, in serial-2 with a fourth field for the source of
//! the relationship. Lines beginning with `#` are remarks.

use crate::error::{Problem, TopologyError};
use crate::plane::{DEFAULT_BANDWIDTH, DEFAULT_DELAY};
use crate::{Link, Node, NodeId, Relationship, Topology};
use sluice_base::Asn;
use std::collections::{BTreeMap, BTreeSet};

/// Reads AS relationships. Nodes are in the order of their AS numbers. Delay and bandwidth are unknown: every link has
/// the defaults.
pub(crate) fn parse(name: &str, text: &str) -> Result<Topology, TopologyError> {
    let mut links = Vec::new();
    let mut known = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let at = |problem| TopologyError::Line { name: name.into(), line: number + 1, problem };
        let (a, b, relationship) = relation(line).map_err(at)?;
        if a == b {
            return Err(at(Problem::SelfLink(a.to_string())));
        }
        if !known.insert((a.min(b), a.max(b))) {
            return Err(at(Problem::RepeatedLink(a.to_string(), b.to_string())));
        }
        if links.len() >= Topology::MOST_LINKS {
            return Err(at(Problem::TooMany(Topology::MOST_LINKS, "links")));
        }
        links.push((a, b, relationship));
    }
    let mut numbers: BTreeMap<Asn, NodeId> =
        links.iter().flat_map(|(a, b, _)| [*a, *b]).map(|a| (a, NodeId(0))).collect();
    if numbers.is_empty() {
        let problem = Problem::Expected("AS|AS|-1 or AS|AS|0, GraphML, or a topology of BRITE's");
        return Err(TopologyError::Line { name: name.into(), line: text.lines().count() + 1, problem });
    }
    if numbers.len() > Topology::MOST_NODES {
        let problem = Problem::TooMany(Topology::MOST_NODES, "nodes");
        return Err(TopologyError::Line { name: name.into(), line: text.lines().count(), problem });
    }
    for (number, id) in numbers.values_mut().enumerate() {
        *id = NodeId(number as u32);
    }
    let nodes = numbers.keys().map(|asn| Node { asn: *asn, name: format!("as{}", asn.0), place: None });
    let links = links.iter().map(|(a, b, relationship)| Link {
        a: numbers[a],
        b: numbers[b],
        delay: DEFAULT_DELAY,
        bandwidth: DEFAULT_BANDWIDTH,
        relationship: *relationship,
    });
    Ok(Topology { nodes: nodes.collect(), links: links.collect() })
}

/// Both ends, the customer first, and what the first is to the second.
fn relation(line: &str) -> Result<(Asn, Asn, Relationship), Problem> {
    let mut fields = line.trim_end().split('|');
    let mut field = || fields.next().ok_or(Problem::Expected("AS|AS|-1 or AS|AS|0"));
    let asn = |text: &str| {
        let asn = text.parse().ok().map(Asn).filter(|a| a.0 != 0 && *a != Asn::TRANS);
        asn.ok_or_else(|| Problem::Number { text: text.into(), what: "an AS number" })
    };
    let (a, b) = (asn(field()?)?, asn(field()?)?);
    match field()? {
        "-1" => Ok((b, a, Relationship::CustomerOf)),
        "0" => Ok((a, b, Relationship::Peer)),
        other => Err(Problem::Number { text: other.into(), what: "-1 (provider of) or 0 (peer)" }),
    }
}
