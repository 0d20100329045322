//! The configuration file and the schema, and what follows from them: which components run, with what.

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};
use sluice_config::package::{self, Package};
use sluice_config::{ConfigError, Impact, Module, Schema, SchemaError, Tree};
use sluice_manager::Spec;
use sluice_shell::part::{Change, Edit};
use sluice_shell::rights::Rights;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use thiserror::Error;
use tracing::warn;

/// A component that is part of the executable.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its class.
    pub class: &'static str,
    /// The text of its `rights.toml`.
    pub rights: &'static str,
    /// Its schema, if it has configuration.
    pub module: Option<Module>,
}

/// Where the configuration and the schema come from.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The configuration file.
    pub file: PathBuf,
    /// Components of the executable.
    pub builtins: &'static [Builtin],
    /// A folder with the packages of third parties, if there is one.
    pub yang_dir: Option<PathBuf>,
}

/// Why the router does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}; {}", read_advice(source))]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The configuration is not valid.
    #[error("{0}")]
    Config(Box<ConfigError>),
    /// The schema is not valid.
    #[error("{0}")]
    Schema(#[from] SchemaError),
    /// A component's rights are not valid.
    #[error("rights of {class}: {reason}")]
    Rights {
        /// The component.
        class: String,
        /// What is wrong.
        reason: String,
    },
    /// Something in the run-time folder cannot be made or written.
    #[error("cannot {act} {path}: {source}; {advice}")]
    Folder {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: String,
        /// What the operator can do.
        advice: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The process may not configure the network.
    #[error(
        "a router needs the right to configure the network (CAP_NET_ADMIN), which this process does not have; start it as root, \
         or in a network namespace of its own (`unshare --user --map-root-user --net`, or `sluice lab`)"
    )]
    NoNetworkRights,
}

fn read_advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "start as root, or name another with --config",
        _ => "name another with --config",
    }
}

/// Whether this process may configure the network that it is in.
pub fn check_network_rights() -> Result<(), StartError> {
    use caps::{CapSet, Capability};
    let has_capability = caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(true);
    // The capability may be one over another network: root of a user namespace has none over the host's. The kernel lets only
    // who has it over a socket's own network mark the socket.
    let denied = UnixDatagram::unbound()
        .is_ok_and(|socket| setsockopt(&socket, sockopt::Mark, &1) == Err(nix::errno::Errno::EPERM));
    if has_capability && !denied { Ok(()) } else { Err(StartError::NoNetworkRights) }
}

/// A valid configuration and what it means for processes.
pub struct Loaded {
    /// The configuration.
    pub config: Tree,
    rights: BTreeMap<String, Rights>,
    schema: Schema,
}

/// Reads and validates everything.
pub fn load(source: &ConfigSource) -> Result<Loaded, StartError> {
    let path = source.file.display().to_string();
    let text = std::fs::read_to_string(&source.file)
        .map_err(|source| StartError::Read { path: path.clone(), source })?;
    let builtins = source.builtins.iter().filter_map(|b| Some(builtin(b.class, b.module?)));
    let mut packages: Vec<Package> = builtins.collect();
    for package in source.yang_dir.as_deref().map(package::read_folder).transpose()?.unwrap_or_default() {
        match package {
            Ok(package) => packages.push(package),
            Err(refused) => warn!(package = refused.name, "package refused: {}", refused.reason),
        }
    }
    let (schema, _, refused) = Schema::load(packages)?;
    for refused in refused {
        warn!(package = refused.name, "package refused: {}", refused.reason);
    }
    let config = schema.read(&path, &text).map_err(|e| StartError::Config(Box::new(e)))?;
    let mut rights = BTreeMap::new();
    for builtin in source.builtins {
        let parsed = Rights::parse(builtin.rights)
            .map_err(|e| StartError::Rights { class: builtin.class.into(), reason: e.to_string() })?;
        rights.insert(builtin.class.to_string(), parsed);
    }
    Ok(Loaded { config, rights, schema })
}

fn builtin(class: &str, module: Module) -> Package {
    Package {
        name: class.into(),
        class: Some(class.into()),
        modules: vec![(module.name.into(), module.text.into())],
        builtin: true,
        ..Package::default()
    }
}

impl Loaded {
    /// The classes that run: those that are configured, and what they need.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        let mut all: BTreeSet<&str> = ["fea", "rib"].into(); // a router without protocols still has interfaces and subnets
        all.extend(self.schema.classes(&self.config));
        loop {
            let needs: Vec<&str> = all
                .iter()
                .filter_map(|c| self.rights.get(*c))
                .flat_map(|r| r.needs.iter().map(String::as_str))
                .filter(|n| !all.contains(n))
                .collect();
            if needs.is_empty() {
                return all.into_iter();
            }
            all.extend(needs);
        }
    }

    /// The same as the core wants it.
    pub fn specs(&self) -> Vec<Spec> {
        self.classes().map(|class| Spec { class: class.into(), needs: self.rights(class).needs }).collect()
    }

    /// A component's rights; none for one that ships no rights file.
    pub fn rights(&self, class: &str) -> Rights {
        self.rights.get(class).cloned().unwrap_or_else(|| Rights {
            class: class.into(),
            needs: Vec::new(),
            calls: BTreeMap::new(),
            sockets: Default::default(),
            network_admin: false,
        })
    }

    /// What it costs to go from `before` to this in a component's part of the tree; `None` if that is the same.
    pub fn cost_since(&self, before: &Loaded, class: &str) -> Option<Impact> {
        self.schema.cost(class, &before.config, &self.config)
    }

    /// A component's part of the tree as a change of everything, in JSON.
    pub fn part_change(&self, class: &str) -> String {
        let mut change = self
            .schema
            .change(class, None, &self.config)
            .unwrap_or(Change { clear: true, edits: Vec::new() });
        if class == "fea" {
            let value = Some(self.socket_rights());
            change.edits.push(Edit { name: "socket-rights".into(), key: None, value });
        }
        json!(change).to_string()
    }

    /// A component's part of the tree. The FEA's also says which sockets it may open for whom.
    pub fn part(&self, class: &str) -> Value {
        let mut part = self.schema.part(class, &self.config).unwrap_or_else(|| json!({}));
        if class == "fea"
            && let Value::Object(map) = &mut part
        {
            map.insert("socket-rights".into(), self.socket_rights());
        }
        part
    }

    fn socket_rights(&self) -> Value {
        let sockets: BTreeMap<&str, _> =
            self.rights.iter().map(|(class, rights)| (class.as_str(), &rights.sockets)).collect();
        json!(sockets)
    }
}
