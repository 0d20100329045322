//! Sessions as monitoring stations are notified of them (BMP, RFC 7854).

use super::router::Control;
use crate::bmp::{
    DownCause, Instance, MonitoredPeer, MonitoredRouter, MonitoredSession, PeerChange, PeerStatistics,
    Station,
};
use crate::family::{Families, FamilyIndex};
use crate::shard::PeerIndex;
use crate::speaker::neighbor::Peer;
use alloc::vec::Vec;

impl Control {
    /// Returns the router as stations see it, in a routing instance.
    pub fn monitored_router(&self, instance: Instance) -> MonitoredRouter {
        let identity = &self.peers.identity;
        // Nobody but neighbors with XIDs knows the numbers of that family.
        let has_xids = self.peers.configured().any(|peer| peer.config.families().has(FamilyIndex::XID));
        let families = Families::of(|family| family != FamilyIndex::XID || has_xids);
        let (local_as, router_id, codes) = (identity.local_as, identity.router_id, identity.codes);
        MonitoredRouter { local_as, router_id, codes, families, instance }
    }

    /// Returns the changes of peers since a station was notified of them last. Costs a comparison for each peer that did not change. Ports of
    /// connections are 0.
    pub fn changed_peers(&self, station: &Station) -> Vec<MonitoredPeer> {
        let mut changes = Vec::new();
        let mut push = |peer, change| changes.push(MonitoredPeer { peer, change });
        let is_gone = |peer: &PeerIndex| self.configured_at(*peer).is_none();
        station
            .known_peers()
            .filter(is_gone)
            .for_each(|peer| push(peer, PeerChange::Down(DownCause::Deconfigured)));
        for index in self.peers.by_address.values().copied() {
            let Some(peer) = self.configured_at(index) else { continue };
            let (known, epoch) = (station.known(index), peer.life);
            if let Some((before, ended)) = known
                && epoch == Some(before)
            {
                let ends = Families::of(|family| peer.end_of_rib[family]).without(ended);
                if !ends.is_empty() {
                    push(index, PeerChange::Ended(ends));
                }
                continue;
            }
            if known.is_some() {
                push(index, PeerChange::Down(down_cause(peer)));
            }
            if let Some(session) = monitored_session(peer) {
                push(index, PeerChange::Up(session));
            }
        }
        changes
    }

    /// Returns the statistics of a peer's messages; the statistics of routes are in the tables.
    pub fn peer_statistics(&self, peer: PeerIndex) -> PeerStatistics {
        let read = self.configured_at(peer).map(Peer::read).unwrap_or_default();
        PeerStatistics {
            loops: read.loops,
            treated_as_withdraw: read.treated_as_withdraw,
            ..PeerStatistics::default()
        }
    }

    /// Returns the configured peer of a number.
    fn configured_at(&self, index: PeerIndex) -> Option<&Peer> {
        self.peers.peers.get(usize::from(index.0))?.as_deref().filter(|peer| !peer.retired)
    }
}

/// Returns an established session; `None` without one.
fn monitored_session(peer: &Peer) -> Option<MonitoredSession> {
    let session = &peer.session;
    Some(MonitoredSession {
        epoch: peer.life?,
        address: peer.config.address,
        local: peer.endpoints(session.established()?)?.local,
        ports: (0, 0),
        since: session.established_at()?,
        sent: session.own_open()?.clone(),
        received: session.peer_open()?.clone(),
        families: session.negotiated()?.families,
    })
}

/// Returns why a peer's latest session ended.
fn down_cause(peer: &Peer) -> DownCause {
    let reason = peer.session.last_down().map(|(_, reason)| reason);
    reason.map_or(DownCause::RemoteClosed, |reason| DownCause::of(reason, peer.session.sent_notification()))
}
