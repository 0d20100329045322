//! The RIB as a machine: inputs, outputs, timers, background work; and what the shell pulls.

use crate::event::Event;
use crate::handover::{State, StatePart};
use crate::interest::{Scope, WatcherId};
use crate::interfaces::Interfaces;
use crate::origin::OriginId;
use crate::subscriber::{Subscriber, SubscriptionId};
use crate::table::{RibKey, Table};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::interest::InterestAnswer;
use sluice_base::prefix::{V4Addr, V6Addr};
use sluice_base::{
    Distance, Duration, Family, FibBatch, Instant, InterfaceEvent, IpPrefix, Ipv4Prefix, Ipv6Prefix,
    Provenance, RouteBatch, TableId,
};
use sluice_machine::{Budget, Machine, Outbox, Progress, Timers};

/// For how long an origin may gather changes that nobody waits for: short for an operator who looks at the table, long enough that a
/// router without a forwarding table spends little on telling it to itself.
const GATHER: Duration = Duration::from_secs(1);

/// What an origin says when it registers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OriginSettings {
    /// Its name.
    pub name: String,
    /// The distance of routes that bring none.
    pub distance: Distance,
    /// Whether its next hops are resolved through internal routes only, and it resolves none itself.
    pub external: bool,
    /// How long its routes outlive its process.
    pub grace: Duration,
}

/// What can happen to the RIB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// An origin registers, or its next life does.
    RegisterOrigin(TableId, OriginSettings),
    /// An origin's process is gone.
    OriginDied(TableId, String),
    /// An origin gives up its routes.
    UnregisterOrigin(TableId, String),
    /// An origin has announced everything that it has.
    EndOfRefresh(TableId, String),
    /// Changes of IPv4 routes.
    UpdateV4(TableId, String, RouteBatch<Ipv4Prefix>),
    /// Changes of IPv6 routes.
    UpdateV6(TableId, String, RouteBatch<Ipv6Prefix>),
    /// An interface changed.
    Interface(InterfaceEvent),
    /// The forwarding engine was restarted and must be told everything.
    FibRestarted,
    /// The engine refused the routes of prefixes, for these reasons.
    FibRejected(TableId, Vec<(IpPrefix, Provenance, String)>),
    /// A watcher is gone.
    WatcherDied(WatcherId),
    /// A watcher needs the answer for a range no longer.
    DeregisterInterest(TableId, WatcherId, IpPrefix),
    /// A subscription ends.
    Unsubscribe(SubscriptionId),
    /// A part of the state of the process before this one.
    Import(StatePart),
    /// All parts were imported: origins have their grace time to register.
    Imported,
    /// The forwarding engine is gone, or wants no routes: nothing waits for it before [`Input::FibRestarted`].
    FibGone,
}

/// What the RIB wants done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// A watcher's answers no longer hold.
    InterestInvalid(WatcherId, TableId, Vec<IpPrefix>),
    /// The engine refused routes of an origin.
    Rejected(TableId, String, Vec<(IpPrefix, Provenance, String)>),
    /// Something to report.
    Event(Event),
}

/// The routing information base.
pub struct Rib {
    seed: u64,
    /// Whether there is an engine that wants routes.
    has_engine: bool,
    tables: BTreeMap<TableId, Table>,
    interfaces: Interfaces,
    timers: Timers<(TableId, OriginId)>,
    provenance: Provenance,
    events: Vec<Event>,
    next_subscription: u64,
}

impl Rib {
    /// An empty RIB with the main table. `seed` makes hashes unpredictable; `source` marks the events that the RIB itself
    /// causes.
    pub fn new(seed: u64, source: u16) -> Self {
        let tables = BTreeMap::from([(TableId::MAIN, Table::new(TableId::MAIN, seed))]);
        Rib {
            seed,
            has_engine: true,
            tables,
            interfaces: Interfaces::default(),
            timers: Timers::default(),
            provenance: Provenance::new(source, 0),
            events: Vec::new(),
            next_subscription: 1,
        }
    }

    /// The tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.values()
    }

    /// A table.
    pub fn table(&self, id: TableId) -> Option<&Table> {
        self.tables.get(&id)
    }

    /// The interfaces.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    fn table_mut(&mut self, id: TableId) -> &mut Table {
        self.tables.entry(id).or_insert_with(|| {
            let mut table = Table::new(id, self.seed);
            table.set_no_gateways(self.interfaces.no_gateways());
            table.set_engine(self.has_engine);
            table
        })
    }

    fn set_engine(&mut self, has_engine: bool) {
        self.has_engine = has_engine;
        self.tables.values_mut().for_each(|table| table.set_engine(has_engine));
    }

    fn next_provenance(&mut self) -> Provenance {
        self.provenance = self.provenance.next();
        self.provenance
    }

    /// How is an IPv4 address routed? The answer holds until [`Output::InterestInvalid`] names its range.
    pub fn interest_v4(
        &mut self,
        table: TableId,
        watcher: WatcherId,
        addr: V4Addr,
        scope: Scope,
    ) -> InterestAnswer<Ipv4Prefix> {
        self.table_mut(table).register_interest(watcher, addr, scope)
    }

    /// How is an IPv6 address routed?
    pub fn interest_v6(
        &mut self,
        table: TableId,
        watcher: WatcherId,
        addr: V6Addr,
        scope: Scope,
    ) -> InterestAnswer<Ipv6Prefix> {
        self.table_mut(table).register_interest(watcher, addr, scope)
    }

    /// A watcher no longer cares about an answer.
    fn deregister_interest(&mut self, table: TableId, watcher: WatcherId, valid: IpPrefix) {
        let Some(table) = self.tables.get_mut(&table) else { return };
        for scope in [Scope::Internal, Scope::All] {
            match valid {
                IpPrefix::V4(p) => table.v4.interests(scope).deregister(watcher, p),
                IpPrefix::V6(p) => table.v6.interests(scope).deregister(watcher, p),
            }
        }
    }

    /// For how long changes of an origin's routes may be gathered before the RIB is told: not at all if anybody waits to hear of
    /// them, be it the engine, a subscriber, or who asked how an address is reached; nor of an origin that is not known.
    pub fn gather_time(&self, table: TableId, family: Family, origin: &str) -> Duration {
        fn by<P: RibKey>(table: &Table, origin: OriginId) -> bool {
            P::family(table).has_consumers(&table.shared, origin)
        }
        let known = self.table(table).and_then(|t| Some((t, t.origin_id(origin)?)));
        let has_consumers = known.is_none_or(|(table, origin)| match family {
            Family::Ipv4 => by::<Ipv4Prefix>(table, origin),
            Family::Ipv6 => by::<Ipv6Prefix>(table, origin),
        });
        if has_consumers { Duration::ZERO } else { GATHER }
    }

    /// Subscribes to the routes of origins (none named: all). What there is and what changes is pulled with
    /// [`Rib::take_subscribed`].
    pub fn subscribe<P: RibKey>(&mut self, table: TableId, origins: Vec<String>) -> SubscriptionId {
        let id = SubscriptionId(self.next_subscription);
        self.next_subscription += 1;
        let (family, shared) = P::split(self.table_mut(table));
        let subscriber = Subscriber::new(id, origins, shared);
        family.subscribers.push(subscriber);
        id
    }

    /// Ends a subscription.
    fn unsubscribe(&mut self, id: SubscriptionId) {
        for table in self.tables.values_mut() {
            let Table { v4, v6, shared, .. } = table;
            for mut s in v4.subscribers.extract_if(.., |s| s.id == id) {
                s.close(shared);
            }
            for mut s in v6.subscribers.extract_if(.., |s| s.id == id) {
                s.close(shared);
            }
            table.forget_gone();
        }
    }

    /// Whether a subscription has not been ended.
    pub fn has_subscription(&self, id: SubscriptionId) -> bool {
        let of = |t: &Table| {
            t.v4.subscribers.iter().any(|s| s.id == id) || t.v6.subscribers.iter().any(|s| s.id == id)
        };
        self.tables.values().any(of)
    }

    /// Subscriptions that have something to take.
    pub fn ready_subscriptions<P: RibKey>(&self) -> Vec<(TableId, SubscriptionId)> {
        let ready = |t: &Table| -> Vec<(TableId, SubscriptionId)> {
            P::family(t).subscribers.iter().filter(|s| s.is_ready()).map(|s| (t.id, s.id)).collect()
        };
        self.tables.values().flat_map(ready).collect()
    }

    /// Takes at most `limit` changes of a subscription. The second value is true once, when the first dump is complete.
    pub fn take_subscribed<P: RibKey>(
        &mut self,
        table: TableId,
        id: SubscriptionId,
        limit: usize,
    ) -> Option<(RouteBatch<P>, bool)> {
        let table = self.tables.get_mut(&table)?;
        let (family, shared) = P::split(table);
        let subscriber = family.subscribers.iter_mut().find(|s| s.id == id)?;
        let taken = subscriber.take(shared, limit);
        table.forget_gone();
        Some(taken)
    }

    /// Tables for which the engine has not been told everything.
    pub fn tables_with_fib_work(&self) -> impl Iterator<Item = (TableId, bool, bool)> {
        self.tables.values().filter_map(|t| {
            let (v4, v6) = (t.v4.has_fib_work(&t.shared), t.v6.has_fib_work(&t.shared));
            (v4 || v6).then_some((t.id, v4, v6))
        })
    }

    /// Fills `batch` (emptied first) with at most `limit` routes that the engine must be told.
    pub fn fill_fib<P: RibKey>(&mut self, table: TableId, limit: usize, batch: &mut FibBatch<P>) {
        if let Some(table) = self.tables.get_mut(&table) {
            table.fill_fib(limit, batch);
        }
    }

    fn update<P: RibKey>(&mut self, table: TableId, origin: String, batch: RouteBatch<P>) {
        let Some(t) = self.tables.get_mut(&table) else {
            return self.events.push(Event::UnknownOrigin { table, origin });
        };
        match t.origin_id(&origin) {
            Some(id) => t.update(&self.interfaces, id, batch, &mut self.events),
            None => self.events.push(Event::UnknownOrigin { table, origin }),
        }
    }

    fn origin_died(&mut self, now: Instant, table: TableId, name: &str) {
        let Some(t) = self.tables.get_mut(&table) else { return };
        let Some(id) = t.origin_id(name) else { return };
        let origin = &mut t.shared.origins[usize::from(id.0)];
        if !origin.alive {
            return;
        }
        origin.alive = false;
        origin.begin_new_life();
        let (routes, grace) = (origin.routes, origin.grace);
        self.timers.start(now, (table, id), grace);
        self.events.push(Event::OriginStale { table, origin: name.into(), routes });
    }

    /// Returns true if an end of refresh now would sweep every route that an origin has: it has announced none in its new life.
    pub fn would_sweep_all(&self, table: TableId, name: &str) -> bool {
        let Some(table) = self.tables.get(&table) else { return false };
        let Some(id) = table.origin_id(name) else { return false };
        let origin = table.shared.origin(id);
        origin.stale > 0 && origin.stale == origin.routes
    }

    fn sweep(&mut self, table: TableId, name: &str, leaving: bool) {
        let provenance = self.next_provenance();
        let Some(t) = self.tables.get_mut(&table) else { return };
        let Some(id) = t.origin_id(name) else { return };
        let origin = &mut t.shared.origins[usize::from(id.0)];
        if leaving {
            origin.begin_new_life();
            origin.alive = false;
        }
        origin.leaving = leaving;
        self.timers.stop((table, id));
        // An origin says after every change that it has told all: only what is stale is worth a walk over the whole table.
        if leaving || origin.stale > 0 {
            t.sweep(id, provenance);
        }
    }

    fn fib_rejected(
        &mut self,
        table: TableId,
        routes: Vec<(IpPrefix, Provenance, String)>,
        out: &mut Outbox<Output>,
    ) {
        let Some(t) = self.tables.get_mut(&table) else { return };
        let mut by_origin: BTreeMap<String, Vec<(IpPrefix, Provenance, String)>> = BTreeMap::new();
        for (prefix, provenance, reason) in routes {
            let selected = match prefix {
                IpPrefix::V4(p) => t.v4.entries().get(p).and_then(|e| e.selected()).map(|s| s.origin),
                IpPrefix::V6(p) => t.v6.entries().get(p).and_then(|e| e.selected()).map(|s| s.origin),
            };
            let Some(origin) = selected else { continue };
            match prefix {
                IpPrefix::V4(p) => t.v4.note_rejection(p, reason.clone()),
                IpPrefix::V6(p) => t.v6.note_rejection(p, reason.clone()),
            }
            let name = t.origin_name(origin).into();
            by_origin.entry(name).or_default().push((prefix, provenance, reason));
        }
        for (origin, routes) in by_origin {
            out.push(Output::Rejected(table, origin, routes));
        }
    }

    fn collect(&mut self, out: &mut Outbox<Output>) {
        for table in self.tables.values_mut() {
            let mut told: BTreeMap<WatcherId, Vec<IpPrefix>> = BTreeMap::new();
            for (watcher, range) in table.v4.told.drain(..) {
                told.entry(watcher).or_default().push(range.into());
            }
            for (watcher, range) in table.v6.told.drain(..) {
                told.entry(watcher).or_default().push(range.into());
            }
            for (watcher, mut ranges) in told {
                ranges.sort_unstable();
                ranges.dedup();
                out.push(Output::InterestInvalid(watcher, table.id, ranges));
            }
        }
        for event in self.events.drain(..) {
            out.push(Output::Event(event));
        }
    }
}

impl Machine for Rib {
    type Input = Input;
    type Output = Output;
    type State = State;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::UpdateV4(table, origin, batch) => self.update(table, origin, batch),
            Input::UpdateV6(table, origin, batch) => self.update(table, origin, batch),
            Input::RegisterOrigin(table, settings) => {
                if let Some(id) = self.table_mut(table).register(&settings) {
                    self.timers.stop((table, id));
                }
            }
            Input::OriginDied(table, name) => self.origin_died(now, table, &name),
            Input::UnregisterOrigin(table, name) => self.sweep(table, &name, true),
            Input::EndOfRefresh(table, name) => self.sweep(table, &name, false),
            Input::Interface(event) => {
                let provenance = self.next_provenance();
                if self.interfaces.apply(event) {
                    // Interfaces belong to the main table; others resolve through them too.
                    for table in self.tables.values_mut() {
                        table.interfaces_changed(&self.interfaces, provenance, &mut self.events);
                    }
                }
            }
            Input::DeregisterInterest(table, watcher, valid) => {
                self.deregister_interest(table, watcher, valid);
            }
            Input::Unsubscribe(id) => self.unsubscribe(id),
            Input::Import(part) => return self.import_part(now, part, out),
            Input::Imported => return self.imported(now, out),
            Input::FibRestarted => self.set_engine(true),
            Input::FibGone => self.set_engine(false),
            Input::FibRejected(table, routes) => self.fib_rejected(table, routes, out),
            Input::WatcherDied(watcher) => {
                for table in self.tables.values_mut() {
                    for scope in [Scope::Internal, Scope::All] {
                        table.v4.interests(scope).forget(watcher);
                        table.v6.interests(scope).forget(watcher);
                    }
                }
            }
        }
        self.collect(out);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        while let Some((table, id)) = self.timers.pop_due(now) {
            let provenance = self.next_provenance();
            if let Some(t) = self.tables.get_mut(&table) {
                t.sweep(id, provenance);
            }
        }
        self.collect(out);
    }

    fn run_slice(&mut self, _now: Instant, budget: Budget, out: &mut Outbox<Output>) -> Progress {
        let mut progress = Progress::Done;
        for table in self.tables.values_mut() {
            let mut swept = Vec::new();
            progress = progress.or(table.run_slice(
                &self.interfaces,
                budget,
                self.provenance,
                &mut swept,
                &mut self.events,
            ));
            for (id, routes) in swept {
                if let Some(origin) = table.note_swept(id).filter(|_| routes > 0) {
                    self.events.push(Event::OriginSwept { table: table.id, origin, routes });
                }
            }
        }
        self.collect(out);
        progress
    }

    fn export(&self) -> State {
        self.export_state()
    }

    fn import(&mut self, now: Instant, state: State, out: &mut Outbox<Output>) {
        self.import_state(now, state, out);
    }
}

/// The address's family decides which answer is asked for.
impl Rib {
    /// How is an address of either family routed, in the form in which it crosses a boundary?
    pub fn interest(
        &mut self,
        table: TableId,
        watcher: WatcherId,
        addr: IpAddr,
        scope: Scope,
    ) -> crate::view::IpInterest {
        match addr {
            IpAddr::V4(a) => self.interest_v4(table, watcher, V4Addr(a), scope).into(),
            IpAddr::V6(a) => self.interest_v6(table, watcher, V6Addr(a), scope).into(),
        }
    }
}
