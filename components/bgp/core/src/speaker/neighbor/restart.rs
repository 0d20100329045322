//! The restart of a neighbor (RFC 4724, section 4.2; RFC 8538; RFC 9494): the neighbor's routes stay while the neighbor's session is down, because the
//! neighbor goes on forwarding, and until the neighbor has announced its routes again.

pub(super) use crate::event::down::DownReason;
use crate::family::{ByFamily, Families, FamilyIndex};
use crate::session::Negotiated;
use crate::speaker::config::GracefulRestart;
use crate::table::Retained;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant, RouterId};

/// Routes of a family that stay from an earlier session, for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoutesStay {
    /// True if the routes are long-lived stale ones.
    pub is_long_lived: bool,
    /// The end of the time for which they stay.
    pub until: Instant,
}

/// The reason for routes of a family to stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Stay {
    /// The neighbor restarts; until then.
    Restart(Instant),
    /// The routes are long-lived stale ones; until then.
    LongLived(Instant),
}

impl Stay {
    pub(crate) const fn until(self) -> Instant {
        match self {
            Stay::Restart(until) | Stay::LongLived(until) => until,
        }
    }
}

/// The restart that the neighbor is prepared for in the present session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Offer {
    /// Families that the neighbor preserves over a restart.
    families: Families,
    /// The seconds that a restart may take.
    time: u16,
    /// The seconds for which stale routes of a family stay after that time.
    long_lived: ByFamily<u32>,
    /// True if routes stay after NOTIFICATIONs.
    notifications: bool,
}

impl Offer {
    /// Returns the time for which routes of a family stay as long-lived stale routes; zero if routes do not stay.
    fn long_lived_time(&self, family: FamilyIndex, config: GracefulRestart) -> Duration {
        Duration::from_secs(self.long_lived[family].min(config.long_lived_time).into())
    }
}

/// Routes whose time to stay is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overdue {
    /// Families whose routes become long-lived stale ones.
    pub long_lived: Families,
    /// Families whose routes are removed.
    pub removed: Families,
}

/// The routes of a neighbor that stay from an earlier session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Restart {
    /// The BGP Identifier of the neighbor in the latest session.
    pub router_id: Option<RouterId>,
    /// The offer of the latest session.
    offer: Offer,
    /// The time of the first of the losses since when routes stay.
    since: Option<Instant>,
    /// The families with routes that stay.
    stays: ByFamily<Option<Stay>>,
}

impl Restart {
    /// Returns the families with routes that stay.
    pub fn kept(&self) -> Families {
        Families::of(|family| self.stays[family].is_some())
    }

    /// Returns the families with kept routes: true for long-lived stale routes, and the end of the time to stay.
    pub fn stays(&self) -> ByFamily<Option<RoutesStay>> {
        ByFamily::from_fn(|family| {
            let stay = self.stays[family]?;
            Some(RoutesStay { is_long_lived: matches!(stay, Stay::LongLived(_)), until: stay.until() })
        })
    }

    /// Returns the next time at which routes have stayed for as long as they may.
    pub fn deadline(&self) -> Option<Instant> {
        self.stays.iter().filter_map(|(_, stay)| stay.map(Stay::until)).min()
    }

    /// Notes the end of a session. Returns the routes to keep: of the families preserved by the neighbor, if the connection was
    /// lost without a NOTIFICATION, or if both sides keep routes after NOTIFICATIONs.
    pub fn begin(&mut self, now: Instant, config: GracefulRestart, reason: &DownReason) -> Retained {
        let offer = self.offer;
        let is_kept = config.helper
            && (*reason == DownReason::ConnectionLost
                || offer.notifications && reason.is_graceful_notification());
        let has_long_lived = |family| !offer.long_lived_time(family, config).is_zero();
        let kept = Families::of(|family| is_kept && (offer.families.has(family) || has_long_lived(family)));
        // RFC 8538, section 4.1. The bound makes the stale time that of the oldest routes too, however often the session is lost.
        let stale_time = Duration::from_secs(config.stale_time.into());
        let had_kept = !self.kept().is_empty();
        let since = self.since.filter(|since| offer.notifications && had_kept && now <= *since + stale_time);
        self.since = (!kept.is_empty()).then(|| since.unwrap_or(now));
        self.stays = ByFamily::from_fn(|family| {
            // RFC 9494, section 4.2: without the other capability a restart takes no time.
            let time = if offer.families.has(family) { offer.time } else { 0 };
            kept.has(family).then(|| Stay::Restart(now + Duration::from_secs(time.into())))
        });
        Retained { families: kept, with_earlier: since.is_some() }
    }

    /// Notes a new session. Returns the families whose routes are removed at once, because the neighbor lost its forwarding state
    /// or does not exchange the family any more.
    pub fn resume(&mut self, now: Instant, config: GracefulRestart, negotiated: &Negotiated) -> Families {
        self.router_id = Some(negotiated.router_id);
        let restart = negotiated.restart.unwrap_or_default();
        let long_lived = negotiated.long_lived.unwrap_or_default();
        self.offer = Offer {
            families: restart.families,
            time: restart.time,
            long_lived: long_lived.times,
            notifications: negotiated.graceful_notifications,
        };
        let stale_until = now + Duration::from_secs(config.stale_time.into());
        let before = self.kept();
        self.stays = ByFamily::from_fn(|family| match self.stays[family]? {
            Stay::Restart(_) => restart.preserved.has(family).then_some(Stay::Restart(stale_until)),
            // RFC 9494, section 4.2: the time goes on until the End-of-RIB marker.
            stay @ Stay::LongLived(_) => long_lived.preserved.has(family).then_some(stay),
        });
        before.without(self.kept())
    }

    /// Returns the families whose time to stay in the present state is over. Routes of a neighbor without a session become
    /// long-lived stale, if requested by the neighbor.
    pub fn expire(&mut self, now: Instant, config: GracefulRestart, has_session: bool) -> Overdue {
        let mut overdue = Overdue::default();
        for family in FamilyIndex::all() {
            let Some(stay) = self.stays[family].filter(|stay| stay.until() <= now) else { continue };
            let time = self.offer.long_lived_time(family, config);
            let becomes_long_lived = matches!(stay, Stay::Restart(_)) && !has_session && !time.is_zero();
            if becomes_long_lived {
                self.stays[family] = Some(Stay::LongLived(now + time));
                overdue.long_lived.insert(family);
            } else {
                overdue.removed.insert(family);
            }
        }
        overdue
    }

    /// Removes families from the families with kept routes. Returns the removed families.
    pub fn end(&mut self, families: Families) -> Families {
        let ended = self.kept().and(families);
        ended.iter().for_each(|family| self.stays[family] = None);
        ended
    }
}
