//! The reading side: a few threads that read the target's messages to any peer, so that the target never waits for the
//! client.

use crate::peers::session::{self, Role, Session};
use crate::peers::signals;
use crate::tally::Tally;
use crate::wire::{MAX_MESSAGE_LEN, MessageType, header};
use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::RecvFlags;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Octets to read at a time.
const CHUNK: usize = 1 << 18;
/// The longest time until a thread notices the end of the run.
const GLANCE: Duration = Duration::from_millis(50);
/// The pause of a sender's session after a small read. The client ignores messages to senders, and some routers send
/// them in very small pieces.
const REST: Duration = Duration::from_millis(1);
/// Little, in octets.
const LITTLE: usize = 1 << 14;
/// Octets that are not discarded, because they could hold a NOTIFICATION: twice the longest message.
const LAST: usize = 2 * MAX_MESSAGE_LEN;
/// The most octets to discard at a time.
const WASTE: usize = 1 << 20;
/// The marker at the start of every message.
const MARKER: [u8; 16] = [0xff; 16];
/// Events to take at a time.
const EVENTS: usize = 64;

/// State shared by the reading threads and the run.
#[derive(Debug)]
pub struct Ear {
    sessions: Vec<Arc<Session>>,
    /// Tallies of the receivers, in the order of the sessions; `None` for senders.
    tallies: Vec<Option<Mutex<Tally>>>,
    failure: Mutex<Option<String>>,
    failed: AtomicBool,
    over: AtomicBool,
    senders_may_end: AtomicBool,
}

impl Ear {
    /// An ear for sessions, of which receivers have their tally.
    pub fn new(sessions: Vec<Arc<Session>>, tally: &Tally) -> Self {
        let of = |s: &Arc<Session>| (s.peer.role == Role::Receiver).then(|| Mutex::new(tally.clone()));
        Ear {
            tallies: sessions.iter().map(of).collect(),
            sessions,
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            senders_may_end: AtomicBool::new(false),
        }
    }

    /// Iterates over the receivers' sessions and views.
    pub fn receivers(&self) -> impl Iterator<Item = (&Session, MutexGuard<'_, Tally>)> {
        let both = self.sessions.iter().zip(&self.tallies);
        both.filter_map(|(s, t)| Some((&**s, held(t.as_ref()?))))
    }

    /// Returns a tally for a further receiver; `None` without receivers.
    pub fn blank(&self) -> Option<Tally> {
        self.receivers().next().map(|(_, tally)| tally.blank())
    }

    /// From now on connections of senders may end.
    pub fn let_senders_end(&self) {
        self.senders_may_end.store(true, Ordering::Relaxed);
    }

    /// Returns the reason why the run cannot continue, if any.
    pub fn failure(&self) -> Option<String> {
        self.failed.load(Ordering::Relaxed).then(|| held(&self.failure).clone()).flatten()
    }

    /// Ends the reading threads.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn fail(&self, peer: usize, reason: &str) {
        let session = &self.sessions[peer];
        if session.peer.role == Role::Sender && self.senders_may_end.load(Ordering::Relaxed) {
            return;
        }
        held(&self.failure).get_or_insert_with(|| {
            format!(
                "{}: {reason}, after {} prefixes sent",
                session.peer,
                session.prefixes_sent.load(Ordering::Relaxed)
            )
        });
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Reads every `of`th session, from number `first` on, until the run is over.
    pub fn listen(&self, first: usize, of: usize) -> Result<()> {
        signals::leave_signals_to_others()?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (number, session) in self.sessions.iter().enumerate().skip(first).step_by(of) {
            epoll::add(&epoll, &session.socket, EventData::new_u64(number as u64), interest(session))
                .context("cannot wait for a session")?;
        }
        let rest = vec![Vec::new(); self.sessions.len()];
        Listener { ear: self, epoll, chunk: vec![0; CHUNK + MAX_MESSAGE_LEN], rest, resting: Vec::new() }
            .run()
    }
}

/// Locks data that cannot be half changed: a panic in a different thread does not matter.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The target of discarded octets. Only its length counts; the buffer is never written.
#[derive(Debug)]
pub struct Waste(Vec<u8>);

impl Default for Waste {
    fn default() -> Self {
        Waste(vec![0; WASTE])
    }
}

impl Session {
    /// Discards the octets in the socket except the last ones, without copying; returns their number.
    pub fn throw_away(&self, waste: &mut Waste) -> rustix::io::Result<usize> {
        let there = usize::try_from(ioctl_fionread(&self.socket)?).unwrap_or(0);
        let much = there.saturating_sub(LAST).min(waste.0.len());
        if much < LAST {
            return Ok(0);
        }
        let (_, thrown) =
            rustix::net::recv(&self.socket, &mut waste.0[..much], RecvFlags::DONTWAIT | RecvFlags::TRUNC)?;
        self.octets_received.fetch_add(thrown as u64, Ordering::Relaxed);
        self.is_cut.store(true, Ordering::Relaxed);
        Ok(thrown)
    }
}

struct Listener<'a> {
    ear: &'a Ear,
    epoll: OwnedFd,
    chunk: Vec<u8>,
    /// For each session, the beginning of a message whose end has not arrived.
    rest: Vec<Vec<u8>>,
    /// Sessions that pause for a while.
    resting: Vec<usize>,
}

/// Returns the events to wait for: a sender's session is waited for once, and again after the session's pause.
fn interest(session: &Session) -> EventFlags {
    match session.peer.role {
        Role::Receiver => EventFlags::IN,
        Role::Sender => EventFlags::IN | EventFlags::ONESHOT,
    }
}

impl Listener<'_> {
    fn run(mut self) -> Result<()> {
        let timespec = |time: Duration| rustix::event::Timespec::try_from(time).context("a short time");
        let (glance, rest) = (timespec(GLANCE)?, timespec(REST)?);
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut rested = Instant::now();
        while !self.ear.over.load(Ordering::Relaxed) {
            events.clear();
            let patience = if self.resting.is_empty() { &glance } else { &rest };
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(patience)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            for number in events.iter().map(|e| e.data.u64() as usize) {
                match self.read(number) {
                    Ok(_) if self.ear.sessions[number].peer.role == Role::Receiver => {}
                    Ok(LITTLE..) => self.wait_for(number)?,
                    Ok(_) => self.resting.push(number),
                    Err(error) => {
                        self.ear.fail(number, &error.to_string());
                        epoll::delete(&self.epoll, &self.ear.sessions[number].socket)?;
                    }
                }
            }
            if rested.elapsed() >= REST {
                rested = Instant::now();
                for number in std::mem::take(&mut self.resting) {
                    self.wait_for(number)?;
                }
            }
        }
        Ok(())
    }

    fn wait_for(&self, number: usize) -> Result<()> {
        let session = &self.ear.sessions[number];
        Ok(epoll::modify(&self.epoll, &session.socket, EventData::new_u64(number as u64), interest(session))?)
    }

    /// Reads available octets, at most a chunk, so that no session has to wait for a different session; returns their
    /// number.
    fn read(&mut self, number: usize) -> Result<usize, ReadError> {
        let session = &self.ear.sessions[number];
        let rest = &mut self.rest[number];
        let old = rest.len();
        self.chunk[..old].copy_from_slice(rest);
        let read = match rustix::net::recv(
            &session.socket,
            &mut self.chunk[old..old + CHUNK],
            RecvFlags::DONTWAIT,
        ) {
            Ok((_, 0)) => return Err(ReadError::Closed),
            Ok((_, read)) => read,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(0),
            Err(e) => return Err(ReadError::Broken(e)),
        };
        let at = Instant::now();
        session.octets_received.fetch_add(read as u64, Ordering::Relaxed);
        let mut stream = &self.chunk[..old + read];
        let mut tally = self.ear.tallies[number].as_ref().map(held);
        if let Some(tally) = &mut tally {
            tally.counts.octets += read as u64;
        }
        if session.is_cut.load(Ordering::Relaxed) {
            stream = from_marker(stream);
            // What follows a marker shows where it ends.
            session.is_cut.store(stream.len() <= MARKER.len(), Ordering::Relaxed);
        }
        let used = messages(stream, tally.as_deref_mut(), at)?;
        rest.clear();
        rest.extend_from_slice(&stream[used..]);
        Ok(read)
    }
}

/// The end of a session.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
enum ReadError {
    /// The target ended the connection in order.
    #[error("the target closed the connection")]
    Closed,
    /// The connection failed.
    #[error("the connection broke: {0}")]
    Broken(Errno),
    /// A header is not one.
    #[error("the target is out of step: {0}")]
    OutOfStep(String),
    /// An UPDATE cannot be read.
    #[error("a malformed UPDATE from the target: {0}")]
    Malformed(String),
    /// A NOTIFICATION came.
    #[error("the target sent {0}")]
    Notification(String),
}

/// Skips to the first message (RFC 4271, section 4.1): to its marker, or to a possible beginning of a marker.
fn from_marker(stream: &[u8]) -> &[u8] {
    let is_one = |octet: &&u8| **octet == 0xff;
    let begin = match stream.windows(MARKER.len()).position(|octets| octets == MARKER) {
        // What follows a marker is not 255: of more octets like that the first belong to the message before.
        Some(at) => at + stream[at + MARKER.len()..].iter().take_while(is_one).count(),
        None => stream.len() - stream.iter().rev().take_while(is_one).count(),
    };
    &stream[begin..]
}

/// Takes the whole messages at the front of a stream; returns their length in octets.
fn messages(stream: &[u8], mut tally: Option<&mut Tally>, at: Instant) -> Result<usize, ReadError> {
    let mut used = 0;
    while let Some(frame) = header::frame(&stream[used..]).map_err(|e| ReadError::OutOfStep(e.to_string()))? {
        match frame.kind {
            MessageType::Update => {
                if let Some(tally) = tally.as_deref_mut() {
                    tally.update(frame.body, at).map_err(|e| ReadError::Malformed(e.to_string()))?;
                }
            }
            MessageType::Notification => {
                return Err(ReadError::Notification(session::said(frame.body)));
            }
            MessageType::Keepalive | MessageType::RouteRefresh | MessageType::Open => {}
        }
        used += frame.len();
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_after_a_part_of_one() {
        let mut keepalive = Vec::new();
        header::put_keepalive(&mut keepalive);
        let check = |before: &[u8], expected: &[u8]| {
            for end in 0..=keepalive.len() {
                let stream = [before, &keepalive[..end]].concat();
                let found = from_marker(&stream);
                // Octets that might be of a marker are distinguished from it when all of it is there.
                let expected = [expected, &keepalive[..end]].concat();
                let is_whole = end >= MARKER.len();
                assert!(found == expected || !is_whole && found.ends_with(&expected), "{before:?} {end}");
            }
        };
        check(&[], &[]);
        check(&[1, 2, 3], &[]);
        check(&[24, 10, 1, 255], &[]);
        check(&[255; 5], &[]);
        check(&[0; 4000], &[]);
        check(&keepalive, &keepalive);
    }
}
