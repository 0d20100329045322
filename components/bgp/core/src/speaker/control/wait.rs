//! The wait for neighbors after a start: until every neighbor has announced its routes, or the time limit has passed.

use super::router::{Control, GRACE, LOOK_DELAY, RESOLUTION, STRAGGLERS};
use crate::speaker::messages::Output;
use crate::speaker::neighbor::Peer;
use alloc::collections::BTreeSet;
use core::net::IpAddr;
use sluice_base::Instant;
use sluice_machine::Outbox;

impl Control {
    /// Returns true if every awaited neighbor has announced every route since the router started, or the time limit has passed.
    /// Stays true after [`Output::AllAnnounced`].
    pub fn have_all_announced(&self, now: Instant) -> bool {
        self.all_announced || now >= self.all_announced_by()
    }

    /// Returns the end of the wait for neighbors, if no neighbor sends more messages.
    ///
    /// Neighbors without a session are awaited if the previous process had a session with the neighbor, or if the previous
    /// sessions are unknown. The wait is [`STRAGGLERS`] after the last session came up, and [`GRACE`] if no neighbor is back.
    fn all_announced_by(&self) -> Instant {
        let latest = self.started + GRACE;
        let back = self.peers.configured().filter(|peer| peer.config.enabled);
        let back = back.filter_map(Peer::announced_all_by).max();
        let by = match back {
            Some(by) if self.is_one_missing() => by.max(self.peers.last_up + STRAGGLERS),
            Some(by) => by,
            None if self.is_one_missing() => latest,
            None => self.started,
        };
        by.min(latest)
    }

    /// Returns true if a neighbor is awaited and has no session.
    fn is_one_missing(&self) -> bool {
        let is_absent = |peer: &&Peer| {
            peer.config.enabled && peer.config.range.is_none() && peer.announced_all_by().is_none()
        };
        let mut absent = self.peers.configured().filter(is_absent);
        match &self.before {
            Some(before) => {
                // Dynamic neighbors connect when they like. After a restart their routes are worth the wait.
                let is_dynamic = |address: &&IpAddr| {
                    self.peers.of(**address).is_none()
                        && self.peers.ranges.configs().any(|range| range.contains(**address))
                };
                absent.any(|peer| before.contains(&peer.config.address))
                    || before.iter().any(|a| is_dynamic(&a))
            }
            None => {
                let has_ranges = self.peers.ranges.configs().next().is_some();
                absent.next().is_some() || (self.peers.identity.is_restarted && has_ranges)
            }
        }
    }

    /// Returns the neighbors for which the next process should wait: neighbors with a session, and neighbors awaited by the
    /// present process.
    pub fn neighbors_to_remember(&self) -> BTreeSet<IpAddr> {
        let awaited = self.before.iter().flatten().filter(|_| !self.all_announced).copied();
        self.peers.addresses().filter(|address| self.established(*address).is_some()).chain(awaited).collect()
    }

    /// Brings the next check of the wait for neighbors forward, after an event that may end the wait.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look_at = self.look_at.map(|at| at.min(now + LOOK_DELAY));
    }

    /// Reports the end of the wait for neighbors, or looks again when it can have come.
    pub(super) fn look(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.have_all_announced(now) {
            self.all_announced = true;
            self.look_at = None;
            self.open_at = Some(now + RESOLUTION);
            out.push(Output::AllAnnounced);
        } else {
            self.look_at = Some(self.all_announced_by());
        }
    }

    /// Begins to advertise after a restart. With an End-of-RIB marker before the RIB has resolved the next hops, neighbors would
    /// drop routes about to come.
    pub(super) fn open(&mut self, out: &mut Outbox<Output>) {
        if self.open_at.take().is_some() {
            self.peers.end_deferral(out);
        }
    }
}
