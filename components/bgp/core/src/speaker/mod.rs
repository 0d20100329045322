//! A router's BGP on one thread: sessions, readers, shards and writers, and what passes between them.
//!
//! ```text
//! octets -> Framer -> session messages -> Session -> octets
//!                  \-> UPDATEs -> Reader -> Batches -> Shards -> change queue -> groups -> Writer -> octets
//!                                                      |  ^ \-> RIB branch -> route batches
//!                                          interest <--+  +-- answers
//! ```
//!
//! Neighbours ([`Peers`]) and tables ([`Shards`]) know each other only as [`crate::shards::Tables`]: the seam at which threads can be set
//! apart. Batches from a reader to a table are self-contained.
//!
//! Pressure goes backwards: the driver pulls octets ([`Speaker::fill`]) and route batches ([`Speaker::rib_batch`]) when who
//! takes them can. Nothing that waits to be pulled grows.

mod config;
mod neighbors;
mod peer;
mod peers;
mod view;

pub use config::{Config, Identity, NeighborConfig};
pub use peers::{Peers, Traced};
pub use view::{NeighborView, Summary};

use crate::event::Event;
use crate::hash::HashSeed;
use crate::session::{self, ConnectionId};
use crate::shard::Interest;
use crate::shards::{Sharded, Shards, Spread};
use crate::wire::notification::cease;
use crate::writer::Endpoints;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::interest::InterestAnswer;
use sluice_base::{Family, Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix, Rng, RouteBatch};
use sluice_machine::{Budget, Machine, Outbox, Progress};

/// What can happen to a router's BGP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// This is the configuration from now on.
    Configure(Config),
    /// A connection that was asked for is there.
    Connected(IpAddr, ConnectionId, Endpoints),
    /// A neighbour connected.
    Accepted(IpAddr, ConnectionId, Endpoints),
    /// A connection could not be made or is gone.
    Closed(IpAddr, ConnectionId),
    /// Octets came on a connection.
    Received(IpAddr, ConnectionId, Vec<u8>),
    /// The RIB says how IPv4 next hops are reached.
    AnswerIpv4(InterestAnswer<Ipv4Prefix>),
    /// The RIB says how IPv6 next hops are reached.
    AnswerIpv6(InterestAnswer<Ipv6Prefix>),
    /// An answer of the RIB holds no longer.
    Invalid(IpPrefix),
    /// The RIB was restarted.
    RibRestarted,
    /// The operator wants a session closed and opened again, with a word to the other operator (RFC 9003).
    Reset(IpAddr, String),
    /// The operator wants a neighbour asked for all its routes (RFC 2918).
    Refresh(IpAddr),
}

/// What a router's BGP wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Connect to the neighbour as its configuration says.
    Connect(IpAddr, ConnectionId),
    /// Close a connection when what was sent on it is written.
    Close(IpAddr, ConnectionId),
    /// Write a whole message behind what was written before.
    Send(IpAddr, ConnectionId, Vec<u8>),
    /// There are UPDATEs: call [`Speaker::fill`] when the connection can take them, until it says that there are no more.
    Transmit(IpAddr, ConnectionId),
    /// There are routes: call [`Speaker::rib_batch`] until it says that there are no more.
    RibReady(Family),
    /// Ask the RIB.
    InterestIpv4(Interest<Ipv4Prefix>),
    /// Ask the RIB.
    InterestIpv6(Interest<Ipv6Prefix>),
    /// For the log.
    Event(Event),
}

/// The state that outlives a process: what was configured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpeakerState {
    /// The configuration.
    pub config: Config,
}

/// A router's BGP.
pub struct Speaker {
    peers: Peers<Shards>,
    networks: BTreeSet<IpPrefix>,
    rib_offered: [bool; 2],
}

impl Speaker {
    /// A router without neighbours.
    pub fn new(identity: Identity) -> Self {
        let mut rng = Rng::from_seed(identity.seed);
        let spread = Spread::new(HashSeed(rng.next_u64()), identity.tables);
        let shards = Shards::new(identity.local_as, identity.router_id, spread);
        Speaker {
            peers: Peers::new(identity, rng, shards),
            networks: BTreeSet::new(),
            rib_offered: [false; 2],
        }
    }

    /// Octets came on a connection: the same as [`Input::Received`] without a copy.
    pub fn receive(
        &mut self,
        now: Instant,
        address: IpAddr,
        connection: ConnectionId,
        octets: &[u8],
        out: &mut Outbox<Output>,
    ) {
        self.peers.receive(now, address, connection, octets, out);
        self.settle(out);
    }

    fn configure(&mut self, now: Instant, config: Config, out: &mut Outbox<Output>) {
        self.peers.configure(now, config.neighbors, out);
        let networks: BTreeSet<IpPrefix> = config.networks.into_iter().collect();
        let old = core::mem::replace(&mut self.networks, networks);
        let changes: Vec<(IpPrefix, bool)> =
            old.symmetric_difference(&self.networks).map(|p| (*p, self.networks.contains(p))).collect();
        for (prefix, wanted) in changes {
            let provenance = self.peers.draw_provenance();
            match prefix {
                IpPrefix::V4(p) => self.peers.tables.originate(p, wanted, provenance),
                IpPrefix::V6(p) => self.peers.tables.originate(p, wanted, provenance),
            }
        }
    }

    /// Appends messages for an established connection to `octets`, up to about `limit`; returns whether there are more. After
    /// a `false`, [`Output::Transmit`] says when there are some again.
    pub fn fill(&mut self, now: Instant, address: IpAddr, limit: usize, octets: &mut Vec<u8>) -> bool {
        self.peers.fill(now, address, limit, octets)
    }

    /// Adds about `limit` best routes for the RIB to `batch`; returns whether there are more. After a `false`,
    /// [`Output::RibReady`] says when there are some again.
    pub fn rib_batch_ipv4(&mut self, limit: usize, batch: &mut RouteBatch<Ipv4Prefix>) -> bool {
        self.rib_batch(limit, batch)
    }

    /// As [`Speaker::rib_batch_ipv4`].
    pub fn rib_batch_ipv6(&mut self, limit: usize, batch: &mut RouteBatch<Ipv6Prefix>) -> bool {
        self.rib_batch(limit, batch)
    }

    fn rib_batch<P: Sharded>(&mut self, limit: usize, batch: &mut RouteBatch<P>) -> bool {
        self.peers.tables.rib_batch(limit, batch);
        let more = self.peers.tables.has_rib_changes::<P>();
        self.rib_offered[P::FAMILY as usize] = more;
        more
    }

    /// Starts or stops noting the prefixes of UPDATEs. Who starts it takes them after every input that brings octets.
    pub fn trace(&mut self, on: bool) {
        self.peers.trace(on);
    }

    /// The prefixes noted since the last call.
    pub fn take_traced(&mut self) -> Vec<Traced> {
        self.peers.take_traced()
    }

    /// The shards, to look into.
    pub fn shards(&self) -> &Shards {
        &self.peers.tables
    }

    /// Puts checking stages before every PeerOut, or takes them out.
    pub fn check(&mut self, on: bool) {
        self.peers.tables.check(on);
    }

    /// Passes on what the shards want, and says who can be told something that could not before.
    fn settle(&mut self, out: &mut Outbox<Output>) {
        let shards = &mut self.peers.tables;
        for interest in shards.interests::<Ipv4Prefix>().drain() {
            out.push(Output::InterestIpv4(interest));
        }
        for interest in shards.interests::<Ipv6Prefix>().drain() {
            out.push(Output::InterestIpv6(interest));
        }
        let ready = [shards.has_rib_changes::<Ipv4Prefix>(), shards.has_rib_changes::<Ipv6Prefix>()];
        for family in Family::ALL {
            let offered = &mut self.rib_offered[family as usize];
            if ready[family as usize] && !core::mem::replace(offered, ready[family as usize]) {
                out.push(Output::RibReady(family));
            }
        }
        self.peers.offer(out);
    }
}

impl Machine for Speaker {
    type Input = Input;
    type Output = Output;
    type State = SpeakerState;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        let peers = &mut self.peers;
        match input {
            Input::Configure(config) => self.configure(now, config, out),
            Input::Received(address, connection, octets) => {
                return self.receive(now, address, connection, &octets, out);
            }
            Input::AnswerIpv4(answer) => {
                let provenance = peers.draw_provenance();
                peers.tables.answer(&answer, provenance);
            }
            Input::AnswerIpv6(answer) => {
                let provenance = peers.draw_provenance();
                peers.tables.answer(&answer, provenance);
            }
            Input::Invalid(IpPrefix::V4(prefix)) => peers.tables.invalid(prefix),
            Input::Invalid(IpPrefix::V6(prefix)) => peers.tables.invalid(prefix),
            Input::RibRestarted => {
                peers.tables.rib_restarted::<Ipv4Prefix>();
                peers.tables.rib_restarted::<Ipv6Prefix>();
                self.rib_offered = [false; 2];
            }
            Input::Reset(address, text) => {
                if let Some(&index) = peers.by_address.get(&address) {
                    peers.drive(now, index, session::Input::Reset { subcode: cease::RESET, text }, out);
                }
            }
            Input::Refresh(address) => {
                if let Some(&index) = peers.by_address.get(&address) {
                    peers.ask_for_refresh(index, out);
                }
            }
            Input::Connected(..) | Input::Accepted(..) | Input::Closed(..) => {
                peers.connection_input(now, input, out);
            }
        }
        self.settle(out);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.peers.next_deadline()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.peers.on_deadline(now, out);
        self.settle(out);
    }

    fn run_slice(&mut self, _now: Instant, budget: Budget, out: &mut Outbox<Output>) -> Progress {
        let ipv4 = self.peers.tables.run_slice::<Ipv4Prefix>(budget);
        let ipv6 = self.peers.tables.run_slice::<Ipv6Prefix>(budget);
        self.settle(out);
        ipv4.or(ipv6)
    }

    fn export(&self) -> SpeakerState {
        let neighbors = self.peers.addresses().filter_map(|a| self.peers.config(a).cloned());
        SpeakerState {
            config: Config {
                neighbors: neighbors.collect(),
                networks: self.networks.iter().copied().collect(),
            },
        }
    }

    fn import(&mut self, now: Instant, state: SpeakerState, out: &mut Outbox<Output>) {
        self.handle(now, Input::Configure(state.config), out);
    }
}
