//! The configuration.

use crate::exceptions::Exceptions;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use serde::Serialize;

/// The port of RTR over TCP (RFC 8210, section 14).
pub const PORT: u16 = 323;

/// The port of RTR over TLS (RFC 8210, section 14).
pub const TLS_PORT: u16 = 324;

/// The protection of a connection by TLS (RFC 8210, section 9.2). Files are those of the component's credentials.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TlsSettings {
    /// The name that the cache's certificate must have; `None` for the cache's address.
    pub server_name: Option<String>,
    /// The file with the certificates of the authorities that the router trusts.
    pub authorities: String,
    /// The files with the router's certificate and key; `None` for a router that shows none.
    pub identity: Option<Identity>,
}

/// The files of the router's identity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Identity {
    /// The certificate, and those between the certificate and the authority.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// A cache.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CacheSettings {
    /// The name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The TCP port.
    pub port: u16,
    /// The address to connect from; `None` for the system's choice.
    pub local_address: Option<IpAddr>,
    /// The protection by TLS; `None` for none.
    pub tls: Option<TlsSettings>,
    /// The preference: lower numbers are asked first, equal numbers by name.
    pub preference: u8,
    /// The time between two queries, in place of the cache's Refresh Interval.
    pub refresh: Option<Duration>,
    /// The longest time between two connection attempts, in place of the cache's Retry Interval.
    pub retry: Option<Duration>,
    /// The longest time for which data count without a successful query. A shorter Expire Interval of the cache prevails.
    pub expire: Option<Duration>,
}

impl CacheSettings {
    /// Returns true if connections differ: in addresses, ports or protection.
    pub fn is_elsewhere(&self, other: &Self) -> bool {
        (self.address, self.port, self.local_address, &self.tls)
            != (other.address, other.port, other.local_address, &other.tls)
    }
}

/// The whole configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Settings {
    /// The caches.
    pub caches: Vec<CacheSettings>,
    /// The operator's own VRPs and filters.
    pub exceptions: Exceptions,
}
