//! A family's part of a table without the type of its keys, for operations that are the same for every family.

use super::candidate::Candidate;
use super::export;
use super::export::RoutesPart;
use super::family::FamilyRib;
use super::table::Table;
use super::view::{self, PageQuery, RouteView, Summary};
use crate::clients::interest::{Scope, WatcherId};
use crate::clients::presence::Presence;
use crate::clients::subscriber::{Subscriber, SubscriptionId};
use crate::entry::origin::OriginId;
use crate::entry::routes::Shared;
use crate::event::Event;
use crate::interfaces::Interfaces;
use crate::policy::{Chain, RibPolicies};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use sluice_base::{Address, AnyPrefix, Digest, FamilyId, GroupId, Provenance, RouteBatch, XidPrefix};
use sluice_machine::{Budget, Progress};
use sluice_stage::TableKey;
use smallvec::SmallVec;

/// Imports a batch whose keys have lost their type; made by [`AnyFamily::importer`].
pub(crate) type Importer = fn(&mut Table, &Interfaces, OriginId, RouteBatch<AnyPrefix>, &mut Vec<Event>);

/// [`FamilyRib`] without the type of its keys. Addresses and prefixes of other families are not found.
pub(crate) trait AnyFamily: Any + Send {
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// Returns the family's number.
    fn id(&self) -> FamilyId;

    /// Sends subscribers the list of origins.
    fn note_origins(&mut self, shared: &Shared);
    fn start_sweep(&mut self, origin: OriginId, provenance: Provenance);
    fn is_sweeping(&self, origin: OriginId) -> bool;
    fn run_slice(
        &mut self,
        shared: &mut Shared,
        budget: &mut Budget,
        provenance: Provenance,
    ) -> (Progress, Option<(OriginId, u64)>);

    /// Starts to apply an origin's policies again.
    fn start_refilter(&mut self, origin: OriginId);
    /// Sets the policies of subscribers, and sends routes again where a policy changed.
    fn set_subscriber_policies(&mut self, policies: &RibPolicies);
    /// Starts to apply the policies of subscribers again.
    fn refilter_subscribers(&mut self);

    fn begin_fib(&mut self, shared: &Shared);
    /// Returns the digests of the routes and of the groups that the engine was sent.
    fn fib_digests(&self) -> [Digest; 2];
    fn has_fib_work(&self, shared: &Shared) -> bool;
    /// Notes that the engine refused the selected route of a prefix, and returns the route's origin.
    fn reject(&mut self, prefix: AnyPrefix, reason: &str) -> Option<OriginId>;
    /// Notes that a subscriber takes the route of a prefix that it refused.
    fn accept(&mut self, prefix: AnyPrefix);

    /// Returns the routes that may reach an address, the preferred one first.
    fn routes_to(&self, shared: &Shared, policy: Option<&Chain>, addr: Address) -> SmallVec<[Candidate; 8]>;
    /// Takes the prefixes with changed routes, and drops the answers about next hops based on them.
    fn take_changed(&mut self, changed: &mut Vec<AnyPrefix>);
    fn redecide_internal(&mut self, shared: &mut Shared, provenance: Provenance);
    /// Decides the entries again that cover an address.
    fn redecide_covering(&mut self, shared: &mut Shared, addr: Address, provenance: Provenance);
    fn start_pass(&mut self);
    fn flush_selected(&mut self, shared: &mut Shared);
    /// Returns the names of stages that broke a rule since the last call, with the rule.
    fn broken_stages(&mut self) -> Vec<(&'static str, String)>;

    fn forget_group_answers(&mut self, group: GroupId);
    /// Drops all answers about next hops.
    fn forget_next_hop_answers(&mut self);
    /// Drops the answers about an address that started or stopped being a possible gateway.
    fn invalidate_gateway(&mut self, addr: Address);
    /// Drops the answers about identifiers whose tunnels end where routes changed.
    fn invalidate_tunnels(&mut self, changed: &[AnyPrefix]);
    fn deregister_interest(&mut self, watcher: WatcherId, range: AnyPrefix);
    fn forget_watcher(&mut self, watcher: WatcherId);
    /// Takes the ranges of invalidated answers, by watcher.
    fn take_invalidated(&mut self, invalidated: &mut BTreeMap<WatcherId, Vec<AnyPrefix>>);

    /// Returns the number of a watcher's presence watches.
    fn presence_watches(&self, watcher: WatcherId) -> usize;
    fn unwatch_presence(&mut self, watcher: WatcherId, prefix: AnyPrefix, except: Option<&str>);
    /// Looks at every watched prefix again.
    fn note_all_presences(&mut self);
    /// Takes the changes of presence, by watcher; absences only if `are_origins_known`.
    fn take_presences(
        &mut self,
        shared: &Shared,
        are_origins_known: bool,
        changes: &mut BTreeMap<WatcherId, Vec<Presence>>,
    );

    fn has_subscription(&self, id: SubscriptionId) -> bool;
    fn unsubscribe(&mut self, id: SubscriptionId, shared: &mut Shared);
    fn has_consumers(&self, shared: &Shared, origin: OriginId) -> bool;

    fn page(&self, shared: &Shared, query: &PageQuery) -> (Vec<RouteView>, bool);
    fn lookup(&self, shared: &Shared, addr: Address) -> Option<RouteView>;
    fn summary(&self, shared: &Shared) -> Summary;
    /// Returns routes behind a prefix by origin, and the last prefix among them; `None` if no routes are left.
    fn export(&self, shared: &Shared, after: Option<AnyPrefix>) -> Option<(Vec<RoutesPart>, AnyPrefix)>;
    /// Returns the function that imports a batch of the family.
    fn importer(&self) -> Importer;
}

impl<P: TableKey> AnyFamily for FamilyRib<P> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn id(&self) -> FamilyId {
        P::ID
    }

    fn note_origins(&mut self, shared: &Shared) {
        self.subscribers.iter_mut().for_each(|subscriber| subscriber.note_origins(shared));
        self.announced.iter_mut().for_each(|subscriber| subscriber.note_origins(&shared.origins));
    }

    fn start_sweep(&mut self, origin: OriginId, provenance: Provenance) {
        FamilyRib::start_sweep(self, origin, provenance);
    }

    fn is_sweeping(&self, origin: OriginId) -> bool {
        FamilyRib::is_sweeping(self, origin)
    }

    fn run_slice(
        &mut self,
        shared: &mut Shared,
        budget: &mut Budget,
        provenance: Provenance,
    ) -> (Progress, Option<(OriginId, u64)>) {
        FamilyRib::run_slice(self, shared, budget, provenance)
    }

    fn start_refilter(&mut self, origin: OriginId) {
        FamilyRib::start_refilter(self, origin);
    }

    fn set_subscriber_policies(&mut self, policies: &RibPolicies) {
        self.subscribers.iter_mut().for_each(|subscriber| subscriber.set_policies(policies));
    }

    fn refilter_subscribers(&mut self) {
        self.subscribers.iter_mut().for_each(Subscriber::refilter);
    }

    fn begin_fib(&mut self, shared: &Shared) {
        FamilyRib::begin_fib(self, shared);
    }

    fn fib_digests(&self) -> [Digest; 2] {
        self.downstream.digest.digests()
    }

    fn has_fib_work(&self, shared: &Shared) -> bool {
        FamilyRib::has_fib_work(self, shared)
    }

    fn reject(&mut self, prefix: AnyPrefix, reason: &str) -> Option<OriginId> {
        let prefix: P = prefix.to()?;
        let origin = self.entries.get(prefix)?.selected()?.origin;
        self.note_rejection(prefix, String::from(reason));
        Some(origin)
    }

    fn accept(&mut self, prefix: AnyPrefix) {
        if let Some(prefix) = prefix.to::<P>() {
            self.rejected.remove(&prefix);
        }
    }

    fn routes_to(&self, shared: &Shared, policy: Option<&Chain>, addr: Address) -> SmallVec<[Candidate; 8]> {
        let Ok(addr) = P::Addr::try_from(addr) else { return SmallVec::new() };
        FamilyRib::routes_to(self, shared, policy, addr)
    }

    fn take_changed(&mut self, changed: &mut Vec<AnyPrefix>) {
        for prefix in self.downstream.changed.drain(..) {
            self.interests_next_hop.invalidate(prefix, &mut self.invalidated);
            changed.push(AnyPrefix::of(prefix));
        }
    }

    fn redecide_internal(&mut self, shared: &mut Shared, provenance: Provenance) {
        FamilyRib::redecide_internal(self, shared, provenance);
    }

    fn redecide_covering(&mut self, shared: &mut Shared, addr: Address, provenance: Provenance) {
        if let Ok(addr) = P::Addr::try_from(addr) {
            FamilyRib::redecide_covering(self, shared, addr, provenance);
        }
    }

    fn start_pass(&mut self) {
        FamilyRib::start_pass(self);
    }

    fn flush_selected(&mut self, shared: &mut Shared) {
        FamilyRib::flush_selected(self, shared);
    }

    fn broken_stages(&mut self) -> Vec<(&'static str, String)> {
        FamilyRib::broken_stages(self)
    }

    fn forget_group_answers(&mut self, group: GroupId) {
        FamilyRib::forget_group_answers(self, group);
    }

    fn forget_next_hop_answers(&mut self) {
        self.interests_next_hop.drop_all(&mut self.invalidated);
    }

    fn invalidate_gateway(&mut self, addr: Address) {
        if let Ok(addr) = P::Addr::try_from(addr) {
            self.interests_next_hop.invalidate(P::host(addr), &mut self.invalidated);
        }
    }

    fn invalidate_tunnels(&mut self, changed: &[AnyPrefix]) {
        if P::ID != FamilyId::XID || self.interests_next_hop.is_empty() {
            return;
        }
        let ends = changed.iter().filter_map(|prefix| prefix.ip());
        for xids in ends.flat_map(XidPrefix::of_tunnel_ends) {
            if let Some(xids) = AnyPrefix::of(xids).to::<P>() {
                self.interests_next_hop.invalidate(xids, &mut self.invalidated);
            }
        }
    }

    fn deregister_interest(&mut self, watcher: WatcherId, range: AnyPrefix) {
        if let Some(range) = range.to::<P>() {
            for scope in [Scope::NextHop, Scope::All] {
                self.interests(scope).deregister(watcher, range);
            }
        }
    }

    fn forget_watcher(&mut self, watcher: WatcherId) {
        for scope in [Scope::NextHop, Scope::All] {
            self.interests(scope).forget(watcher);
        }
        self.presences.forget(watcher);
    }

    fn take_invalidated(&mut self, invalidated: &mut BTreeMap<WatcherId, Vec<AnyPrefix>>) {
        for (watcher, range) in self.invalidated.drain(..) {
            invalidated.entry(watcher).or_default().push(AnyPrefix::of(range));
        }
    }

    fn presence_watches(&self, watcher: WatcherId) -> usize {
        self.presences.count(watcher)
    }

    fn unwatch_presence(&mut self, watcher: WatcherId, prefix: AnyPrefix, except: Option<&str>) {
        if let Some(prefix) = prefix.to::<P>() {
            self.presences.unwatch(watcher, prefix, except);
        }
    }

    fn note_all_presences(&mut self) {
        self.presences.note_all();
    }

    fn take_presences(
        &mut self,
        shared: &Shared,
        are_origins_known: bool,
        changes: &mut BTreeMap<WatcherId, Vec<Presence>>,
    ) {
        FamilyRib::take_presences(self, shared, are_origins_known, changes);
    }

    fn has_subscription(&self, id: SubscriptionId) -> bool {
        self.subscribers.iter().any(|subscriber| subscriber.id == id)
            || self.announced.iter().any(|subscriber| subscriber.id == id)
    }

    fn unsubscribe(&mut self, id: SubscriptionId, shared: &mut Shared) {
        for mut subscriber in self.subscribers.extract_if(.., |subscriber| subscriber.id == id) {
            subscriber.close(shared);
        }
        self.announced.retain(|subscriber| subscriber.id != id);
    }

    fn has_consumers(&self, shared: &Shared, origin: OriginId) -> bool {
        FamilyRib::has_consumers(self, shared, origin)
    }

    fn page(&self, shared: &Shared, query: &PageQuery) -> (Vec<RouteView>, bool) {
        view::page(self, shared, query)
    }

    fn lookup(&self, shared: &Shared, addr: Address) -> Option<RouteView> {
        let addr = P::Addr::try_from(addr).ok()?;
        let covering = self.entries.covering(P::host(addr));
        let used = covering.filter_map(|(prefix, entry)| {
            self.forwarded(prefix)?;
            Some((prefix, entry, entry.selected()?))
        });
        let (prefix, entry, path) = used.last()?;
        Some(view::show(self, shared, prefix, entry, path))
    }

    fn summary(&self, shared: &Shared) -> Summary {
        let origins = shared.origins.iter().enumerate().map(|(number, origin)| {
            let routes = self.route_count(OriginId(number as u16));
            (origin.name.clone(), origin.distance, routes, origin.stale)
        });
        Summary {
            table: shared.table,
            family: P::ID,
            prefixes: self.entries.len() as u64,
            selected: self.selected_count(),
            groups: shared.groups.len() as u64,
            interests: (self.interests_next_hop.len() + self.interests_all.len()) as u64,
            origins: origins.collect(),
        }
    }

    fn export(&self, shared: &Shared, after: Option<AnyPrefix>) -> Option<(Vec<RoutesPart>, AnyPrefix)> {
        export::export_family(self, shared, after)
    }

    fn importer(&self) -> Importer {
        |table, interfaces, origin, batch, events| {
            let batch = RouteBatch {
                sets: batch.sets,
                updates: batch.updates.into_iter().filter_map(|update| update.to_key::<P>()).collect(),
            };
            table.update::<P>(interfaces, origin, batch, events);
        }
    }
}
