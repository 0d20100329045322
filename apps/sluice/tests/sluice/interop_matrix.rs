//! The matrix of features proved beside other daemons. A lab that has ended well calls [`proved`]; the record of these calls is
//! `docs/interop.json`, and `docs/interop.md` is made of the record.
//!
//! With `SLUICE_WRITE_INTEROP=1`, labs add their rows to the record, with the versions of the daemons, and the test of the document
//! writes the document. Otherwise a lab fails whose row the record lacks.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, Write as _};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The peers of the matrix in the order of its columns, with Debian's packages.
const PEERS: [(&str, &str); 5] =
    [("BIRD", "bird2"), ("FRR", "frr"), ("OpenBGPD", "openbgpd"), ("GoBGP", "gobgpd"), ("ExaBGP", "exabgp")];

/// A lab's proof of a feature beside a peer.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Row {
    feature: String,
    peer: String,
    /// The file of the test, from the workspace's folder.
    file: String,
}

#[derive(Serialize, Deserialize, Default)]
struct Record {
    /// The version of Debian's package of each peer, as of the last written row.
    versions: BTreeMap<String, String>,
    rows: BTreeSet<Row>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_writing() -> bool {
    std::env::var_os("SLUICE_WRITE_INTEROP").is_some()
}

fn read(mut file: &File) -> Record {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    if text.is_empty() { Record::default() } else { serde_json::from_str(&text).unwrap() }
}

/// Returns the version of a package, and a letter for a daemon that no package brought.
fn version(package: &str) -> String {
    let output = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    let version = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    version.map_or("?".into(), |version| String::from_utf8(version).unwrap())
}

/// Reports that the calling lab has proved a feature beside peers, for routes of IPv4 and IPv6: the lab's last statement.
#[track_caller]
pub fn proved(feature: &str, peers: &[&str]) {
    // Outside of the closure, which is no caller.
    let file_of_the_lab = Location::caller().file();
    let row =
        |peer: &&str| Row { feature: feature.into(), peer: (*peer).into(), file: file_of_the_lab.into() };
    let path = root().join("docs/interop.json");
    let mut file = File::options().read(true).write(true).create(is_writing()).open(&path).unwrap();
    file.lock().unwrap();
    let mut record = read(&file);
    if !is_writing() {
        let lacks = peers.iter().map(row).filter(|row| !record.rows.contains(row)).collect::<Vec<_>>();
        assert!(lacks.is_empty(), "SLUICE_WRITE_INTEROP=1 adds to docs/interop.json: {lacks:?}");
        return;
    }
    for peer in peers {
        let (name, package) = PEERS.iter().find(|(name, _)| name == peer).unwrap();
        record.versions.insert((*name).into(), version(package));
        record.rows.insert(row(peer));
    }
    file.rewind().unwrap();
    file.set_len(0).unwrap();
    writeln!(file, "{}", serde_json::to_string_pretty(&record).unwrap()).unwrap();
}

/// Returns the document that a record makes.
fn document(record: &Record) -> String {
    let mut text = "# Interoperability\n\nThis page lists the features that labs have proved with Sluice beside other daemons, each with routes of IPv4 \
         and IPv6. A cell without a mark is not\ntested, which does not mean that the feature works. The page is made of \
         [interop.json](interop.json), which the labs write: a lab that ends\nwell reports what it has proved.\n\n"
        .to_owned();
    let columns = PEERS.map(|(name, _)| {
        let version = record.versions.get(name).map_or("", String::as_str);
        format!("{name} {version}")
    });
    writeln!(text, "| feature | {} |", columns.join(" | ")).unwrap();
    writeln!(text, "|---|{}", "---|".repeat(PEERS.len())).unwrap();
    let mut features: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    record.rows.iter().for_each(|row| features.entry(&row.feature).or_default().push(row));
    for (feature, rows) in &features {
        let cell = |name| if rows.iter().any(|row| row.peer == name) { "yes" } else { "" };
        writeln!(text, "| {feature} | {} |", PEERS.map(|(name, _)| cell(name)).join(" | ")).unwrap();
    }
    text.push_str("\n## Labs\n\nEach lab needs the daemons that it runs, and is skipped without them.\n\n");
    text.push_str("| feature | labs |\n|---|---|\n");
    for (feature, rows) in &features {
        let files: BTreeSet<String> = rows.iter().map(|row| format!("`{}`", row.file)).collect();
        let files: Vec<String> = files.into_iter().collect();
        writeln!(text, "| {feature} | {} |", files.join(", ")).unwrap();
    }
    text
}

#[test]
fn the_document_matches_the_record() {
    let path = root().join("docs/interop.md");
    let document = document(&read(&File::open(root().join("docs/interop.json")).unwrap()));
    if is_writing() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document, "SLUICE_WRITE_INTEROP=1 writes docs/interop.md again");
}

/// A row goes with its lab: the lab's source still reports the feature beside the peer, and starts the peer's daemon.
#[test]
fn each_row_has_a_lab_that_reports_it() {
    let record = read(&File::open(root().join("docs/interop.json")).unwrap());
    assert!(record.rows.len() >= 30, "{} rows", record.rows.len());
    for Row { feature, peer, file } in &record.rows {
        let source = std::fs::read_to_string(root().join(file)).unwrap();
        let mut reports = source.split("proved(").skip(1).filter_map(|rest| rest.split(");").next());
        assert!(reports.any(|words| words.contains(&format!("\"{feature}\""))), "{file}: {feature}");
        let names = [format!("\"{peer}\""), peer.to_lowercase()];
        assert!(names.iter().all(|name| source.contains(name)), "{file}: {feature}, {peer}");
    }
}
