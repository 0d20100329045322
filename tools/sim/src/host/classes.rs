//! The registry of classes of processes.

use super::{bgp, fea, rib, statics};
use crate::fabric::ipc::{INSTANCES, ProcessId};
use crate::host::process::Class;
use sluice_base::{class_of, component_name, instance_of};
use std::fmt::{self, Debug};

/// The classes, in the manager's starting order. A new protocol needs its file and an entry here.
static CLASSES: [&Class; ProcessId::CLASSES] = [&fea::CLASS, &rib::CLASS, &statics::CLASS, &bgp::CLASS];

impl ProcessId {
    /// Returns the process of a class's name, or of an instance's name (`static@1`).
    pub fn named(name: &str) -> Option<ProcessId> {
        let class = Self::single().find(|id| id.class().name == class_of(name))?;
        let instance = instance_of(name).map_or(Ok(0), str::parse).ok()?;
        (usize::from(instance) < INSTANCES).then_some(ProcessId { instance, ..class })
    }

    /// The description of the class.
    pub fn class(self) -> &'static Class {
        CLASSES[usize::from(self.class)]
    }

    /// The process's name.
    pub fn name(self) -> String {
        let instance = (self.instance > 0).then(|| self.instance.to_string());
        component_name(self.class().name, instance.as_deref())
    }
}

/// A name is no process's.
#[derive(Clone, Debug)]
pub struct UnknownProcess(String);

impl fmt::Display for UnknownProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = ProcessId::single().map(ProcessId::name).collect();
        write!(f, "`{}` is no process; expected one of {}", self.0, names.join(", "))
    }
}

impl TryFrom<String> for ProcessId {
    type Error = UnknownProcess;

    fn try_from(name: String) -> Result<Self, UnknownProcess> {
        Self::named(&name).ok_or(UnknownProcess(name))
    }
}

impl From<ProcessId> for String {
    fn from(id: ProcessId) -> Self {
        id.name()
    }
}
