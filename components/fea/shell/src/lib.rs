//! The forwarding engine abstraction: the process.
//!
//! * [`linux`]: the kernel as a forwarding engine, over netlink ([`netlink`]).
//! * [`broker`]: sockets for components that may not open them.

pub mod broker;
mod configuration;
mod ffi;
mod fib;
mod interfaces;
mod kernel;
pub mod linux;
pub mod netlink;
mod process;

pub use process::run;
