//! The cluster: many machines that forward as one router (Bianco et al., multistage software routers, 2006). The pure core.
//!
//! Balancers stand in front, an Ethernet switch between, routers behind. Neighbors see one router: a balancer leads a frame to
//! an element by rewriting the destination MAC address ([`frame`]), and rewrites the source of frames on the way back.
//!
//! | module | content |
//! |---|---|
//! | [`inventory`], [`settings`], [`mac`] | elements, roles, ports; the settings of an element; MAC addresses |
//! | [`frames`] | authenticated frames between elements: [`header`], [`hello`], [`announce`], [`neighbors`]; [`key`], [`replay`] |
//! | [`balancer`] | the machine that writes the maps of the program `balance` ([`words`], [`lines`]): the table from flows to elements ([`maglev`]) and the flow hash ([`flow`]); the program's rules in Rust, for tests and simulations ([`decision`], [`resolution`]) |
//! | [`elements`] | the machine of an element ([`machine`]): [`io`], [`membership`], [`event`]; the balancer inside it ([`front`]) |
//! | [`publisher`], [`replica`], [`requests`] | neighbors, from the control plane to all elements |
//! | [`roster`] | drained, removed and replaced elements, as all elements share them through the store |
//! | [`stream`] | the routes of the control plane's RIB, on their way through a store to all elements |
//! | [`configuration`] | the configuration that all elements share, decided by one write into the store |
//! | [`console`] | the calls that an element carries out for operators of others |
//! | [`server`] | the server of the store on an element |
//! | [`totals`] | counters of all elements, added up |
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod balancer;
pub mod configuration;
pub mod elements;
pub mod frames;
pub mod inventory;
pub mod mac;
pub mod settings;
pub mod stream;

pub use balancer::{classes, decision, flow, lines, maglev, policy, reason, resolution, words};
pub use elements::{
    console, event, front, io, machine, membership, publisher, replica, requests, roster, server, totals,
};
pub use frames::{announce, frame, header, hello, key, neighbors, replay, signed, sip};
