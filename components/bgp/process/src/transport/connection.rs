//! A connection to a neighbor, as seen by the process's own thread: the reader and writer tasks, and moving these tasks.

use crate::exchange::messages::{ConnectionKey, Reported, WriterMessage};
use crate::exchange::send_queue::{Backlog, SendQueue};
use crate::executor::Halt;
use crate::executor::pool::Pool;
use crate::transport::reader::{Mailboxes, Reader};
use crate::transport::writer::Writer;
use sluice_bgp::intake::Intake;
use sluice_bgp::reader::ReaderCounters;
use sluice_bgp::shard::Sent;
use sluice_bgp::speaker::Link;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// The longest wait of a closed connection for the write of the last octets.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A task that can be halted. An ended task leaves `None`.
enum Task<T> {
    Running(oneshot::Receiver<Option<T>>),
    Halted(Option<T>),
}

impl<T> Task<T> {
    /// Waits until the task is halted, or has ended.
    async fn halted(&mut self) -> &mut Option<T> {
        if let Task::Running(task) = self {
            let halted = task.await.ok().flatten();
            *self = Task::Halted(halted);
        }
        match self {
            Task::Halted(halted) => halted,
            Task::Running(_) => unreachable!("it was replaced above"),
        }
    }

    fn get(&mut self) -> Option<&mut T> {
        match self {
            Task::Halted(halted) => halted.as_mut(),
            Task::Running(_) => None,
        }
    }
}

struct Tasks {
    halt_reader: Arc<Halt>,
    halt_writer: Arc<Halt>,
    reader: Task<Reader>,
    writer: Task<Writer>,
}

/// A connection, open or under construction.
pub struct Connection {
    notes: UnboundedSender<WriterMessage>,
    /// The writer's messages until the tasks start.
    unread: Cell<Option<UnboundedReceiver<WriterMessage>>>,
    /// The task that makes the connection.
    connecting: Cell<Option<AbortHandle>>,
    tasks: Cell<Option<Tasks>>,
    /// The link of a session that came up, for the answer to the reader.
    pub link: RefCell<Option<Box<Link>>>,
    /// The place in the pool: selects the thread with *peer* scheduling.
    pub place: usize,
    /// The reader's counters in the session.
    pub received: Arc<Reported<ReaderCounters>>,
    /// The writer's counters in the session.
    pub sent: Arc<Reported<Sent>>,
    /// The age of the octets waiting for the neighbor.
    pub backlog: Arc<Backlog>,
    /// The ports of the router and of the neighbor; 0 until the socket is there.
    pub ports: Cell<(u16, u16)>,
}

impl Connection {
    /// Makes a connection for the thread of this place.
    pub fn new(place: usize) -> Self {
        let (notes, unread) = mpsc::unbounded_channel();
        Connection {
            notes,
            unread: Cell::new(Some(unread)),
            connecting: Cell::default(),
            tasks: Cell::default(),
            link: RefCell::default(),
            place,
            received: Arc::default(),
            sent: Arc::default(),
            backlog: Arc::default(),
            ports: Cell::default(),
        }
    }

    /// Sets the task that makes the connection; closing aborts the task.
    pub fn connecting(&self, task: AbortHandle) {
        self.connecting.set(Some(task));
    }

    /// The socket is there.
    pub fn start(
        &self,
        pool: &Pool,
        name: ConnectionKey,
        stream: TcpStream,
        post: &Arc<Mailboxes>,
    ) -> io::Result<()> {
        let Some(unread) = self.unread.take() else { return Ok(()) };
        self.note_ports(&stream);
        let socket = Arc::new(pool.socket(self.place, stream)?);
        let outgoing = self.outgoing(post);
        outgoing.attach(Arc::clone(&socket));
        let reader = Reader::new(name, socket, Arc::clone(post), Arc::clone(&self.received));
        let writer = Writer::new(name, Arc::new(outgoing), Arc::clone(post), unread);
        self.run(pool, reader, writer);
        Ok(())
    }

    fn note_ports(&self, stream: &TcpStream) {
        let port = |address: io::Result<SocketAddr>| address.map_or(0, |address| address.port());
        self.ports.set((port(stream.local_addr()), port(stream.peer_addr())));
    }

    fn outgoing(&self, post: &Mailboxes) -> SendQueue {
        let (sent, backlog) = (Arc::clone(&self.sent), Arc::clone(&self.backlog));
        SendQueue::new(post.tables.len(), self.notes.clone(), sent, backlog)
    }

    fn run(&self, pool: &Pool, reader: Reader, writer: Writer) {
        let [halt_reader, halt_writer]: [Arc<Halt>; 2] = Default::default();
        let reader = Task::Running(pool.spawn(self.place, reader.run(Arc::clone(&halt_reader))));
        let writer = Task::Running(pool.spawn(self.place, writer.run(Arc::clone(&halt_writer))));
        self.tasks.set(Some(Tasks { halt_reader, halt_writer, reader, writer }));
    }

    /// Sends the writer a message.
    pub fn note(&self, note: WriterMessage) {
        // It has ended if the connection is gone, which is reported to control soon.
        let _ = self.notes.send(note);
    }

    /// Closes the connection: stops reading, writes queued messages, then ends.
    pub fn close(&self) {
        if let Some(task) = self.connecting.take() {
            task.abort();
        }
        if let Some(tasks) = self.tasks.take() {
            tasks.halt_reader.wish();
            self.tasks.set(Some(tasks));
        }
        self.note(WriterMessage::Close);
        let notes = self.notes.clone();
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = tokio::time::sleep(LAST_WORDS) => drop(notes.send(WriterMessage::End)),
                () = notes.closed() => {}
            }
        });
    }

    /// Waits until the writer has written the last octets or has given up.
    pub async fn closed(&self) {
        if let Some(mut tasks) = self.tasks.take() {
            tasks.writer.halted().await;
        }
    }

    /// Moves the connection to a new pool, unnoticed by the neighbor. After an error the connection is lost.
    pub async fn go(&self, pool: &Pool) -> io::Result<()> {
        let Some((mut reader, writer)) = self.halt().await else { return Ok(()) };
        reader.socket = Arc::new(pool.adopt(self.place, &reader.socket)?);
        writer.outgoing.attach(Arc::clone(&reader.socket));
        self.run(pool, reader, writer);
        Ok(())
    }

    /// Halts both tasks. A task that has ended meanwhile has reported the end itself.
    async fn halt(&self) -> Option<(Reader, Writer)> {
        let mut tasks = self.tasks.take()?;
        tasks.halt_reader.wish();
        tasks.halt_writer.wish();
        let reader = tasks.reader.halted().await.take();
        reader.zip(tasks.writer.halted().await.take())
    }

    /// Stops the reader; returns when the tables have every read route. Must not be canceled.
    pub async fn halt_reader(&self) {
        if let Some(mut tasks) = self.tasks.take() {
            tasks.halt_reader.wish();
            tasks.reader.halted().await;
            self.tasks.set(Some(tasks));
        }
    }

    /// Stops the writer, and then writes as much as the socket takes. Must not be canceled.
    pub async fn halt_writer(&self) {
        if let Some(mut tasks) = self.tasks.take() {
            tasks.halt_writer.wish();
            if let Some(writer) = tasks.writer.halted().await {
                writer.write_what_waits();
            }
            self.tasks.set(Some(tasks));
        }
    }

    /// Returns the parts of a connection with stopped tasks: a copy of the socket, the beginning of an incomplete message, and
    /// unwritten octets.
    pub fn halted(&self) -> Option<(OwnedFd, Vec<u8>, Vec<u8>)> {
        let mut tasks = self.tasks.take()?;
        let reader = tasks.reader.get().map(|r| (r.socket.descriptor(), r.pending()));
        let unsent = tasks.writer.get().map(|w| w.outgoing.unsent());
        self.tasks.set(Some(tasks));
        let (descriptor, pending) = reader?;
        Some((descriptor.ok()?, pending, unsent?))
    }

    /// Goes on where the tasks were halted, or are about to be.
    pub async fn go_on(&self, pool: &Pool) {
        if let Some((reader, writer)) = self.halt().await {
            self.run(pool, reader, writer);
        }
    }

    /// Starts the connection of an established session from the old process.
    pub fn inherit(
        &self,
        pool: &Pool,
        name: ConnectionKey,
        inherited: Inherited,
        post: &Arc<Mailboxes>,
    ) -> io::Result<()> {
        let Some(unread) = self.unread.take() else { return Ok(()) };
        let Inherited { stream, link, pending, unsent } = inherited;
        self.note_ports(&stream);
        let socket = Arc::new(pool.socket(self.place, stream)?);
        let outgoing = self.outgoing(post);
        outgoing.attach(Arc::clone(&socket));
        outgoing.push(unsent);
        self.note(WriterMessage::Open(link.writer, link.reading.life));
        let intake = Intake::resumed(link.reading, pending);
        let reader = Reader::new(name, socket, Arc::clone(post), Arc::clone(&self.received)).with(intake);
        let writer = Writer::new(name, Arc::new(outgoing), Arc::clone(post), unread);
        self.run(pool, reader, writer);
        Ok(())
    }
}

/// A connection of the old process.
pub struct Inherited {
    /// The socket.
    pub stream: TcpStream,
    /// The link to the tables.
    pub link: Link,
    /// The beginning of an incomplete message.
    pub pending: Vec<u8>,
    /// Octets to be written.
    pub unsent: Vec<u8>,
}
