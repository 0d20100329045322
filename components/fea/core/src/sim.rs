//! The simulated engine: the kernel's behavior in memory, with faults on request.
//!
//! The engine has the relevant rules of the kernel: a gateway must be on a subnet of an up interface; a link that goes
//! down removes the members, groups shrink, and an empty group removes the routes, without notices.

use crate::engine::{
    Capability, Engine, EngineOp, EngineRoute, Link, Member, Members, NextHopId, Notice, PREFERENCE,
    PROTOCOL, ReadError, Refusal, RefusalKind, Refused, RouteQuery, RouteReader, RouteTarget,
};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::ControlFlow;
use sluice_base::{Family, Forwarding, InterfaceAddress, InterfaceIndex, IpPrefix, TableId};

/// A route in the simulated engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimRoute {
    /// A route of the FEA.
    Ours(RouteTarget),
    /// A foreign object.
    Foreign,
}

/// The mark of foreign routes: static routes (`RTPROT_STATIC`).
const FOREIGN: u8 = 4;

/// The largest number of notices of a poll.
const POLL: usize = 256;

/// The engine. The fields are for reading; outside changes go through functions.
#[derive(Clone, Debug, Default)]
pub struct SimEngine {
    /// The interfaces with addresses.
    pub links: BTreeMap<InterfaceIndex, (Link, BTreeSet<InterfaceAddress>)>,
    /// Addresses requested by the core.
    given: BTreeSet<(InterfaceIndex, InterfaceAddress)>,
    /// The members.
    pub members: BTreeMap<NextHopId, Member>,
    /// The groups.
    pub groups: BTreeMap<NextHopId, Members>,
    /// The routes.
    pub routes: BTreeMap<(TableId, IpPrefix), SimRoute>,
    /// Prefixes with refused routes.
    pub refuse: BTreeSet<IpPrefix>,
    /// Objects replaced by a foreign program: with a foreign mark, and without asserted forwarding.
    pub foreign: BTreeSet<NextHopId>,
    /// True if the host forwards, by family; absent if never set.
    pub forwards: BTreeMap<Family, bool>,
    /// The source addresses of routes, by family.
    sources: BTreeMap<Family, IpAddr>,
    /// The source addresses of routes.
    pub route_sources: BTreeMap<(TableId, IpPrefix), IpAddr>,
    /// Operations carried out so far, without those refused.
    pub operations: u64,
    notices: VecDeque<Notice>,
}

impl SimEngine {
    /// An engine without interfaces.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or changes an interface. An interface that went down loses the members.
    pub fn set_link(&mut self, link: Link) {
        let index = link.index;
        let up = link.admin_up;
        let addresses = self.links.remove(&index).map(|(_, a)| a).unwrap_or_default();
        self.links.insert(index, (link.clone(), addresses));
        self.notices.push_back(Notice::LinkIs(link));
        if !up {
            let on = |(id, m): (&NextHopId, &Member)| (m.interface() == Some(index)).then_some(*id);
            let lost: Vec<NextHopId> = self.members.iter().filter_map(on).collect();
            for id in lost {
                self.lose_member(id, false);
            }
        }
    }

    /// Puts an interface up or down.
    pub fn set_up(&mut self, index: InterfaceIndex, up: bool) {
        if let Some((link, _)) = self.links.get(&index) {
            self.set_link(Link { admin_up: up, running: up, ..link.clone() });
        }
    }

    /// Adds an address to an interface.
    pub fn add_address(&mut self, index: InterfaceIndex, address: InterfaceAddress) {
        if let Some((_, addresses)) = self.links.get_mut(&index) {
            addresses.insert(address);
            self.notices.push_back(Notice::AddressIs(index, address, false));
        }
    }

    /// Takes an address from an interface, and with the first (lowest) address of a subnet the remaining addresses there, as a kernel
    /// without promotion. Returns false if the interface does not have the address.
    pub fn take_address(&mut self, index: InterfaceIndex, address: InterfaceAddress) -> bool {
        let Some((_, addresses)) = self.links.get_mut(&index) else { return false };
        if !addresses.remove(&address) {
            return false;
        }
        let subnet = |a: &InterfaceAddress| IpPrefix::new(a.addr, a.prefix_len);
        let goes_too =
            |a: &InterfaceAddress| address.addr.is_ipv4() && *a > address && subnet(a) == subnet(&address);
        let others: Vec<InterfaceAddress> = addresses.iter().filter(|a| goes_too(a)).copied().collect();
        for gone in core::iter::once(address).chain(others) {
            addresses.remove(&gone);
            self.given.remove(&(index, gone));
            // Silently, as the kernel does: IPv4 routes with the source address go with the address.
            let sources = &self.route_sources;
            let has_source =
                |key: &(TableId, IpPrefix)| gone.addr.is_ipv4() && sources.get(key) == Some(&gone.addr);
            self.routes.retain(|key, _| !has_source(key));
            self.notices.push_back(Notice::AddressGone(index, gone));
        }
        true
    }

    /// Deletes a prefix's route, as a foreign program.
    pub fn outsider_deletes(&mut self, table: TableId, prefix: IpPrefix) {
        if self.routes.remove(&(table, prefix)).is_some() {
            self.notices.push_back(Notice::RouteGone { table, prefix });
        }
    }

    /// Puts a foreign route there, if necessary in place of a present route.
    pub fn outsider_sets(&mut self, table: TableId, prefix: IpPrefix) {
        let replaced = self.routes.insert((table, prefix), SimRoute::Foreign).is_some();
        self.notices.push_back(Notice::RouteIs { table, prefix, target: None, replaced });
    }

    /// Deletes a member or a group, as a foreign program.
    pub fn outsider_deletes_next_hop(&mut self, id: NextHopId) {
        if self.groups.contains_key(&id) {
            self.lose_group(id, true);
        } else {
            self.lose_member(id, true);
        }
    }

    /// Replaces a member or a group by a foreign object.
    pub fn outsider_replaces_next_hop(&mut self, id: NextHopId) {
        self.foreign.insert(id);
        self.notices.push_back(Notice::NextHopForeign(id));
    }

    /// Switches the forwarding of a family, as a foreign program.
    pub fn outsider_switches_forwarding(&mut self, family: Family, enabled: bool) {
        self.forwards.insert(family, enabled);
        self.notices.push_back(Notice::ForwardingIs(family, enabled));
    }

    /// Loses the waiting notices.
    pub fn overrun(&mut self) {
        self.notices.clear();
        self.notices.push_back(Notice::Overrun);
    }

    fn lose_member(&mut self, id: NextHopId, notify: bool) {
        if self.members.remove(&id).is_none() {
            return;
        }
        self.foreign.remove(&id);
        if notify {
            self.notices.push_back(Notice::NextHopGone(id));
        }
        let mut empty = Vec::new();
        for (group, members) in &mut self.groups {
            members.retain(|(m, _)| *m != id);
            if members.is_empty() {
                empty.push(*group);
            }
        }
        for group in empty {
            self.lose_group(group, notify);
        }
    }

    fn lose_group(&mut self, id: NextHopId, notify: bool) {
        if self.groups.remove(&id).is_none() {
            return;
        }
        self.foreign.remove(&id);
        if notify {
            self.notices.push_back(Notice::NextHopGone(id));
        }
        self.routes.retain(|_, r| *r != SimRoute::Ours(RouteTarget::Group(id)));
    }

    fn carry_out(&mut self, op: &EngineOp) -> Result<(), Refusal> {
        match op {
            EngineOp::SetMember { id, member } => {
                self.check_member(member)?;
                self.foreign.remove(id);
                self.members.insert(*id, *member);
            }
            EngineOp::SetGroup { id, members, create } => {
                if !create && !self.groups.contains_key(id) {
                    return Err(refusal(RefusalKind::NotFound, "Nexthop id does not exist"));
                }
                if members.is_empty() || members.iter().any(|(m, _)| !self.members.contains_key(m)) {
                    return Err(refusal(RefusalKind::Invalid, "Nexthop id does not exist"));
                }
                self.foreign.remove(id);
                self.groups.insert(*id, members.clone());
            }
            EngineOp::DeleteNextHop { id } => {
                if self.groups.contains_key(id) {
                    self.lose_group(*id, false);
                } else if self.members.contains_key(id) {
                    self.lose_member(*id, false);
                } else {
                    return Err(refusal(RefusalKind::NotFound, "no such next hop"));
                }
            }
            EngineOp::SetRoute { table, prefix, target, replace, .. } => {
                self.check_route(*table, *prefix, *target, *replace)?;
                let source = self.sources.get(&prefix.family()).copied();
                let source = source.filter(|_| matches!(target, RouteTarget::Group(_)));
                let has = |source: &IpAddr| {
                    self.links.values().any(|(_, all)| all.iter().any(|a| a.addr == *source))
                };
                if source.as_ref().is_some_and(|source| !has(source)) {
                    return Err(refusal(RefusalKind::Invalid, "Invalid prefsrc address"));
                }
                self.routes.insert((*table, *prefix), SimRoute::Ours(*target));
                match source {
                    Some(source) => drop(self.route_sources.insert((*table, *prefix), source)),
                    None => drop(self.route_sources.remove(&(*table, *prefix))),
                }
            }
            EngineOp::SetSource { family, source } => match source {
                Some(source) => drop(self.sources.insert(*family, *source)),
                None => drop(self.sources.remove(family)),
            },
            EngineOp::DeleteRoute { table, prefix, .. } => match self.routes.get(&(*table, *prefix)) {
                Some(SimRoute::Ours(_)) => {
                    self.routes.remove(&(*table, *prefix));
                }
                _ => return Err(refusal(RefusalKind::NotFound, "No such process")),
            },
            EngineOp::SetLink { interface, up, mtu } => {
                let (link, _) = self.links.get(interface).ok_or_else(no_interface)?;
                let up = up.unwrap_or(link.admin_up);
                let mtu = mtu.unwrap_or(link.mtu);
                self.set_link(Link { admin_up: up, running: up, mtu, ..link.clone() });
            }
            EngineOp::AddAddress { interface, address } => {
                let (_, addresses) = self.links.get_mut(interface).ok_or_else(no_interface)?;
                if !addresses.insert(*address) {
                    return Err(refusal(RefusalKind::Exists, "File exists"));
                }
                self.given.insert((*interface, *address));
                self.notices.push_back(Notice::AddressIs(*interface, *address, true));
            }
            EngineOp::DeleteAddress { interface, address } => {
                self.links.get(interface).ok_or_else(no_interface)?;
                if !self.take_address(*interface, *address) {
                    return Err(refusal(RefusalKind::NotFound, "Cannot assign requested address"));
                }
            }
            EngineOp::SetForwarding { family, enabled } => {
                self.forwards.insert(*family, *enabled);
                self.notices.push_back(Notice::ForwardingIs(*family, *enabled));
            }
        }
        self.operations += 1;
        Ok(())
    }

    fn check_member(&self, member: &Member) -> Result<(), Refusal> {
        let Some(interface) = member.interface() else { return Ok(()) };
        let (link, addresses) = self.links.get(&interface).ok_or_else(no_interface)?;
        if !link.admin_up {
            return Err(refusal(RefusalKind::Invalid, "Nexthop device is not up"));
        }
        if let Member::Via { gateway, .. } = member {
            let on_link = |a: &InterfaceAddress| {
                let subnet = IpPrefix::new(a.addr, a.prefix_len);
                subnet.is_some() && subnet == IpPrefix::new(*gateway, a.prefix_len)
            };
            if !addresses.iter().any(on_link) {
                return Err(refusal(RefusalKind::Invalid, "Nexthop has invalid gateway"));
            }
        }
        Ok(())
    }

    fn check_route(
        &self,
        table: TableId,
        prefix: IpPrefix,
        target: RouteTarget,
        replace: bool,
    ) -> Result<(), Refusal> {
        if self.refuse.contains(&prefix) {
            return Err(refusal(RefusalKind::Invalid, "refused on order"));
        }
        match target {
            RouteTarget::Group(id) if self.groups.contains_key(&id) => {}
            RouteTarget::Unreachable => {}
            _ => return Err(refusal(RefusalKind::Invalid, "Nexthop id does not exist")),
        }
        if !replace && self.routes.contains_key(&(table, prefix)) {
            return Err(refusal(RefusalKind::Exists, "File exists"));
        }
        Ok(())
    }
}

fn refusal(kind: RefusalKind, reason: &str) -> Refusal {
    Refusal { kind, reason: reason.to_string() }
}

fn no_interface() -> Refusal {
    refusal(RefusalKind::NotFound, "No such device")
}

impl Engine for SimEngine {
    fn name(&self) -> &str {
        "sim"
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::Unicast, Capability::Host]
    }

    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>) {
        for (index, op) in ops.iter().enumerate() {
            if let Err(refusal) = self.carry_out(op) {
                refused.push(Refused { index, refusal });
            }
        }
    }

    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool {
        let n = self.notices.len().min(POLL);
        notices.extend(self.notices.drain(..n));
        !self.notices.is_empty()
    }

    fn request_snapshot(&mut self) {
        let notices = &mut self.notices;
        notices.push_back(Notice::SnapshotBegin);
        for (index, (link, addresses)) in &self.links {
            notices.push_back(Notice::LinkIs(link.clone()));
            let own = |a: &InterfaceAddress| self.given.contains(&(*index, *a));
            notices.extend(addresses.iter().map(|a| Notice::AddressIs(*index, *a, own(a))));
        }
        let ours = |id: &NextHopId| !self.foreign.contains(id);
        notices
            .extend(self.members.iter().filter(|(id, _)| ours(id)).map(|(id, m)| Notice::MemberIs(*id, *m)));
        notices.extend(
            self.groups.iter().filter(|(id, _)| ours(id)).map(|(id, m)| Notice::GroupIs(*id, m.clone())),
        );
        notices.extend(self.foreign.iter().map(|id| Notice::NextHopForeign(*id)));
        notices.extend(self.forwards.iter().map(|(family, enabled)| Notice::ForwardingIs(*family, *enabled)));
        for ((table, prefix), route) in &self.routes {
            if let SimRoute::Ours(target) = route {
                let (table, prefix, target) = (*table, *prefix, Some(*target));
                notices.push_back(Notice::RouteIs { table, prefix, target, replaced: false });
            }
        }
        notices.push_back(Notice::SnapshotEnd);
    }

    fn reader(&self) -> Option<Box<dyn RouteReader>> {
        let leads = |target: RouteTarget| match target {
            RouteTarget::Unreachable => Forwarding::Reject,
            RouteTarget::Other => Forwarding::Discard,
            RouteTarget::Group(id) => {
                let members = self.groups.get(&id).into_iter().flatten();
                let hops = members.filter_map(|(m, weight)| self.members.get(m)?.next_hop(*weight));
                Forwarding::many(hops).unwrap_or(Forwarding::Discard)
            }
        };
        let route = |(&(table, prefix), route): (&(TableId, IpPrefix), &SimRoute)| {
            let (protocol, forwarding) = match route {
                SimRoute::Ours(target) => (PROTOCOL, leads(*target)),
                SimRoute::Foreign => (FOREIGN, Forwarding::Discard),
            };
            let source = self.route_sources.get(&(table, prefix)).copied();
            EngineRoute { table, prefix, protocol, metric: PREFERENCE, forwarding, source }
        };
        Some(Box::new(Copy { routes: self.routes.iter().map(route).collect() }))
    }
}

/// The routes of a simulated engine at one moment.
struct Copy {
    routes: Vec<EngineRoute>,
}

impl RouteReader for Copy {
    fn dump(
        &mut self,
        query: &RouteQuery,
        each: &mut dyn FnMut(EngineRoute) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        // Breaking off is no error.
        let _ = self.routes.iter().filter(|r| query.selects(r)).cloned().try_for_each(each);
        Ok(())
    }

    fn lookup(&mut self, addr: IpAddr) -> Result<Option<EngineRoute>, ReadError> {
        let covers = |r: &&EngineRoute| {
            r.table == TableId::MAIN && IpPrefix::new(addr, r.prefix.len()) == Some(r.prefix)
        };
        Ok(self.routes.iter().filter(covers).max_by_key(|r| r.prefix.len()).cloned())
    }
}

impl SimEngine {
    /// Returns the routes with the resulting forwarding, for comparison: `None` for foreign routes.
    pub fn forwarding(&self) -> BTreeMap<(TableId, IpPrefix), Option<String>> {
        let text = |route: &SimRoute| match route {
            SimRoute::Foreign => None,
            SimRoute::Ours(RouteTarget::Unreachable) => Some("unreachable".to_string()),
            SimRoute::Ours(RouteTarget::Other) => Some("other".to_string()),
            SimRoute::Ours(RouteTarget::Group(id)) => {
                let members = self.groups.get(id).into_iter().flatten();
                let mut hops: Vec<(Option<&Member>, u8)> =
                    members.map(|(m, w)| (self.members.get(m), *w)).collect();
                hops.sort_unstable();
                Some(format!("{hops:?}"))
            }
        };
        self.routes.iter().map(|(key, route)| (*key, text(route))).collect()
    }
}
