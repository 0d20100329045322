//! The contract of a component with the frame of its process.

use crate::handover::{HandOverError, Sink, Source, StatePart};
use crate::part::Planned;
use crate::profile::Profile;
use sluice_base::{Provenance, TableId};
use sluice_xrl::idl::common::v1::{Effect, EffectKind};
use sluice_xrl::{Service, XrlEndpoint};
use std::path::PathBuf;
use std::rc::Rc;

/// The services of the frame for a component.
#[derive(Clone)]
pub struct Frame {
    /// The way to other components.
    pub router: XrlEndpoint,
    /// The process's profiling points.
    pub profile: Profile,
    /// The router's run-time folder.
    pub run_dir: PathBuf,
    /// The component's name: the class, or an instance of the class (`bgp@red`).
    pub name: String,
    /// The routing table of the instance.
    pub table: TableId,
    /// The first provenance id of this life; ids go on from here.
    pub provenance: Provenance,
}

/// A component's process.
#[allow(async_fn_in_trait)] // everything here is one thread
pub trait Component: 'static {
    /// The class of the component's target.
    const CLASS: &'static str;

    /// A change of its configuration, ready to be applied.
    type Settings: 'static;

    /// The reasons for which a change is refused, or cannot be applied.
    type Error: std::error::Error + 'static;

    /// Returns the component's own services.
    fn services(self: &Rc<Self>) -> Vec<Service>;

    /// Called when the component is registered under the name `instance`.
    async fn registered(self: Rc<Self>, _instance: String) {}

    /// Collects from other threads what [`Component::prepare`] names effects by. Called before it.
    async fn survey(self: Rc<Self>) {}

    /// The first half of a change of configuration: accepts or refuses the change, and names its effects. Changes
    /// nothing. The error names the fault of the change.
    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Self::Settings>, Self::Error>;

    /// The second half: what was prepared holds from now on.
    async fn apply(self: Rc<Self>, settings: Self::Settings) -> Result<(), Self::Error>;

    /// Returns the reasons why the component runs without a part of its configuration, a sentence each; empty while all
    /// is well. `sluice status` and the metrics show the reasons.
    fn degraded(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called when the process is about to end. With `for_good` the router goes on without the component, and its
    /// announcements must be withdrawn; else the component returns, or the whole router ends, and its announcements
    /// stay.
    async fn shutdown(self: Rc<Self>, _for_good: bool) {}

    /// The parts of the state that [`Component::hand_over`] sends, in their order. A changed part has another version: the old process
    /// writes the newest version that the new one reads, and without such a version goes on.
    const PARTS: &'static [StatePart] = &[];

    /// The version of the state before it had parts. A successor takes over from a process with this version of the old form too.
    const STATE: u32 = 1;

    /// Hands over to a successor, which has the same configuration already: comes to rest, as quickly as possible
    /// without losing anything, and sends its state. From then on the process has no visible effect, until the process
    /// ends silently or is asked to resume. A process whose hand-over ended early, or with an error, is asked to resume
    /// too. A component without state of its own has nothing to do here.
    async fn hand_over(self: Rc<Self>, _to: &mut Sink) -> Result<(), HandOverError> {
        Ok(())
    }

    /// Resumes: there is no successor after all. A process that had given up its name has a name again, as `instance`,
    /// and counted as dead meanwhile.
    async fn resume(self: Rc<Self>, instance: Option<String>) {
        if let Some(instance) = instance {
            self.registered(instance).await;
        }
    }

    /// The counterpart of [`Component::hand_over`]: takes the configuration and the predecessor's state, and checks the
    /// state for completeness. Has no visible effect before the registration.
    async fn take_over(
        self: Rc<Self>,
        settings: Self::Settings,
        _from: &mut Source,
    ) -> Result<(), HandOverError> {
        self.apply(settings).await.map_err(HandOverError::component)
    }
}

/// A prepared change of a component's configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Prepared<S> {
    /// The settings to apply.
    pub settings: S,
    /// The effects of the change.
    pub effects: Vec<Effect>,
}

impl<S> Prepared<S> {
    /// Returns a change without outside effects.
    pub fn quiet(settings: S) -> Self {
        Prepared { settings, effects: Vec::new() }
    }

    /// Returns a change with effects, named as operators know the affected objects; empty lists are dropped.
    pub fn touching(settings: S, effects: Vec<(EffectKind, Vec<String>)>) -> Self {
        let effects = effects.into_iter().filter(|(_, subjects)| !subjects.is_empty());
        let effects = effects.map(|(kind, subjects)| Effect { kind: kind.into(), subjects }).collect();
        Prepared { settings, effects }
    }
}
