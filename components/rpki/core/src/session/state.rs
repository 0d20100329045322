//! The data and counters of a session, and their way to a new process.

use super::{NEWEST, Session};
use crate::serial::Serial;
use crate::wire::{Intervals, Version};
use alloc::sync::Arc;
use serde::{Deserialize, Serialize};
use sluice_base::Instant;
use sluice_validation::VrpTable;

/// The data of a cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CacheData {
    /// The VRPs and ASPAs.
    #[serde(with = "shared")]
    pub table: Arc<VrpTable>,
    /// The cache's session.
    pub session: u16,
    /// The serial number.
    pub serial: Serial,
    /// The version of session and serial number.
    pub version: Version,
    /// The time of the last End of Data.
    pub received: Instant,
}

/// PDUs and queries since the session's settings hold. A hand-over keeps the counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// PDUs from the cache.
    pub received: u64,
    /// Router keys from the cache, which the router does not use.
    pub router_keys: u64,
    /// Answers with all data.
    pub resets: u64,
    /// Answers with changes.
    pub updates: u64,
    /// Ends of sessions and of attempts.
    pub failures: u64,
}

/// The state of a session with a cache, without the connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionState {
    pub version: Version,
    pub needs_reset: bool,
    pub intervals: Intervals,
    pub failures: u32,
    pub counters: Counters,
    pub data: Option<CacheData>,
}

impl Session {
    /// Returns the state for a new process.
    pub(crate) fn export(&self) -> SessionState {
        SessionState {
            version: self.version,
            needs_reset: self.needs_reset,
            intervals: self.intervals,
            failures: self.failures,
            counters: self.counters,
            data: self.data.clone(),
        }
    }

    /// Takes over the state of an earlier process. The age of the data counts on.
    pub(crate) fn import(&mut self, now: Instant, state: SessionState) {
        let SessionState { version, needs_reset, intervals, failures, counters, data } = state;
        (self.version, self.needs_reset, self.intervals) = (version.min(NEWEST), needs_reset, intervals);
        (self.failures, self.counters, self.data) = (failures, counters, data);
        self.start_expiry(now);
    }
}

/// The serialized form of a shared table: the table.
pub(crate) mod shared {
    use alloc::sync::Arc;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use sluice_validation::VrpTable;

    pub fn serialize<S: Serializer>(table: &Arc<VrpTable>, serializer: S) -> Result<S::Ok, S::Error> {
        VrpTable::serialize(table, serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<VrpTable>, D::Error> {
        VrpTable::deserialize(deserializer).map(Arc::new)
    }
}
