//! A connected stream socket of either family, and its two buffers.

use super::frame;
use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// Room for a single read.
const INPUT: usize = 64 << 10;
/// The largest size at which an empty buffer is kept after a large frame.
const KEEP: usize = 256 << 10;

/// A stream socket.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Unix(s) => s.poll_read_ready(cx),
            Stream::Tcp(s) => s.poll_read_ready(cx),
        }
    }

    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Unix(s) => s.poll_write_ready(cx),
            Stream::Tcp(s) => s.poll_write_ready(cx),
        }
    }

    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.try_read(buf),
            Stream::Tcp(s) => s.try_read(buf),
        }
    }

    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.try_write(buf),
            Stream::Tcp(s) => s.try_write(buf),
        }
    }

    /// Waits until the remote end has closed, with any number of unread octets.
    pub(crate) async fn hung_up(&self) {
        // Urgent data are never sent, so what is reported is that the reading side was closed.
        let _closed_or_broken = match self {
            Stream::Unix(s) => s.ready(Interest::PRIORITY).await,
            Stream::Tcp(s) => s.ready(Interest::PRIORITY).await,
        };
    }

    /// The process and the user at the remote end, if the kernel reports them.
    pub(crate) fn peer(&self) -> (Option<u32>, Option<u32>) {
        match self {
            Stream::Unix(s) => s
                .peer_cred()
                .map_or((None, None), |c| (c.pid().and_then(|pid| u32::try_from(pid).ok()), Some(c.uid()))),
            Stream::Tcp(_) => (None, None),
        }
    }
}

/// The most work of a connection in a turn, before further connections and tasks of the process.
pub(crate) struct Turn {
    begin: Instant,
    reads: usize,
    /// Octets of frames since the last look at the clock.
    octets: usize,
}

impl Turn {
    /// Reads in a turn.
    const READS: usize = 16;
    /// Time after which a turn is over, for expensive calls.
    const TIME: Duration = Duration::from_millis(1);
    /// Octets of frames between two looks at the clock.
    const LOOK: usize = 512;
    /// Octets that a frame counts for at least: short calls may be expensive too.
    const SHORT: usize = 256;

    pub(crate) fn begin() -> Self {
        Turn { begin: Instant::now(), reads: 0, octets: 0 }
    }

    /// Counts a handled frame of the given octets; returns true if there is time for one more.
    pub(crate) fn has_time_after(&mut self, octets: usize) -> bool {
        self.octets += octets.max(Self::SHORT);
        if self.octets < Self::LOOK {
            return true;
        }
        self.octets = 0;
        self.begin.elapsed() < Self::TIME
    }

    /// Returns true if there is time for one more read.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.reads += 1;
        self.reads <= Self::READS && (self.reads == 1 || self.begin.elapsed() < Self::TIME)
    }

    /// Schedules the task after the process has checked every socket. (A task that wakes itself would run before the
    /// check, again and again, and new connections would wait for as long.)
    pub(crate) fn end(self, cx: &Context<'_>) {
        Self::wake_later(cx.waker());
    }

    /// Wakes a task after the process has checked every socket.
    pub(crate) fn wake_later(waker: &Waker) {
        let later = std::pin::pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(waker));
        debug_assert!(later.is_pending(), "the first poll of a yield is never its end");
    }
}

/// Octets read and not yet used.
pub(crate) struct Input {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// The least size of the buffer.
    room: usize,
}

impl Input {
    pub(crate) fn new() -> Self {
        Input { buf: vec![0; INPUT], start: 0, end: 0, room: INPUT }
    }

    /// Returns a buffer of the given size for a peer without the right to send more.
    pub(crate) fn small(room: usize) -> Self {
        Input { buf: vec![0; room], start: 0, end: 0, room }
    }

    /// Octets of the buffer beyond the usual size: those of an unfinished frame.
    pub(crate) fn excess(&self) -> usize {
        if self.start == self.end { 0 } else { self.buf.len().saturating_sub(INPUT) }
    }

    /// Gives a small buffer the usual size.
    pub(crate) fn widen(&mut self) {
        self.room = INPUT;
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    pub(crate) fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }

    /// Reads available octets. `Ok(None)`: none now, the waker is set; `Ok(Some(0))`: the end.
    pub(crate) fn fill(&mut self, stream: &Stream, cx: &mut Context<'_>) -> io::Result<Option<usize>> {
        self.make_room();
        loop {
            match stream.try_read(&mut self.buf[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(Some(n));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => match stream.poll_read_ready(cx) {
                    Poll::Ready(ready) => ready?,
                    Poll::Pending => return Ok(None),
                },
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buf.len() > KEEP {
                self.buf = vec![0; self.room];
            }
        } else if self.start > 0 {
            // Less than one frame is left over, mostly a few octets.
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buf.len() < self.room {
            self.buf.resize(self.room, 0);
        }
        if self.end == self.buf.len() {
            // The buffer grows with what has come, not with what is announced: the announcement costs its sender four octets.
            let most = frame::announced_size(self.data()).max(self.end + 1);
            self.buf.resize(most.min(self.buf.len().saturating_mul(2)), 0);
        }
    }

    /// Size of the buffer in octets.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.buf.len()
    }
}

/// Octets to write. Any task appends frames; the connection's task writes the frames together.
pub(crate) struct Output {
    pub(crate) buf: RefCell<Vec<u8>>,
    written: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    kicked: Cell<bool>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Output {
            buf: RefCell::default(),
            written: Cell::new(0),
            waker: RefCell::new(None),
            kicked: Cell::new(false),
        }
    }

    /// Octets not yet written.
    pub(crate) fn len(&self) -> usize {
        self.buf.borrow().len() - self.written.get()
    }

    /// Schedules the connection's task in the current turn of the loop.
    pub(crate) fn kick(&self) {
        if !self.kicked.replace(true)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }

    /// Records that the connection's task runs: later kicks wake it again.
    pub(crate) fn task_runs(&self, cx: &Context<'_>) {
        self.kicked.set(false);
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Writes as much as the socket accepts. Returns true if the buffer is empty; otherwise the waker is set.
    pub(crate) fn flush(&self, stream: &Stream, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.write(stream)? {
                return Ok(true);
            }
            match stream.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Writes as much as the socket accepts now. Returns true if the buffer is empty.
    pub(crate) fn write(&self, stream: &Stream) -> io::Result<bool> {
        let mut buf = self.buf.borrow_mut();
        loop {
            let rest = buf.get(self.written.get()..).unwrap_or_default();
            if rest.is_empty() {
                buf.clear();
                self.written.set(0);
                if buf.capacity() > KEEP {
                    *buf = Vec::with_capacity(INPUT);
                }
                return Ok(true);
            }
            match stream.try_write(rest) {
                Ok(n) => self.written.set(self.written.get() + n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        // Keep the memory at what waits, not at all that ever passed while something waited.
        if self.written.get() > KEEP {
            buf.drain(..self.written.get());
            self.written.set(0);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;

    /// The buffer holds the received octets, and at most as many again, for any announced length of a frame.
    #[tokio::test(flavor = "current_thread")]
    async fn an_announced_length_takes_no_memory() {
        let (stream, mut other) = UnixStream::pair().unwrap();
        let stream = Stream::Unix(stream);
        let mut input = Input::small(4096);
        let mut octets = (frame::MAX_LENGTH as u32).to_be_bytes().to_vec();
        octets.resize(1 << 20, 0);
        let reader = async {
            let mut read = 0;
            while read < octets.len() {
                read += poll_fn(|cx| match input.fill(&stream, cx).unwrap() {
                    Some(more) => Poll::Ready(more),
                    None => Poll::Pending,
                })
                .await;
                assert!(input.size() <= 4096.max(2 * read), "{} octets for {read}", input.size());
            }
        };
        let (written, ()) = tokio::join!(other.write_all(&octets), reader);
        written.unwrap();
        assert_eq!(input.data(), octets);
    }
}
