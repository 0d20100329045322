//! What was refused to whom: counted for the operator, and an event for each new kind of refusal.

use crate::ManagerProcess;
use crate::audit::record::{Act, Who};
use crate::revisions::now_unix_ms;
use sluice_xrl::Denial;
use sluice_xrl::idl::manager::v1 as pb;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tracing::warn;

/// The time between two looks at the Finder.
const EVERY: Duration = Duration::from_secs(1);
/// Kinds of refusals that are kept; further kinds are counted together.
const MOST: usize = 256;
/// Kinds of a single user's refusals that are kept: a user with many hides no other user.
const MOST_OF_A_USER: usize = 64;

/// Refusals since the manager's start.
#[derive(Default)]
pub struct Denials {
    kinds: RefCell<BTreeMap<Denial, Count>>,
    others: Cell<u64>,
}

#[derive(Clone, Copy)]
struct Count {
    times: u64,
    first_unix_ms: u64,
    last_unix_ms: u64,
}

impl Denials {
    /// Counts refusals of a kind. Returns true for a new kind.
    fn count(&self, denial: &Denial, times: u64, now_unix_ms: u64) -> bool {
        let mut kinds = self.kinds.borrow_mut();
        if let Some(count) = kinds.get_mut(denial) {
            count.times = count.times.saturating_add(times);
            count.last_unix_ms = now_unix_ms;
            return false;
        }
        let of_user = kinds.keys().filter(|known| known.uid == denial.uid).count();
        if kinds.len() >= MOST || of_user >= MOST_OF_A_USER {
            self.others.set(self.others.get().saturating_add(times));
            return false;
        }
        let count = Count { times, first_unix_ms: now_unix_ms, last_unix_ms: now_unix_ms };
        kinds.insert(denial.clone(), count);
        true
    }

    /// Describes the refusals, the latest first.
    pub fn listed(&self) -> pb::GetDenialsReply {
        let kinds = self.kinds.borrow();
        let mut denials: Vec<pb::Denial> = kinds
            .iter()
            .map(|(denial, count)| pb::Denial {
                kind: denial.denied.name().into(),
                principal: denial.principal.clone(),
                pid: denial.pid,
                uid: denial.uid,
                subject: denial.subject.clone(),
                reporter: denial.reporter.clone(),
                times: count.times,
                first_unix_ms: count.first_unix_ms,
                last_unix_ms: count.last_unix_ms,
            })
            .collect();
        denials.sort_by_key(|denial| std::cmp::Reverse(denial.last_unix_ms));
        let mut totals = BTreeMap::<(String, String), u64>::new();
        for denial in &denials {
            let total = totals.entry((denial.kind.clone(), denial.principal.clone())).or_default();
            *total = total.saturating_add(denial.times);
        }
        let totals = totals.into_iter();
        let totals = totals.map(|((kind, principal), times)| pb::DenialTotal { kind, principal, times });
        pb::GetDenialsReply { totals: totals.collect(), denials, others: self.others.get() }
    }
}

/// Follows the Finder's refusals for as long as the manager lives.
pub async fn follow(me: Rc<ManagerProcess>) {
    let mut times = tokio::time::interval(EVERY);
    loop {
        times.tick().await;
        me.note_actions().await;
        let (denials, others) = me.finder.take_denials();
        let known = &me.denials;
        known.others.set(known.others.get().saturating_add(others));
        for (denial, times) in denials {
            if known.count(&denial, times, now_unix_ms()) {
                let Denial { denied, principal, pid, uid, subject, reporter } = &denial;
                warn!(
                    event = "access.denied",
                    kind = denied.name(),
                    principal,
                    pid,
                    uid,
                    subject,
                    reporter,
                    "refused: {} ({}, process {pid}): {subject}",
                    denied.name(),
                    shown(principal)
                );
                let uid = (*uid != u32::MAX).then_some(*uid);
                let who = Who { principal: principal.clone(), uid, pid: *pid };
                let lines = vec![format!("{}: {subject}", denied.name())];
                me.audit.note(who, Act::Denied, lines, "refused".into(), None).await;
            }
        }
    }
}

/// Returns a principal's name for a text.
fn shown(principal: &str) -> &str {
    if principal.is_empty() { "unknown" } else { principal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_xrl::Denied;

    #[test]
    fn kinds_are_bounded_and_every_refusal_is_counted() {
        let denials = Denials::default();
        let denial = |n: usize| Denial {
            denied: Denied::Key,
            principal: "evil".into(),
            pid: 7,
            uid: 1000 + n as u32 % 10,
            subject: format!("bgp/bgp.v1.Bgp/Guess{n}"),
            reporter: "bgp".into(),
        };
        let new = (0..1000).filter(|n| denials.count(&denial(*n), 2, 5)).count();
        assert!(!denials.count(&denial(0), 1, 9));
        let listed = denials.listed();
        assert_eq!((new, listed.denials.len()), (MOST, MOST));
        assert_eq!(listed.denials[0].times + listed.others, 3 + 2 * (1000 - MOST as u64));
        assert_eq!(listed.totals.iter().map(|t| t.times).sum::<u64>() + listed.others, 2001);
        assert_eq!((listed.denials[0].first_unix_ms, listed.denials[0].last_unix_ms), (5, 9));
        let of_one = Denials::default();
        assert_eq!((0..1000).filter(|n| of_one.count(&denial(10 * n), 1, 5)).count(), MOST_OF_A_USER);
    }
}
