//! Dependencies with known vulnerabilities: the versions in `Cargo.lock` compared with a checkout of the RustSec advisory database.

use anyhow::{Context, Result, ensure};
use semver::{Version, VersionReq};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Environment variable that names the checkout.
const DATABASE: &str = "SLUICE_ADVISORY_DB";
/// The source of crates.io packages in lock files. Advisories concern only these packages.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The needed parts of an advisory.
#[derive(Debug, Deserialize)]
struct Advisory {
    advisory: Head,
    #[serde(default)]
    versions: Versions,
}

#[derive(Debug, Deserialize)]
struct Head {
    id: String,
    package: String,
    /// The kind of an advisory without a vulnerability: `unmaintained`, `unsound`, `notice`.
    informational: Option<String>,
    /// The day on which the advisory was taken back.
    withdrawn: Option<String>,
}

/// Versions that are not affected.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Versions {
    patched: Vec<VersionReq>,
    unaffected: Vec<VersionReq>,
}

impl Advisory {
    /// Parses an advisory's file: Markdown that begins with a block of TOML.
    fn parse(text: &str) -> Result<Self> {
        let block = text.trim_start().strip_prefix("```toml").and_then(|rest| rest.split_once("\n```"));
        let (head, _) = block.context("the file does not begin with a block of TOML")?;
        Ok(toml::from_str(head)?)
    }

    /// Returns true if the advisory is about `version`. A pre-release is affected unless a range names a pre-release of the same
    /// version.
    fn affects(&self, version: &Version) -> bool {
        let Versions { patched, unaffected } = &self.versions;
        self.advisory.withdrawn.is_none() && !patched.iter().chain(unaffected).any(|r| r.matches(version))
    }

    /// Returns true if the advisory warns of no defect of the code.
    fn is_note(&self) -> bool {
        matches!(self.advisory.informational.as_deref(), Some("unmaintained" | "notice"))
    }
}

#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    package: Vec<Locked>,
}

/// A package of a lock file.
#[derive(Deserialize)]
struct Locked {
    name: String,
    version: Version,
    source: Option<String>,
}

/// The outcome of a check, in words.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    /// Vulnerable or unsound dependencies.
    broken: Vec<String>,
    /// Unmaintained dependencies, and dependencies with a notice.
    notes: Vec<String>,
}

/// Prints notes, and returns vulnerable dependencies. Without a database the check is skipped by name.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let Some(database) = database(root)? else {
        println!("skipped: advisories: no RustSec database; {DATABASE} names a checkout of one");
        return Ok(Vec::new());
    };
    let advisories = read(&database)?;
    println!("{} packages with advisories in {}", advisories.len(), database.display());
    let lock_file = fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    let found = compare(&lock_file, &advisories).context("Cargo.lock")?;
    found.notes.iter().for_each(|note| println!("{note}"));
    Ok(found.broken)
}

/// Returns the database's folder: from the environment, or else a usual folder of `cargo audit` or of the house.
fn database(root: &Path) -> Result<Option<PathBuf>> {
    if let Some(named) = env::var_os(DATABASE).map(PathBuf::from) {
        ensure!(named.join("crates").is_dir(), "{DATABASE}: {} has no folder `crates`", named.display());
        return Ok(Some(named));
    }
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let candidates = [cargo.map(|c| c.join("advisory-db")), Some(root.join("../shared/advisory-db"))];
    Ok(candidates.into_iter().flatten().find(|c| c.join("crates").is_dir()))
}

/// Reads the advisories of a database by package.
fn read(database: &Path) -> Result<BTreeMap<String, Vec<Advisory>>> {
    let mut advisories: BTreeMap<String, Vec<Advisory>> = BTreeMap::new();
    for package in fs::read_dir(database.join("crates"))? {
        for file in fs::read_dir(package?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|e| e == "md") {
                let advisory =
                    fs::read_to_string(&path).map_err(Into::into).and_then(|t| Advisory::parse(&t));
                let advisory = advisory.with_context(|| path.display().to_string())?;
                advisories.entry(advisory.advisory.package.clone()).or_default().push(advisory);
            }
        }
    }
    Ok(advisories)
}

/// Compares the packages of a lock file with advisories.
fn compare(lock_file: &str, advisories: &BTreeMap<String, Vec<Advisory>>) -> Result<Findings> {
    let locked: LockFile = toml::from_str(lock_file)?;
    let mut findings = Findings::default();
    for package in locked.package.iter().filter(|p| p.source.as_deref() == Some(CRATES_IO)) {
        for advisory in advisories.get(&package.name).into_iter().flatten() {
            if !advisory.affects(&package.version) {
                continue;
            }
            let patched = &advisory.versions.patched;
            let patched: Vec<String> = patched.iter().map(ToString::to_string).collect();
            let remedy = if patched.is_empty() { "nothing".into() } else { patched.join(" or ") };
            let (name, version, head) = (&package.name, &package.version, &advisory.advisory);
            let kind = head.informational.as_deref().unwrap_or("vulnerable");
            let line = format!("{name} {version}: {kind}, {}; patched in {remedy}", head.id);
            if advisory.is_note() { &mut findings.notes } else { &mut findings.broken }.push(line);
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(advisories: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, (package, head, versions)) in advisories.iter().enumerate() {
            let place = folder.path().join("crates").join(package);
            fs::create_dir_all(&place).unwrap();
            let id = format!("RUSTSEC-2026-{number:04}");
            let text = format!(
                "```toml\n[advisory]\nid = \"{id}\"\npackage = \"{package}\"\ndate = \"2026-01-01\"\n{head}\n\
                 [versions]\n{versions}\n```\n\n# Title\n\nText.\n"
            );
            fs::write(place.join(format!("{id}.md")), text).unwrap();
        }
        folder
    }

    fn lock_file(packages: &[(&str, &str)]) -> String {
        let one = |(name, version): &(&str, &str)| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{CRATES_IO}\"\n")
        };
        format!("version = 4\n{}", packages.iter().map(one).collect::<String>())
    }

    fn findings(advisories: &[(&str, &str, &str)], packages: &[(&str, &str)]) -> Findings {
        let folder = database(advisories);
        compare(&lock_file(packages), &read(folder.path()).unwrap()).unwrap()
    }

    #[test]
    fn versions_between_unaffected_and_patched_ones_are_vulnerable() {
        let ranges = "patched = [\">= 1.4.2\", \"^1.2.9\"]\nunaffected = [\"< 1.1.0\"]";
        for (version, is_vulnerable) in [
            ("1.0.9", false),
            ("1.1.0", true),
            ("1.2.8", true),
            ("1.2.9", false),
            ("1.4.2", false),
            ("2.0.0", false),
            ("1.1.0-rc.1", true),
        ] {
            let found = findings(&[("leaky", "", ranges)], &[("leaky", version), ("tight", "1.1.0")]);
            assert_eq!(found.broken.len(), usize::from(is_vulnerable), "{version}: {found:?}");
        }
    }

    #[test]
    fn a_finding_names_package_advisory_and_remedy() {
        let found = findings(&[("leaky", "", "patched = [\">=1.4.2\"]")], &[("leaky", "1.2.0")]);
        assert_eq!(found.broken, ["leaky 1.2.0: vulnerable, RUSTSEC-2026-0000; patched in >=1.4.2"]);
        let found = findings(&[("leaky", "", "patched = []")], &[("leaky", "1.2.0")]);
        assert_eq!(found.broken, ["leaky 1.2.0: vulnerable, RUSTSEC-2026-0000; patched in nothing"]);
    }

    #[test]
    fn notes_break_no_rule_and_withdrawn_advisories_are_silent() {
        let all = [
            ("old", "informational = \"unmaintained\"", "patched = []"),
            ("shaky", "informational = \"unsound\"", "patched = []"),
            ("mistaken", "withdrawn = \"2026-02-02\"", "patched = []"),
        ];
        let found = findings(&all, &[("old", "1.0.0"), ("shaky", "1.0.0"), ("mistaken", "1.0.0")]);
        assert_eq!((found.notes.len(), found.broken.len()), (1, 1), "{found:?}");
        assert!(found.notes[0].starts_with("old 1.0.0: unmaintained"));
        assert!(found.broken[0].starts_with("shaky 1.0.0: unsound"));
    }

    #[test]
    fn packages_of_the_workspace_have_no_advisories() {
        let folder = database(&[("sluice", "", "patched = []")]);
        let own = "[[package]]\nname = \"sluice\"\nversion = \"0.1.0\"\n";
        let found = compare(own, &read(folder.path()).unwrap()).unwrap();
        assert_eq!(found, Findings::default());
    }

    #[test]
    fn an_advisory_that_cannot_be_read_is_an_error_with_its_path() {
        let folder = database(&[("leaky", "", "patched = [\"what?\"]")]);
        let error = read(folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("RUSTSEC-2026-0000.md"), "{error:#}");
    }
}
