//! Answers to clients with interest in an address: the route, and the range of addresses with the same answer (XORP, section 5.2.1).

use super::reach::{Walk, Way};
use crate::clients::interest::{Scope, WatcherId};
use crate::decide::table::Table;
use crate::entry::looked_up::LookedUp;
use crate::entry::origin::OriginId;
use crate::entry::set::SetId;
use crate::interfaces::Interfaces;
use alloc::vec::Vec;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{Address, AnyPrefix, Forwarding, GroupId, Metric, Prefix, Xid, XidPrefix};
use sluice_stage::TableKey;
use smallvec::SmallVec;

/// The route of an answer.
struct Found<P> {
    prefix: P,
    set: SetId,
    origin: OriginId,
    metric: Metric,
    is_on_link: bool,
}

/// An answer without its range.
struct Answer<P> {
    route: Option<Found<P>>,
    /// The prefix whose routes, and longer prefixes', can change the answer; `None`: any.
    matched: Option<P>,
    /// The groups that the answer depends on.
    groups: SmallVec<[GroupId; 1]>,
    /// Addresses whose answer may differ from their neighbors'.
    others: Vec<Address>,
    /// True if the answer holds for the address alone.
    is_single: bool,
}

impl Table {
    /// Returns the route of an address, and records the answer for `watcher`.
    pub(crate) fn register_interest<P: TableKey>(
        &mut self,
        interfaces: &Interfaces,
        watcher: WatcherId,
        addr: P::Addr,
        scope: Scope,
    ) -> InterestAnswer<P> {
        self.split::<P>();
        let answer = match scope {
            Scope::NextHop => self.answer_for_next_hop::<P>(interfaces, addr),
            Scope::All => self.answer_for_packets::<P>(addr),
        };
        let Some(family) = self.family::<P>() else {
            return InterestAnswer { valid: P::host(addr), route: None };
        };
        let valid = if answer.is_single {
            P::host(addr)
        } else {
            let within = answer.route.as_ref().map(|found| found.prefix);
            let within = within.unwrap_or_else(|| unreached_range::<P>(addr, scope));
            without(family.entries().largest_enclosing(within, addr), addr, &answer.others)
        };
        let valid = family.interests_in(scope).narrow(valid, addr);
        let route = answer.route.map(|found| {
            let slot = self.shared.sets.slot(found.set);
            let resolved = self.shared.groups.group(slot.group).resolved.clone();
            ResolvingRoute {
                prefix: found.prefix,
                metric: found.metric,
                distance: slot.set.distance.unwrap_or(self.shared.origin(found.origin).distance),
                connected: found.is_on_link,
                forwarding: resolved.unwrap_or(Forwarding::Reject),
            }
        });
        let (family, _) = self.split::<P>();
        family.interests(scope).register(watcher, valid, answer.matched, answer.groups);
        InterestAnswer { valid, route }
    }

    /// Looks up the selected route of an address.
    fn answer_for_packets<P: TableKey>(&self, addr: P::Addr) -> Answer<P> {
        let found = self.family::<P>().and_then(|family| {
            let covering = family.entries().covering(P::host(addr));
            let used = covering.filter_map(|(prefix, entry)| {
                family.forwarded(prefix)?;
                Some((prefix, *entry.selected()?))
            });
            used.last()
        });
        let groups = found.iter().map(|(_, path)| self.shared.sets.slot(path.set).group).collect();
        let route = found.map(|(prefix, path)| Found {
            prefix,
            set: path.set,
            origin: path.origin,
            metric: self.shared.sets.slot(path.set).set.metric,
            is_on_link: self.shared.origin(path.origin).connected,
        });
        let matched = found.map(|(prefix, _)| prefix);
        Answer { route, matched, groups, others: Vec::new(), is_single: false }
    }

    /// Looks up the route by which a next hop is reached.
    fn answer_for_next_hop<P: TableKey>(&self, interfaces: &Interfaces, addr: P::Addr) -> Answer<P> {
        let gateway = addr.into();
        if self.is_no_gateway(gateway) {
            let (groups, others) = (SmallVec::new(), Vec::new());
            return Answer { route: None, matched: None, groups, others, is_single: true };
        }
        let (way, groups, looked_up) = Walk::new(self, interfaces, P::ID).way(gateway);
        // A route that was tried before the answer's route may lead back to this address, and be the way to its neighbors.
        let reached_by = way.as_ref().and_then(|way| way.route);
        let is_single = groups.len() > usize::from(reached_by.is_some());
        let matched = reached_by.and_then(|route| route.prefix.to());
        let route = way.and_then(|way| self.found(addr, &way, &looked_up));
        let others = self.no_gateways.iter().copied();
        let others = others.chain(looked_up.iter().map(|looked_up| looked_up.gateway));
        Answer { route, matched, groups, others: others.collect(), is_single }
    }

    /// Returns the route of a way; for the tunnel of an identifier without a route of its own, the route to the tunnel's end, with the
    /// identifier's prefix.
    fn found<P: Prefix>(&self, addr: P::Addr, way: &Way, looked_up: &[LookedUp]) -> Option<Found<P>> {
        let (prefix, route) = match way.route {
            Some(route) => (route.prefix.to::<P>()?, route),
            None => {
                let end = Address::Ip(Xid::try_from(addr.into()).ok()?.tunnel_end()?);
                let len = looked_up.iter().find(|looked_up| looked_up.gateway == end)?.len;
                let used = |prefix: AnyPrefix| prefix.len() == len;
                (P::host(addr), self.routes_to(end).into_iter().find(|route| used(route.prefix))?)
            }
        };
        let (set, origin) = (route.set, route.origin);
        Some(Found { prefix, set, origin, metric: way.metric, is_on_link: way.is_on_link })
    }
}

/// Returns the largest part of `range` around `addr` without other addresses of a list.
fn without<P: Prefix>(mut range: P, addr: P::Addr, others: &[Address]) -> P {
    for other in
        others.iter().filter_map(|other| P::Addr::try_from(*other).ok()).filter(|other| *other != addr)
    {
        while range.contains(other) {
            let Some(half) = range.child(P::host(addr).bit(range.len())) else { break };
            range = half;
        }
    }
    range
}

/// Returns the widest range in which an address without a route may share the answer with others, as far as their form goes. As next hops,
/// the identifiers of tunnels are reached through routes of IP: each has an answer of its own, and no answer holds for a tunnel's and
/// another principal's identifiers.
fn unreached_range<P: TableKey>(addr: P::Addr, scope: Scope) -> P {
    let kind = Xid::try_from(addr.into()).ok().filter(|_| scope == Scope::NextHop).map(|xid| xid.kind);
    match kind {
        None => P::default_route(),
        Some(kind) if kind.is_of_tunnels() => P::host(addr),
        Some(_) => P::host(addr).truncate(XidPrefix::TYPE_BITS),
    }
}
