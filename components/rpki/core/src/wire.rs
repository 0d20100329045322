//! Protocol data units of RTR versions 0 (RFC 6810), 1 (RFC 8210) and 2 (draft-ietf-sidrops-8210bis-27): octets to values and back.

use crate::serial::Serial;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, IpPrefix};
use sluice_validation::{AnyVrp, Providers};
use sluice_wire::{Cursor, Truncated};

/// The newest version of the protocol.
pub const NEWEST: Version = Version(2);

/// Octets of a header.
pub const HEADER: usize = 8;

/// The most octets of a PDU. Error reports with an encapsulated PDU, router keys and ASPAs are the longest.
pub const LONGEST: usize = 1 << 16;

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Version(pub u8);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Types of PDUs (RFC 8210, section 14).
mod kind {
    pub(crate) const SERIAL_NOTIFY: u8 = 0;
    pub(crate) const SERIAL_QUERY: u8 = 1;
    pub(crate) const RESET_QUERY: u8 = 2;
    pub(crate) const CACHE_RESPONSE: u8 = 3;
    pub(crate) const IPV4_PREFIX: u8 = 4;
    pub(crate) const IPV6_PREFIX: u8 = 6;
    pub(crate) const END_OF_DATA: u8 = 7;
    pub(crate) const CACHE_RESET: u8 = 8;
    pub(crate) const ROUTER_KEY: u8 = 9;
    pub(crate) const ERROR_REPORT: u8 = 10;
    pub const ASPA: u8 = 11;
}

/// Codes of errors (RFC 8210, section 12; draft-ietf-sidrops-8210bis, section 12). Codes without a name stay as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    /// Corrupt Data.
    pub const CORRUPT_DATA: ErrorCode = ErrorCode(0);
    /// Internal Error.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(1);
    /// No Data Available: the only error that does not end the session.
    pub const NO_DATA: ErrorCode = ErrorCode(2);
    /// Unsupported Protocol Version.
    pub const UNSUPPORTED_VERSION: ErrorCode = ErrorCode(4);
    /// Unsupported PDU Type.
    pub const UNSUPPORTED_TYPE: ErrorCode = ErrorCode(5);
    /// Withdrawal of Unknown Record.
    pub const UNKNOWN_RECORD: ErrorCode = ErrorCode(6);
    /// Duplicate Announcement Received.
    pub const DUPLICATE: ErrorCode = ErrorCode(7);
    /// Unexpected Protocol Version.
    pub const UNEXPECTED_VERSION: ErrorCode = ErrorCode(8);
    /// ASPA Provider List Error; from version 2 on.
    pub const PROVIDER_LIST: ErrorCode = ErrorCode(9);

    const NAMES: [&'static str; 12] = [
        "Corrupt Data",
        "Internal Error",
        "No Data Available",
        "Invalid Request",
        "Unsupported Protocol Version",
        "Unsupported PDU Type",
        "Withdrawal of Unknown Record",
        "Duplicate Announcement Received",
        "Unexpected Protocol Version",
        "ASPA Provider List Error",
        "Transport Failed",
        "Ordering Error",
    ];
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ErrorCode::NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}

/// The intervals of a cache (RFC 8210, section 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Intervals {
    /// Between two queries.
    pub refresh: Duration,
    /// Between two queries when the last one failed.
    pub retry: Duration,
    /// From End of Data until the data are void.
    pub expire: Duration,
}

impl Intervals {
    /// The intervals recommended by RFC 8210, for caches of version 0.
    pub const RECOMMENDED: Intervals = Intervals {
        refresh: Duration::from_secs(3600),
        retry: Duration::from_secs(600),
        expire: Duration::from_secs(7200),
    };
}

/// A key of a router for BGPsec (RFC 8210, section 5.10).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouterKey {
    /// True if the key comes, false if it goes.
    pub is_announced: bool,
    /// The subject key identifier.
    pub identifier: [u8; 20],
    /// The AS.
    pub asn: Asn,
    /// The subject public key, in DER.
    pub key: Vec<u8>,
}

/// An error report (RFC 8210, section 5.11).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorReport {
    /// The error.
    pub code: ErrorCode,
    /// The erroneous PDU; empty for a generic error.
    pub pdu: Vec<u8>,
    /// A text for people.
    pub text: String,
}

/// A protocol data unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pdu {
    /// The cache has new data.
    SerialNotify {
        /// The cache's session.
        session: u16,
        /// The serial number of the new data.
        serial: Serial,
    },
    /// The router asks for changes.
    SerialQuery {
        /// The cache's session.
        session: u16,
        /// The serial number of the router's data.
        serial: Serial,
    },
    /// The router asks for all data.
    ResetQuery,
    /// Data follow.
    CacheResponse {
        /// The cache's session.
        session: u16,
    },
    /// A VRP that comes (true) or goes (false).
    Prefix(AnyVrp, bool),
    /// All data were sent.
    EndOfData {
        /// The cache's session.
        session: u16,
        /// The serial number of the data.
        serial: Serial,
        /// The cache's intervals; `None` in version 0.
        intervals: Option<Intervals>,
    },
    /// The cache does not have the changes: ask for all data.
    CacheReset,
    /// A key for BGPsec; from version 1 on.
    RouterKey(RouterKey),
    /// The providers of a customer AS, in place of earlier ones; `None` if the customer's ASPA goes. From version 2 on.
    Aspa(Asn, Option<Providers>),
    /// An error.
    ErrorReport(ErrorReport),
}

/// The reason why octets are no PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The version is newer than [`NEWEST`].
    Version(Version),
    /// The version has no PDU of this type.
    Type(u8),
    /// The length does not fit the type.
    Length {
        /// The type.
        kind: u8,
        /// The length in octets.
        len: u32,
    },
    /// A field goes beyond the end of the PDU.
    Truncated(Truncated),
    /// The length or maximum length of a prefix is out of range, or host bits are set.
    Prefix {
        /// The prefix length.
        len: u8,
        /// The maximum length.
        max_length: u8,
    },
    /// The providers of an ASPA are none, unsorted, or AS 0 beside others; or an ASPA that goes has some.
    Providers {
        /// The customer.
        customer: Asn,
    },
}

impl DecodeError {
    /// Returns true if the PDU is an ASPA. Caches with an earlier draft of version 2 write ASPAs otherwise.
    pub(crate) const fn is_of_aspa(&self) -> bool {
        matches!(self, DecodeError::Providers { .. } | DecodeError::Length { kind: kind::ASPA, .. })
    }

    /// Returns the code that is sent to the cache.
    pub const fn code(&self) -> ErrorCode {
        match self {
            DecodeError::Version(_) => ErrorCode::UNSUPPORTED_VERSION,
            DecodeError::Type(_) => ErrorCode::UNSUPPORTED_TYPE,
            DecodeError::Providers { .. } => ErrorCode::PROVIDER_LIST,
            _ => ErrorCode::CORRUPT_DATA,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Version(version) => {
                write!(f, "version {version} is unknown; the newest known version is {NEWEST}")
            }
            DecodeError::Type(kind) => write!(f, "there is no PDU of type {kind} in the version"),
            DecodeError::Length { kind, len } => {
                write!(f, "a PDU of type {kind} has no length of {len} octets")
            }
            DecodeError::Truncated(error) => {
                write!(f, "a field of {} octets at offset {} goes beyond the PDU", error.needed, error.offset)
            }
            DecodeError::Providers { customer } => {
                write!(f, "the providers of AS {customer} are unsorted, none, or AS 0 beside others")
            }
            DecodeError::Prefix { len, max_length } => {
                write!(
                    f,
                    "a prefix of length {len} and maximum length {max_length} is out of range, or has host bits"
                )
            }
        }
    }
}

impl core::error::Error for DecodeError {}

impl From<Truncated> for DecodeError {
    fn from(error: Truncated) -> Self {
        DecodeError::Truncated(error)
    }
}

/// A PDU, its version, and its length in octets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// The version.
    pub version: Version,
    /// The PDU.
    pub pdu: Pdu,
    /// The length in octets.
    pub len: usize,
}

/// Reads the first PDU of `octets`; `None` if the PDU is incomplete.
///
/// # Errors
/// The octets are not the beginning of a PDU.
pub fn decode(octets: &[u8]) -> Result<Option<Decoded>, DecodeError> {
    let mut cursor = Cursor::new(octets);
    if cursor.len() < HEADER {
        return Ok(None);
    }
    let (version, kind, field, len) = (Version(cursor.u8()?), cursor.u8()?, cursor.u16()?, cursor.u32()?);
    if version > NEWEST {
        return Err(DecodeError::Version(version));
    }
    let wrong = DecodeError::Length { kind, len };
    let fits = match kind {
        kind::SERIAL_NOTIFY | kind::SERIAL_QUERY => len == 12,
        kind::RESET_QUERY | kind::CACHE_RESPONSE | kind::CACHE_RESET => len == 8,
        kind::IPV4_PREFIX => len == 20,
        kind::IPV6_PREFIX => len == 32,
        kind::END_OF_DATA => len == if version.0 == 0 { 12 } else { 24 },
        kind::ROUTER_KEY if version.0 > 0 => len >= 32,
        kind::ASPA if version.0 > 1 => len >= 12 && len % 4 == 0,
        kind::ERROR_REPORT => len >= 16,
        _ => return Err(DecodeError::Type(kind)),
    };
    let len = len as usize;
    if !fits || len > LONGEST {
        return Err(wrong);
    }
    if octets.len() < len {
        return Ok(None);
    }
    let mut body = cursor.sub(len - HEADER)?;
    let pdu = match kind {
        kind::SERIAL_NOTIFY => Pdu::SerialNotify { session: field, serial: Serial(body.u32()?) },
        kind::SERIAL_QUERY => Pdu::SerialQuery { session: field, serial: Serial(body.u32()?) },
        kind::RESET_QUERY => Pdu::ResetQuery,
        kind::CACHE_RESPONSE => Pdu::CacheResponse { session: field },
        kind::IPV4_PREFIX => prefix(&mut body, |body| Ok(body.array::<4>()?.into()))?,
        kind::IPV6_PREFIX => prefix(&mut body, |body| Ok(body.array::<16>()?.into()))?,
        kind::END_OF_DATA => {
            let serial = Serial(body.u32()?);
            let intervals = if version.0 == 0 { None } else { Some(intervals(&mut body)?) };
            Pdu::EndOfData { session: field, serial, intervals }
        }
        kind::CACHE_RESET => Pdu::CacheReset,
        kind::ROUTER_KEY => Pdu::RouterKey(RouterKey {
            is_announced: field >> 8 & 1 == 1,
            identifier: body.array()?,
            asn: Asn(body.u32()?),
            key: body.rest().to_vec(),
        }),
        kind::ASPA => aspa(&mut body, field >> 8 & 1 == 1)?,
        _ => {
            let erroneous = body.u32()?;
            let pdu = body.take(erroneous as usize)?.to_vec();
            let text = body.u32()?;
            let text = String::from_utf8_lossy(body.take(text as usize)?).into_owned();
            if !body.is_empty() {
                return Err(wrong);
            }
            Pdu::ErrorReport(ErrorReport { code: ErrorCode(field), pdu, text })
        }
    };
    Ok(Some(Decoded { version, pdu, len }))
}

fn intervals(body: &mut Cursor<'_>) -> Result<Intervals, Truncated> {
    let mut seconds = || Ok(Duration::from_secs(body.u32()?.into()));
    Ok(Intervals { refresh: seconds()?, retry: seconds()?, expire: seconds()? })
}

fn aspa(body: &mut Cursor<'_>, is_announced: bool) -> Result<Pdu, DecodeError> {
    let customer = Asn(body.u32()?);
    let mut asns = Vec::with_capacity(body.len() / 4);
    while !body.is_empty() {
        asns.push(Asn(body.u32()?));
    }
    let is_empty = asns.is_empty();
    match (is_announced, Providers::new(asns)) {
        (true, Some(providers)) => Ok(Pdu::Aspa(customer, Some(providers))),
        (false, None) if is_empty => Ok(Pdu::Aspa(customer, None)),
        _ => Err(DecodeError::Providers { customer }),
    }
}

fn prefix(
    body: &mut Cursor<'_>,
    addr: impl FnOnce(&mut Cursor<'_>) -> Result<IpAddr, Truncated>,
) -> Result<Pdu, DecodeError> {
    let (flags, len, max_length, _) = (body.u8()?, body.u8()?, body.u8()?, body.u8()?);
    let addr = addr(body)?;
    let asn = Asn(body.u32()?);
    let prefix = IpPrefix::new(addr, len).filter(|prefix| prefix.addr() == addr);
    let vrp = prefix.and_then(|prefix| AnyVrp::new(prefix, max_length, asn));
    let vrp = vrp.ok_or(DecodeError::Prefix { len, max_length })?;
    Ok(Pdu::Prefix(vrp, flags & 1 == 1))
}

impl Pdu {
    /// Appends the PDU in a version. Text and PDU of an error report are cut where the whole would be longer than [`LONGEST`]; keys and
    /// intervals are of version 1, ASPAs of version 2.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let start = out.len();
        let (kind, field) = self.header();
        out.extend_from_slice(&[version.0, kind]);
        out.extend_from_slice(&field.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        match self {
            Pdu::SerialNotify { serial, .. } | Pdu::SerialQuery { serial, .. } => {
                out.extend_from_slice(&serial.0.to_be_bytes());
            }
            Pdu::ResetQuery | Pdu::CacheResponse { .. } | Pdu::CacheReset => {}
            Pdu::Prefix(vrp, is_announced) => {
                out.extend_from_slice(&[u8::from(*is_announced), vrp.prefix().len(), vrp.max_length(), 0]);
                match vrp.prefix().addr() {
                    IpAddr::V4(addr) => out.extend_from_slice(&addr.octets()),
                    IpAddr::V6(addr) => out.extend_from_slice(&addr.octets()),
                }
                out.extend_from_slice(&vrp.asn().0.to_be_bytes());
            }
            Pdu::EndOfData { serial, intervals, .. } => {
                out.extend_from_slice(&serial.0.to_be_bytes());
                if version.0 > 0 {
                    let intervals = intervals.unwrap_or(Intervals::RECOMMENDED);
                    for time in [intervals.refresh, intervals.retry, intervals.expire] {
                        let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
                        out.extend_from_slice(&seconds.to_be_bytes());
                    }
                }
            }
            Pdu::RouterKey(key) => {
                out.extend_from_slice(&key.identifier);
                out.extend_from_slice(&key.asn.0.to_be_bytes());
                out.extend_from_slice(&key.key);
            }
            Pdu::Aspa(customer, providers) => {
                out.extend_from_slice(&customer.0.to_be_bytes());
                let asns = providers.iter().flat_map(|providers| providers.asns());
                asns.for_each(|asn| out.extend_from_slice(&asn.0.to_be_bytes()));
            }
            Pdu::ErrorReport(report) => {
                let pdu = &report.pdu[..report.pdu.len().min(LONGEST / 2)];
                let mut end = report.text.len().min(LONGEST / 4);
                while !report.text.is_char_boundary(end) {
                    end -= 1;
                }
                for part in [pdu, &report.text.as_bytes()[..end]] {
                    out.extend_from_slice(&(part.len() as u32).to_be_bytes());
                    out.extend_from_slice(part);
                }
            }
        }
        let len = (out.len() - start) as u32;
        out[start + 4..start + HEADER].copy_from_slice(&len.to_be_bytes());
    }

    /// Returns the type, and the field between type and length.
    fn header(&self) -> (u8, u16) {
        match self {
            Pdu::SerialNotify { session, .. } => (kind::SERIAL_NOTIFY, *session),
            Pdu::SerialQuery { session, .. } => (kind::SERIAL_QUERY, *session),
            Pdu::ResetQuery => (kind::RESET_QUERY, 0),
            Pdu::CacheResponse { session } => (kind::CACHE_RESPONSE, *session),
            Pdu::Prefix(AnyVrp::V4(_), _) => (kind::IPV4_PREFIX, 0),
            Pdu::Prefix(AnyVrp::V6(_), _) => (kind::IPV6_PREFIX, 0),
            Pdu::EndOfData { session, .. } => (kind::END_OF_DATA, *session),
            Pdu::CacheReset => (kind::CACHE_RESET, 0),
            Pdu::RouterKey(key) => (kind::ROUTER_KEY, u16::from(key.is_announced) << 8),
            Pdu::Aspa(_, providers) => (kind::ASPA, u16::from(providers.is_some()) << 8),
            Pdu::ErrorReport(report) => (kind::ERROR_REPORT, report.code.0),
        }
    }

    /// Returns the PDU's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Pdu::SerialNotify { .. } => "Serial Notify",
            Pdu::SerialQuery { .. } => "Serial Query",
            Pdu::ResetQuery => "Reset Query",
            Pdu::CacheResponse { .. } => "Cache Response",
            Pdu::Prefix(AnyVrp::V4(_), _) => "IPv4 Prefix",
            Pdu::Prefix(AnyVrp::V6(_), _) => "IPv6 Prefix",
            Pdu::EndOfData { .. } => "End of Data",
            Pdu::CacheReset => "Cache Reset",
            Pdu::RouterKey(_) => "Router Key",
            Pdu::Aspa(..) => "ASPA",
            Pdu::ErrorReport(_) => "Error Report",
        }
    }
}
