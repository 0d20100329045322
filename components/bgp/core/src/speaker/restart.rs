//! The restart of a neighbor (RFC 4724, section 4.2; RFC 8538): the neighbor's routes stay while the neighbor's session is down, because the
//! neighbor goes on forwarding, and until the neighbor has announced its routes again.

use crate::event::DownReason;
use crate::family::Families;
use crate::session::Negotiated;
use crate::table::Retained;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant, RouterId};

/// The treatment of a neighbor that restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct GracefulRestart {
    /// True if the neighbor's routes stay while the neighbor restarts.
    pub helper: bool,
    /// True if routes stay after NOTIFICATIONs too, where the neighbor does the same (RFC 8538).
    pub notifications: bool,
    /// The longest time in seconds for which routes stay that the neighbor does not announce again, once its session is up.
    pub stale_time: u16,
}

impl GracefulRestart {
    /// No statement.
    pub const DEFAULT: GracefulRestart = GracefulRestart { helper: true, notifications: true, stale_time: 360 };
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
    /// True if routes stay after NOTIFICATIONs in the present session.
    graceful_notifications: bool,
    /// The time of the first of the losses since when routes stay.
    since: Option<Instant>,
    /// Families with routes that stay.
    pub kept: Families,
    /// The time at which the routes that are left are removed.
    pub until: Option<Instant>,
}

impl Restart {
    /// Notes the end of a session. Returns the routes that stay: those of families that the neighbor preserves, if the connection was lost
    /// without a NOTIFICATION, or if both sides keep routes after NOTIFICATIONs.
    pub fn begin(&mut self, now: Instant, config: GracefulRestart, reason: &DownReason) -> Retained {
        let is_kept = *reason == DownReason::ConnectionLost
            || self.graceful_notifications && reason.is_graceful_notification();
        let offered = self.offered.take().filter(|_| config.helper && is_kept);
        let (kept, time) = offered.unwrap_or_default();
        // RFC 8538, section 4.1. The bound makes the stale time that of the oldest routes too, however often the session is lost.
        let stale_time = Duration::from_secs(config.stale_time.into());
        let since = self.since.filter(|since| {
            self.graceful_notifications && !self.kept.is_empty() && now <= *since + stale_time
        });
        self.kept = kept;
        self.since = (!kept.is_empty()).then(|| since.unwrap_or(now));
        self.until = (!kept.is_empty()).then(|| now + time);
        Retained { families: kept, with_earlier: since.is_some() }
    }

    /// Notes a new session. Returns the families whose routes are removed at once, because the neighbor lost its forwarding state
    /// or does not exchange the family any more.
    pub fn resume(&mut self, now: Instant, config: GracefulRestart, negotiated: &Negotiated) -> Families {
        self.router_id = Some(negotiated.router_id);
        self.graceful_notifications = negotiated.graceful_notifications;
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
