//! The schema and the rights of every component, and their consequences for a configuration: which components run, with
//! which part.

use super::admission::{self, classes_of, third_party_rights, unknown_need};
use super::trial;
use crate::configure::builtin::{
    Check, ConfigSource, GUARD, PortsRule, ReadPackage, Sharing, SharingRule, guarded_component, of_builtin,
};
use crate::start_error::StartError;
use nix::sys::socket::{setsockopt, sockopt};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sluice_base::{class_of, component_name};
use sluice_config::package::{self, Package, Refused};
use sluice_config::{ConfigError, ConfigErrors, ConfigText, Schema, SchemaError, Tree};
use sluice_manager::Spec;
use sluice_package::{Signed, Trust};
use sluice_process::part::{Change, Edit};
use sluice_process::rights::{GrantedRoutes, Rights, SocketRights, ports_at};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Returns true if the process may configure its network namespace.
pub(crate) fn check_network_rights() -> Result<(), StartError> {
    use caps::{CapSet, Capability};
    let has_capability = caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(true);
    // The capability may be one over another network: root of a user namespace has none over the host's. The kernel lets only
    // who has it over a socket's own network mark the socket.
    let denied = UnixDatagram::unbound()
        .is_ok_and(|socket| setsockopt(&socket, sockopt::Mark, &1) == Err(nix::errno::Errno::EPERM));
    if has_capability && !denied { Ok(()) } else { Err(StartError::NoNetworkRights) }
}

/// A change of the packages folder that is not made yet.
#[derive(Clone, Copy, Debug)]
pub enum Planned<'a> {
    /// No change.
    Nothing,
    /// The package in this folder is installed.
    Put(&'a Path),
    /// The package of this name is removed.
    Without(&'a str),
}

impl Planned<'_> {
    /// Returns the packages after the change.
    fn folders(self, source: &ConfigSource) -> Result<Vec<ReadPackage>, SchemaError> {
        let (gone, new) = match self {
            Planned::Nothing => (None, None),
            Planned::Put(folder) => (folder.file_name().and_then(|name| name.to_str()), Some(folder)),
            Planned::Without(name) => (Some(name), None),
        };
        let name = |package: &Result<Package, Refused>| match package {
            Ok(package) => package.name.clone(),
            Err(refused) => refused.name.clone(),
        };
        let mut all: Vec<ReadPackage> = package::read_folder(&source.packages_dir)?
            .into_iter()
            .map(|package| (source.packages_dir.join(name(&package)), package))
            .collect();
        all.retain(|(_, package)| gone != Some(name(package).as_str()));
        all.extend(new.map(|folder| (folder.to_path_buf(), package::read(folder))));
        all.sort_by_key(|(_, package)| name(package));
        Ok(all)
    }
}

/// The schema, and its packages.
pub struct Model {
    /// The schema of all components.
    pub schema: Schema,
    /// The packages, the executable's own components first.
    pub packages: Vec<Package>,
    /// Refused packages, with the reasons.
    pub refused: Vec<Refused>,
    /// What the signatures of installed packages say, by the package's name.
    pub signed: BTreeMap<String, Signed>,
    rights: BTreeMap<String, Rights>,
    /// Checks of the executable's components, by class.
    checks: BTreeMap<&'static str, Check>,
    /// The component that shares the configuration, and its rule.
    pub(super) sharing: Option<(&'static str, SharingRule)>,
    /// The component with the router's ports, and their names.
    pub(super) ports: Option<(&'static str, PortsRule)>,
    /// The schema as JSON, rendered on first use: the schema never changes.
    json: OnceCell<String>,
}

impl Model {
    /// Reads the executable's own packages and the packages folder. An invalid package of the folder is refused, and
    /// the router runs without the package.
    pub fn load(source: &ConfigSource) -> Result<Self, StartError> {
        Model::load_with(source, Planned::Nothing)
    }

    /// Does the same as if a package were installed or removed already.
    pub(crate) fn load_with(source: &ConfigSource, planned: Planned<'_>) -> Result<Self, StartError> {
        let trust = Trust::read(&source.trust_dir);
        let mut signed = BTreeMap::new();
        let mut rights = BTreeMap::new();
        let mut packages = Vec::new();
        let mut refused = Vec::new();
        for builtin in source.builtins {
            let parsed = Rights::parse(builtin.rights)
                .map_err(|e| StartError::Rights { class: builtin.class.into(), reason: e.to_string() })?;
            rights.insert(builtin.class.to_string(), parsed);
            packages.push(of_builtin(builtin));
        }
        for (folder, package) in trial::tried(source.trial.as_deref(), planned.folders(source)?) {
            let checked = package.and_then(|package| {
                let refused = |error: &dyn std::fmt::Display| Refused {
                    name: package.name.clone(),
                    reason: error.to_string(),
                };
                let signature = admission::signed(&folder, &trust).map_err(|error| refused(&error))?;
                signed.insert(package.name.clone(), signature);
                let found = third_party_rights(&package, &rights).map_err(|error| refused(&error))?;
                Ok((package, found))
            });
            match checked {
                Ok((package, found)) => {
                    rights.extend(found.map(|found| (found.class.clone(), found)));
                    packages.push(package);
                }
                Err(why) => refused.push(why),
            }
        }
        let known: BTreeSet<String> = rights.keys().cloned().chain(classes_of(&packages)).collect();
        let (packages, lonely): (Vec<Package>, Vec<Package>) = packages
            .into_iter()
            .partition(|package| package.builtin || unknown_need(package, &rights, &known).is_none());
        for package in lonely {
            let class = package.class.clone().unwrap_or_default();
            let need = unknown_need(&package, &rights, &known).unwrap_or_default();
            let reason = format!("rights.toml: it needs `{need}`, and no component is of that class");
            rights.remove(&class);
            refused.push(Refused { name: package.name, reason });
        }
        let (schema, mut packages, more) = Schema::load(packages)?;
        for package in packages.iter_mut().filter(|package| !package.builtin) {
            package.move_to(&source.packages_dir.join(&package.name));
        }
        for why in &more {
            rights.remove(&why.name);
        }
        refused.extend(more);
        let checks =
            source.builtins.iter().filter_map(|builtin| Some((builtin.class, builtin.check?))).collect();
        let sharing = source.builtins.iter().find_map(|builtin| Some((builtin.class, builtin.sharing?)));
        let ports = source.builtins.iter().find_map(|builtin| Some((builtin.class, builtin.ports?)));
        Ok(Model { schema, packages, refused, signed, rights, checks, sharing, ports, json: OnceCell::new() })
    }

    /// Reads and validates a configuration text, and has the executable's components check their parts.
    pub fn read(&self, file: &str, text: &str) -> Result<Tree, ConfigErrors> {
        let tree = self.schema.read_all(file, text).map_err(|errors| self.explain_ports(errors, text))?;
        let written = ConfigText { file: file.into(), text: text.into() };
        for component in self.schema.configured(&tree) {
            self.check(&component, &tree, || written.clone())?;
        }
        self.check_ports(None, &tree, || written)?;
        Ok(tree)
    }

    /// Has a component of the executable check its part of a configuration, as the component would when asked.
    pub fn check(
        &self,
        component: &str,
        tree: &Tree,
        written: impl FnOnce() -> ConfigText,
    ) -> Result<(), ConfigError> {
        let Some(check) = self.checks.get(class_of(component)) else { return Ok(()) };
        let part = self.schema.part(component, tree).unwrap_or_else(|| Value::Object(Map::new()));
        let refused = check(part).map(|reason| self.schema.refusal(component, &written(), &reason));
        refused.map_or(Ok(()), Err)
    }

    /// Returns a configuration error together with the refused packages: their statements are unknown.
    pub fn explain(&self, error: ConfigErrors) -> StartError {
        let error = Box::new(error);
        match self.refused.is_empty() {
            true => StartError::Config(error),
            false => StartError::WithoutPackages { refused: self.refused.clone(), error },
        }
    }

    /// Returns the names of the components to run with a configuration: configured components and their needs. A needed
    /// component precedes its users.
    pub fn classes(&self, tree: &Tree) -> Vec<String> {
        let mut configured = self.schema.configured(tree);
        if let Some((_, Sharing { elsewhere, .. })) = self.sharing(tree) {
            configured.retain(|component| !elsewhere.contains(class_of(component)));
        }
        let mut all: BTreeSet<&str> = ["fea", "rib"].into(); // a router without protocols still has interfaces and subnets
        all.extend(configured.iter().map(String::as_str));
        loop {
            let needs: Vec<&str> = all
                .iter()
                .filter_map(|c| self.rights.get(class_of(c)))
                .flat_map(|r| r.needs.iter().map(String::as_str))
                .filter(|n| !all.contains(n))
                .collect();
            if needs.is_empty() {
                break;
            }
            all.extend(needs);
        }
        let guards: Vec<String> = all.iter().filter_map(|name| self.guard(name)).collect();
        all.extend(guards.iter().map(String::as_str));
        let mut ordered: Vec<String> = Vec::new();
        while ordered.len() < all.len() {
            let is_next = |class: &&&str| {
                let has = |need: &String| ordered.contains(need) || !all.contains(need.as_str());
                !ordered.iter().any(|o| o == **class) && self.needs(class).iter().all(has)
            };
            // Who need each other in a circle come in any order.
            let next =
                all.iter().find(is_next).or_else(|| all.iter().find(|c| !ordered.iter().any(|o| o == **c)));
            let Some(next) = next else { break };
            ordered.push((*next).to_string());
        }
        ordered
    }

    /// The same as the core wants it.
    pub fn specs(&self, names: &[String]) -> Vec<Spec> {
        names.iter().map(|name| Spec { name: name.clone(), needs: self.needs(name) }).collect()
    }

    /// Returns the components that must be ready before a component starts.
    fn needs(&self, name: &str) -> Vec<String> {
        self.rights(name).needs.into_iter().chain(self.guard(name)).collect()
    }

    /// Returns the guard of a component with limited calls.
    fn guard(&self, name: &str) -> Option<String> {
        let has_limits = self.rights.get(class_of(name)).is_some_and(|rights| !rights.limit.is_empty());
        has_limits.then(|| component_name(GUARD, Some(name)))
    }

    /// The rights of a component's class; empty for a class without a rights file.
    pub fn rights(&self, name: &str) -> Rights {
        let class = class_of(name);
        let without = || Rights { class: class.into(), ..Rights::default() };
        self.rights.get(class).cloned().unwrap_or_else(without)
    }

    /// The executables of third parties' components, by class.
    pub fn executables(&self) -> BTreeMap<String, PathBuf> {
        let all = self.packages.iter();
        all.filter_map(|package| Some((package.class.clone()?, package.executable.clone()?))).collect()
    }

    /// The schema as JSON: a list of nodes.
    pub(crate) fn schema_json(&self) -> &str {
        self.json.get_or_init(|| serde_json::to_string(self.schema.nodes()).unwrap_or_default())
    }

    /// Returns a component's change from one configuration to another, or from an empty configuration; `None` without a
    /// change for the component. The FEA's change also carries the sockets that the FEA may open, the RIB's the routes that
    /// it may accept, and XIP's the types of XIDs that it may ask about, by component.
    pub fn change(&self, name: &str, before: Option<&Tree>, after: &Tree) -> Option<Change> {
        if let Some(component) = guarded_component(name) {
            let limits = json!(self.rights(component).limit);
            let edit = Edit { subtree: None, name: "limits".into(), key: None, value: Some(limits) };
            return before.is_none().then(|| Change { clear: true, edits: vec![edit] });
        }
        let mut change = self.schema.change(name, before, after);
        if before.is_none() {
            change.get_or_insert(Change { clear: true, edits: Vec::new() });
        }
        // Also where `interfaces` comes or goes as a whole: what was there before goes first, and the rights with it.
        let is_whole = change.as_ref().is_some_and(|change| change.clear);
        let rights = match name {
            "fea" => vec![
                self.changed(is_whole, before, after, "socket-rights", Self::socket_rights),
                self.changed(is_whole, before, after, "program-rights", Self::program_rights),
                self.changed(is_whole, before, after, "link-rights", Self::link_rights),
            ],
            "rib" => vec![self.changed(is_whole, before, after, "route-rights", Self::route_rights)],
            "xip" => vec![self.changed(is_whole, before, after, "principal-rights", Self::principal_rights)],
            _ => Vec::new(),
        };
        for edit in rights.into_iter().flatten() {
            change.get_or_insert(Change { clear: false, edits: Vec::new() }).edits.push(edit);
        }
        change
    }

    /// Returns the edit with rights of components that depend on the configuration, unless they are as before.
    fn changed<'m, R: Serialize + PartialEq>(
        &'m self,
        is_whole: bool,
        before: Option<&Tree>,
        after: &Tree,
        name: &str,
        rights: impl Fn(&'m Self, &Tree) -> R,
    ) -> Option<Edit> {
        let now = rights(self, after);
        let is_new = is_whole || before.is_some_and(|before| rights(self, before) != now);
        is_new.then(|| Edit { subtree: None, name: name.into(), key: None, value: Some(json!(now)) })
    }

    /// Returns the routes that the RIB may accept, by the name of the component.
    fn route_rights(&self, tree: &Tree) -> BTreeMap<String, GrantedRoutes> {
        let granted = self.names(tree).filter_map(|name| {
            let rights = self.rights.get(class_of(&name))?.routes.clone();
            let table = self.schema.table(&name, tree);
            Some((name, GrantedRoutes { table, rights }))
        });
        granted.collect()
    }

    /// Returns the programs that the FEA may put into the path of packets, by the name of the component.
    fn program_rights(&self, tree: &Tree) -> BTreeMap<String, &[String]> {
        let granted = self.names(tree).filter_map(|name| {
            let programs = &self.rights.get(class_of(&name))?.programs.put;
            (!programs.is_empty()).then_some((name, programs.as_slice()))
        });
        granted.collect()
    }

    /// Returns the kinds of virtual links that the FEA may make, by the name of the component.
    fn link_rights(&self, tree: &Tree) -> BTreeMap<String, &[String]> {
        let granted = self.names(tree).filter_map(|name| {
            let kinds = &self.rights.get(class_of(&name))?.links.kinds;
            (!kinds.is_empty()).then_some((name, kinds.as_slice()))
        });
        granted.collect()
    }

    /// Returns the types of XIDs that XIP may ask about, by the name of the component.
    fn principal_rights(&self, tree: &Tree) -> BTreeMap<String, &[String]> {
        let granted = self.names(tree).filter_map(|name| {
            let types = &self.rights.get(class_of(&name))?.xip.principals;
            (!types.is_empty()).then_some((name, types.as_slice()))
        });
        granted.collect()
    }

    /// Iterates over the components that run. Others have no rights: their package may come, go and change meanwhile.
    fn names(&self, tree: &Tree) -> impl Iterator<Item = String> {
        self.classes(tree).into_iter()
    }

    /// Returns the sockets that the FEA may open, by the name of the component. Configured ports are read from `tree`.
    fn socket_rights(&self, tree: &Tree) -> BTreeMap<String, Cow<'_, SocketRights>> {
        let all = self.names(tree).filter_map(|name| {
            let sockets = &self.rights.get(class_of(&name))?.sockets;
            if !sockets.follow_configuration() {
                return Some((name, Cow::Borrowed(sockets)));
            }
            let part = self.schema.part(&name, tree).unwrap_or_default();
            let resolved = sockets.with_configuration(|path| ports_at(&part, path));
            Some((name, Cow::Owned(resolved)))
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configure::builtin::Builtin;

    const BUILTINS: &[Builtin] = &[
        Builtin {
            class: "fea",
            rights: include_str!("../../../../fea/rights.toml"),
            module: Some(("sluice-fea", include_str!("../../../../fea/fea.yang"))),
            commands: None,
            metrics: None,
            help: "The FEA",
            check: None,
            sharing: None,
            ports: None,
        },
        Builtin {
            class: "bgp",
            rights: include_str!("../../../../bgp/rights.toml"),
            module: Some(("sluice-bgp", include_str!("../../../../bgp/bgp.yang"))),
            commands: None,
            metrics: None,
            help: "BGP",
            check: None,
            sharing: None,
            ports: None,
        },
    ];

    fn model(builtins: &'static [Builtin]) -> Model {
        let state_dir = tempfile::tempdir().expect("a folder").path().to_path_buf();
        let none = state_dir.join("none");
        let (file, packages_dir, trust_dir, trial) = (none.clone(), none.clone(), none, None);
        Model::load(&ConfigSource { file, builtins, packages_dir, trust_dir, state_dir, trial })
            .expect("valid")
    }

    /// A component that does not run, and whose last statement is deleted, checks an empty part.
    #[test]
    fn a_part_without_statements_is_an_empty_object() {
        const CHECKED: &[Builtin] = &[Builtin {
            check: Some(|part| (part != json!({})).then(|| format!("{part} is no empty object"))),
            ..BUILTINS[0]
        }];
        let checked = model(CHECKED)
            .check("fea", &Tree::empty(), || ConfigText { file: String::new(), text: String::new() });
        assert!(checked.is_ok(), "{checked:?}");
    }

    /// The FEA receives operator-configured ports with the commit that configures the ports, and no further part of
    /// BGP's configuration.
    #[test]
    fn configured_ports_are_rights() {
        let model = model(BUILTINS);
        let tree = |neighbor: &str| {
            let text = format!(
                "protocols {{ bgp {{ local-as 1; router-id 10.0.0.1; neighbor 10.0.0.2 {{ peer-as 2; {neighbor} }} }} }}"
            );
            model.schema.read("test", &text).expect("valid")
        };
        let edits = |before: Option<&Tree>, after: &Tree| {
            let change = model.change("fea", before, after)?;
            let rights = change.edits.into_iter().find(|edit| edit.name == "socket-rights")?;
            rights.value.map(|value| value["bgp"]["tcp_connect"].to_string())
        };
        let (plain, other, port) = (tree(""), tree("passive;"), tree("port 3000;"));
        assert_eq!(edits(None, &plain).as_deref(), Some(r#"["179"]"#));
        assert_eq!(edits(Some(&plain), &other), None);
        assert_eq!(edits(Some(&plain), &port).as_deref(), Some(r#"["179","3000"]"#));
        assert_eq!(edits(Some(&port), &plain).as_deref(), Some(r#"["179"]"#));
        let group = tree("} group x { port 3002;");
        assert_eq!(edits(Some(&port), &group).as_deref(), Some(r#"["179","3002"]"#));
        assert_eq!(
            edits(Some(&port), &Tree::empty()).as_deref(),
            Some("null"),
            "what does not run has no rights"
        );
        // An instance has the ports of its own neighbors.
        let text = "instance red { table 7; protocols { bgp { local-as 1; router-id 10.0.0.1; neighbor 10.0.0.2 { peer-as 2; port 3001; } } } }";
        let red = model.schema.read("test", text).expect("valid");
        let rights = model.change("fea", Some(&plain), &red).expect("other rights").edits;
        let rights = rights.into_iter().find_map(|edit| edit.value.filter(|_| edit.name == "socket-rights"));
        let rights = rights.expect("socket rights");
        assert_eq!(rights["bgp@red"]["tcp_connect"].to_string(), r#"["179","3001"]"#);
        assert_eq!(rights["bgp"].to_string(), "null");
    }
}
