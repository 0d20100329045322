//! Routing tables from files, and daemon configurations that announce them: what the demo and the benchmarks feed routers with.

pub mod bird;
pub mod source;
pub mod table;

pub use source::TableSource;
pub use table::{Announcement, RoutingTable};
