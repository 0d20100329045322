//! The treatment of a neighbor that restarts (RFC 4724, RFC 8538, RFC 9494).

use serde::{Deserialize, Serialize};

/// The treatment of a neighbor that restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct GracefulRestart {
    /// True if the neighbor's routes stay while the neighbor restarts.
    pub helper: bool,
    /// True if routes stay after NOTIFICATIONs too, where the neighbor does the same (RFC 8538).
    pub notifications: bool,
    /// The longest time in seconds for which routes stay without a new announcement, once the neighbor's session is up.
    pub stale_time: u16,
    /// The longest time in seconds for which routes stay as long-lived stale routes, if requested by the neighbor (RFC 9494); 0
    /// to not keep routes.
    pub long_lived_time: u32,
}

impl GracefulRestart {
    /// No statement.
    pub const DEFAULT: GracefulRestart =
        GracefulRestart { helper: true, notifications: true, stale_time: 360, long_lived_time: 86_400 };
}

impl Default for GracefulRestart {
    fn default() -> Self {
        GracefulRestart::DEFAULT
    }
}
