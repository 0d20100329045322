//! Requests to the RIB that are answered at once: what its process pulls out of it.

use crate::interest::{Scope, WatcherId};
use crate::machine::{Output, Rib};
use crate::subscriber::SubscriptionId;
use crate::table::RibKey;
use crate::view::IpInterest;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::net::IpAddr;
use sluice_base::{FibBatch, Instant, RouteBatch, TableId};
use sluice_machine::{Outbox, Request};

/// Asks how an address is routed. The answer holds until [`Output::InterestInvalid`] names its range.
#[derive(Clone, Copy, Debug)]
pub struct RegisterInterest {
    /// The table to look in.
    pub table: TableId,
    /// The client that is notified when the answer holds no longer.
    pub watcher: WatcherId,
    /// The address.
    pub addr: IpAddr,
    /// The routes that may answer.
    pub scope: Scope,
}

impl Request<Rib> for RegisterInterest {
    type Answer = IpInterest;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> IpInterest {
        rib.interest(self.table, self.watcher, self.addr, self.scope)
    }
}

/// Subscribes to the routes of origins, of one family.
#[derive(Clone, Debug)]
pub struct Subscribe<P> {
    table: TableId,
    origins: Vec<String>,
    family: PhantomData<P>,
}

impl<P> Subscribe<P> {
    /// Subscribes to the routes of these origins of a table; of all if none is named.
    pub const fn new(table: TableId, origins: Vec<String>) -> Self {
        Subscribe { table, origins, family: PhantomData }
    }
}

impl<P: RibKey> Request<Rib> for Subscribe<P> {
    type Answer = SubscriptionId;

    fn make(self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> SubscriptionId {
        rib.subscribe::<P>(self.table, self.origins)
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

impl<P: RibKey> Request<Rib> for TakeSubscribed<P> {
    /// The changes, and true once: when the first dump is complete. `None` if the subscription ended.
    type Answer = Option<(RouteBatch<P>, bool)>;

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
    /// A batch whose space is used again; its contents are dropped.
    pub space: FibBatch<P>,
}

impl<P: RibKey> Request<Rib> for FillFib<P> {
    type Answer = FibBatch<P>;

    fn make(mut self, rib: &mut Rib, _now: Instant, _out: &mut Outbox<Output>) -> FibBatch<P> {
        rib.fill_fib(self.table, self.limit, &mut self.space);
        self.space
    }
}
