//! The wait between a death and the next start.

use serde::{Deserialize, Serialize};
use sluice_base::Duration;

/// The next wait of something that is started again: twice as long after each death, and the first one again after a sound life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Backoff(Self::FIRST)
    }
}

impl Backoff {
    /// The first wait after a death.
    pub const FIRST: Duration = Duration::from_millis(100);
    /// The longest wait.
    pub const LONGEST: Duration = Duration::from_secs(30);
    /// A life of this length counts as sound: the next wait is the first again.
    pub const SOUND_LIFE: Duration = Duration::from_secs(10);

    /// Returns the wait after a life of this length.
    pub fn after(&mut self, lived: Duration) -> Duration {
        let wait = if lived >= Self::SOUND_LIFE { Self::FIRST } else { self.0 };
        self.0 = (wait * 2).min(Self::LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew_after_a_sound_life() {
        let mut backoff = Backoff::default();
        let waits: alloc::vec::Vec<u64> =
            (0..11).map(|_| backoff.after(Duration::ZERO).as_millis() as u64).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(backoff.after(Backoff::SOUND_LIFE), Backoff::FIRST);
        assert_eq!(backoff.after(Duration::ZERO), Backoff::FIRST * 2);
    }
}
