//! The forwarding engine abstraction: the process.
//!
//! * [`linux`]: the kernel as a forwarding engine, over netlink.
//! * [`sockets`]: sockets for components that may not open them.

pub mod configuration;
mod ffi;
mod fib;
mod interfaces;
pub mod linux;
mod pages;
mod process;
pub mod sockets;

pub use process::run;
