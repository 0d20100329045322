//! Waiting by polling, for states without a notification: the state of a daemon, or of a kernel.

use std::time::{Duration, Instant};

/// Between two questions: short beside what is waited for, long beside a question.
const PAUSE: Duration = Duration::from_millis(30);

/// Polls until `so` returns true. Returns false after `patience`.
pub fn until(patience: Duration, mut so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}
