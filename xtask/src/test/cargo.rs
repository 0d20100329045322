//! Calls of cargo from a program that cargo runs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a call of cargo at the workspace's root, in the environment of a user's own call.
///
/// Cargo describes xtask to xtask by variables. Build scripts of dependencies read some of them (`CARGO_PKG_NAME`): with
/// xtask's values, the next call by hand would build these dependencies again.
pub fn command(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root);
    clean(&mut command);
    command
}

/// Removes the variables by which cargo describes xtask.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_inner) {
            command.env_remove(name);
        }
    }
}

fn is_inner(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Returns cargo's target folder.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// Returns the folder of real tables and captures: the named one, or the one beside the workspace.
pub fn shared(root: &Path) -> PathBuf {
    std::env::var_os("SLUICE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_about_a_package_are_not_for_another_cargo() {
        assert!(is_inner("CARGO_PKG_NAME") && is_inner("CARGO_MANIFEST_DIR"));
        assert!(!is_inner("CARGO_TARGET_DIR") && !is_inner("CARGO_HOME") && !is_inner("CARGO_INCREMENTAL"));
        assert!(!is_inner("PATH"));
    }
}
