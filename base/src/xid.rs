//! XIDs, the identifiers of XIA's principals (Linux XIA, ANCS 2015, section 3).

use core::fmt::{self, Debug, Display};
use core::net::IpAddr;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of a principal: a kind of destination with routing rules of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct XidType(pub u32);

/// The first 16 octets of a UNI4ID.
pub(crate) const UNI4ID: [u8; 16] = [0x45, 0, 0, 0, 0, 1, 0, 0, 0xfa, 0xfa, 0, 0, 0, 0, 0, 0];

/// Names of principals, with the numbers of public sources and `docs/xia/numbers.md`.
const NAMES: [(&str, XidType); 20] = [
    ("ad", XidType::AD),
    ("hid", XidType::HID),
    ("cid", XidType(0x12)),
    ("sid", XidType(0x13)),
    ("uni4id", XidType::UNI4ID),
    ("i4id", XidType(0x15)),
    ("u4id", XidType::U4ID),
    ("xdp", XidType::XDP),
    ("serval", XidType(0x18)),
    ("flowid", XidType(0x19)),
    ("u6id", XidType::U6ID),
    ("zf", XidType::ZF),
    ("lpm", XidType::LPM),
    ("ether", XidType::ETHER),
    ("x4id", XidType(0x50)),
    ("i6id", XidType(0x51)),
    ("x6id", XidType(0x52)),
    ("hidv2", XidType(0x53)),
    ("ndn", XidType(0x54)),
    ("ants", XidType(0x55)),
];

impl XidType {
    /// Not a type: marks the end of rows whose number is not given, and is never routable.
    pub const NAT: XidType = XidType(0);
    /// Autonomous domains.
    pub const AD: XidType = XidType(0x10);
    /// Hosts, named by the hash of a public key.
    pub const HID: XidType = XidType(0x11);
    /// IPv4 addresses behind a fixed prefix and the fixed UDP port 13781.
    pub const UNI4ID: XidType = XidType(0x14);
    /// IPv4 addresses and UDP ports.
    pub const U4ID: XidType = XidType(0x16);
    /// Datagram sockets.
    pub const XDP: XidType = XidType(0x17);
    /// IPv6 addresses and UDP ports.
    pub const U6ID: XidType = XidType(0x1b);
    /// In-packet Bloom filters.
    pub const ZF: XidType = XidType(0x20);
    /// Strings of 160 bits, routed by the longest prefix.
    pub const LPM: XidType = XidType(0x21);
    /// Ethernet neighbors.
    pub const ETHER: XidType = XidType(0x22);

    /// The names of types, in the order of [`XidType::named`].
    pub const NAMES: [&'static str; NAMES.len()] = {
        let mut names = [""; NAMES.len()];
        let mut place = 0;
        while place < NAMES.len() {
            names[place] = NAMES[place].0;
            place += 1;
        }
        names
    };

    /// Returns the type's name; `None` if the type has only a number.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, known)| *known == self).map(|(name, _)| *name)
    }

    /// Returns true if packets for well-formed XIDs of the type are sent inside IP: types with a [`Xid::tunnel_end`].
    pub const fn is_of_tunnels(self) -> bool {
        matches!(self, XidType::U4ID | XidType::U6ID | XidType::UNI4ID)
    }

    /// Returns the types with a name.
    pub fn named() -> impl Iterator<Item = (&'static str, XidType)> {
        NAMES.iter().copied()
    }
}

impl Display for XidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "0x{:x}", self.0),
        }
    }
}

impl Debug for XidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl FromStr for XidType {
    type Err = XidError;

    /// Reads a name, in any case, or `0x` and 1 to 8 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, XidError> {
        if let Some(digits) = text.strip_prefix("0x") {
            let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|d| d.is_ascii_hexdigit());
            let number = is_number.then(|| u32::from_str_radix(digits, 16).ok()).flatten();
            return number.map(XidType).ok_or(XidError::Type);
        }
        let known = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        known.map(|(_, known)| *known).ok_or(XidError::Type)
    }
}

/// An XID: a principal's number and 160 bits with a meaning given by the principal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid {
    /// The principal.
    pub kind: XidType,
    /// The identifier within the principal.
    pub id: [u8; 20],
}

impl Xid {
    /// Octets of an XID: 4 of the type, 20 of the ID.
    pub const LEN: usize = 24;

    /// Returns the octets: the type in network byte order, then the ID.
    pub fn octets(self) -> [u8; Xid::LEN] {
        let mut octets = [0; Xid::LEN];
        let (kind, id) = octets.split_at_mut(4);
        kind.copy_from_slice(&self.kind.0.to_be_bytes());
        id.copy_from_slice(&self.id);
        octets
    }

    /// Reads the octets that [`Xid::octets`] returns.
    pub const fn from_octets(octets: [u8; Xid::LEN]) -> Self {
        let [a, b, c, d, id @ ..] = octets;
        Xid { kind: XidType(u32::from_be_bytes([a, b, c, d])), id }
    }

    /// Returns the XID that stands for an Ethernet address as the gateway of a next hop with an interface: the address, then zeros.
    pub fn of_link_address(address: [u8; 6]) -> Self {
        let mut id = [0; 20];
        id.iter_mut().zip(address).for_each(|(to, from)| *to = from);
        Xid { kind: XidType::ETHER, id }
    }

    /// Returns the Ethernet address of which [`Xid::of_link_address`] made the XID; `None` for others.
    pub fn link_address(self) -> Option<[u8; 6]> {
        let address = *self.id.first_chunk::<6>()?;
        (self == Self::of_link_address(address)).then_some(address)
    }

    /// Returns the IP address to which packets for the XID are sent in UDP (a U4ID, a U6ID, or an IPv4 address behind the prefix of
    /// UNI4ID); `None` for XIDs of other types and for ill-formed ones.
    pub fn tunnel_end(self) -> Option<IpAddr> {
        let (end, rest): (IpAddr, &[u8]) = match self.kind {
            XidType::U4ID => ((*self.id.first_chunk::<4>()?).into(), self.id.get(4..)?),
            XidType::U6ID => ((*self.id.first_chunk::<16>()?).into(), self.id.get(16..)?),
            XidType::UNI4ID if self.id.starts_with(&UNI4ID) => {
                let address: IpAddr = (*self.id.last_chunk::<4>()?).into();
                return (!address.is_unspecified()).then_some(address);
            }
            _ => return None,
        };
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let is_well_formed = *port != [0; 2] && rest.iter().all(|octet| *octet == 0);
        (is_well_formed && !end.is_unspecified()).then_some(end)
    }
}

impl Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.kind)?;
        self.id.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

/// The reason why a text is no XID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XidError {
    /// The part before the dash is neither the name of a principal nor a number.
    Type,
    /// The part after the dash is not 40 hexadecimal digits.
    Id,
    /// There is no dash.
    NoDash,
}

impl Display for XidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            XidError::Type => {
                "expected a principal's name, such as ad or hid, or 0x and at most 8 hexadecimal digits"
            }
            XidError::Id => "expected 40 hexadecimal digits after the dash",
            XidError::NoDash => "expected TYPE-ID",
        })
    }
}

impl core::error::Error for XidError {}

impl FromStr for Xid {
    type Err = XidError;

    /// Reads `TYPE-ID`, with 40 hexadecimal digits of ID.
    fn from_str(text: &str) -> Result<Self, XidError> {
        let (kind, digits) = text.split_once('-').ok_or(XidError::NoDash)?;
        let kind = kind.parse()?;
        let digits: &[u8; 40] = digits.as_bytes().try_into().map_err(|_| XidError::Id)?;
        let mut id = [0; 20];
        let (pairs, _) = digits.as_chunks::<2>();
        for (octet, pair) in id.iter_mut().zip(pairs) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(XidError::Id);
            *octet = ((digit(pair[0])? << 4) | digit(pair[1])?) as u8;
        }
        Ok(Xid { kind, id })
    }
}

impl Serialize for Xid {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.collect_str(self) } else { self.octets().serialize(s) }
    }
}

impl<'de> Deserialize<'de> for Xid {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if d.is_human_readable() {
            let text = alloc::string::String::deserialize(d)?;
            let wrong = |error| serde::de::Error::custom(format_args!("`{text}` is no XID: {error}"));
            return text.parse().map_err(wrong);
        }
        Ok(Self::from_octets(Deserialize::deserialize(d)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const TEXT: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";

    #[test]
    fn xids_are_read_as_they_are_written() {
        let xid: Xid = TEXT.parse().unwrap();
        assert_eq!((xid.kind, xid.id, xid.to_string().as_str()), (XidType::AD, [0xa1; 20], TEXT));
        assert_eq!(Xid::from_octets(xid.octets()), xid);
        assert_eq!("0x1001".parse(), Ok(XidType(0x1001)));
        assert_eq!(XidType(0x1001).to_string(), "0x1001");
        assert_eq!("HID".parse(), Ok(XidType::HID));
        for (name, kind) in XidType::named() {
            assert_eq!((name.parse(), kind.name()), (Ok(kind), Some(name)));
        }
    }

    #[test]
    fn texts_that_are_no_xids_are_refused() {
        for (text, error) in [
            ("ad", XidError::NoDash),
            ("what-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", XidError::Type),
            ("0x-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", XidError::Type),
            ("0x123456789-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", XidError::Type),
            ("0x+1-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", XidError::Type),
            ("ad-a1", XidError::Id),
            ("ad-g1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", XidError::Id),
            ("ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", XidError::Id),
        ] {
            assert_eq!(text.parse::<Xid>(), Err(error), "{text}");
        }
    }

    #[test]
    fn tunnels_end_at_the_address_in_the_xid() {
        let end = |text: &str| text.parse::<Xid>().unwrap().tunnel_end().map(|end| end.to_string());
        assert_eq!(end("u4id-c000020135d50000000000000000000000000000"), Some("192.0.2.1".into()));
        assert_eq!(end("uni4id-4500000000010000fafa000000000000c0000201"), Some("192.0.2.1".into()));
        assert_eq!(end("u6id-20010db800000000000000000000000135d50000"), Some("2001:db8::1".into()));
        for ill_formed in [
            "u4id-c000020100000000000000000000000000000000",
            "u4id-0000000035d50000000000000000000000000000",
            "u4id-c000020135d50000000000000000000000000001",
            "uni4id-4500000000010000fafb000000000000c0000201",
            TEXT,
        ] {
            assert_eq!(end(ill_formed), None, "{ill_formed}");
        }
    }

    #[test]
    fn ethernet_addresses_are_gateways_as_xids() {
        let xid = Xid::of_link_address([2, 0, 0, 0, 0, 1]);
        assert_eq!(xid.to_string(), "ether-0200000000010000000000000000000000000000");
        assert_eq!(xid.link_address(), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(TEXT.parse::<Xid>().unwrap().link_address(), None);
        let other = Xid { id: [2; 20], ..xid };
        assert_eq!(other.link_address(), None);
    }
}
