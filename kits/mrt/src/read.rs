//! Traces taken apart.

use crate::table::{PeerIndex, Rib};
use crate::{Addresses, Session, State, bgp4mp, kind, table_dump};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::Asn;

/// The most octets of a record, header included, for [`first_record`]: more than a record with 65,535 peers.
pub const LONGEST_RECORD: usize = 4 << 20;

/// A BGP message in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The time of the message, in microseconds since 1970.
    pub time: u64,
    /// The peer's AS.
    pub peer_as: u32,
    /// The peer's address.
    pub peer: IpAddr,
    /// The session.
    pub session: Session,
    /// True if the writer of the trace sent the message, false if the writer received it.
    pub is_local: bool,
    /// True if AS numbers have 4 octets.
    pub four_octet_as: bool,
    /// True if prefixes have path identifiers (RFC 8050, section 3).
    pub has_path_ids: bool,
    /// The whole message, header included.
    pub octets: &'a [u8],
}

/// A session changed the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateChange {
    /// The time, in microseconds since 1970.
    pub time: u64,
    /// The session.
    pub session: Session,
    /// The state before.
    pub old: State,
    /// The state since then.
    pub new: State,
}

/// A record of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A BGP message.
    Message(Message<'a>),
    /// A change of a session's state.
    StateChange(StateChange),
    /// The peers of the following table, by number.
    PeerIndex(PeerIndex<'a>),
    /// A prefix of a table.
    Rib(Rib<'a>),
    /// A record of an unknown or malformed type.
    Other {
        /// The MRT type.
        kind: u16,
        /// The subtype.
        subtype: u16,
    },
}

/// The first record of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirstRecord<'a> {
    /// The record. [`Record::Other`] stands for an unread record of a known type.
    pub record: Record<'a>,
    /// The time in the header of the record, in microseconds since 1970.
    pub time: u64,
    /// The octets of the record, header included.
    pub len: usize,
}

/// The error of a record: the rest of the trace is unreadable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    /// The header states more octets than [`LONGEST_RECORD`], or than a length can state.
    TooLong(u32),
    /// The type is not registered for MRT.
    UnknownType(u16),
    /// The content does not have the form of the type and the subtype.
    Malformed {
        /// The MRT type.
        kind: u16,
        /// The subtype.
        subtype: u16,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::TooLong(len) => write!(f, "a record of {len} octets is too long"),
            RecordError::UnknownType(kind) => write!(f, "MRT has no record type {kind}"),
            RecordError::Malformed { kind, subtype } => {
                write!(f, "malformed record of type {kind}, subtype {subtype}")
            }
        }
    }
}

impl core::error::Error for RecordError {}

/// Returns the octets of the first record, header included, by the header; `None` for an incomplete header.
///
/// # Errors
/// The header is malformed.
pub fn first_record_len(octets: &[u8]) -> Result<Option<usize>, RecordError> {
    let Some((header, _)) = octets.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let kind = u16::from_be_bytes([header[4], header[5]]);
    if !kind::is_assigned(kind) {
        return Err(RecordError::UnknownType(kind));
    }
    let len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let whole = usize::try_from(len).ok().and_then(|len| len.checked_add(HEADER_LEN));
    whole.filter(|len| *len <= LONGEST_RECORD).map(Some).ok_or(RecordError::TooLong(len))
}

/// Returns the first record of a trace; `None` for an incomplete record. [`records`] leaves malformed records out, [`first_record`] does
/// not.
///
/// # Errors
/// The record is malformed.
pub fn first_record(octets: &[u8]) -> Result<Option<FirstRecord<'_>>, RecordError> {
    let Some(len) = first_record_len(octets)? else { return Ok(None) };
    let Some(raw) = octets.get(..len).and_then(|octets| Records { rest: octets }.next()) else {
        return Ok(None);
    };
    let record = raw.record();
    let Raw { kind, subtype, .. } = raw;
    if matches!(record, Record::Other { .. }) && is_read(kind, subtype) {
        return Err(RecordError::Malformed { kind, subtype });
    }
    Ok(Some(FirstRecord { record, time: raw.time().unwrap_or_default(), len }))
}

/// Returns true if well-formed records of a type and a subtype are read.
const fn is_read(kind: u16, subtype: u16) -> bool {
    match kind {
        kind::BGP4MP | kind::BGP4MP_ET => as_width(subtype).is_some(),
        kind::TABLE_DUMP_V2 => matches!(
            subtype,
            table_dump::PEER_INDEX_TABLE
                | table_dump::RIB_IPV4_UNICAST
                | table_dump::RIB_IPV6_UNICAST
                | table_dump::RIB_IPV4_UNICAST_ADDPATH
                | table_dump::RIB_IPV6_UNICAST_ADDPATH
        ),
        _ => false,
    }
}

/// The records of a trace, in order.
pub fn records(trace: &[u8]) -> impl Iterator<Item = Record<'_>> {
    Records { rest: trace }.map(|raw| raw.record())
}

/// The BGP messages of a trace (BGP4MP and BGP4MP_ET records), in order; further records are skipped.
pub fn messages(trace: &[u8]) -> impl Iterator<Item = Message<'_>> {
    Records { rest: trace }.filter_map(|raw| match raw.kind {
        kind::BGP4MP | kind::BGP4MP_ET => match bgp(&raw)? {
            Record::Message(message) => Some(message),
            _ => None,
        },
        _ => None,
    })
}

/// A record by the common header (RFC 6396, section 2).
struct Raw<'a> {
    seconds: u32,
    kind: u16,
    subtype: u16,
    body: &'a [u8],
}

impl<'a> Raw<'a> {
    fn record(&self) -> Record<'a> {
        let record = match self.kind {
            kind::BGP4MP | kind::BGP4MP_ET => bgp(self),
            kind::TABLE_DUMP_V2 => table(self),
            _ => None,
        };
        record.unwrap_or(Record::Other { kind: self.kind, subtype: self.subtype })
    }

    /// Returns the time in microseconds since 1970; `None` if the microseconds of a BGP4MP_ET record are missing.
    fn time(&self) -> Option<u64> {
        let mut fields = Fields { rest: self.body };
        let more = if self.kind == kind::BGP4MP_ET { fields.number(4)? } else { 0 };
        Some(u64::from(self.seconds) * 1_000_000 + u64::from(more))
    }
}

/// Octets of the common header.
const HEADER_LEN: usize = 12;

struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = self.rest.split_first_chunk::<HEADER_LEN>()?;
        let mut fields = Fields { rest: header };
        let (seconds, kind, subtype) = (fields.number(4)?, fields.number(2)?, fields.number(2)?);
        let (body, rest) = rest.split_at_checked(fields.number(4)? as usize)?;
        self.rest = rest;
        Some(Raw { seconds, kind: kind as u16, subtype: subtype as u16, body })
    }
}

/// Takes fields off the front of a record.
pub(crate) struct Fields<'a> {
    pub rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    /// A number of up to 4 octets.
    pub fn number(&mut self, octets: usize) -> Option<u32> {
        Some(self.take(octets)?.iter().fold(0, |n, octet| n << 8 | u32::from(*octet)))
    }

    pub fn v4(&mut self) -> Option<Ipv4Addr> {
        <[u8; 4]>::try_from(self.take(4)?).ok().map(Ipv4Addr::from)
    }

    pub fn v6(&mut self) -> Option<Ipv6Addr> {
        <[u8; 16]>::try_from(self.take(16)?).ok().map(Ipv6Addr::from)
    }
}

/// Returns the octets of AS numbers in BGP4MP records of a subtype; `None` for an unread subtype.
const fn as_width(subtype: u16) -> Option<usize> {
    match subtype {
        bgp4mp::STATE_CHANGE
        | bgp4mp::MESSAGE
        | bgp4mp::MESSAGE_LOCAL
        | bgp4mp::MESSAGE_ADDPATH
        | bgp4mp::MESSAGE_LOCAL_ADDPATH => Some(2),
        bgp4mp::STATE_CHANGE_AS4
        | bgp4mp::MESSAGE_AS4
        | bgp4mp::MESSAGE_AS4_LOCAL
        | bgp4mp::MESSAGE_AS4_ADDPATH
        | bgp4mp::MESSAGE_AS4_LOCAL_ADDPATH => Some(4),
        _ => None,
    }
}

fn bgp<'a>(raw: &Raw<'a>) -> Option<Record<'a>> {
    let mut fields = Fields { rest: raw.body };
    let time = raw.time()?;
    if raw.kind == kind::BGP4MP_ET {
        fields.take(4)?;
    }
    let width = as_width(raw.subtype)?;
    let (peer_as, local_as) = (Asn(fields.number(width)?), Asn(fields.number(width)?));
    let interface = fields.number(2)? as u16;
    let addresses = match fields.number(2)? {
        1 => Addresses::V4 { peer: fields.v4()?, local: fields.v4()? },
        2 => Addresses::V6 { peer: fields.v6()?, local: fields.v6()? },
        _ => return None,
    };
    let session = Session { peer_as, local_as, interface, addresses };
    if matches!(raw.subtype, bgp4mp::STATE_CHANGE | bgp4mp::STATE_CHANGE_AS4) {
        let old = State::from_number(fields.number(2)?)?;
        let new = State::from_number(fields.number(2)?)?;
        return Some(Record::StateChange(StateChange { time, session, old, new }));
    }
    Some(Record::Message(Message {
        time,
        peer_as: peer_as.0,
        peer: addresses.peer(),
        session,
        is_local: matches!(
            raw.subtype,
            bgp4mp::MESSAGE_LOCAL
                | bgp4mp::MESSAGE_AS4_LOCAL
                | bgp4mp::MESSAGE_LOCAL_ADDPATH
                | bgp4mp::MESSAGE_AS4_LOCAL_ADDPATH
        ),
        four_octet_as: width == 4,
        has_path_ids: matches!(raw.subtype, bgp4mp::MESSAGE_ADDPATH..=bgp4mp::MESSAGE_AS4_LOCAL_ADDPATH),
        octets: fields.rest,
    }))
}

fn table<'a>(raw: &Raw<'a>) -> Option<Record<'a>> {
    let fields = Fields { rest: raw.body };
    match raw.subtype {
        table_dump::PEER_INDEX_TABLE => PeerIndex::read(raw.seconds, fields).map(Record::PeerIndex),
        table_dump::RIB_IPV4_UNICAST => Rib::read(raw.seconds, false, false, fields).map(Record::Rib),
        table_dump::RIB_IPV6_UNICAST => Rib::read(raw.seconds, true, false, fields).map(Record::Rib),
        table_dump::RIB_IPV4_UNICAST_ADDPATH => Rib::read(raw.seconds, false, true, fields).map(Record::Rib),
        table_dump::RIB_IPV6_UNICAST_ADDPATH => Rib::read(raw.seconds, true, true, fields).map(Record::Rib),
        _ => None,
    }
}
