//! Address families: a row for each family, and collections by family.
//!
//! A row names a family on the wire, in texts and towards the RIB. Sessions, the reader, the writer and control know families
//! by their rows only: capabilities, route refresh, End-of-RIB markers and agreed sets follow from [`FAMILIES`]. The key of a family and the codec of
//! its prefixes are the key's implementation of [`crate::wire::FamilyKey`]. Code that needs the key's type (readers, tables, batches) is a
//! [`FamilyVisitor`]: it receives the type once for a batch or a message.

use crate::endpoints::{Endpoints, OwnNextHop};
pub use crate::wire::FamilyCode;
use crate::wire::multiprotocol::NextHop;
use crate::wire::{FamilyKey, WireError};
use core::fmt;
use core::ops::{Index, IndexMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sluice_base::{Family, FamilyId, Ipv4Prefix, Ipv6Prefix, Prefix, Xid, XidPrefix};

/// An address family.
#[derive(Clone, Copy, Debug)]
pub struct FamilyRow {
    /// The number of the family's keys.
    pub id: FamilyId,
    /// Address family identifier and subsequent address family identifier, unless a router is configured to use others ([`FamilyCodes`]).
    pub code: FamilyCode,
    /// The family of the routes' next hops.
    pub hops: FamilyId,
    /// The name in events and views.
    pub name: &'static str,
    /// The length of the covering prefix whose hash spreads keys over tables: short enough to keep commonly announced keys
    /// together, long enough to give tables similar shares.
    pub cover: u8,
    /// Reads the next hop of an MP_REACH_NLRI, which begins at an offset of the message body.
    pub next_hop: fn(&[u8], usize) -> Result<NextHop, WireError>,
    /// Makes the router's own next hop towards a peer, of the session's addresses or of the configured XID.
    pub own_next_hop: fn(&Endpoints, Option<Xid>) -> OwnNextHop,
    /// Explains that no routes of the family are announced to a neighbor.
    pub no_next_hop: &'static str,
}

/// A key whose family has a row: a key of tables.
pub trait Sharded: FamilyKey + Serialize + DeserializeOwned {
    /// The family's row.
    const INDEX: FamilyIndex;
    /// The family's [`FamilyRow::cover`].
    const COVER: u8;
}

impl<P: FamilyKey + Serialize + DeserializeOwned> Sharded for P {
    const INDEX: FamilyIndex = FamilyIndex::of::<P>();
    const COVER: u8 = FAMILIES[FamilyIndex::of::<P>().0 as usize].cover;
}

/// Code for the keys of any family: [`FamilyIndex::visit`] calls the code with a family's key.
pub trait FamilyVisitor {
    /// The result.
    type Output;

    /// Runs the code with the family's key.
    fn visit<P: Sharded>(self) -> Self::Output;
}

/// Declares the families, each by key and the rest of the row.
macro_rules! families {
    ($($(#[$attribute:meta])* $key:ty: { $($row:tt)* })*) => {
        /// The number of rows.
        const COUNT: usize = [$($(#[$attribute])* stringify!($key)),*].len();

        /// The families, in the order in which they are offered and shown.
        pub static FAMILIES: [FamilyRow; COUNT] = [$($(#[$attribute])* FamilyRow {
            id: <$key as Prefix>::ID,
            code: FamilyCode { afi: <$key as FamilyKey>::AFI, safi: <$key as FamilyKey>::SAFI },
            hops: <<$key as FamilyKey>::Hop as Prefix>::ID,
            $($row)*
        }),*];

        impl FamilyIndex {
            /// Calls a visitor with the family's key. Costs a comparison for each row before the family's: to be called for a batch or a
            /// message, not for a route.
            #[inline]
            pub fn visit<V: FamilyVisitor>(self, visitor: V) -> V::Output {
                $($(#[$attribute])* if self == <$key as Sharded>::INDEX {
                    return visitor.visit::<$key>();
                })*
                unreachable!("every FamilyIndex is the place of a row")
            }
        }
    };
}

families! {
    Ipv4Prefix: {
        name: "ipv4",
        cover: 14,
        next_hop: NextHop::decode_ipv4,
        own_next_hop: |endpoints, _| endpoints.next_hop_ipv4(),
        no_next_hop: "this router has no IPv4 address on the session's interface to be the next hop",
    }
    Ipv6Prefix: {
        name: "ipv6",
        cover: 30,
        next_hop: NextHop::decode_ipv6,
        own_next_hop: |endpoints, _| endpoints.next_hop_ipv6(),
        no_next_hop: "this router has no IPv6 address on the session's interface to be the next hop",
    }
    XidPrefix: {
        name: "xid",
        // Whole XIDs are hashes: any two of them differ early.
        cover: 64,
        next_hop: NextHop::decode_xid,
        own_next_hop: |_, xid| xid.iter().flat_map(|xid| xid.octets()).collect(),
        no_next_hop: "no XID is configured to be the next hop (`xid next-hop` of the neighbor or its group)",
    }
    #[cfg(test)]
    crate::labels::Label: {
        name: "labels",
        cover: 14,
        next_hop: NextHop::decode_ipv4,
        own_next_hop: |endpoints, _| endpoints.next_hop_ipv4(),
        no_next_hop: "this router has no IPv4 address on the session's interface to be the next hop",
    }
}

/// The place of a family in [`FAMILIES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct FamilyIndex(u8);

impl FamilyIndex {
    /// IPv4 unicast: the family of an UPDATE's own fields, and of a speaker without multiprotocol capabilities (RFC 4760, section
    /// 8).
    pub const IPV4: FamilyIndex = <Ipv4Prefix as Sharded>::INDEX;
    /// IPv6 unicast.
    pub const IPV6: FamilyIndex = <Ipv6Prefix as Sharded>::INDEX;
    /// XIDs of XIA's principals.
    pub const XID: FamilyIndex = <XidPrefix as Sharded>::INDEX;

    /// Iterates over the families, in the order of rows.
    pub fn all() -> impl DoubleEndedIterator<Item = FamilyIndex> + Clone {
        (0..COUNT as u8).map(FamilyIndex)
    }

    /// Returns the family of keys with a number; `None` if the family has no row.
    pub fn with_id(id: FamilyId) -> Option<FamilyIndex> {
        Self::all().find(|family| family.row().id == id)
    }

    /// Returns the family of a key. A key without a row fails to compile.
    pub const fn of<P: FamilyKey>() -> FamilyIndex {
        const {
            let mut place = 0;
            while FAMILIES[place].id.0 != P::ID.0 {
                place += 1;
            }
            FamilyIndex(place as u8)
        }
    }

    /// Returns the family's row.
    pub fn row(self) -> &'static FamilyRow {
        &FAMILIES[usize::from(self.0)]
    }
}

impl From<FamilyIndex> for u8 {
    fn from(family: FamilyIndex) -> u8 {
        family.0
    }
}

/// A state from the old process names a family without a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownFamily(u8);

impl fmt::Display for UnknownFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected a family from 0 to {}, found {}", COUNT - 1, self.0)
    }
}

impl TryFrom<u8> for FamilyIndex {
    type Error = UnknownFamily;

    fn try_from(number: u8) -> Result<Self, UnknownFamily> {
        if usize::from(number) < COUNT { Ok(FamilyIndex(number)) } else { Err(UnknownFamily(number)) }
    }
}

impl From<FamilyIndex> for usize {
    fn from(family: FamilyIndex) -> usize {
        family.0.into()
    }
}

impl From<Family> for FamilyIndex {
    fn from(family: Family) -> Self {
        match family {
            Family::Ipv4 => FamilyIndex::IPV4,
            Family::Ipv6 => FamilyIndex::IPV6,
        }
    }
}

impl FamilyIndex {
    /// Returns the next family; the first family after the last.
    #[must_use]
    pub const fn next(self) -> FamilyIndex {
        FamilyIndex((self.0 + 1) % COUNT as u8)
    }

    /// The last family.
    pub const LAST: FamilyIndex = FamilyIndex(COUNT as u8 - 1);
}

impl fmt::Display for FamilyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}

impl fmt::Debug for FamilyIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value for each family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByFamily<T>([T; COUNT]);

impl<T> ByFamily<T> {
    /// Makes the value of each family.
    pub fn from_fn(mut make: impl FnMut(FamilyIndex) -> T) -> Self {
        ByFamily(core::array::from_fn(|place| make(FamilyIndex(place as u8))))
    }

    /// Iterates over families and values.
    pub fn iter(&self) -> impl Iterator<Item = (FamilyIndex, &T)> {
        FamilyIndex::all().zip(&self.0)
    }

    /// Iterates over families and values, to change the values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (FamilyIndex, &mut T)> {
        FamilyIndex::all().zip(&mut self.0)
    }

    /// Iterates over the values.
    #[inline]
    pub fn values(&self) -> core::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Iterates over the values, to change them.
    #[inline]
    pub fn values_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// Iterates over the families and values, and consumes the collection.
    pub(crate) fn into_pairs(self) -> impl Iterator<Item = (FamilyIndex, T)> {
        FamilyIndex::all().zip(self.0)
    }

    /// Iterates over the values, and consumes the collection.
    #[inline]
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.0.into_iter()
    }
}

impl<T, F: Into<FamilyIndex>> Index<F> for ByFamily<T> {
    type Output = T;

    #[inline]
    fn index(&self, family: F) -> &T {
        &self.0[usize::from(family.into().0)]
    }
}

impl<T, F: Into<FamilyIndex>> IndexMut<F> for ByFamily<T> {
    #[inline]
    fn index_mut(&mut self, family: F) -> &mut T {
        &mut self.0[usize::from(family.into().0)]
    }
}

/// The families on a router's wire: the families of the rows, with configurable numbers for the family of XIDs, which has no
/// assigned numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FamilyCodes(ByFamily<FamilyCode>);

impl FamilyCodes {
    /// The identifiers of the rows.
    pub const DEFAULT: FamilyCodes = {
        let mut codes = [FamilyCode { afi: 0, safi: 0 }; COUNT];
        let mut place = 0;
        while place < COUNT {
            codes[place] = FAMILIES[place].code;
            place += 1;
        }
        FamilyCodes(ByFamily(codes))
    };

    /// Returns the identifiers with others for the family of XIDs.
    #[must_use]
    pub fn with_xid(mut self, code: FamilyCode) -> Self {
        self.0[FamilyIndex::XID] = code;
        self
    }

    /// Returns the family of identifiers; `None` for unknown identifiers.
    #[inline]
    pub fn family(&self, afi: u16, safi: u8) -> Option<FamilyIndex> {
        FamilyIndex::all().find(|family| self.of(*family) == FamilyCode { afi, safi })
    }

    /// Returns a family's identifiers.
    #[inline]
    pub fn of(&self, family: FamilyIndex) -> FamilyCode {
        self.0[family]
    }
}

impl Default for FamilyCodes {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A set of families.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Families(ByFamily<bool>);

impl Families {
    /// The empty set.
    pub const NONE: Families = Families(ByFamily([false; COUNT]));

    /// The set of all families.
    pub const ALL: Families = Families(ByFamily([true; COUNT]));

    /// Returns the set of families for which `is_in` is true.
    pub fn of(is_in: impl FnMut(FamilyIndex) -> bool) -> Self {
        Families(ByFamily::from_fn(is_in))
    }

    /// Returns the set of one family.
    pub fn only(family: impl Into<FamilyIndex>) -> Self {
        let only = family.into();
        Families::of(|family| family == only)
    }

    /// Adds a family.
    pub fn insert(&mut self, family: impl Into<FamilyIndex>) {
        self.0[family] = true;
    }

    /// Takes a family out.
    pub fn remove(&mut self, family: impl Into<FamilyIndex>) {
        self.0[family] = false;
    }

    /// Returns true if `family` is in the set.
    #[inline]
    pub fn has(self, family: impl Into<FamilyIndex>) -> bool {
        self.0[family]
    }

    /// Iterates over the families of the set.
    pub fn iter(self) -> impl Iterator<Item = FamilyIndex> {
        FamilyIndex::all().filter(move |family| self.has(*family))
    }

    /// Returns the families that are in both sets.
    #[must_use]
    pub fn and(self, other: Families) -> Families {
        Families::of(|family| self.has(family) && other.has(family))
    }

    /// Returns the families of the set not in `other`.
    #[must_use]
    pub fn without(self, other: Families) -> Families {
        Families::of(|family| self.has(family) && !other.has(family))
    }

    /// Returns true if no family is in the set.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{AFI_IPV4, AFI_IPV6};
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn a_family_without_a_row_is_refused_in_a_state() {
        let read = |number: u8| {
            use serde::de::IntoDeserializer;
            let octet: serde::de::value::U8Deserializer<serde::de::value::Error> = number.into_deserializer();
            FamilyIndex::deserialize(octet).map_err(|error| error.to_string())
        };
        assert_eq!(read(1), Ok(FamilyIndex::IPV6));
        assert!(read(9).unwrap_err().starts_with("expected a family from 0 to"));
    }

    #[test]
    fn rows_are_found_by_their_identifiers() {
        let codes = FamilyCodes::default();
        for family in FamilyIndex::all() {
            let row = family.row();
            assert_eq!(codes.family(row.code.afi, row.code.safi), Some(family));
            assert_eq!(FamilyIndex::with_id(row.id), Some(family));
            assert_eq!(family.to_string(), row.name);
            assert!(FamilyIndex::all().all(|other| other == family || other.row().id != row.id));
        }
        assert_eq!(codes.family(AFI_IPV4, 2), None);
        assert_eq!(codes.family(0xc0de, 241), Some(FamilyIndex::XID));
        let others = codes.with_xid(FamilyCode { afi: 16_400, safi: 254 });
        assert_eq!(others.family(16_400, 254), Some(FamilyIndex::XID));
        assert_eq!((others.family(0xc0de, 241), others.family(AFI_IPV6, 1)), (None, Some(FamilyIndex::IPV6)));
        for family in Family::ALL {
            assert_eq!(FamilyIndex::from(family).row().id, family.into());
        }
    }

    #[test]
    fn sets_of_families() {
        let (one, all) = (Families::only(Family::Ipv6), Families::ALL);
        assert!(!all.without(one).has(FamilyIndex::IPV6) && all.without(one).has(FamilyIndex::XID));
        assert_eq!(Families::only(Family::Ipv4).iter().collect::<Vec<_>>(), [FamilyIndex::IPV4]);
        assert_eq!(all.and(one), one);
        assert!(Families::default().is_empty() && one.without(all).is_empty() && !one.is_empty());
        let mut set = Families::default();
        set.insert(FamilyIndex::IPV6);
        set.insert(FamilyIndex::IPV4);
        set.remove(Family::Ipv4);
        assert!(set == one && set.has(Family::Ipv6) && !set.has(Family::Ipv4));
    }
}
