//! A connection's octets on their way in: UPDATEs become changes for the tables; further messages are for the session.
//!
//! An intake is fed on the thread that reads the socket. The intake owns the whole state of reading, so no data are shared with the
//! session, which may be on a different thread. Until the session is up, and after every message for the session, the feeder waits for the
//! session's verdict.

mod remarkable;

use crate::batch::Batches;
pub use crate::batch::Traced;
use crate::event::PeerEvent;
use crate::family::ByFamily;
use crate::mrt::RecordedMessages;
use crate::reader::{Framer, Reader, ReaderCounters, Remarks};
use crate::session::Received;
use crate::shard::PeerIndex;
use crate::table::SessionEpoch;
use crate::wire::notification::{code, open as open_error};
use crate::wire::{Expected, Frame, MessageType, Notification, Open, RouteRefresh};
use alloc::vec::Vec;
use remarkable::Remarkable;
use serde::{Deserialize, Serialize};
use sluice_base::{Instant, Provenance};
use smallvec::SmallVec;

/// A message for the session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Message {
    /// A message for the session's state machine.
    Session(Received),
    /// The peer wants routes once more (RFC 2918).
    Refresh(RouteRefresh),
}

/// The meaning of the next octets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// No complete message is left.
    Nothing,
    /// A batch is full: hand the batches over before going on.
    Full,
    /// A remarkable event, for people only.
    Event(PeerEvent),
    /// A message for the session. Earlier octets take effect before the message; no later octet is taken before the
    /// session has handled the message.
    Message(Message),
}

/// The state of an intake with an established session.
#[derive(Debug)]
pub struct Reading {
    /// The peer's number.
    pub peer: PeerIndex,
    /// The session's number.
    pub life: SessionEpoch,
    /// Reads UPDATEs.
    pub reader: Reader,
    /// The id of the newest UPDATE.
    pub provenance: Provenance,
    /// The longest message allowed from the peer, in octets: more than 4,096 if the router offered extended messages (RFC 8654, section 4).
    pub longest_message: usize,
}

/// The intake of a connection.
#[derive(Debug, Default)]
pub struct Intake {
    framer: Framer,
    reading: Option<Reading>,
    /// True after a wrong header: the rest is unreadable.
    broken: bool,
    /// True if UPDATEs were read since the last question.
    updates: bool,
    traced: Option<Vec<Traced>>,
    /// Received messages, for a trace.
    recorded: Option<RecordedMessages>,
    /// Malformed UPDATEs, each with the header, for monitoring stations.
    mirrored: Option<Vec<Vec<u8>>>,
    /// Remarkable UPDATEs of the session: reported, or counted.
    remarkable: Remarkable,
}

impl Intake {
    /// The intake of a connection whose session is up, and of which the beginning of a message was read elsewhere.
    pub fn resumed(reading: Reading, pending: Vec<u8>) -> Self {
        let mut intake = Intake { framer: Framer::with(pending), ..Intake::default() };
        intake.open(reading);
        intake
    }

    /// Returns the beginning of an incomplete message.
    pub fn pending(&self) -> &[u8] {
        self.framer.pending()
    }

    /// The session is up: UPDATEs are good from now on.
    pub fn open(&mut self, reading: Reading) {
        self.framer.allow(reading.longest_message);
        self.reading = Some(reading);
    }

    /// Returns the state while the session is up.
    pub const fn reading(&self) -> Option<&Reading> {
        self.reading.as_ref()
    }

    /// Returns the session's counters if UPDATEs were read since the last call.
    #[inline]
    pub fn news(&mut self) -> Option<ReaderCounters> {
        let news = core::mem::take(&mut self.updates);
        self.reading.as_ref().filter(|_| news).map(|r| r.reader.counters)
    }

    /// Starts or stops noting the prefixes of UPDATEs.
    #[inline]
    pub fn trace(&mut self, on: bool) {
        if on != self.traced.is_some() {
            self.traced = on.then(Vec::new);
        }
    }

    /// The prefixes noted since the last call.
    pub fn take_traced(&mut self) -> Vec<Traced> {
        self.traced.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Starts or stops recording messages.
    #[inline]
    pub fn record(&mut self, on: bool) {
        if on != self.recorded.is_some() {
            self.recorded = on.then(RecordedMessages::default);
        }
    }

    /// Returns the messages recorded since the last call.
    pub fn take_recorded(&mut self) -> RecordedMessages {
        self.recorded.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Starts or stops keeping malformed UPDATEs.
    #[inline]
    pub fn mirror(&mut self, on: bool) {
        if on != self.mirrored.is_some() {
            self.mirrored = on.then(Vec::new);
        }
    }

    /// Returns the malformed UPDATEs kept since the last call, each with the header.
    pub fn take_mirrored(&mut self) -> Vec<Vec<u8>> {
        self.mirrored.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Returns true if remarkable UPDATEs were counted and not reported: [`Intake::suppressed`] reports them at the end of the window.
    #[inline]
    pub fn counts(&self) -> bool {
        self.remarkable.counts()
    }

    /// Reports the number of counted and unreported UPDATEs of each kind, if the window is over at `now`.
    pub fn suppressed(&mut self, now: Instant) -> Vec<PeerEvent> {
        self.remarkable.look(now)
    }

    /// Reports how many UPDATEs of each kind were counted and not reported: the connection is over.
    pub fn end(&mut self) -> Vec<PeerEvent> {
        self.remarkable.drain()
    }

    /// Takes messages from `octets` until there is something to say. There is a batch for each table.
    pub fn take(&mut self, octets: &mut &[u8], batches: &mut [Batches]) -> Taken {
        if self.broken {
            *octets = &[];
            return Taken::Nothing;
        }
        let Intake { framer, reading, broken, updates, traced, recorded, mirrored, remarkable } = self;
        loop {
            let frame = match framer.next(octets) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Taken::Nothing,
                Err(error) => {
                    *broken = true;
                    return Taken::Message(Message::Session(Received::Error(error.into())));
                }
            };
            if let Some(recorded) = recorded {
                recorded.push(&frame);
            }
            let Some(reading) = reading.as_mut().filter(|_| frame.kind == MessageType::Update) else {
                return Taken::Message(message(&frame));
            };
            *updates = true;
            reading.provenance = reading.provenance.next();
            let read = match traced {
                None => reading.reader.update(frame.body, reading.provenance, batches),
                Some(traced) => update_traced(reading, frame.body, batches, traced),
            };
            if let Some(mirrored) = mirrored
                && read.as_ref().map_or(true, |remarks| remarks.malformed.is_some())
            {
                let mut message = Vec::new();
                frame.put(&mut message);
                mirrored.push(message);
            }
            let remarks = match read {
                Ok(remarks) => remarks,
                Err(error) => return Taken::Message(Message::Session(Received::Error(error))),
            };
            if remarks != Remarks::default()
                && let Some(event) = remarkable.event(&remarks, frame.body)
            {
                return Taken::Event(event);
            }
            if batches.iter().any(Batches::is_full) {
                return Taken::Full;
            }
        }
    }
}

/// Reads an UPDATE and records the prefixes.
#[cold]
fn update_traced(
    reading: &mut Reading,
    body: &[u8],
    batches: &mut [Batches],
    traced: &mut Vec<Traced>,
) -> Result<Remarks, Notification> {
    let provenance = reading.provenance;
    let before: SmallVec<[ByFamily<usize>; 1]> = batches.iter().map(Batches::len).collect();
    let read = reading.reader.update(body, provenance, batches)?;
    for (batches, before) in batches.iter().zip(&before) {
        batches.trace(before, provenance, traced);
    }
    Ok(read)
}

/// Reads a message for the session; an unreadable message becomes the error to send.
#[cold]
fn message(frame: &Frame<'_>) -> Message {
    let session =
        |received: Result<Received, Notification>| Message::Session(received.unwrap_or_else(Received::Error));
    match frame.kind {
        MessageType::Open => session(Open::decode(frame.body).map(Received::Open).map_err(|e| {
            let subcode = match e.expected {
                Expected::Parameter(_) => open_error::PARAMETER,
                // RFC 4271, section 6.2: malformed, without a word for how.
                _ => 0,
            };
            Notification::new(code::OPEN, subcode)
        })),
        MessageType::Keepalive => session(Ok(Received::Keepalive)),
        MessageType::Update => session(Ok(Received::Update)),
        MessageType::Notification => session(Ok(Received::Notification(
            Notification::decode(frame.body).unwrap_or_else(|_| Notification::new(0, 0)),
        ))),
        MessageType::RouteRefresh => match RouteRefresh::decode(frame.body) {
            Ok(refresh) => Message::Refresh(refresh),
            Err(_) => session(Err(Notification { code: code::HEADER, subcode: 2, data: Vec::new() })),
        },
    }
}
