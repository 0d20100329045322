//! Hosts: this host's own XIDs (one or more), neighbors, and hosts behind a gateway.

use super::table::{PLACE, Rules};

/// Own XIDs are dug through; neighbors get the packet; redirects leave the link layer to a principal of its own.
pub const RULES: Rules = Rules { local: PLACE, takes_redirects: true, takes_neighbors: true };
