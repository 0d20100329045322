//! Refused registrations, resolutions and calls, counted by who and what for the router's operator.

use crate::wire::denied::Denied;
use std::collections::BTreeMap;

/// Different denials that wait to be read; further ones are counted together.
const MAX_KINDS: usize = 256;
/// Different denials of a single user that wait to be read: a user with many hides no other user.
const MAX_OF_A_USER: usize = 64;
/// Different denials that a single process other than the Finder reports: a process with many lies hides no other process.
const MAX_OF_A_REPORTER: usize = 128;

/// A refusal, with everything that is known of the refused process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Denial {
    /// What was refused.
    pub denied: Denied,
    /// The principal. Of a wrong key it is the name that the caller gave, for which nobody vouches; empty for an
    /// unknown secret.
    pub principal: String,
    /// The process; 0 if unknown.
    pub pid: u32,
    /// The user; `u32::MAX` if unknown.
    pub uid: u32,
    /// The class, instance, method or address.
    pub subject: String,
    /// The principal of the process that reported the refusal; empty for the Finder's own.
    pub reporter: String,
}

/// Denials since they were last read, with the number of each.
#[derive(Default)]
pub(crate) struct Denials {
    waiting: BTreeMap<Denial, u64>,
    /// Denials of kinds that found no room.
    others: u64,
}

impl Denials {
    pub(crate) fn note(&mut self, denial: Denial, times: u64) {
        if let Some(count) = self.waiting.get_mut(&denial) {
            *count = count.saturating_add(times);
            return;
        }
        let count_of =
            |is_it: &dyn Fn(&Denial) -> bool| self.waiting.keys().filter(|known| is_it(known)).count();
        let is_full = self.waiting.len() >= MAX_KINDS
            || count_of(&|known| known.uid == denial.uid) >= MAX_OF_A_USER
            || (!denial.reporter.is_empty()
                && count_of(&|known| known.reporter == denial.reporter) >= MAX_OF_A_REPORTER);
        if is_full {
            return self.others(times);
        }
        self.waiting.insert(denial, times);
    }

    pub(crate) fn others(&mut self, times: u64) {
        self.others = self.others.saturating_add(times);
    }

    /// Takes the denials, and the number of those that were counted together.
    pub(crate) fn take(&mut self) -> (Vec<(Denial, u64)>, u64) {
        (std::mem::take(&mut self.waiting).into_iter().collect(), std::mem::take(&mut self.others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(uid: u32, reporter: &str, n: u32) -> Denial {
        Denial {
            denied: Denied::Resolution,
            principal: "evil".into(),
            pid: 7,
            uid,
            subject: format!("bgp/bgp.v1.Bgp/Guess{n}"),
            reporter: reporter.into(),
        }
    }

    #[test]
    fn a_flood_is_counted_in_bounded_memory() {
        let mut denials = Denials::default();
        for n in 0..10_000_u32 {
            denials.note(denial(1000 + n % 100, "", n % 1000), 1);
        }
        let (kinds, others) = denials.take();
        assert_eq!(kinds.len(), MAX_KINDS);
        assert_eq!(kinds.iter().map(|(_, count)| count).sum::<u64>() + others, 10_000);
        assert_eq!(denials.take(), (Vec::new(), 0));
    }

    #[test]
    fn a_user_or_a_reporter_with_many_denials_hides_no_other() {
        let mut denials = Denials::default();
        (0..1000).for_each(|n| denials.note(denial(1, "", n), 1));
        (0..1000).for_each(|n| denials.note(denial(1000 + n, "liar", n), 1));
        denials.note(denial(2, "rib", 0), 1);
        let (kinds, others) = denials.take();
        assert_eq!(kinds.len(), MAX_OF_A_USER + MAX_OF_A_REPORTER + 1);
        assert!(kinds.contains(&(denial(2, "rib", 0), 1)));
        assert_eq!(others, 2000 - (MAX_OF_A_USER + MAX_OF_A_REPORTER) as u64);
    }
}
