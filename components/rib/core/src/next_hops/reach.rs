//! How a gateway is reached: the walk from next hops down to interfaces, through the routes of all origins.
//!
//! A gateway is reached through the most specific prefix that covers the gateway and has a route that reaches an interface. Among the
//! routes of a prefix the order is that of the decision. Two kinds of routes reach no gateway (RFC 4271, section 9.1.2.1): a route that
//! leads back to a gateway of the walk, and an external origin's route that would be the most specific one to its own gateway. The result
//! therefore depends on announcements and interfaces only, and not on earlier results or on the order of events.

use super::share::{self, Share};
use crate::decide::candidate::Candidate;
use crate::decide::table::Table;
use crate::entry::looked_up::LookedUp;
use crate::interfaces::Interfaces;
use alloc::vec::Vec;
use sluice_base::{Address, AnyPrefix, Encapsulation, FamilyId, Forwarding, GroupId, Metric, NextHop, Xid};
use smallvec::SmallVec;

/// The largest number of gateways on a way.
const MAX_DEPTH: usize = 8;
/// The largest number of routes that a walk tries. Neighbors choose the routes that a walk meets.
const MAX_TRIES: u32 = 1024;

/// The way to a gateway.
#[derive(Clone)]
pub(crate) struct Way {
    /// The route; `None` for the tunnel of an identifier without a route of its own.
    pub(crate) route: Option<Candidate>,
    /// True if the gateway is on the subnet of an interface.
    pub(crate) is_on_link: bool,
    /// The interior cost: the metric of the first route of an internal origin on the way.
    pub(crate) metric: Metric,
    /// The forwarding of a route that drops packets.
    drops: Option<Forwarding<Address>>,
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
    /// The prefix of an external origin's route.
    external: Option<AnyPrefix>,
    /// True if the route is the subnet of an interface.
    is_connected: bool,
}

/// What the next hops of a route lead to, besides the reached next hops.
#[derive(Default)]
struct Ends {
    /// True if a next hop leads to several.
    is_divided: bool,
    /// The interior cost of the first reached gateway.
    metric: Option<Metric>,
    /// The forwarding of a route that drops packets.
    drops: Option<Forwarding<Address>>,
}

/// A walk from next hops down to interfaces.
pub(crate) struct Walk<'a> {
    table: &'a Table,
    interfaces: &'a Interfaces,
    /// The family of the routes with the next hops.
    family: FamilyId,
    found: SmallVec<[Reached; 4]>,
    /// Gateways on the way to the walk's current place: a route that leads back to such a gateway resolves nothing.
    path: SmallVec<[Address; MAX_DEPTH]>,
    depends: Vec<LookedUp>,
    tries: u32,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(table: &'a Table, interfaces: &'a Interfaces, family: FamilyId) -> Self {
        let (found, path, depends) = (SmallVec::new(), SmallVec::new(), Vec::new());
        Walk { table, interfaces, family, found, path, depends, tries: 0 }
    }

    /// Resolves the next hops of a group. Returns the resolution, `None` if no next hop is reached, and the gateways that were looked up.
    pub(crate) fn resolve(
        mut self,
        hops: &[NextHop<Address>],
    ) -> (Option<Forwarding<Address>>, Vec<LookedUp>) {
        // Weights stay as they were announced where each next hop leads to one.
        let ends = self.route(hops, None);
        if self.merge() || ends.is_divided {
            self.weigh();
        }
        let found = Forwarding::many(self.found.into_iter().map(|reached| reached.hop));
        (found.or(ends.drops), self.depends)
    }

    /// Returns the way to an address, the groups of the routes that were tried for it, and the gateways that were looked up.
    pub(crate) fn way(mut self, addr: Address) -> (Option<Way>, SmallVec<[GroupId; 1]>, Vec<LookedUp>) {
        let mut tried = SmallVec::new();
        self.path.push(addr);
        let way = self.gateway(addr, |group| tried.push(group));
        (way, tried, self.depends)
    }

    /// Walks on from the next hops of a route. If the route is the way to a gateway, packets that leave through an
    /// interface without a gateway of the route's own are sent to the gateway.
    fn route(&mut self, hops: &[NextHop<Address>], way_to: Option<WayTo>) -> Ends {
        let first = self.found.len();
        let mut places: SmallVec<[usize; 4]> = SmallVec::new();
        let mut ends = Ends::default();
        for hop in hops {
            match way_to {
                Some(to) if hop.interface.is_some() && (to.is_connected || hop.gateway.is_none()) => {
                    self.leave(NextHop { gateway: Some(to.gateway), ..*hop });
                }
                _ => {
                    if let Some(way) = self.hop(hop, way_to.and_then(|to| to.external)) {
                        ends.metric = ends.metric.or(Some(way.metric));
                        ends.drops = ends.drops.or(way.drops);
                    }
                }
            }
            places.push(self.found.len());
        }
        let starts = || core::iter::once(first).chain(places.iter().copied());
        let ranges = || starts().zip(places.iter().copied()).zip(hops);
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
        ends.is_divided = ranges().any(|((start, end), _)| end > start + 1);
        ends
    }

    /// Sends packets out of the interface of a next hop, if it runs.
    fn leave(&mut self, hop: NextHop<Address>) {
        if hop.interface.is_some_and(|interface| self.interfaces.is_running(interface)) {
            // Whether a next hop is a backup depends on what becomes of the others of its route.
            self.found.push(Reached { hop: NextHop { is_backup: false, ..hop }, share: Share::ALL });
        }
    }

    /// Walks on from a next hop; `of` is the prefix of an external origin's route. Returns the way to its gateway.
    fn hop(&mut self, hop: &NextHop<Address>, of: Option<AnyPrefix>) -> Option<Way> {
        if hop.interface.is_some() {
            self.leave(*hop);
            return None;
        }
        let gateway = hop.gateway?;
        let is_identifier = matches!(gateway, Address::Identifier(_));
        let is_possible = self.path.len() < MAX_DEPTH
            && !self.table.is_no_gateway(gateway)
            // The forwarding engines of IP know no other gateways.
            && (!is_identifier || self.family.ip().is_none());
        let before = self.found.len();
        self.path.push(gateway);
        let way = if is_possible { self.gateway(gateway, |_| {}) } else { None };
        self.path.pop();
        let looked_up = LookedUp {
            gateway,
            len: way.as_ref().and_then(|way| way.route).map_or(0, |route| route.prefix.len()),
            is_on_link: way.as_ref().is_some_and(|way| way.is_on_link),
        };
        self.note(looked_up);
        let is_own = of.is_some_and(|prefix| looked_up.is_captured_by(prefix));
        let way = way.filter(|_| !is_own);
        // How an identifier is reached is found packet by packet; here it only counts that it can be reached.
        if way.is_none() || is_identifier {
            self.found.truncate(before);
        }
        if !is_identifier {
            self.encapsulate(before, hop.encapsulation);
        } else if way.is_some() {
            self.found.push(Reached { hop: NextHop { is_backup: false, ..*hop }, share: Share::ALL });
        }
        way
    }

    /// Walks on from the routes to a gateway, the preferred one first, and calls `tried` with the group of each. Returns the first that
    /// reaches an interface, drops packets, or needs no next hop: the identifier belongs to this host.
    fn gateway(&mut self, gateway: Address, mut tried: impl FnMut(GroupId)) -> Option<Way> {
        let before = self.found.len();
        let is_identifier = matches!(gateway, Address::Identifier(_));
        let table = self.table;
        for route in table.routes_to(gateway) {
            if self.tries == MAX_TRIES {
                return None;
            }
            self.tries += 1;
            let slot = table.shared.sets.slot(route.set);
            tried(slot.group);
            let origin = table.shared.origin(route.origin);
            let is_on_link = origin.connected;
            let way = |metric, drops| Some(Way { route: Some(route), is_on_link, metric, drops });
            let metric = slot.set.metric;
            match &slot.set.forwarding {
                Forwarding::NextHops(hops) => {
                    let announced = hops;
                    let hops = table.usable(origin.external.then_some(route.origin), announced);
                    if hops.len() < announced.len() {
                        self.note_unusable(announced);
                    }
                    if hops.iter().any(|h| h.gateway.is_some_and(|g| self.path.contains(&g))) {
                        continue;
                    }
                    let external = origin.external.then_some(route.prefix);
                    let to = WayTo { gateway, external, is_connected: origin.connected };
                    let ends = self.route(&hops, Some(to));
                    let metric = if origin.external { ends.metric.unwrap_or(Metric(0)) } else { metric };
                    if self.found.len() > before {
                        return way(metric, None);
                    }
                    if ends.drops.is_some() {
                        return way(metric, ends.drops);
                    }
                }
                _ if is_identifier => return way(metric, None),
                // The kernel knows the host's own addresses.
                Forwarding::Local => {}
                drops => return way(metric, Some(drops.clone())),
            }
        }
        // Packets for the identifiers of tunnels travel inside IP.
        let end = Xid::try_from(gateway).ok().and_then(Xid::tunnel_end)?;
        let way = self.hop(&NextHop::via(Address::Ip(end)), None).filter(|way| way.drops.is_none())?;
        Some(Way { route: None, is_on_link: false, ..way })
    }

    /// Records gateways of which some are unusable: no route changes that, but their origin can.
    fn note_unusable(&mut self, hops: &[NextHop<Address>]) {
        for gateway in hops.iter().filter_map(|hop| hop.gateway) {
            self.note(LookedUp { gateway, len: u8::MAX, is_on_link: true });
        }
    }

    /// Records a gateway, with the shorter prefix if it was looked up before.
    fn note(&mut self, looked_up: LookedUp) {
        match self.depends.iter_mut().find(|known| known.gateway == looked_up.gateway) {
            Some(known) if looked_up.len < known.len => *known = looked_up,
            Some(_) => {}
            None => self.depends.push(looked_up),
        }
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
