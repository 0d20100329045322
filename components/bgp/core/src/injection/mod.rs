//! Traces as sources of routes: a trace in MRT (RFC 6396, 8050) is read like the messages of a neighbor, for one peer of the trace.
//!
//! An [`Injector`] takes the octets of a trace in pieces of any length and makes batches for the tables, as a connection's intake does of
//! the octets of a neighbor. Records of the wanted peer are read, and records of further peers are counted. Each record states
//! by itself whether AS numbers have 2 or 4 octets and whether prefixes have path identifiers; both may change from record to record.
//! An error that would end a session ends the reading, with the place in the trace.
//!
//! Memory is bounded: at most one incomplete record is kept ([`sluice_mrt::LONGEST_RECORD`]).

mod error;
mod event;
#[cfg(test)]
mod tests;

pub use error::{InjectionCause, InjectionError};
pub use event::{InjectionEnd, InjectionEvent};

use crate::batch::Batches;
use crate::family::Families;
use crate::intake::Reading;
use crate::wire::attribute::{Attributes, Flags, code, put_header};
use crate::wire::{AFI_IPV6, FamilyKey, MAX_EXTENDED_LEN, MessageType, SAFI_UNICAST, header};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::IpPrefix;
use sluice_mrt::{Entry, Message, Record, Rib, State, first_record, first_record_len};

/// The most remembered addresses of further peers.
const MOST_OTHERS: usize = 16;

/// The counts of a trace so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InjectionCounts {
    /// Records read.
    pub records: u64,
    /// Octets of these records.
    pub octets: u64,
    /// UPDATEs and routes of tables of the wanted peer.
    pub updates: u64,
    /// Messages and routes of further peers.
    pub of_others: u64,
    /// Records without routes: further messages and types.
    pub skipped: u64,
    /// Sessions of the wanted peer that ended in the trace.
    pub sessions: u64,
}

/// The result of [`Injector::take`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Injected {
    /// Every octet is taken.
    Nothing,
    /// The batches are to be handed over before the next call.
    Full,
    /// The session of the peer ended in the trace. The batches are to be handed over, and a new session begins: [`Injector::open`].
    SessionOver,
}

/// The reader of a trace.
#[derive(Debug)]
pub struct Injector {
    reading: Reading,
    wanted: IpAddr,
    /// The numbers of the wanted peer in the latest record with peers, and the number of peers in the record; `None` before the record.
    peers: Option<(Vec<u16>, usize)>,
    /// The beginning of an incomplete record.
    pending: Vec<u8>,
    counts: InjectionCounts,
    others: BTreeSet<IpAddr>,
    /// True if routes were read since the session began.
    has_routes: bool,
    /// True if the changes in the batches have path identifiers.
    has_path_ids: bool,
    failed: Option<InjectionError>,
    /// Space for the body of an UPDATE.
    body: Vec<u8>,
}

impl Injector {
    /// A reader of a peer's routes in a trace.
    pub fn new(reading: Reading, wanted: IpAddr) -> Self {
        Injector {
            reading,
            wanted,
            peers: None,
            pending: Vec::new(),
            counts: InjectionCounts::default(),
            others: BTreeSet::new(),
            has_routes: false,
            has_path_ids: false,
            failed: None,
            body: Vec::new(),
        }
    }

    /// Begins a new session of the peer.
    pub fn open(&mut self, reading: Reading) {
        self.reading = reading;
        self.has_routes = false;
    }

    /// Returns the state of the session, for a subsequent trace of the same session.
    pub fn into_reading(self) -> Reading {
        self.reading
    }

    /// Returns the state of the session.
    pub const fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> &InjectionCounts {
        &self.counts
    }

    /// Returns at most 16 addresses of further peers in the trace.
    pub const fn others(&self) -> &BTreeSet<IpAddr> {
        &self.others
    }

    /// Takes records from `octets` until there is something to do. There is a batch for each table.
    ///
    /// # Errors
    /// The trace cannot be read on. Each further call returns the same error.
    pub fn take(&mut self, octets: &mut &[u8], batches: &mut [Batches]) -> Result<Injected, InjectionError> {
        loop {
            if let Some(error) = &self.failed {
                return Err(error.clone());
            }
            let taken = if self.pending.is_empty() {
                self.take_record(octets, batches)
            } else {
                self.take_pending(octets, batches)
            };
            match taken {
                Ok(None) => {}
                Ok(Some(injected)) => return Ok(injected),
                Err(cause) => self.failed = Some(self.error(cause)),
            }
        }
    }

    /// Checks that the trace ends with a whole record.
    ///
    /// # Errors
    /// The trace ends in the middle of a record, or could not be read.
    pub fn finish(&self) -> Result<(), InjectionError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.pending.is_empty() => Ok(()),
            None => Err(self.error(InjectionCause::Torn)),
        }
    }

    fn error(&self, cause: InjectionCause) -> InjectionError {
        InjectionError { record: self.counts.records + 1, offset: self.counts.octets, cause }
    }

    /// Takes a whole record.
    fn take_record(
        &mut self,
        octets: &mut &[u8],
        batches: &mut [Batches],
    ) -> Result<Option<Injected>, InjectionCause> {
        let Some(first) = first_record(octets).map_err(InjectionCause::Record)? else {
            self.pending.extend_from_slice(octets);
            *octets = &[];
            return Ok(Some(Injected::Nothing));
        };
        if self.must_hand_over(&first.record, batches) {
            return Ok(Some(Injected::Full));
        }
        *octets = &octets[first.len..];
        self.read(first.record, first.len, batches)
    }

    /// Takes a record whose beginning was kept.
    fn take_pending(
        &mut self,
        octets: &mut &[u8],
        batches: &mut [Batches],
    ) -> Result<Option<Injected>, InjectionCause> {
        const HEADER: usize = 12;
        self.fill(HEADER, octets);
        if let Some(len) = first_record_len(&self.pending).map_err(InjectionCause::Record)? {
            self.fill(len, octets);
        }
        let pending = core::mem::take(&mut self.pending);
        let read = match first_record(&pending).map_err(InjectionCause::Record)? {
            None => Ok(Some(Injected::Nothing)),
            Some(first) if self.must_hand_over(&first.record, batches) => Ok(Some(Injected::Full)),
            Some(first) => {
                let read = self.read(first.record, first.len, batches);
                if read.is_ok() {
                    // The space stays.
                    self.pending = pending;
                    self.pending.clear();
                }
                return read;
            }
        };
        self.pending = pending;
        read
    }

    fn fill(&mut self, len: usize, octets: &mut &[u8]) {
        let missing = len.saturating_sub(self.pending.len()).min(octets.len());
        let (head, tail) = octets.split_at(missing);
        self.pending.extend_from_slice(head);
        *octets = tail;
    }

    /// Returns true if the batches have changes of the opposite form: either every change of a batch has a path identifier or none.
    fn must_hand_over(&mut self, record: &Record<'_>, batches: &[Batches]) -> bool {
        let has_path_ids = match record {
            Record::Message(message) => message.has_path_ids,
            Record::Rib(rib) => rib.entries.first().is_some_and(|entry| entry.path_id.is_some()),
            _ => return false,
        };
        if has_path_ids == self.has_path_ids {
            return false;
        }
        let is_empty = batches.iter().all(Batches::is_empty);
        if is_empty {
            self.has_path_ids = has_path_ids;
        }
        !is_empty
    }

    /// Reads a whole record of so many octets.
    fn read(
        &mut self,
        record: Record<'_>,
        len: usize,
        batches: &mut [Batches],
    ) -> Result<Option<Injected>, InjectionCause> {
        let mut injected = None;
        match record {
            Record::Message(message) if message.peer != self.wanted => self.note_other(message.peer),
            Record::Message(message) if message.is_local => self.counts.skipped += 1,
            Record::Message(message) => injected = self.message(&message, batches)?,
            Record::StateChange(change) => {
                self.counts.skipped += 1;
                let is_end = change.old == State::Established && change.new != State::Established;
                if change.session.addresses.peer() == self.wanted && is_end {
                    injected = self.end_session();
                }
            }
            Record::PeerIndex(index) => {
                self.counts.skipped += 1;
                let numbered = index.peers.iter().zip(0..);
                let (wanted, others): (Vec<_>, Vec<_>) =
                    numbered.partition(|(peer, _)| peer.address == self.wanted);
                others.iter().for_each(|(peer, _)| self.remember(peer.address));
                self.peers =
                    Some((wanted.into_iter().map(|(_, number)| number).collect(), index.peers.len()));
            }
            Record::Rib(rib) => self.rib(&rib, batches)?,
            Record::Other { .. } => self.counts.skipped += 1,
        }
        self.counts.records += 1;
        self.counts.octets += len as u64;
        let is_full = || batches.iter().any(Batches::is_full).then_some(Injected::Full);
        Ok(injected.or_else(is_full))
    }

    fn end_session(&mut self) -> Option<Injected> {
        let had_routes = core::mem::take(&mut self.has_routes);
        self.counts.sessions += u64::from(had_routes);
        had_routes.then_some(Injected::SessionOver)
    }

    fn remember(&mut self, other: IpAddr) {
        if self.others.len() < MOST_OTHERS {
            self.others.insert(other);
        }
    }

    fn note_other(&mut self, other: IpAddr) {
        self.counts.of_others += 1;
        self.remember(other);
    }

    /// Reads a message of the wanted peer.
    fn message(
        &mut self,
        message: &Message<'_>,
        batches: &mut [Batches],
    ) -> Result<Option<Injected>, InjectionCause> {
        let frame = header::frame_within(message.octets, MAX_EXTENDED_LEN).map_err(InjectionCause::Header)?;
        let Some(frame) = frame.filter(|frame| frame.len() == message.octets.len()) else {
            return Err(InjectionCause::MessageLength);
        };
        match frame.kind {
            MessageType::Update => {
                self.update(frame.body, message.four_octet_as, message.has_path_ids, batches)?;
                Ok(None)
            }
            // A trace may lack the end of the session before.
            MessageType::Open => {
                self.counts.skipped += 1;
                Ok(self.end_session())
            }
            MessageType::Notification | MessageType::Keepalive | MessageType::RouteRefresh => {
                self.counts.skipped += 1;
                Ok(None)
            }
        }
    }

    /// Reads the body of an UPDATE.
    fn update(
        &mut self,
        body: &[u8],
        four_octet_as: bool,
        has_path_ids: bool,
        batches: &mut [Batches],
    ) -> Result<(), InjectionCause> {
        let Reading { reader, provenance, .. } = &mut self.reading;
        let add_path = if has_path_ids { Families::ALL } else { Families::NONE };
        reader.set_form(four_octet_as, add_path);
        *provenance = provenance.next();
        // What is remarkable is counted.
        reader.update(body, *provenance, batches).map_err(InjectionCause::Update)?;
        self.counts.updates += 1;
        self.has_routes = true;
        Ok(())
    }

    /// Reads the wanted peer's routes of a prefix in a table, as if each had come in an UPDATE.
    fn rib(&mut self, rib: &Rib<'_>, batches: &mut [Batches]) -> Result<(), InjectionCause> {
        let Some((wanted, all)) = self.peers.take() else { return Err(InjectionCause::NoPeers) };
        for entry in &rib.entries {
            if usize::from(entry.peer) >= all {
                return Err(InjectionCause::Peer(entry.peer));
            }
            if !wanted.contains(&entry.peer) {
                self.counts.of_others += 1;
                continue;
            }
            let mut body = core::mem::take(&mut self.body);
            put_update(rib.prefix, entry, &mut body).ok_or(InjectionCause::Attributes)?;
            self.update(&body, true, entry.path_id.is_some(), batches)?;
            self.body = body;
        }
        self.peers = Some((wanted, all));
        Ok(())
    }
}

/// Puts the body of an UPDATE with a route of a table into `body`, replacing the contents. Returns `None` if the attributes are
/// malformed.
pub fn put_update(prefix: IpPrefix, entry: &Entry<'_>, body: &mut Vec<u8>) -> Option<()> {
    body.clear();
    body.extend_from_slice(&[0, 0, 0, 0]);
    let mut nlri = Vec::new();
    nlri.extend(entry.path_id.map(u32::to_be_bytes).into_iter().flatten());
    match prefix {
        IpPrefix::V4(prefix) => prefix.put(&mut nlri),
        IpPrefix::V6(prefix) => prefix.put(&mut nlri),
    }
    let is_ipv6 = matches!(prefix, IpPrefix::V6(_));
    for attribute in Attributes::new(entry.attributes, 0) {
        let attribute = attribute.ok()?;
        match attribute.code {
            code::MP_REACH_NLRI if is_ipv6 => {
                let next_hop = table_next_hop(attribute.value)?;
                let mut value = Vec::with_capacity(next_hop.len() + nlri.len() + 5);
                value.extend_from_slice(&AFI_IPV6.to_be_bytes());
                value.extend_from_slice(&[SAFI_UNICAST, u8::try_from(next_hop.len()).ok()?]);
                value.extend_from_slice(next_hop);
                value.push(0);
                value.extend_from_slice(&nlri);
                put_header(body, Flags::OPTIONAL, code::MP_REACH_NLRI, value.len());
                body.extend_from_slice(&value);
            }
            // Some collectors write these beside NEXT_HOP.
            code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => {}
            _ => {
                put_header(body, attribute.flags.0, attribute.code, attribute.value.len());
                body.extend_from_slice(attribute.value);
            }
        }
    }
    let len = u16::try_from(body.len() - 4).ok()?;
    body[2..4].copy_from_slice(&len.to_be_bytes());
    if !is_ipv6 {
        body.extend_from_slice(&nlri);
    }
    Some(())
}

/// Returns the next hop in an MP_REACH_NLRI of a table: alone with its length (RFC 6396, section 4.3.4), or in the whole attribute, as some
/// collectors write it.
fn table_next_hop(value: &[u8]) -> Option<&[u8]> {
    let (len, rest) = value.split_first()?;
    if usize::from(*len) == rest.len() {
        return Some(rest);
    }
    let (header, rest) = value.split_first_chunk::<4>()?;
    rest.get(..usize::from(header[3]))
}
