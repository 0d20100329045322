//! NWP, the Neighborhood Watch Protocol: HIDs and link-layer addresses of neighbors, in Ethernet frames of type 0xC0DF.
//!
//! Two forms share version 1. The basic form has announcements and neighbor lists; the monitoring form adds clocks, states and
//! probes. The interface's configuration names the form: octets do not. The proof of a HID's ownership
//! ([`super::nwp::Challenge`]) is of either form, and has types that other implementations drop as unknown.

use super::Mac;
use super::hid::Hid;
use alloc::vec::Vec;
use core::fmt;
use serde::Serialize;
use sluice_wire::{Cursor, Truncated};

mod encode;
mod proof;

pub use proof::{Challenge, Nonce, Response, signed_octets};
pub(crate) use proof::{NONCE_LEN, SIGNED_LEN};

/// The version of NWP.
pub const VERSION: u8 = 1;
/// The most HIDs of a frame.
pub(crate) const MOST_HIDS: usize = 255;

/// Message types.
pub mod kind {
    /// Announcement of the sender's HIDs.
    pub(crate) const ANNOUNCEMENT: u8 = 1;
    /// List of neighbors.
    pub const LIST: u8 = 2;
    /// Probe of a neighbor.
    pub(crate) const PING: u8 = 3;
    /// Answer to a probe.
    pub const ACK: u8 = 4;
    /// Request to an investigator to probe a neighbor.
    pub(crate) const REQ_PING: u8 = 5;
    /// Answer of an investigator.
    pub(crate) const REQ_ACK: u8 = 6;
    /// Probe by an investigator.
    pub(crate) const INV_PING: u8 = 7;
    /// Challenge to prove the ownership of a HID.
    pub(crate) const CHALLENGE: u8 = 0x80;
    /// Proof of the ownership of a HID.
    pub(crate) const RESPONSE: u8 = 0x81;
}

/// The form of NWP on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Form {
    /// Announcements and lists.
    Basic,
    /// With clocks, states and probes.
    Monitoring,
}

/// A frame's payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// The sender's HIDs.
    Announcement(Announcement),
    /// Neighbors that the sender knows.
    List(Vec<Listed>),
    /// A probe, or the answer to a probe.
    Probe(Probe),
    /// A challenge.
    Challenge(Challenge),
    /// A proof.
    Response(Response<'a>),
}

/// An announcement of HIDs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The sender's clock in seconds; in the monitoring form only.
    pub clock: Option<u32>,
    /// The sender's address.
    pub sender: Mac,
    /// The sender's HIDs, 1 to 255.
    pub hids: Vec<Hid>,
}

/// A neighbor in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The neighbor's HID.
    pub hid: Hid,
    /// The neighbor's addresses, at most 255.
    pub addresses: Vec<ListedAddress>,
}

/// An address in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedAddress {
    /// The address.
    pub mac: Mac,
    /// The state; in the monitoring form only.
    pub status: Option<Status>,
}

/// The state of an address in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// True if the address answers.
    pub is_alive: bool,
    /// The neighbor's clock in seconds, as last received; 31 bits.
    pub clock: u32,
}

impl Status {
    const ALIVE: u32 = 1 << 31;

    fn of(word: u32) -> Self {
        Status { is_alive: word & Self::ALIVE != 0, clock: word & !Self::ALIVE }
    }

    fn word(self) -> u32 {
        self.clock & !Self::ALIVE | if self.is_alive { Self::ALIVE } else { 0 }
    }
}

/// The purpose of a probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ProbeKind {
    /// Asks the destination for an ACK.
    Ping,
    /// Answers a PING.
    Ack,
    /// Asks the destination, an investigator, to probe the investigated address.
    RequestPing,
    /// Answers a request: the investigated address is alive.
    RequestAck,
    /// Probes the investigated address, which is the destination, for a third host.
    InvestigationPing,
}

/// A probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The purpose.
    pub kind: ProbeKind,
    /// The sender's clock in seconds.
    pub clock: u32,
    /// The sender.
    pub source: Mac,
    /// The receiver.
    pub destination: Mac,
    /// The third address; in probes of and for investigators only.
    pub investigated: Option<Mac>,
}

impl ProbeKind {
    const fn of(kind: u8) -> Option<Self> {
        Some(match kind {
            kind::PING => ProbeKind::Ping,
            kind::ACK => ProbeKind::Ack,
            kind::REQ_PING => ProbeKind::RequestPing,
            kind::REQ_ACK => ProbeKind::RequestAck,
            kind::INV_PING => ProbeKind::InvestigationPing,
            _ => return None,
        })
    }

    /// Returns the message type.
    pub const fn octet(self) -> u8 {
        match self {
            ProbeKind::Ping => kind::PING,
            ProbeKind::Ack => kind::ACK,
            ProbeKind::RequestPing => kind::REQ_PING,
            ProbeKind::RequestAck => kind::REQ_ACK,
            ProbeKind::InvestigationPing => kind::INV_PING,
        }
    }

    /// Returns true if the probe has a third address.
    pub const fn has_investigated(self) -> bool {
        !matches!(self, ProbeKind::Ping | ProbeKind::Ack)
    }
}

impl<'a> Message<'a> {
    /// Reads a frame's payload. Octets after the message are padding of the link layer. Takes at most as much memory as the
    /// frame's octets explain.
    ///
    /// # Errors
    /// [`NwpError`].
    pub fn decode(octets: &'a [u8], form: Form) -> Result<Self, NwpError> {
        let mut c = Cursor::new(octets);
        let [version, kind, hid_count, haddr_len] = c.array()?;
        if version != VERSION {
            return Err(NwpError::Version(version));
        }
        let probe = ProbeKind::of(kind).filter(|_| form == Form::Monitoring);
        let is_known = matches!(kind, kind::ANNOUNCEMENT | kind::LIST | kind::CHALLENGE | kind::RESPONSE);
        if probe.is_none() && !is_known {
            return Err(NwpError::Kind(kind));
        }
        if probe.is_none() && hid_count == 0 {
            return Err(NwpError::NoHids);
        }
        if usize::from(haddr_len) != Mac::LEN {
            return Err(NwpError::AddressLength(haddr_len));
        }
        if let Some(kind) = probe {
            return Ok(Message::Probe(decode_probe(&mut c, kind)?));
        }
        Ok(match kind {
            kind::ANNOUNCEMENT => Message::Announcement(decode_announcement(&mut c, form, hid_count)?),
            kind::LIST => Message::List(decode_list(&mut c, form, hid_count)?),
            kind::CHALLENGE => Message::Challenge(Challenge::decode(&mut c, hid_count)?),
            _ => Message::Response(Response::decode(&mut c, hid_count)?),
        })
    }
}

fn mac(c: &mut Cursor<'_>) -> Result<Mac, Truncated> {
    c.array().map(Mac)
}

fn decode_announcement(c: &mut Cursor<'_>, form: Form, count: u8) -> Result<Announcement, NwpError> {
    let clock = if form == Form::Monitoring { Some(c.u32()?) } else { None };
    let sender = mac(c)?;
    let hids = c.take(usize::from(count) * Hid::LEN)?;
    let hids = hids.as_chunks::<{ Hid::LEN }>().0.iter().map(|hid| Hid(*hid)).collect();
    Ok(Announcement { clock, sender, hids })
}

fn decode_list(c: &mut Cursor<'_>, form: Form, count: u8) -> Result<Vec<Listed>, NwpError> {
    let mut neighbors = Vec::new();
    for _ in 0..count {
        let hid = Hid(c.array()?);
        let mut addresses = Vec::new();
        for _ in 0..c.u8()? {
            let mac = mac(c)?;
            let status = if form == Form::Monitoring { Some(Status::of(c.u32()?)) } else { None };
            addresses.push(ListedAddress { mac, status });
        }
        neighbors.push(Listed { hid, addresses });
    }
    Ok(neighbors)
}

fn decode_probe(c: &mut Cursor<'_>, kind: ProbeKind) -> Result<Probe, NwpError> {
    let clock = c.u32()?;
    let (source, destination) = (mac(c)?, mac(c)?);
    let investigated = if kind.has_investigated() { Some(mac(c)?) } else { None };
    Ok(Probe { kind, clock, source, destination, investigated })
}

/// The reason why a frame is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NwpError {
    /// The frame ends within the message.
    Truncated,
    /// The version is not 1.
    Version(u8),
    /// The type is unknown in the link's form.
    Kind(u8),
    /// The frame has no HID.
    NoHids,
    /// The length of link-layer addresses is not 6.
    AddressLength(u8),
    /// A challenge or proof is not about a single HID, or its key or signature is empty or too long.
    Proof,
}

impl NwpError {
    /// The name, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            NwpError::Truncated => "truncated",
            NwpError::Version(_) => "version",
            NwpError::Kind(_) => "unknown-type",
            NwpError::NoHids => "no-hids",
            NwpError::AddressLength(_) => "address-length",
            NwpError::Proof => "malformed-proof",
        }
    }
}

impl From<Truncated> for NwpError {
    fn from(_: Truncated) -> Self {
        NwpError::Truncated
    }
}

impl fmt::Display for NwpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NwpError::Truncated => f.write_str("the frame ends within the message"),
            NwpError::Version(version) => write!(f, "version {version}, expected 1"),
            NwpError::Kind(kind) => write!(f, "unknown type {kind:#x}"),
            NwpError::NoHids => f.write_str("the frame has no HID"),
            NwpError::AddressLength(len) => write!(f, "link-layer addresses of {len} octets, expected 6"),
            NwpError::Proof => f.write_str("malformed challenge or proof"),
        }
    }
}

impl core::error::Error for NwpError {}
