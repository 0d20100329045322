//! The signals that end the stay of sessions after a run.

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};

/// Returns the signals.
pub(crate) fn stopping() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

/// Blocks the signals in the current thread, so that the waiting thread receives them.
pub(super) fn leave_signals_to_others() -> Result<()> {
    stopping().thread_block().context("cannot block signals")
}
