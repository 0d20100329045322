//! A principal that looks XIDs up in a table: local XIDs, redirects and neighbors.

use super::entries::{Entries, ID_BITS};
use super::{Actions, Consult, Principal, Treatment};
use crate::anchor::{Anchor, Deps, Touch, Touched};
use crate::route::{ChangeError, Entry, Route};
use alloc::vec::Vec;
use sluice_base::{Prefix, Xid, XidPrefix, XidType};

/// The treatments of a local XID that stands for a place: the address goes on behind the XID.
pub(super) const PLACE: Actions = Actions { passthrough: Treatment::Dig, sink: Treatment::Unsupported };

/// The rules in which principals with tables differ.
#[derive(Debug)]
pub struct Rules {
    /// The treatments of a local XID.
    pub local: Actions,
    /// True if XIDs may be redirected.
    pub takes_redirects: bool,
    /// True if XIDs may be neighbors.
    pub takes_neighbors: bool,
}

impl Rules {
    /// Refuses routes that these rules do not know.
    ///
    /// # Errors
    /// The route is of a kind that the principal does not have, or a gateway has the type of the redirected XID.
    pub(super) fn check(&self, kind: XidType, route: Option<Route>) -> Result<(), ChangeError> {
        match route {
            None | Some(Route::Local) => Ok(()),
            Some(Route::Redirect(gateway)) if self.takes_redirects && gateway.kind == kind => {
                Err(ChangeError::SameTypeGateway)
            }
            Some(Route::Redirect(_)) if self.takes_redirects => Ok(()),
            Some(Route::Neighbor(_)) if self.takes_neighbors => Ok(()),
            Some(_) => Err(ChangeError::WrongRoute),
        }
    }

    /// Returns the decision on an XID with a route.
    pub(super) fn consult(&self, route: Option<Route>) -> Consult {
        match route {
            Some(Route::Local | Route::Tunnel { .. }) => Consult::Forward(self.local),
            Some(Route::Redirect(gateway)) => Consult::Redirect(gateway),
            Some(Route::Neighbor(neighbor)) => Consult::Forward(Actions::both(Treatment::Forward(neighbor))),
            None => Consult::NextEdge,
        }
    }
}

/// Returns the XID of a whole key.
///
/// # Errors
/// The prefix is of another type, or shorter than an XID.
pub(super) fn exact(kind: XidType, prefix: XidPrefix) -> Result<Xid, ChangeError> {
    match (prefix.kind(), prefix.id_bits()) {
        (Some(of), ID_BITS) if of == kind => Ok(prefix.addr()),
        (Some(of), _) if of == kind => Err(ChangeError::NotExact),
        _ => Err(ChangeError::WrongType),
    }
}

/// A principal that looks whole XIDs up in a table.
pub struct TablePrincipal {
    kind: XidType,
    rules: &'static Rules,
    entries: Entries,
}

impl TablePrincipal {
    /// Makes a principal with an empty table; a secret `seed` keeps the table's hashes from being guessed.
    pub fn new(kind: XidType, rules: &'static Rules, seed: u64) -> Self {
        TablePrincipal { kind, rules, entries: Entries::new(seed) }
    }
}

impl Principal for TablePrincipal {
    fn kind(&self) -> XidType {
        self.kind
    }

    fn consult(&self, xid: Xid, deps: &mut Deps) -> Consult {
        deps.push(Anchor::Entry(xid));
        self.rules.consult(self.entries.get(&xid.id, ID_BITS))
    }

    fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Result<Touched, ChangeError> {
        let xid = exact(self.kind, prefix)?;
        self.rules.check(self.kind, route)?;
        let before = self.entries.set(&xid.id, ID_BITS, route);
        Ok((before != route).then_some(Touch::entry(xid)).into_iter().collect())
    }

    fn view(&self, after: Option<XidPrefix>, most: usize) -> Vec<Entry> {
        self.entries.page(self.kind, after, most)
    }

    fn entry_count(&self) -> usize {
        self.entries.len()
    }
}
