//! Files of the BRITE topology generator: how many nodes and links there are, the models, a line a node, a line a link.

use crate::error::{Problem, TopologyError};
use crate::plane::DEFAULT_DELAY;
use crate::{Link, Node, NodeId, Place, Relationship, Topology};
use sluice_base::{Asn, Duration};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Enumerate;
use std::str::{FromStr, Lines};

/// Reads BRITE's format. BRITE counts ASes from 0, and AS 0 is reserved (RFC 7607): every AS here is higher by one, and
/// from 23456 on by two. Delays are in milliseconds and bandwidths in Mbit/s; where BRITE gave none (not above 0), the
/// delay is 1 ms and the bandwidth 1 bit/s.
pub(crate) fn parse(name: &str, text: &str) -> Result<Topology, TopologyError> {
    let mut file = File { name, text, lines: text.lines().enumerate() };
    let (mut nodes, mut numbers) = (Vec::new(), BTreeMap::new());
    for (n, line) in file.section("Nodes: ( N )", "nodes", Topology::MOST_NODES)? {
        let (id, node) = node(line).map_err(|problem| file.wrong(n, problem))?;
        if numbers.insert(id.clone(), NodeId(nodes.len() as u32)).is_some() {
            return Err(file.wrong(n, Problem::RepeatedNode(id)));
        }
        nodes.push(node);
    }
    let (mut links, mut known) = (Vec::new(), BTreeSet::new());
    for (n, line) in file.section("Edges: ( M )", "edges", Topology::MOST_LINKS)? {
        let link = link(line, &numbers).map_err(|problem| file.wrong(n, problem))?;
        if !known.insert((link.a.min(link.b), link.a.max(link.b))) {
            let name = |id: NodeId| nodes[id.index()].name.clone();
            return Err(file.wrong(n, Problem::RepeatedLink(name(link.a), name(link.b))));
        }
        links.push(link);
    }
    Ok(Topology { nodes, links })
}

/// A file, read up to some line.
struct File<'t> {
    name: &'t str,
    text: &'t str,
    lines: Enumerate<Lines<'t>>,
}

impl<'t> File<'t> {
    /// Makes the error of a line, counted from 0.
    fn wrong(&self, line: usize, problem: Problem) -> TopologyError {
        TopologyError::Line { name: self.name.into(), line: line + 1, problem }
    }

    /// The lines under the next heading, as many as it announces, which are at most `most`.
    fn section(
        &mut self,
        expected: &'static str,
        what: &'static str,
        most: usize,
    ) -> Result<Vec<(usize, &'t str)>, TopologyError> {
        let end = self.text.lines().count();
        // Models are named between the first line and the nodes.
        let mut lines = self.lines.by_ref().filter(|(_, line)| {
            !line.trim().is_empty() && !line.starts_with("Model") && !line.starts_with("Topology:")
        });
        let Some((n, line)) = lines.next() else {
            return Err(self.wrong(end, Problem::Expected(expected)));
        };
        let said = match heading(line, expected) {
            Ok(said) if said <= most => said,
            Ok(_) => return Err(self.wrong(n, Problem::TooMany(most, what))),
            Err(problem) => return Err(self.wrong(n, problem)),
        };
        let rows: Vec<(usize, &str)> = lines.take(said).collect();
        if rows.len() < said {
            return Err(self.wrong(end, Problem::Count { said, what, found: rows.len() }));
        }
        Ok(rows)
    }
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
    let delay = if delay > 0.0 { Duration::from_nanos(((delay * 1e6) as u64).max(1)) } else { DEFAULT_DELAY };
    let bandwidth = ((bandwidth * 1e6) as u64).max(1);
    Ok(Link { a, b, delay, bandwidth, relationship: Relationship::None })
}
