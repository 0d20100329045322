//! Topologies in files, recognized by their content.

use crate::{Topology, TopologyError, brite, caida, graphml};
use sluice_load::source;
use std::path::Path;

/// Reads a file: unpacks the file if the name ends in a packer's suffix, then recognizes the format.
pub(crate) fn read(path: &Path) -> Result<Topology, TopologyError> {
    let wrong = |reason: String| TopologyError::File { path: path.into(), reason };
    let octets = source::unpacked(path).map_err(|error| {
        let known = error.downcast_ref::<std::io::Error>().map(ToString::to_string);
        wrong(known.unwrap_or_else(|| error.root_cause().to_string()))
    })?;
    let text =
        String::from_utf8(octets).map_err(|_| wrong("neither text nor packed as by its name".into()))?;
    parse(&path.display().to_string(), &text)
}

impl Topology {
    /// Parses the topology in a text: GraphML, BRITE's, or CAIDA's AS relationships, recognized by the beginning of the
    /// text. `name` names the text in errors.
    pub fn parse_text(name: &str, text: &str) -> Result<Self, TopologyError> {
        parse(name, text)
    }
}

fn parse(name: &str, text: &str) -> Result<Topology, TopologyError> {
    let begin = text.trim_start_matches('\u{feff}').trim_start();
    if begin.starts_with('<') {
        graphml::parse(name, text)
    } else if begin.starts_with("Topology:") {
        brite::parse(name, text)
    } else {
        caida::parse(name, text)
    }
}
