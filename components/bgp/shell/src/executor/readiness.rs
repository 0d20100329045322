//! Sockets that tell tasks when they can be read or written, through one `epoll` that all threads of an executor wait at.
//!
//! A socket is asked about only while a task waits for it, and then once (`EPOLLONESHOT`): whichever thread has nothing to do
//! is woken for it, and no other.

use super::Executor;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Sockets that are heard of at once.
const EVENTS: usize = 64;
/// What the bell is called among sockets.
const BELL: u64 = u64::MAX;

/// What one wait brought.
pub type Events = [EpollEvent; EVENTS];

/// Where threads wait for sockets, and for the bell.
pub struct Poller {
    epoll: Epoll,
    bell: EventFd,
    /// By descriptor. The lock is held for a look.
    sources: Mutex<Vec<Option<Arc<Source>>>>,
}

impl Poller {
    /// One without sockets.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let bell = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        // Each ring wakes one thread, and need not be answered.
        epoll.add(&bell, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, BELL))?;
        Ok(Poller { epoll, bell, sources: Mutex::default() })
    }

    /// Space for what a wait brings.
    pub fn events() -> Events {
        [EpollEvent::empty(); EVENTS]
    }

    fn sources(&self) -> MutexGuard<'_, Vec<Option<Arc<Source>>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor that can be read when there is something that a wait would bring.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.0.try_clone()
    }

    /// Wakes a thread that waits.
    pub fn ring(&self) {
        // It cannot be refused before it was rung 2^64 times.
        let _ = self.bell.write(1);
    }

    /// Looks what there is, or waits until there is something; returns how much.
    pub fn wait(&self, events: &mut Events, patiently: bool) -> usize {
        let timeout = if patiently { EpollTimeout::NONE } else { EpollTimeout::ZERO };
        // Only a signal interrupts it.
        self.epoll.wait(events, timeout).unwrap_or(0)
    }

    /// Wakes the tasks that wait for this; returns whether the bell was rung.
    pub fn deliver(&self, events: &[EpollEvent]) -> bool {
        let mut is_rung = false;
        for event in events {
            if event.data() == BELL {
                is_rung = true;
                continue;
            }
            let source = usize::try_from(event.data()).ok().and_then(|n| self.sources().get(n)?.clone());
            if let Some(source) = source {
                self.happened(&source, event.events());
            }
        }
        is_rung
    }

    fn happened(&self, source: &Source, what: EpollFlags) {
        let over = EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        let mut sides = source.sides();
        let wakers = Side::ALL.map(|side| {
            what.intersects(side.flag() | over).then(|| {
                sides[side as usize].is_ready = true;
                sides[side as usize].waker.take()
            })
        });
        let others_wait = sides.iter().any(|side| side.waker.is_some());
        drop(sides);
        if others_wait {
            self.arm(source);
        }
        wakers.into_iter().flatten().flatten().for_each(Waker::wake);
    }

    /// Asks about a socket, once, what tasks wait for.
    pub fn arm(&self, source: &Source) {
        let mut sides = source.sides();
        let waited_for = Side::ALL.into_iter().filter(|side| sides[*side as usize].waker.is_some());
        let flags = waited_for.fold(EpollFlags::EPOLLONESHOT, |flags, side| flags | side.flag());
        let asked = self.epoll.modify(&source.stream, &mut EpollEvent::new(flags, source.name()));
        if asked.is_err_and(|error| error != Errno::ENOENT) {
            // Who waits meets the error when it reads or writes.
            for side in &mut *sides {
                side.is_ready = true;
                if let Some(waker) = side.waker.take() {
                    waker.wake();
                }
            }
        }
    }

    fn add(&self, source: &Arc<Source>) -> io::Result<()> {
        let index = usize::try_from(source.stream.as_raw_fd()).map_err(io::Error::other)?;
        self.epoll.add(&source.stream, EpollEvent::new(EpollFlags::EPOLLONESHOT, source.name()))?;
        let mut sources = self.sources();
        if sources.len() <= index {
            sources.resize(index + 1, None);
        }
        sources[index] = Some(Arc::clone(source));
        Ok(())
    }

    fn remove(&self, source: &Source) {
        let _ = self.epoll.delete(&source.stream);
        if let Some(place) = self.sources().get_mut(source.stream.as_raw_fd() as usize) {
            *place = None;
        }
    }

    /// Forgets who waits for what: nobody will.
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

    const fn flag(self) -> EpollFlags {
        match self {
            Side::In => EpollFlags::EPOLLIN,
            Side::Out => EpollFlags::EPOLLOUT,
        }
    }
}

#[derive(Default)]
struct Waiting {
    waker: Option<Waker>,
    /// It happened, and nobody has taken note yet.
    is_ready: bool,
}

/// A socket, and who waits for it.
pub struct Source {
    stream: TcpStream,
    sides: Mutex<[Waiting; 2]>,
}

impl Source {
    fn sides(&self) -> MutexGuard<'_, [Waiting; 2]> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> u64 {
        // A descriptor is never negative.
        self.stream.as_raw_fd() as u64
    }
}

/// A connection's socket for the tasks of an executor: one may wait to read, one to write.
pub struct Socket {
    source: Arc<Source>,
    executor: Arc<Executor>,
}

impl Socket {
    /// A socket for tasks of this executor.
    pub fn new(executor: &Arc<Executor>, stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let source = Arc::new(Source { stream, sides: Mutex::default() });
        executor.poller().add(&source)?;
        Ok(Socket { source, executor: Arc::clone(executor) })
    }

    /// The same socket for tasks of another executor.
    pub fn for_tasks_of(&self, executor: &Arc<Executor>) -> io::Result<Self> {
        Socket::new(executor, self.source.stream.try_clone()?)
    }

    /// A copy of its descriptor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    fn poll(&self, side: Side, context: &mut Context<'_>) -> Poll<()> {
        let mut sides = self.source.sides();
        let waiting = &mut sides[side as usize];
        if std::mem::take(&mut waiting.is_ready) {
            waiting.waker = None;
            return Poll::Ready(());
        }
        let is_asked = waiting.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if !is_asked {
            waiting.waker = Some(context.waker().clone());
            drop(sides);
            self.executor.arm(&self.source);
        }
        Poll::Pending
    }

    /// Waits until something can be read, or so it seems.
    pub async fn readable(&self) {
        poll_fn(|context| self.poll(Side::In, context)).await;
    }

    /// Waits until something can be written, or so it seems.
    pub async fn writable(&self) {
        poll_fn(|context| self.poll(Side::Out, context)).await;
    }

    /// Reads what there is; none is the end, `WouldBlock` that there is nothing.
    pub fn read(&self, space: &mut [u8]) -> io::Result<usize> {
        (&self.source.stream).read(space)
    }

    /// Writes what is taken now.
    pub fn write(&self, octets: &[u8]) -> io::Result<usize> {
        (&self.source.stream).write(octets)
    }

    /// The same of several slices, one behind the other.
    pub fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.source.stream).write_vectored(slices)
    }

    /// Runs what the running task has made ready, before that goes on.
    pub fn run_made_ready(&self) {
        self.executor.run_made_ready();
    }

    /// Tells the other side that nothing more comes.
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
