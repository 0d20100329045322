//! Announcements: an element's description of itself, in a broadcast frame with a tag of HMAC-SHA-256.
//!
//! Lists and counts of elements follow from announcements. An element is in service once the cluster's store has it too.

use crate::frames::header::{FrameError, Header, Kind, Stamp};
use crate::frames::key::{ClusterKey, KeyRing};
use crate::frames::signed::{self, MOST_BODY};
use crate::inventory::{Element, ElementId, OuterPort, PortNumber, Role, Roles};
use crate::mac::Mac;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_wire::Cursor;

/// Octets of the longest name.
pub const MOST_NAME: usize = 63;

/// An element's description of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The element.
    pub element: Element,
    /// The MAC address on the interconnect.
    pub mac: Mac,
    /// The addresses on the interconnect.
    pub addresses: Vec<IpAddr>,
    /// The place among the sender's announcements.
    pub stamp: Stamp,
}

/// An announcement that fits no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl core::fmt::Display for TooLong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the announcement needs more than {MOST_BODY} octets, or a name more than {MOST_NAME}")
    }
}

impl core::error::Error for TooLong {}

impl Announcement {
    /// Returns the frame's payload.
    ///
    /// # Errors
    ///
    /// If ports, addresses and names do not fit.
    pub fn encode(&self, key: &ClusterKey) -> Result<Vec<u8>, TooLong> {
        let mut body = Vec::new();
        let Element { id, name, roles, weight, ports } = &self.element;
        body.push(bits(roles));
        body.extend_from_slice(&weight.to_be_bytes());
        put_name(&mut body, name)?;
        body.extend_from_slice(&self.mac.0);
        body.push(u8::try_from(ports.len()).map_err(|_| TooLong)?);
        for port in ports {
            body.extend_from_slice(&port.number.number().to_be_bytes());
            body.extend_from_slice(&port.mac.0);
            put_name(&mut body, &port.interface)?;
        }
        body.push(u8::try_from(self.addresses.len()).map_err(|_| TooLong)?);
        for address in &self.addresses {
            match address {
                IpAddr::V4(address) => {
                    body.push(4);
                    body.extend_from_slice(&address.octets());
                }
                IpAddr::V6(address) => {
                    body.push(6);
                    body.extend_from_slice(&address.octets());
                }
            }
        }
        let sealed = signed::seal(Kind::Announcement, *id, self.stamp, &body, key);
        sealed.ok_or(TooLong)
    }

    /// Reads a frame's payload. The tag is verified before the content is read. Octets behind the tag are Ethernet's padding.
    ///
    /// # Errors
    ///
    /// If the payload is no announcement, no key gives its tag, or the content is malformed.
    pub fn decode(octets: &[u8], keys: &KeyRing) -> Result<Self, FrameError> {
        let (header, mut body) = signed::open(octets, keys)?;
        if header.kind != Kind::Announcement {
            return Err(FrameError::Kind(header.kind as u8));
        }
        read(&header, &mut body)
    }
}

fn read(header: &Header, body: &mut Cursor<'_>) -> Result<Announcement, FrameError> {
    let at = body.offset();
    let roles = roles(body.u8()?).ok_or(FrameError::Body(at))?;
    let weight = body.u16()?;
    let name = name(body)?;
    let mac = Mac(body.array()?);
    let mut ports = Vec::new();
    for _ in 0..body.u8()? {
        let at = body.offset();
        let number = PortNumber::new(body.u16()?).ok_or(FrameError::Body(at))?;
        let mac = Mac(body.array()?);
        ports.push(OuterPort { number, mac, interface: self::name(body)? });
    }
    let mut addresses = Vec::new();
    for _ in 0..body.u8()? {
        let at = body.offset();
        addresses.push(match body.u8()? {
            4 => IpAddr::V4(Ipv4Addr::from(body.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(body.array::<16>()?)),
            _ => return Err(FrameError::Body(at)),
        });
    }
    if !body.is_empty() {
        return Err(FrameError::Body(body.offset()));
    }
    let id: ElementId = header.element;
    let element = Element { id, name, roles, weight, ports };
    Ok(Announcement { element, mac, addresses, stamp: header.stamp })
}

fn put_name(body: &mut Vec<u8>, name: &str) -> Result<(), TooLong> {
    if name.len() > MOST_NAME {
        return Err(TooLong);
    }
    body.push(name.len() as u8);
    body.extend_from_slice(name.as_bytes());
    Ok(())
}

fn name(body: &mut Cursor<'_>) -> Result<String, FrameError> {
    let at = body.offset();
    let length = usize::from(body.u8()?);
    if length > MOST_NAME {
        return Err(FrameError::Body(at));
    }
    let octets = body.take(length)?;
    core::str::from_utf8(octets).map(String::from).map_err(|_| FrameError::Body(at))
}

fn bits(roles: &Roles) -> u8 {
    let bit = |role: &Role| Role::ALL.iter().position(|known| known == role).map_or(0, |place| 1 << place);
    roles.iter().fold(0, |bits, role| bits | bit(role))
}

/// Returns the roles of a set of bits, `None` if a bit has no meaning.
fn roles(bits: u8) -> Option<Roles> {
    let roles = Role::ALL.iter().enumerate().filter(|(place, _)| bits & 1 << place != 0);
    (bits >> Role::ALL.len() == 0).then(|| roles.map(|(_, role)| *role).collect())
}
