//! The end of restarts: of this router, and of neighbors whose routes have stayed.

use super::registry::Peers;
use crate::event::PeerEvent;
use crate::family::Families;
use crate::shard::PeerIndex;
use crate::speaker::messages::{Output, event};
use crate::speaker::neighbor::Overdue;
use crate::table::Order;
use alloc::vec::Vec;
use sluice_base::Instant;
use sluice_machine::Outbox;

impl Peers {
    /// Begins to advertise to neighbors deferred by the router's restart.
    pub fn end_deferral(&mut self, out: &mut Outbox<Output>) {
        self.defers_export = false;
        let all: Vec<PeerIndex> = self.by_address.values().copied().collect();
        all.into_iter().for_each(|index| self.open_deferred(index, out));
    }

    /// Removes routes kept for a neighbor's restart, or makes the routes long-lived stale, at the end of the restart time.
    pub(super) fn end_restart(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) {
        let Some(peer) = self.peer_mut(index) else { return };
        let has_session = peer.session.established().is_some();
        let Overdue { long_lived, removed } =
            peer.restart.expire(now, peer.config.graceful_restart, has_session);
        let address = peer.config.address;
        if !long_lived.is_empty() {
            out.push(Output::Order(None, Order::MarkLongLived(index, long_lived)));
            out.push(event(address, PeerEvent::LongLivedStale(long_lived)));
            self.note_deadline(index);
        }
        if !removed.is_empty() {
            self.drop_stale(index, removed, out);
            out.push(event(address, PeerEvent::RestartTookTooLong(removed)));
        }
    }

    /// Removes routes of earlier sessions of a neighbor, where such routes stayed.
    pub(crate) fn drop_stale(&mut self, index: PeerIndex, families: Families, out: &mut Outbox<Output>) {
        let ended = self.peer_mut(index).map(|peer| peer.restart.end(families)).unwrap_or_default();
        if !ended.is_empty() {
            out.push(Output::Order(None, Order::DropStale(index, ended)));
            self.note_deadline(index);
        }
    }
}
