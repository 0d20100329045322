//! Everything that the manager can report.

use crate::crash_budget::CrashBudget;
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::Duration;

/// Something that an operator may want to know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// A component runs and is configured.
    Ready(String),
    /// A component ended without having been asked to.
    Died {
        /// The component.
        class: String,
        /// The end in words.
        how: String,
        /// The time when it will be started again.
        again_in: Duration,
    },
    /// A component died too often: it is tried seldom from now on.
    Failing {
        /// The component.
        class: String,
        /// The last end.
        how: String,
    },
    /// A component kept dying after its upgrade and fell back to its previous executable.
    FellBack {
        /// The component.
        class: String,
        /// The last end.
        how: String,
    },
    /// A component is asked to end.
    Stopping {
        /// The component.
        class: String,
        /// The reason.
        why: Why,
    },
    /// A component did not come up in time.
    StartTimedOut(String),
    /// A component did not end in time and was killed.
    StopTimedOut(String),
    /// A component needs a component that is not configured and cannot be started.
    MissingNeed {
        /// The component.
        class: String,
        /// The needed component.
        need: String,
    },
}

/// The reason why a component is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Why {
    /// The whole router stops.
    RouterStops,
    /// The configuration does not name it any more.
    NotConfigured,
    /// A change of configuration holds for the life of a process.
    ConfigurationChanged,
    /// An operator requested a new process of a component that cannot hand over.
    Asked,
}

impl Why {
    /// The reason in words.
    pub const fn name(self) -> &'static str {
        match self {
            Why::RouterStops => "the router stops",
            Why::NotConfigured => "it is not configured any more",
            Why::ConfigurationChanged => "what changed in its configuration needs a new process",
            Why::Asked => "somebody wants it to be started anew, and it hands nothing over",
        }
    }
}

/// The severity of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// For the record.
    Info,
    /// Somebody may want to look.
    Warn,
    /// Somebody has to do something.
    Error,
}

impl Event {
    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        match self {
            Event::Ready(_) | Event::Stopping { .. } => Severity::Info,
            Event::Died { .. } | Event::StartTimedOut(_) | Event::StopTimedOut(_) => Severity::Warn,
            Event::Failing { .. } | Event::FellBack { .. } | Event::MissingNeed { .. } => Severity::Error,
        }
    }

    /// Returns the component of the event.
    pub fn class(&self) -> &str {
        match self {
            Event::Ready(class) | Event::StartTimedOut(class) | Event::StopTimedOut(class) => class,
            Event::Stopping { class, .. }
            | Event::Died { class, .. }
            | Event::Failing { class, .. }
            | Event::FellBack { class, .. }
            | Event::MissingNeed { class, .. } => class,
        }
    }

    /// Returns the reason of the event, if the event has a reason beyond its kind.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Event::Died { how, .. } | Event::Failing { how, .. } | Event::FellBack { how, .. } => Some(how),
            Event::Stopping { why, .. } => Some(why.name()),
            _ => None,
        }
    }

    /// Its stable name (docs/events.md).
    pub fn id(&self) -> &'static str {
        match self {
            Event::Ready(_) => "process.ready",
            Event::Died { .. } => "process.died",
            Event::Failing { .. } => "process.failing",
            Event::FellBack { .. } => "process.fell-back",
            Event::Stopping { .. } => "process.stopping",
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
            Event::Failing { class, how } => write!(
                f,
                "{class} ended more than {} times within {} minutes, the last time so: {how}; from now on it is tried every {} \
                 minutes, until it has run for {} minutes; see its events (`sluice show events`), mend that, then commit a change of \
                 its configuration or tell `sluice restart {class}`, which try it at once",
                CrashBudget::DEATHS,
                CrashBudget::WITHIN.as_secs() / 60,
                CrashBudget::WAIT.as_secs() / 60,
                CrashBudget::SOUND_LIFE.as_secs() / 60
            ),
            Event::FellBack { class, how } => write!(
                f,
                "{class} ended {} times since it was upgraded, the last time so: {how}; its executable from before runs again",
                CrashBudget::ON_TRIAL
            ),
            Event::Stopping { class, why } => write!(f, "{class} is asked to end: {}", why.name()),
            Event::StartTimedOut(class) => write!(f, "{class} did not come up in time and is started again"),
            Event::StopTimedOut(class) => write!(f, "{class} did not end in time and is killed"),
            Event::MissingNeed { class, need } => {
                write!(f, "{class} needs {need}, which no component of this name provides")
            }
        }
    }
}
