//! Maximum prefixes: a bound on what a neighbor may announce, and on what policy may accept of it.
//!
//! Each table counts for itself, and reports a neighbor's counts after each batch, so that a neighbor can have at most one batch a table
//! above a limit before the limit takes effect.

use super::Speaker;
use super::config::Config;
use super::control::{Control, Output};
use super::peers::{Peers, event};
use super::view::PrefixCounts;
use crate::event::{LimitReached, PeerEvent};
use crate::family::FamilyIndex;
use crate::session;
use crate::shard::PeerIndex;
use crate::table::{Order, SessionEpoch};
use crate::wire::Notification;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};
use sluice_machine::Outbox;

/// The bounds of a family, as `maximum-prefixes` of `bgp.yang` says them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct MaximumPrefixes {
    /// The most prefixes that the neighbor may announce.
    pub received: Option<u32>,
    /// The most prefixes that import policy may accept.
    pub accepted: Option<u32>,
    /// The percentage of a bound at which a warning is due; [`WARN_PERCENT`] if absent.
    pub warn_percent: Option<u8>,
    /// The consequence of a bound that is exceeded; [`LimitAction::Shutdown`] if absent.
    pub action: Option<LimitAction>,
    /// Seconds after which a session that ended for a bound is opened again; never if absent.
    pub restart_after: Option<u32>,
}

/// The percentage of a bound at which a warning is due by default.
pub const WARN_PERCENT: u8 = 75;

/// The consequence of a bound that is exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitAction {
    /// A warning.
    Warn,
    /// New prefixes are ignored as long as the bound is reached.
    Discard,
    /// The session ends with a Cease, Maximum Number of Prefixes Reached (RFC 4486, section 4).
    Shutdown,
}

impl MaximumPrefixes {
    /// No bounds.
    pub const NONE: MaximumPrefixes = MaximumPrefixes {
        received: None,
        accepted: None,
        warn_percent: None,
        action: None,
        restart_after: None,
    };

    /// Returns true if a bound is configured.
    pub const fn is_set(&self) -> bool {
        self.received.is_some() || self.accepted.is_some()
    }

    /// Returns the consequence of a bound that is exceeded.
    pub fn action(&self) -> LimitAction {
        self.action.unwrap_or(LimitAction::Shutdown)
    }

    /// Returns the percentage of a bound at which a warning is due.
    pub fn warn_percent(&self) -> u8 {
        self.warn_percent.unwrap_or(WARN_PERCENT)
    }

    /// Returns these bounds, and others where these say nothing.
    pub fn inherit(self, from: MaximumPrefixes) -> MaximumPrefixes {
        MaximumPrefixes {
            received: self.received.or(from.received),
            accepted: self.accepted.or(from.accepted),
            warn_percent: self.warn_percent.or(from.warn_percent),
            action: self.action.or(from.action),
            restart_after: self.restart_after.or(from.restart_after),
        }
    }

    /// Returns the stage of counts that were at `before`. Counts fall back to a lower stage when they are a tenth below the threshold that they
    /// had reached, so that counts which come and go at a threshold are reported once.
    fn stage(&self, before: Stage, counts: PrefixCount) -> Stage {
        let of = |counts| match self.judge(counts) {
            (Some(_), _) => Stage::Exceeded,
            (None, Some(_)) => Stage::Warned,
            (None, None) => Stage::Below,
        };
        let raise = |count: u32| count.saturating_add(count / 9);
        let raised = PrefixCount { received: raise(counts.received), accepted: raise(counts.accepted) };
        of(counts).max(of(raised).min(before))
    }

    /// Returns the first bound that counts exceed, and the first whose warning they reach.
    fn judge(&self, counts: PrefixCount) -> (Option<LimitReached>, Option<LimitReached>) {
        let bounds = [(self.received, counts.received, false), (self.accepted, counts.accepted, true)];
        let set = bounds.into_iter().filter_map(|(bound, count, is_accepted)| {
            Some(LimitReached { bound: bound?, count, is_accepted })
        });
        let percent = u64::from(self.warn_percent());
        let is_near = |l: &LimitReached| u64::from(l.count) * 100 >= u64::from(l.bound) * percent;
        (set.clone().find(|l| l.count > l.bound), set.clone().find(is_near))
    }
}

/// The prefixes of a neighbor in a table or in all tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrefixCount {
    /// Announced by the neighbor.
    pub received: u32,
    /// Accepted by import policy.
    pub accepted: u32,
}

/// The end of a session for a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LimitStop {
    /// The family with the bound.
    pub family: FamilyIndex,
    /// The bound, and the count that exceeded it.
    pub reached: LimitReached,
    /// The time at which the session is opened again; `None` if an operator or another bound must do that.
    pub restart_at: Option<Instant>,
}

/// A bound that a change of the configuration sets below a neighbor's prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overrun {
    /// The neighbor.
    pub neighbor: IpAddr,
    /// The family with the bound.
    pub family: FamilyIndex,
    /// The bound, and the count that exceeds it.
    pub reached: LimitReached,
    /// The consequence.
    pub action: LimitAction,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overrun { neighbor, family, reached, action } = self;
        let consequence = match action {
            LimitAction::Warn => "a warning",
            LimitAction::Discard => "new prefixes are ignored",
            LimitAction::Shutdown => "the session ends and stays down",
        };
        write!(f, "{neighbor} {family}: {reached}: {consequence}")
    }
}

/// The state of a neighbor's bounds in a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    counts: BTreeMap<(FamilyIndex, usize), PrefixCount>,
    standings: BTreeMap<FamilyIndex, Standing>,
    stopped: Option<LimitStop>,
}

/// The state of a family's bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    stage: Stage,
    /// True if the tables ignore new prefixes.
    is_full: bool,
}

/// The counts of a family beside its bounds, as far as that was reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Stage {
    #[default]
    Below,
    Warned,
    Exceeded,
}

impl Limits {
    /// Takes the state of a process before.
    pub fn resumed(stopped: Option<LimitStop>) -> Self {
        Limits { stopped, ..Limits::default() }
    }

    /// Returns the end of the session for a bound, if the session was not opened again.
    pub const fn stopped(&self) -> Option<&LimitStop> {
        self.stopped.as_ref()
    }

    /// Forgets the counts of a session that is over.
    pub fn end_session(&mut self) {
        self.counts.clear();
        self.standings.clear();
    }

    fn total(&self, family: FamilyIndex) -> PrefixCount {
        let of_family = self.counts.range((family, 0)..=(family, usize::MAX));
        of_family.fold(PrefixCount::default(), |sum, (_, count)| PrefixCount {
            received: sum.received.saturating_add(count.received),
            accepted: sum.accepted.saturating_add(count.accepted),
        })
    }
}

impl Peers {
    /// Takes a table's count of a neighbor's prefixes, and does what the neighbor's bounds say.
    pub fn counted(
        &mut self,
        now: Instant,
        table: usize,
        (index, life, family): (PeerIndex, SessionEpoch, FamilyIndex),
        count: PrefixCount,
        out: &mut Outbox<Output>,
    ) {
        let Some(peer) = self.peer_mut(index).filter(|peer| peer.life == Some(life)) else { return };
        peer.limits.counts.insert((family, table), count);
        self.judge(now, index, family, out);
    }

    /// Judges the known counts of a neighbor by other bounds. Counts of families without a bound before come from the tables.
    pub(super) fn judge_again(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) {
        for family in FamilyIndex::all() {
            let Some(peer) = self.peer_mut(index).filter(|peer| peer.life.is_some()) else { return };
            if !peer.config.maximum_prefixes(family).is_set() {
                peer.limits.counts.retain(|(counted, _), _| *counted != family);
            }
            if let Some(standing) = peer.limits.standings.get_mut(&family) {
                standing.stage = Stage::Below;
                self.judge(now, index, family, out);
            }
        }
    }

    /// Does what a neighbor's bounds of a family say of its counts.
    fn judge(&mut self, now: Instant, index: PeerIndex, family: FamilyIndex, out: &mut Outbox<Output>) {
        let code = self.identity.codes.of(family);
        let Some(peer) = self.peer_mut(index) else { return };
        let (address, bounds) = (peer.config.address, peer.config.maximum_prefixes(family));
        let counts = peer.limits.total(family);
        let (exceeded, near) = bounds.judge(counts);
        let is_full = exceeded.is_some() && bounds.action() == LimitAction::Discard;
        let before = peer.limits.standings.get(&family).copied().unwrap_or_default();
        let stage = bounds.stage(before.stage, counts);
        peer.limits.standings.insert(family, Standing { stage, is_full });
        if is_full != before.is_full {
            out.push(Output::Order(None, Order::SetFull(index, family, is_full)));
            // What was ignored comes again where the neighbor can be asked.
            if !is_full {
                self.ask_for_refresh(index, out);
            }
        }
        if stage <= before.stage {
            return;
        }
        if let Some(reached) = exceeded.or(near) {
            out.push(event(address, PeerEvent::MaximumPrefixes(family, reached)));
        }
        let Some(reached) = exceeded.filter(|_| bounds.action() == LimitAction::Shutdown) else { return };
        let after = bounds.restart_after.map(|seconds| Duration::from_secs(seconds.into()));
        if let Some(peer) = self.peer_mut(index) {
            let restart_at = after.map(|after| now + after);
            peer.limits.stopped = Some(LimitStop { family, reached, restart_at });
        }
        let stop = session::Input::Stop(Notification::max_prefixes(code, reached.bound));
        self.drive(now, index, stop, out);
    }

    /// Returns the next time at which a session that ended for a bound is opened again.
    pub fn next_restart(&self) -> Option<Instant> {
        self.configured().filter_map(|peer| peer.limits.stopped?.restart_at).min()
    }

    /// Opens sessions again whose time has come.
    pub fn restart_limited(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let due = |peer: &super::peer::Peer| {
            peer.limits.stopped.is_some_and(|stop| stop.restart_at.is_some_and(|at| at <= now))
        };
        let all = self.by_address.values().copied();
        let indices: Vec<PeerIndex> =
            all.filter(|index| self.peers[usize::from(index.0)].as_deref().is_some_and(due)).collect();
        for index in indices {
            self.open_limited(now, index, out);
        }
    }

    /// Forgets that a neighbor's session ended for a bound: the operator ends or begins it.
    pub(super) fn forget_stop(&mut self, index: PeerIndex) {
        if let Some(peer) = self.peer_mut(index) {
            peer.limits.stopped = None;
        }
    }

    /// Opens a neighbor's session again if it ended for a bound: the time has come, the operator wants it, or the bounds changed. Returns
    /// true if it had ended so.
    pub fn open_limited(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) -> bool {
        let Some(peer) = self.peer_mut(index) else { return false };
        let was_stopped = peer.limits.stopped.take().is_some();
        if was_stopped && peer.config.enabled {
            self.drive(now, index, session::Input::Start, out);
        }
        was_stopped
    }
}

impl Control {
    /// Returns the bounds that a change to `new` sets below the prefixes of neighbors whose sessions are up; `counts` says the prefixes of
    /// a neighbor. Bounds that stay as they are are judged already.
    pub fn overruns(&self, new: &Config, counts: impl Fn(PeerIndex) -> PrefixCounts) -> Vec<Overrun> {
        let mut overruns = Vec::new();
        for (neighbor, after) in self.config().followed_by(new) {
            let known = self.peers.of(neighbor).filter(|peer| peer.life.is_some() && after.enabled);
            let (Some(peer), Some(index)) = (known, self.neighbor_index(neighbor)) else { continue };
            let counts = counts(index);
            for family in FamilyIndex::all() {
                let bounds = after.maximum_prefixes(family);
                let (received, rejected) = (counts.received[family], counts.rejected[family]);
                let count = PrefixCount { received, accepted: received.saturating_sub(rejected) };
                let is_other = bounds != peer.config.maximum_prefixes(family);
                if let (true, (Some(reached), _)) = (is_other, bounds.judge(count)) {
                    overruns.push(Overrun { neighbor, family, reached, action: bounds.action() });
                }
            }
        }
        overruns
    }
}

impl Speaker {
    /// Returns the bounds that a change to `new` sets below the prefixes of neighbors whose sessions are up.
    pub fn overruns(&self, new: &Config) -> Vec<Overrun> {
        self.control.overruns(new, |index| self.tables.iter().map(|table| table.counts(index)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_judged_by_both_counts() {
        let bounds =
            MaximumPrefixes { received: Some(100), accepted: Some(10), ..MaximumPrefixes::default() };
        let judge = |received, accepted| {
            let (exceeded, near) = bounds.judge(PrefixCount { received, accepted });
            (exceeded.map(|l| l.is_accepted), near.map(|l| l.is_accepted))
        };
        assert_eq!(judge(74, 7), (None, None));
        assert_eq!(judge(75, 7), (None, Some(false)));
        assert_eq!(judge(74, 8), (None, Some(true)));
        assert_eq!(judge(100, 10), (None, Some(false)));
        assert_eq!(judge(101, 10), (Some(false), Some(false)));
        assert_eq!(judge(50, 11), (Some(true), Some(true)));
        assert!(!MaximumPrefixes::default().is_set());
    }
}
