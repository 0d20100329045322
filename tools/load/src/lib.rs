//! Routing tables from files, daemon configurations that announce them, and what routers then say that they have: what the demo
//! and the benchmarks feed routers with.

pub mod bird;
pub mod counts;
pub mod source;
pub mod table;

pub use counts::wide;
pub use source::TableSource;
pub use table::{Announcement, RoutingTable};
