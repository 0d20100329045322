//! Distinguishes a busy component from a stuck component. A component that answers is well. A silent component is busy as long
//! as its process uses the processor, and stuck otherwise; a component busy for very long without an answer is in a
//! livelock. The asking process must not have stood still meanwhile: a pause of the asking process does not count as
//! silence.

use alloc::collections::BTreeMap;
use alloc::string::String;
use sluice_base::{Duration, Instant};

/// The verdict on a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The component answers, or has not been silent for long.
    Well,
    /// The component is silent and works.
    Busy,
    /// The component is silent and does not work.
    Stuck,
    /// The component has worked without an answer for too long to come to an end.
    Livelocked,
}

#[derive(Clone, Copy, Debug)]
struct LastAnswer {
    at: Instant,
    /// The time when this was looked at last.
    looked: Instant,
    cpu: Duration,
    was_busy: bool,
}

impl LastAnswer {
    fn now(now: Instant, cpu: Duration) -> Self {
        LastAnswer { at: now, looked: now, cpu, was_busy: false }
    }
}

/// The limits of the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The interval at which to ask.
    pub every: Duration,
    /// Silence of this length is a matter of concern.
    pub silence: Duration,
    /// The longest time a component may work without an answer.
    pub longest: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            every: Duration::from_secs(5),
            silence: Duration::from_secs(30),
            longest: Duration::from_secs(180),
        }
    }
}

/// The observations of each component.
#[derive(Default)]
pub struct Watchdog {
    limits: Limits,
    last: BTreeMap<String, LastAnswer>,
}

impl Watchdog {
    /// The share of a processor below which a component is not busy: one part in so many.
    const IDLE_SHARE: u64 = 20;
    /// The factor of the interval between two looks after which the watchdog itself stood still.
    const LATE: u32 = 4;

    /// Makes a watchdog with these limits and without observations.
    pub fn new(limits: Limits) -> Self {
        Watchdog { limits, last: BTreeMap::new() }
    }

    /// Notes an answer. Returns true if the component was busy before.
    pub fn answered(&mut self, now: Instant, class: &str, cpu: Duration) -> bool {
        let before = self.last.insert(class.into(), LastAnswer::now(now, cpu));
        before.is_some_and(|last| last.was_busy)
    }

    /// Notes a missing answer; `cpu` is the processor time that the component has used or waited for in total. A
    /// verdict other than "well" is given once for each silence.
    pub fn silent(&mut self, now: Instant, class: &str, cpu: Duration) -> Verdict {
        let last = self.last.entry(class.into()).or_insert(LastAnswer::now(now, cpu));
        if now.saturating_since(last.looked) > self.limits.every * Self::LATE {
            *last = LastAnswer::now(now, cpu);
        }
        last.looked = now;
        let silence = now.saturating_since(last.at);
        if silence < self.limits.silence {
            return Verdict::Well;
        }
        let used = cpu.as_millis().saturating_sub(last.cpu.as_millis());
        if used * u128::from(Self::IDLE_SHARE) < silence.as_millis() {
            self.last.remove(class);
            return Verdict::Stuck;
        }
        if silence >= self.limits.longest {
            self.last.remove(class);
            return Verdict::Livelocked;
        }
        match core::mem::replace(&mut last.was_busy, true) {
            false => Verdict::Busy,
            true => Verdict::Well,
        }
    }

    /// Forgets a component: its process has ended or was replaced.
    pub fn forget(&mut self, class: &str) {
        self.last.remove(class);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn at(s: u64) -> Instant {
        Instant::default() + Duration::from_secs(s)
    }

    /// Checks a silence from 0 on with a given processor time by each second; `expected` holds the new verdicts, with
    /// their times.
    fn check(cpu_ms_by_second: impl Fn(u64) -> u64, expected: &[(u64, Verdict)]) {
        let mut watchdog = Watchdog::default();
        assert!(!watchdog.answered(at(0), "bgp", Duration::ZERO));
        let mut got = Vec::new();
        for second in (5..=200).step_by(5) {
            let verdict = watchdog.silent(at(second), "bgp", Duration::from_millis(cpu_ms_by_second(second)));
            if verdict != Verdict::Well {
                got.push((second, verdict));
            }
            if matches!(verdict, Verdict::Stuck | Verdict::Livelocked) {
                break;
            }
        }
        assert_eq!(got, expected);
    }

    #[test]
    fn busy_is_not_stuck() {
        check(|_| 0, &[(30, Verdict::Stuck)]);
        check(|s| s * 40, &[(30, Verdict::Stuck)]);
        check(|s| s * 1000, &[(30, Verdict::Busy), (180, Verdict::Livelocked)]);
        check(|s| s.min(60) * 200, &[(30, Verdict::Busy), (180, Verdict::Livelocked)]);
        check(|s| s.min(20) * 100, &[(30, Verdict::Busy), (45, Verdict::Stuck)]);
    }

    #[test]
    fn a_manager_that_stood_still_observed_no_silence() {
        let mut watchdog = Watchdog::default();
        watchdog.answered(at(0), "rib", Duration::ZERO);
        assert_eq!(watchdog.silent(at(5), "rib", Duration::ZERO), Verdict::Well);
        for second in (600..630).step_by(5) {
            assert_eq!(watchdog.silent(at(second), "rib", Duration::ZERO), Verdict::Well, "{second}");
        }
        assert_eq!(watchdog.silent(at(630), "rib", Duration::ZERO), Verdict::Stuck);
    }

    #[test]
    fn patience_is_as_one_wants_it() {
        let second = Duration::from_secs(1);
        let mut watchdog = Watchdog::new(Limits { every: second, silence: second, longest: second * 3 });
        watchdog.answered(at(0), "bgp", Duration::ZERO);
        assert_eq!(watchdog.silent(at(1), "bgp", second), Verdict::Busy);
        assert_eq!(watchdog.silent(at(3), "bgp", second * 3), Verdict::Livelocked);
    }

    #[test]
    fn who_answers_again_is_well() {
        let mut watchdog = Watchdog::default();
        watchdog.answered(at(0), "rib", Duration::ZERO);
        let silent = |w: &mut Watchdog, s| w.silent(at(s), "rib", Duration::from_secs(s));
        assert!([10, 20].into_iter().all(|s| silent(&mut watchdog, s) == Verdict::Well));
        assert_eq!(silent(&mut watchdog, 31), Verdict::Busy);
        assert!(watchdog.answered(at(40), "rib", Duration::from_secs(40)));
        assert_eq!(watchdog.silent(at(60), "rib", Duration::from_secs(40)), Verdict::Well);
        watchdog.forget("rib");
        assert_eq!(watchdog.silent(at(99), "rib", Duration::from_secs(40)), Verdict::Well);
    }
}
