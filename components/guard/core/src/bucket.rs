//! Counting calls against a rate.

use crate::Breach;
use sluice_base::Instant;
use sluice_clients::Rate;

/// The longest time counted at once, in milliseconds: every bucket is full by then.
const HOUR: u64 = 3_600_000;

/// A bucket of calls, filled by time.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: Rate,
    /// The permitted calls at `since`, in thousandths.
    room: u64,
    since: Instant,
}

impl Bucket {
    /// Returns a full bucket.
    pub fn new(rate: Rate, now: Instant) -> Self {
        Bucket { rate, room: u64::from(rate.calls) * 1000, since: now }
    }

    /// Takes a call out.
    ///
    /// # Errors
    /// The bucket is empty.
    pub fn take(&mut self, now: Instant) -> Result<(), Breach> {
        let most = u64::from(self.rate.calls) * 1000;
        let passed = (now.as_nanos().saturating_sub(self.since.as_nanos()) / 1_000_000).min(HOUR);
        let filled = passed * most / u64::from(self.rate.within_ms);
        if filled > 0 {
            self.room = (self.room + filled).min(most);
            self.since = now;
        }
        self.room = self.room.checked_sub(1000).ok_or(Breach::Rate(self.rate))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_bucket_fills_with_time() {
        let mut bucket = Bucket::new("2/s".parse().expect("a rate"), at(0));
        assert!(bucket.take(at(0)).is_ok() && bucket.take(at(1)).is_ok());
        assert!(bucket.take(at(2)).is_err());
        assert!(bucket.take(at(502)).is_ok());
        assert!(bucket.take(at(503)).is_err());
        let full = [bucket.take(at(100_000)), bucket.take(at(100_000)), bucket.take(at(100_000))];
        assert_eq!(full.map(|taken| taken.is_ok()), [true, true, false]);
    }

    proptest! {
        /// Calls at any times are no more than the rate and the bucket's size allow.
        #[test]
        fn no_more_than_the_rate(steps in proptest::collection::vec(0u64..400, 1..200)) {
            let mut bucket = Bucket::new(Rate { calls: 5, within_ms: 1000 }, at(0));
            let (mut now, mut taken) = (0, 0u64);
            for step in steps {
                now += step;
                taken += u64::from(bucket.take(at(now)).is_ok());
            }
            prop_assert!(taken <= 5 + now * 5 / 1000 + 1);
        }
    }
}
