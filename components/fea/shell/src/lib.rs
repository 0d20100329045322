//! The forwarding engine abstraction: the process.
//!
//! * [`linux`]: the kernel as a forwarding engine, over netlink ([`netlink`]).
//! * [`broker`]: sockets for components that may not open them.

pub mod broker;
mod ffi;
pub mod linux;
pub mod netlink;
