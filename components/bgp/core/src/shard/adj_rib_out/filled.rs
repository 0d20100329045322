//! What a member of an update group is owed when its buffer has been filled.

/// The result of filling a member's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// The limit was reached; there may be more.
    Full,
    /// All changes are advertised.
    Dry,
    /// All changes are advertised for the first time: the End-of-RIB marker is due (RFC 4724).
    EndOfRib,
    /// The route refresh of this number begins (RFC 7313).
    BeginOfRefresh(u32),
    /// All routes were advertised again in the route refresh of this number.
    EndOfRefresh(u32),
}
