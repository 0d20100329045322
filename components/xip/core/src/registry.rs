//! The principals of a router: registered and removed at run time. An empty registry is valid, and routes nothing.

use crate::anchor::{Deps, Touch, Touched};
use crate::outside::OutsidePrincipal;
use crate::principals::{Consult, Principal};
use crate::route::{ChangeError, Route};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sluice_base::{Xid, XidPrefix, XidType};

/// A registered principal.
pub enum Registered {
    /// A principal with its rules in this process.
    Inside(Box<dyn Principal>),
    /// A principal decided for from outside.
    Outside(Box<OutsidePrincipal>),
}

impl Registered {
    fn principal(&self) -> &dyn Principal {
        match self {
            Registered::Inside(principal) => principal.as_ref(),
            Registered::Outside(principal) => principal.as_ref(),
        }
    }
}

/// The reason why a principal is not registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// The type is 0, which marks the end of rows and is never routable.
    NotAType,
    /// [`Registry::MOST`] principals are registered.
    Full,
}

/// The principals by type.
#[derive(Default)]
pub struct Registry {
    /// Types in order, and the principals at the same places.
    kinds: Vec<XidType>,
    principals: Vec<Registered>,
}

impl Registry {
    /// The most principals, as in Linux XIA.
    pub const MOST: usize = 64;

    fn place(&self, kind: XidType) -> Result<usize, usize> {
        self.kinds.binary_search(&kind)
    }

    /// Registers a principal, or replaces the principal of its type. Decisions that rest on the type must be decided anew.
    ///
    /// # Errors
    /// The type is 0, or the registry is full.
    pub fn register(&mut self, principal: Registered) -> Result<Touched, RegisterError> {
        let kind = principal.principal().kind();
        if kind == XidType::NAT {
            return Err(RegisterError::NotAType);
        }
        match self.place(kind) {
            Ok(place) => self.principals[place] = principal,
            Err(_) if self.kinds.len() >= Self::MOST => return Err(RegisterError::Full),
            Err(place) => {
                self.kinds.insert(place, kind);
                self.principals.insert(place, principal);
            }
        }
        Ok(core::iter::once(Touch::principal(kind)).collect())
    }

    /// Removes the principal of a type, with its table. Decisions that rest on the type must be decided anew.
    pub fn unregister(&mut self, kind: XidType) -> Touched {
        let Ok(place) = self.place(kind) else { return Touched::new() };
        self.kinds.remove(place);
        self.principals.remove(place);
        core::iter::once(Touch::principal(kind)).collect()
    }

    /// Returns the principal of a type; `None` if the type is unknown.
    pub fn get(&self, kind: XidType) -> Option<&dyn Principal> {
        self.principals.get(self.place(kind).ok()?).map(Registered::principal)
    }

    /// Returns the principal of a type, if decided for from outside.
    pub fn outside(&self, kind: XidType) -> Option<&OutsidePrincipal> {
        match self.principals.get(self.place(kind).ok()?)? {
            Registered::Outside(principal) => Some(principal),
            Registered::Inside(_) => None,
        }
    }

    /// Returns the principal of a type, if decided for from outside, to be changed.
    pub fn outside_mut(&mut self, kind: XidType) -> Option<&mut OutsidePrincipal> {
        let place = self.place(kind).ok()?;
        match self.principals.get_mut(place)? {
            Registered::Outside(principal) => Some(principal),
            Registered::Inside(_) => None,
        }
    }

    /// Returns all principals in the order of their types.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Principal> {
        self.principals.iter().map(Registered::principal)
    }

    /// Asks the principal of an XID's type; `None` if the type is unknown.
    pub fn consult(&self, xid: Xid, deps: &mut Deps) -> Option<Consult> {
        Some(self.get(xid.kind)?.consult(xid, deps))
    }

    /// Hands a route change to the principal of its type, and returns the anchors whose dependents must be decided anew.
    ///
    /// # Errors
    /// The type is unknown, or the principal refuses the change.
    pub fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Result<Touched, ChangeError> {
        let kind = prefix.kind().ok_or(ChangeError::WrongType)?;
        let place = self.place(kind).map_err(|_| ChangeError::UnknownPrincipal)?;
        match &mut self.principals[place] {
            Registered::Inside(principal) => principal.change(prefix, route),
            Registered::Outside(principal) => principal.change(prefix, route),
        }
    }
}
