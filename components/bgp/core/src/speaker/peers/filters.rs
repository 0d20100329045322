//! Outbound route filters by prefix (RFC 5291, RFC 5292): received filters and sent filters.
//!
//! A neighbor's filter is a part of the neighbor's export views, so a changed filter starts a walk that sends the differences. No
//! route is sent before the neighbor's first ROUTE-REFRESH message, or for [`PATIENCE`] (RFC 5291, section 6).

use super::registry::Peers;
use crate::event::PeerEvent;
use crate::family::{Families, FamilyIndex};
use crate::policy::Policies;
use crate::shard::PeerIndex;
use crate::speaker::messages::{Output, event};
use crate::table::{Order, PeerExport, PeerPolicies};
use crate::wire::orf::{Entry, FilterMessage, messages};
use crate::wire::route_refresh::subtype;
use crate::wire::{AFI_IPV4, RouteRefresh};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::IpPrefix;
use sluice_machine::Outbox;
use sluice_policy::prefix_list::PrefixRange;

/// Returns the entries for a prefix list, of one address family.
fn entries_of(policies: &Policies, list: &str, is_ipv4: bool) -> Vec<Entry> {
    let list = policies.source().prefix_list.iter().find(|known| known.name == list);
    let ranges =
        list.iter().flat_map(|list| &list.prefix).filter_map(|text| text.parse::<PrefixRange>().ok());
    // Filters have no form for prefixes of XIDs.
    let ranges = ranges.filter_map(|range| Some((range.prefix.ip()?, range.shortest, range.longest)));
    let ranges = ranges.filter(|(prefix, ..)| matches!(prefix, IpPrefix::V4(_)) == is_ipv4);
    let entry = |(number, (prefix, shortest, longest)): (u32, (IpPrefix, u8, u8))| {
        let is_exact = (shortest, longest) == (prefix.len(), prefix.len());
        let min_len = if shortest > prefix.len() { shortest } else { 0 };
        let max_len = if is_exact { 0 } else { longest };
        Entry { sequence: number * 5, denies: false, prefix, min_len, max_len }
    };
    (1..).zip(ranges).map(entry).collect()
}

impl Peers {
    /// Takes the filters in a ROUTE-REFRESH message about a family. Returns true if the neighbor is to be sent all routes once more: the
    /// message has no filters.
    pub(crate) fn take_filters(
        &mut self,
        index: PeerIndex,
        family: FamilyIndex,
        refresh: &RouteRefresh,
        out: &mut Outbox<Output>,
    ) -> bool {
        let Some(peer) = self.peer_mut(index) else { return false };
        let is_agreed = peer.session.negotiated().is_some_and(|n| n.filters_received.has(family));
        if !is_agreed {
            // What was not agreed on is ignored, and the message is a request.
            return true;
        }
        let is_request = refresh.rest.is_empty();
        if !is_request {
            let address = peer.config.address;
            let received = &mut peer.filters.received[family];
            let message = FilterMessage::decode(&refresh.rest, refresh.afi == AFI_IPV4);
            let actions = message.as_ref().ok().and_then(|message| message.actions.as_ref());
            let is_good = match actions {
                Some(actions) => received.apply(actions),
                None => {
                    received.clear();
                    false
                }
            };
            if !is_good {
                out.push(event(address, PeerEvent::BadFilter(family)));
            }
            if message.is_ok_and(|message| !message.is_immediate) {
                return false;
            }
        }
        peer.filters.enforce(family);
        self.export_again(index, out);
        is_request
    }

    /// Gives the tables the export to a neighbor under its present filters, or begins to send the neighbor routes.
    fn export_again(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
        let known = self.peers.get_mut(usize::from(index.0)).and_then(|peer| peer.as_deref_mut());
        let Some(peer) = known else { return };
        let is_deferred = peer.deferred.is_some();
        if let Some(changed) = peer.changed_policies(&mut self.bindings) {
            match &mut peer.deferred {
                Some(deferred) => **deferred = changed.export,
                None => {
                    let policies =
                        PeerPolicies { peer: index, import: changed.import, export: changed.export };
                    out.push(Output::Order(None, Order::SetPolicies(Arc::from([policies]))));
                }
            }
        }
        if is_deferred {
            self.open_deferred(index, out);
        }
        self.note_deadline(index);
    }

    /// Returns true while the router restarts and routes are missing (RFC 4724, section 4.1).
    const fn waits_for_routes(&self) -> bool {
        self.defers_export && self.identity.is_restarted
    }

    /// Begins to send a neighbor routes, unless this router or the neighbor's filters have to be waited for.
    pub(crate) fn open_deferred(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
        let waits_for_routes = self.waits_for_routes();
        let Some(peer) = self.peer_mut(index) else { return };
        if waits_for_routes || !peer.filters.are_known() {
            return;
        }
        if let Some(export) = peer.deferred.take() {
            out.push(Output::Order(None, Order::Open(index, export)));
        }
    }

    /// Ends the wait for a neighbor's filters: the neighbor is sent all routes.
    pub(crate) fn end_wait_for_filters(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
        if let Some(peer) = self.peer_mut(index) {
            (peer.filters.awaited, peer.filters.until) = (Families::default(), None);
        }
        self.open_deferred(index, out);
        self.note_deadline(index);
    }

    /// Sends a neighbor the configured filters, where changed since last sent.
    pub(crate) fn send_filters(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
        let (codes, policies) = (self.identity.codes, self.bindings.policies.clone());
        let Some(peer) = self.peer_mut(index) else { return };
        let (Some(connection), Some(negotiated)) = (peer.session.established(), peer.session.negotiated())
        else {
            return;
        };
        let families = negotiated.filters_sent;
        let list = peer.config.prefix_filter_send.clone().unwrap_or_default();
        let mut octets = Vec::new();
        for family in families.iter() {
            let code = codes.of(family);
            let entries = entries_of(&policies, &list, family == FamilyIndex::IPV4);
            if peer.filters.sent[family].as_ref() == Some(&entries) {
                continue;
            }
            let mut messages = messages(&entries, peer.filters.sent[family].is_some());
            if messages.is_empty() {
                // The neighbor waits for a request.
                messages.push(Vec::new());
            }
            for rest in messages {
                RouteRefresh { rest, ..RouteRefresh::new(code.afi, code.safi, subtype::REQUEST) }
                    .put(&mut octets);
                peer.session.sent.route_refresh += 1;
            }
            peer.filters.sent[family] = Some(entries);
        }
        if !octets.is_empty() {
            out.push(Output::Send(peer.config.address, connection, octets));
        }
    }

    /// Sends every neighbor filters not sent yet.
    pub(crate) fn send_all_filters(&mut self, out: &mut Outbox<Output>) {
        let all: Vec<PeerIndex> = self.by_address.values().copied().collect();
        all.into_iter().for_each(|index| self.send_filters(index, out));
    }

    /// Returns the export to begin with now; `None` while the router restarts, or while the neighbor's filters are awaited.
    pub(crate) fn opened(&mut self, index: PeerIndex, export: PeerExport) -> Option<Box<PeerExport>> {
        let waits_for_routes = self.waits_for_routes();
        let peer = self.peer_mut(index)?;
        let export = Box::new(export);
        if waits_for_routes || !peer.filters.are_known() {
            peer.deferred = Some(export);
            return None;
        }
        Some(export)
    }
}
