//! The particulars of a leaf: its second value, and the effects beyond those of its class.

use crate::impact::network::Network;

/// The particulars of a leaf.
pub struct Special {
    /// The second value.
    pub value: Option<&'static str>,
    /// The neighbor, if not the external neighbor with IPv4.
    pub on: Option<&'static str>,
    /// The statements there and back, if not `set` and `delete` of the leaf alone.
    pub statements: Option<(&'static [&'static str], &'static [&'static str])>,
    /// Prefixes that must appear in UPDATEs to neighbors, there and back.
    pub sent: &'static [&'static str],
    /// Routes that are to change in the kernel, there and back.
    pub kernel: &'static [&'static str],
    /// Routes that may change in the kernel.
    pub may: &'static [&'static str],
    /// Neighbors without a session until the way back.
    pub down: &'static [&'static str],
    /// The change in the outer neighbor's configuration needed for a session.
    pub partner: Option<(&'static str, &'static str)>,
    /// Returns true if the second value is in force, where visible beyond the effects of the leaf's class.
    pub proof: Option<fn(&Network) -> bool>,
}

/// A leaf without particulars.
pub const PLAIN: Special = Special {
    value: None,
    on: None,
    statements: None,
    sent: &[],
    kernel: &[],
    may: &[],
    down: &[],
    partner: None,
    proof: None,
};

/// A leaf with another second value.
pub const fn value(value: &'static str) -> Special {
    Special { value: Some(value), ..PLAIN }
}

/// A leaf of a list whose entry comes with these statements, and goes.
pub const fn entry(there: &'static [&'static str], back: &'static [&'static str]) -> Special {
    Special { statements: Some((there, back)), ..PLAIN }
}
