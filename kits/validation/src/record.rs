//! VRPs as octets between processes: many in a message, a record each.
//!
//! | octets | content |
//! |---|---|
//! | 1 | bit 0: 1 for an added VRP, 0 for a removed VRP; bit 1: 1 for IPv6 |
//! | 1 | prefix length |
//! | 1 | maximum length |
//! | 4 | AS |
//! | 4 or 16 | first address of the prefix |

use crate::table::VrpTable;
use crate::vrp::AnyVrp;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_base::{Asn, IpPrefix};
use sluice_wire::{Cursor, Truncated};

/// The bit of added VRPs.
const ADDED: u8 = 1;
/// The bit of IPv6.
const IPV6: u8 = 2;

/// An added (true) or removed (false) VRP.
pub type Record = (AnyVrp, bool);

/// The reason why octets are no records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    /// The octets end inside a record.
    Truncated(Truncated),
    /// The first octet of a record has unknown bits.
    Bits(u8),
    /// The length of a prefix, or its maximum length, is out of range, or the prefix has host bits.
    Prefix {
        /// The prefix length.
        len: u8,
        /// The maximum length.
        max_length: u8,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Truncated(error) => write!(f, "a record of a VRP is cut off: {error:?}"),
            RecordError::Bits(bits) => {
                write!(f, "a record of a VRP begins with the unknown octet {bits:#04x}")
            }
            RecordError::Prefix { len, max_length } => {
                write!(
                    f,
                    "a record has a prefix of length {len}, at most {max_length}, with host bits or out of range"
                )
            }
        }
    }
}

impl core::error::Error for RecordError {}

impl From<Truncated> for RecordError {
    fn from(error: Truncated) -> Self {
        RecordError::Truncated(error)
    }
}

/// Appends a record.
pub fn write_record((vrp, is_added): Record, out: &mut Vec<u8>) {
    let family = if matches!(vrp, AnyVrp::V6(_)) { IPV6 } else { 0 };
    out.push(if is_added { family | ADDED } else { family });
    out.extend_from_slice(&[vrp.prefix().len(), vrp.max_length()]);
    out.extend_from_slice(&vrp.asn().0.to_be_bytes());
    match vrp.prefix().addr() {
        IpAddr::V4(addr) => out.extend_from_slice(&addr.octets()),
        IpAddr::V6(addr) => out.extend_from_slice(&addr.octets()),
    }
}

/// Reads all records of a message.
///
/// # Errors
/// The first malformed record.
pub fn read_records(octets: &[u8]) -> Result<Vec<Record>, RecordError> {
    let mut cursor = Cursor::new(octets);
    let mut records = Vec::new();
    while !cursor.is_empty() {
        let bits = cursor.u8()?;
        let (len, max_length, asn) = (cursor.u8()?, cursor.u8()?, Asn(cursor.u32()?));
        let addr = match bits & !ADDED {
            0 => IpAddr::from(cursor.array::<4>()?),
            IPV6 => IpAddr::from(cursor.array::<16>()?),
            _ => return Err(RecordError::Bits(bits)),
        };
        let prefix = IpPrefix::new(addr, len).filter(|prefix| prefix.addr() == addr);
        let vrp = prefix.and_then(|prefix| AnyVrp::new(prefix, max_length, asn));
        records.push((vrp.ok_or(RecordError::Prefix { len, max_length })?, bits & ADDED != 0));
    }
    Ok(records)
}

/// A table is serialized as the records of its VRPs.
impl Serialize for VrpTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut octets = Vec::new();
        self.iter().for_each(|vrp| write_record((vrp, true), &mut octets));
        octets.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VrpTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let octets = Vec::<u8>::deserialize(deserializer)?;
        let records = read_records(&octets).map_err(serde::de::Error::custom)?;
        Ok(VrpTable::new(records.into_iter().map(|(vrp, _)| vrp)))
    }
}
