//! The vocabulary of every boundary of Sluice.
//!
//! Values only: prefixes, addresses, AS numbers, instants, next hops, route changes, interfaces. The crate is
//! `no_std`: no I/O, no clock, no randomness. Values that cross a component boundary live here; the encoding on the wire lives in
//! `platform/xrl`.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod address;
pub mod any_prefix;
pub mod component;
pub mod digest;
pub mod family;
pub mod interest;
pub mod interface;
pub mod ip;
pub mod mac;
pub mod next_hop;
pub mod number;
pub mod prefix;
pub mod printable;
pub mod provenance;
pub mod rng;
pub mod route;
pub mod time;
pub mod xid;
pub mod xid_prefix;

pub use address::{Address, Identifier};
pub use any_prefix::AnyPrefix;
pub use component::{class_of, component_name, component_of, instance_of};
pub use digest::{AnnouncedDigest, AnnouncedRoute, Digest, DigestKey};
pub use family::{Family, FamilyId, WrongFamily};
pub use interface::{Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex};
pub use ip::{IpKey, IpPrefix, Ipv4Prefix, Ipv6Prefix};
pub use mac::Mac;
pub use next_hop::{Encapsulation, Forwarding, NextHop};
pub use number::{Asn, Distance, Metric, RouterId, TableId, Tag};
pub use prefix::{Prefix, PrefixError};
pub use printable::{printable, printable_json, printable_lines};
pub use provenance::Provenance;
pub use rng::Rng;
pub use route::{
    FibBatch, FibRoute, GroupId, RouteAction, RouteBatch, RouteKind, RouteSet, RouteUpdate, Tags,
};
pub use time::{Duration, Instant};
pub use xid::{Xid, XidError, XidType};
pub use xid_prefix::XidPrefix;
