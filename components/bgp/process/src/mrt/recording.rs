//! The queue of messages from readers to a file. Readers are on many threads and never wait for the disk: messages without room
//! are counted as lost.

use sluice_bgp::mrt::{RecordedMessages, RecordedSession};
use sluice_bgp::state::State;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::Notify;

/// The most octets of messages waiting for the disk. A full table of the Internet from one neighbor has about six times as many.
const MOST_WAITING: usize = 32 << 20;
/// Octets of an entry without messages.
const ENTRY: usize = size_of::<Recorded>();

/// Messages of a session, or a change of its state.
pub struct Recorded {
    /// The time, in microseconds since 1970.
    pub time: u64,
    /// The neighbor.
    pub peer: IpAddr,
    /// The session; `None` if the session is not up.
    pub session: Option<RecordedSession>,
    /// The content.
    pub what: What,
}

/// The content of a record.
pub enum What {
    /// Messages of the neighbor.
    Messages(RecordedMessages),
    /// A change of the session's state.
    Change(State, State),
}

impl Recorded {
    fn octets(&self) -> usize {
        match &self.what {
            What::Messages(messages) => messages.octets.len() + ENTRY,
            What::Change(..) => ENTRY,
        }
    }

    /// Returns the number of messages and changes.
    pub const fn count(&self) -> u64 {
        match &self.what {
            What::Messages(messages) => messages.count,
            What::Change(..) => 1,
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Recorded>,
    octets: usize,
    lost: u64,
    /// True while no file takes anything.
    is_closed: bool,
}

/// The queue between readers and a file.
#[derive(Default)]
pub struct Recording {
    is_on: AtomicBool,
    /// The lock is held for one push, once for all messages of a read, and only while messages are recorded.
    queue: Mutex<Queue>,
    pushed: Notify,
}

impl Recording {
    /// Returns true while messages are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Begins or ends the recording.
    pub fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// Opens the queue for messages of readers, or closes the queue: later messages are counted as lost.
    pub fn set_closed(&self, is_closed: bool) {
        self.lock().is_closed = is_closed;
    }

    /// Queues a record, or counts the record as lost.
    pub fn push(&self, recorded: Recorded) {
        let mut queue = self.lock();
        let octets = queue.octets.saturating_add(recorded.octets());
        if queue.is_closed || octets > MOST_WAITING {
            queue.lost += recorded.count();
            return;
        }
        queue.octets = octets;
        queue.waiting.push_back(recorded);
        drop(queue);
        self.pushed.notify_one();
    }

    /// Waits until the queue has something.
    pub async fn pushed(&self) {
        while self.lock().waiting.is_empty() {
            self.pushed.notified().await;
        }
    }

    /// Takes everything out of the queue.
    pub fn take(&self) -> VecDeque<Recorded> {
        let mut queue = self.lock();
        queue.octets = 0;
        std::mem::take(&mut queue.waiting)
    }

    /// Returns the number of lost messages since the last call.
    pub fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.lock().lost)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the system's time, in microseconds since 1970.
pub fn microseconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(octets: usize, count: u64) -> Recorded {
        let messages = RecordedMessages { octets: vec![0; octets], count };
        let peer = IpAddr::from([192, 0, 2, 1]);
        Recorded { time: 0, peer, session: None, what: What::Messages(messages) }
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let recording = Recording::default();
        recording.push(messages(MOST_WAITING - 2 * ENTRY, 5));
        recording.push(messages(1, 7));
        recording.push(messages(0, 1));
        assert_eq!(recording.take().iter().map(Recorded::count).sum::<u64>(), 6);
        assert_eq!((recording.take_lost(), recording.take_lost()), (7, 0));
        recording.push(messages(1, 7));
        assert_eq!((recording.take().len(), recording.take_lost()), (1, 0));
        recording.set_closed(true);
        recording.push(messages(1, 2));
        assert_eq!((recording.take().len(), recording.take_lost()), (0, 2));
    }
}
