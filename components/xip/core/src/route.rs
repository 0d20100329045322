//! Routes as the RIB and operators give them to principals.

use crate::answer::NeighborId;
use core::fmt::{self, Display};
use sluice_base::{Xid, XidPrefix};

/// The route of an XID or of a prefix of XIDs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Route {
    /// The XID, or a part of the named thing, is this host's.
    Local,
    /// The XID is the address of a socket of this host, and the socket is the source of the principal's tunnels.
    Tunnel {
        /// True if the checksum of UDP datagrams is left 0.
        no_check: bool,
    },
    /// The gateway's XID is looked up instead.
    Redirect(Xid),
    /// The XID is reached through a neighbor.
    Neighbor(NeighborId),
}

/// A route change: the route to add or to replace, `None` to remove it.
pub type RouteChange = (XidPrefix, Option<Route>);

/// An entry of a principal's table, for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The entry's key.
    pub prefix: XidPrefix,
    /// The route.
    pub route: Route,
}

/// The reason why a principal refuses a route change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeError {
    /// No principal is registered under the type.
    UnknownPrincipal,
    /// The prefix is not of the principal's type.
    WrongType,
    /// The principal takes whole XIDs only.
    NotExact,
    /// The principal has no routes of this kind.
    WrongRoute,
    /// The gateway has the type of the redirected XID (Linux XIA answers EINVAL).
    SameTypeGateway,
    /// The ID does not have the form of the principal's IDs.
    IllFormed,
    /// The principal has a tunnel socket already (Linux XIA answers EEXIST).
    TunnelExists,
    /// The principal computes its answers and has no table.
    NoTable,
}

impl Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChangeError::UnknownPrincipal => "no principal is registered under the type",
            ChangeError::WrongType => "the prefix is not of the principal's type",
            ChangeError::NotExact => "the principal takes whole XIDs only",
            ChangeError::WrongRoute => "the principal has no routes of this kind",
            ChangeError::SameTypeGateway => "the gateway has the type of the redirected XID",
            ChangeError::IllFormed => "the ID does not have the principal's form",
            ChangeError::TunnelExists => "the principal has a tunnel socket already",
            ChangeError::NoTable => "the principal computes its answers and has no table",
        })
    }
}

impl core::error::Error for ChangeError {}
