//! The vocabulary that every boundary of Sluice speaks.
//!
//! Values only: prefixes, addresses, AS numbers, instants, next hops, route changes, interfaces. Nothing here does I/O,
//! reads a clock or draws randomness; the crate is `no_std`, so that it cannot. A value that crosses a component
//! boundary lives here; its encoding on the wire lives in `platform/xrl`.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod interest;
pub mod interface;
pub mod number;
pub mod prefix;
pub mod provenance;
pub mod rng;
pub mod route;
pub mod time;

pub use interface::{Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex};
pub use number::{Asn, Distance, Metric, RouterId, TableId, Tag};
pub use prefix::{Family, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
pub use provenance::Provenance;
pub use rng::Rng;
pub use route::{
    FibBatch, FibRoute, Forwarding, GroupId, NextHop, RouteAction, RouteBatch, RouteSet, RouteUpdate,
};
pub use time::{Duration, Instant};
