//! A router's own clock, with an offset from virtual time and a rate of its own.

use sluice_base::Instant;

/// Virtual time and a router's view of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clock {
    offset: u64,
    ppm: i32,
}

/// Millionths.
const MILLION: i128 = 1_000_000;

impl Clock {
    /// A clock that shows `offset` nanoseconds at the beginning and runs `ppm` millionths too fast.
    pub const fn new(offset: u64, ppm: i32) -> Self {
        Clock { offset, ppm }
    }

    /// The clock's reading at `now`.
    pub fn local(self, now: u64) -> Instant {
        let drift = i128::from(now) * i128::from(self.ppm) / MILLION;
        Instant::from_nanos(self.offset.saturating_add((i128::from(now) + drift).max(0) as u64))
    }

    /// The first virtual time at which the clock shows at least `local`.
    pub fn global(self, local: Instant) -> u64 {
        let elapsed = i128::from(local.as_nanos().saturating_sub(self.offset));
        let rate = MILLION + i128::from(self.ppm);
        let mut now = (elapsed * MILLION / rate) as u64;
        while self.local(now) < local && now < u64::MAX {
            now += 1;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for clock in
            [Clock::default(), Clock::new(77, 0), Clock::new(5_000_000_000, 200), Clock::new(9, -300)]
        {
            for at in [0u64, 1, 999, 1_000_000_007, 3_600_000_000_000] {
                let local = clock.local(at);
                let back = clock.global(local);
                assert!(clock.local(back) >= local && back <= at, "{clock:?} {at} {back}");
            }
        }
        assert_eq!(Clock::default().global(Instant::from_nanos(5)), 5);
    }
}
