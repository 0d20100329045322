//! The queue of future events, ordered by time and, at equal times, in the order of their creation.

use super::end::EndRef;
use crate::host::Ipc;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A future event.
#[derive(Debug)]
pub enum Event {
    /// The turn of a router's processes.
    Turn(u32),
    /// A router's next timer is due.
    Timer(u32),
    /// A connection request arrives at the end.
    Syn(EndRef),
    /// A requested connection is established.
    SynAck(EndRef),
    /// Octets arrive at an end.
    Segment(EndRef, Vec<u8>),
    /// The remote end is closed, behind its last octet.
    Fin(EndRef),
    /// The remote end does not know the connection.
    Reset(EndRef),
    /// An end can take octets again.
    Writable(EndRef),
    /// A message between two processes of a router arrives.
    Ipc(u32, Box<Ipc>),
    /// A step of the scenario is due.
    Step(u32),
}

impl Event {
    /// Returns true if it is more than the passing of time: while there is such an event the network has not come to rest. KEEPALIVEs
    /// travel through a network at rest.
    fn is_work(&self) -> bool {
        match self {
            Event::Turn(_) | Event::Timer(_) | Event::Step(_) => false,
            Event::Segment(_, octets) => !is_keepalive(octets),
            _ => true,
        }
    }
}

/// Returns true if octets are a single KEEPALIVE (RFC 4271, section 4.4).
pub fn is_keepalive(octets: &[u8]) -> bool {
    octets.len() == 19 && octets[18] == 4
}

struct Item {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest first.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// The events to come.
#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Item>,
    order: u64,
    work: u64,
}

impl Queue {
    /// Schedules `event` at `at`, after earlier events for the same time.
    pub fn push(&mut self, at: u64, event: Event) {
        self.work += u64::from(event.is_work());
        self.order += 1;
        self.heap.push(Item { at, order: self.order, event });
    }

    /// Returns the time when the next event happens.
    pub fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|item| item.at)
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(u64, Event)> {
        let item = self.heap.pop()?;
        self.work -= u64::from(item.event.is_work());
        Some((item.at, item.event))
    }

    /// Returns true if anything but time is under way: messages of any kind.
    pub const fn has_work(&self) -> bool {
        self.work > 0
    }

    /// Returns the number of future events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns true if no event is left.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
