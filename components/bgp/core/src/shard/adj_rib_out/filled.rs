//! The state of a member of an update group after filling the buffer.

/// The result of filling a member's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// The limit was reached; there may be more.
    Full,
    /// Every change is advertised.
    Dry,
    /// Every change is advertised for the first time: the End-of-RIB marker is due (RFC 4724).
    EndOfRib,
    /// The route refresh of this number begins (RFC 7313).
    BeginOfRefresh(u32),
    /// Every route was advertised again in the route refresh of this number.
    EndOfRefresh(u32),
}
