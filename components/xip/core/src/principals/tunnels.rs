//! A principal whose XIDs are addresses and UDP ports: packets cross another network in datagrams.

use super::entries::{Entries, ID_BITS};
use super::table::{PLACE, exact};
use super::{Actions, Consult, Principal, Treatment};
use crate::anchor::{Anchor, Deps, Touch, Touched};
use crate::route::{ChangeError, Entry, Route};
use alloc::vec::Vec;
use sluice_base::{Xid, XidPrefix, XidType};

/// Tunnels between sockets, on demand: any well-formed XID is reachable while this host has a tunnel socket.
///
/// Without a tunnel socket, the router falls to the next edge. An ill-formed XID is an error of the packet's author, for good.
pub struct TunnelPrincipal {
    kind: XidType,
    is_well_formed: fn(&[u8; 20]) -> bool,
    sockets: Entries,
    tunnel: Option<[u8; 20]>,
}

impl TunnelPrincipal {
    /// Makes a principal without sockets; a secret `seed` keeps the table's hashes from being guessed.
    pub fn new(kind: XidType, is_well_formed: fn(&[u8; 20]) -> bool, seed: u64) -> Self {
        TunnelPrincipal { kind, is_well_formed, sockets: Entries::new(seed), tunnel: None }
    }
}

impl Principal for TunnelPrincipal {
    fn kind(&self) -> XidType {
        self.kind
    }

    fn consult(&self, xid: Xid, deps: &mut Deps) -> Consult {
        if !(self.is_well_formed)(&xid.id) {
            return Consult::Forward(Actions::both(Treatment::Unsupported));
        }
        deps.push(Anchor::Entry(xid));
        if self.sockets.get(&xid.id, ID_BITS).is_some() {
            return Consult::Forward(PLACE);
        }
        deps.push(Anchor::Tunnel(self.kind));
        if self.tunnel.is_some() {
            Consult::Forward(Actions::both(Treatment::Tunnel(xid)))
        } else {
            Consult::NextEdge
        }
    }

    fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Result<Touched, ChangeError> {
        let xid = exact(self.kind, prefix)?;
        if !(self.is_well_formed)(&xid.id) {
            return Err(ChangeError::IllFormed);
        }
        let had_tunnel = self.tunnel.is_some();
        let tunnel = match route {
            None | Some(Route::Local) => self.tunnel.filter(|id| *id != xid.id),
            Some(Route::Tunnel { .. }) if self.tunnel.is_some_and(|id| id != xid.id) => {
                return Err(ChangeError::TunnelExists);
            }
            Some(Route::Tunnel { .. }) => Some(xid.id),
            Some(_) => return Err(ChangeError::WrongRoute),
        };
        self.tunnel = tunnel;
        let before = self.sockets.set(&xid.id, ID_BITS, route);
        let mut touched = Touched::new();
        if before.is_some() != route.is_some() {
            touched.push(Touch::entry(xid));
        }
        if had_tunnel != tunnel.is_some() {
            touched.push(Touch::Anchor(Anchor::Tunnel(self.kind)));
        }
        Ok(touched)
    }

    fn view(&self, after: Option<XidPrefix>, most: usize) -> Vec<Entry> {
        self.sockets.page(self.kind, after, most)
    }

    fn entry_count(&self) -> usize {
        self.sockets.len()
    }
}
