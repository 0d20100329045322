//! A connection to a neighbour, as the process's own thread knows it: its two tasks, and how they move.

use crate::outgoing::Outgoing;
use crate::pool::Pool;
use crate::reading::{Name, News, Post, Reader};
use crate::writing::{Note, Writer};
use sluice_bgp::reader::ReaderCounters;
use sluice_bgp::shard::Sent;
use sluice_bgp::speaker::Link;
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// Waits until a task is to go to another thread. That the connection is forgotten is no reason to.
pub async fn halted(halt: &mut watch::Receiver<bool>) {
    if halt.wait_for(|halt| *halt).await.is_err() {
        std::future::pending().await
    }
}

/// Whether a task is to go to another thread, without waiting.
pub fn is_halted(halt: &watch::Receiver<bool>) -> bool {
    // It changes once.
    halt.has_changed().unwrap_or(false)
}

struct Tasks {
    halt: watch::Sender<bool>,
    reader: JoinHandle<Option<Reader>>,
    writer: JoinHandle<Option<Writer>>,
}

/// A connection, or one that is being made.
pub struct Connection {
    notes: UnboundedSender<Note>,
    /// Until the tasks have them.
    unread: Cell<Option<UnboundedReceiver<Note>>>,
    /// Who makes the connection.
    connecting: Cell<Option<AbortHandle>>,
    tasks: Cell<Option<Tasks>>,
    /// The session came up: for the reader, when it is answered.
    pub link: RefCell<Option<Box<Link>>>,
    /// Which of the pool's threads it is on.
    pub place: usize,
    /// What was read in the session.
    pub heard: Arc<News<ReaderCounters>>,
    /// What was written in the session.
    pub sent: Arc<News<Sent>>,
}

impl Connection {
    /// A connection that will be on the thread of this place.
    pub fn new(place: usize) -> Self {
        let (notes, unread) = mpsc::unbounded_channel();
        Connection {
            notes,
            unread: Cell::new(Some(unread)),
            connecting: Cell::default(),
            tasks: Cell::default(),
            link: RefCell::default(),
            place,
            heard: Arc::default(),
            sent: Arc::default(),
        }
    }

    /// A task that makes the connection, and is of no use when it is closed.
    pub fn connecting(&self, task: AbortHandle) {
        self.connecting.set(Some(task));
    }

    /// The socket is there.
    pub fn start(&self, pool: &Pool, name: Name, stream: TcpStream, post: &Arc<Post>) -> io::Result<()> {
        let Some(unread) = self.unread.take() else { return Ok(()) };
        let (way_in, way_out) = self.split(pool, stream)?;
        let outgoing = Outgoing::new(post.tables.len(), self.notes.clone(), Arc::clone(&self.sent));
        outgoing.attach(way_out);
        let reader = Reader::new(name, way_in, Arc::clone(post), Arc::clone(&self.heard));
        let writer = Writer::new(name, Arc::new(outgoing), Arc::clone(post), unread);
        self.run(pool, reader, writer);
        Ok(())
    }

    /// Both ways of a connection, on the thread where it is to be.
    fn split(&self, pool: &Pool, stream: TcpStream) -> io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
        let stream = pool.at(self.place, || TcpStream::from_std(stream.into_std()?))?;
        Ok(stream.into_split())
    }

    fn run(&self, pool: &Pool, reader: Reader, writer: Writer) {
        let (halt, halted) = watch::channel(false);
        let reader = pool.spawn(self.place, reader.run(halted.clone()));
        let writer = pool.spawn(self.place, writer.run(halted));
        self.tasks.set(Some(Tasks { halt, reader, writer }));
    }

    /// Tells the writer.
    pub fn note(&self, note: Note) {
        // It has ended if the connection is gone, which control hears soon.
        let _ = self.notes.send(note);
    }

    /// Nothing more is read; what waits is written, then the connection ends.
    pub fn close(&self) {
        if let Some(task) = self.connecting.take() {
            task.abort();
        }
        if let Some(tasks) = self.tasks.take() {
            tasks.reader.abort();
            self.tasks.set(Some(tasks));
        }
        self.note(Note::Close);
    }

    /// Waits until the last words are written, or nobody takes them.
    pub async fn closed(&self) {
        if let Some(tasks) = self.tasks.take() {
            let _ = tasks.writer.await;
        }
    }

    /// Moves the connection to another pool. The neighbour notices nothing. The error means that the connection is lost.
    pub async fn go(&self, pool: &Pool) -> io::Result<()> {
        let Some(tasks) = self.tasks.take() else { return Ok(()) };
        tasks.halt.send_replace(true);
        // One that has ended meanwhile said so itself.
        let (Ok(Some(mut reader)), Ok(Some(writer))) = (tasks.reader.await, tasks.writer.await) else {
            return Ok(());
        };
        // Tables use the way out only with its lock held.
        let way_out = writer.outgoing.detach().and_then(Arc::into_inner);
        let stream = way_out.and_then(|way_out| reader.stream.reunite(way_out).ok());
        let stream = stream.ok_or_else(|| io::Error::other("the socket is in use"))?;
        let (way_in, way_out) = self.split(pool, stream)?;
        reader.stream = way_in;
        writer.outgoing.attach(way_out);
        self.run(pool, reader, writer);
        Ok(())
    }
}
