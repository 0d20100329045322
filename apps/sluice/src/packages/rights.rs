//! `sluice rights`: what a component may do, in words.

use crate::output::{self, Failure};
use serde_json::json;
use sluice_process::rights::Rights;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prints what a component may do.
pub fn show(component: &str, packages_dir: &Path, json: bool) -> Result<ExitCode, Failure> {
    let rights = find(component, packages_dir)?;
    let may = rights.in_words();
    match json {
        true => output::print_json("rights-show", &json!({ "component": rights.class, "may": may })),
        false => may.iter().for_each(|phrase| output::say(&format!("{} may {phrase}", rights.class))),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what a component may do in addition, and what it may not do any more.
pub fn diff(old: &str, new: &str, packages_dir: &Path, json: bool) -> Result<ExitCode, Failure> {
    let (old, new) = (find(old, packages_dir)?, find(new, packages_dir)?);
    let (more, less) = new.compared_with(&old);
    if json {
        output::print_json("rights-diff", &json!({ "component": new.class, "more": more, "less": less }));
        return Ok(ExitCode::SUCCESS);
    }
    let class = &new.class;
    more.iter().for_each(|phrase| output::say(&format!("{class} may from now on {phrase}")));
    less.iter().for_each(|phrase| output::say(&format!("{class} may no longer {phrase}")));
    if more.is_empty() && less.is_empty() {
        output::say(&format!("{class} may do the same as before"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds rights: of a component of the router, of a package, or in a folder or a file.
fn find(name: &str, packages_dir: &Path) -> Result<Rights, Failure> {
    let builtin = crate::components::BUILTINS.iter().find(|builtin| builtin.class == name);
    let path = PathBuf::from(name);
    let (text, at) = match builtin {
        Some(builtin) => (builtin.rights.to_owned(), name.to_owned()),
        None => {
            let file =
                if path.is_file() { path } else { folder(path, name, packages_dir).join("rights.toml") };
            let shown = file.display().to_string();
            let text = std::fs::read_to_string(&file).map_err(|error| {
                Failure::failed(format!(
                    "{shown}: {error}; name a component (`sluice show packages`), a package's folder or a rights.toml"
                ))
            })?;
            (text, shown)
        }
    };
    Rights::parse(&text).map_err(|error| Failure::new(Failure::CONFIG, "rights", format!("{at}: {error}")))
}

/// Returns the folder of a package: itself, or the one of that name among the packages.
fn folder(path: PathBuf, name: &str, packages_dir: &Path) -> PathBuf {
    if path.join("rights.toml").is_file() { path } else { packages_dir.join(name) }
}
