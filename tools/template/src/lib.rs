//! The first files of a new component: a route that is announced while an interface runs, and datagrams that are counted. What is
//! written runs, and passes its tests.

#![warn(clippy::disallowed_macros)]

mod names;

pub use names::Names;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The reason for which nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The name is not a name for a component.
    #[error(
        "`{0}` is not a name for a component: lower-case letters and digits, words joined by `-`, a letter first, at most \
         {most} characters",
        most = names::LONGEST
    )]
    Name(String),
    /// The name has a meaning in the configuration, or for the Finder.
    #[error("`{0}` means something else already; choose another name")]
    Taken(String),
    /// The folder of the component exists.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

/// A file: the path in the component's folder, and the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// The path.
    pub path: PathBuf,
    /// The text.
    pub text: String,
    /// True for a program.
    pub is_program: bool,
}

/// Makes tables of templates: the path in the component's folder, and the text.
macro_rules! templates {
    ($($path:literal: $file:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../templates/", $file)))),*] };
}

const YANG: (&str, &str) = ("@NAME@.yang", include_str!("../templates/component/NAME.yang.in"));
const RIGHTS: (&str, &str) = ("rights.toml", include_str!("../templates/component/rights.toml.in"));
const MANIFEST: (&str, &str) = ("package.toml", include_str!("../templates/package/package.toml.in"));

const COMPONENT: &[(&str, &str)] = templates! {
    "README.md": "component/README.md.in",
    "core/Cargo.toml": "component/core/Cargo.toml.in",
    "core/src/lib.rs": "component/core/src/lib.rs.in",
    "core/src/machine.rs": "component/core/src/machine.rs.in",
    "core/src/event.rs": "component/core/src/event.rs.in",
    "core/src/view.rs": "component/core/src/view.rs.in",
    "process/Cargo.toml": "component/process/Cargo.toml.in",
    "process/src/lib.rs": "component/process/src/lib.rs.in",
};

const RUST_PACKAGE: &[(&str, &str)] = templates! {
    "Cargo.toml": "package/Cargo.toml.in",
    "process/src/main.rs": "package/process/src/main.rs.in",
};

const PYTHON_PACKAGE: &[(&str, &str)] = templates! {
    "README.md": "python/README.md.in",
    "@NAME@": "python/program.in",
};

/// Makes the table of the Python SDK's files.
macro_rules! sdk {
    ($($file:literal),* $(,)?) => {
        &[$((concat!("sluice_xrl/", $file), include_str!(concat!("../../../sdk/python/sluice_xrl/", $file)))),*]
    };
}

/// The Python SDK, which a package in Python brings along.
const SDK: &[(&str, &str)] = sdk! {
    "__init__.py", "codec.py", "component.py", "connection.py", "errors.py", "frames.py", "handover.py",
    "interfaces.py", "keys.py", "part.py", "principal.py", "proto.py", "py.typed", "rib.py", "router.py", "schema.py",
    "sockets.py", "succession.py",
};

/// Returns the files of a component in Rust: core, process, schema and rights.
pub fn component(names: &Names) -> Vec<File> {
    filled(names, [YANG, RIGHTS].iter().chain(COMPONENT))
}

/// Returns the files of a package in Rust, a workspace of its own on the crates in the folder `source`.
pub fn rust_package(names: &Names, source: &Path) -> Vec<File> {
    let mut files = component(names);
    files.extend(filled(names, [MANIFEST].iter().chain(RUST_PACKAGE)));
    for file in &mut files {
        file.text = file.text.replace("@ROOT@", &source.display().to_string());
    }
    files
}

/// Returns the files of a package in Python, with the SDK.
pub fn python_package(names: &Names) -> Vec<File> {
    let mut files = filled(names, [YANG, RIGHTS, MANIFEST].iter().chain(PYTHON_PACKAGE));
    let as_it_is =
        |(path, text): &(&str, &str)| File { path: path.into(), text: (*text).into(), is_program: false };
    files.extend(SDK.iter().map(as_it_is));
    files
}

fn filled<'t>(names: &Names, templates: impl Iterator<Item = &'t (&'t str, &'t str)>) -> Vec<File> {
    let fill = |(path, text): &(&str, &str)| File {
        path: names.fill(path).into(),
        text: names.fill(text),
        is_program: *path == "@NAME@",
    };
    templates.map(fill).collect()
}

/// Writes files into a folder that does not exist. Returns the paths.
///
/// # Errors
/// The folder exists, or a file cannot be written.
pub fn write(folder: &Path, files: &[File]) -> Result<Vec<PathBuf>, TemplateError> {
    if folder.exists() {
        return Err(TemplateError::Exists(folder.into()));
    }
    files.iter().map(|file| write_file(&folder.join(&file.path), file)).collect()
}

fn write_file(path: &Path, file: &File) -> Result<PathBuf, TemplateError> {
    let written = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, &file.text)?;
        fs::set_permissions(path, Permissions::from_mode(if file.is_program { 0o755 } else { 0o644 }))
    };
    written().map_err(|error| TemplateError::Write { path: path.into(), error })?;
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_mark_is_filled_in() {
        let names = Names::of("my-proto2").expect("a name");
        let root = Path::new("/somewhere");
        let all =
            component(&names).into_iter().chain(rust_package(&names, root)).chain(python_package(&names));
        for file in all.filter(|file| !file.path.starts_with("sluice_xrl")) {
            let is_left = ["@NAME@", "@CRATE@", "@TYPE@"].iter().any(|mark| file.text.contains(mark));
            assert!(!is_left && !file.path.display().to_string().contains('@'), "{}", file.path.display());
        }
        assert_eq!(python_package(&names).iter().filter(|file| file.is_program).count(), 1);
    }

    #[test]
    fn the_sdk_is_whole() {
        let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python/sluice_xrl");
        let entries = fs::read_dir(sdk).expect("the SDK").map(|entry| entry.expect("an entry").path());
        let there: BTreeSet<String> = entries
            .filter(|path| path.is_file())
            .map(|path| format!("sluice_xrl/{}", path.file_name().expect("a name").display()))
            .collect();
        let embedded: BTreeSet<String> = SDK.iter().map(|(path, _)| (*path).into()).collect();
        assert_eq!(there, embedded);
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = python_package(&Names::of("x").expect("a name"));
        assert!(matches!(write(folder.path(), &files), Err(TemplateError::Exists(_))));
        let written = write(&folder.path().join("x"), &files).expect("written");
        assert_eq!(written.len(), files.len());
        let mode = fs::metadata(folder.path().join("x/x")).expect("the program").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}
