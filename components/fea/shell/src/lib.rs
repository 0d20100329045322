//! The forwarding engine abstraction: the process.
