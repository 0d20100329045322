//! The RIB as a machine: inputs, outputs, timers, background work; and the data that the process pulls.

mod digest;
pub mod handover;
mod looks;
pub mod messages;
pub mod request;
pub mod rights;
mod subscriptions;
mod watchers;

use crate::clients::interest::{Scope, WatcherId};
use crate::decide::any_family::AnyFamily;
use crate::decide::table::Table;
use crate::entry::origin::{MAX_NOTE, OriginId};
use crate::entry::routes::RibTable;
use crate::event::Event;
use crate::interfaces::Interfaces;
use crate::machine::messages::{Input, Output, State};
use crate::policy::RibPolicies;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::interest::InterestAnswer;
use sluice_base::{
    Address, AnyPrefix, DigestKey, Duration, FamilyId, FibBatch, Instant, Provenance, RouteBatch, TableId,
};
use sluice_machine::{Budget, Machine, Outbox, Progress, Timers};
use sluice_stage::{Branch, TableKey};
use smallvec::SmallVec;

/// The time for which an origin may gather changes without a waiting consumer: short for an operator who looks at the
/// table, long enough to save work in a router without a forwarding table.
const GATHER: Duration = Duration::from_secs(1);

/// The routing information base.
pub struct Rib {
    seed: u64,
    /// True if an engine accepts routes.
    has_engine: bool,
    /// The families whose routes an engine forwards.
    engine_families: Vec<FamilyId>,
    pub(crate) tables: BTreeMap<TableId, Table>,
    pub(crate) digest_key: DigestKey,
    interfaces: Interfaces,
    timers: Timers<(TableId, OriginId)>,
    provenance: Provenance,
    events: Vec<Event>,
    pub(super) next_subscription: u64,
    policies: Arc<RibPolicies>,
    /// True once every origin had the time to announce its routes.
    pub(crate) are_origins_known: bool,
}

impl Rib {
    /// An empty RIB with the main table. `seed` makes hashes unpredictable; `source` marks events that the RIB itself
    /// causes.
    pub fn new(seed: u64, source: u16) -> Self {
        Self::with_engine_for(seed, source, &[FamilyId::IPV4, FamilyId::IPV6])
    }

    /// An empty RIB with an engine that forwards the given families.
    pub fn with_engine_for(seed: u64, source: u16, engine_families: &[FamilyId]) -> Self {
        let main = Table::new(TableId::MAIN, seed, engine_families);
        Rib {
            seed,
            has_engine: true,
            engine_families: engine_families.to_vec(),
            tables: BTreeMap::from([(TableId::MAIN, main)]),
            digest_key: DigestKey(0),
            interfaces: Interfaces::default(),
            timers: Timers::default(),
            provenance: Provenance::new(source, 0),
            events: Vec::new(),
            next_subscription: (seed & !u64::from(u32::MAX)) | 1,
            policies: Arc::default(),
            are_origins_known: false,
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

    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        if !self.tables.contains_key(&id) {
            let provenance = self.next_provenance();
            let mut table = Table::new(id, self.seed, &self.engine_families);
            table.shared.digest_key = self.digest_key;
            table.set_engine(self.has_engine);
            table.set_policies(&self.interfaces, &self.policies, provenance);
            // Interfaces belong to the main table; routes of the others resolve through them too.
            table.interfaces_changed(&self.interfaces, provenance, &mut self.events);
            self.tables.insert(id, table);
        }
        self.tables.get_mut(&id).expect("the table was made above")
    }

    fn set_engine(&mut self, has_engine: bool) {
        self.has_engine = has_engine;
        self.tables.values_mut().for_each(|table| table.set_engine(has_engine));
    }

    fn next_provenance(&mut self) -> Provenance {
        self.provenance = self.provenance.next();
        self.provenance
    }

    /// Returns the route of an address. The answer is valid until [`Output::InterestInvalid`] names its range.
    pub fn interest<P: TableKey>(
        &mut self,
        table: TableId,
        watcher: WatcherId,
        addr: P::Addr,
        scope: Scope,
    ) -> InterestAnswer<P> {
        self.table_mut(table);
        let table = self.tables.get_mut(&table).expect("the table was made above");
        table.register_interest(&self.interfaces, watcher, addr, scope)
    }

    /// Returns the time for which changes of an origin's routes may be gathered before they are sent to the RIB. Zero
    /// if the engine, a subscriber or a watcher waits for them, or if the origin is not known.
    pub fn gather_time(&self, table: TableId, family: FamilyId, origin: &str) -> Duration {
        let known =
            self.table(table).and_then(|t| Some((t.any_family(family)?, &t.shared, t.origin_id(origin)?)));
        let has_consumers = known.is_none_or(|(family, shared, origin)| family.has_consumers(shared, origin));
        if has_consumers { Duration::ZERO } else { GATHER }
    }

    /// The configured policies.
    pub fn policies(&self) -> &RibPolicies {
        &self.policies
    }

    /// Sets the configured policies. Routes that they decide differently change in the background.
    pub(crate) fn set_policies(&mut self, policies: RibPolicies) {
        self.policies = Arc::new(policies);
        let provenance = self.next_provenance();
        for table in self.tables.values_mut() {
            table.set_policies(&self.interfaces, &self.policies, provenance);
        }
    }

    /// Returns the stages that the selected routes of a table's family pass.
    pub(crate) fn stages<P: TableKey>(&mut self, table: TableId) -> &mut Branch<RibTable<P>> {
        &mut self.table_mut(table).split::<P>().0.selected_routes
    }

    /// Iterates over the tables and families for which the engine has not been sent everything.
    pub fn fib_work(&self) -> impl Iterator<Item = (TableId, FamilyId)> {
        let of =
            |t: &Table, family: &dyn AnyFamily| family.has_fib_work(&t.shared).then_some((t.id, family.id()));
        self.tables.values().flat_map(move |t| t.all_families().filter_map(move |family| of(t, family)))
    }

    /// Returns the first table with waiting changes for the engine, and its families with waiting changes.
    pub fn next_fib_work(&self) -> Option<(TableId, SmallVec<[FamilyId; 2]>)> {
        let mut work = self.fib_work();
        let (table, first) = work.next()?;
        let others = work.take_while(|(other, _)| *other == table).map(|(_, family)| family);
        Some((table, core::iter::once(first).chain(others).collect()))
    }

    /// Fills `batch` (emptied first) with at most `limit` routes for the engine.
    pub fn fill_fib<P: TableKey>(&mut self, table: TableId, limit: usize, batch: &mut FibBatch<P, Address>) {
        if let Some(table) = self.tables.get_mut(&table) {
            table.fill_fib(limit, batch);
        }
    }

    /// Applies changes of an origin's routes.
    pub(crate) fn update<P: TableKey>(
        &mut self,
        table: TableId,
        origin: String,
        batch: RouteBatch<P>,
        out: &mut Outbox<Output>,
    ) {
        let origin_id = self.table(table).and_then(|t| t.origin_id(&origin));
        match (origin_id, self.tables.get_mut(&table)) {
            (Some(id), Some(t)) => t.update(&self.interfaces, id, batch, &mut self.events),
            _ => self.events.push(Event::UnknownOrigin { table, origin }),
        }
        self.collect(out);
    }

    /// Applies routes of an origin exported by an older process.
    pub(crate) fn import_routes(
        &mut self,
        table: TableId,
        origin: String,
        family: FamilyId,
        batch: RouteBatch<AnyPrefix>,
        out: &mut Outbox<Output>,
    ) {
        let known =
            self.table(table).and_then(|t| Some((t.any_family(family)?.importer(), t.origin_id(&origin)?)));
        match (known, self.tables.get_mut(&table)) {
            (Some((import, id)), Some(t)) => import(t, &self.interfaces, id, batch, &mut self.events),
            _ => self.events.push(Event::UnknownFamily { family, origin }),
        }
        self.collect(out);
    }

    fn set_usable(&mut self, table: TableId, gateway: (OriginId, Address), is_usable: bool) {
        let provenance = self.next_provenance();
        if let Some(t) = self.tables.get_mut(&table) {
            t.set_usable(&self.interfaces, gateway, is_usable, provenance, &mut self.events);
        }
    }

    /// Forgets an origin's unusable gateways: a new life has not declared any yet.
    fn forget_unusable(&mut self, table: TableId, origin: OriginId) {
        let declared = self.tables.get(&table).into_iter().flat_map(|t| &t.unusable);
        let declared: Vec<_> = declared.filter(|(of, _)| *of == origin).copied().collect();
        for gateway in declared {
            self.set_usable(table, gateway, true);
        }
    }

    fn keep_note(&mut self, table: TableId, name: &str, note: Vec<u8>) {
        let Some(table) = self.tables.get_mut(&table) else { return };
        if let Some(id) = table.origin_id(name) {
            let note = if note.len() > MAX_NOTE { Vec::new() } else { note };
            table.shared.origins[usize::from(id.0)].note = note;
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

    /// Returns true if an end of refresh now would sweep every route of an origin: its new life has announced no
    /// route.
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
        // An origin reports after every change that it has announced all: only what is stale is worth a walk over the whole table.
        if leaving || origin.stale > 0 {
            t.sweep(id, provenance);
        }
    }

    fn fib_rejected(
        &mut self,
        table: TableId,
        routes: Vec<(AnyPrefix, Provenance, String)>,
        out: &mut Outbox<Output>,
    ) {
        let Some(t) = self.tables.get_mut(&table) else { return };
        let mut by_origin: BTreeMap<String, Vec<(AnyPrefix, Provenance, String)>> = BTreeMap::new();
        for (prefix, provenance, reason) in routes {
            let family = t.any_family_mut(prefix.family());
            let Some(origin) = family.and_then(|(family, _)| family.reject(prefix, &reason)) else {
                continue;
            };
            let name = t.origin_name(origin).into();
            by_origin.entry(name).or_default().push((prefix, provenance, reason));
        }
        for (origin, routes) in by_origin {
            out.push(Output::Rejected(table, origin, routes));
        }
    }

    fn fib_accepted(&mut self, table: TableId, prefixes: &[AnyPrefix]) {
        let Some(t) = self.tables.get_mut(&table) else { return };
        for prefix in prefixes {
            if let Some((family, _)) = t.any_family_mut(prefix.family()) {
                family.accept(*prefix);
            }
        }
    }

    fn collect(&mut self, out: &mut Outbox<Output>) {
        for table in self.tables.values_mut() {
            let mut invalidated: BTreeMap<WatcherId, Vec<AnyPrefix>> = BTreeMap::new();
            table.families().0.for_each(|family| family.take_invalidated(&mut invalidated));
            for (watcher, mut ranges) in invalidated {
                ranges.sort_unstable();
                ranges.dedup();
                out.push(Output::InterestInvalid(watcher, table.id, ranges));
            }
            let mut changes = BTreeMap::new();
            let (id, (families, shared)) = (table.id, table.families());
            families.for_each(|family| family.take_presences(shared, self.are_origins_known, &mut changes));
            for (watcher, changes) in changes {
                out.push(Output::Presence(watcher, id, changes));
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
            Input::RegisterOrigin(table, settings) => {
                if let Some(id) = self.table_mut(table).register(&settings) {
                    self.timers.stop((table, id));
                    self.forget_unusable(table, id);
                }
            }
            Input::GatewayUsable(table, name, gateway, is_usable) => {
                let origin = self.table(table).and_then(|t| t.origin_id(&name));
                if let Some(origin) = origin {
                    self.set_usable(table, (origin, gateway), is_usable);
                }
            }
            Input::OriginNote(table, name, note) => self.keep_note(table, &name, note),
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
                if let Some((family, _)) =
                    self.tables.get_mut(&table).and_then(|t| t.any_family_mut(valid.family()))
                {
                    family.deregister_interest(watcher, valid);
                }
            }
            Input::UnwatchPresence(table, watcher, prefix, except) => {
                let family = self.tables.get_mut(&table).and_then(|t| t.any_family_mut(prefix.family()));
                if let Some((family, _)) = family {
                    family.unwatch_presence(watcher, prefix, except.as_deref());
                }
            }
            Input::OriginsKnown => {
                self.are_origins_known = true;
                for table in self.tables.values_mut() {
                    table.families().0.for_each(|family| family.note_all_presences());
                }
            }
            Input::Unsubscribe(id) => self.unsubscribe(id),
            Input::Import(part) => return self.import_part(now, part, out),
            Input::Imported => return self.imported(now, out),
            Input::FibRestarted => self.set_engine(true),
            Input::FibGone => self.set_engine(false),
            Input::FibDigestKey(key) => self.set_digest_key(key),
            Input::RefreshFib(table, family) => self.refresh_fib(table, family),
            Input::FibRejected(table, routes) => self.fib_rejected(table, routes, out),
            Input::FibAccepted(table, prefixes) => self.fib_accepted(table, &prefixes),
            Input::WatcherDied(watcher) => {
                for table in self.tables.values_mut() {
                    table.families().0.for_each(|family| family.forget_watcher(watcher));
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
