//! Views for operators.

use crate::machine::Rpki;
use crate::session::Counters;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use sluice_base::Instant;

/// A cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheView {
    /// The name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The TCP port.
    pub port: u16,
    /// True if connections are protected by TLS.
    pub is_tls: bool,
    /// The preference.
    pub preference: u8,
    /// The name of the session's state.
    pub state: &'static str,
    /// True if the cache's data are in effect.
    pub is_source: bool,
    /// The version of the session, or of the next query.
    pub version: u8,
    /// The cache's session and serial number, with data.
    pub serial: Option<(u16, u32)>,
    /// VRPs of IPv4 and of IPv6.
    pub vrps: (usize, usize),
    /// ASPAs.
    pub aspas: usize,
    /// The time since the last End of Data.
    pub age: Option<Duration>,
    /// The time until the data are void.
    pub expires_in: Option<Duration>,
    /// The last failure since the last End of Data.
    pub problem: Option<String>,
    /// Counters.
    pub counters: Counters,
}

impl Rpki {
    /// Returns the caches by preference.
    pub fn view(&self, now: Instant) -> Vec<CacheView> {
        let view = |name: String| {
            let session = &self.caches.get(&name)?.session;
            let settings = session.settings();
            let data = session.data();
            Some(CacheView {
                address: settings.address,
                port: settings.port,
                is_tls: settings.tls.is_some(),
                preference: settings.preference,
                state: session.phase().name(),
                is_source: self.source() == Some(&name),
                version: session.version().0,
                serial: data.map(|data| (data.session, data.serial.0)),
                vrps: data.map_or((0, 0), |data| (data.table.ipv4.len(), data.table.ipv6.len())),
                aspas: data.map_or(0, |data| data.table.aspas.len()),
                age: data.map(|data| now.saturating_since(data.received)),
                expires_in: session.expires_at().map(|at| at.saturating_since(now)),
                problem: session.last_failure().map(ToString::to_string),
                counters: session.counters(),
                name,
            })
        };
        self.order().into_iter().filter_map(view).collect()
    }
}
