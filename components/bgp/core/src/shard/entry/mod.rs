//! Entries: the paths of a prefix, their attribute sets, and the peers that announced them.

pub(super) mod entries;
pub(super) mod lanes;
pub(super) mod lists;
pub(super) mod pages;
pub(super) mod path;
pub(super) mod peer_in;
pub(super) mod sets;
