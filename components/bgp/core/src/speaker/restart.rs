//! The restart of a neighbor (RFC 4724, section 4.2): the neighbor's routes stay while the neighbor's session is down, because the
//! neighbor goes on forwarding, and until the neighbor has announced its routes again.

use crate::event::DownReason;
use crate::family::Families;
use crate::session::Negotiated;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant, RouterId};

/// The treatment of a neighbor that restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct GracefulRestart {
    /// True if the neighbor's routes stay while the neighbor restarts.
    pub helper: bool,
    /// The longest time in seconds for which routes stay that the neighbor does not announce again, once its session is up.
    pub stale_time: u16,
}

impl GracefulRestart {
    /// No statement.
    pub const DEFAULT: GracefulRestart = GracefulRestart { helper: true, stale_time: 360 };
}

impl Default for GracefulRestart {
    fn default() -> Self {
        GracefulRestart::DEFAULT
    }
}

/// The routes of a neighbor that stay from an earlier session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Restart {
    /// The BGP Identifier of the neighbor in the latest session.
    pub router_id: Option<RouterId>,
    /// The families of the present session that the neighbor preserves over a restart, and the time that the neighbor asks for.
    offered: Option<(Families, Duration)>,
    /// Families with routes that stay.
    pub kept: Families,
    /// The time at which the routes that are left are removed.
    pub until: Option<Instant>,
}

impl Restart {
    /// Notes the end of a session. Returns the families whose routes stay: those that the neighbor preserves, if the connection was lost
    /// without a NOTIFICATION.
    pub fn begin(&mut self, now: Instant, config: GracefulRestart, reason: &DownReason) -> Families {
        let offered = self.offered.take().filter(|_| config.helper && *reason == DownReason::ConnectionLost);
        let (kept, time) = offered.unwrap_or_default();
        self.kept = kept;
        self.until = (!kept.is_empty()).then(|| now + time);
        kept
    }

    /// Notes a new session. Returns the families whose routes are removed at once, because the neighbor lost its forwarding state
    /// or does not exchange the family any more.
    pub fn resume(&mut self, now: Instant, config: GracefulRestart, negotiated: &Negotiated) -> Families {
        self.router_id = Some(negotiated.router_id);
        let restart = negotiated.restart.unwrap_or_default();
        self.offered = (!restart.families.is_empty())
            .then(|| (restart.families, Duration::from_secs(restart.time.into())));
        let lost = self.kept.without(restart.preserved);
        self.kept = self.kept.and(restart.preserved);
        self.until = (!self.kept.is_empty()).then(|| now + Duration::from_secs(config.stale_time.into()));
        lost
    }

    /// Takes families from those with routes that stay. Returns those that were among them.
    pub fn end(&mut self, families: Families) -> Families {
        let ended = self.kept.and(families);
        self.kept = self.kept.without(families);
        if self.kept.is_empty() {
            self.until = None;
        }
        ended
    }
}
