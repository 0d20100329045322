//! Notifies tasks of readable and writable sockets, through one `epoll` for every thread of an executor.
//!
//! A socket is registered with the kernel once, and each change is reported (`EPOLLET`), with or without a waiting task. A change
//! wakes one thread, and is stored until a task asks.

use super::Executor;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Sockets reported at once.
const EVENTS: usize = 64;
/// The key of the bell among sockets.
const BELL: u64 = u64::MAX;

/// The events of a wait.
pub type Events = [EpollEvent; EVENTS];

/// The poller by which threads wait for sockets and for the bell.
pub struct Poller {
    epoll: Epoll,
    bell: EventFd,
    /// By descriptor. The lock is held for a look.
    sources: Mutex<Vec<Option<Arc<Source>>>>,
    /// Distinguishes sockets of the same descriptor.
    serial: AtomicU32,
}

impl Poller {
    /// Makes a poller without sockets.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let bell = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        // Each ring wakes one thread, and need not be answered.
        epoll.add(&bell, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, BELL))?;
        Ok(Poller { epoll, bell, sources: Mutex::default(), serial: AtomicU32::new(0) })
    }

    /// Returns space for the events of a wait.
    pub fn events() -> Events {
        [EpollEvent::empty(); EVENTS]
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Option<Arc<Source>>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a descriptor that is readable while events are pending.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.0.try_clone()
    }

    /// Wakes a waiting thread.
    pub fn ring(&self) {
        // It cannot be refused before it was rung 2^64 times.
        let _ = self.bell.write(1);
    }

    /// Polls for events; with `patiently`, blocks until an event comes. Returns the number of events.
    pub fn wait(&self, events: &mut Events, patiently: bool) -> usize {
        let timeout = if patiently { EpollTimeout::NONE } else { EpollTimeout::ZERO };
        // Only a signal interrupts it.
        self.epoll.wait(events, timeout).unwrap_or(0)
    }

    /// Wakes the tasks waiting for these events; returns true if the bell was rung.
    pub fn deliver(&self, events: &[EpollEvent]) -> bool {
        let mut is_rung = false;
        for event in events {
            if event.data() == BELL {
                is_rung = true;
                continue;
            }
            let source = self.sources().get(Source::index_of(event.data())).cloned().flatten();
            // It may be of one before, which was reported to this thread while another forgot it.
            if let Some(source) = source.filter(|s| s.name == event.data()) {
                source.happened(event.events());
            }
        }
        is_rung
    }

    fn add(&self, stream: TcpStream) -> io::Result<Arc<Source>> {
        let index = stream.as_raw_fd() as usize;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let name = u64::from(serial) << 32 | index as u64;
        let source = Arc::new(Source { name, stream, sides: Mutex::default() });
        let mut sources = self.sources();
        if sources.len() <= index {
            sources.resize(index + 1, None);
        }
        sources[index] = Some(Arc::clone(&source));
        drop(sources);
        // It may be reported at once.
        let added = self.epoll.add(&source.stream, EpollEvent::new(Source::CHANGES, name));
        added.map_err(io::Error::from).inspect_err(|_| self.remove(&source))?;
        Ok(source)
    }

    fn remove(&self, source: &Source) {
        let _ = self.epoll.delete(&source.stream);
        if let Some(place) = self.sources().get_mut(source.index()) {
            *place = None;
        }
    }

    /// Drops every socket and its wakers, at the executor's end.
    pub fn forget(&self) {
        let sources = std::mem::take(&mut *self.sources());
        for source in sources.into_iter().flatten() {
            // A waker holds its task, and that the socket.
            let waiting = std::mem::take(&mut *source.sides());
            drop(waiting);
        }
    }
}

/// A way of a connection.
#[derive(Clone, Copy)]
enum Side {
    In,
    Out,
}

impl Side {
    const ALL: [Side; 2] = [Side::In, Side::Out];

    /// Returns the events of interest. The end and errors of a connection are reported to readers and writers alike.
    fn flags(self) -> EpollFlags {
        let over = EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        over | match self {
            Side::In => EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP,
            Side::Out => EpollFlags::EPOLLOUT,
        }
    }
}

#[derive(Default)]
struct Waiting {
    waker: Option<Waker>,
    /// A change happened since a task last asked.
    is_ready: bool,
    /// True if the peer has ended: readiness will not change any more.
    is_over: bool,
}

/// A socket, and the wakers of waiting tasks.
pub struct Source {
    /// The serial number, and the descriptor.
    name: u64,
    stream: TcpStream,
    sides: Mutex<[Waiting; 2]>,
}

impl Source {
    const CHANGES: EpollFlags = EpollFlags::EPOLLIN
        .union(EpollFlags::EPOLLOUT)
        .union(EpollFlags::EPOLLRDHUP)
        .union(EpollFlags::EPOLLET);

    /// Stores a change, and wakes the waiting tasks.
    fn happened(&self, what: EpollFlags) {
        let mut sides = self.sides();
        // What came before the end is reported together with it; more than one read may be needed to get there.
        sides[Side::In as usize].is_over |= what.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP);
        let wakers = Side::ALL.map(|side| {
            let waiting = &mut sides[side as usize];
            waiting.is_ready |= what.intersects(side.flags());
            if waiting.is_ready { waiting.waker.take() } else { None }
        });
        drop(sides);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    fn sides(&self) -> MutexGuard<'_, [Waiting; 2]> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    const fn index_of(name: u64) -> usize {
        name as u32 as usize
    }

    const fn index(&self) -> usize {
        Source::index_of(self.name)
    }
}

/// A connection's socket for the tasks of an executor: at most one task waits to read, and one to write.
pub struct Socket {
    source: Arc<Source>,
    executor: Arc<Executor>,
}

impl Socket {
    /// Makes a socket for tasks of an executor.
    pub fn new(executor: &Arc<Executor>, stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let source = executor.poller().add(stream)?;
        Ok(Socket { source, executor: Arc::clone(executor) })
    }

    /// Makes a copy of the socket for tasks of an executor.
    pub fn for_tasks_of(&self, executor: &Arc<Executor>) -> io::Result<Self> {
        Socket::new(executor, self.source.stream.try_clone()?)
    }

    /// Returns a copy of the descriptor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    fn poll(&self, side: Side, context: &mut Context<'_>) -> Poll<()> {
        let mut sides = self.source.sides();
        let waiting = &mut sides[side as usize];
        if std::mem::take(&mut waiting.is_ready) || waiting.is_over {
            waiting.waker = None;
            return Poll::Ready(());
        }
        if !waiting.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            waiting.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Waits until the socket seems readable. The caller then has to read at least once.
    pub async fn readable(&self) {
        poll_fn(|context| self.poll(Side::In, context)).await;
    }

    /// Waits until the socket seems writable: for use after a partial write.
    pub async fn writable(&self) {
        poll_fn(|context| self.poll(Side::Out, context)).await;
    }

    /// Reads received octets: 0 at the end of the connection, `WouldBlock` without octets.
    pub fn read(&self, space: &mut [u8]) -> io::Result<usize> {
        let read = (&self.source.stream).read(space);
        // What is still there is not reported again.
        if read.as_ref().is_ok_and(|read| *read == space.len()) {
            self.source.sides()[Side::In as usize].is_ready = true;
        }
        read
    }

    /// Writes as many octets as the socket takes now.
    pub fn write(&self, octets: &[u8]) -> io::Result<usize> {
        (&self.source.stream).write(octets)
    }

    /// Writes as many octets of several slices as the socket takes now.
    pub fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.source.stream).write_vectored(slices)
    }

    /// Runs the task made ready by the running task, before the running task goes on.
    pub fn run_made_ready(&self) {
        self.executor.run_made_ready();
    }

    /// Shuts down the sending direction.
    pub fn end(&self) {
        // It may be gone.
        let _ = self.source.stream.shutdown(Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.stream.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.executor.poller().remove(&self.source);
    }
}
