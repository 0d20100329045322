//! Keys of routing tables: leading bits of an address, of any width, and whole addresses.

use crate::address::Address;
use crate::family::{FamilyId, WrongFamily};
use alloc::vec::Vec;
use core::fmt::{self, Debug, Display};
use core::hash::Hash;
use core::str::FromStr;

/// The key of a table: some leading bits of an address. Host bits are always zero.
///
/// An address is a destination of routes: an IP address, an identifier of a further architecture, a source and a group. Exact
/// identifiers are keys of full length. The trait is independent of IP; see [`crate::IpKey`].
#[allow(clippy::len_without_is_empty)] // the length is in bits: a prefix is never empty
pub trait Prefix:
    Copy + Eq + Ord + Hash + Debug + Display + FromStr<Err = PrefixError> + Send + Sync + 'static
{
    /// The type of addresses.
    type Addr: Copy
        + Eq
        + Ord
        + Hash
        + Debug
        + Display
        + Into<Address>
        + TryFrom<Address, Error = WrongFamily>
        + Send
        + Sync
        + 'static;
    /// The address as a number.
    type Bits: Copy + Eq + Ord + Hash + Debug + Send + Sync + 'static;
    /// Bits in an address.
    const WIDTH: u8;
    /// The number of the family.
    const ID: FamilyId;

    /// Returns the prefix of length `len` around `addr`, with host bits cleared. `None` if `len` is above [`Prefix::WIDTH`].
    fn new(addr: Self::Addr, len: u8) -> Option<Self>;
    /// Returns the prefix's first address.
    fn addr(self) -> Self::Addr;
    /// Returns the number of leading bits, 0 to [`Prefix::WIDTH`].
    fn len(self) -> u8;
    /// Returns the first address as a number, and the length.
    fn to_parts(self) -> (Self::Bits, u8);
    /// Makes a prefix from a number and a length; host bits are cleared. `None` if `len` is above [`Prefix::WIDTH`].
    fn from_parts(bits: Self::Bits, len: u8) -> Option<Self>;
    /// Returns bit number `index` of the first address, counted from the left; `false` beyond the width.
    fn bit(self, index: u8) -> bool;

    /// Appends the first address, cut to the octets of the length.
    fn push_octets(self, out: &mut Vec<u8>);
    /// Returns the prefix of length `len` whose address begins with `octets`. `None` if there are host bits, if `len` is above
    /// [`Prefix::WIDTH`], or if `octets` are too many.
    fn from_leading_octets(octets: &[u8], len: u8) -> Option<Self>;

    /// Returns the prefix of every address.
    fn default_route() -> Self;

    /// Returns true if the prefix holds every address.
    fn is_default(self) -> bool {
        self.len() == 0
    }

    /// Returns the prefix of `addr` alone.
    fn host(addr: Self::Addr) -> Self;

    /// Returns true if `other` is the prefix or lies inside.
    fn covers(self, other: Self) -> bool {
        self.len() <= other.len() && other.truncate(self.len()) == self
    }

    /// Returns true if `addr` lies inside this prefix.
    fn contains(self, addr: Self::Addr) -> bool {
        self.covers(Self::host(addr))
    }

    /// Returns the first `len` bits of this prefix; the prefix itself if not longer.
    #[must_use]
    fn truncate(self, len: u8) -> Self;

    /// Returns the half of this prefix whose next bit is `right`; `None` for a host prefix.
    fn child(self, right: bool) -> Option<Self>;
}

/// The reason why a text is no prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixError {
    /// The part before the slash is not an address of this family.
    Address,
    /// The part after the slash is not a number from 0 to the width.
    Length,
    /// There is no slash.
    NoSlash,
    /// Bits after the length are not zero.
    HostBits,
}

impl Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrefixError::Address => "expected an address before the slash",
            PrefixError::Length => "expected a prefix length after the slash, not above the address width",
            PrefixError::NoSlash => "expected ADDRESS/LENGTH",
            PrefixError::HostBits => "bits after the prefix length must be zero",
        })
    }
}

impl core::error::Error for PrefixError {}
