//! The forwarding engine abstraction: the process.
//!
//! * [`linux`]: the kernel as a forwarding engine, over netlink.
//! * [`sockets`]: sockets for components that may not open them.

pub mod comparison;
pub mod configuration;
mod ffi;
mod fib;
mod filter;
mod interfaces;
mod links;
pub mod linux;
mod pages;
mod process;
pub mod sockets;
pub mod xdp;

pub use process::run;
