//! The inputs and outputs of control.

use super::config::{Config, InjectionConfig};
use super::rib::{PresenceQuestion, Redistributed};
use crate::endpoints::Endpoints;
use crate::event::{ConnectError, Event, PeerEvent};
use crate::intake::{Message, Reading};
use crate::policy::OriginData;
use crate::reader::ReaderCounters;
use crate::session::ConnectionId;
use crate::shard::{Interest, Sent};
use crate::table::{Order, TableEvent};
use crate::writer::Writer;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Serialize, Serializer};
use sluice_base::interest::InterestAnswer;
use sluice_base::{AnyPrefix, Ipv4Prefix, Ipv6Prefix, XidPrefix};

/// An input of control.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub enum Input {
    /// A new configuration.
    Configure(Config),
    /// A connection that was asked for is there.
    Connected(IpAddr, ConnectionId, Endpoints),
    /// An address connects; it may be of no neighbor. Comes before [`Input::Accepted`]: if the address is in a listen range that may have
    /// one more neighbor, it is a neighbor's from now on.
    Offered(IpAddr),
    /// A neighbor connected.
    Accepted(IpAddr, ConnectionId, Endpoints),
    /// A connection could not be made or is gone.
    Closed(IpAddr, ConnectionId),
    /// A connection that was asked for could not be made, and why.
    Failed(IpAddr, ConnectionId, ConnectError),
    /// A connection's intake took a message for the session.
    Message(IpAddr, ConnectionId, Message),
    /// UPDATEs came; this was read in the session so far.
    Received(IpAddr, ConnectionId, ReaderCounters),
    /// UPDATEs were handed to the connection; this was sent in the session so far.
    Sent(IpAddr, ConnectionId, Sent),
    /// The neighbor took octets on the connection, or none wait to be sent there.
    Written(IpAddr, ConnectionId),
    /// An intake found something remarkable.
    Remark(IpAddr, PeerEvent),
    /// The table of this number reports an event.
    Table(usize, TableEvent),
    /// The RIB's answer: how IPv4 next hops are reached.
    AnswerIpv4(InterestAnswer<Ipv4Prefix>),
    /// The RIB's answer: how IPv6 next hops are reached.
    AnswerIpv6(InterestAnswer<Ipv6Prefix>),
    /// The RIB's answer: how next hops that are XIDs are reached.
    AnswerXid(InterestAnswer<XidPrefix>),
    /// An answer of the RIB holds no longer.
    Invalid(AnyPrefix),
    /// The RIB was restarted.
    RibRestarted,
    /// The RIB's answer: whether it has routes.
    Presence(Vec<(PresenceQuestion, bool)>),
    /// The neighbors with a session when the process before ended, from its note.
    EstablishedBefore(BTreeSet<IpAddr>),
    /// Another epoch of validated ROA payloads.
    Origins(#[serde(serialize_with = "shared")] Arc<OriginData>),
    /// Selected routes of redistributed origins changed at the RIB.
    Redistributed(Vec<Redistributed>),
    /// The operator wants a session closed and opened again, with a word to the other operator (RFC 9003).
    Reset(IpAddr, String),
    /// The operator wants a neighbor asked for all its routes (RFC 2918).
    Refresh(IpAddr),
    /// The operator wants the history of a prefix, or all histories, forgotten by flap damping.
    ClearDamping(Option<AnyPrefix>),
    /// The routes of a trace come, as if from a peer of this configuration. For a source that there is already: its configuration changes.
    Inject(Box<InjectionConfig>),
    /// The progress of a trace in its present session.
    Injected(IpAddr, ReaderCounters),
    /// The session of the peer ended in the trace, and the next one begins.
    RestartInjection(IpAddr),
    /// The routes of a trace are removed.
    EndInjection(IpAddr),
    /// The tables know how the next hops of all routes are reached that came before [`Output::AllAnnounced`].
    Resolved,
    /// The router will be silent for a while: every neighbor with a session is sent a message.
    Pause,
    /// The end of the pause: silence of neighbors counts again.
    GoOn,
}

/// Writes shared payloads as a value.
fn shared<S: Serializer>(data: &Arc<OriginData>, to: S) -> Result<S::Ok, S::Error> {
    (**data).serialize(to)
}

/// An effect requested by control.
#[derive(Debug)]
pub enum Output {
    /// Connect to the neighbor by its configuration.
    Connect(IpAddr, ConnectionId),
    /// Close a connection when what was sent on it is written. Its intake is fed no more.
    Close(IpAddr, ConnectionId),
    /// Write a whole message behind what was written before.
    Send(IpAddr, ConnectionId, Vec<u8>),
    /// A session is up: this carries its routes.
    Up(IpAddr, ConnectionId, Box<Link>),
    /// A session of a trace begins, which is read by this.
    Injecting(IpAddr, Box<Reading>),
    /// Send to the table of this number, or to every table.
    Order(Option<usize>, Order),
    /// Ask the RIB.
    InterestIpv4(Interest<Ipv4Prefix>),
    /// Ask the RIB.
    InterestIpv6(Interest<Ipv6Prefix>),
    /// Ask the RIB.
    InterestXid(Interest<XidPrefix>),
    /// Ask the RIB whether it has routes, and to report changes.
    WatchPresence(Vec<PresenceQuestion>),
    /// Take such questions back.
    UnwatchPresence(Vec<PresenceQuestion>),
    /// Notify the RIB whether packets can be sent through a neighbor's address.
    GatewayUsable(IpAddr, bool),
    /// A session came up or ended: [`Control::neighbors_to_remember`] are others.
    SessionsChanged,
    /// Every neighbor has announced all its routes, or the time for that is over: [`Control::have_all_announced`] is true from now on.
    AllAnnounced,
    /// For the log.
    Event(Event),
}

/// The carriers of an established session's routes: the connection's intake and writer.
#[derive(Debug)]
pub struct Link {
    /// The rules for the connection's intake.
    pub reading: Reading,
    /// The writer, which joins the tables' UPDATEs for the peer.
    pub writer: Writer,
}

pub(super) fn event(peer: IpAddr, what: PeerEvent) -> Output {
    Output::Event(Event { peer, what })
}
