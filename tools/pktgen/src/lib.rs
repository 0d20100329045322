//! The packet generator, its sink, and replay of captures.
//!
//! [`Generator`] sends numbered packets at the rate that the kernel reaches: an XDP program (`bpf/pktgen.bpf.c`) writes
//! each frame, UDP over IP or XIP, and the kernel sends it out of an interface. [`Sink`] is the other end (`bpf/sink.bpf.c`): it counts the
//! packets of a stream and finds losses, duplicates and reordering by their numbers. [`Replay`] sends the frames of a
//! capture in their own timing by a packet socket.
//!
//! All three work in the network namespace of the calling thread (`sluice_lab::Lab::inside`). Sending is refused
//! outside of labs unless the caller names the interface again ([`permit`]).
//!
//! ```no_run
//! # fn main() -> Result<(), sluice_pktgen::PktgenError> {
//! use sluice_pktgen::{Generator, Spec};
//! let mut spec = Spec::udp("eth0", [2, 0, 0, 0, 0, 1], "10.0.0.1".parse().unwrap(), vec!["10.9.0.1".parse().unwrap()]);
//! spec.limit = std::num::NonZeroU64::new(1_000_000);
//! let running = Generator::new(spec).start()?;
//! running.wait(None);
//! println!("{} packets", running.stop()?.packets);
//! # Ok(()) }
//! ```
//!
//! The user's guide is `docs/pktgen.md`.

#![warn(clippy::disallowed_macros)]

pub mod capture;
mod cli;
pub mod destinations;
mod error;
mod ffi;
mod generator;
pub mod headers;
pub mod permit;
pub mod raw;
mod replay;
mod report;
mod signals;
mod sink;
mod spec;
mod xip;

pub use cli::{PktgenCommand, run};
pub use error::PktgenError;
pub use generator::{Generator, Running, Sent};
pub use replay::{Pace, Replay, Replayed};
pub use sink::{DEFAULT_WINDOW, Sink, lost};
pub use spec::{Content, MOST_FLOWS, Spec, Udp, Xip};
pub use xip::{XipFormat, domain, unknown_domain};
