//! The core's events: every text of the log.

use crate::engine::{EngineOp, Mended, NextHopId, Refusal};
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Family, GroupId, IpPrefix, TableId};

/// An event for the operator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// A route of Sluice's was changed or removed by a foreign program, and set again.
    RouteRepaired(TableId, IpPrefix),
    /// A next-hop object of Sluice's was changed or removed by a foreign program, and set again.
    NextHopRepaired(NextHopId),
    /// A foreign program switched the forwarding of a family, which was set as configured again.
    ForwardingRepaired(Family),
    /// A foreign program changed the named interface, which was set as configured again.
    LinkRepaired(String),
    /// The named interface lost a configured address, which was set again.
    AddressRepaired(String, IpAddr),
    /// A foreign program keeps changing an object of Sluice's, which is set again less and less often.
    Contended(String),
    /// The engine lost notices; everything is compared with the engine's objects.
    Overrun,
    /// The engine refused an operation on an object other than a route.
    Refused(EngineOp, Refusal),
    /// The named engine beside the authority refused an operation for the first time.
    RefusedBeside(String, EngineOp, Refusal),
    /// The named engine beside the authority differed from the core and was mended.
    Mended(String, Mended),
    /// A next hop without an interface: the engine does not resolve.
    Unresolved(GroupId),
    /// A route of an unknown group.
    UnknownGroup(IpPrefix, GroupId),
    /// A change for a table of the wrong family.
    WrongFamily(IpPrefix),
    /// An interface in the configuration does not exist yet.
    NoInterface(String),
}

impl Event {
    /// The stable name (docs/events.md).
    pub fn id(&self) -> &'static str {
        match self {
            Event::RouteRepaired(..) => "fea.route.repaired",
            Event::NextHopRepaired(_) => "fea.next-hop.repaired",
            Event::ForwardingRepaired(_) => "fea.forwarding.repaired",
            Event::LinkRepaired(_) => "fea.link.repaired",
            Event::AddressRepaired(..) => "fea.address.repaired",
            Event::Contended(_) => "fea.engine.contended",
            Event::Overrun => "fea.engine.overrun",
            Event::Refused(..) => "fea.engine.refused",
            Event::RefusedBeside(..) => "fea.engine.refused-beside",
            Event::Mended(..) => "fea.engine.mended",
            Event::Unresolved(_) => "fea.next-hop.unresolved",
            Event::UnknownGroup(..) => "fea.route.unknown-group",
            Event::WrongFamily(_) => "fea.route.wrong-family",
            Event::NoInterface(_) => "fea.link.missing",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::RouteRepaired(table, prefix) => {
                write!(f, "{prefix} in table {table} was changed from outside; repaired")
            }
            Event::NextHopRepaired(id) => {
                write!(f, "next-hop object {id} was changed from outside; repaired")
            }
            Event::ForwardingRepaired(family) => {
                write!(f, "{family} forwarding was switched from outside; set as configured again")
            }
            Event::LinkRepaired(name) => {
                write!(f, "interface {name} was changed from outside; set as configured again")
            }
            Event::AddressRepaired(name, address) => write!(f, "interface {name} lost {address}; set again"),
            Event::Contended(what) => write!(f, "{what} is changed from outside again and again"),
            Event::Overrun => f.write_str("the engine lost notices; comparing everything"),
            Event::Refused(op, refusal) => write!(f, "refused: {refusal}: {op:?}"),
            Event::RefusedBeside(engine, op, refusal) => {
                write!(f, "engine {engine} refused for the first time: {refusal}: {op:?}")
            }
            Event::Mended(engine, mended) => {
                let Mended { routes, objects, first } = mended;
                let first = first.as_deref().unwrap_or_default();
                write!(
                    f,
                    "engine {engine} lost changes: {routes} routes and {objects} next-hop objects are mended; the first: {first}"
                )
            }
            Event::Unresolved(group) => {
                write!(f, "next-hop group {} has a next hop without an interface", group.0)
            }
            Event::UnknownGroup(prefix, group) => {
                write!(f, "{prefix} points to next-hop group {}, which was not announced", group.0)
            }
            Event::WrongFamily(prefix) => write!(f, "{prefix} is of the wrong family"),
            Event::NoInterface(name) => write!(f, "interface {name} is configured and does not exist"),
        }
    }
}
