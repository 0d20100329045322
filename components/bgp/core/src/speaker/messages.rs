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
    /// A requested connection is open.
    Connected(IpAddr, ConnectionId, Endpoints),
    /// An address connects, possibly of no neighbor. Comes before [`Input::Accepted`]: an address in a listen range with room for
    /// a further neighbor becomes a neighbor.
    Offered(IpAddr),
    /// A neighbor connected.
    Accepted(IpAddr, ConnectionId, Endpoints),
    /// A connection could not be made or is gone.
    Closed(IpAddr, ConnectionId),
    /// A requested connection could not be made, with the reason.
    Failed(IpAddr, ConnectionId, ConnectError),
    /// A connection's intake took a message for the session.
    Message(IpAddr, ConnectionId, Message),
    /// UPDATEs were read, with the reader's counters of the session.
    Received(IpAddr, ConnectionId, ReaderCounters),
    /// UPDATEs were handed to the connection, with the counters of the session.
    Sent(IpAddr, ConnectionId, Sent),
    /// The neighbor took octets on the connection, or no octets wait.
    Written(IpAddr, ConnectionId),
    /// An intake found a remarkable event.
    Remark(IpAddr, PeerEvent),
    /// The table of this number reports an event.
    Table(usize, TableEvent),
    /// The RIB's answer about IPv4 next hops.
    AnswerIpv4(InterestAnswer<Ipv4Prefix>),
    /// The RIB's answer about IPv6 next hops.
    AnswerIpv6(InterestAnswer<Ipv6Prefix>),
    /// The RIB's answer about XID next hops.
    AnswerXid(InterestAnswer<XidPrefix>),
    /// An answer of the RIB is void.
    Invalid(AnyPrefix),
    /// The RIB was restarted.
    RibRestarted,
    /// The RIB's answer about the presence of routes.
    Presence(Vec<(PresenceQuestion, bool)>),
    /// The neighbors with a session at the previous process's end, from the note at the RIB.
    EstablishedBefore(BTreeSet<IpAddr>),
    /// A new epoch of validated ROA payloads.
    Origins(#[serde(serialize_with = "shared")] Arc<OriginData>),
    /// Selected routes of redistributed origins changed at the RIB.
    Redistributed(Vec<Redistributed>),
    /// The operator wants a session closed and opened again, with a text for the neighbor's operator (RFC 9003).
    Reset(IpAddr, String),
    /// The operator requests a route refresh from a neighbor (RFC 2918).
    Refresh(IpAddr),
    /// The operator wants the history of a prefix, or all histories, forgotten by flap damping.
    ClearDamping(Option<AnyPrefix>),
    /// Begins the injection of a trace's routes, as if from a peer of this configuration; for a known source, changes the
    /// configuration.
    Inject(Box<InjectionConfig>),
    /// The progress of a trace in its present session.
    Injected(IpAddr, ReaderCounters),
    /// The peer's session ended in the trace, and the next session begins.
    RestartInjection(IpAddr),
    /// The routes of a trace are removed.
    EndInjection(IpAddr),
    /// The tables have the RIB's answers about the next hops of every route from before [`Output::AllAnnounced`].
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
    /// Close a connection after writing queued messages. The intake receives no more octets.
    Close(IpAddr, ConnectionId),
    /// Write a whole message behind earlier messages.
    Send(IpAddr, ConnectionId, Vec<u8>),
    /// A session is up, with the link for the session's routes.
    Up(IpAddr, ConnectionId, Box<Link>),
    /// A session of a trace begins, with the reader's state.
    Injecting(IpAddr, Box<Reading>),
    /// Send to the table of this number, or to every table.
    Order(Option<usize>, Order),
    /// Ask the RIB.
    InterestIpv4(Interest<Ipv4Prefix>),
    /// Ask the RIB.
    InterestIpv6(Interest<Ipv6Prefix>),
    /// Ask the RIB.
    InterestXid(Interest<XidPrefix>),
    /// Ask the RIB about the presence of routes, and for reports of changes.
    WatchPresence(Vec<PresenceQuestion>),
    /// Withdraw such questions.
    UnwatchPresence(Vec<PresenceQuestion>),
    /// Notify the RIB: true if packets can be sent through a neighbor's address.
    GatewayUsable(IpAddr, bool),
    /// A session came up or ended: [`Control::neighbors_to_remember`] changed.
    SessionsChanged,
    /// Every neighbor has announced every route, or the time limit has passed: [`Control::have_all_announced`] is true from now
    /// on.
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
