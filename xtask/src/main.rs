//! Chores of the house.

mod advisories;
mod circles;
mod features;
mod fuzz_guided;
mod generated;
mod interfaces;
mod layers;
mod licenses;
mod long;
mod metadata;
mod mutate;
mod new_component;
mod performance;
mod prose;
mod protos;
mod quick;
mod rows;
mod schemas;
mod spelling;
mod standards;
mod state;
mod test;
mod tidy;
mod working_set;

use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Chores of the house.
#[derive(Parser)]
enum Chore {
    /// Checks the rules of the house beyond the compiler: layers, names, sizes, links.
    Tidy,
    /// Checks where dependencies come from and under which license.
    Licenses,
    /// Prints how vague doc comments are, area by area, and the worst files.
    Prose(prose::Options),
    /// Checks dependencies against a checkout of the RustSec advisory database, if there is one (SLUICE_ADVISORY_DB,
    /// ~/.cargo/advisory-db or ../shared/advisory-db).
    Advisories,
    /// Compares the features of dependencies of each package with the workspace's.
    Features,
    /// Compares the interfaces of the router's processes with their recorded descriptions (`idl/baseline`), and refuses changes that
    /// processes of another version would misread.
    Interfaces(interfaces::Options),
    /// Runs the fuzz targets under libFuzzer, which follows coverage.
    FuzzGuided(fuzz_guided::Options),
    /// Counts the cache lines that a route needs in BGP's core, by cachegrind.
    WorkingSet(working_set::Options),
    /// Seeds bugs, one by one, in a copy of the sources, and prints the bugs that tests find.
    Mutate(mutate::Options),
    /// Checks format and rules of the house, and runs the tests of cores and simulators that a change may break.
    Quick(quick::Options),
    /// Lists the long tests with their last results, or runs campaigns of long tests, the oldest result first.
    Long(long::Options),
    /// Runs every test and counts passed, failed and skipped ones.
    Test(test::Options),
    /// Records the results of benchmarks in `docs/performance.json`, and writes the table of `docs/performance.md` from that file.
    Performance(performance::Options),
    /// Writes the pages and tables of supported standards from the components' files `standards.toml`.
    Standards,
    /// Writes the table of the parts of the components' states in `docs/state.md` from the source code.
    State,
    /// Writes the JSON Schemas of commands from the interfaces' descriptions and `docs/schemas.toml`.
    Schemas,
    /// Writes a new component: core, process, schema, rights; and its rows in the executable.
    NewComponent {
        /// The component's class, in lower case, as in `rip`.
        name: String,
        /// A folder other than `components/` of this workspace; then no rows are written.
        #[arg(long)]
        into: Option<PathBuf>,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let root = root();
    match Chore::parse() {
        Chore::Tidy => Ok(report(&broken_rules(&root)?)),
        Chore::Licenses => Ok(report(&licenses::check(&root)?)),
        Chore::Prose(options) => {
            prose::print(&root, &options)?;
            Ok(ExitCode::SUCCESS)
        }
        Chore::Advisories => Ok(report(&advisories::check(&root)?)),
        Chore::Features => Ok(report(&features::check(&root)?)),
        Chore::Interfaces(options) => Ok(report(&interfaces::run(&root, &options)?)),
        Chore::FuzzGuided(options) => fuzz_guided::run(&root, &options),
        Chore::WorkingSet(options) => working_set::run(&root, &options).map(|()| ExitCode::SUCCESS),
        Chore::Mutate(options) => mutate::run(&root, &options),
        Chore::Quick(options) => quick::run(&root, &options),
        Chore::Long(options) => long::run(&root, &options),
        Chore::Test(options) => test::run(&root, &options),
        Chore::Performance(options) => performance::run(&root, &options).map(|()| ExitCode::SUCCESS),
        Chore::Standards => standards::write(&root).map(|()| ExitCode::SUCCESS),
        Chore::State => state::write(&root).map(|()| ExitCode::SUCCESS),
        Chore::Schemas => schemas::write(&root).map(|()| ExitCode::SUCCESS),
        Chore::NewComponent { name, into } => {
            new_component::write(&root, &name, into.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the broken rules of the house.
fn broken_rules(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = tidy::check(root)?;
    found.extend(layers::check(root)?);
    found.extend(circles::check(root)?);
    found.extend(rows::check(root)?);
    found.extend(prose::check(root)?);
    found.extend(long::check(root)?);
    found.extend(performance::check(root)?);
    found.extend(standards::check(root)?);
    found.extend(state::check(root)?);
    found.extend(schemas::check(root)?);
    found.extend(spelling::check(root)?);
    found.extend(interfaces::check(root)?);
    Ok(found)
}

fn report(found: &[String]) -> ExitCode {
    for problem in found {
        eprintln!("{problem}");
    }
    match found.len() {
        0 => ExitCode::SUCCESS,
        n => {
            eprintln!("{n} rules broken");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_is_tidy() {
        let found = super::broken_rules(&super::root()).unwrap();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }
}
