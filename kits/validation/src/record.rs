//! VRPs and ASPAs as octets between processes: many in a message, a record each. A VRP:
//!
//! | octets | content |
//! |---|---|
//! | 1 | bit 0: 1 for an added VRP, 0 for a removed VRP; bit 1: 1 for IPv6 |
//! | 1 | prefix length |
//! | 1 | maximum length |
//! | 4 | AS |
//! | 4 or 16 | first address of the prefix |
//!
//! An ASPA, which replaces an earlier ASPA of the customer:
//!
//! | octets | content |
//! |---|---|
//! | 1 | bit 0: 1 for an added ASPA, 0 for a removed ASPA; bit 2: 1 |
//! | 4 | customer AS |
//! | 2 | number of providers, 0 for a removed ASPA |
//! | 4 each | provider AS, sorted |

use crate::aspa::Providers;
use crate::vrp::AnyVrp;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::{Asn, IpPrefix};
use sluice_wire::{Cursor, Truncated};

/// The bit of added VRPs and ASPAs.
const ADDED: u8 = 1;
/// The bit of IPv6.
const IPV6: u8 = 2;
/// The bit of ASPAs.
const ASPA: u8 = 4;

/// A record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// An added (true) or removed (false) VRP.
    Vrp(AnyVrp, bool),
    /// A customer with its providers; `None` for a removed ASPA.
    Aspa(Asn, Option<Providers>),
}

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
    /// The providers of an ASPA are no list of providers, or a removed ASPA has some.
    Providers {
        /// The customer.
        customer: Asn,
    },
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Truncated(error) => write!(f, "a record is cut off: {error:?}"),
            RecordError::Providers { customer } => {
                write!(f, "the providers of AS {customer} are unsorted, none, or AS 0 beside others")
            }
            RecordError::Bits(bits) => {
                write!(f, "a record begins with the unknown octet {bits:#04x}")
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
pub fn write_record(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Vrp(vrp, is_added) => write_vrp(vrp, *is_added, out),
        Record::Aspa(customer, providers) => {
            let asns = providers.as_ref().map_or(&[][..], Providers::asns);
            out.push(if providers.is_some() { ASPA | ADDED } else { ASPA });
            out.extend_from_slice(&customer.0.to_be_bytes());
            out.extend_from_slice(&(asns.len() as u16).to_be_bytes());
            asns.iter().for_each(|asn| out.extend_from_slice(&asn.0.to_be_bytes()));
        }
    }
}

fn write_vrp(vrp: &AnyVrp, is_added: bool, out: &mut Vec<u8>) {
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
        if bits & !ADDED == ASPA {
            records.push(read_aspa(&mut cursor, bits & ADDED != 0)?);
            continue;
        }
        let (len, max_length, asn) = (cursor.u8()?, cursor.u8()?, Asn(cursor.u32()?));
        let addr = match bits & !ADDED {
            0 => IpAddr::from(cursor.array::<4>()?),
            IPV6 => IpAddr::from(cursor.array::<16>()?),
            _ => return Err(RecordError::Bits(bits)),
        };
        let prefix = IpPrefix::new(addr, len).filter(|prefix| prefix.addr() == addr);
        let vrp = prefix.and_then(|prefix| AnyVrp::new(prefix, max_length, asn));
        let vrp = vrp.ok_or(RecordError::Prefix { len, max_length })?;
        records.push(Record::Vrp(vrp, bits & ADDED != 0));
    }
    Ok(records)
}

fn read_aspa(cursor: &mut Cursor<'_>, is_added: bool) -> Result<Record, RecordError> {
    let (customer, count) = (Asn(cursor.u32()?), usize::from(cursor.u16()?));
    let mut list = cursor.sub(count * 4)?;
    let mut asns = Vec::with_capacity(count);
    while !list.is_empty() {
        asns.push(Asn(list.u32()?));
    }
    let is_empty = asns.is_empty();
    match (is_added, Providers::new(asns)) {
        (true, Some(providers)) => Ok(Record::Aspa(customer, Some(providers))),
        (false, None) if is_empty => Ok(Record::Aspa(customer, None)),
        _ => Err(RecordError::Providers { customer }),
    }
}
