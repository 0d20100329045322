//! The configuration of monitoring stations: the statement `bmp`.

use crate::shard::{MonitoredRib, MonitoredRibs};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::Deserialize;

/// The RIB that a station is sent which names none.
const DEFAULT_RIB: MonitoredRib = MonitoredRib::PrePolicy;

/// The stations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BmpSettings {
    /// The stations, each name once.
    pub station: Vec<StationSettings>,
}

/// A station.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StationSettings {
    /// The name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The TCP port.
    pub port: u16,
    /// The address of this router to connect from; `None` for the system's choice.
    #[serde(default)]
    pub local_address: Option<IpAddr>,
    /// The RIBs that the station is sent; Adj-RIB-In before policy if empty.
    #[serde(default)]
    monitor: Vec<MonitoredRib>,
    /// True if the station is sent malformed UPDATEs as they came (Route Mirroring).
    #[serde(default)]
    pub mirror_malformed: bool,
    /// The seconds between two Statistics Reports; 0 for no reports.
    #[serde(default)]
    pub statistics_interval: u16,
    /// The seconds before the second attempt to connect. Each further wait is twice as long.
    #[serde(default = "retry_interval")]
    pub retry_interval: u16,
}

/// RFC 7854, section 3.2.
const fn retry_interval() -> u16 {
    30
}

impl StationSettings {
    /// The longest wait between two attempts to connect, in seconds (RFC 7854, section 3.2).
    pub const LONGEST_RETRY: u16 = 720;

    /// Returns the RIBs that the station is sent.
    pub fn ribs(&self) -> MonitoredRibs {
        if self.monitor.is_empty() {
            [DEFAULT_RIB].into_iter().collect()
        } else {
            self.monitor.iter().copied().collect()
        }
    }
}
