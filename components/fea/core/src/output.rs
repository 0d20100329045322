//! The outputs of the core: operations of engines, and effects outside.

use crate::engine::{BesideId, EngineOp, ReplayStep};
use crate::event::Event;
use alloc::string::String;
use serde::{Deserialize, Serialize};
use sluice_base::{Family, InterfaceEvent, IpPrefix, Provenance, TableId};

/// An effect that the machine asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// The engine is to do this.
    Engine(EngineOp),
    /// One engine beside the authority is to get a step of its replay. Never among [`Output::Engine`] operations: an operation that the
    /// authority may yet refuse is not replayed.
    Replay(BesideId, ReplayStep),
    /// The engine is to report all that it holds.
    RequestSnapshot,
    /// Somebody outside is concerned.
    Effect(Effect),
}

/// The work outside the core and the engine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Effect {
    /// The owner of a route is to know that it is not installed, and why.
    Rejected {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The event that caused the route, where it is known.
        provenance: Provenance,
        /// The engine's own words.
        reason: String,
    },
    /// Subscribers are to know this about interfaces.
    Interface(InterfaceEvent),
    /// A resync is over.
    Resynced {
        /// The table.
        table: TableId,
        /// The family.
        family: Family,
        /// Routes that were announced again (or are new).
        kept: u64,
        /// Routes that were not.
        swept: u64,
    },
    /// Each route is where the last [`Input::SelectRoutes`](crate::Input::SelectRoutes) wants it.
    RoutesSelected,
    /// The log is to have this.
    Event(Event),
}

/// The receiver of the operations of a replay.
pub(crate) type Apply<'a> = &'a mut dyn FnMut(EngineOp);
