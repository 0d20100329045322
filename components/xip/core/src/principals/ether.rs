//! Ethernet: this host's interfaces, and the neighbors on them.

use super::table::{PLACE, Rules};

/// Interfaces are dug through; neighbors get the packet. There is nothing below a link to redirect to.
pub const RULES: Rules = Rules { local: PLACE, takes_redirects: false, takes_neighbors: true };
