//! Inputs and outputs of the RIB, and its state for the replacing process.

use crate::clients::interest::WatcherId;
use crate::clients::presence::Presence;
use crate::clients::subscriber::SubscriptionId;
use crate::entry::origin::OriginSettings;
use crate::event::Event;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::Interface;
use sluice_base::{Address, AnyPrefix, DigestKey, FamilyId, InterfaceEvent, Provenance, RouteBatch, TableId};

/// An event that the RIB handles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// An origin registers, or the next life of its process.
    RegisterOrigin(TableId, OriginSettings),
    /// An origin's process is gone.
    OriginDied(TableId, String),
    /// An origin withdraws its routes.
    UnregisterOrigin(TableId, String),
    /// An origin has announced its whole table.
    EndOfRefresh(TableId, String),
    /// An origin leaves a note for its next process. A note of more than [`crate::entry::origin::MAX_NOTE`] octets removes the note.
    OriginNote(TableId, String, Vec<u8>),
    /// An origin declares a gateway usable or unusable. While a gateway is unusable, the origin's routes with further
    /// next hops, including backups, use these.
    GatewayUsable(TableId, String, Address, bool),
    /// An interface changed.
    Interface(InterfaceEvent),
    /// The forwarding engine was restarted and must be sent everything.
    FibRestarted,
    /// The engine, or a subscriber that forwards the routes of a family without an engine, refused the routes of prefixes, with the reasons.
    FibRejected(TableId, Vec<(AnyPrefix, Provenance, String)>),
    /// A subscriber takes the routes of prefixes that it refused before.
    FibAccepted(TableId, Vec<AnyPrefix>),
    /// A watcher is gone.
    WatcherDied(WatcherId),
    /// A watcher needs the answer for a range no longer.
    DeregisterInterest(TableId, WatcherId, AnyPrefix),
    /// A watcher no longer watches whether there is a route to a prefix, apart from those of the named origin.
    UnwatchPresence(TableId, WatcherId, AnyPrefix, Option<String>),
    /// Every origin had the time to announce its routes to this RIB: a route that is not there is absent.
    OriginsKnown,
    /// A subscription ends.
    Unsubscribe(SubscriptionId),
    /// A part of the state of the process before this one.
    Import(StatePart),
    /// The end of the import: origins have their grace time to register.
    Imported,
    /// The forwarding engine ended, or accepts no routes: no prefix waits for the engine before
    /// [`Input::FibRestarted`].
    FibGone,
    /// The engine hashes what it was sent by this key. [`Input::FibRestarted`] follows.
    FibDigestKey(DigestKey),
    /// The engine differs from what it was sent of a table's family, and must be sent all of the family.
    RefreshFib(TableId, FamilyId),
}

/// An effect requested by the RIB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// A watcher's answers no longer hold.
    InterestInvalid(WatcherId, TableId, Vec<AnyPrefix>),
    /// Watched routes came or went.
    Presence(WatcherId, TableId, Vec<Presence>),
    /// The engine, or a subscriber that forwards, refused routes of an origin.
    Rejected(TableId, String, Vec<(AnyPrefix, Provenance, String)>),
    /// Something to report.
    Event(Event),
}

/// A part of the state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StatePart {
    /// An interface.
    Interface(Interface),
    /// An origin.
    Origin(TableId, OriginSettings),
    /// Routes of an origin, of a single family.
    Routes(TableId, String, FamilyId, RouteBatch<AnyPrefix>),
    /// An origin's note.
    Note(TableId, String, Vec<u8>),
}

/// The whole state, in the order of its import.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub(crate) parts: Vec<StatePart>,
}
