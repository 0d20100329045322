//! XIP: the pure core (Linux XIA, ANCS 2015).
//!
//! A packet's destination is a graph of XIDs. The router tries the edges of the node that the packet reached last, in order
//! of priority, and asks the principal of each XID for a decision. Principals are independent of each other, come and go at
//! run time, and may redirect the router to an XID of another principal.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod anchor;
pub mod answer;
pub mod answers;
pub mod cache;
pub mod counters;
pub mod early;
pub mod forest;
pub mod forwarding;
pub mod io;
pub mod links;
pub mod machine;
pub mod neighbors;
pub mod outside;
pub mod outsiders;
pub mod ports;
pub mod principals;
pub mod registry;
pub mod requests;
pub mod route;
pub mod router;
pub mod row;
mod waiting;
pub mod walk;
pub mod wire;

pub use answer::{Action, Answer};
pub use row::{Edge, Row};
