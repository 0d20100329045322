//! The step between a test by hand and all tests: format, rules of the house, and the tests of cores and simulators that
//! a change may break.

mod affected;
mod changes;

use crate::{broken_rules, metadata, report, test};
use affected::{Affected, Crate};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::ExitCode;

/// Options of `cargo xtask quick`.
#[derive(clap::Args)]
pub struct Options {
    /// Compares with the given revision (default: the commit at which HEAD left origin/main, or else main).
    #[arg(long, value_name = "REV")]
    since: Option<String>,
}

/// Checks format and rules, then builds and runs the affected tests. A failure of one part does not hide the others.
///
/// # Errors
///
/// If git, cargo or a test program cannot be started, or the tests cannot be built.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut format = test::cargo::command(root)
        .args(["fmt", "--all", "--check"])
        .spawn()
        .context("cargo does not start")?;
    let rules = report(&broken_rules(root)?);
    let has_format = format.wait()?.success();

    let base = changes::base(root, options.since.as_deref())?;
    let files = changes::files(root, &base)?;
    let crates = affected::crates(root, &metadata::packages(root, &["--no-deps", "--offline"])?)?;
    let Affected { tested, left_out, unowned } = affected::affected(&crates, &files);
    println!("{} files differ from {base}", files.len());
    print_names("tests", &tested);
    print_names("left to `make test`", &left_out);
    print_names("files of no crate, left to `make test`", &unowned);

    let tests = if tested.is_empty() {
        ExitCode::SUCCESS
    } else {
        let names = tested.iter().map(|krate: &&Crate| krate.name.clone()).collect();
        test::run(root, &test::Options::quick(names))?
    };
    if !has_format {
        eprintln!("rustfmt: files differ; run `cargo fmt --all`");
    }
    let fine = has_format && rules == ExitCode::SUCCESS && tests == ExitCode::SUCCESS;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_names<T: ToString>(title: &str, names: &[T]) {
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(T::to_string).collect();
        println!("{title}: {}", names.join(", "));
    }
}
