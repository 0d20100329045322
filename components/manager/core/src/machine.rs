//! The life cycle of all components: dependency order, back-off, orderly end.

use crate::component::{AfterDeath, Component, Phase, Spec};
use crate::event::{Event, Why};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};
use sluice_machine::{Machine, Outbox, Timers};

/// An event that the machine handles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The set of wanted components.
    Want(Vec<Spec>),
    /// A component's process from before the manager's own start still runs: it is taken over.
    Adopt(Spec),
    /// A process was started.
    Spawned(String),
    /// A component registered with the Finder.
    Registered(String),
    /// A component took its configuration.
    Configured(String),
    /// A component refused its configuration or could not be asked; the component is ended and tried again.
    ConfigureFailed(String, String),
    /// A component must start anew: a change of its configuration holds for the life of a process. The end decides
    /// whether announced routes stay.
    Restart(String, End),
    /// A component is to be restarted on request.
    Renew(String),
    /// A component's process was started from a new executable: if the process keeps dying, the component falls back to
    /// the previous executable.
    Upgraded(String),
    /// An operator has fixed the cause of a component's deaths, or wants to test: the deaths are forgotten, and a
    /// waiting next try happens at once.
    ResetBackoff(String),
    /// The process of a component is being ended from outside the machine, for a reason.
    Killed(String, String),
    /// A process ended, or could not be started.
    Exited(String, String),
    /// The router is to end.
    StopAll,
}

/// An effect that the machine asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// Start the component's process.
    Spawn(String),
    /// Hand the component its configuration.
    Configure(String),
    /// Ask the component to end.
    Terminate(String, End),
    /// End the component's process at once.
    Kill(String),
    /// The component's executable is the executable before its upgrade from now on.
    FallBack(String),
    /// The component's executable has proven itself: there is nothing to go back to any more.
    UpgradeConfirmed(String),
    /// Everything has ended.
    AllStopped,
    /// Something to report.
    Event(Event),
}

/// The reason why a component ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum End {
    /// The component starts again, or the whole router ends: announced routes stay.
    ForNow,
    /// The router goes on without the component: its announced routes are removed.
    ForGood,
}

/// The longest time from a process's start until it is configured.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest time that a process takes to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Describes the last end of a component that fell back to its previous executable.
const FELL_BACK: &str = "; its upgrade is undone: the executable from before runs again";

/// The supervisor of all components.
#[derive(Default)]
pub struct Manager {
    components: BTreeMap<String, Component>,
    timers: Timers<u32>,
    /// Timers are keyed by number: a component's place in this list.
    names: Vec<String>,
    stopping: bool,
}

impl Manager {
    /// A manager of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The components.
    pub fn components(&self) -> impl Iterator<Item = &Component> {
        self.components.values()
    }

    /// A component.
    pub fn component(&self, name: &str) -> Option<&Component> {
        self.components.get(name)
    }

    /// Returns true if every wanted component is ready.
    pub fn is_ready(&self) -> bool {
        self.components.values().all(|c| c.phase == Phase::Ready || !c.wanted)
    }

    fn timer(&mut self, name: &str) -> u32 {
        let known = self.names.iter().position(|n| n == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        });
        u32::try_from(index).expect("fewer components than numbers")
    }

    fn set_phase(&mut self, now: Instant, name: &str, phase: Phase, timeout: Option<Duration>) {
        let timer = self.timer(name);
        match timeout {
            Some(after) => self.timers.start(now, timer, after),
            None => self.timers.stop(timer),
        }
        if let Some(component) = self.components.get_mut(name) {
            component.phase = phase;
        }
    }

    fn phase(&self, name: &str) -> Option<Phase> {
        self.components.get(name).map(|c| c.phase)
    }

    /// Starts the components ready to start, and ends the components ready to end.
    fn advance(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let startable: Vec<String> = self
            .components
            .values()
            .filter(|c| c.wanted && c.phase == Phase::Waiting)
            .filter(|c| c.spec.needs.iter().all(|n| self.phase(n) == Some(Phase::Ready)))
            .map(|c| c.spec.name.clone())
            .collect();
        for name in startable {
            self.set_phase(now, &name, Phase::Starting, Some(START_TIMEOUT));
            out.push(Output::Spawn(name));
        }
        let endable: Vec<String> = self
            .components
            .values()
            .filter(|c| !c.wanted && c.phase != Phase::Stopped && c.phase != Phase::Stopping)
            .filter(|c| !self.is_needed(&c.spec.name))
            .map(|c| c.spec.name.clone())
            .collect();
        for name in endable {
            if self.phase(&name).is_some_and(Phase::has_process) {
                self.set_phase(now, &name, Phase::Stopping, Some(STOP_TIMEOUT));
                let (end, why) = match self.stopping {
                    true => (End::ForNow, Why::RouterStops),
                    false => (End::ForGood, Why::NotConfigured),
                };
                out.push(Output::Event(Event::Stopping { class: name.clone(), why }));
                out.push(Output::Terminate(name, end));
            } else {
                self.set_phase(now, &name, Phase::Stopped, None);
            }
        }
        if self.stopping && self.components.values().all(|c| c.phase == Phase::Stopped) {
            self.stopping = false;
            out.push(Output::AllStopped);
        }
    }

    /// Returns true if a component with a process needs `name`.
    fn is_needed(&self, name: &str) -> bool {
        self.components
            .values()
            .any(|c| c.phase.has_process() && c.spec.name != name && c.spec.needs.iter().any(|n| n == name))
    }

    fn want(&mut self, specs: Vec<Spec>, out: &mut Outbox<Output>) {
        for component in self.components.values_mut() {
            component.wanted = false;
        }
        for spec in &specs {
            for need in spec.needs.iter().filter(|n| !specs.iter().any(|s| s.name == **n)) {
                out.push(Output::Event(Event::MissingNeed { class: spec.name.clone(), need: need.clone() }));
            }
        }
        for spec in specs {
            match self.components.get_mut(&spec.name) {
                Some(component) => {
                    component.wanted = true;
                    component.restarting = component.phase == Phase::Stopping;
                    component.spec = spec;
                    if component.phase == Phase::Stopped {
                        component.phase = Phase::Waiting;
                    }
                }
                None => {
                    self.components.insert(spec.name.clone(), Component::new(spec));
                }
            }
        }
    }

    /// Ends a running component, to be started again after the end.
    fn restart(&mut self, now: Instant, name: &str, end: End, why: Why, out: &mut Outbox<Output>) {
        let Some(component) = self.components.get_mut(name) else { return };
        if component.wanted && matches!(component.phase, Phase::Configuring | Phase::Ready) {
            component.restarting = true;
            self.set_phase(now, name, Phase::Stopping, Some(STOP_TIMEOUT));
            out.push(Output::Event(Event::Stopping { class: name.into(), why }));
            out.push(Output::Terminate(name.into(), end));
        }
    }

    fn pardon(&mut self, now: Instant, name: &str) {
        let Some(component) = self.components.get_mut(name) else { return };
        component.pardon();
        if matches!(component.phase, Phase::BackingOff | Phase::Failing) {
            self.set_phase(now, name, Phase::Waiting, None);
        }
    }

    /// Records the reason why the component's process is being ended, if the component has a process.
    fn condemn(&mut self, name: &str, reason: String) {
        if let Some(component) = self.components.get_mut(name)
            && component.phase.has_process()
        {
            component.condemned = reason;
        }
    }

    fn exited(&mut self, now: Instant, name: &str, how: String, out: &mut Outbox<Output>) {
        let Some(component) = self.components.get_mut(name) else { return };
        let how = component.end_in_words(&how);
        component.last_exit = how.clone();
        let restarting = core::mem::take(&mut component.restarting);
        if !component.wanted {
            return self.set_phase(now, name, Phase::Stopped, None);
        }
        if restarting {
            return self.set_phase(now, name, Phase::Waiting, None);
        }
        component.restarts += 1;
        let was_on_trial = component.on_trial;
        let after = component.died(now);
        let is_proven = was_on_trial && !component.on_trial;
        if let AfterDeath::FallBack(_) = after {
            component.last_exit.push_str(FELL_BACK);
        }
        let (phase, wait) = match after {
            AfterDeath::Again(wait) | AfterDeath::FallBack(wait) => (Phase::BackingOff, wait),
            AfterDeath::GiveUp(wait) | AfterDeath::Seldom(wait) => (Phase::Failing, wait),
        };
        self.set_phase(now, name, phase, Some(wait));
        out.push(Output::Event(Event::Died { class: name.into(), how: how.clone(), again_in: wait }));
        match after {
            AfterDeath::GiveUp(_) => out.push(Output::Event(Event::Failing { class: name.into(), how })),
            AfterDeath::FallBack(_) => {
                out.push(Output::FallBack(name.into()));
                out.push(Output::Event(Event::FellBack { class: name.into(), how }));
            }
            AfterDeath::Again(_) | AfterDeath::Seldom(_) if is_proven => {
                out.push(Output::UpgradeConfirmed(name.into()))
            }
            AfterDeath::Again(_) | AfterDeath::Seldom(_) => {}
        }
    }
}

impl Machine for Manager {
    type Input = Input;
    type Output = Output;
    type State = Vec<Component>;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Want(specs) => self.want(specs, out),
            Input::Adopt(spec) => {
                let name = spec.name.clone();
                self.components.entry(name.clone()).or_insert_with(|| Component::new(spec));
                self.set_phase(now, &name, Phase::Starting, Some(START_TIMEOUT));
            }
            Input::Spawned(_) => {}
            Input::Registered(name) if self.phase(&name) == Some(Phase::Starting) => {
                self.set_phase(now, &name, Phase::Configuring, Some(START_TIMEOUT));
                out.push(Output::Configure(name));
            }
            Input::Registered(_) => {}
            Input::Configured(name) if self.phase(&name) == Some(Phase::Configuring) => {
                self.set_phase(now, &name, Phase::Ready, None);
                if let Some(component) = self.components.get_mut(&name) {
                    component.ready_since = Some(now);
                }
                out.push(Output::Event(Event::Ready(name)));
            }
            Input::Configured(_) => {}
            Input::ConfigureFailed(name, reason) => {
                self.condemn(&name, reason);
                if self.phase(&name).is_some_and(Phase::has_process) {
                    out.push(Output::Kill(name));
                }
            }
            Input::Restart(name, end) => self.restart(now, &name, end, Why::ConfigurationChanged, out),
            Input::Renew(name) => self.restart(now, &name, End::ForNow, Why::Asked, out),
            Input::Upgraded(name) => {
                if let Some(component) = self.components.get_mut(&name) {
                    component.upgraded(now);
                }
            }
            Input::ResetBackoff(name) => self.pardon(now, &name),
            Input::Killed(name, reason) => self.condemn(&name, reason),
            Input::Exited(name, how) => self.exited(now, &name, how, out),
            Input::StopAll => {
                self.stopping = true;
                for component in self.components.values_mut() {
                    component.wanted = false;
                }
            }
        }
        self.advance(now, out);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        while let Some(timer) = self.timers.pop_due(now) {
            let Some(name) = self.names.get(timer as usize).cloned() else { continue };
            match self.phase(&name) {
                Some(Phase::BackingOff | Phase::Failing) => self.set_phase(now, &name, Phase::Waiting, None),
                Some(Phase::Starting | Phase::Configuring) => {
                    out.push(Output::Event(Event::StartTimedOut(name.clone())));
                    self.condemn(&name, format!("it did not come up within {} s", START_TIMEOUT.as_secs()));
                    out.push(Output::Kill(name));
                }
                Some(Phase::Stopping) => {
                    out.push(Output::Event(Event::StopTimedOut(name.clone())));
                    self.condemn(&name, format!("it did not end within {} s", STOP_TIMEOUT.as_secs()));
                    out.push(Output::Kill(name));
                }
                _ => {}
            }
        }
        self.advance(now, out);
    }

    fn export(&self) -> Self::State {
        self.components.values().cloned().collect()
    }

    fn import(&mut self, now: Instant, state: Self::State, out: &mut Outbox<Output>) {
        for component in state {
            let running = component.phase.has_process();
            let spec = component.spec.clone();
            self.components.insert(spec.name.clone(), Component { phase: Phase::Waiting, ..component });
            if running {
                self.handle(now, Input::Adopt(spec), out);
            }
        }
    }
}

#[cfg(test)]
mod tests;
