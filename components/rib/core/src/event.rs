//! The events that the RIB reports.

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, FamilyId, TableId};

/// An event for the operator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// An unregistered origin sent routes; they were dropped.
    UnknownOrigin {
        /// The table.
        table: TableId,
        /// The origin's name in the call.
        origin: String,
    },
    /// A batch refers to a set that it does not contain; the route was dropped.
    BadSet {
        /// The sender.
        origin: String,
        /// The prefix.
        prefix: AnyPrefix,
    },
    /// An origin's process ended; its routes are kept as stale.
    OriginStale {
        /// The table.
        table: TableId,
        /// The origin.
        origin: String,
        /// Number of stale routes.
        routes: u64,
    },
    /// Routes that an origin did not announce again were removed.
    OriginSwept {
        /// The table.
        table: TableId,
        /// The origin.
        origin: String,
        /// The number of routes removed.
        routes: u64,
    },
    /// A guarded stage broke a rule; its output is dropped, and the stage is removed.
    StageIsolated {
        /// The table.
        table: TableId,
        /// The stage's name.
        stage: String,
        /// The rule and the prefix.
        rule: String,
    },
    /// Routes of a family without tables arrived from a different process; they were dropped.
    UnknownFamily {
        /// The family.
        family: FamilyId,
        /// The origin of the routes.
        origin: String,
    },
}

impl Event {
    /// The event's stable name (docs/events.md).
    pub fn id(&self) -> &'static str {
        match self {
            Event::UnknownOrigin { .. } => "rib.routes.unknown-origin",
            Event::BadSet { .. } => "rib.routes.bad-set",
            Event::OriginStale { .. } => "rib.routes.stale",
            Event::OriginSwept { .. } => "rib.routes.swept",
            Event::StageIsolated { .. } => "rib.stage.isolated",
            Event::UnknownFamily { .. } => "rib.routes.unknown-family",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::UnknownOrigin { table, origin } => {
                write!(f, "routes from {origin} for table {table} dropped: it must register first")
            }
            Event::BadSet { origin, prefix } => {
                write!(f, "route {prefix} from {origin} dropped: its set is not in the batch")
            }
            Event::OriginStale { table, origin, routes } => {
                write!(f, "{origin} is gone, its routes in table {table} are stale ({routes})")
            }
            Event::OriginSwept { table, origin, routes } => {
                write!(f, "stale routes of {origin} removed from table {table} ({routes})")
            }
            Event::StageIsolated { table, stage, rule } => {
                write!(f, "stage {stage} of table {table} broke a rule and is taken out: {rule}")
            }
            Event::UnknownFamily { family, origin } => {
                write!(f, "routes of {origin} dropped: this RIB has no tables of the family {family}")
            }
        }
    }
}
