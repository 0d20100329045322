//! The routing information base: the pure core.
//!
//! Routes of every protocol come in, and a single route a prefix goes out to the forwarding engine. The stages are the
//! paper's (XORP, section 5.2), for each table and family:
//!
//! ```text
//! origins ──┬──► decision ──► selected_routes ──┬──► redistribution, one branch a subscriber
//! connected,│    by distance,                   ├──► interest in any route
//! static,   │    among reachable routes         └──► forwarding engine
//! each      │
//! protocol  └──► next-hop resolution, interest in next hops
//! ```
//!
//! * Only origins store routes. A prefix's alternatives are together in an entry ([`entry`]), so that both decisions
//!   cost a single look-up; an origin's table is the slice of the entries with the origin's number.
//! * Shared parts of routes are interned: a [`set`] is a protocol's announcement (next hops, metric, tag), a [`group`]
//!   is the next hops of sets resolved down to interfaces. A change in an IGP re-resolves the group, with a single
//!   message for the group's routes.
//! * A process that dies leaves its routes stale. A route that it does not announce again within the grace time, or
//!   before its end of refresh, is swept in the background.
//! * Policies ([`policy`]) filter an origin's routes as they come and a subscriber's as they go. A route that a policy
//!   changed or rejected has a set derived from the announced set; changed policies are applied again in the background.
//! * A copy of the RIB subscribes [before the decision](announced): to the origins' announcements themselves.
//! * The forwarding engine's changes are pulled: a changed prefix is queued once, however often it changes before the
//!   engine accepts more. A slow engine therefore costs a few octets a prefix and sees no intermediate route. For an
//!   engine that accepts no routes, no prefix is queued.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod clients;
mod decide;
pub mod entry;
pub mod event;
pub mod interfaces;
pub mod machine;
mod next_hops;
pub mod policy;

pub use clients::interest::{Scope, WatcherId};
pub use clients::presence::Presence;
pub use clients::subscriber::SubscriptionId;
pub use clients::{announced, interest, presence, registrations, subscriber};
pub use decide::{family, plugged, table, view};
pub use entry::origin::{OriginId, OriginSettings};
pub use entry::{group, looked_up, origin, set};
pub use event::Event;
pub use machine::Rib;
pub use machine::messages::{Input, Output};
pub use machine::{handover, request, rights};
pub use policy::RibPolicies;
pub use sluice_stage::{StageId, TableKey};
