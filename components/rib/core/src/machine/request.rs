//! Requests to the RIB with an immediate answer, for its process.

use super::messages::Output;
use crate::clients::interest::{Scope, WatcherId};
use crate::clients::presence::TooManyWatches;
use crate::clients::subscriber::{SubscribedBatch, SubscriptionId};
use crate::decide::plugged::{MOST_PREFIXES, MOST_STAGES, PluggedStage, PlumbError};
use crate::decide::view::AnyInterest;
use crate::entry::routes::RibTable;
use crate::machine::Rib;
use crate::policy::{RibPolicies, SubscriberPolicy};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::net::IpAddr;
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{
    Address, FibBatch, Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix, RouteBatch, TableId, Xid, XidPrefix,
};
use sluice_machine::{Outbox, Request};
use sluice_stage::{LiveStage, Stage, StageId, TableKey};

/// Changes routes of an origin, of a single family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateRoutes<P> {
    /// The table.
    pub table: TableId,
    /// The origin's name.
    pub origin: String,
    /// The changes.
    pub batch: RouteBatch<P>,
}

impl<P: TableKey> Request<Rib> for UpdateRoutes<P> {
    type Answer = ();

    fn make(self, rib: &mut Rib, _now: Instant, out: &mut Outbox<Output>) {
        rib.update(self.table, self.origin, self.batch, out);
    }
}

/// Sets the configured policies. Routes that they decide differently change in the background.
#[derive(Clone, Debug)]
pub struct SetPolicies(pub RibPolicies);

impl Request<Rib> for SetPolicies {
    type Answer = ();

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) {
        rib.set_policies(self.0);
    }
}

/// Plugs a stage into the path of selected routes to the engine, to subscribers and to interest. The stage may drop
/// and change routes, but not create routes for prefixes without one.
pub struct PlumbStage<P: TableKey> {
    /// The table.
    pub table: TableId,
    /// The place from the top; beyond the end: the last.
    pub position: usize,
    /// The stage.
    pub stage: Box<dyn Stage<RibTable<P>>>,
    /// True if the stage is not trusted to keep the rules: it is guarded, at the cost of a copy of the table.
    pub is_guarded: bool,
}

impl<P: TableKey> Request<Rib> for PlumbStage<P> {
    type Answer = StageId;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> StageId {
        let stage = if self.is_guarded { LiveStage::guarded(self.stage) } else { LiveStage::new(self.stage) };
        rib.stages::<P>(self.table).plumb(self.position, Box::new(stage))
    }
}

/// Plugs in a guarded stage of the RIB's own, behind the stages of the table's family.
#[derive(Clone, Debug)]
pub struct PlugStage<P> {
    /// The table.
    pub table: TableId,
    /// The stage.
    pub stage: PluggedStage<P>,
}

impl<P: TableKey> Request<Rib> for PlugStage<P> {
    type Answer = Result<StageId, PlumbError>;

    fn make(self, rib: &mut Rib, now: Instant, out: &mut Outbox<Output>) -> Self::Answer {
        let PlugStage { table, stage } = self;
        if rib.table(table).is_none() {
            return Err(PlumbError::NoTable);
        }
        if matches!(&stage, PluggedStage::HoldBack(prefixes) if prefixes.len() > MOST_PREFIXES) {
            return Err(PlumbError::TooManyPrefixes);
        }
        if rib.stages::<P>(table).len() >= MOST_STAGES {
            return Err(PlumbError::TooManyStages);
        }
        let plumb = PlumbStage { table, position: usize::MAX, stage: stage.stage(), is_guarded: true };
        Ok(plumb.make(rib, now, out))
    }
}

/// Removes a stage. After the background work has passed them, routes are as without the stage.
#[derive(Clone, Copy, Debug)]
pub struct UnplumbStage<P> {
    /// The table.
    pub table: TableId,
    /// The stage's number.
    pub stage: StageId,
    family: PhantomData<P>,
}

impl<P> UnplumbStage<P> {
    /// Lets a stage of a table leave.
    pub const fn new(table: TableId, stage: StageId) -> Self {
        UnplumbStage { table, stage, family: PhantomData }
    }
}

impl<P: TableKey> Request<Rib> for UnplumbStage<P> {
    /// True if there was such a stage.
    type Answer = bool;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> bool {
        let stage = rib.stages::<P>(self.table).stage_mut::<LiveStage<RibTable<P>>>(self.stage);
        stage.map(LiveStage::leave).is_some()
    }
}

/// Requests the route of an address. The answer is valid until [`Output::InterestInvalid`] names its range.
#[derive(Clone, Copy, Debug)]
pub struct RegisterInterest {
    /// The table to look in.
    pub table: TableId,
    /// The client to notify when the answer becomes invalid.
    pub watcher: WatcherId,
    /// The address.
    pub addr: Address,
    /// The routes that may answer.
    pub scope: Scope,
}

impl Request<Rib> for RegisterInterest {
    /// `None` for an address of a family without tables.
    type Answer = Option<AnyInterest>;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> Option<AnyInterest> {
        let RegisterInterest { table, watcher, addr, scope } = self;
        Some(match addr {
            Address::Ip(IpAddr::V4(addr)) => {
                rib.interest::<Ipv4Prefix>(table, watcher, V4Addr(addr), scope).into()
            }
            Address::Ip(IpAddr::V6(addr)) => {
                rib.interest::<Ipv6Prefix>(table, watcher, V6Addr(addr), scope).into()
            }
            Address::Identifier(_) => {
                rib.interest::<XidPrefix>(table, watcher, Xid::try_from(addr).ok()?, scope).into()
            }
        })
    }
}

/// Watches whether there are routes to exactly these prefixes.
#[derive(Clone, Debug)]
pub struct WatchPresence {
    /// The table to look in.
    pub table: TableId,
    /// The client to notify.
    pub watcher: WatcherId,
    /// The prefixes.
    pub prefixes: Vec<IpPrefix>,
    /// The origin whose routes do not count; `None` if the routes of every origin count. With an origin, a route counts that would be
    /// selected if that origin had none.
    pub except: Option<String>,
}

impl Request<Rib> for WatchPresence {
    /// For each prefix: true if there is a route, false if not, `None` as long as origins may have routes to announce.
    type Answer = Result<Vec<Option<bool>>, TooManyWatches>;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> Self::Answer {
        rib.watch_presence(self.table, self.watcher, &self.prefixes, self.except.as_deref())
    }
}

/// Subscribes to the routes of origins, of a single family.
#[derive(Clone, Debug)]
pub struct Subscribe<P> {
    table: TableId,
    origins: Vec<String>,
    policy: Option<SubscriberPolicy>,
    family: PhantomData<P>,
}

impl<P> Subscribe<P> {
    /// Subscribes to the routes of the given origins of a table; without a name, to every origin.
    pub const fn new(table: TableId, origins: Vec<String>) -> Self {
        Subscribe { table, origins, policy: None, family: PhantomData }
    }

    /// Lets through what a policy accepts, with the policy's changes; see [`RibPolicies::for_subscriber`].
    pub fn through(self, policy: SubscriberPolicy) -> Self {
        Subscribe { policy: Some(policy), ..self }
    }
}

impl<P: TableKey> Request<Rib> for Subscribe<P> {
    type Answer = SubscriptionId;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> SubscriptionId {
        rib.subscribe_through::<P>(self.table, self.origins, self.policy)
    }
}

/// Subscribes to the routes of origins before the decision, of a single family.
#[derive(Clone, Debug)]
pub struct SubscribeAnnounced<P> {
    table: TableId,
    origins: Vec<String>,
    family: PhantomData<P>,
}

impl<P> SubscribeAnnounced<P> {
    /// Subscribes to the announcements of the given origins of a table; without a name, of every origin but the interfaces' own.
    pub const fn new(table: TableId, origins: Vec<String>) -> Self {
        SubscribeAnnounced { table, origins, family: PhantomData }
    }
}

impl<P: TableKey> Request<Rib> for SubscribeAnnounced<P> {
    type Answer = SubscriptionId;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> SubscriptionId {
        rib.subscribe_announced::<P>(self.table, self.origins)
    }
}

/// Takes the next changes of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct TakeSubscribed<P> {
    table: TableId,
    subscription: SubscriptionId,
    limit: usize,
    family: PhantomData<P>,
}

impl<P> TakeSubscribed<P> {
    /// Takes at most `limit` changes.
    pub const fn new(table: TableId, subscription: SubscriptionId, limit: usize) -> Self {
        TakeSubscribed { table, subscription, limit, family: PhantomData }
    }
}

impl<P: TableKey> Request<Rib> for TakeSubscribed<P> {
    /// The changes, and true once: when the first dump is complete. `None` if the subscription ended.
    type Answer = Option<(SubscribedBatch<P>, bool)>;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> Self::Answer {
        rib.take_subscribed(self.table, self.subscription, self.limit)
    }
}

/// Takes the next routes for the forwarding engine, into the space of an earlier batch.
#[derive(Clone, Debug)]
pub struct FillFib<P> {
    /// The table.
    pub table: TableId,
    /// The most routes to take.
    pub limit: usize,
    /// A batch for reuse; its contents are dropped.
    pub space: FibBatch<P, Address>,
}

impl<P: TableKey> Request<Rib> for FillFib<P> {
    type Answer = FibBatch<P, Address>;

    fn make(mut self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> FibBatch<P, Address> {
        rib.fill_fib(self.table, self.limit, &mut self.space);
        self.space
    }
}
