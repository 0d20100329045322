//! The operator's wish to end: SIGINT and SIGTERM as a descriptor to wait for.

use crate::PktgenError;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// SIGINT and SIGTERM, blocked for this thread and for the threads that it starts.
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Blocks the signals. Must be called before any thread is started.
    pub(crate) fn block() -> Result<Self, PktgenError> {
        let mask: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        let blocked = mask.thread_block().and_then(|()| SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC));
        blocked.map(Signals).map_err(|error| PktgenError::call("waiting for signals")(error.into()))
    }

    /// Waits for a signal, or until `other` is readable, at most for `longest`. Returns true if a signal came.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, longest: Duration) -> Result<bool, PktgenError> {
        let mut events = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        events.extend(other.map(|other| PollFd::new(other, PollFlags::POLLIN)));
        match ppoll(&mut events, Some(TimeSpec::from_duration(longest)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(PktgenError::call("waiting for signals")(error.into())),
        }
        Ok(events[0].any().unwrap_or(false))
    }
}
