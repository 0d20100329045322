//! Sessions that stay up after a run, for an operator who wants to look at the router while it has the routes.

use crate::peers::reader::Ear;
use crate::peers::session::Session;
use crate::peers::signals::stopping;
use crate::run;
use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigmaskHow;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which a stay looks for ended sessions and due KEEPALIVEs, in milliseconds.
const GLANCE_MS: u16 = 100;

/// The time that sessions stay up after a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stay {
    /// Until SIGINT (Ctrl-C) or SIGTERM.
    UntilStopped,
    /// For the given time, or until SIGINT or SIGTERM.
    For(Duration),
}

impl FromStr for Stay {
    type Err = std::num::ParseIntError;

    fn from_str(seconds: &str) -> Result<Self, Self::Err> {
        seconds.parse().map(|seconds| Stay::For(Duration::from_secs(seconds)))
    }
}

impl std::fmt::Display for Stay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stay::UntilStopped => f.write_str("until Ctrl-C"),
            Stay::For(time) => write!(f, "for {} s, or until Ctrl-C", time.as_secs()),
        }
    }
}

/// The sessions of a finished run.
#[derive(Debug)]
pub struct Kept<'a> {
    pub(crate) ear: &'a Ear,
    pub(crate) sessions: &'a [Arc<Session>],
}

impl Kept<'_> {
    /// Returns the number of sessions that are up.
    pub fn count(&self) -> usize {
        self.sessions.iter().filter(|session| !session.is_closed()).count()
    }

    /// Keeps the sessions alive as long as `stay`.
    ///
    /// # Errors
    /// If a session ends before.
    pub fn wait(&self, stay: Stay) -> Result<()> {
        let before = stopping().thread_swap_mask(SigmaskHow::SIG_BLOCK).context("cannot block signals")?;
        let result = self.wait_blocked(stay);
        before.thread_set_mask().context("cannot restore the signal mask")?;
        result
    }

    fn wait_blocked(&self, stay: Stay) -> Result<()> {
        let signals = SignalFd::with_flags(&stopping(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .context("cannot wait for signals")?;
        let begin = Instant::now();
        let mut alive = begin;
        loop {
            if let Some(reason) = self.ear.failure() {
                bail!("{reason}; the session did not stay");
            }
            run::keep_alive(self.sessions, &mut alive);
            let mut wanted = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let is_stopped = match poll(&mut wanted, PollTimeout::from(GLANCE_MS)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => signals.read_signal()?.is_some(),
                Err(error) => return Err(error).context("cannot wait for signals"),
            };
            if is_stopped || matches!(stay, Stay::For(time) if begin.elapsed() >= time) {
                return Ok(());
            }
        }
    }
}
