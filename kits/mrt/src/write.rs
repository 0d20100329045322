//! Traces made.

use crate::table::{Entry, Peer};
use crate::{Addresses, Session, State, bgp4mp, kind, table_dump};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::{IpPrefix, RouterId};

/// The reason why a record cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unwritable {
    /// The time does not fit: seconds since 1970 have 32 bits.
    Time,
    /// A field of 16 bits cannot hold the named length or number.
    TooLong(&'static str),
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwritable::Time => f.write_str("a time after 2106 does not fit in a record"),
            Unwritable::TooLong(what) => write!(f, "{what}: more than 65,535"),
        }
    }
}

impl core::error::Error for Unwritable {}

/// The form of a session's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageForm {
    /// True if AS numbers have 4 octets (RFC 6793), in messages and in the record.
    pub four_octet_as: bool,
    /// True if prefixes have path identifiers (RFC 8050, section 3).
    pub has_path_ids: bool,
}

impl MessageForm {
    /// The form of messages without path identifiers, with AS numbers of 4 octets.
    pub const PLAIN: MessageForm = MessageForm { four_octet_as: true, has_path_ids: false };

    /// Returns the subtype of messages.
    const fn subtype(self) -> u16 {
        match (self.four_octet_as, self.has_path_ids) {
            (false, false) => bgp4mp::MESSAGE,
            (true, false) => bgp4mp::MESSAGE_AS4,
            (false, true) => bgp4mp::MESSAGE_ADDPATH,
            (true, true) => bgp4mp::MESSAGE_AS4_ADDPATH,
        }
    }
}

/// Writes a sequence of records. A refused record leaves no octets.
///
/// AS numbers of tables and of messages without a [`MessageForm`] have 4 octets, in the records and in given AS_PATHs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Writer {
    octets: Vec<u8>,
    with_microseconds: bool,
}

impl Writer {
    /// Makes a writer of messages with the time in seconds: BGP4MP.
    pub const fn new() -> Self {
        Writer { octets: Vec::new(), with_microseconds: false }
    }

    /// Makes a writer of messages with the time in microseconds: BGP4MP_ET (RFC 6396, section 3).
    pub const fn with_microseconds() -> Self {
        Writer { octets: Vec::new(), with_microseconds: true }
    }

    /// Returns the written and untaken octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Takes the written octets.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.octets)
    }

    /// Writes a BGP message from the session's peer, header included: BGP4MP_MESSAGE_AS4 (RFC 6396, section 4.4.3). `time` is in
    /// microseconds since 1970.
    pub fn message(&mut self, time: u64, session: &Session, message: &[u8]) -> Result<(), Unwritable> {
        self.received_message(time, session, MessageForm::PLAIN, message)
    }

    /// Writes a BGP message from the session's peer in a chosen form: BGP4MP_MESSAGE or BGP4MP_MESSAGE_AS4, with or without ADDPATH (RFC
    /// 8050, section 3). An AS number too large for 2 octets becomes AS_TRANS (RFC 6793, section 9).
    pub fn received_message(
        &mut self,
        time: u64,
        session: &Session,
        form: MessageForm,
        message: &[u8],
    ) -> Result<(), Unwritable> {
        self.bgp(time, form.subtype(), session, |out| put_message(out, message))
    }

    /// Writes a BGP message to the session's peer: BGP4MP_MESSAGE_AS4_LOCAL (RFC 6396, section 4.4.6).
    pub fn sent_message(&mut self, time: u64, session: &Session, message: &[u8]) -> Result<(), Unwritable> {
        self.bgp(time, bgp4mp::MESSAGE_AS4_LOCAL, session, |out| put_message(out, message))
    }

    /// A change of the session's state: BGP4MP_STATE_CHANGE_AS4 (RFC 6396, section 4.4.4). `time` is in microseconds since 1970.
    pub fn state_change(
        &mut self,
        time: u64,
        session: &Session,
        old: State,
        new: State,
    ) -> Result<(), Unwritable> {
        self.bgp(time, bgp4mp::STATE_CHANGE_AS4, session, |out| {
            put16(out, old as u16);
            put16(out, new as u16);
            Ok(())
        })
    }

    /// Writes the peers of the following table: PEER_INDEX_TABLE (RFC 6396, section 4.3.1). `time` is in seconds since 1970.
    pub fn peer_index(
        &mut self,
        time: u32,
        collector: RouterId,
        view: &str,
        peers: &[Peer],
    ) -> Result<(), Unwritable> {
        self.record(time, kind::TABLE_DUMP_V2, table_dump::PEER_INDEX_TABLE, |out| {
            put32(out, collector.0);
            put_count(out, view.len(), "octets of the view's name")?;
            out.extend_from_slice(view.as_bytes());
            put_count(out, peers.len(), "peers")?;
            for peer in peers {
                out.push(2 | u8::from(peer.address.is_ipv6()));
                put32(out, peer.router_id.0);
                put_address(out, peer.address);
                put32(out, peer.asn.0);
            }
            Ok(())
        })
    }

    /// Writes a prefix with routes: RIB_IPV4_UNICAST or RIB_IPV6_UNICAST (RFC 6396, section 4.3.2), with path identifiers if the first
    /// route has an identifier (RFC 8050, section 4). `time` is in seconds since 1970.
    pub fn rib(
        &mut self,
        time: u32,
        sequence: u32,
        prefix: IpPrefix,
        entries: &[Entry<'_>],
    ) -> Result<(), Unwritable> {
        let has_ids = entries.first().is_some_and(|entry| entry.path_id.is_some());
        let subtype = match (prefix, has_ids) {
            (IpPrefix::V4(_), false) => table_dump::RIB_IPV4_UNICAST,
            (IpPrefix::V6(_), false) => table_dump::RIB_IPV6_UNICAST,
            (IpPrefix::V4(_), true) => table_dump::RIB_IPV4_UNICAST_ADDPATH,
            (IpPrefix::V6(_), true) => table_dump::RIB_IPV6_UNICAST_ADDPATH,
        };
        self.record(time, kind::TABLE_DUMP_V2, subtype, |out| {
            put32(out, sequence);
            out.push(prefix.len());
            let end = out.len() + usize::from(prefix.len()).div_ceil(8);
            put_address(out, prefix.addr());
            out.truncate(end);
            put_count(out, entries.len(), "routes of a prefix")?;
            for entry in entries {
                put16(out, entry.peer);
                put32(out, entry.originated);
                if has_ids {
                    put32(out, entry.path_id.unwrap_or_default());
                }
                put_count(out, entry.attributes.len(), "octets of attributes")?;
                out.extend_from_slice(entry.attributes);
            }
            Ok(())
        })
    }

    fn bgp(
        &mut self,
        time: u64,
        subtype: u16,
        session: &Session,
        rest: impl FnOnce(&mut Vec<u8>) -> Result<(), Unwritable>,
    ) -> Result<(), Unwritable> {
        let with_microseconds = self.with_microseconds;
        let kind = if with_microseconds { kind::BGP4MP_ET } else { kind::BGP4MP };
        let seconds = u32::try_from(time / 1_000_000).map_err(|_| Unwritable::Time)?;
        self.record(seconds, kind, subtype, |out| {
            if with_microseconds {
                put32(out, (time % 1_000_000) as u32);
            }
            for asn in [session.peer_as, session.local_as] {
                if matches!(subtype, bgp4mp::MESSAGE | bgp4mp::MESSAGE_ADDPATH) {
                    put16(out, u16::try_from(asn.0).unwrap_or(AS_TRANS));
                } else {
                    put32(out, asn.0);
                }
            }
            put16(out, session.interface);
            let family = if matches!(session.addresses, Addresses::V4 { .. }) { 1 } else { 2 };
            put16(out, family);
            put_address(out, session.addresses.peer());
            put_address(out, session.addresses.local());
            rest(out)
        })
    }

    /// A record with the common header (RFC 6396, section 2).
    fn record(
        &mut self,
        seconds: u32,
        kind: u16,
        subtype: u16,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), Unwritable>,
    ) -> Result<(), Unwritable> {
        let out = &mut self.octets;
        let start = out.len();
        put32(out, seconds);
        put16(out, kind);
        put16(out, subtype);
        put32(out, 0);
        let begin = out.len();
        let written = body(out).and_then(|()| {
            u32::try_from(out.len() - begin).map_err(|_| Unwritable::TooLong("octets of a record"))
        });
        match written {
            Ok(len) => out[begin - 4..begin].copy_from_slice(&len.to_be_bytes()),
            Err(_) => out.truncate(start),
        }
        written.map(|_| ())
    }
}

/// The AS number in place of a number too large for 2 octets (RFC 6793, section 9).
const AS_TRANS: u16 = 23_456;

/// A message's own length has 16 bits (RFC 8654, section 4).
fn put_message(out: &mut Vec<u8>, message: &[u8]) -> Result<(), Unwritable> {
    u16::try_from(message.len()).map_err(|_| Unwritable::TooLong("octets of a message"))?;
    out.extend_from_slice(message);
    Ok(())
}

fn put_count(out: &mut Vec<u8>, count: usize, what: &'static str) -> Result<(), Unwritable> {
    put16(out, u16::try_from(count).map_err(|_| Unwritable::TooLong(what))?);
    Ok(())
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(a) => out.extend_from_slice(&a.octets()),
        IpAddr::V6(a) => out.extend_from_slice(&a.octets()),
    }
}
