//! The hand-over of control to a new process: the neighbors, and the established sessions.

use super::router::{Control, parts};
use crate::aggregate::AggregateAttributes;
use crate::policy::Policies;
use crate::session::ConnectionId;
use crate::speaker::config::{Config, Identity};
use crate::speaker::messages::Output;
use crate::speaker::neighbor::Peer;
use crate::speaker::peers::{PeerState, RangeCounters};
use crate::speaker::rib::{PresenceQuestion, Redistributed};
use crate::table::SessionEpoch;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, Instant, IpPrefix};
use sluice_machine::Outbox;

/// The exported state of control.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpeakerState {
    /// Constants for the life of a router: the tables of the next process spread prefixes as before.
    pub identity: Identity,
    /// The configuration.
    pub config: Config,
    redistributed: Vec<Redistributed>,
    aggregates: Vec<(AnyPrefix, AggregateAttributes)>,
    present: Vec<PresenceQuestion>,
    peers: Vec<PeerState>,
    ranges: Vec<(IpPrefix, RangeCounters)>,
    life: SessionEpoch,
    started: Instant,
    all_announced: bool,
}

impl SpeakerState {
    /// Removes the redistributed routes, possibly many, and the policies, which the next process reads from the configuration:
    /// the rest is small.
    pub fn take_large(&mut self) -> Vec<Redistributed> {
        self.config.policies = Policies::default();
        core::mem::take(&mut self.redistributed)
    }

    /// Puts back what [`SpeakerState::take_large`] took out.
    pub fn put_large(&mut self, policies: Policies, redistributed: Vec<Redistributed>) {
        self.config.policies = policies;
        self.redistributed = redistributed;
    }

    /// The connections of sessions that are up.
    pub fn established(&self) -> impl Iterator<Item = (IpAddr, ConnectionId)> {
        self.peers.iter().filter_map(|p| Some((p.address, p.session.connection()?)))
    }
}

impl Control {
    pub(crate) fn export_state(&self) -> SpeakerState {
        let peers = &self.peers;
        let neighbors = peers.addresses().filter_map(|a| peers.config(a).cloned());
        let states = peers.by_address.iter().filter_map(|(address, index)| {
            // Injections end with the process.
            let peer = peers.peers.get(usize::from(index.0))?.as_deref().filter(|p| p.injection.is_none())?;
            Some(peer.export_state(*address, *index))
        });
        SpeakerState {
            identity: peers.identity.clone(),
            config: Config { neighbors: neighbors.collect(), ..self.config() },
            redistributed: self.redistributed.export(),
            aggregates: self.aggregation.export(),
            present: self.presences.export(),
            peers: states.collect(),
            ranges: peers.ranges.export(),
            life: peers.life,
            started: self.started,
            all_announced: self.all_announced,
        }
    }

    pub(crate) fn import_state(&mut self, now: Instant, state: SpeakerState, out: &mut Outbox<Output>) {
        (self.started, self.all_announced) = (state.started, state.all_announced);
        self.look_at = (!state.all_announced).then_some(now);
        if state.all_announced {
            self.peers.end_deferral(out);
        }
        self.peers.life = state.life;
        self.peers.bindings.policies = state.config.policies.clone();
        self.presences.import(state.present);
        self.peers.bindings.facts = self.presences.facts();
        // Neighbors without a session stay for the time of their range.
        self.peers.ranges.configure(now, state.config.ranges.clone());
        for peer in state.peers {
            let config = state.config.neighbors.iter().find(|n| n.address == peer.address);
            if let Some(config) = config {
                let new = Peer::new(config.clone(), &self.peers.identity, self.peers.rng.next_u64());
                self.peers.import(now, peer, new, out);
            }
        }
        self.configure(now, state.config, out);
        self.peers.ranges.import(&state.ranges);
        let mut parts = parts(&mut self.peers, &mut self.originator, out);
        self.redistributed.take(state.redistributed, &mut parts);
        self.aggregation.import(state.aggregates, &mut parts);
    }
}
