//! IPv4 addresses behind a fixed prefix: XIDs of the CMU prototype, redirected to an XID with a UDP port.

use super::{Actions, Consult, Principal, Treatment};
use crate::anchor::{Deps, Touched};
use crate::route::{ChangeError, Entry, Route};
use alloc::vec::Vec;
use sluice_base::{Xid, XidPrefix, XidType};

/// The first 16 octets of each well-formed ID.
pub const PREFIX: [u8; 16] = [0x45, 0, 0, 0, 0, 1, 0, 0, 0xfa, 0xfa, 0, 0, 0, 0, 0, 0];
/// The UDP port that the IDs imply.
pub const PORT: u16 = 13781;

/// A principal without a table: the target of each redirect is computed.
pub struct Uni4idPrincipal {
    kind: XidType,
    target: XidType,
}

impl Uni4idPrincipal {
    /// Makes a principal that redirects to XIDs of the type `target`, whose IDs are an IPv4 address, a UDP port and zeros.
    pub const fn new(kind: XidType, target: XidType) -> Self {
        Uni4idPrincipal { kind, target }
    }
}

impl Principal for Uni4idPrincipal {
    fn kind(&self) -> XidType {
        self.kind
    }

    fn consult(&self, xid: Xid, _deps: &mut Deps) -> Consult {
        let (prefix, addr) = xid.id.split_at(PREFIX.len());
        if prefix != PREFIX {
            return Consult::Forward(Actions::both(Treatment::Unsupported));
        }
        let mut id = [0; 20];
        id[..4].copy_from_slice(addr);
        id[4..6].copy_from_slice(&PORT.to_be_bytes());
        Consult::Redirect(Xid { kind: self.target, id })
    }

    fn change(&mut self, _prefix: XidPrefix, _route: Option<Route>) -> Result<Touched, ChangeError> {
        Err(ChangeError::NoTable)
    }

    fn view(&self, _after: Option<XidPrefix>, _most: usize) -> Vec<Entry> {
        Vec::new()
    }

    fn entry_count(&self) -> usize {
        0
    }
}
