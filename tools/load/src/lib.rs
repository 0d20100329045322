//! Routing tables from files, daemon configurations to announce the tables, and the routers' counts of received routes:
//! the input of the demo and the benchmarks.

#![warn(clippy::disallowed_macros)]

pub mod bird;
pub mod counts;
pub mod payloads;
pub mod source;
pub mod table;

pub use counts::wide;
pub use source::TableSource;
pub use table::{Announcement, RoutingTable};
