//! A component under supervision.

use crate::backoff::Backoff;
use crate::crash_budget::CrashBudget;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};

/// The properties of a component that the manager needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// The component's name: a class, or an instance of a class (`bgp@red`).
    pub name: String,
    /// The names of components that must be ready before the component is started.
    pub needs: Vec<String>,
}

/// The phase of a component's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Phase {
    /// The component waits for needed components.
    Waiting,
    /// The component died and waits for its next start.
    BackingOff,
    /// The component died too often and is started seldom.
    Failing,
    /// Its process was started and has not registered yet.
    Starting,
    /// The component registered and receives its configuration.
    Configuring,
    /// The component works.
    Ready,
    /// The component is ending.
    Stopping,
    /// The component has ended and is not wanted.
    Stopped,
}

impl Phase {
    /// Returns true if there is a process.
    pub const fn has_process(self) -> bool {
        matches!(self, Phase::Starting | Phase::Configuring | Phase::Ready | Phase::Stopping)
    }

    /// The phase in the words of `show processes`.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::BackingOff => "backing off",
            Phase::Failing => "failing",
            Phase::Starting => "starting",
            Phase::Configuring => "configuring",
            Phase::Ready => "running",
            Phase::Stopping => "stopping",
            Phase::Stopped => "stopped",
        }
    }
}

/// The consequence of a death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterDeath {
    /// A new start after this time.
    Again(Duration),
    /// A new start after this time, with the executable from before the upgrade: the upgraded executable keeps dying.
    FallBack(Duration),
    /// Seldom starts from now on.
    GiveUp(Duration),
    /// Seldom starts as before.
    Seldom(Duration),
}

/// A component as the manager sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Component {
    /// The properties.
    pub spec: Spec,
    /// The phase.
    pub phase: Phase,
    /// The number of restarts.
    pub restarts: u32,
    /// The last end.
    pub last_exit: String,
    /// The next wait.
    pub(crate) backoff: Backoff,
    /// Since when it is ready.
    pub(crate) ready_since: Option<Instant>,
    /// True if it is wanted.
    pub(crate) wanted: bool,
    /// True if it was asked to end only to be started anew.
    pub(crate) restarting: bool,
    /// True between an upgrade and the confirmation of the executable by a sound life.
    pub(crate) on_trial: bool,
    /// Its deaths.
    pub(crate) budget: CrashBudget,
    /// The reason why the manager is ending the process; empty if the process is not being ended.
    pub(crate) condemned: String,
}

impl Component {
    pub(crate) fn new(spec: Spec) -> Self {
        Component {
            spec,
            phase: Phase::Waiting,
            restarts: 0,
            last_exit: String::new(),
            backoff: Backoff::default(),
            ready_since: None,
            wanted: true,
            restarting: false,
            on_trial: false,
            budget: CrashBudget::default(),
            condemned: String::new(),
        }
    }

    /// Returns true if it is wanted.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Returns true if an end now is expected, because the manager requested the end.
    pub fn ends_on_request(&self) -> bool {
        !self.wanted || self.restarting
    }

    /// Describes the end, with the reason if the manager wanted it.
    pub(crate) fn end_in_words(&mut self, how: &str) -> String {
        match core::mem::take(&mut self.condemned) {
            why if why.is_empty() => how.into(),
            why => format!("{why}; {how}"),
        }
    }

    /// The process was started from a new executable.
    pub(crate) fn upgraded(&mut self, now: Instant) {
        self.on_trial = true;
        self.pardon();
        self.ready_since = self.ready_since.map(|_| now);
    }

    /// Notes a death at `now`. The next wait is twice as long unless this life was sound.
    pub(crate) fn died(&mut self, now: Instant) -> AfterDeath {
        let lived = self.ready_since.take().map_or(Duration::ZERO, |since| now.saturating_since(since));
        self.on_trial &= lived < CrashBudget::SOUND_LIFE;
        let just_spent = self.budget.died(now, lived);
        if self.on_trial && self.budget.deaths() >= CrashBudget::ON_TRIAL {
            self.on_trial = false;
            self.pardon();
            return AfterDeath::FallBack(Backoff::FIRST);
        }
        let wait = self.backoff.after(lived);
        match (self.budget.is_spent(), just_spent) {
            (false, _) => AfterDeath::Again(wait),
            (true, true) => AfterDeath::GiveUp(CrashBudget::WAIT),
            (true, false) => AfterDeath::Seldom(CrashBudget::WAIT),
        }
    }

    /// Whatever it died of may be mended.
    pub(crate) fn pardon(&mut self) {
        self.budget.refill();
        self.backoff = Backoff::default();
    }
}
