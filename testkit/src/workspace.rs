//! A workspace with more packages than Sluice's, for tests that build a package.
//!
//! Cargo identifies a crate of a workspace by its path below the workspace's root, its features and its profile. A copy of Sluice's
//! workspace, whose folders are links, therefore shares the target folder of the test run: only the additional packages are compiled.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of a workspace, with additional packages.
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Makes a copy of the workspace at `original` in the empty folder `root`. Entries are links, except those in `own`, which are copied
    /// by the caller.
    ///
    /// # Errors
    ///
    /// A folder cannot be read, or an entry cannot be written.
    pub fn copy(original: &Path, root: &Path, own: &[&str]) -> io::Result<Workspace> {
        for entry in std::fs::read_dir(original)? {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str() {
                Some("Cargo.toml" | "Cargo.lock") => _ = std::fs::copy(entry.path(), root.join(&name))?,
                Some("target" | ".git") => {}
                Some(name) if own.contains(&name) => {}
                _ => std::os::unix::fs::symlink(entry.path(), root.join(&name))?,
            }
        }
        Ok(Workspace { root: root.into() })
    }

    /// Adds packages, by their folders below the root, and gives each the integration test `name`, which has cargo build the package's
    /// program `program`.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, or the workspace's manifest has no list of members.
    pub fn add(&self, packages: &[&str], program: (&str, &str)) -> io::Result<()> {
        let manifest = self.root.join("Cargo.toml");
        let text = with_members(&std::fs::read_to_string(&manifest)?, packages);
        std::fs::write(manifest, text.ok_or_else(|| io::Error::other("no list of members"))?)?;
        let (package, name) = program;
        let tests = self.root.join(package).join("tests");
        std::fs::create_dir_all(&tests)?;
        let test =
            format!("//! Has cargo build the program.\nconst _: &str = env!(\"CARGO_BIN_EXE_{name}\");\n");
        std::fs::write(tests.join(format!("{}.rs", test_of(name))), test)
    }

    /// Returns the arguments with which cargo builds the program `name` as a test run of the whole workspace would: with dev-dependencies,
    /// whose features count for all crates.
    pub fn arguments(name: &str) -> Vec<String> {
        let arguments = ["test", "--no-run", "--offline", "--workspace", "--test"].map(String::from);
        arguments.into_iter().chain([test_of(name)]).collect()
    }

    /// Returns the command that builds the program `name` into the folder where the executable `beside` was built, with its profile.
    pub fn build(&self, name: &str, beside: &Path) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.root).args(Workspace::arguments(name)).arg("--profile").arg(profile(beside));
        cargo.env("CARGO_TARGET_DIR", target(beside));
        cargo
    }
}

/// Returns the target folder in which an executable was built.
///
/// # Panics
///
/// If the executable is in no target folder.
pub fn target(executable: &Path) -> &Path {
    executable
        .parent()
        .and_then(Path::parent)
        .unwrap_or_else(|| panic!("{} is not built by cargo", executable.display()))
}

/// Returns the profile with which an executable in a target folder was built.
pub fn profile(executable: &Path) -> &str {
    match executable.parent().and_then(Path::file_name).and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    }
}

/// Returns the name of the integration test that has cargo build a program.
fn test_of(program: &str) -> String {
    format!("{}-is-built", program)
}

/// Returns a workspace's manifest with more members.
fn with_members(manifest: &str, packages: &[&str]) -> Option<String> {
    let (before, after) = manifest.split_once("members = [\n")?;
    let packages: String = packages.iter().map(|package| format!("    \"{package}\",\n")).collect();
    Some(format!("{before}members = [\n{packages}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_added() {
        let manifest = "[workspace]\nmembers = [\n    \"base\",\n]\n";
        let expected = "[workspace]\nmembers = [\n    \"a/b\",\n    \"base\",\n]\n";
        assert_eq!(with_members(manifest, &["a/b"]).as_deref(), Some(expected));
        assert_eq!(with_members("[package]\n", &["a/b"]), None);
    }

    #[test]
    fn a_profile_is_known_by_its_folder() {
        assert_eq!(profile(Path::new("/t/debug/sluice")), "dev");
        assert_eq!(profile(Path::new("/t/release/sluice")), "release");
        assert_eq!(target(Path::new("/t/debug/sluice")), Path::new("/t"));
    }
}
