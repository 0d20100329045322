//! The table of seeded bugs in `docs/performance.md`, made from the record.

use super::bugs::{Caught, by_judge};
use super::record::Record;
use anyhow::{Context, Result};
use std::path::Path;

/// The page with the table.
const PAGE: &str = "docs/performance.md";
/// The lines around the table.
const MARKS: [&str; 2] =
    ["<!-- seeded bugs: `cargo xtask long` writes this table -->", "<!-- end of seeded bugs -->"];

/// Writes the table of the record to the page.
///
/// # Errors
///
/// If the page cannot be read or written, or lacks the marks.
pub fn write(root: &Path, record: &Record, lists: &[(String, usize)]) -> Result<()> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let new =
        with_table(&page, record, lists).with_context(|| format!("{PAGE} lacks the marks of the table"))?;
    if new != page {
        std::fs::write(root.join(PAGE), new).context(PAGE)?;
    }
    Ok(())
}

/// Returns a broken rule if the page's table is not that of the record.
///
/// # Errors
///
/// If the page cannot be read.
pub fn check(root: &Path, record: &Record, lists: &[(String, usize)]) -> Result<Option<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let is_equal = with_table(&page, record, lists).is_some_and(|new| new == page);
    let problem = "the table of seeded bugs is not that of docs/long-runs.json; `cargo xtask long --only 'seeded bugs' --minutes 0` writes it";
    Ok((!is_equal).then(|| format!("{PAGE}: {problem}")))
}

/// Returns the page with the table of the record. `None` if the page lacks the marks.
fn with_table(page: &str, record: &Record, lists: &[(String, usize)]) -> Option<String> {
    let [begin, end] = MARKS;
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    let caught = by_judge(record);
    let rows: String = lists.iter().map(|(judge, bugs)| row(judge, *bugs, caught.get(judge))).collect();
    let head = "| judge | bugs | judged | caught | share |\n|---|---|---|---|---|\n";
    Some(format!("{before}{begin}\n\n{head}{rows}\n{end}{after}"))
}

fn row(judge: &str, bugs: usize, caught: Option<&Caught>) -> String {
    match caught {
        Some(caught) => {
            let Caught { caught: count, of } = caught;
            format!("| `{judge}` | {bugs} | {of} | {count} | {:.1} % |\n", caught.share())
        }
        None => format!("| `{judge}` | {bugs} | 0 | | |\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bugs::CAMPAIGN;
    use super::super::record::tests::run;
    use super::*;

    #[test]
    fn the_table_follows_the_record() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        let page = folder.path().join(PAGE);
        let lists = [("rib".to_owned(), 28), ("fea".to_owned(), 3)];
        let mut record = Record::default();
        std::fs::write(&page, "no marks\n").unwrap();
        assert!(write(folder.path(), &record, &lists).is_err());
        assert!(check(folder.path(), &record, &lists).unwrap().is_some());

        std::fs::write(&page, format!("before\n{}\nold\n{}\nafter\n", MARKS[0], MARKS[1])).unwrap();
        write(folder.path(), &record, &lists).unwrap();
        assert!(check(folder.path(), &record, &lists).unwrap().is_none());
        let mut run = run(CAMPAIGN, "rib 1 to 12", "2026-01-01", 1);
        (run.caught, run.of) = (Some(9), Some(12));
        record.put(run);
        assert!(check(folder.path(), &record, &lists).unwrap().is_some());
        write(folder.path(), &record, &lists).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(
            text.contains("75.0 %") && text.starts_with("before\n") && text.ends_with("\nafter\n"),
            "{text}"
        );
        assert!(!text.contains("old"), "{text}");
        assert!(check(folder.path(), &record, &lists).unwrap().is_none());
    }
}
