//! zFilters: an XID is a Bloom filter of the links of a multicast tree (LIPSIN, SIGCOMM 2009).
//!
//! Each link has a link ID. A packet goes over each link whose link ID is contained in the XID, without state for groups in routers.
//! The gateway of a link is an XID of any other type, so that this principal forwards nothing itself. The gateways of an XID
//! are decided once for all packets with that XID: link IDs are few, and a change of a link touches exactly the filters that contain it.

use super::table::exact;
use super::{Consult, Copies, Principal};
use crate::anchor::{Anchor, Deps, Touch, Touched};
use crate::route::{ChangeError, Entry, Route};
use alloc::vec::Vec;
use sluice_base::{Prefix, Xid, XidPrefix, XidType};

/// The form of link IDs in a network. Makers of packets need it; routers need none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Leading bits of the ID that are used, m: 1 to 160.
    pub bits: u8,
    /// One-bits of each link ID, k; `None` if any number is allowed, as in Linux XIA. A link ID of zeros is in every filter.
    pub ones: Option<u8>,
}

impl Default for Shape {
    /// Returns the form that Linux XIA has: 160 bits, any number of them one.
    fn default() -> Self {
        Shape { bits: 160, ones: None }
    }
}

/// A filter as numbers: the first 128 bits, and the last 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bits(u128, u32);

impl Bits {
    fn of(id: &[u8; 20]) -> Self {
        let [high @ .., a, b, c, d] = *id;
        Bits(u128::from_be_bytes(high), u32::from_be_bytes([a, b, c, d]))
    }

    const fn is_in(self, filter: Bits) -> bool {
        self.0 & filter.0 == self.0 && self.1 & filter.1 == self.1
    }

    fn fits(self, shape: Shape) -> bool {
        let bits = u32::from(shape.bits);
        let is_within = self.0.checked_shl(bits).unwrap_or(0) == 0
            && self.1.checked_shl(bits.saturating_sub(128)).unwrap_or(0) == 0;
        let ones = self.0.count_ones() + self.1.count_ones();
        is_within && shape.ones.is_none_or(|wanted| u32::from(wanted) == ones)
    }
}

/// A principal that matches link IDs against the packet's filter.
pub struct ZfPrincipal {
    kind: XidType,
    shape: Shape,
    /// Link IDs in order.
    links: Vec<(Bits, XidPrefix, Route)>,
}

impl ZfPrincipal {
    /// Makes a principal without links.
    pub const fn new(kind: XidType, shape: Shape) -> Self {
        ZfPrincipal { kind, shape, links: Vec::new() }
    }
}

impl Principal for ZfPrincipal {
    fn kind(&self) -> XidType {
        self.kind
    }

    fn consult(&self, xid: Xid, deps: &mut Deps) -> Consult {
        deps.push(Anchor::Filter(xid));
        let filter = Bits::of(&xid.id);
        let mut copies = Copies::default();
        for (_, _, route) in self.links.iter().filter(|(link, ..)| link.is_in(filter)) {
            match route {
                Route::Redirect(gateway) if !copies.gateways.contains(gateway) => {
                    copies.gateways.push(*gateway)
                }
                Route::Local => copies.local = true,
                _ => {}
            }
        }
        if copies.local || !copies.gateways.is_empty() {
            Consult::Replicate(copies)
        } else {
            Consult::NextEdge
        }
    }

    fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Result<Touched, ChangeError> {
        let link = exact(self.kind, prefix)?;
        match route {
            Some(Route::Redirect(gateway)) if gateway.kind == self.kind => {
                return Err(ChangeError::SameTypeGateway);
            }
            None | Some(Route::Local | Route::Redirect(_)) => {}
            Some(_) => return Err(ChangeError::WrongRoute),
        }
        let bits = Bits::of(&prefix.addr().id);
        if route.is_some() && !bits.fits(self.shape) {
            return Err(ChangeError::IllFormed);
        }
        let is_changed = match (self.links.binary_search_by_key(&bits, |(link, ..)| *link), route) {
            (Ok(place), Some(route)) => core::mem::replace(&mut self.links[place].2, route) != route,
            (Ok(place), None) => {
                self.links.remove(place);
                true
            }
            (Err(place), Some(route)) => {
                self.links.insert(place, (bits, prefix, route));
                true
            }
            (Err(_), None) => false,
        };
        Ok(is_changed.then_some(Touch::Filters { link }).into_iter().collect())
    }

    fn view(&self, after: Option<XidPrefix>, most: usize) -> Vec<Entry> {
        let later = self.links.iter().filter(|(_, prefix, _)| after.is_none_or(|after| *prefix > after));
        later.take(most).map(|(_, prefix, route)| Entry { prefix: *prefix, route: *route }).collect()
    }

    fn entry_count(&self) -> usize {
        self.links.len()
    }
}
