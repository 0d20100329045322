//! What extends the router: a package is a folder with the schema, the rights, the commands and the metrics of a component.

use super::metrics;
use super::metrics::MetricsError;
use crate::error::SchemaError;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A package that extends the router.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Package {
    /// The name; equal to the folder's name, for a package in a folder.
    pub name: String,
    /// The class of the package's component, if any.
    pub class: Option<String>,
    /// The version, as declared.
    pub version: String,
    /// The description, in a sentence.
    pub description: String,
    /// The package's folder; empty for a component in the router's own executable.
    pub folder: PathBuf,
    /// The component's executable; `None` for a component in the router's own executable.
    pub executable: Option<PathBuf>,
    /// YANG modules: names and texts.
    pub modules: Vec<(String, String)>,
    /// The text of `rights.toml`.
    pub rights: Option<String>,
    /// The text of `commands.toml`.
    pub commands: Option<String>,
    /// The text of `metrics.toml`.
    pub metrics: Option<String>,
    /// The text of `README.md`.
    pub help: Option<String>,
    /// True if it is part of the executable.
    pub builtin: bool,
}

/// A package that the router runs without.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// The error.
    pub reason: String,
}

/// The contents of `package.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The package's name, equal to the folder's name.
    pub name: String,
    /// The class of the package's component, if any.
    pub class: Option<String>,
    /// Its version.
    pub version: String,
    /// The description, in a sentence.
    pub description: String,
    /// The component's executable, from the folder.
    pub executable: Option<PathBuf>,
}

impl Manifest {
    /// Reads a `package.toml`.
    pub fn parse(text: &str) -> Result<Self, PackageError> {
        toml::from_str(text).map_err(|e| PackageError::Manifest(e.to_string().trim_end().into()))
    }
}

impl Package {
    /// Notes that the package is in another folder from now on.
    pub fn move_to(&mut self, folder: &Path) {
        let inside =
            self.executable.take().and_then(|path| Some(path.strip_prefix(&self.folder).ok()?.to_path_buf()));
        self.executable = inside.map(|path| folder.join(path));
        self.folder = folder.into();
    }

    /// Returns the property in which the package collides with an installed package.
    pub(crate) fn collision(&self, others: &[Package]) -> Option<String> {
        let module = |name: &String| others.iter().find(|p| p.modules.iter().any(|(n, _)| n == name));
        for other in others {
            if other.name == self.name {
                return Some(format!("there is a package `{}` already", self.name));
            }
            if let Some(class) = self.class.as_ref().filter(|class| other.class.as_ref() == Some(class)) {
                return Some(format!("package `{}` brings the component `{class}` already", other.name));
            }
        }
        let same_module = self.modules.iter().find_map(|(name, _)| {
            Some(format!("package `{}` brings the module {name} already", module(name)?.name))
        });
        same_module.or_else(|| {
            let own = self.metric_names();
            others.iter().find_map(|other| {
                let same = other.metric_names().into_iter().find(|name| own.contains(name))?;
                Some(format!(
                    "package `{}` brings the metric `{same}` already; give yours another name",
                    other.name
                ))
            })
        })
    }

    /// Returns the names of the package's metrics, validated when the package was read, or by a test.
    fn metric_names(&self) -> Vec<String> {
        let text = self.metrics.as_deref().unwrap_or_default();
        metrics::parse(&self.name, text).unwrap_or_default().into_iter().map(|metric| metric.name).collect()
    }
}

/// Reads the packages in a folder, each in a folder of its own. Sorted by name; empty without the folder.
pub fn read_folder(dir: &Path) -> Result<Vec<Result<Package, Refused>>, SchemaError> {
    let failed = |source| SchemaError::Folder { path: dir.display().to_string(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // Hidden: a package that is being installed, or was replaced.
        if entry.path().is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders.iter().map(|folder| read(folder)).collect())
}

/// Reads the package in a folder, which has the package's name.
pub fn read(folder: &Path) -> Result<Package, Refused> {
    let folder_name = folder.file_name().unwrap_or_default().to_string_lossy();
    let named = |package: Package| match package.name == folder_name {
        true => Ok(package),
        false => Err(PackageError::Name(package.name)),
    };
    read_one(folder).and_then(named).map_err(|error| refused(folder, &error))
}

/// Reads the package in a folder of any name, such as one to be installed.
pub fn read_before_install(folder: &Path) -> Result<Package, Refused> {
    read_one(folder).map_err(|error| refused(folder, &error))
}

fn refused(folder: &Path, error: &PackageError) -> Refused {
    Refused {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        reason: error.to_string(),
    }
}

/// The reason why a package cannot be read.
#[derive(Debug, Error)]
pub enum PackageError {
    /// There is no `package.toml`.
    #[error("it has no package.toml")]
    NoManifest,
    /// `package.toml` is not TOML, or has other fields: the line, and the error there.
    #[error("package.toml: {0}")]
    Manifest(String),
    /// The package's name differs from its folder's name.
    #[error("package.toml: its name is `{0}`, not that of its folder")]
    Name(String),
    /// There is no file for the executable.
    #[error("package.toml: there is no executable {}", .0.display())]
    NoExecutable(PathBuf),
    /// A file is too long.
    #[error("{0}: it is longer than {LONGEST} octets")]
    Long(String),
    /// A file cannot be read.
    #[error("{name}: {error}")]
    File {
        /// The name of the file.
        name: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] io::Error),
    /// The metrics are refused.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// The longest file of a package, in octets.
const LONGEST: u64 = 1 << 20;

fn read_one(folder: &Path) -> Result<Package, PackageError> {
    let manifest = optional(folder, "package.toml")?.ok_or(PackageError::NoManifest)?;
    let manifest = Manifest::parse(&manifest)?;
    let executable = manifest.executable.map(|path| folder.join(path));
    if let Some(path) = executable.as_ref().filter(|path| !path.is_file()) {
        return Err(PackageError::NoExecutable(path.clone()));
    }
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(stem) = name.strip_suffix(".yang") {
            let module = stem.split('@').next().unwrap_or(stem).to_owned();
            modules.push((module, optional(folder, &name)?.unwrap_or_default()));
        }
    }
    modules.sort();
    let metrics = optional(folder, "metrics.toml")?;
    if let Some(text) = &metrics {
        metrics::parse(&manifest.name, text)?;
    }
    Ok(Package {
        name: manifest.name,
        class: manifest.class,
        version: manifest.version,
        description: manifest.description,
        folder: folder.into(),
        executable,
        modules,
        rights: optional(folder, "rights.toml")?,
        commands: optional(folder, "commands.toml")?,
        metrics,
        help: optional(folder, "README.md")?,
        builtin: false,
    })
}

/// A file's text; `None` if there is no such file.
fn optional(folder: &Path, name: &str) -> Result<Option<String>, PackageError> {
    let failed = |error| PackageError::File { name: name.into(), error };
    let path = folder.join(name);
    match std::fs::metadata(&path) {
        Ok(found) if found.len() > LONGEST => {
            return Err(PackageError::Long(name.into()));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    std::fs::read_to_string(&path).map(Some).map_err(failed)
}
