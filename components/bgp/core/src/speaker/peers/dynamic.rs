//! Dynamic neighbors: routers that connect from a listen range and are configured by the range's group.
//!
//! A neighbor exists from the moment when a connection is accepted, in passive mode, and counts towards the range's limit from then on.
//! The AS of the neighbor's OPEN is compared with the range's AS numbers before the session answers the OPEN. The neighbor is
//! removed after the longest time for opening a session ([`OPENING`]), or after the longest time without a connection
//! (`idle-time`). Until then a dynamic neighbor is like any neighbor: routes kept over a graceful restart (RFC 4724) keep the
//! neighbor until the end of the restart time, and a session ended by a bound on prefixes keeps the neighbor until the session
//! may be opened again.

use super::ranges::{Range, RangeView};
use super::registry::Peers;
use crate::event::{PeerEvent, RangeRefusal};
use crate::shard::PeerIndex;
use crate::speaker::config::{ListenRange, NeighborConfig};
use crate::speaker::messages::{Output, event};
use crate::speaker::neighbor::peer::Stay;
use crate::wire::Open;
use crate::wire::notification::cease;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Duration, Instant, IpPrefix};
use sluice_machine::Outbox;

/// The longest time from a neighbor's connection until the session is Established. RFC 4271's large hold time of 4 minutes would
/// let silent connections fill a range.
pub const OPENING: Duration = Duration::from_secs(60);

impl Peers {
    /// Takes the ranges, and returns the configurations of the dynamic neighbors that stay. `is_configured` is
    /// true for the addresses of configured neighbors.
    pub(crate) fn configure_ranges(
        &mut self,
        now: Instant,
        ranges: Vec<ListenRange>,
        is_configured: impl Fn(&IpAddr) -> bool,
    ) -> Vec<NeighborConfig> {
        self.ranges.configure(now, ranges);
        let dynamic = self.configured().map(|peer| &peer.config);
        let dynamic: Vec<NeighborConfig> = dynamic
            .filter(|known| known.range.is_some() && !is_configured(&known.address))
            .cloned()
            .collect();
        let mut stay = Vec::new();
        for before in dynamic {
            let Some(range) = self.ranges.longest(before.address) else { continue };
            if let Some(config) = range.config.adopt(&before) {
                range.neighbors += 1;
                stay.push(config);
            }
        }
        stay
    }

    /// Creates a neighbor for a connecting address in a range with room for a further neighbor. Has no effect for a known
    /// neighbor before its removal.
    pub fn offer(&mut self, now: Instant, address: IpAddr, out: &mut Outbox<Output>) {
        if let Some(&index) = self.by_address.get(&address) {
            // The end of one session and the connection of the next may come before any timer fires.
            self.end_stay(now, index, out);
        }
        if self.by_address.contains_key(&address) {
            return;
        }
        let is_full = !self.has_room();
        let Some(range) = self.ranges.longest(address).filter(|range| range.config.template.enabled) else {
            return;
        };
        let prefix = range.config.prefix;
        let refusal = if is_full || range.neighbors >= u32::from(range.config.limit) {
            Some(RangeRefusal::Limit(range.neighbors))
        } else {
            (!range.take(now)).then_some(RangeRefusal::Rate)
        };
        if let Some(refusal) = refusal {
            if range.refuse(now, refusal) {
                out.push(event(address, PeerEvent::Refused { range: prefix, refusal }));
            }
            return;
        }
        range.neighbors += 1;
        range.counters.joined += 1;
        let config = range.config.neighbor(address, None);
        out.push(event(address, PeerEvent::Joined(prefix)));
        self.add(now, config, out);
    }

    /// Compares the AS of a dynamic neighbor's OPEN with the range's AS numbers. The neighbor gets an allowed AS as its
    /// configured AS; the session refuses an AS not allowed (RFC 4271, section 6.2: Bad Peer AS).
    pub(crate) fn learn_as(&mut self, now: Instant, index: PeerIndex, open: &Open, out: &mut Outbox<Output>) {
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return;
        };
        let Some(prefix) = peer.config.range else { return };
        let Some(range) = self.ranges.of(prefix) else { return };
        let (asn, address) = (open.asn(), peer.config.address);
        if !range.config.allows(asn) {
            let refusal = RangeRefusal::PeerAs(asn);
            if range.refuse(now, refusal) {
                out.push(event(address, PeerEvent::Refused { range: prefix, refusal }));
            }
            return;
        }
        // Routes and connections of a neighbor are of one AS.
        let is_bound = peer.session.has_negotiated() || !peer.restart.kept().is_empty();
        if peer.config.peer_as != asn && !is_bound {
            peer.config = range.config.neighbor(address, Some(asn));
            peer.session.configure(now, peer.config.session(&self.identity));
        }
    }

    /// Sets the time of a dynamic neighbor's removal. To be called after changes of the session, the connections or the stale
    /// routes.
    pub(crate) fn settle(&mut self, now: Instant, index: PeerIndex) {
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return;
        };
        let Some(prefix) = peer.config.range else {
            peer.stay = None;
            return self.note_deadline(index);
        };
        let idle_time = self.ranges.of(prefix).map_or(0, |range| range.config.idle_time);
        let is_kept = !peer.restart.kept().is_empty() || peer.limits.stopped().is_some();
        peer.stay = match peer.stay {
            _ if peer.session.established().is_some() => None,
            Some(Stay::Opening(at)) if peer.has_connection() => Some(Stay::Opening(at)),
            _ if peer.has_connection() => Some(Stay::Opening(now + OPENING)),
            _ if is_kept => None,
            Some(Stay::Idle(at)) => Some(Stay::Idle(at)),
            _ => Some(Stay::Idle(now + Duration::from_secs(idle_time.into()))),
        };
        self.note_deadline(index);
    }

    /// Removes a dynamic neighbor whose time is over.
    pub(crate) fn end_stay(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) {
        let Some(peer) = self.peer_mut(index).filter(|p| p.stay.is_some_and(|stay| stay.until() <= now))
        else {
            return;
        };
        let (address, range) = (peer.config.address, peer.config.range);
        let subcode = if peer.has_connection() { cease::REJECTED } else { cease::DECONFIGURED };
        // Before the stop of the session lets the neighbor be idle again.
        self.remove(now, address, subcode, out);
        if let Some(range) = range {
            out.push(event(address, PeerEvent::Left(range)));
        }
    }

    /// Returns the views of the listen ranges, in the order of their prefixes.
    pub fn range_views(&self) -> Vec<RangeView> {
        let established = |prefix: IpPrefix| {
            let of_range = self.configured().filter(|peer| peer.config.range == Some(prefix));
            of_range.filter(|peer| peer.session.established().is_some()).count() as u32
        };
        let view = |range: &Range| RangeView {
            config: range.config.clone(),
            neighbors: range.neighbors,
            established: established(range.config.prefix),
            counters: range.counters,
        };
        let mut views: Vec<RangeView> = self.ranges.all.iter().map(view).collect();
        views.sort_by_key(|view| view.config.prefix);
        views
    }
}
