//! The connections of a world, and their ends.

use super::end::EndRef;
use sluice_bgp::session::ConnectionId;
use std::net::IpAddr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Asked, and has not answered yet.
    Waiting,
    Open,
    Closed,
}

/// An end.
#[derive(Debug)]
pub struct End {
    /// The router.
    pub host: u32,
    /// The neighbor's address, which identifies the neighbor to the router.
    pub neighbor: IpAddr,
    /// The router's number for the connection.
    pub id: ConnectionId,
    pub(super) state: State,
    /// Unread octets.
    pub received: Vec<u8>,
    /// True if no more octets will arrive.
    pub finished: bool,
    /// True if the router knows of unread input.
    pub noticed: bool,
    pub(super) in_flight: usize,
    pub(super) blocked: bool,
    /// The arrival time of the last octets sent to the end; later octets do not overtake them.
    pub(super) last: u64,
    /// The earliest arrival time: octets held up by a cut come first.
    pub(super) hold: u64,
}

impl End {
    pub(super) fn new(host: u32, neighbor: IpAddr, id: ConnectionId, state: State) -> Self {
        End {
            host,
            neighbor,
            id,
            state,
            received: Vec::new(),
            finished: false,
            noticed: false,
            in_flight: 0,
            blocked: false,
            last: 0,
            hold: 0,
        }
    }
}

/// A connection.
pub struct Connection {
    pub(super) generation: u32,
    /// The connection's link.
    pub link: u32,
    pub(super) ends: [End; 2],
}

/// The connections of a world.
#[derive(Default)]
pub struct Connections {
    pub(super) all: Vec<Connection>,
    pub(super) free: Vec<u32>,
}

impl Connections {
    /// An end that is open or about to open; `None` if the end is closed.
    pub fn end_mut(&mut self, at: EndRef) -> Option<&mut End> {
        let connection = self.all.get_mut(at.connection as usize)?;
        let end = &mut connection.ends[usize::from(at.end)];
        (connection.generation == at.generation && end.state != State::Closed).then_some(end)
    }

    pub(super) fn get(&self, at: EndRef) -> Option<&Connection> {
        self.all.get(at.connection as usize).filter(|c| c.generation == at.generation)
    }

    pub(super) fn add(&mut self, link: u32, ends: [End; 2]) -> EndRef {
        let connection = match self.free.pop() {
            Some(place) => {
                let old = &mut self.all[place as usize];
                *old = Connection { generation: old.generation + 1, link, ends };
                place
            }
            None => {
                self.all.push(Connection { generation: 0, link, ends });
                (self.all.len() - 1) as u32
            }
        };
        EndRef { connection, generation: self.all[connection as usize].generation, end: 0 }
    }

    pub(super) fn close(&mut self, at: EndRef) {
        let Some(connection) =
            self.all.get_mut(at.connection as usize).filter(|c| c.generation == at.generation)
        else {
            return;
        };
        let end = &mut connection.ends[usize::from(at.end)];
        if end.state == State::Closed {
            return;
        }
        end.state = State::Closed;
        end.received = Vec::new();
        if connection.ends.iter().all(|e| e.state == State::Closed) {
            connection.generation += 1;
            self.free.push(at.connection);
        }
    }

    /// Octets that were sent and not received, or received and not read: the most of any connection over links that are up. What is
    /// sent over a link that is down stays under way until its sender gives up.
    pub fn most_under_way(&self, is_up: impl Fn(u32) -> bool) -> usize {
        let ends = self.all.iter().filter(|connection| is_up(connection.link)).flat_map(|c| &c.ends);
        let open = ends.filter(|e| e.state != State::Closed);
        open.map(|e| e.in_flight.max(e.received.len())).max().unwrap_or(0)
    }
}
