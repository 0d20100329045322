//! What a package needs to be taken: files, rights, a module, and a signature that fits if it has one.

use super::commands::{self, CommandError};
use super::trial;
use crate::configure::builtin::{Builtin, of_builtin};
use sluice_config::Schema;
use sluice_config::package::{self, Package};
use sluice_package::signature::FILE as SIGNATURE;
use sluice_package::{Contents, PackageFileError, Signed, Trust};
use sluice_process::rights::Rights;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The error of a package's signature at the start.
#[derive(Debug, Error)]
pub enum SignatureError {
    /// The package is not as it was signed.
    #[error(transparent)]
    Package(#[from] PackageFileError),
    /// The keys of trust cannot be read.
    #[error("{0}")]
    Trust(String),
}

/// Returns the result of the signature check of an installed package.
pub fn signed(folder: &Path, trust: &Result<Trust, PackageFileError>) -> Result<Signed, SignatureError> {
    if !folder.join(SIGNATURE).exists() {
        return Ok(Signed::Not);
    }
    let trust = trust.as_ref().map_err(|error| SignatureError::Trust(error.to_string()))?;
    Ok(trust.check(&Contents::of_folder(folder)?)?)
}

/// Returns the problems of the package in `folder` found without a router: problems of its files, its rights, its
/// module. `executable` tries the modules out in a process of its own.
pub fn check_package(builtins: &'static [Builtin], folder: &Path, executable: Option<&Path>) -> Vec<String> {
    if !folder.is_dir() {
        return vec![format!("{} is no folder", folder.display())];
    }
    let package = match package::read_before_install(folder) {
        Ok(package) => package,
        Err(refused) => return vec![refused.reason],
    };
    let mut rights = BTreeMap::new();
    let mut packages: Vec<Package> = builtins.iter().map(of_builtin).collect();
    for builtin in builtins {
        rights.extend(Rights::parse(builtin.rights).ok().map(|r| (builtin.class.to_string(), r)));
    }
    let known: BTreeSet<String> =
        rights.keys().cloned().chain(classes_of(std::slice::from_ref(&package))).collect();
    let mut problems = Vec::new();
    match third_party_rights(&package, &rights) {
        Ok(found) => rights.extend(found.map(|found| (found.class.clone(), found))),
        Err(error) => problems.push(error.to_string()),
    }
    problems.extend(unknown_need(&package, &rights, &known).map(|need| {
        format!("rights.toml: it needs `{need}`, and no component of the router is of that class; another package may be")
    }));
    if let Some(path) = &package.executable
        && !path.metadata().is_ok_and(|m| m.permissions().mode() & 0o111 != 0)
    {
        problems.push(format!("{} cannot be executed: chmod 755 {}", path.display(), path.display()));
    }
    let folders = [folder.to_path_buf()];
    if let Some(Err(error)) = executable.map(|executable| trial::together(executable, &folders)) {
        problems.push(error.to_string());
        return problems;
    }
    packages.push(package);
    match Schema::load(packages) {
        Ok((_, _, refused)) => problems.extend(refused.into_iter().map(|r| r.reason)),
        Err(error) => problems.push(error.to_string()),
    }
    problems
}

/// Iterates over the classes that packages bring.
pub(crate) fn classes_of(packages: &[Package]) -> impl Iterator<Item = String> {
    packages.iter().filter_map(|package| package.class.clone())
}

/// Returns a class needed by a package and absent from the router.
pub(crate) fn unknown_need(
    package: &Package,
    rights: &BTreeMap<String, Rights>,
    known: &BTreeSet<String>,
) -> Option<String> {
    let rights = rights.get(package.class.as_ref()?)?;
    rights.needs.iter().find(|need| !known.contains(*need)).cloned()
}

/// The reason why a third party's package gets no rights.
#[derive(Debug, Error)]
pub enum RightsError {
    /// The class is another component's.
    #[error("there is a component `{0}` already; give yours another class")]
    TakenClass(String),
    /// The package names no executable for the class.
    #[error("package.toml names no executable for `{0}`")]
    NoExecutable(String),
    /// There is no such file.
    #[error("the executable {} is not there", .0.display())]
    MissingExecutable(PathBuf),
    /// The file is not as docs/extending.md has it.
    #[error("rights.toml: {0}")]
    Rights(sluice_process::rights::ParseError),
    /// Two files name two classes.
    #[error("rights.toml is of `{rights}`, package.toml of `{package}`")]
    TwoClasses {
        /// The class in rights.toml.
        rights: String,
        /// The class in package.toml.
        package: String,
    },
    /// The right is the FEA's alone.
    #[error("rights.toml asks for network_admin, which only the FEA has; ask the FEA by XRL")]
    NetworkAdmin,
    /// Helpers are for the router's own components.
    #[error(
        "rights.toml asks for a helper, which only the router's own components have; run the program as a service of the host"
    )]
    Helper,
    /// A command or a metric calls what the package may not call.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// The rights that a third party's package asks for.
pub(crate) fn third_party_rights(
    package: &Package,
    taken: &BTreeMap<String, Rights>,
) -> Result<Option<Rights>, RightsError> {
    let found = rights_of(package, taken)?;
    let calls = match &found {
        Some(_) => None,
        None => calls_without_component(package)?,
    };
    commands::check(package, found.as_ref().or(calls.as_ref()))?;
    Ok(found)
}

/// Returns the rights of a package without a component: its `[calls]` are those of its commands and metrics.
fn calls_without_component(package: &Package) -> Result<Option<Rights>, RightsError> {
    let text = package.rights.as_deref().filter(|text| package.class.is_none() && !text.is_empty());
    let rights = text.map(Rights::parse).transpose().map_err(RightsError::Rights)?;
    match rights {
        Some(rights) if rights.class != package.name => {
            Err(RightsError::TwoClasses { rights: rights.class, package: package.name.clone() })
        }
        rights => Ok(rights),
    }
}

/// Returns the rights of a package's component, if the package brings one.
fn rights_of(package: &Package, taken: &BTreeMap<String, Rights>) -> Result<Option<Rights>, RightsError> {
    let Some(class) = &package.class else { return Ok(None) };
    if taken.contains_key(class) {
        return Err(RightsError::TakenClass(class.clone()));
    }
    match &package.executable {
        None => return Err(RightsError::NoExecutable(class.clone())),
        Some(path) if !path.is_file() => {
            return Err(RightsError::MissingExecutable(path.clone()));
        }
        Some(_) => {}
    }
    let text = package.rights.as_deref().unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let rights = Rights::parse(text).map_err(RightsError::Rights)?;
    if rights.class != *class {
        return Err(RightsError::TwoClasses { rights: rights.class, package: class.clone() });
    }
    if rights.network_admin {
        return Err(RightsError::NetworkAdmin);
    }
    if !rights.helper.is_empty() {
        return Err(RightsError::Helper);
    }
    Ok(Some(rights))
}
