//! Tables within the width of a terminal.

use super::{Router, text};
use std::process::Output;

/// Commands that print tables.
const TABLES: [&str; 16] = [
    "show processes",
    "show memory",
    "show interfaces",
    "show bgp summary",
    "show audit",
    "show packages",
    "show revisions",
    "show targets",
    "show security",
    "show denials",
    "show policy",
    "show xip routes",
    "show xip counters",
    "show cluster",
    "show rpki table",
    "show bgp groups",
];

/// A statement that is wider than each terminal.
const WIDE: &str =
    "a description of a neighbor, with some more words than any terminal has room for in one line of a table";

fn shown(router: &Router, line: &str, columns: Option<&str>) -> String {
    let mut command = router.command(&line.split(' ').collect::<Vec<_>>());
    command.env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    let output: Output = command.output().unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tables_fit_the_terminal() {
    let Some(router) = Router::up() else { return };
    let described = format!("set protocols bgp neighbor 10.1.0.9 description \"{WIDE}\"");
    let done = router.run(&["configure", &described, &format!("commit comment \"{WIDE}\"")]);
    assert!(done.status.success(), "{}", text(&done));
    let mut wrong = Vec::new();
    for line in TABLES {
        for columns in ["80", "120"] {
            let shown = shown(&router, line, Some(columns));
            let width: usize = columns.parse().unwrap();
            // What is missing is said in words, before the table.
            let rows = shown.lines().filter(|line| !line.contains(" is missing: "));
            let wide = rows.filter(|line| line.chars().count() > width);
            wrong.extend(wide.map(|wide| format!("{line}: {columns}: {wide}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A program that reads the table gets the whole text, in one line a row.
    for line in ["show audit", "show revisions", "show bgp summary"] {
        assert!(shown(&router, line, None).contains(WIDE), "{line}");
    }
    let summary = shown(&router, "show bgp summary", None);
    let of = |neighbor: &str| summary.lines().find(|line| line.starts_with(neighbor)).unwrap_or_default();
    assert!(of("10.1.0.9").contains(" (down)") && !of("10.1.0.2").contains("(down)"), "{summary}");
}
