//! The send queue of a connection: octets to write, and the socket. The writer task drains the queue. A table with a small chunk
//! and an empty queue writes to the socket itself, so a single route wakes no further task or thread. A table with a large chunk
//! does the same while every thread has other work: the chunk is still in the cache, and one buffer serves every neighbor.

use super::credit::Credit;
use super::messages::{Chunk, PIECE, Reported, WriterMessage};
use crate::executor::Socket;
use sluice_base::Instant;
use sluice_bgp::shard::Sent;
use sluice_bgp::table::turns::SMALL_WRITE;
use sluice_bgp::writer::Writer as UpdateStream;
use sluice_process::clock;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use tokio::sync::mpsc::UnboundedSender;

/// Buffers in one write.
const SLICES: usize = 16;

/// The age of a connection's queue: the time since octets began to wait, or since the socket last took some. Control reads the
/// age from its own thread.
#[derive(Default)]
pub struct Backlog(AtomicU64);

impl Backlog {
    /// Restarts the age: octets begin to wait, or the socket took some of the waiting octets.
    fn note(&self) {
        self.0.store(clock::now().as_nanos().max(1), Ordering::Relaxed);
    }

    /// Drops all queued octets.
    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the time since which octets wait and the socket has taken none; `None` for an empty queue.
    pub fn since(&self) -> Option<Instant> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos > 0).then(|| Instant::from_nanos(nanos))
    }
}

struct Waiting {
    octets: Vec<u8>,
    /// The table of the octets, which may send more after the write.
    table: Option<usize>,
}

/// The work left after a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// No octets are queued.
    Nothing,
    /// More can be written at once.
    More,
    /// The socket takes no more now.
    Blocked,
}

/// Messages of one source: a message is written whole before another begins.
struct Stream {
    /// `None` while the connection moves, and after its end.
    socket: Option<Arc<Socket>>,
    session: Option<UpdateStream>,
    waiting: VecDeque<Waiting>,
    /// Written octets of the first buffer.
    written: usize,
}

/// A connection's send queue. A lock is held for a write; tables do not wait for the lock.
pub struct SendQueue {
    stream: Mutex<Stream>,
    /// By table: the right to queue one chunk, with space for the chunk.
    credits: Vec<Credit<Vec<u8>>>,
    notes: UnboundedSender<WriterMessage>,
    sent: Arc<Reported<Sent>>,
    backlog: Arc<Backlog>,
}

impl SendQueue {
    /// Makes the send queue of a new connection. `notes` lead to the writer.
    pub fn new(
        tables: usize,
        notes: UnboundedSender<WriterMessage>,
        sent: Arc<Reported<Sent>>,
        backlog: Arc<Backlog>,
    ) -> Self {
        let stream = Stream { socket: None, session: None, waiting: VecDeque::new(), written: 0 };
        let credits = (0..tables).map(|_| Credit::new(Vec::new())).collect();
        SendQueue { stream: Mutex::new(stream), credits, notes, sent, backlog }
    }

    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket is there, or there again.
    pub fn attach(&self, socket: Arc<Socket>) {
        self.lock().socket = Some(socket);
    }

    /// Takes the socket out: no octet is written from now on.
    pub fn detach(&self) -> Option<Arc<Socket>> {
        self.lock().socket.take()
    }

    /// The socket.
    pub fn socket(&self) -> Option<Arc<Socket>> {
        self.lock().socket.clone()
    }

    /// The session is up.
    pub fn open(&self, joiner: UpdateStream) {
        self.lock().session = Some(joiner);
    }

    /// Ends the session: further chunks of tables are dropped.
    pub fn close(&self) {
        self.lock().session = None;
    }

    /// Queues a message of the session.
    pub fn push(&self, octets: Vec<u8>) {
        if octets.is_empty() {
            return;
        }
        self.wait(&mut self.lock().waiting, Waiting { octets, table: None });
    }

    /// Queues octets.
    fn wait(&self, waiting: &mut VecDeque<Waiting>, octets: Waiting) {
        if waiting.is_empty() {
            self.backlog.note();
        }
        waiting.push_back(octets);
    }

    /// Takes a table's right to send a chunk, with space for the chunk. `None` if an earlier chunk waits; the table is sent a
    /// message after the write.
    pub fn take_credit(&self, table: usize) -> Option<Vec<u8>> {
        self.credits[table].take()
    }

    /// Allows a table to send a chunk; returns true if the table waits for the right. Space smaller than a chunk is not kept.
    pub fn give_credit(&self, table: usize, mut space: Vec<u8>) -> bool {
        space.clear();
        self.credits[table].give(if space.capacity() < PIECE { Vec::new() } else { space })
    }

    /// Sends a chunk of a table that has the credit: `at_once` if the table has time to write. Returns space for reuse.
    pub fn send(&self, mut piece: Chunk, at_once: bool) -> Vec<u8> {
        if at_once && self.write_now(&mut piece) {
            return piece.octets;
        }
        if piece.octets.len() > SMALL_WRITE {
            let _ = self.notes.send(WriterMessage::Chunk(piece));
            return Vec::new();
        }
        // It may wait for long: in no more space than it needs.
        let octets = piece.octets.as_slice().to_vec();
        let space = std::mem::replace(&mut piece.octets, octets);
        let _ = self.notes.send(WriterMessage::Chunk(piece));
        space
    }

    /// Writes a chunk if the queue is empty and no task is writing; returns false otherwise.
    fn write_now(&self, piece: &mut Chunk) -> bool {
        let mut stream = match self.stream.try_lock() {
            Ok(stream) => stream,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Stream { socket: Some(socket), session, waiting, written } = &mut *stream else { return false };
        if !waiting.is_empty() {
            return false;
        }
        if !self.join(session, piece) {
            return true;
        }
        // An error is met again by the writer, who is to say that the connection is lost.
        let taken = match piece.octets.is_empty() {
            true => 0,
            false => socket.write(&piece.octets).unwrap_or(0),
        };
        if taken == piece.octets.len() {
            // It is this table that has the credit: it does not wait for it.
            self.credits[piece.table].give(Vec::new());
            return true;
        }
        let octets = if piece.octets.len() > SMALL_WRITE {
            *written = taken;
            std::mem::take(&mut piece.octets)
        } else {
            piece.octets[taken..].to_vec()
        };
        self.wait(waiting, Waiting { octets, table: Some(piece.table) });
        let _ = self.notes.send(WriterMessage::Rest);
        true
    }

    /// Queues a chunk; returns true if the table is to be notified of the returned credit.
    pub fn put(&self, mut piece: Chunk) -> bool {
        let mut stream = self.lock();
        if !self.join(&mut stream.session, &mut piece) {
            return false;
        }
        if piece.octets.is_empty() {
            return self.give_credit(piece.table, piece.octets);
        }
        self.wait(&mut stream.waiting, Waiting { octets: piece.octets, table: Some(piece.table) });
        false
    }

    /// Adds a chunk to the session's stream; returns false after the session's end.
    fn join(&self, session: &mut Option<UpdateStream>, piece: &mut Chunk) -> bool {
        let Some(joiner) = session else { return false };
        joiner.mark(&piece.marks, &mut piece.octets);
        joiner.sent += piece.sent;
        let so_far = joiner.sent;
        self.sent.change(|sent| *sent = Some((clock::now(), so_far)));
        true
    }

    /// Returns a copy of the unwritten octets.
    pub fn unsent(&self) -> Vec<u8> {
        let stream = self.lock();
        let all: Vec<u8> = stream.waiting.iter().flat_map(|w| w.octets.iter().copied()).collect();
        all[stream.written..].to_vec()
    }

    /// Writes queued octets once, as many as the socket takes. Calls `room` for each table waiting for a returned credit.
    pub fn write(&self, mut room: impl FnMut(usize)) -> io::Result<Left> {
        let mut stream = self.lock();
        let Stream { socket, waiting, written, .. } = &mut *stream;
        if waiting.is_empty() {
            return Ok(Left::Nothing);
        }
        let Some(socket) = socket else { return Ok(Left::Blocked) };
        let mut slices: [IoSlice<'_>; SLICES] = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        for (slice, waiting) in slices.iter_mut().zip(&*waiting) {
            let from = if count == 0 { *written } else { 0 };
            *slice = IoSlice::new(&waiting.octets[from..]);
            count += 1;
        }
        let mut left = match socket.write_vectored(&slices[..count]) {
            Ok(taken) => {
                if taken > 0 {
                    self.backlog.note();
                }
                taken + *written
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Left::Blocked),
            Err(error) => return Err(error),
        };
        while let Some(first) = waiting.front()
            && left >= first.octets.len()
        {
            left -= first.octets.len();
            if let Some(Waiting { octets, table: Some(table) }) = waiting.pop_front()
                && self.give_credit(table, octets)
            {
                room(table);
            }
        }
        *written = left;
        if waiting.is_empty() {
            self.backlog.clear();
            return Ok(Left::Nothing);
        }
        Ok(Left::More)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test that cannot go on panics

    use super::*;
    use crate::executor::Executor;
    use sluice_bgp::family::FamilyCodes;
    use sluice_bgp::shard::PeerIndex;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;
    use tokio::sync::mpsc;

    /// A table writes until the socket takes only a part of a chunk; the rest goes to the writer, and the octets arrive in order.
    #[test]
    fn what_a_socket_does_not_take_of_a_tables_own_piece_is_written_first() {
        let executor = Executor::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut other = listener.accept().unwrap().0;
        let (notes, mut received) = mpsc::unbounded_channel();
        let backlog: Arc<Backlog> = Arc::default();
        let outgoing = SendQueue::new(1, notes, Arc::default(), Arc::clone(&backlog));
        outgoing.attach(Arc::new(Socket::new(&executor, one).unwrap()));
        outgoing.open(UpdateStream::new(PeerIndex(1), 1, FamilyCodes::DEFAULT));
        let mut expected = Vec::new();
        let mut send = |length: usize| {
            let octets: Vec<u8> = (0..length).map(|n| (expected.len() + n) as u8 ^ (n >> 8) as u8).collect();
            expected.extend_from_slice(&octets);
            outgoing.send(Chunk { octets, ..Chunk::default() }, true);
        };
        // Neither a multiple of a page nor of what a socket takes.
        while received.is_empty() {
            send(PIECE + 4_321);
        }
        assert!(matches!(received.try_recv(), Ok(WriterMessage::Rest)));
        let stuck = backlog.since().unwrap();
        assert_eq!(outgoing.write(|_| ()).unwrap(), Left::Blocked);
        assert_eq!(backlog.since(), Some(stuck), "a socket that takes nothing is no progress");
        send(SMALL_WRITE);
        let Ok(WriterMessage::Chunk(piece)) = received.try_recv() else {
            panic!("a table writes while something waits")
        };
        outgoing.put(piece);
        let mut got = vec![0; expected.len() - outgoing.unsent().len()];
        other.read_exact(&mut got).unwrap();
        assert!(got == expected[..got.len()]);
        let mut space = vec![0; 1_000_000];
        // A socket may say that it is full although nothing is on its way.
        other.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        while outgoing.write(|_| ()).unwrap() != Left::Nothing || got.len() < expected.len() {
            let read = other.read(&mut space).unwrap_or(0);
            got.extend_from_slice(&space[..read]);
        }
        assert!(got == expected);
        assert_eq!(backlog.since(), None, "nothing waits");
        executor.end();
    }
}
