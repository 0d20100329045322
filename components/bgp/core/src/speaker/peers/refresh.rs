//! Route refresh: requests for the routes of a family (RFC 2918), and the marks of beginning and end (RFC 7313).
//!
//! A neighbor that marks the beginning of a refresh announces every route again. The earlier routes become stale, and routes
//! still stale at the mark of the end are removed, like routes not announced again after a restart. The neighbor's
//! `graceful-restart stale-time` bounds the time of a refresh.

use super::registry::Peers;
use crate::event::{PeerEvent, RefreshIgnored};
use crate::family::{Families, FamilyCode, FamilyIndex};
use crate::session::{self, ConnectionId, Received};
use crate::shard::PeerIndex;
use crate::speaker::messages::{Output, event};
use crate::table::Order;
use crate::wire::route_refresh::subtype;
use crate::wire::{Notification, RouteRefresh, notification};
use alloc::vec::Vec;
use sluice_base::{Duration, Instant};
use sluice_machine::Outbox;

impl Peers {
    /// A ROUTE-REFRESH message came. Messages about families that are not agreed on are ignored.
    pub(crate) fn refresh(
        &mut self,
        now: Instant,
        index: PeerIndex,
        connection: ConnectionId,
        refresh: &RouteRefresh,
        out: &mut Outbox<Output>,
    ) {
        let Some(family) = self.identity.codes.family(refresh.afi, refresh.safi) else { return };
        let Some(peer) = self.peer_mut(index) else { return };
        let negotiated = peer.session.negotiated().filter(|agreed| agreed.families.has(family)).copied();
        let Some(negotiated) = negotiated.filter(|_| peer.session.established() == Some(connection)) else {
            return;
        };
        // The subtype was reserved before RFC 7313.
        let kind = if negotiated.enhanced_refresh { refresh.subtype } else { subtype::REQUEST };
        let address = peer.config.address;
        let ignored =
            |why, out: &mut Outbox<Output>| out.push(event(address, PeerEvent::RefreshIgnored(family, why)));
        match kind {
            subtype::REQUEST => {
                peer.refreshes.sent += 1;
                let number = peer.refreshes.sent;
                if self.take_filters(index, family, refresh, out) {
                    out.push(Output::Order(None, Order::Refresh(index, family, number)));
                }
            }
            subtype::BEGIN | subtype::END if !refresh.rest.is_empty() => {
                let mut data = Vec::new();
                refresh.put(&mut data);
                let subcode = notification::refresh::LENGTH;
                let error = Notification { code: notification::code::REFRESH, subcode, data };
                let received = session::Input::Received(connection, Received::Error(error));
                self.drive(now, index, received, out);
            }
            subtype::BEGIN if negotiated.promises_end_of_rib && !peer.end_of_rib[family] => {
                ignored(RefreshIgnored::BeforeEndOfRib, out);
            }
            subtype::BEGIN => self.begin_refresh(now, index, family, out),
            subtype::END if !peer.refreshes.stale.has(family) => {
                ignored(RefreshIgnored::EndWithoutBegin, out)
            }
            subtype::END => self.end_refresh(index, Families::only(family), out),
            other => ignored(RefreshIgnored::Subtype(other), out),
        }
    }

    /// Begins a neighbor's refresh of a family's routes. During a refresh a further beginning only gives the neighbor more time:
    /// routes received since the first beginning are not stale.
    fn begin_refresh(
        &mut self,
        now: Instant,
        index: PeerIndex,
        family: FamilyIndex,
        out: &mut Outbox<Output>,
    ) {
        let Some(peer) = self.peer_mut(index) else { return };
        let time = Duration::from_secs(peer.config.graceful_restart.stale_time.into());
        peer.refreshes.until = Some(now + time);
        if !peer.refreshes.stale.has(family) {
            peer.refreshes.stale.insert(family);
            // Routes that stayed over a restart are removed with those of this session.
            peer.restart.end(Families::only(family));
            out.push(Output::Order(None, Order::MarkStale(index, family)));
        }
        self.note_deadline(index);
    }

    /// Removes the routes that are still stale.
    fn end_refresh(&mut self, index: PeerIndex, families: Families, out: &mut Outbox<Output>) {
        let ended = self.peer_mut(index).map(|peer| peer.refreshes.end(families)).unwrap_or_default();
        if !ended.is_empty() {
            out.push(Output::Order(None, Order::DropStale(index, ended)));
            self.note_deadline(index);
        }
    }

    /// Removes the routes that are still stale: the time for the refresh is over.
    pub(crate) fn end_late_refresh(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
        let Some(peer) = self.peer_mut(index) else { return };
        let (address, late) = (peer.config.address, peer.refreshes.stale);
        self.end_refresh(index, Families::ALL, out);
        out.push(event(address, PeerEvent::RefreshTookTooLong(late)));
    }

    /// Asks a neighbor for a route refresh (RFC 2918). Returns false if the neighbor cannot be asked.
    pub fn ask_for_refresh(&mut self, index: PeerIndex, out: &mut Outbox<Output>) -> bool {
        let codes = self.identity.codes;
        let Some(peer) = self.peer_mut(index) else { return false };
        let (Some(connection), Some(negotiated)) = (peer.session.established(), peer.session.negotiated())
        else {
            return false;
        };
        if !negotiated.route_refresh {
            return false;
        }
        let families = negotiated.families;
        let mut octets = Vec::new();
        for FamilyCode { afi, safi } in families.iter().map(|family| codes.of(family)) {
            RouteRefresh::new(afi, safi, subtype::REQUEST).put(&mut octets);
            peer.session.sent.route_refresh += 1;
        }
        out.push(Output::Send(peer.config.address, connection, octets));
        true
    }
}
