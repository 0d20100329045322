//! The outputs of the core: operations of engines, and effects outside.

use crate::engine::{BesideId, EngineOp, ReplayStep};
use crate::event::Event;
use alloc::string::String;
use serde::{Deserialize, Serialize};
use sluice_base::{Family, InterfaceEvent, IpPrefix, Provenance, TableId};

/// An effect requested by the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// An operation for the engine.
    Engine(EngineOp),
    /// A step of a replay, for an engine beside the authority. Never among [`Output::Engine`] operations: an operation that
    /// the authority may still refuse is not replayed.
    Replay(BesideId, ReplayStep),
    /// Requests a snapshot of the engine.
    RequestSnapshot,
    /// A message for a client.
    Effect(Effect),
}

/// The work outside the core and the engine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Effect {
    /// A report for the owner of a route that is not installed, with the reason.
    Rejected {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The event that caused the route, if known.
        provenance: Provenance,
        /// The engine's own words.
        reason: String,
    },
    /// A notification about interfaces, for subscribers.
    Interface(InterfaceEvent),
    /// A resync is over.
    Resynced {
        /// The table.
        table: TableId,
        /// The family.
        family: Family,
        /// The number of routes announced again (or new).
        kept: u64,
        /// The number of swept routes.
        swept: u64,
    },
    /// Each route is placed as in the last [`Input::SelectRoutes`](crate::Input::SelectRoutes).
    RoutesSelected,
    /// An entry for the log.
    Event(Event),
}

/// The receiver of the operations of a replay.
pub(crate) type Apply<'a> = &'a mut dyn FnMut(EngineOp);
