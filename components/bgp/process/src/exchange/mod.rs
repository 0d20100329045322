//! Values that cross threads: messages, credits, watched values, and the queue of octets for a connection.

pub mod credit;
pub mod messages;
pub mod send_queue;
pub mod watch;
