//! Writing a connection: whole messages of the session, and octets that the tables fill in when the socket takes them.
//!
//! What waits to be written is what the session said (a few messages) and one piece a table; the rest waits in
//! the tables as cursors. So a neighbour that does not read costs next to nothing.

use crate::connection::halted;
use crate::outgoing::{Left, Outgoing, Piece};
use crate::reading::{Name, Post, ToMain};
use crate::table::Letter;
use sluice_bgp::table::Life;
use sluice_bgp::writer::Writer as Joiner;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a closed connection may take to write its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a writer is told.
pub enum Note {
    /// A message of the session: behind what waits already.
    Octets(Vec<u8>),
    /// The session is up.
    Open(Joiner, Life),
    /// What a table has for the neighbour.
    Piece(Piece),
    /// A table has written itself, but the socket did not take all.
    Rest,
    /// What waits is written, then the connection ends.
    Close,
}

/// The writer of a connection.
pub struct Writer {
    /// Whose.
    pub name: Name,
    /// The connection's way out.
    pub outgoing: Arc<Outgoing>,
    post: Arc<Post>,
    notes: UnboundedReceiver<Note>,
    closing: Option<Instant>,
}

impl Writer {
    /// A writer of a new connection, whose `outgoing` sends to `notes`.
    pub fn new(name: Name, outgoing: Arc<Outgoing>, post: Arc<Post>, notes: UnboundedReceiver<Note>) -> Self {
        Writer { name, outgoing, post, notes, closing: None }
    }

    /// Writes until the connection is closed, or the writer is to go to another thread.
    pub async fn run(mut self, mut halt: watch::Receiver<bool>) -> Option<Writer> {
        loop {
            while let Ok(note) = self.notes.try_recv() {
                self.take(note);
            }
            let tables = &self.post.tables;
            match self.outgoing.write(|table| tables[table].write(Letter::Room)) {
                Ok(Left::More) => continue,
                Ok(Left::Nothing) => {
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
                Ok(Left::Blocked) => {}
                Err(_) => break,
            }
            let Some(socket) = self.outgoing.socket() else { break };
            tokio::select! {
                biased;
                () = halted(&mut halt) => return Some(self),
                writable = socket.writable() => if writable.is_err() { break },
                // More of the session, or the end.
                note = self.notes.recv() => self.take(note?),
                // Closed by this side while the neighbour does not read: its time is up.
                () = until(self.closing) => return None,
            }
        }
        let _ = self.post.main.send(ToMain::Lost(self.name));
        None
    }

    /// Takes all notes, and writes what the socket takes now, without waiting.
    pub fn write_what_waits(&mut self) {
        while let Ok(note) = self.notes.try_recv() {
            self.take(note);
        }
        let tables = &self.post.tables;
        // An error is met again by whoever writes next.
        while let Ok(Left::More) = self.outgoing.write(|table| tables[table].write(Letter::Room)) {}
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Octets(octets) => self.outgoing.push(octets),
            Note::Open(joiner, life) => {
                let peer = joiner.peer();
                self.outgoing.open(joiner);
                for table in &self.post.tables {
                    table.write(Letter::Writer(peer, life, Arc::clone(&self.outgoing)));
                }
            }
            Note::Piece(piece) => {
                let table = piece.table;
                if self.outgoing.put(piece) {
                    self.post.tables[table].write(Letter::Room);
                }
            }
            Note::Rest => {}
            Note::Close => {
                self.closing = Some(Instant::now() + LAST_WORDS);
                // The session's last word is behind what it says itself, not behind all that tables have.
                self.outgoing.close();
            }
        }
    }
}

impl Drop for Writer {
    /// Tables may know the way out for a while yet: the connection ends all the same.
    fn drop(&mut self) {
        drop(self.outgoing.detach());
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
