//! Path attributes (RFC 4271, section 4.3).

use super::Malformed;

/// The type codes.
pub mod code {
    /// ORIGIN.
    pub const ORIGIN: u8 = 1;
    /// AS_PATH.
    pub const AS_PATH: u8 = 2;
    /// NEXT_HOP.
    pub const NEXT_HOP: u8 = 3;
    /// MULTI_EXIT_DISC.
    pub const MULTI_EXIT_DISC: u8 = 4;
    /// LOCAL_PREF.
    pub const LOCAL_PREF: u8 = 5;
    /// ATOMIC_AGGREGATE.
    pub const ATOMIC_AGGREGATE: u8 = 6;
    /// AGGREGATOR.
    pub const AGGREGATOR: u8 = 7;
    /// COMMUNITIES (RFC 1997).
    pub const COMMUNITIES: u8 = 8;
    /// ORIGINATOR_ID (RFC 4456).
    pub const ORIGINATOR_ID: u8 = 9;
    /// CLUSTER_LIST (RFC 4456).
    pub const CLUSTER_LIST: u8 = 10;
    /// MP_REACH_NLRI (RFC 4760).
    pub const MP_REACH_NLRI: u8 = 14;
    /// MP_UNREACH_NLRI (RFC 4760).
    pub const MP_UNREACH_NLRI: u8 = 15;
    /// EXTENDED COMMUNITIES (RFC 4360).
    pub const EXTENDED_COMMUNITIES: u8 = 16;
    /// AS4_PATH (RFC 6793).
    pub const AS4_PATH: u8 = 17;
    /// AS4_AGGREGATOR (RFC 6793).
    pub const AS4_AGGREGATOR: u8 = 18;
    /// Tunnel Encapsulation (RFC 9012).
    pub const TUNNEL_ENCAPSULATION: u8 = 23;
    /// IPv6 Address Specific Extended Community (RFC 5701).
    pub const IPV6_EXTENDED_COMMUNITIES: u8 = 25;
    /// AIGP (RFC 7311).
    pub const AIGP: u8 = 26;
    /// BGP-LS Attribute (RFC 9552).
    pub const BGP_LS: u8 = 29;
    /// LARGE_COMMUNITY (RFC 8092).
    pub const LARGE_COMMUNITY: u8 = 32;
    /// ONLY_TO_CUSTOMER (RFC 9234).
    pub const ONLY_TO_CUSTOMER: u8 = 35;
    /// BGP Prefix-SID (RFC 8669).
    pub const PREFIX_SID: u8 = 40;
}

/// The flag of a length in two octets.
const EXTENDED: u8 = 0x10;

/// An attribute in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    /// The flags as received.
    pub flags: u8,
    /// The type code.
    pub code: u8,
    /// The value.
    pub value: &'a [u8],
}

impl Attribute<'_> {
    /// Appends the attribute.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_header(out, self.flags, self.code, self.value.len());
        out.extend_from_slice(self.value);
    }
}

/// Appends the header of an attribute. The flag of the length follows from the length.
pub fn put_header(out: &mut Vec<u8>, flags: u8, code: u8, length: usize) {
    match u8::try_from(length) {
        Ok(length) => out.extend_from_slice(&[flags & !EXTENDED, code, length]),
        Err(_) => {
            out.extend_from_slice(&[flags | EXTENDED, code]);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
}

/// The attributes of a field; ends after the first that is malformed.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes of the field of an UPDATE.
    pub const fn new(field: &'a [u8]) -> Self {
        Attributes(field)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let attribute = match std::mem::take(&mut self.0) {
            [flags, code, high, low, rest @ ..] if flags & EXTENDED != 0 => {
                let length = u16::from_be_bytes([*high, *low]);
                Some((flags, code, usize::from(length), rest))
            }
            [flags, code, length, rest @ ..] if flags & EXTENDED == 0 => {
                Some((flags, code, usize::from(*length), rest))
            }
            _ => None,
        };
        let split = attribute.and_then(|(flags, code, length, rest)| {
            let (value, rest) = rest.split_at_checked(length)?;
            self.0 = rest;
            Some(Attribute { flags: *flags, code: *code, value })
        });
        Some(split.ok_or(Malformed("attribute")))
    }
}

#[test]
fn attributes() {
    let mut octets = Vec::new();
    let long = [7; 300];
    for value in [&long[..], &[1, 2], &[]] {
        Attribute { flags: 0xc0, code: code::COMMUNITIES, value }.put(&mut octets);
    }
    let read: Result<Vec<_>, _> = Attributes::new(&octets).collect();
    let lengths: Vec<(u8, usize)> = read.unwrap().iter().map(|a| (a.flags, a.value.len())).collect();
    assert_eq!(lengths, [(0xd0, 300), (0xc0, 2), (0xc0, 0)]);
    assert!(Attributes::new(&octets[..octets.len() - 1]).last().unwrap().is_err());
    assert_eq!(Attributes::new(&[0x40]).count(), 1);
}
