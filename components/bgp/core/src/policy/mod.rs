//! Routing policy in BGP (RFC 4271, sections 9.1.1 and 9.1.3; RFC 8212).
//!
//! Policies are configured by name ([`Policies`]), and bound to a neighbor and a direction ([`BoundPolicy`]): questions about
//! the neighbor are answered once, so neighbors without such questions share one bound policy. A bound policy
//! decides on a [`PolicyRoute`], which is read and changed in the canonical octets of the attributes.

mod aspa;
mod bound;
mod ingress;
mod policies;
mod route;
mod route_type;
mod validation;
pub mod vocabulary;

pub use aspa::{AspaProcedure, PathCheck};
pub(crate) use aspa::{path_asns, path_state};
pub use bound::{BoundPolicy, DecidedBy, Memory, Neighbor, Outcome, Trace};
pub use ingress::Ingress;
pub use policies::{BindError, DefaultPolicy, Policies};
pub use route::{Context, Edited, NextHopRule, PolicyRoute};
pub use route_type::RouteType;
pub use validation::{OriginData, state};
