//! The fast path by XDP: programs that forward the packets whose treatment they know, in front of the kernel.
//!
//! The chain of programs and its pins are in [`chain`], the tables' words in [`maps`]. A thread ([`watch`]) follows the host:
//! neighbors and foreign routes ([`facts`]), and settings that forbid the fast path ([`settings`], [`filter_chains`], [`receivers`]).
//! [`fast_path`] puts them together, `control` starts and stops the fast path as the configuration wants, `selection` keeps
//! external routes out of the kernel, and `service` answers for `show forwarding`. `audit` finds and mends damaged words of the
//! maps. Other components have programs in the chain by `programs`, and AF_XDP sockets for these programs by `frame_sockets`;
//! interfaces of a program for frames to all stations receive such frames by `promiscuity`.

pub(crate) mod audit;
pub mod chain;
pub(crate) mod control;
pub mod facts;
pub mod fast_path;
pub mod filter_chains;
mod frame_sockets;
pub mod maps;
pub(crate) mod programs;
mod promiscuity;
pub mod receivers;
mod selection;
pub(crate) mod service;
pub mod settings;
pub mod watch;
