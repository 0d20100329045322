//! The gateways that a resolution depends on.

use sluice_base::{Address, AnyPrefix};

/// A gateway that a walk looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookedUp {
    /// The gateway.
    pub gateway: Address,
    /// The length of the prefix that reaches the gateway; 0 if none does. Routes of shorter prefixes do not matter.
    pub len: u8,
    /// True if the gateway is on the subnet of an interface.
    pub is_on_link: bool,
}

impl LookedUp {
    /// Returns true if a route of `prefix` through the gateway would be the most specific route to the gateway itself.
    pub(crate) fn is_captured_by(self, prefix: AnyPrefix) -> bool {
        !self.is_on_link && self.len < prefix.len() && prefix.contains(self.gateway)
    }
}
