//! Path attributes: codes, flags and the walk (RFC 4271, sections 4.3 and 5).

use super::WireError;
use alloc::vec::Vec;
use sluice_wire::Cursor;

/// The default LOCAL_PREF (RFC 4271 leaves the value open; other implementations use 100).
pub(crate) const DEFAULT_LOCAL_PREF: u32 = 100;

/// Attribute type codes known to Sluice (IANA "BGP Path Attributes").
pub mod code {
    /// RFC 4271, section 5.1.1.
    pub const ORIGIN: u8 = 1;
    /// RFC 4271, section 5.1.2.
    pub const AS_PATH: u8 = 2;
    /// RFC 4271, section 5.1.3.
    pub const NEXT_HOP: u8 = 3;
    /// RFC 4271, section 5.1.4.
    pub const MULTI_EXIT_DISC: u8 = 4;
    /// RFC 4271, section 5.1.5.
    pub const LOCAL_PREF: u8 = 5;
    /// RFC 4271, section 5.1.6.
    pub const ATOMIC_AGGREGATE: u8 = 6;
    /// RFC 4271, section 5.1.7.
    pub const AGGREGATOR: u8 = 7;
    /// RFC 1997.
    pub const COMMUNITIES: u8 = 8;
    /// RFC 4456.
    pub const ORIGINATOR_ID: u8 = 9;
    /// RFC 4456.
    pub const CLUSTER_LIST: u8 = 10;
    /// RFC 4760, section 3.
    pub const MP_REACH_NLRI: u8 = 14;
    /// RFC 4760, section 4.
    pub const MP_UNREACH_NLRI: u8 = 15;
    /// RFC 4360.
    pub const EXTENDED_COMMUNITIES: u8 = 16;
    /// RFC 6793.
    pub const AS4_PATH: u8 = 17;
    /// RFC 6793.
    pub const AS4_AGGREGATOR: u8 = 18;
    /// RFC 6514.
    pub(crate) const PMSI_TUNNEL: u8 = 22;
    /// RFC 9012.
    pub const TUNNEL_ENCAPSULATION: u8 = 23;
    /// RFC 5701.
    pub const IPV6_EXTENDED_COMMUNITIES: u8 = 25;
    /// RFC 7311.
    pub const AIGP: u8 = 26;
    /// RFC 9552.
    pub const BGP_LS: u8 = 29;
    /// RFC 8092.
    pub const LARGE_COMMUNITY: u8 = 32;
    /// RFC 9234.
    pub const ONLY_TO_CUSTOMER: u8 = 35;
    /// RFC 8669.
    pub const PREFIX_SID: u8 = 40;

    /// Returns the name of an attribute with a name for operators.
    pub const fn name(code: u8) -> Option<&'static str> {
        Some(match code {
            NEXT_HOP => "NEXT_HOP",
            ATOMIC_AGGREGATE => "ATOMIC_AGGREGATE",
            AGGREGATOR => "AGGREGATOR",
            ORIGINATOR_ID => "ORIGINATOR_ID",
            CLUSTER_LIST => "CLUSTER_LIST",
            MP_REACH_NLRI => "MP_REACH_NLRI",
            MP_UNREACH_NLRI => "MP_UNREACH_NLRI",
            AS4_PATH => "AS4_PATH",
            AS4_AGGREGATOR => "AS4_AGGREGATOR",
            PMSI_TUNNEL => "PMSI_TUNNEL",
            TUNNEL_ENCAPSULATION => "TUNNEL_ENCAPSULATION",
            IPV6_EXTENDED_COMMUNITIES => "IPV6_EXTENDED_COMMUNITIES",
            AIGP => "AIGP",
            BGP_LS => "BGP_LS",
            ONLY_TO_CUSTOMER => "ONLY_TO_CUSTOMER",
            PREFIX_SID => "PREFIX_SID",
            _ => return None,
        })
    }
}

/// The flags octet of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(pub u8);

impl Flags {
    /// Not well-known.
    pub const OPTIONAL: u8 = 0x80;
    /// Transitive: passed on by routers that do not know the attribute.
    pub const TRANSITIVE: u8 = 0x40;
    /// Partial: a router on the way did not know the attribute.
    pub(crate) const PARTIAL: u8 = 0x20;
    /// The length takes two octets.
    pub const EXTENDED: u8 = 0x10;

    /// Returns true if every bit of `mask` is set.
    pub const fn has(self, mask: u8) -> bool {
        self.0 & mask == mask
    }
}

/// An attribute with an unread value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawAttribute<'a> {
    /// The received flags.
    pub flags: Flags,
    /// The type code.
    pub code: u8,
    /// The value.
    pub value: &'a [u8],
    /// The offset of the value in the message body.
    pub offset: usize,
}

impl RawAttribute<'_> {
    /// Appends the attribute in canonical form: the shortest length field, unused flags clear.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_header(out, self.flags.0, self.code, self.value.len());
        out.extend_from_slice(self.value);
    }
}

/// Appends flags, code and length of an attribute before a value of `len` octets; with the shortest length field, unused
/// flags clear (RFC 4271, section 4.3).
pub fn put_header(out: &mut Vec<u8>, flags: u8, code: u8, len: usize) {
    let flags = flags & (Flags::OPTIONAL | Flags::TRANSITIVE | Flags::PARTIAL);
    match u8::try_from(len) {
        Ok(len) => out.extend_from_slice(&[flags, code, len]),
        Err(_) => {
            out.extend_from_slice(&[flags | Flags::EXTENDED, code]);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
    }
}

/// Iterates over the attributes of a field; ends at the first without enough room (RFC 7606, section 4).
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Attributes<'a> {
    /// The attributes of `field`, which begins at `offset` of the message body.
    pub const fn new(field: &'a [u8], offset: usize) -> Self {
        Attributes { cursor: Cursor::at(field, offset) }
    }

    #[inline]
    fn read(&mut self) -> Result<RawAttribute<'a>, WireError> {
        let [flags, code] = self.cursor.array()?;
        let flags = Flags(flags);
        let len = if flags.has(Flags::EXTENDED) {
            self.cursor.u16()?.into()
        } else {
            let [len] = self.cursor.array()?;
            usize::from(len)
        };
        let offset = self.cursor.offset();
        Ok(RawAttribute { flags, code, value: self.cursor.take(len)?, offset })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<RawAttribute<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.cursor = Cursor::new(&[]);
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Expected;
    use alloc::vec;

    #[test]
    fn walks_and_writes() {
        let field = [0x40, 1, 1, 0, 0x50, 2, 0, 2, 2, 0, 0xc0, 8];
        let mut walk = Attributes::new(&field, 4);
        let origin = walk.next().unwrap().unwrap();
        assert_eq!((origin.code, origin.value, origin.offset), (code::ORIGIN, &[0][..], 7));
        let path = walk.next().unwrap().unwrap();
        assert_eq!((path.code, path.value), (code::AS_PATH, &[2, 0][..]));
        let truncated = WireError { offset: 16, expected: Expected::Octets { needed: 1, left: 0 } };
        assert_eq!(walk.next(), Some(Err(truncated)));
        assert_eq!(walk.next(), None);

        let mut out = Vec::new();
        path.put(&mut out);
        assert_eq!(out, [0x40, 2, 2, 2, 0]);
        let long = vec![7; 256];
        out.clear();
        RawAttribute { flags: Flags(0xcf), code: 99, value: &long, offset: 0 }.put(&mut out);
        assert_eq!(out[..4], [0xd0, 99, 1, 0]);
        assert_eq!(Attributes::new(&out, 0).next().unwrap().unwrap().value, long);
    }
}
