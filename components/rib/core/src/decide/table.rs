//! A routing table: its families, and their shared parts.

use super::any_family::AnyFamily;
use super::family::FamilyRib;
use super::fib::is_routable;
use super::import::Import;
use crate::entry::gateways::Gateways;
use crate::entry::group::Groups;
use crate::entry::origin::OriginSettings;
use crate::entry::origin::{Origin, OriginId};
use crate::entry::routes::Shared;
use crate::entry::set::{SetId, Sets};
use crate::event::Event;
use crate::interfaces::Interfaces;
use crate::policy::RibPolicies;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::{
    Address, AnyPrefix, DigestKey, Distance, Duration, FamilyId, FibBatch, Forwarding, IpPrefix, Ipv4Prefix,
    Ipv6Prefix, NextHop, Provenance, RouteAction, RouteBatch, RouteSet, TableId, XidPrefix,
};
use sluice_machine::{Budget, Progress};
use sluice_stage::TableKey;
use smallvec::SmallVec;

/// The name of the origin that the RIB itself fills from the interfaces.
pub const CONNECTED: &str = "connected";

/// A routing table.
pub struct Table {
    /// The table's number.
    pub id: TableId,
    /// Origins, sets and groups.
    pub shared: Shared,
    families: BTreeMap<FamilyId, Box<dyn AnyFamily>>,
    pub(crate) gateways: Gateways,
    connected: BTreeMap<IpPrefix, Vec<sluice_base::InterfaceIndex>>,
    /// Addresses on links that cannot be gateways ([`Interfaces::no_gateways`]): no route resolves through such an
    /// address, and no answer calls such an address reachable.
    pub(crate) no_gateways: BTreeSet<Address>,
    /// Gateways that an origin declared unusable: the origin's routes with further next hops use these.
    pub(crate) unusable: BTreeSet<(OriginId, Address)>,
    /// The configured policies.
    pub(crate) policies: Arc<RibPolicies>,
}

impl Table {
    /// Makes an empty table. `seed` makes hashes unpredictable; an engine forwards the routes of `engine_families`.
    pub fn new(id: TableId, seed: u64, engine_families: &[FamilyId]) -> Self {
        let shared = Shared {
            table: id,
            interface_names: BTreeMap::new(),
            origins: Vec::new(),
            sets: Sets::new(seed),
            groups: Groups::default(),
            gone: Vec::new(),
            has_engine: true,
            engine_families: engine_families.to_vec(),
            digest_key: DigestKey(0),
        };
        let mut table = Table {
            id,
            shared,
            families: BTreeMap::new(),
            gateways: Gateways::default(),
            connected: BTreeMap::new(),
            no_gateways: BTreeSet::new(),
            unusable: BTreeSet::new(),
            policies: Arc::default(),
        };
        table.split::<Ipv4Prefix>();
        table.split::<Ipv6Prefix>();
        table.split::<XidPrefix>();
        table
    }

    /// Returns the family's part of the table, and the shared parts. The family's part is created at the first call.
    pub(crate) fn split<P: TableKey>(&mut self) -> (&mut FamilyRib<P>, &mut Shared) {
        let shared = &mut self.shared;
        let family = self.families.entry(P::ID).or_insert_with(|| Box::new(FamilyRib::<P>::new(shared)));
        let family =
            family.as_any_mut().downcast_mut().expect("a family's number stands for one type of keys");
        (family, shared)
    }

    /// Returns the family's part of the table; `None` if the table never had a route of the family.
    pub fn family<P: TableKey>(&self) -> Option<&FamilyRib<P>> {
        self.families.get(&P::ID)?.as_any().downcast_ref()
    }

    /// Returns the part of a family by number.
    pub(crate) fn any_family(&self, family: FamilyId) -> Option<&dyn AnyFamily> {
        self.families.get(&family).map(AsRef::as_ref)
    }

    /// Returns the part of a family by number, and the shared parts.
    pub(crate) fn any_family_mut(&mut self, family: FamilyId) -> Option<(&mut dyn AnyFamily, &mut Shared)> {
        Some((self.families.get_mut(&family)?.as_mut(), &mut self.shared))
    }

    /// Iterates over the families, in the order of their numbers, for reading.
    pub(crate) fn all_families(&self) -> impl Iterator<Item = &dyn AnyFamily> {
        self.families.values().map(AsRef::as_ref)
    }

    /// Returns the families, and their shared parts.
    pub(crate) fn families(&mut self) -> (impl Iterator<Item = &mut Box<dyn AnyFamily>>, &mut Shared) {
        (self.families.values_mut(), &mut self.shared)
    }

    /// Returns the number of a registered origin.
    pub fn origin_id(&self, name: &str) -> Option<OriginId> {
        self.shared.origins.iter().position(|o| o.name == name).map(|i| OriginId(i as u16))
    }

    /// Registers an origin, or its next life. Returns its number; `None` if there are too many origins.
    pub(crate) fn register(&mut self, settings: &OriginSettings) -> Option<OriginId> {
        let id = match self.origin_id(&settings.name) {
            Some(id) => {
                let origin = &mut self.shared.origins[usize::from(id.0)];
                if origin.alive {
                    origin.begin_new_life();
                }
                origin.alive = true;
                origin.leaving = false;
                origin.distance = settings.distance;
                origin.external = settings.external;
                origin.grace = settings.grace;
                origin.kinds.clone_from(&settings.kinds);
                return Some(id);
            }
            None => OriginId(u16::try_from(self.shared.origins.len()).ok().filter(|n| *n < 200)?),
        };
        self.shared.origins.push(Origin {
            name: settings.name.clone(),
            distance: settings.distance,
            external: settings.external,
            connected: settings.name == CONNECTED,
            grace: settings.grace,
            kinds: settings.kinds.clone(),
            import: self.policies.import(&settings.name).cloned(),
            generation: 0,
            alive: true,
            leaving: false,
            routes: 0,
            stale: 0,
            note: Vec::new(),
        });
        let (families, shared) = self.families();
        families.for_each(|family| family.note_origins(shared));
        Some(id)
    }

    /// Takes an origin's changes.
    pub(crate) fn update<P: TableKey>(
        &mut self,
        interfaces: &Interfaces,
        origin: OriginId,
        batch: RouteBatch<P>,
        events: &mut Vec<Event>,
    ) {
        let mut sets: SmallVec<[SetId; 16]> = SmallVec::new();
        let mut new_groups = SmallVec::<[_; 4]>::new();
        let (_, shared) = self.split::<P>();
        let owner = shared.origin(origin).external.then_some(origin);
        for set in batch.sets {
            let (id, group) = shared.sets.acquire(&mut shared.groups, P::ID, owner, set);
            sets.push(id);
            new_groups.extend(group);
        }
        for group in new_groups {
            self.resolve_group(interfaces, group);
        }
        let (family, shared) = self.split::<P>();
        let mut import = Import::of(shared, origin);
        let mut provenance = Provenance::NONE;
        for update in batch.updates {
            provenance = update.provenance;
            let set = match update.action {
                RouteAction::Delete => None,
                RouteAction::Set(index) => match sets.get(index as usize) {
                    Some(set) if is_routable(update.prefix) => Some(*set),
                    _ => {
                        let name = shared.origin(origin).name.clone();
                        events.push(Event::BadSet { origin: name, prefix: AnyPrefix::of(update.prefix) });
                        continue;
                    }
                },
            };
            match (&mut import, set) {
                (Some(import), Some(announced)) => {
                    let set = import.filter(shared, update.prefix, announced);
                    family.change(shared, origin, update.prefix, Some(set), provenance);
                    shared.release(set);
                }
                _ => family.change(shared, origin, update.prefix, set, provenance),
            }
        }
        if let Some(import) = import {
            import.end(shared);
        }
        for set in sets {
            shared.gone.extend(shared.sets.release(&mut shared.groups, set));
        }
        self.settle_and_report(interfaces, provenance, events);
    }

    /// Sets the addresses that cannot be gateways, and drops the affected answers.
    pub(crate) fn set_no_gateways(&mut self, now: BTreeSet<Address>) {
        for addr in now.symmetric_difference(&self.no_gateways) {
            if let Some(family) = self.families.get_mut(&addr.family()) {
                family.invalidate_gateway(*addr);
            }
        }
        self.no_gateways = now;
    }

    /// Returns true if no packet can be sent through `addr`, although `addr` is on a link.
    pub(crate) fn is_no_gateway(&self, addr: Address) -> bool {
        self.no_gateways.contains(&addr)
    }

    /// Updates the connected origin from the interfaces, and resolves the affected routes again.
    pub(crate) fn interfaces_changed(
        &mut self,
        interfaces: &Interfaces,
        provenance: Provenance,
        events: &mut Vec<Event>,
    ) {
        let settings = OriginSettings {
            name: CONNECTED.into(),
            distance: Distance::CONNECTED,
            external: false,
            grace: Duration::ZERO,
            kinds: Vec::new(),
        };
        let Some(origin) = self.origin_id(CONNECTED).or_else(|| self.register(&settings)) else { return };
        self.set_no_gateways(interfaces.no_gateways());
        let names = interfaces.names();
        if self.shared.interface_names != names {
            self.shared.interface_names = names;
            self.refilter_all();
        }
        let now = interfaces.connected();
        let before = core::mem::replace(&mut self.connected, now.clone());
        let (mut v4, mut v6) = (RouteBatch::default(), RouteBatch::default());
        for prefix in before.keys().filter(|p| !now.contains_key(p)) {
            push(&mut v4, &mut v6, *prefix, None, provenance);
        }
        for (prefix, on) in now.iter().filter(|(p, on)| before.get(p) != Some(on)) {
            push(&mut v4, &mut v6, *prefix, Forwarding::many(on.iter().map(|i| NextHop::on(*i))), provenance);
        }
        self.update(interfaces, origin, v4, events);
        self.update(interfaces, origin, v6, events);
        let all: Vec<_> = self.shared.groups.iter().map(|(id, _)| id).collect();
        self.resolve_groups(interfaces, all, provenance);
        self.settle_and_report(interfaces, provenance, events);
    }

    /// An origin declares a gateway unusable, or usable again: every group of the origin with the gateway goes over to other next hops, or
    /// comes back. The cost depends on the number of groups, not of routes.
    pub(crate) fn set_usable(
        &mut self,
        interfaces: &Interfaces,
        (origin, gateway): (OriginId, Address),
        is_usable: bool,
        provenance: Provenance,
        events: &mut Vec<Event>,
    ) {
        let key = (origin, gateway);
        let is_changed = if is_usable { self.unusable.remove(&key) } else { self.unusable.insert(key) };
        if !is_changed {
            return;
        }
        let leads_there = |hops: &[NextHop<Address>]| hops.iter().any(|hop| hop.gateway == Some(gateway));
        let groups = self.shared.groups.iter().filter(|(_, group)| group.owner == Some(origin));
        let groups = groups.filter(|(_, group)| leads_there(group.announced.next_hops()));
        // Next hops of other routes may lead through the origin's routes.
        let groups: BTreeSet<_> = groups.map(|(id, _)| id).chain(self.gateways.users(gateway)).collect();
        self.resolve_groups(interfaces, groups, provenance);
        self.settle_and_report(interfaces, provenance, events);
    }

    pub(crate) fn settle_and_report(
        &mut self,
        interfaces: &Interfaces,
        provenance: Provenance,
        events: &mut Vec<Event>,
    ) {
        self.settle(interfaces, provenance);
        let table = self.id;
        for family in self.families().0 {
            let broken = family.broken_stages().into_iter();
            events.extend(broken.map(|(stage, rule)| Event::StageIsolated {
                table,
                stage: stage.into(),
                rule,
            }));
        }
    }

    /// Starts to remove an origin's stale routes.
    pub(crate) fn sweep(&mut self, origin: OriginId, provenance: Provenance) {
        self.families().0.for_each(|family| family.start_sweep(origin, provenance));
    }

    /// A slice of background work in each family.
    pub(crate) fn run_slice(
        &mut self,
        interfaces: &Interfaces,
        budget: Budget,
        provenance: Provenance,
        swept: &mut Vec<(OriginId, u64)>,
        events: &mut Vec<Event>,
    ) -> Progress {
        let mut progress = Progress::Done;
        let (families, shared) = self.families();
        for family in families {
            let mut budget = budget;
            let (more, done) = family.run_slice(shared, &mut budget, provenance);
            progress = progress.or(more);
            swept.extend(done);
        }
        self.settle_and_report(interfaces, provenance, events);
        progress
    }

    /// Returns true while an origin's routes are being removed.
    pub(crate) fn is_sweeping(&self, origin: OriginId) -> bool {
        self.all_families().any(|family| family.is_sweeping(origin))
    }

    /// Fills a batch for the engine.
    pub(crate) fn fill_fib<P: TableKey>(&mut self, limit: usize, batch: &mut FibBatch<P, Address>) {
        let (family, shared) = self.split::<P>();
        family.fill_fib(shared, limit, batch);
        self.forget_gone();
    }

    /// Sets a new engine without routes that accepts every route, or an engine that accepts no routes.
    pub(crate) fn set_engine(&mut self, has_engine: bool) {
        self.shared.has_engine = has_engine;
        let (families, shared) = self.families();
        families.for_each(|family| family.begin_fib(shared));
        let gone = self.shared.groups.forget_engine(None);
        self.shared.gone.extend(gone);
        self.forget_gone();
    }

    /// An origin's name.
    pub(crate) fn origin_name(&self, id: OriginId) -> &str {
        &self.shared.origin(id).name
    }

    /// Sets the policies of origins and subscribers, and starts to apply those that changed.
    pub(crate) fn set_policies(
        &mut self,
        interfaces: &Interfaces,
        policies: &Arc<RibPolicies>,
        provenance: Provenance,
    ) {
        let resolves_anew = self.policies.resolving() != policies.resolving();
        self.policies = Arc::clone(policies);
        if resolves_anew {
            self.resolve_all(interfaces, provenance);
        }
        let mut changed: SmallVec<[OriginId; 4]> = SmallVec::new();
        for (number, origin) in self.shared.origins.iter_mut().enumerate() {
            let import = policies.import(&origin.name).cloned();
            if origin.import != import {
                origin.import = import;
                changed.push(OriginId(number as u16));
            }
        }
        let (families, _) = self.families();
        for family in families {
            changed.iter().for_each(|origin| family.start_refilter(*origin));
            family.set_subscriber_policies(policies);
        }
    }

    /// Starts to apply all policies again: a name of an interface changed.
    pub(crate) fn refilter_all(&mut self) {
        let origins = self.shared.origins.iter().enumerate().filter(|(_, origin)| origin.import.is_some());
        let origins: SmallVec<[OriginId; 4]> = origins.map(|(number, _)| OriginId(number as u16)).collect();
        let (families, _) = self.families();
        for family in families {
            origins.iter().for_each(|origin| family.start_refilter(*origin));
            family.refilter_subscribers();
        }
    }

    /// Names of origins without a living process whose routes are gone.
    pub(crate) fn note_swept(&mut self, id: OriginId) -> Option<String> {
        if self.is_sweeping(id) {
            return None;
        }
        let origin = &mut self.shared.origins[usize::from(id.0)];
        origin.stale = 0;
        Some(origin.name.clone())
    }
}

fn push(
    v4: &mut RouteBatch<Ipv4Prefix>,
    v6: &mut RouteBatch<Ipv6Prefix>,
    prefix: IpPrefix,
    forwarding: Option<Forwarding<Address>>,
    provenance: Provenance,
) {
    fn one<P>(
        batch: &mut RouteBatch<P>,
        prefix: P,
        forwarding: Option<Forwarding<Address>>,
        provenance: Provenance,
    ) {
        let action = match forwarding {
            Some(forwarding) => {
                batch.sets.push(RouteSet::plain(forwarding));
                RouteAction::Set((batch.sets.len() - 1) as u32)
            }
            None => RouteAction::Delete,
        };
        batch.updates.push(sluice_base::RouteUpdate { prefix, action, provenance });
    }
    match prefix {
        IpPrefix::V4(p) => one(v4, p, forwarding, provenance),
        IpPrefix::V6(p) => one(v6, p, forwarding, provenance),
    }
}
