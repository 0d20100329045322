//! Every event's id is in docs/events.md, and every id there is in use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The text in quotes behind each `before`.
fn quoted_after<'t>(text: &'t str, before: &str) -> Vec<&'t str> {
    text.match_indices(before).filter_map(|(at, _)| text[at + before.len()..].split('"').next()).collect()
}

#[test]
fn ids_are_documented() {
    let mut files = Vec::new();
    for folder in ["apps/sluice/src", "components", "platform/process"] {
        sources(&root().join(folder), &mut files);
    }
    let mut used = BTreeSet::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut found = quoted_after(&text, "event = \"");
        found.extend(quoted_after(&text, " id: \""));
        // The texts of a core stand in `event.rs`, or in the folder of that name.
        if file.ends_with("event.rs") || file.parent().is_some_and(|folder| folder.ends_with("event")) {
            found.extend(quoted_after(&text, "=> \""));
        }
        used.extend(
            found.into_iter().filter(|id| id.contains('.') && !id.starts_with("test.")).map(String::from),
        );
    }
    let document = std::fs::read_to_string(root().join("docs/events.md")).unwrap();
    let rows = document.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<String> = rows
        .filter(|id| id.contains('.') && !id.contains(' ') && !id.contains('/'))
        .map(String::from)
        .collect();
    assert!(used.len() > 20, "{used:?}");
    let missing: Vec<_> = used.difference(&documented).collect();
    assert!(missing.is_empty(), "not in docs/events.md: {missing:?}");
    let gone: Vec<_> = documented.difference(&used).collect();
    assert!(gone.is_empty(), "in docs/events.md, but not used: {gone:?}");
}
