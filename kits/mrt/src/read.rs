//! Traces taken apart.

use crate::table::{PeerIndex, Rib};
use crate::{Addresses, Session, State, bgp4mp, kind, table_dump};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::Asn;

/// A BGP message in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The time of the message, in microseconds since 1970.
    pub time: u64,
    /// The peer's AS.
    pub peer_as: u32,
    /// The peer's address.
    pub peer: IpAddr,
    /// Whose session it is.
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

/// A session went from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateChange {
    /// The time, in microseconds since 1970.
    pub time: u64,
    /// Whose session it is.
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
    /// The peers that the table after it names by number.
    PeerIndex(PeerIndex<'a>),
    /// A prefix of a table.
    Rib(Rib<'a>),
    /// A record of an unknown or malformed type.
    Other {
        /// The MRT type.
        kind: u16,
        /// Its subtype.
        subtype: u16,
    },
}

/// The records of a trace, in order.
pub fn records(trace: &[u8]) -> impl Iterator<Item = Record<'_>> {
    Records { rest: trace }.map(|raw| {
        let record = match raw.kind {
            kind::BGP4MP | kind::BGP4MP_ET => bgp(&raw),
            kind::TABLE_DUMP_V2 => table(&raw),
            _ => None,
        };
        record.unwrap_or(Record::Other { kind: raw.kind, subtype: raw.subtype })
    })
}

/// The BGP messages of a trace (BGP4MP and BGP4MP_ET records), in order; other records are skipped.
pub fn messages(trace: &[u8]) -> impl Iterator<Item = Message<'_>> {
    Records { rest: trace }.filter_map(|raw| match raw.kind {
        kind::BGP4MP | kind::BGP4MP_ET => match bgp(&raw)? {
            Record::Message(message) => Some(message),
            _ => None,
        },
        _ => None,
    })
}

/// A record as the common header has it (RFC 6396, section 2).
struct Raw<'a> {
    seconds: u32,
    kind: u16,
    subtype: u16,
    body: &'a [u8],
}

struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = self.rest.split_first_chunk::<12>()?;
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

fn bgp<'a>(raw: &Raw<'a>) -> Option<Record<'a>> {
    let mut fields = Fields { rest: raw.body };
    let mut time = u64::from(raw.seconds) * 1_000_000;
    if raw.kind == kind::BGP4MP_ET {
        time += u64::from(fields.number(4)?);
    }
    let width = match raw.subtype {
        bgp4mp::STATE_CHANGE
        | bgp4mp::MESSAGE
        | bgp4mp::MESSAGE_LOCAL
        | bgp4mp::MESSAGE_ADDPATH
        | bgp4mp::MESSAGE_LOCAL_ADDPATH => 2,
        bgp4mp::STATE_CHANGE_AS4
        | bgp4mp::MESSAGE_AS4
        | bgp4mp::MESSAGE_AS4_LOCAL
        | bgp4mp::MESSAGE_AS4_ADDPATH
        | bgp4mp::MESSAGE_AS4_LOCAL_ADDPATH => 4,
        _ => return None,
    };
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
