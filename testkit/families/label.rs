//! A family whose keys are no IP prefixes, for the tests of everything that takes keys of any family: labels of 24 bits, whose leading
//! bits say who gave them out. The tests of several crates have this file as a module of their own, because each implements traits of
//! its crate for the key.

extern crate alloc;

use self::alloc::vec::Vec;
use core::fmt::{self, Debug, Display};
use core::net::Ipv4Addr;
use core::str::FromStr;
use sluice_base::{Address, FamilyId, Identifier, Prefix, PrefixError, WrongFamily};

/// Some leading bits of a label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    bits: u32,
    len: u8,
}

/// A whole label, in the high bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LabelAddress(pub u32);

impl Display for LabelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&Address::from(*self), f)
    }
}

impl From<LabelAddress> for Address {
    fn from(label: LabelAddress) -> Address {
        let [a, b, c, _] = label.0.to_be_bytes();
        // Three octets are an identifier in any case.
        Identifier::new(Label::ID, &[a, b, c])
            .map_or(Address::Ip(Ipv4Addr::UNSPECIFIED.into()), Address::Identifier)
    }
}

impl TryFrom<Address> for LabelAddress {
    type Error = WrongFamily;

    fn try_from(addr: Address) -> Result<Self, WrongFamily> {
        match addr {
            Address::Identifier(id) if id.family() == Label::ID => match *id.octets() {
                [a, b, c] => Ok(LabelAddress(u32::from_be_bytes([a, b, c, 0]))),
                _ => Err(WrongFamily),
            },
            _ => Err(WrongFamily),
        }
    }
}

impl Label {
    const fn mask(len: u8) -> u32 {
        if len == 0 { 0 } else { u32::MAX << (32 - len) }
    }
}

impl Prefix for Label {
    type Addr = LabelAddress;
    type Bits = u32;
    const WIDTH: u8 = 24;
    const ID: FamilyId = FamilyId(200);

    fn new(addr: LabelAddress, len: u8) -> Option<Self> {
        Self::from_parts(addr.0, len)
    }
    fn addr(self) -> LabelAddress {
        LabelAddress(self.bits)
    }
    fn len(self) -> u8 {
        self.len
    }
    fn to_parts(self) -> (u32, u8) {
        (self.bits, self.len)
    }
    fn from_parts(bits: u32, len: u8) -> Option<Self> {
        (len <= Self::WIDTH).then(|| Label { bits: bits & Self::mask(len), len })
    }
    fn bit(self, index: u8) -> bool {
        index < Self::WIDTH && (self.bits >> (31 - index)) & 1 == 1
    }
    fn push_octets(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bits.to_be_bytes()[..usize::from(self.len).div_ceil(8)]);
    }
    fn from_leading_octets(octets: &[u8], len: u8) -> Option<Self> {
        let mut whole = [0; 4];
        whole.get_mut(..octets.len())?.copy_from_slice(octets);
        let bits = u32::from_be_bytes(whole);
        Self::from_parts(bits, len).filter(|label| label.bits == bits)
    }
    fn default_route() -> Self {
        Label { bits: 0, len: 0 }
    }
    fn host(addr: LabelAddress) -> Self {
        Label { bits: addr.0, len: Self::WIDTH }
    }
    fn truncate(self, len: u8) -> Self {
        if len >= self.len { self } else { Label { bits: self.bits & Self::mask(len), len } }
    }
    fn child(self, right: bool) -> Option<Self> {
        let bit = if right { 1 << (31 - self.len) } else { 0 };
        (self.len < Self::WIDTH).then(|| Label { bits: self.bits | bit, len: self.len + 1 })
    }
}

impl Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr(), self.len)
    }
}

impl Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl FromStr for Label {
    type Err = PrefixError;

    /// Reads the format of [`Display`]; a label without a length is a whole label.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (addr, len) = text.split_once('/').unwrap_or((text, "24"));
        let digits = addr.strip_prefix("family-200:").ok_or(PrefixError::Address)?;
        let bits = u32::from_str_radix(digits, 16).map_err(|_| PrefixError::Address)? << 8;
        let label = Label::from_parts(bits, len.parse().map_err(|_| PrefixError::Length)?);
        label
            .ok_or(PrefixError::Length)
            .and_then(|l| if l.bits == bits { Ok(l) } else { Err(PrefixError::HostBits) })
    }
}
