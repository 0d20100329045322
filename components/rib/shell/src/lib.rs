//! The routing information base: the process.
