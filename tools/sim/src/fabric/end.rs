//! The ends of connections, by number.

/// An end of a connection. Places of connections are reused; the generation distinguishes a place's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndRef {
    /// The connection's place.
    pub connection: u32,
    /// The connection's generation.
    pub generation: u32,
    /// 0: the connecting side; 1: the listening side.
    pub end: u8,
}

impl EndRef {
    /// Returns the opposite end.
    pub const fn other(self) -> Self {
        EndRef { end: 1 - self.end, ..self }
    }
}
