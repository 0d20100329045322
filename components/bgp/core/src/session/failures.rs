//! Successive failed connections.

pub(super) use crate::event::down::DownReason;

/// The number of successive connections that ended or could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Failures {
    /// ConnectRetryCounter: every end and failure.
    pub all: u32,
    /// The number of failures by an error.
    pub errors: u32,
    /// True if the last was an error.
    pub last_is_error: bool,
}

impl Failures {
    pub fn add(&mut self, reason: &DownReason) {
        self.last_is_error = reason.is_error();
        self.all = self.all.saturating_add(1);
        self.errors = self.errors.saturating_add(self.last_is_error.into());
    }
}
