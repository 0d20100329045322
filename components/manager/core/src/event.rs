//! Everything that the manager can report.

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::Duration;

/// Something that an operator may want to know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// A component runs and is configured.
    Ready(String),
    /// A component ended without having been told to.
    Died {
        /// The component.
        class: String,
        /// How.
        how: String,
        /// When it will be started again.
        again_in: Duration,
    },
    /// A component did not come up in time.
    StartTimedOut(String),
    /// A component did not end in time and was killed.
    StopTimedOut(String),
    /// A component needs another that is not configured and cannot be started.
    MissingNeed {
        /// The component.
        class: String,
        /// What it needs.
        need: String,
    },
}

impl Event {
    /// Its stable name (docs/events.md).
    pub fn id(&self) -> &'static str {
        match self {
            Event::Ready(_) => "process.ready",
            Event::Died { .. } => "process.died",
            Event::StartTimedOut(_) => "process.start-timeout",
            Event::StopTimedOut(_) => "process.stop-timeout",
            Event::MissingNeed { .. } => "process.missing-need",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Ready(class) => write!(f, "{class} is ready"),
            Event::Died { class, how, again_in } => {
                write!(f, "{class} ended ({how}); it is started again in {} ms", again_in.as_millis())
            }
            Event::StartTimedOut(class) => write!(f, "{class} did not come up in time and is started again"),
            Event::StopTimedOut(class) => write!(f, "{class} did not end in time and is killed"),
            Event::MissingNeed { class, need } => {
                write!(f, "{class} needs {need}, which no component of this name provides")
            }
        }
    }
}
