//! The fast path by XDP: programs that forward the packets whose treatment they know, in front of the kernel.
//!
//! The chain of programs and its pins are in [`chain`], the tables' words in [`maps`]. A thread ([`watch`]) follows the host:
//! neighbors and foreign routes ([`facts`]), and settings that forbid the fast path ([`obstacles`], [`filter_chains`]).
//! [`fast_path`] puts them together, `switch` starts and stops the fast path as the configuration wants, `selection` keeps
//! external routes out of the kernel, and `service` answers for `show forwarding`.

pub mod chain;
pub mod facts;
pub mod fast_path;
pub mod filter_chains;
pub mod maps;
pub mod obstacles;
mod selection;
pub(crate) mod service;
pub(crate) mod switch;
pub mod watch;
