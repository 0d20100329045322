//! Next-hop resolution: from an announced gateway down to an interface, through internal routes (the ext-int stage's
//! second half). Event driven: a change of an internal route re-resolves exactly the groups that looked up a gateway
//! inside it.

use crate::group::Group;
use crate::interfaces::Interfaces;
use crate::origin::OriginId;
use crate::set::SetId;
use crate::share::{self, Share};
use crate::table::Table;
use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use sluice_base::{
    Address, AnyPrefix, Encapsulation, FamilyId, Forwarding, GroupId, NextHop, Provenance, Xid,
};
use smallvec::SmallVec;

/// The largest number of routes that may lead through each other before they count as a loop.
const MAX_DEPTH: usize = 8;
/// The largest number of times that an event may change the resolution before the table is called unstable.
const MAX_ROUNDS: usize = 64;

/// Which groups looked at which gateway.
#[derive(Default)]
pub struct Gateways {
    users: BTreeMap<Address, BTreeSet<GroupId>>,
}

impl Gateways {
    fn note(&mut self, group: GroupId, gateways: &[Address]) {
        for gateway in gateways {
            self.users.entry(*gateway).or_default().insert(group);
        }
    }

    pub(crate) fn forget(&mut self, group: GroupId, gateways: &[Address]) {
        for gateway in gateways {
            if let Some(users) = self.users.get_mut(gateway) {
                users.remove(&group);
                if users.is_empty() {
                    self.users.remove(gateway);
                }
            }
        }
    }

    fn inside(&self, prefix: AnyPrefix) -> impl Iterator<Item = GroupId> {
        self.users.range(prefix.addr()..=prefix.last_addr()).flat_map(|(_, groups)| groups.iter().copied())
    }
}

/// A reached next hop, and its share of the traffic of the walked route.
#[derive(Clone, Copy)]
struct Reached {
    hop: NextHop<Address>,
    share: Share,
}

/// The gateway of a route look-up.
#[derive(Clone, Copy)]
struct WayTo {
    gateway: Address,
    /// True if the route is the subnet of an interface.
    is_connected: bool,
}

/// A walk from a group's next hops down to interfaces.
struct Walk<'a> {
    table: &'a Table,
    interfaces: &'a Interfaces,
    /// The family of the group's routes.
    family: FamilyId,
    found: SmallVec<[Reached; 4]>,
    /// Gateways on the way to the walk's current place: a route that leads back to such a gateway resolves nothing.
    path: SmallVec<[Address; MAX_DEPTH]>,
    depends: Vec<Address>,
}

impl Walk<'_> {
    /// Walks on from the next hops of a route. If the route is the way to a gateway, packets that leave through an
    /// interface without a gateway of the route's own are sent to the gateway. Returns true if a next hop leads to
    /// several.
    fn route(&mut self, hops: &[NextHop<Address>], way_to: Option<WayTo>) -> bool {
        let first = self.found.len();
        let mut ends: SmallVec<[usize; 4]> = SmallVec::new();
        for hop in hops {
            match way_to {
                Some(to) if hop.interface.is_some() && (to.is_connected || hop.gateway.is_none()) => {
                    self.leave(NextHop { gateway: Some(to.gateway), ..*hop });
                }
                _ => self.hop(hop),
            }
            ends.push(self.found.len());
        }
        let starts = || core::iter::once(first).chain(ends.iter().copied());
        let ranges = || starts().zip(ends.iter().copied()).zip(hops);
        // Where no primary next hop of the route is usable, its backups are used.
        let has_primary = ranges().any(|((start, end), hop)| start < end && !hop.is_backup);
        let is_backup = |hop: &NextHop<Address>| hop.is_backup && has_primary;
        for of_backups in [false, true] {
            let used = || ranges().filter(|((start, end), hop)| start < end && is_backup(hop) == of_backups);
            let sum = used().map(|(_, hop)| u64::from(hop.weight)).sum();
            for ((start, end), hop) in used() {
                let is_alone = end == start + 1;
                for reached in &mut self.found[start..end] {
                    if is_alone {
                        reached.hop.weight = hop.weight;
                    }
                    reached.hop.is_backup |= of_backups;
                    reached.share = reached.share.part(hop.weight.into(), sum);
                }
            }
        }
        ranges().any(|((start, end), _)| end > start + 1)
    }

    /// Sends packets out of the interface of a next hop, if it runs.
    fn leave(&mut self, hop: NextHop<Address>) {
        if hop.interface.is_some_and(|interface| self.interfaces.is_running(interface)) {
            // Whether a next hop is a backup depends on what becomes of the others of its route.
            self.found.push(Reached { hop: NextHop { is_backup: false, ..hop }, share: Share::ALL });
        }
    }

    fn hop(&mut self, hop: &NextHop<Address>) {
        if hop.interface.is_some() {
            return self.leave(*hop);
        }
        let Some(gateway) = hop.gateway else { return };
        if !self.depends.contains(&gateway) {
            self.depends.push(gateway);
        }
        if self.path.len() == MAX_DEPTH || self.table.is_no_gateway(gateway) {
            return;
        }
        // The forwarding engines of IP know no other gateways.
        let is_identifier = matches!(gateway, Address::Identifier(_));
        if is_identifier && self.family.ip().is_some() {
            return;
        }
        let before = self.found.len();
        self.path.push(gateway);
        let is_reached = self.gateway(gateway);
        self.path.pop();
        // How an identifier is reached is found packet by packet; here it only counts that it can be reached.
        if !is_identifier {
            self.encapsulate(before, hop.encapsulation);
        } else if is_reached || self.found.len() > before {
            self.found.truncate(before);
            self.found.push(Reached { hop: NextHop { is_backup: false, ..*hop }, share: Share::ALL });
        }
    }

    /// Walks on from the route to a gateway. Returns true if packets need no next hop from there: the identifier belongs to this host, or its
    /// packets are dropped by a route of their own.
    fn gateway(&mut self, gateway: Address) -> bool {
        let before = self.found.len();
        let is_identifier = matches!(gateway, Address::Identifier(_));
        for (set, origin) in self.table.internal_routes_to(gateway) {
            let forwarding = &self.table.shared.sets.slot(set).set.forwarding;
            let hops = forwarding.next_hops();
            if is_identifier && hops.is_empty() {
                return true;
            }
            if hops.iter().any(|h| h.gateway.is_some_and(|g| self.path.contains(&g))) {
                continue; // this route needs the gateway itself; a less specific one may not
            }
            let is_connected = self.table.shared.origin(origin).connected;
            self.route(hops, Some(WayTo { gateway, is_connected }));
            break;
        }
        // Packets for the identifiers of tunnels travel inside IP.
        let tunnel_end = Xid::try_from(gateway).ok().and_then(Xid::tunnel_end);
        if let Some(end) = tunnel_end.filter(|_| self.found.len() == before) {
            self.hop(&NextHop::via(Address::Ip(end)));
        }
        false
    }

    /// Adds a header to the next hops reached from `first` on. A next hop has room for a single header: a next hop
    /// with a header is lost.
    fn encapsulate(&mut self, first: usize, header: Option<Encapsulation>) {
        if header.is_none() {
            return;
        }
        let mut place = 0;
        self.found.retain(|reached| {
            place += 1;
            place <= first || reached.hop.encapsulation.is_none()
        });
        self.found.iter_mut().skip(first).for_each(|reached| reached.hop.encapsulation = header);
    }

    /// Adds up the shares of next hops that were reached on several ways. Returns true if there are any.
    fn merge(&mut self) -> bool {
        let before = self.found.len();
        let way = |of: &Reached| (of.hop.is_backup, of.hop.gateway, of.hop.interface, of.hop.encapsulation);
        let mut merged: SmallVec<[Reached; 4]> = SmallVec::new();
        for reached in self.found.drain(..) {
            match merged.iter_mut().find(|known| way(known) == way(&reached)) {
                Some(known) => known.share = known.share.plus(reached.share),
                None => merged.push(reached),
            }
        }
        self.found = merged;
        self.found.len() < before
    }

    /// Converts the shares of the reached next hops to weights.
    fn weigh(&mut self) {
        for of_backups in [false, true] {
            let alike = |reached: &&Reached| reached.hop.is_backup == of_backups;
            let shares: SmallVec<[Share; 4]> = self.found.iter().filter(alike).map(|r| r.share).collect();
            let weights = share::weights(&shares);
            let alike = self.found.iter_mut().filter(|reached| reached.hop.is_backup == of_backups);
            alike.zip(weights).for_each(|(reached, weight)| reached.hop.weight = weight);
        }
    }
}

impl Table {
    /// Returns the internal routes that cover an address, the most specific first.
    pub(crate) fn internal_routes_to(&self, addr: Address) -> SmallVec<[(SetId, OriginId); 4]> {
        self.any_family(addr.family()).map(|family| family.internal_routes_to(addr)).unwrap_or_default()
    }

    /// The next hops of a group without gateways that the origin declared unusable. If no next hop would be left,
    /// every next hop: the routes change when the origin changes them.
    fn usable<'h>(
        &self,
        owner: Option<OriginId>,
        hops: &'h [NextHop<Address>],
    ) -> Cow<'h, [NextHop<Address>]> {
        let Some(owner) = owner.filter(|_| !self.unusable.is_empty()) else { return Cow::Borrowed(hops) };
        let is_usable = |hop: &&NextHop<Address>| {
            hop.gateway.is_none_or(|gateway| !self.unusable.contains(&(owner, gateway)))
        };
        let usable: Vec<NextHop<Address>> = hops.iter().filter(is_usable).copied().collect();
        if usable.is_empty() { Cow::Borrowed(hops) } else { Cow::Owned(usable) }
    }

    fn resolve(&self, interfaces: &Interfaces, group: &Group) -> (Option<Forwarding<Address>>, Vec<Address>) {
        let mut walk = Walk {
            table: self,
            interfaces,
            family: group.family,
            found: SmallVec::new(),
            path: SmallVec::new(),
            depends: Vec::new(),
        };
        match &group.announced {
            Forwarding::NextHops(hops) => {
                let hops = self.usable(group.owner, hops);
                // Weights stay as they were announced where each next hop leads to one.
                let is_divided = walk.route(&hops, None);
                if walk.merge() || is_divided {
                    walk.weigh();
                }
                (Forwarding::many(walk.found.into_iter().map(|reached| reached.hop)), walk.depends)
            }
            // The engines of IP know the host's own addresses from the kernel.
            Forwarding::Local if group.family.ip().is_some() => (None, Vec::new()),
            ended => (Some(ended.clone()), Vec::new()),
        }
    }

    /// Resolves a group again. `Some(true)`: the group was or became unresolved, so that routes must be decided again;
    /// `Some(false)`: its next hops changed; `None`: unchanged.
    pub(crate) fn resolve_group(&mut self, interfaces: &Interfaces, id: GroupId) -> Option<bool> {
        let group = self.shared.groups.group(id);
        let (resolved, depends) = self.resolve(interfaces, group);
        let before_depends = self.shared.groups.group(id).depends.clone();
        self.gateways.forget(id, &before_depends);
        self.gateways.note(id, &depends);
        let is_now = resolved.is_some();
        let before = self.shared.groups.set_resolution(id, resolved, depends);
        if before == self.shared.groups.group(id).resolved {
            return None;
        }
        Some(before.is_some() != is_now)
    }

    /// Follows changes of internal routes until no further change occurs: invalidated answers, groups with changed
    /// next hops, routes that must be decided again. Returns a gateway if the changes never end.
    pub(crate) fn settle(&mut self, interfaces: &Interfaces, provenance: Provenance) -> Option<Address> {
        let mut unstable = None;
        for round in 0.. {
            let affected = self.take_affected();
            if affected.is_empty() {
                break;
            }
            if round == MAX_ROUNDS {
                unstable = self.shared.groups.group(*affected.iter().next()?).depends.first().copied();
                break;
            }
            self.resolve_groups(interfaces, affected, provenance);
        }
        let (families, shared) = self.families();
        families.for_each(|family| family.flush_selected(shared));
        self.forget_gone();
        unstable
    }

    /// Forgets the gateways of removed groups, before their numbers can be reused.
    pub(crate) fn forget_gone(&mut self) {
        for (group, gateways) in core::mem::take(&mut self.shared.gone) {
            self.gateways.forget(group, &gateways);
        }
    }

    /// Resolves groups again, and decides their routes again.
    pub(crate) fn resolve_groups(
        &mut self,
        interfaces: &Interfaces,
        groups: impl IntoIterator<Item = GroupId>,
        provenance: Provenance,
    ) {
        let mut flipped: SmallVec<[FamilyId; 2]> = SmallVec::new();
        for id in groups {
            let Some(flip) = self.resolve_group(interfaces, id) else { continue };
            let of = self.shared.groups.group(id).family;
            if flip && !flipped.contains(&of) {
                flipped.push(of);
            }
            self.families().0.for_each(|family| family.forget_group_answers(id));
        }
        flipped.sort_unstable();
        let (families, shared) = self.families();
        for family in families.filter(|family| flipped.contains(&family.id())) {
            family.redecide_internal(shared, provenance);
            family.start_pass();
        }
    }

    /// Takes the changes of internal routes; returns the groups that looked up gateways inside them.
    fn take_affected(&mut self) -> BTreeSet<GroupId> {
        self.forget_gone();
        let mut changed = Vec::new();
        self.families().0.for_each(|family| family.take_internal_changed(&mut changed));
        self.families().0.for_each(|family| family.invalidate_tunnels(&changed));
        changed.into_iter().flat_map(|prefix| self.gateways.inside(prefix)).collect()
    }
}
