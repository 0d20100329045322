//! The limit on deaths. A component that dies now and then is restarted at once; a component that keeps dying has a
//! fault that restarts do not cure, and only takes the processor from the rest of the router. Such a component is tried
//! seldom, until an operator has intervened.

use alloc::collections::VecDeque;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};

/// The deaths of a component, and whether they were too many.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CrashBudget {
    /// The latest deaths, at most one more than [`CrashBudget::DEATHS`].
    deaths: VecDeque<Instant>,
    is_spent: bool,
}

impl CrashBudget {
    /// So many deaths are borne ...
    pub const DEATHS: usize = 10;
    /// ... within this time.
    pub const WITHIN: Duration = Duration::from_secs(600);
    /// The wait between two tries from then on.
    pub const WAIT: Duration = Duration::from_secs(300);
    /// Deaths of an unconfirmed executable until the manager falls back to the executable before.
    pub const ON_TRIAL: usize = 3;
    /// A life of this length, counted from readiness, makes up for every death.
    pub const SOUND_LIFE: Duration = Duration::from_secs(600);

    /// Notes a death at `now` after a ready life of `lived`. Returns true if this death spent the budget.
    pub fn died(&mut self, now: Instant, lived: Duration) -> bool {
        if lived >= Self::SOUND_LIFE {
            self.refill();
        }
        self.deaths.push_back(now);
        // Who was spent stays so, however seldom it dies by then.
        while self.deaths.len() > Self::DEATHS + 1
            || self.deaths.front().is_some_and(|first| now.saturating_since(*first) > Self::WITHIN)
        {
            self.deaths.pop_front();
        }
        let was_spent = self.is_spent;
        self.is_spent |= self.deaths.len() > Self::DEATHS;
        self.is_spent && !was_spent
    }

    /// Returns the number of latest deaths in short succession.
    pub fn deaths(&self) -> usize {
        self.deaths.len()
    }

    /// Returns true if it is spent.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Restores the whole budget: an operator has intervened.
    pub(crate) fn refill(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Checks deaths after so many seconds, each after a ready life of so many; `spent_by` numbers the deaths that
    /// spent the budget, and `is_spent` is the state at the end.
    fn check(deaths: impl IntoIterator<Item = (u64, u64)>, spent_by: &[usize], is_spent: bool) {
        let (mut budget, mut news) = (CrashBudget::default(), Vec::new());
        for (number, (at, lived)) in deaths.into_iter().enumerate() {
            let now = Instant::ZERO + Duration::from_secs(at);
            if budget.died(now, Duration::from_secs(lived)) {
                news.push(number + 1);
            }
            assert!(budget.deaths.len() <= CrashBudget::DEATHS + 1);
        }
        assert_eq!((news.as_slice(), budget.is_spent()), (spent_by, is_spent));
    }

    #[test]
    fn more_than_ten_deaths_within_ten_minutes_are_too_many() {
        check([], &[], false);
        check((0..10).map(|n| (n, 0)), &[], false);
        check((0..11).map(|n| (n, 0)), &[11], true);
        check((0..11).map(|n| (n * 60, 50)), &[11], true);
        check((0..100).map(|n| (n * 61, 50)), &[], false);
        // Ten, a long silence, ten again.
        check((0..20).map(|n| (n + n / 10 * 700, 0)), &[], false);
    }

    #[test]
    fn spent_is_spent_until_a_sound_life() {
        let early = || (0..11).map(|n| (n, 0));
        check(early().chain((1..9).map(|n| (n * 300, 20))), &[11], true);
        check(early().chain([(1000, 599)]), &[11], true);
        check(early().chain([(1000, 600)]), &[11], false);
        check(early().chain([(1000, 600)]).chain((1001..1011).map(|n| (n, 0))), &[11, 22], true);
        check(vec![(0, 600); 30], &[], false);
    }

    #[test]
    fn who_is_refilled_has_it_all() {
        let mut budget = CrashBudget::default();
        let mut spend = || (0..11).filter(|_| budget.died(Instant::ZERO, Duration::ZERO)).count();
        assert_eq!((spend(), spend()), (1, 0));
        budget.refill();
        assert_eq!(budget, CrashBudget::default());
    }
}
