//! Writing a connection: whole messages of the session, and octets that the tables fill in when the socket takes them.
//!
//! The queue holds a few messages of the session and a chunk of each table; further output waits in the tables as cursors. So a
//! neighbor that does not read costs next to no memory.

use crate::exchange::messages::{ConnectionKey, ControlMessage, WriterMessage};
use crate::exchange::send_queue::{Left, SendQueue};
use crate::executor::Halt;
use crate::tables::table::TableMessage;
use crate::transport::reader::Mailboxes;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// The writer of a connection.
pub struct Writer {
    /// Whose.
    pub name: ConnectionKey,
    /// The connection's way out.
    pub outgoing: Arc<SendQueue>,
    post: Arc<Mailboxes>,
    notes: UnboundedReceiver<WriterMessage>,
    is_closing: bool,
    is_over: bool,
}

impl Writer {
    /// A writer of a new connection, whose `outgoing` sends to `notes`.
    pub fn new(
        name: ConnectionKey,
        outgoing: Arc<SendQueue>,
        post: Arc<Mailboxes>,
        notes: UnboundedReceiver<WriterMessage>,
    ) -> Self {
        Writer { name, outgoing, post, notes, is_closing: false, is_over: false }
    }

    /// Writes until the connection is closed, or the writer is to halt.
    pub async fn run(mut self, halt: Arc<Halt>) -> Option<Writer> {
        loop {
            while let Ok(note) = self.notes.try_recv() {
                self.take(note);
            }
            if self.is_over {
                return None;
            }
            let tables = &self.post.tables;
            match self.outgoing.write(|table| tables[table].write(TableMessage::Room)) {
                Ok(Left::More) => continue,
                Ok(Left::Nothing) => {
                    if self.is_closing {
                        return None;
                    }
                    let note = tokio::select! {
                        biased;
                        () = halt.wished() => return Some(self),
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
                () = halt.wished() => return Some(self),
                () = socket.writable() => {}
                // More of the session, or the end.
                note = self.notes.recv() => self.take(note?),
            }
        }
        let _ = self.post.main.send(ControlMessage::Lost(self.name));
        None
    }

    /// Takes queued notes, and writes as much as the socket takes, without waiting.
    pub fn write_what_waits(&mut self) {
        while let Ok(note) = self.notes.try_recv() {
            self.take(note);
        }
        let tables = &self.post.tables;
        // An error is met again by whoever writes next.
        while let Ok(Left::More) = self.outgoing.write(|table| tables[table].write(TableMessage::Room)) {}
    }

    fn take(&mut self, note: WriterMessage) {
        match note {
            WriterMessage::Octets(octets) => self.outgoing.push(octets),
            WriterMessage::Open(joiner, life) => {
                let peer = joiner.peer();
                self.outgoing.open(joiner);
                for table in &self.post.tables {
                    table.write(TableMessage::Writer(peer, life, Arc::clone(&self.outgoing)));
                }
            }
            WriterMessage::Chunk(piece) => {
                let table = piece.table;
                if self.outgoing.put(piece) {
                    self.post.tables[table].write(TableMessage::Room);
                }
            }
            WriterMessage::Rest => {}
            WriterMessage::Close => {
                self.is_closing = true;
                // The session's last word is behind its own messages, not behind all that tables have.
                self.outgoing.close();
            }
            WriterMessage::End => self.is_over = true,
        }
    }
}

impl Drop for Writer {
    /// Ends the connection, although tables may still hold the send queue, and the reader may be busy.
    fn drop(&mut self) {
        if let Some(socket) = self.outgoing.detach() {
            socket.end();
        }
    }
}
