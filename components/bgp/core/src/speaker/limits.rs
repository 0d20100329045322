//! Maximum prefixes: a bound on what a neighbor may announce, and on what policy may accept of it.
//!
//! Each table counts for itself, and reports a neighbor's counts after each batch, so that a neighbor can have at most one batch a table
//! above a limit before the limit takes effect.

use super::control::Output;
use super::peers::{Peers, event};
use crate::event::{LimitReached, PeerEvent};
use crate::family::FamilyIndex;
use crate::session;
use crate::shard::PeerIndex;
use crate::table::{Order, SessionEpoch};
use crate::wire::notification::cease;
use alloc::collections::BTreeMap;
use alloc::string::String;
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

    /// Returns the first bound that counts exceed, and the first whose warning they reach.
    fn judge(&self, counts: PrefixCount) -> (Option<LimitReached>, Option<LimitReached>) {
        let bounds = [(self.received, counts.received, false), (self.accepted, counts.accepted, true)];
        let set = bounds.into_iter().filter_map(|(bound, count, is_accepted)| {
            Some(LimitReached { bound: bound?, count, is_accepted })
        });
        let percent = u64::from(self.warn_percent.unwrap_or(WARN_PERCENT));
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

/// The state of a neighbor's bounds in a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    counts: BTreeMap<(FamilyIndex, usize), PrefixCount>,
    /// Families of which a warning was given, an excess reported, or new prefixes are ignored.
    warned: BTreeMap<FamilyIndex, Stage>,
    /// True if the session ended for a bound, and was not opened again.
    is_stopped: bool,
    /// The time at which a session that ended for a bound is opened again.
    pub restart_at: Option<Instant>,
}

/// How far a family has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Stage {
    #[default]
    Below,
    Warned,
    Exceeded,
}

impl Limits {
    /// Returns true if the session ended for a bound, and was not opened again.
    pub const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Forgets the counts of a session that is over.
    pub fn end_session(&mut self) {
        self.counts.clear();
        self.warned.clear();
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
        let (address, bounds) = (peer.config.address, peer.config.family(family).maximum_prefixes);
        peer.limits.counts.insert((family, table), count);
        let (exceeded, near) = bounds.judge(peer.limits.total(family));
        let stage = match (exceeded, near) {
            (Some(_), _) => Stage::Exceeded,
            (None, Some(_)) => Stage::Warned,
            (None, None) => Stage::Below,
        };
        let before = peer.limits.warned.insert(family, stage).unwrap_or_default();
        let action = bounds.action.unwrap_or(LimitAction::Shutdown);
        if action == LimitAction::Discard && (before == Stage::Exceeded) != (stage == Stage::Exceeded) {
            let is_full = stage == Stage::Exceeded;
            out.push(Output::Order(None, Order::SetFull(index, family, is_full)));
            // What was ignored comes again where the neighbor can be asked.
            if !is_full {
                self.ask_for_refresh(index, out);
            }
        }
        if stage <= before {
            return;
        }
        if let Some(reached) = exceeded.or(near) {
            out.push(event(address, PeerEvent::MaximumPrefixes(family, reached)));
        }
        if stage == Stage::Exceeded && action == LimitAction::Shutdown {
            let after = bounds.restart_after.map(|seconds| Duration::from_secs(seconds.into()));
            if let Some(peer) = self.peer_mut(index) {
                peer.limits.is_stopped = true;
                peer.limits.restart_at = after.map(|after| now + after);
            }
            let stop = session::Input::Stop { subcode: cease::MAX_PREFIXES, text: String::new() };
            self.drive(now, index, stop, out);
        }
    }

    /// Returns the next time at which a session that ended for a bound is opened again.
    pub fn next_restart(&self) -> Option<Instant> {
        self.configured().filter_map(|peer| peer.limits.restart_at).min()
    }

    /// Opens sessions again whose time has come.
    pub fn restart_limited(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let due = |peer: &super::peer::Peer| peer.limits.restart_at.is_some_and(|at| at <= now);
        let all = self.by_address.values().copied();
        let indices: alloc::vec::Vec<PeerIndex> =
            all.filter(|index| self.peers[usize::from(index.0)].as_deref().is_some_and(due)).collect();
        for index in indices {
            self.open_limited(now, index, out);
        }
    }

    /// Opens a neighbor's session again if it ended for a bound: the time has come, the operator wants it, or the bounds changed. Returns
    /// true if it had ended so.
    pub fn open_limited(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) -> bool {
        let Some(peer) = self.peer_mut(index) else { return false };
        peer.limits.restart_at = None;
        let was_stopped = core::mem::take(&mut peer.limits.is_stopped);
        if was_stopped && peer.config.enabled {
            self.drive(now, index, session::Input::Start, out);
        }
        was_stopped
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
