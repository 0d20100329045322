//! XIP in UDP: the XIDs of tunnel ends (U4ID, U6ID, uni4id) and the UDP header.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use sluice_base::{Xid, XidType};

/// The UDP port that every uni4id implies.
pub const UNI4ID_PORT: u16 = 13781;
/// The fixed first octets of a uni4id.
const UNI4ID_PREFIX: [u8; 16] = [0x45, 0, 0, 0, 0, 1, 0, 0, 0xfa, 0xfa, 0, 0, 0, 0, 0, 0];
/// IP's number of UDP.
const PROTOCOL: u8 = 17;

/// The reason why an XID's ID has no meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IllFormed {
    /// The XID has a different type.
    Type,
    /// The address is all zeros.
    Address,
    /// The port is 0.
    Port,
    /// Octets after the address and the port are not zero.
    Rest,
    /// The first 16 octets are not those of a uni4id.
    Prefix,
}

impl IllFormed {
    /// The name, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            IllFormed::Type => "type",
            IllFormed::Address => "address",
            IllFormed::Port => "port",
            IllFormed::Rest => "rest",
            IllFormed::Prefix => "prefix",
        }
    }
}

impl fmt::Display for IllFormed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IllFormed::Type => "the XID has a different type",
            IllFormed::Address => "the address is zero",
            IllFormed::Port => "the port is zero",
            IllFormed::Rest => "the octets after address and port are not zero",
            IllFormed::Prefix => "the first 16 octets are not those of a uni4id",
        })
    }
}

impl core::error::Error for IllFormed {}

/// Returns the U4ID of an address and port: address, port, 14 zero octets.
pub fn u4id(end: SocketAddrV4) -> Xid {
    let ([a, b, c, d], [e, f]) = (end.ip().octets(), end.port().to_be_bytes());
    Xid { kind: XidType::U4ID, id: [a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }
}

/// Returns the U6ID of an address and port: address, port, 2 zero octets. Scope and flow label are left out.
pub fn u6id(end: SocketAddrV6) -> Xid {
    let mut id = [0; 20];
    let octets = end.ip().octets().into_iter().chain(end.port().to_be_bytes());
    id.iter_mut().zip(octets).for_each(|(place, octet)| *place = octet);
    Xid { kind: XidType::U6ID, id }
}

/// Returns the uni4id of an address.
pub fn uni4id(addr: Ipv4Addr) -> Xid {
    let mut id = [0; 20];
    let octets = UNI4ID_PREFIX.into_iter().chain(addr.octets());
    id.iter_mut().zip(octets).for_each(|(place, octet)| *place = octet);
    Xid { kind: XidType::UNI4ID, id }
}

/// Returns the tunnel end that a U4ID or U6ID names.
///
/// # Errors
/// [`IllFormed`]: the type is neither, address or port is zero, or the remaining octets are not zero.
pub fn end(xid: Xid) -> Result<SocketAddr, IllFormed> {
    let (end, rest) = match xid.kind {
        XidType::U4ID => {
            let [a, b, c, d, e, f, rest @ ..] = &xid.id;
            let addr = Ipv4Addr::new(*a, *b, *c, *d);
            (SocketAddr::from((addr, u16::from_be_bytes([*e, *f]))), &rest[..])
        }
        XidType::U6ID => {
            let (addr, rest) = xid.id.split_first_chunk::<16>().ok_or(IllFormed::Type)?;
            let (port, rest) = rest.split_first_chunk::<2>().ok_or(IllFormed::Type)?;
            (SocketAddr::from((Ipv6Addr::from(*addr), u16::from_be_bytes(*port))), rest)
        }
        _ => return Err(IllFormed::Type),
    };
    if end.ip().is_unspecified() {
        return Err(IllFormed::Address);
    }
    if end.port() == 0 {
        return Err(IllFormed::Port);
    }
    if rest.iter().any(|octet| *octet != 0) { Err(IllFormed::Rest) } else { Ok(end) }
}

/// Returns the address of a uni4id.
///
/// # Errors
/// [`IllFormed::Type`], [`IllFormed::Prefix`].
pub fn uni4id_address(xid: Xid) -> Result<Ipv4Addr, IllFormed> {
    if xid.kind != XidType::UNI4ID {
        return Err(IllFormed::Type);
    }
    let addr = xid.id.strip_prefix(&UNI4ID_PREFIX).ok_or(IllFormed::Prefix)?;
    let addr: [u8; 4] = addr.try_into().map_err(|_| IllFormed::Prefix)?;
    Ok(addr.into())
}

/// Returns the U4ID to which a uni4id redirects: the address, with port 13781.
///
/// # Errors
/// Those of [`uni4id_address`].
pub fn uni4id_redirect(xid: Xid) -> Result<Xid, IllFormed> {
    uni4id_address(xid).map(|addr| u4id(SocketAddrV4::new(addr, UNI4ID_PORT)))
}

/// The two ends of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// Over IPv4.
    V4 {
        /// The sender.
        from: SocketAddrV4,
        /// The receiver.
        to: SocketAddrV4,
    },
    /// Over IPv6.
    V6 {
        /// The sender.
        from: SocketAddrV6,
        /// The receiver.
        to: SocketAddrV6,
    },
}

/// A UDP header (RFC 768).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpHeader {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// Octets of header and payload.
    pub length: u16,
    /// The checksum; 0 for none.
    pub checksum: u16,
}

impl UdpHeader {
    /// Octets of the header.
    pub const LEN: usize = 8;

    /// Returns the header of a datagram, with a checksum if `with_checksum`. `None` if the payload is longer than 65,527 octets.
    ///
    /// Over IPv6, a datagram without checksum needs a receiver that accepts one (RFC 6935).
    pub fn of(ends: Ends, payload: &[u8], with_checksum: bool) -> Option<Self> {
        let length = u16::try_from(Self::LEN + payload.len()).ok()?;
        let (source, destination) = match ends {
            Ends::V4 { from, to } => (from.port(), to.port()),
            Ends::V6 { from, to } => (from.port(), to.port()),
        };
        let mut header = UdpHeader { source, destination, length, checksum: 0 };
        if with_checksum {
            header.checksum = match header.computed(ends, payload) {
                0 => 0xffff,
                sum => sum,
            };
        }
        Some(header)
    }

    /// Reads the header of a datagram, and the payload without octets after the length.
    ///
    /// `None` if the datagram is shorter than its header or its length.
    pub fn decode(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, payload) = datagram.split_first_chunk::<{ Self::LEN }>()?;
        let [a, b, c, d, e, f, g, h] = *header;
        let [source, destination, length, checksum] =
            [[a, b], [c, d], [e, f], [g, h]].map(u16::from_be_bytes);
        let payload = payload.get(..usize::from(length).checked_sub(Self::LEN)?)?;
        Some((UdpHeader { source, destination, length, checksum }, payload))
    }

    /// Returns the header's octets.
    pub fn octets(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        let fields = [self.source, self.destination, self.length, self.checksum];
        let values = fields.into_iter().flat_map(u16::to_be_bytes);
        octets.iter_mut().zip(values).for_each(|(place, octet)| *place = octet);
        octets
    }

    /// Returns true if the checksum fits the datagram. A datagram without checksum passes.
    pub fn is_intact(self, ends: Ends, payload: &[u8]) -> bool {
        let expected = match (UdpHeader { checksum: 0, ..self }).computed(ends, payload) {
            0 => 0xffff,
            sum => sum,
        };
        self.checksum == 0 || self.checksum == expected
    }

    /// The checksum over pseudo header, header with its checksum field, and payload.
    fn computed(self, ends: Ends, payload: &[u8]) -> u16 {
        let pseudo = u32::from(PROTOCOL) + u32::from(self.length);
        let addresses = match ends {
            Ends::V4 { from, to } => sum(&from.ip().octets()) + sum(&to.ip().octets()),
            Ends::V6 { from, to } => sum(&from.ip().octets()) + sum(&to.ip().octets()),
        };
        !fold(pseudo + addresses + sum(&self.octets()) + sum(payload))
    }
}

/// Returns the Internet checksum (RFC 1071) of `octets`.
pub fn checksum(octets: &[u8]) -> u16 {
    !fold(sum(octets))
}

/// The sum of 16-bit words; at most 65,535 octets, so that 32 bits suffice for a few sums.
fn sum(octets: &[u8]) -> u32 {
    let (pairs, rest) = octets.as_chunks::<2>();
    let odd = rest.first().map_or(0, |octet| u32::from(*octet) << 8);
    pairs.iter().fold(odd, |sum, pair| sum.wrapping_add(u32::from(u16::from_be_bytes(*pair))))
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_xids() {
        let four = u4id("10.2.71.2:50135".parse().unwrap());
        assert_eq!(four, "u4id-0a024702c3d70000000000000000000000000000".parse().unwrap());
        assert_eq!(end(four), Ok("10.2.71.2:50135".parse().unwrap()));
        let six = u6id("[2001:db8::1]:13781".parse().unwrap());
        assert_eq!(end(six), Ok("[2001:db8::1]:13781".parse().unwrap()));
        for (xid, error) in [
            ("u4id-00000000c3d70000000000000000000000000000", IllFormed::Address),
            ("u4id-0a02470200000000000000000000000000000000", IllFormed::Port),
            ("u4id-0a024702c3d70000000000000000000000000001", IllFormed::Rest),
            ("u6id-00000000000000000000000000000000c3d70000", IllFormed::Address),
            ("u6id-0a02470200000000000000000000000000000000", IllFormed::Port),
            ("u6id-0a0247020000000000000000000000000001c3d7", IllFormed::Rest),
            ("ad-0a024702c3d70000000000000000000000000000", IllFormed::Type),
        ] {
            assert_eq!(end(xid.parse().unwrap()), Err(error), "{xid}");
        }
    }

    #[test]
    fn a_uni4id_redirects_to_its_port() {
        let xid: Xid = "uni4id-4500000000010000fafa0000000000000a024702".parse().unwrap();
        assert_eq!((uni4id_address(xid), uni4id([10, 2, 71, 2].into())), (Ok([10, 2, 71, 2].into()), xid));
        let target = "u4id-0a02470235d50000000000000000000000000000".parse().unwrap();
        assert_eq!(uni4id_redirect(xid), Ok(target));
        let other = Xid { id: [0x45; 20], ..xid };
        assert_eq!(uni4id_redirect(other), Err(IllFormed::Prefix));
        assert_eq!(uni4id_redirect(target), Err(IllFormed::Type));
    }

    #[test]
    fn a_checksum_that_would_be_zero_is_sent_as_ones() {
        let end: SocketAddrV4 = "0.0.0.0:0".parse().unwrap();
        let ends = Ends::V4 { from: end, to: end };
        // Protocol and the length, twice, make 17 + 2 * 10; the payload fills the sum up to ones.
        let payload = (0xffff_u16 - 37).to_be_bytes();
        let header = UdpHeader::of(ends, &payload, true).unwrap();
        assert_eq!(header.checksum, 0xffff);
        assert!(header.is_intact(ends, &payload) && !header.is_intact(ends, &[0, 0]));
    }
}
