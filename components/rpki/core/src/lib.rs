//! Validated ROA payloads and ASPA payloads from RPKI caches, by the RPKI to Router protocol
//! (RTR, RFC 6810, RFC 8210 and draft-ietf-sidrops-8210bis): the pure core.
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | protocol data units: octets to values and back |
//! | [`serial`] | serial numbers that wrap around (RFC 1982) |
//! | [`session`] | the router's side of a session with one cache |
//! | [`transfer`] | the answer to a query, while it comes in |
//! | [`machine`] | all configured caches: which are connected, whose data are in effect |
//! | [`epoch`] | epochs of the data in effect, and their differences |
//! | [`handover`] | the state for a new process |
//! | [`exceptions`] | the operator's own payloads, and payloads that the operator rejects (RFC 8416) |
//! | [`settings`], [`event`], [`view`] | configuration, reports, state for operators |
//!
//! A cache's data take effect as a whole at End of Data. A lost cache's data stay in effect until another cache has sent all of its
//! data, or until they expire.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod epoch;
pub mod event;
pub mod exceptions;
pub mod handover;
pub mod machine;
pub mod serial;
pub mod session;
pub mod settings;
pub mod transfer;
pub mod view;
pub mod wire;
