//! The comparison of the engines with the core, for ever.

use crate::FeaProcess;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// The time between two comparisons.
const PERIOD: Duration = Duration::from_millis(700);

/// The time until the next comparison after a difference.
const SOON: Duration = Duration::from_millis(50);

/// Compares the engines beside the kernel with the core.
pub(crate) async fn run(process: Rc<FeaProcess>) {
    let mut pause = PERIOD;
    loop {
        sleep(pause).await;
        let is_urgent = process.with_drive(|drive, now, effects| drive.compare(now, effects));
        process.wake();
        pause = if is_urgent { SOON } else { PERIOD };
    }
}
