//! The state of control, and its configuration.

use super::damping::Damping;
use crate::hash::HashSeed;
use crate::reader::ReaderCounters;
use crate::session::{ConnectionId, State};
use crate::speaker::config::{Config, Identity, ListenRange, NeighborConfig};
use crate::speaker::messages::Output;
use crate::speaker::neighbor::Peer;
use crate::speaker::peers::{Peers, RangeView};
use crate::speaker::questions::{Presences, Questions};
use crate::speaker::rib::PresenceQuestion;
use crate::speaker::sources::{
    AggregateView, Aggregation, DefaultRoutes, Networks, Originator, Parts, RedistributedRoutes,
};
use crate::table::{Spread, Table};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::{AnyPrefix, Duration, Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix, Rng, XidPrefix};
use sluice_machine::Outbox;

/// The time for neighbors to come up and announce every route before the RIB is notified of complete announcements: as long as
/// the RIB keeps the routes of an earlier process.
pub const GRACE: Duration = Duration::from_secs(120);

/// The time to wait for an absent neighbor after the last session came up: the routes of an absent neighbor lead nowhere, and
/// routes withdrawn meanwhile are still in use.
pub(super) const STRAGGLERS: Duration = Duration::from_secs(20);

/// The delay of the check whether the wait for neighbors has ended: many neighbors come up together.
pub(super) const LOOK_DELAY: Duration = Duration::from_millis(100);
/// The longest wait for the RIB's answers about next hops before a restarting router advertises routes.
pub(super) const RESOLUTION: Duration = Duration::from_secs(30);

/// The time between a change and the moment when the RIB is sent backups, if not much else changes meanwhile.
pub(super) const REST: Duration = Duration::from_secs(2);

/// The time after the withdrawal of a lost neighbor's routes until its address is usable as a gateway again: the RIB has taken
/// the withdrawals by then.
pub(super) const FORGIVEN: Duration = Duration::from_secs(30);

/// The obstacle to a route refresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefreshRefusal {
    /// The neighbor's session is in this state and not Established.
    NotEstablished(State),
    /// The neighbor did not announce the capability.
    NotNegotiated,
}

impl fmt::Display for RefreshRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefreshRefusal::NotEstablished(state) => write!(f, "its session is not Established but {state}"),
            RefreshRefusal::NotNegotiated => {
                f.write_str("it did not announce that it answers ROUTE-REFRESH; `clear bgp neighbor` has it announce all again")
            }
        }
    }
}

/// A router's BGP but for its routes.
pub struct Control {
    pub(super) peers: Peers,
    pub(super) presences: Presences,
    pub(super) originator: Originator,
    pub(super) networks: Networks,
    pub(super) default_routes: DefaultRoutes,
    pub(super) redistributed: RedistributedRoutes,
    pub(super) aggregation: Aggregation,
    pub(super) damping: Damping,
    pub(super) questions4: Questions<Ipv4Prefix>,
    pub(super) questions6: Questions<Ipv6Prefix>,
    pub(super) questions_of_xids: Questions<XidPrefix>,
    pub(super) spread: Spread,
    pub(super) started: Instant,
    pub(super) all_announced: bool,
    /// The next time to check for complete announcements of the neighbors; `None` after the report.
    pub(super) look_at: Option<Instant>,
    /// The time at which advertising begins although tables wait for the RIB's answers; `None` before [`Output::AllAnnounced`], and
    /// once advertising has begun.
    pub(super) open_at: Option<Instant>,
    /// True if there is a RIB, or was one.
    pub(super) has_rib: bool,
    /// The neighbors with a session at the previous process's end; `None` if unknown.
    pub(super) before: Option<BTreeSet<IpAddr>>,
    /// The time at which the RIB is sent backups, if there are any and the tables are at rest by then.
    pub(super) backups_at: Option<Instant>,
    /// Neighbors' addresses marked unusable at the RIB, each with the end of that state, if the neighbor's routes are withdrawn.
    pub(super) lost: BTreeMap<IpAddr, Option<Instant>>,
}

impl Control {
    /// A router without neighbors that starts to live now.
    pub fn new(identity: Identity, now: Instant) -> Self {
        let mut rng = Rng::from_seed(identity.seed);
        let spread = Spread::new(HashSeed(rng.next_u64()), identity.tables);
        let originator = Originator::new(identity.source, spread);
        Control {
            peers: Peers::new(identity, rng, spread),
            presences: Presences::default(),
            originator,
            networks: Networks::default(),
            default_routes: DefaultRoutes::default(),
            redistributed: RedistributedRoutes::default(),
            aggregation: Aggregation::default(),
            damping: Damping::default(),
            questions4: Questions::default(),
            questions6: Questions::default(),
            questions_of_xids: Questions::default(),
            spread,
            started: now,
            all_announced: false,
            look_at: Some(now + GRACE),
            open_at: None,
            has_rib: false,
            before: None,
            backups_at: None,
            lost: BTreeMap::new(),
        }
    }

    /// The owners of routes.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// The router's tables, empty.
    pub fn make_tables(&self) -> Vec<Table> {
        let identity = &self.peers.identity;
        let (seed, codes) = (self.spread.seed(), identity.codes);
        let table = || Table::new(identity.router(), seed, codes);
        core::iter::repeat_with(table).take(self.spread.tables()).collect()
    }

    pub(super) fn configure(&mut self, now: Instant, config: Config, out: &mut Outbox<Output>) {
        self.presences.configure(&config, out);
        self.peers.bindings.facts = self.presences.facts();
        self.damping.configure(config.damping, self.spread.tables(), out);
        self.peers.configure(now, (config.neighbors, config.ranges), config.policies, out);
        self.networks.always = config.networks.into_iter().collect();
        self.networks.while_present = config.networks_while_present.into_iter().collect();
        self.networks.policy = config.network_policy;
        let has_defaults = self.peers.configured().any(|peer| peer.config.default_originate.is_some());
        let mut parts = parts(&mut self.peers, &mut self.originator, out);
        self.networks.bind(&mut parts);
        self.networks.originate(&self.presences, &mut parts);
        self.default_routes.originate(has_defaults, &mut parts);
        self.redistributed.configure(config.redistribute, &mut parts);
        self.aggregation.configure(config.aggregates, config.aggregate_policy, &mut parts);
    }

    /// Takes answers of the RIB about the presence of routes.
    pub(super) fn take_presence(&mut self, answers: Vec<(PresenceQuestion, bool)>, out: &mut Outbox<Output>) {
        if !self.presences.learn(answers) {
            return;
        }
        let facts = self.presences.facts();
        let are_others = self.peers.bindings.facts != facts;
        if are_others {
            self.peers.bindings.facts = facts;
            self.peers.set_policies(out);
        }
        let mut parts = parts(&mut self.peers, &mut self.originator, out);
        if are_others {
            self.networks.bind_again(&mut parts);
            self.redistributed.bind_again(&mut parts);
            self.aggregation.bind_again(&mut parts);
        }
        self.networks.originate(&self.presences, &mut parts);
    }

    /// Iterates over the prefixes in conditions of policies to which the RIB has routes.
    pub fn present(&self) -> impl Iterator<Item = IpPrefix> + '_ {
        self.presences.prefixes()
    }

    /// Iterates over the prefixes of the redistributed routes.
    pub fn redistributed(&self) -> impl Iterator<Item = AnyPrefix> {
        self.redistributed.prefixes()
    }

    /// Returns the aggregates, in the order of the configuration.
    pub fn aggregates(&self) -> Vec<AggregateView> {
        self.aggregation.views()
    }

    /// The addresses of the configured neighbors, in order.
    pub fn neighbors(&self) -> impl Iterator<Item = IpAddr> {
        self.peers.addresses()
    }

    /// Returns the neighbors whose connections' counters control must have before firing the timers due at `now`.
    pub fn due(&self, now: Instant) -> Vec<IpAddr> {
        if self.look_at.is_some_and(|at| at <= now) {
            return self.peers.addresses().collect();
        }
        self.peers.due(now).collect()
    }

    /// The configuration of a neighbor.
    pub fn neighbor_config(&self, address: IpAddr) -> Option<&NeighborConfig> {
        self.peers.config(address)
    }

    /// The listen ranges, longest prefixes first.
    pub fn listen_ranges(&self) -> impl Iterator<Item = &ListenRange> {
        self.peers.ranges.configs()
    }

    /// Returns the views of the listen ranges, in the order of their prefixes.
    pub fn ranges(&self) -> Vec<RangeView> {
        self.peers.range_views()
    }

    /// The whole configuration, and the dynamic neighbors.
    pub fn config(&self) -> Config {
        let neighbors = self.peers.addresses().filter_map(|a| self.peers.config(a).cloned());
        Config {
            neighbors: neighbors.collect(),
            ranges: self.peers.ranges.configs().cloned().collect(),
            networks: self.networks.always.iter().copied().collect(),
            networks_while_present: self.networks.while_present.iter().copied().collect(),
            policies: self.peers.bindings.policies.clone(),
            network_policy: self.networks.policy.clone(),
            redistribute: self.redistributed.redistribute.clone(),
            aggregates: self.aggregation.config.clone(),
            aggregate_policy: self.aggregation.policy.clone(),
            damping: self.damping.rules,
        }
    }

    /// Returns the obstacle to a route refresh from a neighbor (RFC 2918); `None` without an obstacle.
    pub fn refresh_refusal(&self, address: IpAddr) -> Option<RefreshRefusal> {
        let session = &self.peers.of(address)?.session;
        match session.negotiated() {
            None => Some(RefreshRefusal::NotEstablished(session.state())),
            Some(negotiated) if !negotiated.route_refresh => Some(RefreshRefusal::NotNegotiated),
            Some(_) => None,
        }
    }

    /// The connection of a neighbor's session, if it is up.
    pub fn established(&self, address: IpAddr) -> Option<ConnectionId> {
        self.peers.of(address)?.session.established()
    }

    /// Returns the addresses of the sources of injected routes, in order.
    pub fn injections(&self) -> impl Iterator<Item = IpAddr> {
        let injected = self.peers.configured().filter(|peer| peer.injection.is_some());
        injected.map(|peer| peer.config.address)
    }

    /// Returns true if the routes of an address come out of a trace.
    pub fn is_injected(&self, address: IpAddr) -> bool {
        self.peers.is_injected(address)
    }

    /// Returns the counts of a peer's UPDATEs.
    pub fn injection_counters(&self, address: IpAddr) -> Option<ReaderCounters> {
        self.peers.of(address).map(Peer::read)
    }
}

/// Lends the parts with which sources originate routes.
pub(super) fn parts<'a>(
    peers: &'a mut Peers,
    originator: &'a mut Originator,
    out: &'a mut Outbox<Output>,
) -> Parts<'a> {
    Parts { bindings: &mut peers.bindings, local_as: peers.identity.local_as, originator, out }
}
