//! Configured neighbors, and neighbors of listen ranges: additions, changes and removals, without an effect on further neighbors.

use super::registry::Peers;
use crate::event::{PeerEvent, WithoutRefresh};
use crate::family::Families;
use crate::policy::Policies;
use crate::session;
use crate::shard::PeerIndex;
use crate::speaker::config::{ListenRange, NeighborConfig, Reconfigured};
use crate::speaker::messages::{Output, event};
use crate::speaker::neighbor::{ChangedPolicies, Peer};
use crate::table::{Order, PeerPolicies};
use crate::wire::Notification;
use crate::wire::notification::cease;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::Instant;
use sluice_machine::Outbox;

impl Peers {
    /// Configures exactly the given neighbors, listen ranges and policies. Neighbors of ranges stay if still admitted by a range;
    /// new neighbors of ranges have to connect first.
    pub fn configure(
        &mut self,
        now: Instant,
        (mut neighbors, ranges): (Vec<NeighborConfig>, Vec<ListenRange>),
        policies: Policies,
        out: &mut Outbox<Output>,
    ) {
        self.bindings.policies = policies;
        neighbors.retain(|neighbor| neighbor.range.is_none());
        let mut wanted: BTreeSet<IpAddr> = neighbors.iter().map(|n| n.address).collect();
        let dynamic = self.configure_ranges(now, ranges, |address| wanted.contains(address));
        wanted.extend(dynamic.iter().map(|n| n.address));
        neighbors.extend(dynamic);
        let is_gone = |address: &IpAddr| !wanted.contains(address);
        let gone: Vec<IpAddr> = self.addresses().filter(is_gone).collect();
        for address in gone {
            // The counts of ranges are those of the neighbors that stay.
            if let Some(peer) = self.at(address).map(|(_, peer)| peer) {
                peer.config.range = None;
            }
            self.remove(now, address, cease::DECONFIGURED, out);
        }
        let mut bounded = Vec::new();
        for neighbor in neighbors {
            // A neighbor takes the place of a trace.
            self.end_injection(neighbor.address, out);
            match self.by_address.get(&neighbor.address) {
                Some(&index) => {
                    if self.reconfigure(now, index, neighbor, out) {
                        bounded.push(index);
                    }
                }
                None => self.add(now, neighbor, out),
            }
        }
        self.set_policies(out);
        // After the policies, which determine the families whose prefixes are counted.
        bounded.into_iter().for_each(|peer| out.push(Output::Order(None, Order::ReportPrefixes(peer))));
        self.send_all_filters(out);
    }

    /// Gives the tables changed policies of neighbors with an established session. Neighbors whose rejected routes are not stored
    /// are asked for a route refresh.
    pub(crate) fn set_policies(&mut self, out: &mut Outbox<Output>) {
        let (mut changed, mut unstored) = (Vec::new(), Vec::new());
        for &peer in self.by_address.values() {
            let known = self.peers.get_mut(usize::from(peer.0)).and_then(|p| p.as_deref_mut());
            let Some(known) = known else { continue };
            if let Some(import) = known.changed_import(&mut self.bindings) {
                out.push(Output::Order(None, Order::SetImport(peer, import)));
            }
            let policies = known.changed_policies(&mut self.bindings);
            if let Some(ChangedPolicies { import, export, needs_refresh }) = policies {
                changed.push(PeerPolicies { peer, import, export });
                unstored.extend(needs_refresh.then_some(peer));
            }
        }
        if !changed.is_empty() {
            out.push(Output::Order(None, Order::SetPolicies(changed.into())));
        }
        // After the order: the tables decide with the new policies on the routes that come.
        for peer in unstored {
            if !self.ask_for_refresh(peer, out)
                && let Some(known) = self.peer_mut(peer)
            {
                known.misses_routes = true;
                out.push(event(
                    known.config.address,
                    PeerEvent::NoRefresh(WithoutRefresh { is_missing: true }),
                ));
            }
        }
    }

    /// Returns a free peer number: a number without routes in any shard, or a new number.
    fn free_index(&mut self) -> PeerIndex {
        self.free.pop_first().unwrap_or_else(|| {
            self.peers.push(None);
            PeerIndex((self.peers.len() - 1) as u16)
        })
    }

    /// The most neighbors: numbers are below [`PeerIndex::END`], with some to spare for neighbors under removal.
    pub const MOST_NEIGHBORS: usize = 49_000;

    /// Returns true if there may be one more neighbor.
    pub(crate) fn has_room(&self) -> bool {
        let has_number = !self.free.is_empty() || self.peers.len() < Self::MOST_NEIGHBORS;
        self.by_address.len() < Self::MOST_NEIGHBORS && has_number
    }

    pub(crate) fn add(&mut self, now: Instant, config: NeighborConfig, out: &mut Outbox<Output>) {
        let address = config.address;
        if self.by_address.len() >= Self::MOST_NEIGHBORS {
            return out.push(event(address, PeerEvent::TooManyNeighbors));
        }
        let index = self.free_index();
        let enabled = config.enabled;
        let peer = Peer::new(config, &self.identity, self.rng.next_u64());
        self.peers[usize::from(index.0)] = Some(Box::new(peer));
        self.by_address.insert(address, index);
        if enabled {
            self.drive(now, index, session::Input::Start, out);
        }
    }

    /// Gives a neighbor a new configuration. Returns true if the neighbor's bounds changed.
    fn reconfigure(
        &mut self,
        now: Instant,
        index: PeerIndex,
        new: NeighborConfig,
        out: &mut Outbox<Output>,
    ) -> bool {
        let identity = self.identity.clone();
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return false;
        };
        let what = peer.config.reconfigured(&new, identity.local_as);
        let has_other_bounds = !peer.config.has_bounds_of(&new);
        peer.config = new;
        peer.session.configure(now, peer.config.session(&identity));
        self.note_deadline(index);
        self.settle(now, index);
        match what {
            // Other policies are given to the tables for all neighbors together.
            Reconfigured::Kept | Reconfigured::Refiltered => {}
            Reconfigured::Reset => {
                let input = session::Input::Reset { subcode: cease::CONFIGURATION, text: String::new() };
                self.drive(now, index, input, out);
            }
            Reconfigured::Stopped => {
                self.forget_stop(index);
                self.stop(now, index, cease::SHUTDOWN, out);
            }
            Reconfigured::Started => {
                self.forget_stop(index);
                self.drive(now, index, session::Input::Start, out);
            }
        }
        if has_other_bounds && !self.open_limited(now, index, out) {
            self.judge_again(now, index, out);
        }
        has_other_bounds
    }

    /// Removes a neighbor and ends its session.
    pub(crate) fn remove(&mut self, now: Instant, address: IpAddr, subcode: u8, out: &mut Outbox<Output>) {
        let Some(index) = self.by_address.remove(&address) else { return };
        // Nobody waits for a removed neighbor.
        let range = self.peer_mut(index).and_then(|peer| peer.config.range.take());
        if let Some(range) = range {
            self.ranges.left(range);
        }
        self.stop(now, index, subcode, out);
        self.settle(now, index);
        self.retire(index);
    }

    fn stop(&mut self, now: Instant, index: PeerIndex, subcode: u8, out: &mut Outbox<Output>) {
        self.drive(now, index, session::Input::Stop(Notification::cease(subcode, "")), out);
        self.drop_stale(index, Families::ALL, out);
    }
}
