//! The table of seeded bugs in `docs/performance.md`, made from the record.

use super::bugs::{Caught, by_judge};
use super::record::Record;
use crate::generated::Part;
use anyhow::Result;
use std::path::Path;

/// The table's place.
const PART: Part = Part {
    page: "docs/performance.md",
    marks: ["<!-- seeded bugs: `cargo xtask long` writes this table -->", "<!-- end of seeded bugs -->"],
};

/// Writes the table of the record to the page.
///
/// # Errors
///
/// If the page cannot be read or written, or lacks the marks.
pub fn write(root: &Path, record: &Record, lists: &[(String, usize)]) -> Result<()> {
    PART.write(root, &table(record, lists))
}

/// Returns a broken rule if the page's table is not that of the record.
///
/// # Errors
///
/// If the page cannot be read.
pub fn check(root: &Path, record: &Record, lists: &[(String, usize)]) -> Result<Option<String>> {
    let is_equal = PART.is(root, &table(record, lists))?;
    let problem = "the table of seeded bugs is not that of docs/long-runs.json; `cargo xtask long --only 'seeded bugs' --minutes 0` writes it";
    Ok((!is_equal).then(|| format!("{}: {problem}", PART.page)))
}

/// Returns the table of the record.
fn table(record: &Record, lists: &[(String, usize)]) -> String {
    let caught = by_judge(record);
    let rows: String = lists.iter().map(|(judge, bugs)| row(judge, *bugs, caught.get(judge))).collect();
    format!("| judge | bugs | judged | caught | share |\n|---|---|---|---|---|\n{rows}")
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
        let page = folder.path().join(PART.page);
        let lists = [("rib".to_owned(), 28), ("fea".to_owned(), 3)];
        let mut record = Record::default();
        std::fs::write(&page, PART.marks.join("\nold\n")).unwrap();
        write(folder.path(), &record, &lists).unwrap();
        assert!(check(folder.path(), &record, &lists).unwrap().is_none());
        let mut run = run(CAMPAIGN, "rib 1 to 12", "2026-01-01", 1);
        (run.caught, run.of) = (Some(9), Some(12));
        record.put(run);
        assert!(check(folder.path(), &record, &lists).unwrap().is_some());
        write(folder.path(), &record, &lists).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("| `rib` | 28 | 12 | 9 | 75.0 % |"), "{text}");
        assert!(check(folder.path(), &record, &lists).unwrap().is_none());
    }
}
