//! Entries: the paths of a prefix, with attribute sets and announcing peers.

pub(super) mod adj_rib_in;
pub(super) mod entries;
pub(super) mod lanes;
pub(super) mod lists;
pub(super) mod pages;
pub(super) mod path;
pub(super) mod peer_in;
pub(super) mod sets;

pub(crate) use adj_rib_in::AdjRibIn;
pub(crate) use entries::{Entries, Entry};
pub(crate) use lanes::Lanes;
pub(crate) use pages::Pages;
pub use path::PeerIndex;
pub(crate) use path::{Path, PathNumber, Restored};
pub(crate) use peer_in::PeerIn;
pub use peer_in::{PeerInfo, Retention, RouteSource};
pub(crate) use sets::{PathSet, SetId, Sets};
