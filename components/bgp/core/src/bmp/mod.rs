//! BGP Monitoring Protocol, version 3 (RFC 7854), with the RIBs of RFC 8671 and RFC 9069: octets, and the state of a station.
//!
//! The protocol has one direction: the router sends, the station listens. So there is no decoder. [`Station`] decides which messages a
//! station is sent, of what the tables, control and the intakes of connections say; this file writes them.

mod event;
mod monitored;
mod settings;
mod station;
#[cfg(test)]
mod tests;

pub use event::{StationEvent, StationFailure};
pub use monitored::{
    MirroredMessages, MonitoredPeer, MonitoredRouter, MonitoredSession, Now, PeerChange, PeerStatistics,
    StationCounters,
};
pub use settings::{BmpSettings, StationSettings};
pub use station::Station;

pub(crate) use super::event::down::DownReason;
use crate::family::{FamilyCodes, FamilyIndex};
use crate::shard::MonitoredRib;
use crate::wire::{Notification, Open};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Asn, RouterId};

/// The version of the protocol.
const VERSION: u8 = 3;
/// Octets of the common header.
const HEADER_LEN: usize = 6;

/// Message types (RFC 7854, section 4.1).
mod kind {
    pub(crate) const ROUTE_MONITORING: u8 = 0;
    pub(crate) const STATISTICS: u8 = 1;
    pub(crate) const PEER_DOWN: u8 = 2;
    pub(crate) const PEER_UP: u8 = 3;
    pub(crate) const INITIATION: u8 = 4;
    pub(crate) const TERMINATION: u8 = 5;
    pub(crate) const ROUTE_MIRRORING: u8 = 6;
}

/// Flags of the per-peer header (RFC 7854, section 4.2; RFC 8671, section 4).
mod flag {
    pub const IPV6: u8 = 0x80;
    pub(crate) const POST_POLICY: u8 = 0x40;
    /// AS numbers in the message have two octets.
    pub(crate) const LEGACY_AS_PATH: u8 = 0x20;
    pub(crate) const ADJ_RIB_OUT: u8 = 0x10;
}

/// Types of peers.
mod peer_type {
    pub(crate) const GLOBAL: u8 = 0;
    pub(crate) const LOCAL_INSTANCE: u8 = 2;
    pub(crate) const LOC_RIB: u8 = 3;
}

/// Types of information.
mod information {
    pub(crate) const SYS_DESCR: u16 = 1;
    pub(crate) const SYS_NAME: u16 = 2;
    /// In Peer Up and Peer Down (RFC 9069, section 5.2.1).
    pub(crate) const TABLE_NAME: u16 = 3;
    /// In a Termination message.
    pub const REASON: u16 = 1;
}

/// Types of information in Route Mirroring (RFC 7854, section 4.7), and codes of the type Information.
mod mirroring {
    pub const MESSAGE: u16 = 0;
    pub(crate) const INFORMATION: u16 = 1;
    pub(crate) const ERRORED: u16 = 0;
    pub const LOST: u16 = 1;
}

/// A time since 1970 (UTC); all zero where the time is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamp {
    /// Seconds.
    pub seconds: u32,
    /// Microseconds, below 1,000,000.
    pub microseconds: u32,
}

/// The routing instance that a router's BGP runs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// The name, of 1 to 255 octets: `global` for the default instance (RFC 9069, section 5.2.1).
    pub name: alloc::string::String,
    /// The peer distinguisher: 0 for the default instance, another number for each other instance of the router.
    pub distinguisher: u64,
}

/// The per-peer header (RFC 7854, section 4.2), but for flags and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeerHeader {
    distinguisher: u64,
    /// The peer's address; `None` for the Loc-RIB.
    address: Option<IpAddr>,
    asn: Asn,
    router_id: RouterId,
}

/// The reason of a Peer Down message (RFC 7854, section 4.9).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DownCause {
    /// The router ended the session with this NOTIFICATION.
    LocalNotification(Notification),
    /// The router ended the session for this event (RFC 4271, section 8.1), without a NOTIFICATION; 0 for no event.
    LocalEvent(u16),
    /// The peer ended the session with this NOTIFICATION.
    RemoteNotification(Notification),
    /// The connection ended without a NOTIFICATION.
    RemoteClosed,
    /// The peer is no longer configured, or no longer monitored.
    Deconfigured,
}

impl DownCause {
    /// ManualStop (RFC 4271, section 8.1.2, event 2).
    const MANUAL_STOP: u16 = 2;

    /// Returns the cause for the reason of a session's end. `sent` is the NOTIFICATION that the router sent, if any.
    pub fn of(reason: &DownReason, sent: Option<&Notification>) -> Self {
        match reason {
            DownReason::Stopped => match sent {
                Some(notification) => DownCause::LocalNotification(notification.clone()),
                None => DownCause::LocalEvent(Self::MANUAL_STOP),
            },
            DownReason::Sent(notification) => DownCause::LocalNotification(notification.clone()),
            DownReason::Received(notification) => DownCause::RemoteNotification(notification.clone()),
            DownReason::ConnectionLost | DownReason::ConnectionFailed(_) | DownReason::WrongPeerAs { .. } => {
                DownCause::RemoteClosed
            }
        }
    }
}

/// The reason of a Termination message (RFC 7854, section 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Termination {
    /// The router ends the connection, and may come again.
    Closed = 0,
    /// The station is no longer configured.
    PermanentlyClosed = 4,
}

/// A statistic (RFC 7854, section 4.8; RFC 8671, section 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Statistic {
    /// A counter of 32 bits, by type. A larger count wraps.
    Counter(u16, u64),
    /// A gauge, by type.
    Gauge(u16, u64),
    /// A gauge of a family, by type.
    OfFamily(u16, FamilyIndex, u64),
}

/// Starts a message and returns its place for [`finish`].
fn start(kind: u8, out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[VERSION, 0, 0, 0, 0, kind]);
    at
}

/// Puts the length into the message that was started at `at`.
fn finish(at: usize, out: &mut [u8]) {
    let len = (out.len() - at) as u32;
    out[at + 1..at + HEADER_LEN - 1].copy_from_slice(&len.to_be_bytes());
}

fn put_information(kind: u16, value: &[u8], out: &mut Vec<u8>) {
    let value = &value[..value.len().min(u16::MAX.into())];
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
}

/// Appends an address in 16 octets; an IPv4 address is in the last four.
fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            out.extend_from_slice(&[0; 12]);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

impl PeerHeader {
    fn put(&self, flags: u8, time: Timestamp, out: &mut Vec<u8>) {
        let kind = match (self.address, self.distinguisher) {
            (None, _) => peer_type::LOC_RIB,
            (Some(_), 0) => peer_type::GLOBAL,
            (Some(_), _) => peer_type::LOCAL_INSTANCE,
        };
        let family = if self.address.is_some_and(|address| address.is_ipv6()) { flag::IPV6 } else { 0 };
        out.extend_from_slice(&[kind, flags | family]);
        out.extend_from_slice(&self.distinguisher.to_be_bytes());
        match self.address {
            Some(address) => put_address(address, out),
            None => out.extend_from_slice(&[0; 16]),
        }
        out.extend_from_slice(&self.asn.0.to_be_bytes());
        out.extend_from_slice(&self.router_id.0.to_be_bytes());
        out.extend_from_slice(&time.seconds.to_be_bytes());
        out.extend_from_slice(&time.microseconds.to_be_bytes());
    }
}

/// Returns the flags of the routes of a RIB.
const fn flags_of(rib: MonitoredRib) -> u8 {
    match rib {
        MonitoredRib::PrePolicy | MonitoredRib::LocalRib => 0,
        MonitoredRib::PostPolicy => flag::POST_POLICY,
        MonitoredRib::AdjRibOutPre => flag::ADJ_RIB_OUT,
        MonitoredRib::AdjRibOutPost => flag::ADJ_RIB_OUT | flag::POST_POLICY,
    }
}

/// Appends Initiation: the first message (RFC 7854, section 4.3). `description` is a text about software and version.
fn put_initiation(name: &str, description: &str, out: &mut Vec<u8>) {
    let at = start(kind::INITIATION, out);
    put_information(information::SYS_DESCR, description.as_bytes(), out);
    put_information(information::SYS_NAME, name.as_bytes(), out);
    finish(at, out);
}

/// Appends Termination: the last message.
fn put_termination(reason: Termination, out: &mut Vec<u8>) {
    let at = start(kind::TERMINATION, out);
    put_information(information::REASON, &(reason as u16).to_be_bytes(), out);
    finish(at, out);
}

/// Appends Route Monitoring with an UPDATE message.
fn put_routes(peer: &PeerHeader, rib: MonitoredRib, time: Timestamp, update: &[u8], out: &mut Vec<u8>) {
    let at = start(kind::ROUTE_MONITORING, out);
    peer.put(flags_of(rib), time, out);
    out.extend_from_slice(update);
    finish(at, out);
}

/// Appends Route Monitoring with the End-of-RIB marker of a family.
fn put_end_of_rib(
    peer: &PeerHeader,
    rib: MonitoredRib,
    (family, codes): (FamilyIndex, &FamilyCodes),
    time: Timestamp,
    out: &mut Vec<u8>,
) {
    let mut update = Vec::new();
    crate::writer::put_end_of_rib(family, codes, &mut update);
    put_routes(peer, rib, time, &update, out);
}

/// Appends Route Mirroring (RFC 7854, section 4.7) with a malformed message as it came; without one, of the information that messages were
/// lost.
fn put_mirrored(peer: &PeerHeader, flags: u8, time: Timestamp, message: Option<&[u8]>, out: &mut Vec<u8>) {
    let at = start(kind::ROUTE_MIRRORING, out);
    peer.put(flags, time, out);
    let code = if message.is_some() { mirroring::ERRORED } else { mirroring::LOST };
    put_information(mirroring::INFORMATION, &code.to_be_bytes(), out);
    if let Some(message) = message {
        put_information(mirroring::MESSAGE, message, out);
    }
    finish(at, out);
}

/// The connection of a session, and both OPENs.
struct PeerUp<'a> {
    /// The router's address; `None` for the Loc-RIB.
    local: Option<IpAddr>,
    /// The ports of the router and of the peer; 0 where there is no connection.
    ports: (u16, u16),
    sent: &'a Open,
    received: &'a Open,
    /// The name of the Loc-RIB's table.
    table: Option<&'a str>,
}

/// Appends Peer Up (RFC 7854, section 4.10).
fn put_peer_up(peer: &PeerHeader, time: Timestamp, up: &PeerUp<'_>, out: &mut Vec<u8>) {
    let at = start(kind::PEER_UP, out);
    peer.put(0, time, out);
    match up.local {
        Some(address) => put_address(address, out),
        None => out.extend_from_slice(&[0; 16]),
    }
    out.extend_from_slice(&up.ports.0.to_be_bytes());
    out.extend_from_slice(&up.ports.1.to_be_bytes());
    up.sent.put(out);
    up.received.put(out);
    if let Some(name) = up.table {
        put_information(information::TABLE_NAME, name.as_bytes(), out);
    }
    finish(at, out);
}

/// Appends Peer Down (RFC 7854, section 4.9).
fn put_peer_down(peer: &PeerHeader, time: Timestamp, cause: &DownCause, out: &mut Vec<u8>) {
    let at = start(kind::PEER_DOWN, out);
    peer.put(0, time, out);
    match cause {
        DownCause::LocalNotification(notification) => {
            out.push(1);
            notification.put(out);
        }
        DownCause::LocalEvent(event) => {
            out.push(2);
            out.extend_from_slice(&event.to_be_bytes());
        }
        DownCause::RemoteNotification(notification) => {
            out.push(3);
            notification.put(out);
        }
        DownCause::RemoteClosed => out.push(4),
        DownCause::Deconfigured => out.push(5),
    }
    finish(at, out);
}

/// Appends a Statistics Report.
fn put_statistics(
    peer: &PeerHeader,
    time: Timestamp,
    statistics: &[Statistic],
    codes: &FamilyCodes,
    out: &mut Vec<u8>,
) {
    let at = start(kind::STATISTICS, out);
    peer.put(0, time, out);
    out.extend_from_slice(&(statistics.len() as u32).to_be_bytes());
    for statistic in statistics {
        match *statistic {
            Statistic::Counter(kind, count) => put_information(kind, &(count as u32).to_be_bytes(), out),
            Statistic::Gauge(kind, value) => put_information(kind, &value.to_be_bytes(), out),
            Statistic::OfFamily(kind, family, value) => {
                let value = [&codes.of(family).octets()[..], &value.to_be_bytes()].concat();
                put_information(kind, &value, out);
            }
        }
    }
    finish(at, out);
}
