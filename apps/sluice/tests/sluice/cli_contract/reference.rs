//! The reference names everything: every command in `docs/cli.md`, every statement of the schema in some page.

use super::SLUICE;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the words of a command from its manual page; `None` for the page of the program, and for pages that are no command's.
fn command_of(page: &str) -> Option<String> {
    let synopsis = page.split_once(".SH SYNOPSIS\n")?.1;
    let bold = synopsis.strip_prefix("\\fBsluice ")?.split_once("\\fR")?.0;
    Some(bold.replace("\\-", "-"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

#[test]
fn every_command_is_in_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let written = Command::new(SLUICE).args(["man", "--into"]).arg(folder.path()).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let pages = std::fs::read_dir(folder.path()).unwrap();
    let commands: Vec<String> = pages
        .filter_map(|page| command_of(&std::fs::read_to_string(page.unwrap().path()).unwrap()))
        .collect();
    assert!(commands.len() > 100, "{commands:?}");
    let reference = std::fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let is_named = |command: &str| {
        let ends = [" ", "`"].map(|end| format!("`{command}{end}"));
        ends.iter().any(|span| reference.contains(span))
    };
    let missing: Vec<&String> = commands.iter().filter(|command| !is_named(command)).collect();
    assert!(missing.is_empty(), "docs/cli.md lacks {missing:?}");
}

/// Returns the texts of all files with a name that ends so, below a folder of the project.
fn texts_below(folder: &str, end: &str, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let shown = path.strip_prefix(root()).unwrap().display().to_string();
        if path.is_dir() && !shown.ends_with("tests") {
            texts_below(&shown, end, texts);
        } else if shown.ends_with(end) {
            texts.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_statement_is_in_a_page() {
    let (mut schemas, mut pages) = (Vec::new(), Vec::new());
    for folder in ["components", "platform/config/yang"] {
        texts_below(folder, ".yang", &mut schemas);
    }
    for folder in ["docs", "components"] {
        texts_below(folder, ".md", &mut pages);
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let known: std::collections::BTreeSet<&str> =
        pages.iter().flat_map(|page| page.split(|c| !is_word(c))).collect();
    let kinds = ["leaf", "leaf-list", "list", "container"];
    let statements = schemas.iter().flat_map(|schema| schema.lines()).filter_map(|line| {
        let mut words = line.split_whitespace();
        kinds.contains(&words.next()?).then(|| words.next()).flatten()
    });
    let statements: std::collections::BTreeSet<&str> = statements.collect();
    assert!(statements.len() > 200, "{statements:?}");
    let missing: Vec<&&str> = statements.iter().filter(|name| !known.contains(*name)).collect();
    assert!(missing.is_empty(), "no page names {missing:?}");
}
