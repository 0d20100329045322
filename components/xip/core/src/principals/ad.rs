//! Autonomous domains: this host is in a domain, or the domain is behind a gateway.

use super::table::{PLACE, Rules};

/// Local domains are dug through; the rest are redirected to a gateway of any other type.
pub const RULES: Rules = Rules { local: PLACE, takes_redirects: true, takes_neighbors: false };
