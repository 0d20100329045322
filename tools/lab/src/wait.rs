//! Waiting for what nobody tells: the state of a daemon, or of a kernel, that is seen only by asking.

use std::time::{Duration, Instant};

/// Between two questions: short beside what is waited for, long beside a question.
const PAUSE: Duration = Duration::from_millis(30);

/// Asks until it is so; whether that was within `patience`.
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
