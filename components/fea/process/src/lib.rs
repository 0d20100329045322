//! The forwarding engine abstraction: the process.
//!
//! * [`linux`]: the kernel as a forwarding engine, over netlink ([`netlink`]).
//! * [`sockets`]: sockets for components that may not open them: opened by [`broker`], handed over by [`descriptors`], or
//!   kept with their packets relayed ([`relay`]).

pub mod broker;
pub mod configuration;
pub mod descriptors;
mod ffi;
mod fib;
mod interfaces;
mod kernel;
pub mod leftovers;
pub mod linux;
pub mod netlink;
mod process;
pub mod relay;
pub mod sockets;

pub use process::run;
