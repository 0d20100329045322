//! Every line suggested in `docs/coming-from.md` is understood: commands by the grammar, statements by the schema.

use crate::SLUICE;
use std::path::Path;
use std::process::Command;

/// Returns the texts between backquotes in the last column of each row.
fn typed() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
    let page = std::fs::read_to_string(page).unwrap().replace("\\|", "\u{a6}");
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end().trim_end_matches('|').rsplit('|').next());
    let parts = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    parts.map(|part| part.replace('\u{a6}', "|").replace(" X", " 192.0.2.1")).collect()
}

#[test]
fn commands_are_understood() {
    let is_whole =
        |text: &&String| !["...", "FILE", "FOLDER", "schema"].iter().any(|word| text.contains(word));
    let mut count = 0;
    for text in typed().iter().filter(is_whole) {
        let Some(words) = text.strip_prefix("sluice ").filter(|words| *words != "configure") else {
            continue;
        };
        let words = words.split(' ').map(|word| word.trim_matches('\''));
        let output = Command::new(SLUICE).args(words).args(["--run-dir", "/nonexistent"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{text}: {said}");
        count += 1;
    }
    assert!(count >= 30, "{count} commands");
}

#[test]
fn statements_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("router.conf");
    let statements: Vec<String> = typed().into_iter().filter(|text| text.starts_with("set ")).collect();
    assert!(statements.len() >= 15, "{statements:?}");
    for statement in statements {
        // What one statement alone leaves out stands before it.
        let base = [
            "set protocols bgp local-as 65000",
            "set protocols bgp router-id 10.0.0.1",
            "set protocols bgp neighbor 192.0.2.1 peer-as 65001",
            "set protocols bgp group g peer-as 65001",
            "set policy damping quick half-life 10",
        ];
        let mut lines: Vec<&str> = base.into_iter().filter(|line| *line != statement).collect();
        let statement = statement.replace("\"...\"", "\"x\"");
        lines.push(&statement);
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        let output = Command::new(SLUICE).args(["config", "check"]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
