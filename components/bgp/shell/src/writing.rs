//! Writing a connection: whole messages of the session, and octets that the tables fill in when the socket takes them.
//!
//! What waits to be written here is what the session said (a few messages) and one piece a table; the rest waits in
//! the tables as cursors. So a neighbour that does not read costs next to nothing.

use crate::connection::halted;
use crate::reading::{Name, News, Post, ToMain};
use crate::table::{Letter, PIECE, Pull};
use sluice_bgp::shard::Sent;
use sluice_bgp::table::Life;
use sluice_bgp::writer::Writer as Joiner;
use sluice_shell::clock;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a closed connection may take to write its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Buffers that are written at once.
const SLICES: usize = 16;

/// What a writer is told.
pub enum Note {
    /// A message of the session: behind what waits already.
    Octets(Vec<u8>),
    /// The session is up.
    Open(Joiner, Life),
    /// What a table has for the neighbour.
    Piece(Piece),
    /// What waits is written, then the connection ends.
    Close,
}

/// Octets from a table: whole messages.
#[derive(Default)]
pub struct Piece {
    /// The table's number.
    pub table: usize,
    /// The messages.
    pub octets: Vec<u8>,
    /// What they tell.
    pub sent: Sent,
    /// Families of which the table has told all its routes with this.
    pub ended: [bool; 2],
}

struct Waiting {
    octets: Vec<u8>,
    /// The table that they are from, which will be asked for more.
    table: Option<usize>,
}

/// The writer of a connection.
pub struct Writer {
    /// Whose.
    pub name: Name,
    /// The connection.
    pub stream: Arc<TcpStream>,
    post: Arc<Post>,
    notes: UnboundedReceiver<Note>,
    /// Where tables send pieces.
    own: UnboundedSender<Note>,
    session: Option<(Joiner, Life)>,
    waiting: VecDeque<Waiting>,
    /// Octets of the first that are written.
    written: usize,
    closing: Option<Instant>,
    sent: Arc<News<Sent>>,
}

impl Writer {
    /// A writer of a new connection. `own` leads to `notes`.
    pub fn new(
        name: Name,
        stream: Arc<TcpStream>,
        post: Arc<Post>,
        notes: UnboundedReceiver<Note>,
        own: UnboundedSender<Note>,
        sent: Arc<News<Sent>>,
    ) -> Self {
        Writer {
            name,
            stream,
            post,
            notes,
            own,
            session: None,
            waiting: VecDeque::new(),
            written: 0,
            closing: None,
            sent,
        }
    }

    /// Writes until the connection is closed, or the writer is to go to another thread.
    pub async fn run(mut self, mut halt: watch::Receiver<bool>) -> Option<Writer> {
        loop {
            while let Ok(note) = self.notes.try_recv() {
                self.take(note);
            }
            if self.waiting.is_empty() {
                if self.closing.is_some() {
                    return None;
                }
                let note = tokio::select! {
                    biased;
                    () = halted(&mut halt) => return Some(self),
                    note = self.notes.recv() => note,
                };
                self.take(note?);
                continue;
            }
            match self.write() {
                Ok(()) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            let stream = Arc::clone(&self.stream);
            tokio::select! {
                biased;
                () = halted(&mut halt) => return Some(self),
                writable = stream.writable() => if writable.is_err() { break },
                // More of the session, or the end.
                note = self.notes.recv() => self.take(note?),
                // Closed by this side while the neighbour does not read: its time is up.
                () = until(self.closing) => return None,
            }
        }
        let _ = self.post.main.send(ToMain::Lost(self.name));
        None
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Octets(octets) => self.waiting.push_back(Waiting { octets, table: None }),
            Note::Open(joiner, life) => {
                self.session = Some((joiner, life));
                for table in 0..self.post.tables.len() {
                    self.pull(table, Vec::new());
                }
            }
            Note::Piece(piece) => self.take_piece(piece),
            Note::Close => {
                self.closing = Some(Instant::now() + LAST_WORDS);
                // The session's last word is behind what it says itself, not behind all that tables have.
                self.session = None;
            }
        }
    }

    fn take_piece(&mut self, mut piece: Piece) {
        let Some((joiner, _)) = &mut self.session else { return };
        joiner.ended(piece.ended, &mut piece.octets);
        joiner.sent += piece.sent;
        let so_far = joiner.sent;
        self.sent.change(|sent| *sent = Some((clock::now(), so_far)));
        match piece.octets.is_empty() {
            true => self.pull(piece.table, piece.octets),
            false => self.waiting.push_back(Waiting { octets: piece.octets, table: Some(piece.table) }),
        }
    }

    /// Asks a table for more. Space that was hardly needed is not kept for it.
    fn pull(&self, table: usize, mut octets: Vec<u8>) {
        let Some((joiner, life)) = &self.session else { return };
        if octets.len() < PIECE / 2 {
            octets = Vec::new();
        }
        octets.clear();
        let pull = Pull { peer: joiner.peer(), life: *life, octets, notes: self.own.clone() };
        self.post.tables[table].write(Letter::Pull(pull));
    }

    /// Writes what the socket takes of what waits.
    fn write(&mut self) -> io::Result<()> {
        let mut slices: [IoSlice<'_>; SLICES] = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        for (slice, waiting) in slices.iter_mut().zip(&self.waiting) {
            let from = if count == 0 { self.written } else { 0 };
            *slice = IoSlice::new(&waiting.octets[from..]);
            count += 1;
        }
        let mut left = self.stream.try_write_vectored(&slices[..count])? + self.written;
        while let Some(first) = self.waiting.front()
            && left >= first.octets.len()
        {
            left -= first.octets.len();
            if let Some(Waiting { octets, table: Some(table) }) = self.waiting.pop_front() {
                self.pull(table, octets);
            }
        }
        self.written = left;
        Ok(())
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
