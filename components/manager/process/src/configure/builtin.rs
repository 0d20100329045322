//! The components of the executable, and the places of the configuration.

use sluice_base::{class_of, instance_of};
use sluice_config::package::{Package, Refused};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A component built into the executable: its package.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its class.
    pub class: &'static str,
    /// The text of its `rights.toml`.
    pub rights: &'static str,
    /// The YANG module, for a component with configuration.
    pub module: Option<(&'static str, &'static str)>,
    /// The text of `commands.toml`, for a component with commands.
    pub commands: Option<&'static str>,
    /// The text of `metrics.toml`, for a component with metrics.
    pub metrics: Option<&'static str>,
    /// The text of its `README.md`.
    pub help: &'static str,
    /// The component's check of its whole part of a configuration, for a component whose values depend on each other.
    pub check: Option<Check>,
    /// The rule by which the configuration is shared with other machines, for a component that shares it.
    pub sharing: Option<SharingRule>,
    /// The names of the router's ports, for a component with ports that statements of other components name.
    pub ports: Option<PortsRule>,
}

/// A component's check of its part where the component does not run: the reason for which the component would refuse the part.
pub type Check = fn(serde_json::Value) -> Option<String>;

/// The sources of configuration and schema.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The configuration file.
    pub file: PathBuf,
    /// Components of the executable.
    pub builtins: &'static [Builtin],
    /// The folder with the packages of third parties, if there is one.
    pub packages_dir: PathBuf,
    /// The folder with the public keys of those whose packages are trusted.
    pub trust_dir: PathBuf,
    /// The folder of what was committed.
    pub state_dir: PathBuf,
    /// The router's executable for trials of packages; `None`: packages are read untried.
    pub trial: Option<PathBuf>,
}

/// Returns the names of the router's ports for people, by the numbers of the ports. `None`: the part is refused for another reason.
pub type PortsRule = fn(serde_json::Value) -> Option<BTreeMap<u16, String>>;

/// Returns how a component with this part shares the configuration; `None`: this machine keeps a configuration of its own.
pub type SharingRule = fn(serde_json::Value) -> Option<Sharing>;

/// The place of this machine among the elements that share a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// The number of this element.
    pub element: u16,
    /// The classes of components that run on other elements: the configuration has their statements, and no process of them runs here.
    pub elsewhere: BTreeSet<String>,
}

/// The class of the processes that check limited calls.
pub(super) const GUARD: &str = "guard";

/// Returns the component whose calls a guard checks; `None` for another component.
pub(crate) fn guarded_component(name: &str) -> Option<&str> {
    instance_of(name).filter(|_| class_of(name) == GUARD)
}

/// A folder, with the package in it.
pub type ReadPackage = (PathBuf, Result<Package, Refused>);

/// Returns the package of a component of the executable.
pub(crate) fn of_builtin(builtin: &Builtin) -> Package {
    let module = builtin.module.map(|(name, text)| (name.to_string(), text.to_string()));
    Package {
        name: builtin.class.into(),
        class: Some(builtin.class.into()),
        version: env!("CARGO_PKG_VERSION").into(),
        description: builtin.help.lines().next().unwrap_or_default().trim_start_matches('#').trim().into(),
        folder: PathBuf::new(),
        executable: None,
        modules: module.into_iter().collect(),
        rights: Some(builtin.rights.into()),
        commands: builtin.commands.map(Into::into),
        metrics: builtin.metrics.map(Into::into),
        help: Some(builtin.help.into()),
        builtin: true,
    }
}
