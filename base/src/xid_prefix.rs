//! Prefixes of XIDs.

use crate::family::FamilyId;
use crate::ip::IpPrefix;
use crate::prefix::{Prefix, PrefixError};
use crate::xid::{UNI4ID, Xid, XidType};
use alloc::vec::Vec;
use core::fmt::{self, Debug, Display};
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Leading bits of an XID: all 32 bits of the type and 0 to 160 of the ID. Bits after the length are zero.
///
/// Lengths below 32 exist for the nodes of tries only, not for routes, except for length 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XidPrefix {
    octets: [u8; Xid::LEN],
    len: u8,
}

impl XidPrefix {
    /// Bits of the type.
    pub const TYPE_BITS: u8 = 32;

    /// Returns the prefix of XIDs of a type whose IDs begin with the first `id_bits` bits of `id`. `None` if `id_bits` is above 160.
    pub fn of_type(kind: XidType, id: [u8; 20], id_bits: u8) -> Option<Self> {
        Self::new(Xid { kind, id }, id_bits.checked_add(Self::TYPE_BITS)?)
    }

    /// Iterates over the prefixes that together cover every XID whose [`Xid::tunnel_end`] is inside an IP prefix.
    pub fn of_tunnel_ends(ends: IpPrefix) -> impl Iterator<Item = XidPrefix> {
        let (types, octets, len): (&[XidType], [u8; 16], u8) = match ends {
            IpPrefix::V4(ends) => {
                let mut octets = [0; 16];
                octets.iter_mut().zip(ends.addr().0.octets()).for_each(|(to, from)| *to = from);
                (&[XidType::U4ID, XidType::UNI4ID], octets, ends.len())
            }
            IpPrefix::V6(ends) => (&[XidType::U6ID], ends.addr().0.octets(), ends.len()),
        };
        types.iter().filter_map(move |kind| {
            let head: &[u8] = if *kind == XidType::UNI4ID { &UNI4ID } else { &[] };
            let mut id = [0; 20];
            id.iter_mut().zip(head.iter().chain(&octets)).for_each(|(to, from)| *to = *from);
            XidPrefix::of_type(*kind, id, head.len() as u8 * 8 + len)
        })
    }

    /// Returns the type; `None` if the prefix is shorter than a type.
    pub fn kind(self) -> Option<XidType> {
        (self.len >= Self::TYPE_BITS).then(|| self.addr().kind)
    }

    /// Returns the number of bits of the ID that count, 0 to 160.
    pub fn id_bits(self) -> u8 {
        self.len.saturating_sub(Self::TYPE_BITS)
    }

    fn cleared(mut octets: [u8; Xid::LEN], len: u8) -> [u8; Xid::LEN] {
        for (place, octet) in octets.iter_mut().enumerate() {
            let kept = usize::from(len).saturating_sub(place * 8);
            *octet &= !0xff_u8.checked_shr(kept as u32).unwrap_or(0);
        }
        octets
    }
}

impl Prefix for XidPrefix {
    type Addr = Xid;
    type Bits = [u8; Xid::LEN];
    const WIDTH: u8 = 192;
    const ID: FamilyId = FamilyId::XID;

    fn new(addr: Xid, len: u8) -> Option<Self> {
        Self::from_parts(addr.octets(), len)
    }

    fn addr(self) -> Xid {
        Xid::from_octets(self.octets)
    }

    fn len(self) -> u8 {
        self.len
    }

    fn to_parts(self) -> ([u8; Xid::LEN], u8) {
        (self.octets, self.len)
    }

    fn from_parts(bits: [u8; Xid::LEN], len: u8) -> Option<Self> {
        (len <= Self::WIDTH).then(|| XidPrefix { octets: Self::cleared(bits, len), len })
    }

    fn bit(self, index: u8) -> bool {
        let octet = self.octets.get(usize::from(index / 8));
        octet.is_some_and(|octet| octet & (0x80 >> (index % 8)) != 0)
    }

    fn push_octets(self, out: &mut Vec<u8>) {
        out.extend(self.octets.iter().take(usize::from(self.len).div_ceil(8)));
    }

    fn from_leading_octets(octets: &[u8], len: u8) -> Option<Self> {
        let mut whole = [0; Xid::LEN];
        whole.get_mut(..octets.len())?.copy_from_slice(octets);
        Self::from_parts(whole, len).filter(|prefix| prefix.octets == whole)
    }

    fn default_route() -> Self {
        XidPrefix { octets: [0; Xid::LEN], len: 0 }
    }

    fn host(addr: Xid) -> Self {
        XidPrefix { octets: addr.octets(), len: Self::WIDTH }
    }

    fn truncate(self, len: u8) -> Self {
        if len >= self.len { self } else { XidPrefix { octets: Self::cleared(self.octets, len), len } }
    }

    fn child(self, right: bool) -> Option<Self> {
        let mut child = XidPrefix { len: self.len.checked_add(1).filter(|len| *len <= Self::WIDTH)?, ..self };
        if right && let Some(octet) = child.octets.get_mut(usize::from(self.len / 8)) {
            *octet |= 0x80 >> (self.len % 8);
        }
        Some(child)
    }
}

impl Serialize for XidPrefix {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.collect_str(self) } else { (self.octets, self.len).serialize(s) }
    }
}

impl<'de> Deserialize<'de> for XidPrefix {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        if d.is_human_readable() {
            let text = alloc::string::String::deserialize(d)?;
            return text.parse().map_err(D::Error::custom);
        }
        let (octets, len) = <([u8; Xid::LEN], u8)>::deserialize(d)?;
        Self::from_parts(octets, len).ok_or_else(|| D::Error::custom(PrefixError::Length))
    }
}

impl Display for XidPrefix {
    /// Writes an exact XID as an XID, a prefix as `TYPE-ID/N` with the number of the ID's bits, and the prefix of everything as `xid/0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            Self::WIDTH => Display::fmt(&self.addr(), f),
            len if len >= Self::TYPE_BITS => write!(f, "{}/{}", self.addr(), self.id_bits()),
            0 => f.write_str("xid/0"),
            len => write!(f, "xid-0x{:08x}/{len}", self.addr().kind.0),
        }
    }
}

impl Debug for XidPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl FromStr for XidPrefix {
    type Err = PrefixError;

    /// Reads `TYPE-ID`, `TYPE-ID/N` with 0 to 160 bits of the ID, and `xid/0`.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text == "xid/0" {
            return Ok(Self::default_route());
        }
        let (xid, id_bits) = text.split_once('/').unwrap_or((text, "160"));
        let xid: Xid = xid.parse().map_err(|_| PrefixError::Address)?;
        let id_bits = id_bits.parse().map_err(|_| PrefixError::Length)?;
        let prefix = Self::of_type(xid.kind, xid.id, id_bits).ok_or(PrefixError::Length)?;
        if prefix.addr() == xid { Ok(prefix) } else { Err(PrefixError::HostBits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, AnyPrefix};
    use alloc::string::ToString;

    const TEXT: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";

    #[test]
    fn prefixes_of_xids_count_the_bits_of_the_id() {
        let exact: XidPrefix = TEXT.parse().unwrap();
        assert_eq!((exact.len(), exact.id_bits(), exact.to_string().as_str()), (192, 160, TEXT));
        let text = "lpm-0a00000000000000000000000000000000000000/8";
        let prefix: XidPrefix = text.parse().unwrap();
        assert_eq!(
            (prefix.len(), prefix.kind(), prefix.to_string().as_str()),
            (40, Some(XidType::LPM), text)
        );
        assert_eq!(
            "lpm-0a01000000000000000000000000000000000000/8".parse::<XidPrefix>(),
            Err(PrefixError::HostBits)
        );
        assert_eq!(
            "lpm-0a00000000000000000000000000000000000000/161".parse::<XidPrefix>(),
            Err(PrefixError::Length)
        );
        assert_eq!("xid/0".parse(), Ok(XidPrefix::default_route()));
        assert_eq!(XidPrefix::default_route().to_string(), "xid/0");
    }

    #[test]
    fn halves_cover_their_whole() {
        let mut prefix = XidPrefix::default_route();
        let exact: XidPrefix = TEXT.parse().unwrap();
        while prefix.len() < XidPrefix::WIDTH {
            assert!(prefix.covers(exact) && exact.truncate(prefix.len()) == prefix);
            let other = prefix.child(!exact.bit(prefix.len())).unwrap();
            assert!(!other.covers(exact) && prefix.covers(other));
            prefix = prefix.child(exact.bit(prefix.len())).unwrap();
            let mut octets = Vec::new();
            prefix.push_octets(&mut octets);
            assert_eq!(XidPrefix::from_leading_octets(&octets, prefix.len()), Some(prefix));
        }
        assert_eq!((prefix, prefix.child(true)), (exact, None));
    }

    #[test]
    fn tunnels_that_end_inside_a_prefix_are_prefixes_of_xids() {
        let of = |ends: &str| -> Vec<XidPrefix> {
            XidPrefix::of_tunnel_ends(ends.parse::<IpPrefix>().unwrap()).collect()
        };
        for (text, inside, outside) in [
            ("u4id-c000020135d50000000000000000000000000000", "192.0.2.0/24", "192.0.3.0/24"),
            ("uni4id-4500000000010000fafa000000000000c0000201", "192.0.2.1/32", "192.0.2.2/32"),
            ("u6id-20010db800000000000000000000000135d50000", "2001:db8::/32", "2001:db9::/32"),
        ] {
            let xid: Xid = text.parse().unwrap();
            let holds = |ends: &str| of(ends).iter().any(|prefix| prefix.contains(xid));
            assert!(holds(inside) && !holds(outside) && xid.kind.is_of_tunnels(), "{text}");
        }
        assert_eq!((of("0.0.0.0/0").len(), of("::/0").len()), (2, 1));
    }

    #[test]
    fn keys_without_their_type_are_written_alike() {
        for text in [TEXT, "lpm-0a00000000000000000000000000000000000000/8"] {
            let prefix: XidPrefix = text.parse().unwrap();
            let any = AnyPrefix::of(prefix);
            assert_eq!((any.to(), any.to_string().as_str()), (Some(prefix), text));
        }
        assert_eq!(Address::from(TEXT.parse::<Xid>().unwrap()).to_string(), TEXT);
    }
}
