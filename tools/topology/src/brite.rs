//! Files of the BRITE topology generator: how many nodes and links there are, the models, a line a node, a line a link.

use crate::error::{Problem, TopologyError};
use crate::plane::DEFAULT_DELAY;
use crate::{Link, Node, NodeId, Place, Relationship, Topology};
use sluice_base::{Asn, Duration};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// Reads BRITE's format. Its ASes are counted from 0, and AS 0 is nobody's (RFC 7607): every AS here is one higher, and those from
/// 23456 on two. Delays are in milliseconds and bandwidths in Mbit/s; where BRITE gave none (not above 0), the delay is one millisecond and the
/// bandwidth one bit a second.
pub(crate) fn parse(name: &str, text: &str) -> Result<Topology, TopologyError> {
    let mut lines =
        text.lines().enumerate().map(|(n, line)| (n + 1, line)).filter(|(_, l)| !l.trim().is_empty());
    let end = text.lines().count() + 1;
    let at = |line: usize| move |problem| TopologyError::Line { name: name.into(), line, problem };
    let mut heading = |word: &'static str| {
        // Models are named between the first line and the nodes.
        lines
            .find(|(_, l)| !l.starts_with("Model") && !l.starts_with("Topology:"))
            .map_or(Err(at(end)(Problem::Expected(word))), |(n, line)| {
                heading(line, word).map(|count| (n, count)).map_err(at(n))
            })
            .map(|(n, count)| (n, count, lines.by_ref().take(count).collect::<Vec<_>>()))
    };
    let (n, count, rows) = heading("Nodes: ( N )")?;
    if count > Topology::MOST_NODES {
        return Err(at(n)(Problem::TooMany(Topology::MOST_NODES, "nodes")));
    }
    let (mut nodes, mut numbers) = (Vec::new(), BTreeMap::new());
    for (n, line) in &rows {
        let (id, node) = node(line).map_err(at(*n))?;
        if numbers.insert(id.clone(), NodeId(nodes.len() as u32)).is_some() {
            return Err(at(*n)(Problem::RepeatedNode(id)));
        }
        nodes.push(node);
    }
    if rows.len() < count {
        return Err(at(end)(Problem::Count { said: count, what: "nodes", found: rows.len() }));
    }
    let (n, count, rows) = heading("Edges: ( M )")?;
    if count > Topology::MOST_LINKS {
        return Err(at(n)(Problem::TooMany(Topology::MOST_LINKS, "links")));
    }
    let (mut links, mut known) = (Vec::new(), BTreeSet::new());
    for (n, line) in &rows {
        let link = link(line, &numbers).map_err(at(*n))?;
        if !known.insert((link.a.min(link.b), link.a.max(link.b))) {
            let name = |id: NodeId| nodes[id.index()].name.clone();
            return Err(at(*n)(Problem::RepeatedLink(name(link.a), name(link.b))));
        }
        links.push(link);
    }
    if rows.len() < count {
        return Err(at(end)(Problem::Count { said: count, what: "edges", found: rows.len() }));
    }
    Ok(Topology { nodes, links })
}

/// The number in `Nodes: ( 5 )`.
fn heading(line: &str, expected: &'static str) -> Result<usize, Problem> {
    let word = expected.split(' ').next().unwrap_or_default();
    let count = line.strip_prefix(word).ok_or(Problem::Expected(expected))?;
    number(count.trim_matches([' ', '\t', '(', ')']), "a number")
}

fn number<T: FromStr>(text: &str, what: &'static str) -> Result<T, Problem> {
    text.parse().map_err(|_| Problem::Number { text: text.into(), what })
}

fn real(text: &str) -> Result<f64, Problem> {
    number(text, "a number").and_then(|value: f64| {
        if value.is_finite() { Ok(value) } else { Err(Problem::Number { text: text.into(), what: "finite" }) }
    })
}

/// `number x y in-degree out-degree AS type`
fn node(line: &str) -> Result<(String, Node), Problem> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [id, x, y, _, _, asn, ..] = fields[..] else {
        return Err(Problem::Expected("a node: number, x, y, degrees, AS, type"));
    };
    let zero_based: u32 = number(asn, "an AS number")?;
    let shift = if zero_based < Asn::TRANS.0 - 1 { 1 } else { 2 };
    let asn =
        zero_based.checked_add(shift).ok_or(Problem::Number { text: asn.into(), what: "an AS number" })?;
    let place = Place::Plane { x: real(x)?, y: real(y)? };
    Ok((id.into(), Node { asn: Asn(asn), name: id.into(), place: Some(place) }))
}

/// `number from to length delay bandwidth AS AS type direction`
fn link(line: &str, numbers: &BTreeMap<String, NodeId>) -> Result<Link, Problem> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, from, to, _, delay, bandwidth, ..] = fields[..] else {
        return Err(Problem::Expected("a link: number, from, to, length, delay, bandwidth"));
    };
    let end = |text: &str| numbers.get(text).copied().ok_or_else(|| Problem::UnknownNode(text.into()));
    let (a, b) = (end(from)?, end(to)?);
    if a == b {
        return Err(Problem::SelfLink(from.into()));
    }
    let (delay, bandwidth) = (real(delay)?, real(bandwidth)?);
    // Conversion from floats saturates.
    let delay = if delay > 0.0 { Duration::from_nanos((delay * 1e6) as u64) } else { DEFAULT_DELAY };
    let bandwidth = ((bandwidth * 1e6) as u64).max(1);
    Ok(Link { a, b, delay, bandwidth, relationship: Relationship::None })
}
