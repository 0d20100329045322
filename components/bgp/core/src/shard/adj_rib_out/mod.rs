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

pub(crate) use branch::Branch;
pub(crate) use export::{Exported, put_address};
pub use export_view::{DefaultRoute, ExportView, OtherAs, Reflection, SentCommunities, SentPaths};
pub(crate) use exporter::Exporter;
pub use filled::Filled;
pub(crate) use groups::AdjRibOut;
pub(crate) use item::{Item, OutcomeId, Source};
pub use next_hops::NextHopsFor;
pub use pack::Sent;
pub(crate) use paths_out::Paths;
pub(crate) use rules::Announced;
