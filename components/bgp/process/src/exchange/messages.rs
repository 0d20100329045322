//! The messages between the process's own thread, the tasks of tables, and the readers and writers of connections.

use super::watch::Watch;
use sluice_base::{Instant, RouteBatch};
use sluice_bgp::event::PeerEvent;
use sluice_bgp::family::{FamilyIndex, Sharded};
use sluice_bgp::intake::{Message, Reading, Traced};
use sluice_bgp::session::ConnectionId;
use sluice_bgp::shard::Sent;
use sluice_bgp::table::{Marks, SessionEpoch, TableEvent};
use sluice_bgp::writer::Writer as UpdateStream;
use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The key of a connection.
pub type ConnectionKey = (IpAddr, ConnectionId);

/// A message to the process's own thread. At most one message of each kind is in flight for a connection, and a few for a table.
pub enum ControlMessage {
    /// A message for the session; the connection is not read until control answers. The answer has the reader's state if the
    /// session came up with the message. Without an answer the connection is read no more.
    Message(ConnectionKey, Message, oneshot::Sender<Option<Reading>>),
    /// A remarkable event; the connection is not read until control has noted the event.
    Remark(IpAddr, PeerEvent, oneshot::Sender<()>),
    /// Prefixes were read, for a latency profile.
    Traced(Arc<Watch<Vec<(Instant, Traced)>>>),
    /// The connection is gone.
    Lost(ConnectionKey),
    /// An event of a table.
    Table(usize, TableEvent),
    /// A table's routes for the RIB.
    Routes(usize, Routes),
    /// A barrier: dropped when read, so every earlier message has been read.
    Read(oneshot::Sender<()>),
}

/// A session's counters and the time of the latest change, read on request or when a timer fires.
pub type Reported<T> = Watch<Option<(Instant, T)>>;

/// A message to a writer.
pub enum WriterMessage {
    /// A message of the session, for the end of the queue.
    Octets(Vec<u8>),
    /// The session is up.
    Open(UpdateStream, SessionEpoch),
    /// A table's chunk for the neighbor.
    Chunk(Chunk),
    /// A table wrote to the socket, which took only a part of the chunk.
    Rest,
    /// Writes queued messages, then ends the connection.
    Close,
    /// Ends the connection at once.
    End,
}

/// Octets from a table: whole messages.
#[derive(Default)]
pub struct Chunk {
    /// The table's number.
    pub table: usize,
    /// The messages.
    pub octets: Vec<u8>,
    /// The contents of the messages.
    pub sent: Sent,
    /// Marks behind the messages.
    pub marks: Marks,
}

/// Octets of a neighbor's chunk: enough to spread the cost of a system call, few enough to let the next neighbor have a turn.
pub const PIECE: usize = 32_768;

/// Routes of a family for the RIB.
pub struct Routes {
    /// The family.
    pub family: FamilyIndex,
    batch: Box<dyn Any + Send>,
}

impl Routes {
    /// Makes a message of a batch.
    pub fn new<P: Sharded>(batch: RouteBatch<P>) -> Self {
        Routes { family: P::INDEX, batch: Box::new(batch) }
    }

    /// Returns the batch.
    pub fn of<P: Sharded>(&self) -> &RouteBatch<P> {
        self.batch.downcast_ref().expect("routes have the keys of their family")
    }
}
