//! What a process refused, on its way to the Finder, which counts it for the operator.

use crate::idl::finder::v1 as wire;
use crate::wire::denied::Denied;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// Different refusals that wait with their details; further ones are counted only.
const MAX_WAITING: usize = 64;
/// Different refusals of a single user that wait with their details: a user with many hides no other user.
const MAX_OF_A_USER: usize = 32;
/// Characters of a refusal's names.
const MAX_TEXT: usize = 200;

/// A refusal's details.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Refusal {
    uid: Option<u32>,
    pid: Option<u32>,
    denied: Denied,
    claimed: String,
    subject: String,
}

/// Refusals that were not reported to the Finder yet.
#[derive(Default)]
pub(crate) struct Refusals {
    waiting: RefCell<BTreeMap<Refusal, u64>>,
    others: Cell<u64>,
    pub(crate) arrived: Notify,
}

impl Refusals {
    /// Notes a refusal of the process and user that the kernel reports, if it does.
    pub(crate) fn note(
        &self,
        denied: Denied,
        claimed: &str,
        subject: &str,
        (pid, uid): (Option<u32>, Option<u32>),
    ) {
        let mut waiting = self.waiting.borrow_mut();
        let text = |s: &str| s.chars().take(MAX_TEXT).collect();
        let refusal = Refusal { uid, pid, denied, claimed: text(claimed), subject: text(subject) };
        if let Some(times) = waiting.get_mut(&refusal) {
            *times += 1;
            return;
        }
        let of_user = waiting.keys().filter(|known| known.uid == uid).count();
        if waiting.len() >= MAX_WAITING || of_user >= MAX_OF_A_USER {
            self.others.set(self.others.get() + 1);
            return;
        }
        waiting.insert(refusal, 1);
        self.arrived.notify_one();
    }

    /// Takes the refusals since the last call.
    pub(crate) fn take(&self) -> wire::ReportRefusalsRequest {
        let report = |(refusal, times): (Refusal, u64)| wire::RefusalReport {
            denied: refusal.denied.number(),
            claimed: refusal.claimed,
            pid: refusal.pid.unwrap_or(0),
            uid: refusal.uid,
            subject: refusal.subject,
            times,
        };
        wire::ReportRefusalsRequest {
            refusals: self.waiting.take().into_iter().map(report).collect(),
            others: self.others.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_who_and_what() {
        let refusals = Refusals::default();
        let note = |uid, subject: &str| refusals.note(Denied::Limit, "evil", subject, (Some(7), Some(uid)));
        (0..1000).for_each(|_| note(1, "connections"));
        (0..1000).for_each(|n| note(1, &format!("invented {n}")));
        note(2, "connections");
        let taken = refusals.take();
        let counts: Vec<_> = taken
            .refusals
            .iter()
            .filter(|report| report.subject == "connections")
            .map(|report| (report.uid, report.times))
            .collect();
        assert_eq!(counts, [(Some(1), 1000), (Some(2), 1)]);
        assert_eq!(taken.refusals.len(), MAX_OF_A_USER + 1);
        assert_eq!(taken.refusals.iter().map(|report| report.times).sum::<u64>() + taken.others, 2001);
        assert_eq!(refusals.take(), wire::ReportRefusalsRequest::default());
    }
}
