//! Traces as bgpdump reads them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Returns true if bgpdump is installed; reports the test as skipped if not.
pub fn is_installed() -> bool {
    let is_there = Command::new("bgpdump").arg("-v").output().is_ok();
    if !is_there {
        sluice_testkit::skipped("bgpdump is not installed");
    }
    is_there
}

/// Returns the lines that bgpdump makes of a file, split into fields.
pub fn lines(file: &Path) -> Vec<Vec<String>> {
    let output = Command::new("bgpdump").arg("-m").arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.split('|').map(String::from).collect()).collect()
}

/// Returns the routes of a table in a file: neighbor, AS, prefix, path, next hop and communities of each route.
pub fn routes(file: &Path) -> BTreeSet<Vec<String>> {
    let fields = |mut line: Vec<String>| {
        if line[0] == "TABLE_DUMP2_AP" {
            // The path identifier.
            line.remove(6);
        }
        [3, 4, 5, 6, 8, 11].map(|field| line[field].clone()).to_vec()
    };
    lines(file).into_iter().map(fields).collect()
}
