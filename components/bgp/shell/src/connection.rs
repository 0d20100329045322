//! A connection to a neighbour: octets in as they come, octets out as the socket takes them.
//!
//! What waits to be written here is what the session said (a few messages) or one filling by the core; the rest waits in
//! the core as a cursor. So a neighbour that does not read costs nothing.

use crate::BgpShell;
use sluice_bgp::session::ConnectionId;
use sluice_bgp::speaker::Input;
use sluice_shell::clock;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Octets that are read, or filled in by the core, at a time: enough to spread the cost of a system call, few enough to let
/// others have their turn.
const PIECE: usize = 65_536;
/// How long a closed connection may take to write its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the effects of the core's outputs see of a connection.
#[derive(Default)]
pub struct Outgoing {
    octets: RefCell<Vec<u8>>,
    transmit: Cell<bool>,
    closing: Cell<bool>,
    changed: Notify,
    tasks: RefCell<Vec<AbortHandle>>,
    /// Whether the socket is in use by a writing task.
    open: Cell<bool>,
    ended: Notify,
}

impl Outgoing {
    /// A message of the session: behind what waits already.
    pub fn send(&self, octets: &[u8]) {
        self.octets.borrow_mut().extend_from_slice(octets);
        self.changed.notify_one();
    }

    /// The core has UPDATEs.
    pub fn transmit(&self) {
        self.transmit.set(true);
        self.changed.notify_one();
    }

    /// Nothing more is read; what waits is written, then the connection ends.
    pub fn close(&self) {
        self.closing.set(true);
        self.changed.notify_one();
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }

    /// Waits until the last words are written, or nobody takes them.
    pub async fn closed(&self) {
        while self.open.get() {
            self.ended.notified().await;
        }
    }

    /// A task that ends when the connection is closed.
    pub fn own(&self, task: AbortHandle) {
        self.tasks.borrow_mut().push(task);
    }
}

/// Runs an open connection: its two tasks end with it.
pub fn start(
    shell: &Rc<BgpShell>,
    neighbor: IpAddr,
    id: ConnectionId,
    stream: TcpStream,
    outgoing: Rc<Outgoing>,
) {
    let stream = Rc::new(stream);
    let reading = tokio::task::spawn_local(read(Rc::clone(shell), neighbor, id, Rc::clone(&stream)));
    outgoing.own(reading.abort_handle());
    let shell = Rc::clone(shell);
    outgoing.open.set(true);
    tokio::task::spawn_local(async move {
        if write(&shell, neighbor, &stream, &outgoing).await.is_err() {
            shell.lost(neighbor, id);
        }
        outgoing.open.set(false);
        outgoing.ended.notify_one();
    });
}

async fn read(shell: Rc<BgpShell>, neighbor: IpAddr, id: ConnectionId, stream: Rc<TcpStream>) {
    let mut buffer = vec![0; PIECE];
    loop {
        if stream.readable().await.is_err() {
            break;
        }
        match stream.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => shell.received(Input::Received(neighbor, id, buffer[..n].to_vec())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        }
        // A neighbour with much to say must not keep the others from being heard.
        tokio::task::yield_now().await;
    }
    shell.lost(neighbor, id);
}

async fn write(
    shell: &BgpShell,
    neighbor: IpAddr,
    stream: &TcpStream,
    outgoing: &Outgoing,
) -> io::Result<()> {
    let mut written = Vec::new();
    loop {
        std::mem::swap(&mut written, &mut outgoing.octets.borrow_mut());
        if written.is_empty() && outgoing.transmit.get() && !outgoing.closing.get() {
            let more = shell.with(|speaker| speaker.fill(clock::now(), neighbor, PIECE, &mut written));
            outgoing.transmit.set(more.unwrap_or(false));
        }
        if written.is_empty() {
            if outgoing.closing.get() {
                return Ok(());
            }
            if !outgoing.transmit.get() {
                outgoing.changed.notified().await;
            }
            continue;
        }
        let writing = write_all(stream, &written);
        if outgoing.closing.get() {
            return tokio::time::timeout(LAST_WORDS, writing).await.unwrap_or(Ok(()));
        }
        tokio::select! {
            result = writing => result?,
            // Closed by this side while the neighbour does not read: its time is up.
            () = closed(outgoing) => return Ok(()),
        }
        written.clear();
    }
}

async fn closed(outgoing: &Outgoing) {
    while !outgoing.closing.get() {
        outgoing.changed.notified().await;
    }
    tokio::time::sleep(LAST_WORDS).await;
}

async fn write_all(stream: &TcpStream, mut octets: &[u8]) -> io::Result<()> {
    while !octets.is_empty() {
        stream.writable().await?;
        match stream.try_write(octets) {
            Ok(n) => octets = &octets[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
