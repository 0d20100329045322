//! Changes for monitoring stations: the log, and the UPDATEs made from the log.

pub(super) mod chunk;
mod encoding;
pub(super) mod log;
pub(super) mod updates;

pub use chunk::{MonitorChunk, MonitoredUpdate};
pub(crate) use log::Monitors;
pub use log::{MonitorId, MonitoredRib, MonitoredRibs};
