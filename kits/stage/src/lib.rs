//! Routing tables as networks of stages (XORP, section 5).
//!
//! A table is not a shared object but a pipeline of route changes. Changes flow downstream in batches ([`Batch`]),
//! look-ups go upstream ([`Upstream`]). Two rules hold between any two stages:
//!
//! 1. Every delete (and the old half of every replace) matches an earlier add.
//! 2. The result of a look-up agrees with the changes sent downstream.
//!
//! A stage may rely on both towards its upstream and must keep both towards its downstream. [`CheckStage`] verifies
//! them; tests put a check behind every stage, and an operator can plug a check into a live router.
//!
//! * [`PrefixTable`] is where routes are stored: only by origins, at the head of a [`Branch`].
//! * A [`Branch`] is an ordered row of stages, plugged in and out while routes flow.
//! * [`DumpStage`] sends a late reader the existing routes: in slices, and reports when the stage can be unplugged.
//! * [`LiveStage`] plugs any stage gradually into a table with routes, and removes the stage gradually; it guards the
//!   table against an untrusted stage.
//!
//! The crate is generic over the key: IPv4 prefix, IPv6 prefix, XID, or the key of a future architecture.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod branch;
mod change;
mod check;
mod dump;
mod live;
mod prefix_table;
mod stage;
mod store;

pub use branch::{Branch, StageId};
pub use change::{Action, Batch, Change, Table};
pub use check::{CheckStage, Violation};
pub use dump::DumpStage;
pub use live::LiveStage;
pub use prefix_table::{PrefixTable, TableKey};
pub use stage::{Source, Stage, Upstream};
pub use store::{Cursor, OrderedStore, Store, TrieKey, TrieStore};
