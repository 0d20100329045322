//! The Adj-RIB-Out: export policy, update groups with their advertised routes, and the packing of UPDATEs.

pub(super) mod branch;
pub(super) mod comparison;
pub(super) mod export;
pub(super) mod export_view;
pub(super) mod exporter;
pub(super) mod fill;
pub(super) mod filled;
pub(super) mod group;
pub(super) mod groups;
pub(super) mod item;
pub(super) mod next_hops;
pub(super) mod pack;
pub(super) mod path_choice;
pub(super) mod paths_out;
pub(super) mod reexport;
pub mod rules;
