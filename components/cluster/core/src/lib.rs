//! The cluster: many machines that forward as one router (Bianco et al., multistage software routers, 2006). The pure core.
//!
//! Balancers stand in front, an Ethernet switch between, routers behind. Neighbors see one router: a balancer leads a frame to
//! an element by rewriting the destination MAC address ([`frame`]), and rewrites the source of frames on the way back.
//!
//! | module | content |
//! |---|---|
//! | [`inventory`] | elements, roles, ports |
//! | [`header`], [`hello`], [`announce`] | authenticated frames between elements; [`key`], [`replay`] |
//! | [`maglev`], [`flow`] | the table from flows to elements, and the flow hash |
//! | [`balancer`] | the machine that writes the maps of the program `balance` ([`words`], [`lines`]) |
//! | [`machine`] | the machine of an element: [`io`], [`settings`], [`membership`], [`event`] |
//! | [`neighbors`], [`publisher`], [`replica`], [`requests`] | neighbors, from the control plane to all elements |
//! | [`roster`] | drained, removed and replaced elements, as all elements share them through the store |
//! | [`stream`] | the routes of the control plane's RIB, on their way through a store to all elements |
//! | [`configuration`] | the configuration that all elements share, decided by one write into the store |
//! | [`console`] | the calls that an element carries out for operators of others |
//! | [`server`] | the server of the store on an element |
//! | [`totals`] | counters of all elements, added up |
//! | [`front`] | the balancer inside an element's machine |
//! | [`decision`], [`resolution`] | the program's rules in Rust, for tests and simulations |
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod announce;
pub mod balancer;
pub mod classes;
pub mod configuration;
pub mod console;
pub mod decision;
pub mod event;
pub mod flow;
pub mod frame;
pub mod front;
pub mod header;
pub mod hello;
pub mod inventory;
pub mod io;
pub mod key;
pub mod lines;
pub mod mac;
pub mod machine;
pub mod maglev;
pub mod membership;
pub mod neighbors;
pub mod policy;
pub mod publisher;
pub mod reason;
pub mod replay;
pub mod replica;
pub mod requests;
pub mod resolution;
pub mod roster;
pub mod server;
pub mod settings;
pub mod signed;
pub mod sip;
pub mod stream;
pub mod totals;
pub mod words;
