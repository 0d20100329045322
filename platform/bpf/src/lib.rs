//! XDP programs of the data plane: loading, attaching, pinning, and the maps that user space shares with them.
//!
//! The programs are C (`bpf/` at the root of the repository), compiled by the build script and embedded ([`embedded`]).
//! [`object`] loads one with its constants and shares maps between programs; [`attach`] attaches it to an interface;
//! [`pin`] keeps programs, maps and links on a bpffs while no process of ours runs; [`slots`] fills the slots of the
//! chain; [`counters`] and [`array`] are the maps as user space sees them; [`run`] runs a program on frames made by hand;
//! [`receiver`] receives frames by AF_XDP sockets, to which a program hands them.
//!
//! [`probe`] reports by name which features the kernel has. Where the BPF system call, a bpffs or the programs themselves
//! are missing, each function returns [`BpfError::NotAvailable`] with the reason in words.

pub mod array;
pub mod attach;
pub mod counters;
pub mod devices;
pub mod embedded;
mod error;
mod ffi;
pub mod layout;
pub mod object;
pub mod pin;
pub mod probe;
pub mod receiver;
pub mod run;
pub mod slots;

pub use attach::{Link, Mode};
pub use embedded::Embedded;
pub use error::{BpfError, VerifierLines};
pub use object::{Loaded, Loader};
pub use pin::Pins;
