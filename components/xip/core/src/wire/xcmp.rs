//! XCMP, the optional control messages of the original XIA prototype (next_hdr 61). The kernel sends none.
//!
//! Type, code and checksum are the prototype's. The rest follows ICMP (RFC 792): echoes have an identifier and a sequence
//! number; errors have four zero octets and quote the packet that caused the error.

use super::address::Dag;
use super::build::{BuildError, PacketHead};
use super::header::{Packet, next_header};
use super::udp::checksum;
use alloc::vec::Vec;
use core::fmt;
use sluice_wire::{Cursor, Truncated};

/// The most octets of an offending packet's payload that an error quotes.
pub(crate) const QUOTED_PAYLOAD: usize = 64;
/// The most octets of a message: 8, the largest header and [`QUOTED_PAYLOAD`].
pub const MOST_LEN: usize = 8 + super::header::MOST_LEN + QUOTED_PAYLOAD;

/// Message types.
mod kind {
    pub(super) const ECHO_REPLY: u8 = 0;
    pub(super) const UNREACHABLE: u8 = 3;
    pub(super) const ECHO: u8 = 8;
    pub(super) const TIME_EXCEEDED: u8 = 11;
}

/// A message. Octets are borrowed from the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// A request to answer (type 8).
    Echo(Echo<'a>),
    /// The answer to a request (type 0).
    EchoReply(Echo<'a>),
    /// A packet that no edge of its row could take further (type 3).
    Unreachable(Quote<'a>),
    /// A packet whose hop limit was used up (type 11).
    TimeExceeded(Quote<'a>),
}

/// The body of an echo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Echo<'a> {
    /// Names the sender's process.
    pub identifier: u16,
    /// Numbers the requests.
    pub sequence: u16,
    /// Octets that the answer repeats.
    pub data: &'a [u8],
}

/// The body of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quote<'a> {
    /// Refines the type; 0 in messages of this host.
    pub code: u8,
    /// The offending packet's header and the first octets of its payload.
    pub packet: &'a [u8],
}

impl<'a> Quote<'a> {
    /// Quotes the beginning of a packet.
    pub fn of(offending: &Packet<'a>) -> Self {
        let octets = offending.octets();
        let len = (offending.header_len() + QUOTED_PAYLOAD).min(octets.len());
        Quote { code: 0, packet: octets.get(..len).unwrap_or_default() }
    }
}

impl<'a> Message<'a> {
    /// Reads the payload of a packet with next_hdr 61.
    ///
    /// # Errors
    /// [`XcmpError`].
    pub fn decode(payload: &'a [u8]) -> Result<Self, XcmpError> {
        if payload.len() > MOST_LEN {
            return Err(XcmpError::Long);
        }
        let mut c = Cursor::new(payload);
        let (kind, code, _checksum) = (c.u8()?, c.u8()?, c.u16()?);
        let (identifier, sequence) = (c.u16()?, c.u16()?);
        if checksum(payload) != 0 {
            return Err(XcmpError::Checksum);
        }
        let echo = Echo { identifier, sequence, data: c.rest() };
        let quote = Quote { code, packet: c.rest() };
        match (kind, code) {
            (kind::ECHO, 0) => Ok(Message::Echo(echo)),
            (kind::ECHO_REPLY, 0) => Ok(Message::EchoReply(echo)),
            (kind::UNREACHABLE, _) => Ok(Message::Unreachable(quote)),
            (kind::TIME_EXCEEDED, _) => Ok(Message::TimeExceeded(quote)),
            _ => Err(XcmpError::Kind(kind, code)),
        }
    }

    /// Appends the message; data and quotes are cut to [`MOST_LEN`].
    pub fn put(&self, out: &mut Vec<u8>) {
        let at = out.len();
        let (kind, code, [a, b], [c, d], rest) = match *self {
            Message::Echo(Echo { identifier, sequence, data }) => {
                (kind::ECHO, 0, identifier.to_be_bytes(), sequence.to_be_bytes(), data)
            }
            Message::EchoReply(Echo { identifier, sequence, data }) => {
                (kind::ECHO_REPLY, 0, identifier.to_be_bytes(), sequence.to_be_bytes(), data)
            }
            Message::Unreachable(Quote { code, packet }) => (kind::UNREACHABLE, code, [0; 2], [0; 2], packet),
            Message::TimeExceeded(Quote { code, packet }) => {
                (kind::TIME_EXCEEDED, code, [0; 2], [0; 2], packet)
            }
        };
        out.extend_from_slice(&[kind, code, 0, 0, a, b, c, d]);
        out.extend(rest.iter().take(MOST_LEN - 8));
        let sum = checksum(out.get(at..).unwrap_or_default()).to_be_bytes();
        if let Some(place) = out.get_mut(at + 2..at + 4) {
            place.copy_from_slice(&sum);
        }
    }

    /// Returns true for errors, about which no error is sent.
    pub const fn is_error(&self) -> bool {
        matches!(self, Message::Unreachable(_) | Message::TimeExceeded(_))
    }
}

/// Returns true if an error about `packet` may be sent: the packet has a valid source, and is no XCMP message other than an
/// echo (RFC 1122, section 3.2.2).
pub fn may_report(packet: &Packet<'_>) -> bool {
    let source = packet.source().without_marks();
    let is_named = !source.is_empty() && source.validate().is_ok();
    let is_xcmp = packet.next_header() == next_header::XCMP;
    let is_echo =
        || matches!(Message::decode(packet.payload()), Ok(Message::Echo(_) | Message::EchoReply(_)));
    is_named && (!is_xcmp || is_echo())
}

/// Appends a packet with `message` that answers `packet`: to its source without marks, from `local`.
///
/// # Errors
/// [`BuildError::NoDestination`] if the packet has no source.
pub fn put_answer(
    packet: &Packet<'_>,
    local: Dag,
    message: &Message<'_>,
    out: &mut Vec<u8>,
) -> Result<(), BuildError> {
    let mut payload = Vec::new();
    message.put(&mut payload);
    let head = PacketHead {
        next_header: next_header::XCMP,
        ..PacketHead::new(packet.source().without_marks(), local)
    };
    head.put(&payload, out)
}

/// The reason why a payload is no XCMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XcmpError {
    /// The payload ends within the message.
    Truncated(Truncated),
    /// The payload is longer than [`MOST_LEN`].
    Long,
    /// The checksum does not fit.
    Checksum,
    /// The type and code are not supported.
    Kind(u8, u8),
}

impl XcmpError {
    /// The name, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            XcmpError::Truncated(_) => "truncated",
            XcmpError::Long => "long",
            XcmpError::Checksum => "checksum",
            XcmpError::Kind(..) => "unknown-type",
        }
    }
}

impl From<Truncated> for XcmpError {
    fn from(error: Truncated) -> Self {
        XcmpError::Truncated(error)
    }
}

impl fmt::Display for XcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XcmpError::Truncated(error) => error.fmt(f),
            XcmpError::Long => write!(f, "longer than {MOST_LEN} octets"),
            XcmpError::Checksum => f.write_str("wrong checksum"),
            XcmpError::Kind(kind, code) => write!(f, "unknown type {kind}, code {code}"),
        }
    }
}

impl core::error::Error for XcmpError {}
