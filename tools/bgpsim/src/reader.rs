//! The reading side: a few threads that take whatever the target says to any peer, so that it never has to wait for the client.

use crate::index::Index;
use crate::session::{self, Role, Session};
use crate::stay;
use crate::tally::Tally;
use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::RecvFlags;
use sluice_bgp::wire::{MAX_MESSAGE_LEN, MessageType, header};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Octets that are read at a time.
const CHUNK: usize = 1 << 18;
/// How soon a thread notices that the run is over.
const GLANCE: Duration = Duration::from_millis(50);
/// How long a sender's session is left alone after little was read from it: what routers say to senders interests nobody, and some
/// say it in very small pieces.
const REST: Duration = Duration::from_millis(1);
/// Little, in octets.
const LITTLE: usize = 1 << 14;
/// Octets that are not thrown away, in which a NOTIFICATION would be: the longest message and another.
const LAST: usize = 2 * MAX_MESSAGE_LEN;
/// Octets that are thrown away at a time, at most.
const WASTE: usize = 1 << 20;
/// What every message begins with.
const MARKER: [u8; 16] = [0xff; 16];
/// Events that are taken at a time.
const EVENTS: usize = 64;

/// What the reading threads share with the rest.
#[derive(Debug)]
pub struct Ear {
    sessions: Vec<Arc<Session>>,
    /// Of the receivers, in the order of the sessions; `None` for senders.
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

    /// The receivers' sessions and views, one after the other.
    pub fn receivers(&self) -> impl Iterator<Item = (&Session, MutexGuard<'_, Tally>)> {
        let both = self.sessions.iter().zip(&self.tallies);
        both.filter_map(|(s, t)| Some((&**s, held(t.as_ref()?))))
    }

    /// What all receivers look prefixes up in; `None` without receivers.
    pub fn index(&self) -> Option<Arc<Index>> {
        self.receivers().next().map(|(_, tally)| tally.index())
    }

    /// From now on connections of senders may end.
    pub fn let_senders_end(&self) {
        self.senders_may_end.store(true, Ordering::Relaxed);
    }

    /// Returns the reason why the run cannot go on, if it cannot.
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
        stay::leave_signals_to_others()?;
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

/// A lock whose data cannot be half changed: a panic elsewhere does not matter to it.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where octets are thrown to: nothing is ever written there, only its length counts.
#[derive(Debug)]
pub struct Waste(Vec<u8>);

impl Default for Waste {
    fn default() -> Self {
        Waste(vec![0; WASTE])
    }
}

impl Session {
    /// Throws away what has come, but for its end, and without copying it; how many octets.
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
    /// Of each session the beginning of a message whose end is not there yet.
    rest: Vec<Vec<u8>>,
    /// Sessions that are left alone for a while.
    resting: Vec<usize>,
}

/// A sender's session is waited for once, and then again when it has rested.
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

    /// Reads what is there, a chunk at most, so that no session has to wait for another; how many octets there were.
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
    #[error("the target says {0}")]
    Notification(String),
}

/// From the first message on (RFC 4271, section 4.1): from its marker, or from what may be the beginning of one.
fn from_marker(stream: &[u8]) -> &[u8] {
    let is_one = |octet: &&u8| **octet == 0xff;
    let begin = match stream.windows(MARKER.len()).position(|octets| octets == MARKER) {
        // What follows a marker is not 255: of more octets like that the first belong to the message before.
        Some(at) => at + stream[at + MARKER.len()..].iter().take_while(is_one).count(),
        None => stream.len() - stream.iter().rev().take_while(is_one).count(),
    };
    &stream[begin..]
}

/// Takes the whole messages at the front of a stream; how many octets they have.
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
                // Octets that might be of a marker are told from it when all of it is there.
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
