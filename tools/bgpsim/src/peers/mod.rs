//! The client's peers: their connections, the threads that write and read them, and peers that are no senders or receivers.

pub mod aloof;
pub mod brake;
pub mod reader;
pub mod relay;
pub mod sender;
pub mod session;
pub(crate) mod signals;
