//! Texts of reports.

use crate::wire::{DecodeError, ErrorCode, ErrorReport, Version};
use alloc::string::String;
use core::fmt;
use sluice_base::Asn;
use sluice_validation::AnyVrp;

/// The end of a session with a cache, or of a connection attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No connection could be made: the system's reason.
    Connect(String),
    /// The connection ended.
    Closed,
    /// The cache did not answer a query in time.
    Silent,
    /// The octets are no PDU.
    Malformed(DecodeError),
    /// The cache reported an error.
    Reported(ErrorReport),
    /// A PDU came in the wrong state.
    Unexpected(&'static str),
    /// The version of a PDU differs from the session's.
    OtherVersion(Version),
    /// The cache's session number changed.
    OtherSession,
    /// The cache's serial number went back.
    SerialWentBack,
    /// Withdrawal of an unknown VRP.
    UnknownRecord(AnyVrp),
    /// Announcement of a known VRP.
    Duplicate(AnyVrp),
    /// The cache has more VRPs than the router takes.
    TooMany(usize),
    /// Withdrawal of the ASPA of a customer without an ASPA.
    UnknownCustomer(Asn),
    /// The cache's ASPAs have more providers than the router takes.
    TooManyProviders(usize),
}

impl Failure {
    /// Returns the code for the error report; `None` if no report is sent.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Failure::Connect(_) | Failure::Closed | Failure::Silent | Failure::Reported(_) => None,
            Failure::Malformed(error) => Some(error.code()),
            Failure::Unexpected(_) | Failure::OtherSession | Failure::SerialWentBack => {
                Some(ErrorCode::CORRUPT_DATA)
            }
            Failure::OtherVersion(_) => Some(ErrorCode::UNEXPECTED_VERSION),
            Failure::UnknownRecord(_) | Failure::UnknownCustomer(_) => Some(ErrorCode::UNKNOWN_RECORD),
            Failure::Duplicate(_) => Some(ErrorCode::DUPLICATE),
            Failure::TooMany(_) | Failure::TooManyProviders(_) => Some(ErrorCode::INTERNAL_ERROR),
        }
    }

    /// Returns true for a fatal error that either side reports (RFC 8210, section 12).
    pub fn is_error(&self) -> bool {
        matches!(self, Failure::Reported(_)) || self.code().is_some()
    }

    /// Returns true if the cache's data are void (RFC 8210, section 5.1).
    pub(crate) const fn voids_data(&self) -> bool {
        matches!(self, Failure::OtherSession)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(error) => write!(f, "no connection: {error}"),
            Failure::Closed => f.write_str("the cache closed the connection"),
            Failure::Silent => f.write_str("the cache did not answer in time"),
            Failure::Malformed(error) => write!(f, "malformed data: {error}"),
            Failure::Reported(report) if report.text.is_empty() => {
                write!(f, "the cache reports: {}", report.code)
            }
            Failure::Reported(report) => write!(f, "the cache reports: {}: {}", report.code, report.text),
            Failure::Unexpected(name) => write!(f, "an unexpected {name} came"),
            Failure::OtherVersion(version) => {
                write!(f, "a PDU of version {version} came, another than before")
            }
            Failure::OtherSession => {
                f.write_str("the cache has another session number; its data are dropped")
            }
            Failure::SerialWentBack => f.write_str("the cache's serial number went back"),
            Failure::UnknownRecord(vrp) => write!(f, "{vrp} was withdrawn and not announced before"),
            Failure::Duplicate(vrp) => write!(f, "{vrp} was announced twice"),
            Failure::TooMany(most) => write!(f, "the cache has more than {most} VRPs"),
            Failure::UnknownCustomer(customer) => {
                write!(f, "the ASPA of AS {customer} was withdrawn and not announced before")
            }
            Failure::TooManyProviders(most) => {
                write!(f, "the cache has ASPAs with more than {most} providers")
            }
        }
    }
}

/// An event for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A cache has sent the complete data in a new session.
    Synchronized {
        /// The cache's name.
        cache: String,
        /// The version of the session.
        version: Version,
        /// The number of VRPs.
        vrps: usize,
    },
    /// A session ended, or a connection attempt failed.
    Lost {
        /// The cache's name.
        cache: String,
        /// The reason.
        failure: Failure,
    },
    /// The data of a cache are too old to be used.
    Expired {
        /// The cache's name.
        cache: String,
    },
    /// The source of the data in effect changed.
    Source {
        /// The name of the cache with the data; `None` for configured ROAs alone.
        cache: Option<String>,
    },
    /// No data are in effect.
    NoData,
}

impl Event {
    /// Returns the stable name (docs/events.md).
    pub const fn id(&self) -> &'static str {
        match self {
            Event::Synchronized { .. } => "rpki.cache.synchronized",
            Event::Lost { .. } => "rpki.cache.lost",
            Event::Expired { .. } => "rpki.cache.expired",
            Event::Source { .. } => "rpki.data.source",
            Event::NoData => "rpki.data.none",
        }
    }

    /// Returns true for events after which the router validates by older data, or by none.
    pub const fn is_warning(&self) -> bool {
        matches!(self, Event::Lost { .. } | Event::Expired { .. } | Event::NoData)
    }

    /// Returns the name of the cache that the event is about.
    pub fn cache(&self) -> Option<&str> {
        match self {
            Event::Synchronized { cache, .. } | Event::Lost { cache, .. } | Event::Expired { cache } => {
                Some(cache)
            }
            Event::Source { cache } => cache.as_deref(),
            Event::NoData => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Synchronized { cache, version, vrps } => {
                write!(f, "cache {cache} sent all of its {vrps} VRPs by version {version}")
            }
            Event::Lost { cache, failure } => write!(f, "cache {cache}: {failure}"),
            Event::Expired { cache } => write!(f, "the data of cache {cache} expired"),
            Event::Source { cache: Some(cache) } => {
                write!(f, "routes are validated by the data of cache {cache}")
            }
            Event::Source { cache: None } => f.write_str("routes are validated by the configured ROAs alone"),
            Event::NoData => {
                f.write_str("no cache has data: routes are not validated, their state is unknown")
            }
        }
    }
}
