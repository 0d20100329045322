//! GraphML as the Internet Topology Zoo writes it: keys for `label`, `Latitude`, `Longitude` of nodes and `LinkSpeedRaw` of links.

use crate::error::{Problem, TopologyError};
use crate::plane::{self, DEFAULT_BANDWIDTH};
use crate::{Link, Node, NodeId, Place, Relationship, Topology};
use roxmltree::{Document, Node as Element};
use std::collections::BTreeMap;

/// Reads GraphML. Every node is an AS of its own, numbered from 1. Links of a node to itself are left out; of several
/// links between the same two nodes the first counts, with the highest of the bandwidths. A link without a speed has 1
/// Gbit/s; the delay comes from the distance where known.
pub(crate) fn parse(name: &str, text: &str) -> Result<Topology, TopologyError> {
    let document = Document::parse(text).map_err(|error| TopologyError::Line {
        name: name.into(),
        line: error.pos().row as usize,
        problem: Problem::Xml(error.to_string()),
    })?;
    let at = |element: Element<'_, '_>, problem| TopologyError::Line {
        name: name.into(),
        line: document.text_pos_at(element.range().start).row as usize,
        problem,
    };
    let root = document.root_element();
    let keys = keys(root);
    let graph = root.children().find(|e| e.has_tag_name_of("graph"));
    let graph = graph.ok_or_else(|| at(root, Problem::Expected("a graph in the file's graphml")))?;
    let mut numbers = BTreeMap::new();
    let mut topology = Topology::default();
    for element in graph.children().filter(|e| e.has_tag_name_of("node")) {
        let id = element.attribute("id").ok_or_else(|| at(element, Problem::Expected("a node's id")))?;
        if topology.nodes.len() >= Topology::MOST_NODES {
            return Err(at(element, Problem::TooMany(Topology::MOST_NODES, "nodes")));
        }
        let number = NodeId(topology.nodes.len() as u32);
        if numbers.insert(id, number).is_some() {
            return Err(at(element, Problem::RepeatedNode(id.into())));
        }
        topology.nodes.push(node(element, &keys, number).map_err(|problem| at(element, problem))?);
    }
    let mut known: BTreeMap<(NodeId, NodeId), usize> = BTreeMap::new();
    for element in graph.children().filter(|e| e.has_tag_name_of("edge")) {
        let end = |name: &'static str| {
            let id = element.attribute(name).ok_or(Problem::Expected("an edge's source and target"))?;
            numbers.get(id).copied().ok_or_else(|| Problem::UnknownNode(id.into()))
        };
        let ends = end("source").and_then(|a| Ok((a, end("target")?)));
        let (a, b) = ends.map_err(|problem| at(element, problem))?;
        if a == b {
            continue;
        }
        let bandwidth = number(element, &keys, "LinkSpeedRaw").map_err(|problem| at(element, problem))?;
        // Conversion from floats saturates; a speed of 0 is none that anybody measured.
        let bandwidth = bandwidth.map(|b| b as u64).filter(|b| *b > 0).unwrap_or(DEFAULT_BANDWIDTH);
        let next = topology.links.len();
        let place = *known.entry((a.min(b), a.max(b))).or_insert(next);
        if let Some(link) = topology.links.get_mut(place) {
            link.bandwidth = link.bandwidth.max(bandwidth);
            continue;
        }
        if next >= Topology::MOST_LINKS {
            return Err(at(element, Problem::TooMany(Topology::MOST_LINKS, "links")));
        }
        let delay = plane::delay(&topology.nodes[a.index()], &topology.nodes[b.index()]);
        topology.links.push(Link { a, b, delay, bandwidth, relationship: Relationship::None });
    }
    Ok(topology)
}

/// Elements by their local name: namespaces vary between files.
trait LocalName {
    fn has_tag_name_of(&self, name: &str) -> bool;
}

impl LocalName for Element<'_, '_> {
    fn has_tag_name_of(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

/// The meanings of data's keys: (key of, name) by id.
type Keys<'a> = BTreeMap<&'a str, &'a str>;

fn keys<'a>(root: Element<'a, '_>) -> Keys<'a> {
    let keys = root.children().filter(|e| e.has_tag_name_of("key"));
    keys.filter_map(|e| Some((e.attribute("id")?, e.attribute("attr.name")?))).collect()
}

fn text<'a>(element: Element<'a, '_>, keys: &Keys<'_>, name: &str) -> Option<&'a str> {
    let mut data = element.children().filter(|e| e.has_tag_name_of("data"));
    let datum = data.find(|e| e.attribute("key").is_some_and(|key| keys.get(key) == Some(&name)))?;
    datum.text().map(str::trim)
}

fn number(element: Element<'_, '_>, keys: &Keys<'_>, name: &str) -> Result<Option<f64>, Problem> {
    let Some(text) = text(element, keys, name) else { return Ok(None) };
    let number: Option<f64> = text.parse().ok();
    match number.filter(|n| n.is_finite()) {
        Some(number) => Ok(Some(number)),
        None => Err(Problem::Number { text: text.into(), what: "a number" }),
    }
}

fn node(element: Element<'_, '_>, keys: &Keys<'_>, id: NodeId) -> Result<Node, Problem> {
    let (latitude, longitude) = (number(element, keys, "Latitude")?, number(element, keys, "Longitude")?);
    let place = latitude.zip(longitude).map(|(latitude, longitude)| Place::Earth { latitude, longitude });
    let asn = plane::asn_of(id.index());
    let label = text(element, keys, "label").filter(|label| !label.is_empty());
    let name = label.map_or_else(|| format!("as{}", asn.0), Into::into);
    Ok(Node { asn, name, place })
}
