//! The FEA's core: the tables, the interfaces, and the reaction to the engine's notices.

mod comparison;
mod repair;

use crate::engine::{
    AuthorityRoutes, BesideId, Capability, EngineDigests, EngineOp, Link, Member, Members, Mended, NextHopId,
    Notice, OtherRoute, Refusal, RefusalKind, RouteTarget, Scope,
};
use crate::event::Event;
use crate::fib::{Observation, RefusedRoute};
use crate::interface::{Configuration, Interfaces, Transition};
use crate::members::Pool;
use crate::mending::Mendings;
use crate::others::{self, OtherRoutes};
use crate::output::{Effect, Output};
use crate::repair::{Drift, Repairs};
use crate::replay::{Held, Replays};
use crate::source::Sources;
use crate::table::Table;
use crate::totals::Totals;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{
    Family, FibBatch, Instant, Interface, InterfaceIndex, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance,
    TableId,
};
use sluice_machine::{Budget, Machine, Outbox, Progress};

/// An event for the machine.
///
/// After each input, and after each slice, the driver hands the [`Output::Engine`] operations to the engine, in order, and the
/// refusals at once back as [`Input::Refused`], before any further input; until the outbox stays empty.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// Changes of an IPv4 table.
    UpdateIpv4(TableId, FibBatch<Ipv4Prefix>),
    /// Changes of an IPv6 table.
    UpdateIpv6(TableId, FibBatch<Ipv6Prefix>),
    /// The owner of a table announces the whole table anew.
    BeginResync(TableId),
    /// The owner has announced the whole table; [`Effect::Resynced`] follows for each family after the sweep.
    EndResync(TableId),
    /// The engine refused these operations, in the order of the batch.
    Refused(Vec<(EngineOp, Refusal)>),
    /// The named engine beside the authority refused an operation for the first time.
    RefusedBeside(String, EngineOp, Refusal),
    /// The engine reported something.
    Notice(Notice),
    /// The operator's configuration of interfaces.
    Configure(Configuration),
    /// An empty engine joined beside the authority of a set. The authority's objects are replayed to the engine in the background. A
    /// running replay to the engine begins again.
    Join {
        /// The engine.
        engine: BesideId,
        /// The engine's capabilities.
        capabilities: Vec<Capability>,
    },
    /// The digests of an engine with a complete replay. A differing engine is mended in the background.
    Compare(BesideId, EngineDigests),
    /// The named engine beside the authority differed and was mended.
    Mended(String, Mended),
    /// The owner of a table announces a whole family anew.
    BeginRefresh(TableId, Family),
    /// The owner has announced a whole family of a table; [`Effect::Resynced`] follows.
    EndRefresh(TableId, Family),
    /// The preferred source addresses of the host's own packets, by family.
    SetSources(BTreeMap<Family, IpAddr>),
    /// Selects the authority's routes; initially all. [`Effect::RoutesSelected`] follows after the last move.
    SelectRoutes(AuthorityRoutes),
}

/// The core's state: the announcements, for a core that takes over.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// The tables, by number.
    pub tables: Vec<(TableId, FibBatch<Ipv4Prefix>, FibBatch<Ipv6Prefix>)>,
}

/// The core. A seed keeps an attacker who chooses next hops from choosing hash collisions.
#[derive(Clone, Debug)]
pub struct Fea {
    seed: u64,
    tables: BTreeMap<TableId, Table>,
    pool: Pool,
    interfaces: Interfaces,
    /// Foreign routes before the tables' routes.
    others: OtherRoutes,
    repairs: Repairs,
    replays: Replays,
    mendings: Mendings,
    /// The selection of routes for the authority.
    selection: AuthorityRoutes,
    /// True if routes may be elsewhere than the selection wants.
    is_selecting: bool,
    sources: Sources,
    /// Groups shown by a snapshot and not used by a route yet.
    found_groups: BTreeMap<NextHopId, Members>,
    in_snapshot: bool,
    /// True after the first snapshot. Unknown routes of the first snapshot are adopted; unknown routes of later snapshots are
    /// removed.
    started: bool,
    /// Counts rounds of refusals.
    round: u64,
    repaired: u64,
    refusals: u64,
    mended: u64,
    refreshed: u64,
}

impl Fea {
    /// Makes an empty core. The first output depends on the inputs only; the driver requests a snapshot of the engine and
    /// hands the snapshot over before serving clients.
    pub fn new(seed: u64) -> Self {
        Fea {
            seed,
            tables: BTreeMap::new(),
            pool: Pool::new(),
            interfaces: Interfaces::default(),
            others: OtherRoutes::default(),
            repairs: Repairs::default(),
            replays: Replays::default(),
            mendings: Mendings::default(),
            selection: AuthorityRoutes::All,
            is_selecting: false,
            sources: Sources::default(),
            found_groups: BTreeMap::new(),
            in_snapshot: false,
            started: false,
            round: 0,
            repaired: 0,
            refusals: 0,
            mended: 0,
            refreshed: 0,
        }
    }

    /// Returns the interfaces; `None` before the first snapshot is complete.
    pub fn interfaces(&self) -> Option<Vec<Interface>> {
        self.interfaces.all()
    }

    /// Returns the host's deviations from the configuration, and the overridden routes, a sentence each.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.interfaces.problems().into_iter().chain(self.sources.problems());
        problems.chain(others::in_words(&self.overriding(others::MOST_COUNTED + 1))).collect()
    }

    /// Returns foreign routes, at most `most`, that override an announced route of the same prefix.
    pub fn overriding(&self, most: usize) -> Vec<OtherRoute> {
        let is_ours = |table, prefix: IpPrefix| {
            let table: Option<&Table> = self.tables.get(&table);
            table.is_some_and(|table| table.side_ref(prefix.family()).is_announced(prefix))
        };
        self.others.overriding(is_ours, most)
    }

    /// Returns true if an interface of the host has an address.
    pub fn has_address(&self, addr: IpAddr) -> bool {
        self.interfaces.has_address(addr)
    }

    /// Returns the interfaces whose traffic a new configuration interrupts.
    pub fn interrupted_by(&self, new: &Configuration) -> Vec<String> {
        self.interfaces.interrupted_by(new)
    }

    /// Returns remarks on a new configuration, which is accepted nevertheless.
    pub fn remarks(&self, new: &Configuration) -> Vec<String> {
        self.interfaces.remarks(new)
    }

    /// The tables in which the engine has routes of ours, or had some in an earlier life.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        self.tables.keys().copied()
    }

    /// Figures.
    pub fn totals(&mut self) -> Totals {
        let mut totals = Totals {
            repaired: self.repaired,
            refused: self.refusals,
            mended: self.mended,
            refreshed: self.refreshed,
            ..Totals::default()
        };
        (totals.nexthop_objects, totals.idle) =
            (self.pool.len(), !self.in_snapshot && self.replays.is_idle() && self.mendings.is_idle());
        for (id, table) in &mut self.tables {
            for family in Family::ALL {
                let side = table.side(family);
                totals.tables.push((*id, family, side.summary()));
                totals.nexthop_objects += side.objects();
                totals.idle &= side.is_idle();
            }
        }
        totals
    }

    fn table(&mut self, id: TableId) -> &mut Table {
        let (seed, selection) = (self.seed, &self.selection);
        self.tables.entry(id).or_insert_with(|| Table::new(id, seed, selection))
    }

    fn refused(&mut self, list: Vec<(EngineOp, Refusal)>, out: &mut Outbox<Output>) {
        self.round += 1;
        let round = self.round;
        for (op, refusal) in list {
            match op {
                EngineOp::SetMember { id, .. } => {
                    if let Some(member) = self.pool.mark_unusable(id, refusal) {
                        for side in self.tables.values_mut().flat_map(Table::sides) {
                            side.member_changed(member, round, &mut self.pool, out);
                        }
                    }
                }
                EngineOp::SetGroup { id, .. } => {
                    for side in self.tables.values_mut().flat_map(Table::sides) {
                        side.group_refused(id, &refusal, round, &mut self.pool, out);
                    }
                }
                EngineOp::SetRoute { table, prefix, target, replace, provenance, .. } => {
                    self.refusals += 1;
                    let refused = RefusedRoute { prefix, target, replace, provenance, refusal };
                    let side = self.table(table).side(prefix.family());
                    side.route_refused(refused, round, out);
                }
                op => {
                    self.interfaces.note_refused(&op, &refusal);
                    if op.is_satisfied_despite(&refusal) {
                        continue;
                    }
                    out.push(Output::Effect(Effect::Event(Event::Refused(op, refusal))));
                }
            }
        }
    }

    fn notice(&mut self, now: Instant, notice: Notice, out: &mut Outbox<Output>) {
        match notice {
            Notice::LinkIs(link) => self.link_is(now, link, out),
            Notice::LinkGone(index) => {
                self.link_down(index, out);
                self.others.remove_on(index);
                self.interfaces.link_gone(index, out);
                self.settle_sources(out);
            }
            Notice::AddressIs(index, address, own) => {
                if self.interfaces.address_is(index, address, own, out) {
                    self.retry(self.pool.dead(|m| m.interface() == Some(index)), out);
                }
                self.settle_sources(out);
            }
            Notice::AddressGone(index, address) => {
                if self.interfaces.address_gone(index, address, out) {
                    self.damage(now, Drift::Address(index, address), out);
                }
                self.settle_sources(out);
            }
            Notice::MemberIs(id, member) => self.member_is(now, id, member, out),
            Notice::GroupIs(id, members) => self.group_is(now, id, members, out),
            Notice::NextHopForeign(id) => match self.holds_object(id) {
                true => self.damage(now, Drift::NextHop(id), out),
                // The number is not free, whoever took it.
                false => self.pool.take_id(id),
            },
            Notice::NextHopGone(id) => self.next_hop_gone(now, id, out),
            Notice::RouteIs { table, prefix, target, replaced } => {
                self.route_is(now, table, prefix, target, replaced, out);
            }
            Notice::RouteGone { table, prefix } => {
                if self.table(table).side(prefix.family()).route_gone(prefix) {
                    self.damage(now, Drift::Route(table, prefix), out);
                }
            }
            Notice::OtherRouteIs(route) => self.others.add(route),
            Notice::OtherRouteGone(route) => self.others.remove(route),
            Notice::ForwardingIs(family, enabled) => {
                if self.interfaces.wanted_forwarding(family).is_some_and(|wanted| wanted != enabled) {
                    self.damage(now, Drift::Forwarding(family), out);
                }
            }
            Notice::SnapshotBegin => self.begin_snapshot(),
            Notice::SnapshotEnd => self.end_snapshot(out),
            Notice::Overrun => {
                out.push(Output::Effect(Effect::Event(Event::Overrun)));
                out.push(Output::RequestSnapshot);
            }
        }
    }

    fn link_is(&mut self, now: Instant, link: Link, out: &mut Outbox<Output>) {
        let index = link.index;
        if !link.admin_up {
            self.others.remove_on(index);
        }
        match self.interfaces.link_is(link, out) {
            Transition::CameUp => {
                self.retry(self.pool.dead(|m| m.interface() == Some(index)), out);
            }
            Transition::WentDown => self.link_down(index, out),
            Transition::None => {}
        }
        if self.interfaces.differs(index) {
            self.damage(now, Drift::Link(index), out);
        }
    }

    fn member_is(&mut self, now: Instant, id: NextHopId, member: Member, out: &mut Outbox<Output>) {
        match self.pool.find(id) {
            Some(n) => {
                if !self.pool.see(n, member) {
                    self.damage(now, Drift::NextHop(id), out);
                }
            }
            None if !self.started => self.pool.adopt(id, member, out),
            None => out.push(Output::Engine(EngineOp::DeleteNextHop { id })),
        }
    }

    fn begin_snapshot(&mut self) {
        self.in_snapshot = true;
        self.found_groups.clear();
        self.interfaces.clear_seen();
        self.others.begin_snapshot();
        self.pool.clear_seen();
        for side in self.tables.values_mut().flat_map(Table::sides) {
            side.clear_seen();
        }
    }

    fn end_snapshot(&mut self, out: &mut Outbox<Output>) {
        if !core::mem::replace(&mut self.in_snapshot, false) {
            return;
        }
        self.started = true;
        self.interfaces.end_snapshot(out);
        self.others.end_snapshot();
        for n in self.pool.unseen() {
            self.pool.rewrite(n, out);
        }
        // What made them impossible may have passed unnoticed.
        self.retry(self.pool.dead(|_| true), out);
        for side in self.tables.values_mut().flat_map(Table::sides) {
            side.end_snapshot(&mut self.pool, out);
        }
        // Groups before members: a member that goes takes itself out of groups.
        for id in core::mem::take(&mut self.found_groups).into_keys() {
            self.pool.free_id(id);
            out.push(Output::Engine(EngineOp::DeleteNextHop { id }));
        }
        self.pool.remove_unused(out);
        self.settle_sources(out);
    }

    fn group_is(&mut self, now: Instant, id: NextHopId, members: Members, out: &mut Outbox<Output>) {
        let pool = &self.pool;
        let seen =
            self.tables.values_mut().flat_map(Table::sides).find_map(|s| s.see_group(id, &members, pool));
        match seen {
            Some(true) => {}
            Some(false) => self.damage(now, Drift::NextHop(id), out),
            None if !self.started => {
                self.pool.take_id(id);
                self.found_groups.insert(id, members);
            }
            None => out.push(Output::Engine(EngineOp::DeleteNextHop { id })),
        }
    }

    fn route_is(
        &mut self,
        now: Instant,
        table: TableId,
        prefix: IpPrefix,
        target: Option<RouteTarget>,
        replaced: bool,
        out: &mut Outbox<Output>,
    ) {
        let started = self.started;
        let side = self.table(table).side(prefix.family());
        let Some(target) = target else {
            if replaced && side.route_gone(prefix) {
                self.damage(now, Drift::Route(table, prefix), out);
            }
            return;
        };
        match side.see_route(prefix, target) {
            Observation::Fine => {}
            Observation::Damaged => self.damage(now, Drift::Route(table, prefix), out),
            Observation::Unwanted if !started => {
                let members = match target {
                    RouteTarget::Group(id) => self.found_groups.remove(&id),
                    _ => None,
                };
                let (seed, selection) = (self.seed, &self.selection);
                let table = self.tables.entry(table).or_insert_with(|| Table::new(table, seed, selection));
                table.side(prefix.family()).adopt_route(prefix, target, members.as_ref(), &mut self.pool);
            }
            Observation::Unwanted | Observation::Misplaced => {
                let (scope, provenance) = (Scope::Authority, Provenance::NONE);
                out.push(Output::Engine(EngineOp::DeleteRoute { table, prefix, scope, provenance }));
            }
        }
    }

    /// Sets the source addresses by the host's addresses, once known, and has the routes with a changed source written again.
    fn settle_sources(&mut self, out: &mut Outbox<Output>) {
        if !self.started {
            return;
        }
        for family in self.sources.settle(&self.interfaces, out).into_iter().flatten() {
            self.tables.values_mut().for_each(|table| table.side(family).rewrite());
        }
    }

    /// Returns true for the number of a wanted member or group.
    fn holds_object(&self, id: NextHopId) -> bool {
        let member = self.pool.find(id).and_then(|n| self.pool.get(n));
        member.is_some_and(|m| m.dead.is_none())
            || self.tables.values().any(|t| t.ipv4.has_object(id) || t.ipv6.has_object(id))
    }

    /// The engine lost a member or a group; with a member's, groups became smaller.
    fn next_hop_gone(&mut self, now: Instant, id: NextHopId, out: &mut Outbox<Output>) {
        let held = self.holds_object(id);
        for side in self.tables.values_mut().flat_map(Table::sides) {
            side.group_lost(id);
        }
        if held {
            self.damage(now, Drift::NextHop(id), out);
        }
    }

    /// Follows the kernel, which drops the members on a link that went down, the groups left empty, and their routes,
    /// without a notice.
    fn link_down(&mut self, interface: InterfaceIndex, out: &mut Outbox<Output>) {
        let reason = alloc::format!("interface {} is down", self.interfaces.name(interface));
        let refusal = Refusal { kind: RefusalKind::Invalid, reason };
        self.round += 1;
        for id in self.pool.living_on(interface) {
            out.push(Output::Engine(EngineOp::DeleteNextHop { id }));
            if let Some(n) = self.pool.mark_unusable(id, refusal.clone()) {
                for side in self.tables.values_mut().flat_map(Table::sides) {
                    side.member_changed(n, self.round, &mut self.pool, out);
                }
            }
        }
    }

    /// Retries refused members, as when an interface came up or got an address.
    fn retry(&mut self, dead: Vec<u32>, out: &mut Outbox<Output>) {
        for n in dead {
            self.pool.rewrite(n, out);
            for side in self.tables.values_mut().flat_map(Table::sides) {
                side.member_changed(n, self.round, &mut self.pool, out);
            }
        }
    }

    /// Writes the groups again that lacked a member revived by a new group.
    fn spread_revival(&mut self, out: &mut Outbox<Output>) {
        for n in self.pool.take_revived() {
            for side in self.tables.values_mut().flat_map(Table::sides) {
                side.member_changed(n, self.round, &mut self.pool, out);
            }
        }
    }
}

impl Machine for Fea {
    type Input = Input;
    type Output = Output;
    type State = State;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        if !matches!(input, Input::Refused(_) | Input::RefusedBeside(..)) {
            self.pool.settle(out);
        }
        match input {
            Input::UpdateIpv4(table, batch) => {
                self.table(table);
                if let Some(table) = self.tables.get_mut(&table) {
                    table.ipv4.update(batch, &mut self.pool, out);
                }
                self.spread_revival(out);
            }
            Input::UpdateIpv6(table, batch) => {
                self.table(table);
                if let Some(table) = self.tables.get_mut(&table) {
                    table.ipv6.update(batch, &mut self.pool, out);
                }
                self.spread_revival(out);
            }
            Input::BeginResync(table) => {
                self.table(table);
                for side in self.tables.get_mut(&table).into_iter().flat_map(Table::sides) {
                    side.begin_resync(&mut self.pool, out);
                }
            }
            Input::EndResync(table) => {
                for side in self.table(table).sides() {
                    side.end_resync();
                }
            }
            Input::Refused(list) => self.refused(list, out),
            Input::RefusedBeside(engine, op, refusal) => {
                out.push(Output::Effect(Effect::Event(Event::RefusedBeside(engine, op, refusal))));
            }
            Input::Notice(notice) => self.notice(now, notice, out),
            Input::Configure(configuration) => self.interfaces.configure(configuration, out),
            Input::Join { engine, capabilities } => {
                self.mendings.forget(engine);
                self.replays.start(engine, &capabilities);
            }
            Input::Compare(engine, found) => self.compare(engine, &found, out),
            Input::Mended(engine, mended) => {
                self.mended += mended.routes + mended.objects;
                out.push(Output::Effect(Effect::Event(Event::Mended(engine, mended))));
            }
            Input::BeginRefresh(table, family) => {
                self.refreshed += 1;
                self.table(table);
                if let Some(table) = self.tables.get_mut(&table) {
                    table.side(family).begin_resync(&mut self.pool, out);
                }
            }
            Input::EndRefresh(table, family) => self.table(table).side(family).end_resync(),
            Input::SetSources(sources) => {
                self.sources.configure(sources);
                self.settle_sources(out);
            }
            Input::SelectRoutes(selection) => {
                for side in self.tables.values_mut().flat_map(Table::sides) {
                    side.select_routes(&selection);
                }
                (self.selection, self.is_selecting) = (selection, true);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.repairs.next_deadline()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        for damage in self.repairs.due(now) {
            self.repair(damage, out);
        }
    }

    fn run_slice(&mut self, _now: Instant, mut budget: Budget, out: &mut Outbox<Output>) -> Progress {
        self.pool.settle(out);
        for side in self.tables.values_mut().flat_map(Table::sides) {
            if side.run_slice(&mut budget, &mut self.pool, out) == Progress::More {
                return Progress::More;
            }
        }
        if core::mem::take(&mut self.is_selecting) {
            out.push(Output::Effect(Effect::RoutesSelected));
        }
        // Before the first snapshot ends, the core does not know what the authority holds.
        if self.replays.is_idle() && self.mendings.is_idle() || !self.started {
            return Progress::Done;
        }
        if !out.is_empty() {
            return Progress::More;
        }
        let held = Held { interfaces: &self.interfaces, pool: &self.pool, tables: &self.tables };
        if self.replays.run(&held, &mut budget, out) == Progress::More {
            return Progress::More;
        }
        self.mendings.run(&held, &mut budget, out)
    }

    fn export(&self) -> State {
        let table = |(id, t): (&TableId, &Table)| (*id, t.ipv4.export(&self.pool), t.ipv6.export(&self.pool));
        State { tables: self.tables.iter().map(table).collect() }
    }

    fn import(&mut self, now: Instant, state: State, out: &mut Outbox<Output>) {
        for (id, ipv4, ipv6) in state.tables {
            self.handle(now, Input::UpdateIpv4(id, ipv4), out);
            self.handle(now, Input::UpdateIpv6(id, ipv6), out);
        }
    }
}
