//! Reading a connection: octets to the intake, routes to the tables, messages to control.

use crate::bmp::mirror::Mirror;
use crate::exchange::messages::{ConnectionKey, ControlMessage, Reported};
use crate::exchange::watch::Watch;
use crate::executor::{Halt, Socket, yield_now};
use crate::mrt::recording::{Recorded, Recording, What, microseconds};
use crate::tables::table::TableHandle;
use sluice_base::Instant;
use sluice_bgp::batch::Batches;
use sluice_bgp::bmp::MirroredMessages;
use sluice_bgp::event::PeerEvent;
use sluice_bgp::intake::{Intake, Taken, Traced};
use sluice_bgp::mrt::RecordedSession;
use sluice_bgp::reader::ReaderCounters;
use sluice_process::clock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// Octets in a read: enough to spread the cost of a system call, few enough to let the next connection have a turn.
const PIECE: usize = 65_536;

/// Octets in a read after a smaller read: every reader keeps space for so few octets.
const SMALL_WRITE: usize = 1024;

/// The most prefixes noted for a latency profile before the process's thread takes them.
const MOST_TRACED: usize = 262_144;

/// The destinations shared by readers.
pub struct Mailboxes {
    /// The tables, by number.
    pub tables: Vec<TableHandle>,
    /// The process's own thread.
    pub main: UnboundedSender<ControlMessage>,
    /// True if a latency profile wants the arrival of routes.
    pub tracing: Arc<AtomicBool>,
    /// The messages for a trace.
    pub recording: Arc<Recording>,
    /// Malformed UPDATEs for monitoring stations.
    pub mirror: Arc<Mirror>,
}

/// The connection is to be read no more.
struct Over;

/// The reader of a connection.
pub struct Reader {
    /// The connection's key.
    pub name: ConnectionKey,
    /// The connection.
    pub socket: Arc<Socket>,
    post: Arc<Mailboxes>,
    intake: Intake,
    batches: Vec<Batches>,
    received: Arc<Reported<ReaderCounters>>,
    traced: Arc<Watch<Vec<(Instant, Traced)>>>,
}

impl Reader {
    /// A reader of a new connection.
    pub fn new(
        name: ConnectionKey,
        socket: Arc<Socket>,
        post: Arc<Mailboxes>,
        received: Arc<Reported<ReaderCounters>>,
    ) -> Self {
        let batches = post.tables.iter().map(|_| Batches::default()).collect();
        Reader { name, socket, post, intake: Intake::default(), batches, received, traced: Arc::default() }
    }

    /// Returns the reader with the intake of an earlier reader.
    pub fn with(self, intake: Intake) -> Self {
        Reader { intake, ..self }
    }

    /// Returns the beginning of an incomplete message.
    pub fn pending(&self) -> Vec<u8> {
        self.intake.pending().to_vec()
    }

    /// Reads until the connection is lost, or the reader is to halt.
    pub async fn run(mut self, halt: Arc<Halt>) -> Option<Reader> {
        let (mut little, mut is_busy) = ([0; SMALL_WRITE], false);
        // Who has much to say does not keep the reader from going.
        while !halt.is_wished() {
            tokio::select! {
                biased;
                () = self.socket.readable() => {}
                () = halt.wished() => return Some(self),
            }
            // Much space only as long as there is much to read: most neighbors are silent most of the time.
            let mut much = Vec::new();
            let space = match is_busy {
                true => {
                    much.resize(PIECE, 0);
                    &mut much[..]
                }
                false => &mut little[..],
            };
            let read = match self.socket.read(space) {
                Ok(0) => return self.lost(),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return self.lost(),
            };
            is_busy = read >= SMALL_WRITE;
            if self.feed(&space[..read]).await.is_err() {
                return None;
            }
            // A neighbor that sends much must not keep the others from being read. One that has sent everything is waited for.
            if read == PIECE {
                yield_now().await;
            }
        }
        Some(self)
    }

    fn lost(mut self) -> Option<Reader> {
        for what in self.intake.end() {
            // Nobody reads on: there is nothing to wait for.
            let (reply, _) = oneshot::channel();
            let _ = self.post.main.send(ControlMessage::Remark(self.name.0, what, reply));
        }
        let _ = self.post.main.send(ControlMessage::Lost(self.name));
        None
    }

    async fn feed(&mut self, mut octets: &[u8]) -> Result<(), Over> {
        let tracing = self.post.tracing.load(Ordering::Relaxed);
        self.intake.trace(tracing);
        self.intake.record(self.post.recording.is_on());
        self.intake.mirror(self.post.mirror.is_on());
        loop {
            match self.intake.take(&mut octets, &mut self.batches) {
                Taken::Nothing => break,
                Taken::Full => self.hand_over().await,
                Taken::Event(what) => {
                    self.hand_over().await;
                    self.remark(what).await?;
                }
                Taken::Message(message) => {
                    self.hand_over().await;
                    // Before the change of state that the message makes.
                    self.record();
                    self.mirror();
                    let (reply, verdict) = oneshot::channel();
                    let _ = self.post.main.send(ControlMessage::Message(self.name, message, reply));
                    if let Some(reading) = verdict.await.map_err(|_| Over)? {
                        self.intake.open(reading);
                    }
                }
            }
        }
        if tracing {
            self.trace();
        }
        if self.intake.counts() {
            for what in self.intake.suppressed(clock::now()) {
                self.remark(what).await?;
            }
        }
        self.hand_over().await;
        self.record();
        self.mirror();
        // What was read is at hand; counting it can wait.
        self.socket.run_made_ready();
        if let Some(counters) = self.intake.news() {
            self.received.change(|received| *received = Some((clock::now(), counters)));
        }
        Ok(())
    }

    /// Reports a remarkable event, and waits until control has noted the event, so a neighbor's events do not pile up.
    async fn remark(&self, what: PeerEvent) -> Result<(), Over> {
        let (reply, noted) = oneshot::channel();
        let _ = self.post.main.send(ControlMessage::Remark(self.name.0, what, reply));
        noted.await.map_err(|_| Over)
    }

    /// Hands read routes to the tables.
    async fn hand_over(&mut self) {
        let Some((peer, life)) = self.intake.reading().map(|r| (r.peer, r.life)) else { return };
        for (table, batches) in self.post.tables.iter().zip(&mut self.batches) {
            if !batches.is_empty() {
                table.hand_over(peer, life, batches).await;
            }
        }
    }

    /// Leaves recorded messages for the trace.
    fn record(&mut self) {
        let messages = self.intake.take_recorded();
        if !messages.is_empty() {
            let (peer, rules) = (self.name.0, self.intake.reading().map(|reading| reading.reader.rules()));
            let session = rules.map(|rules| RecordedSession::established(peer, rules));
            let what = What::Messages(messages);
            self.post.recording.push(Recorded { time: microseconds(), peer, session, what });
        }
    }

    /// Sends malformed UPDATEs to the stations.
    fn mirror(&mut self) {
        let messages = self.intake.take_mirrored();
        if let Some(reading) = self.intake.reading().filter(|_| !messages.is_empty()) {
            self.post.mirror.push(MirroredMessages {
                peer: reading.peer,
                epoch: reading.life,
                since_1970: microseconds(),
                four_octet_as: reading.reader.rules().four_octet_as,
                messages,
            });
        }
    }

    fn trace(&mut self) {
        let now = clock::now();
        let new = self.intake.take_traced();
        let announce = self.traced.change(|traced| {
            let room = MOST_TRACED.saturating_sub(traced.len());
            traced.extend(new.into_iter().take(room).map(|t| (now, t)));
        });
        if announce {
            let _ = self.post.main.send(ControlMessage::Traced(Arc::clone(&self.traced)));
        }
    }
}
