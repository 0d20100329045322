//! The table on `docs/performance.md`, made from the record.

use super::record::{Benchmark, Cell, Record};
use crate::generated::Part;
use anyhow::Result;
use bench_report::{Bar, Better, number};
use std::fmt::Write;
use std::path::Path;

/// The table's place.
const PART: Part = Part {
    page: "docs/performance.md",
    marks: ["<!-- results: `cargo xtask performance` writes this part -->", "<!-- end of results -->"],
};

/// Writes the table of the record to the page.
///
/// # Errors
///
/// If the page cannot be read or written, or lacks the marks.
pub fn write(root: &Path, record: Option<&Record>) -> Result<()> {
    PART.write(root, &text(record))
}

/// Returns a broken rule if the page's table is not that of the record.
///
/// # Errors
///
/// If the page cannot be read.
pub fn check(root: &Path, record: Option<&Record>) -> Result<Option<String>> {
    let is_equal = PART.is(root, &text(record))?;
    let problem =
        "the results are not those of docs/performance.json; `cargo xtask performance --page` writes them";
    Ok((!is_equal).then(|| format!("{}: {problem}", PART.page)))
}

/// Returns the text of the part.
fn text(record: Option<&Record>) -> String {
    let Some(record) = record else { return "Nothing is recorded.\n".into() };
    let Record { commit, date, machine, benchmarks } = record;
    let day = date.split('T').next().unwrap_or_default();
    let mut text = format!(
        "{day}, commit {commit}, {} with {} processors, Linux {}.\n\n\
         | bar | value | wanted | reached | other programs | profile |\n|---|---|---|---|---|---|\n",
        machine.cpu, machine.cores, machine.kernel
    );
    for benchmark in benchmarks {
        benchmark.bars.iter().for_each(|bar| text += &row(bar, benchmark));
    }
    for benchmark in benchmarks.iter().filter(|benchmark| !benchmark.cells.is_empty()) {
        let _ = write!(
            text,
            "\n`{}`, medians:\n\n\
             | scenario | router | time | processor time, s | memory, MB | resident, MB |\n|---|---|---|---|---|---|\n",
            benchmark.name
        );
        benchmark.cells.iter().for_each(|cell| text += &cell_row(cell));
    }
    text
}

fn row(bar: &Bar, benchmark: &Benchmark) -> String {
    let sign = if bar.better == Better::Lower { "at most" } else { "at least" };
    let reached = if bar.reached() { "yes" } else { "**no**" };
    let foreign =
        benchmark.foreign_cpu_pct.map_or_else(|| "not measured".into(), |pct| format!("{pct:.0} %"));
    format!(
        "| `{}` | {} {} | {sign} {} | {reached} | {foreign} | {} |\n",
        bar.name,
        number(bar.value),
        bar.unit,
        number(bar.target),
        benchmark.profile
    )
}

fn cell_row(cell: &Cell) -> String {
    let time = cell.value.map_or_else(|| "not done".into(), |value| format!("{value} {}", cell.unit));
    let threads = cell.threads.map(|threads| format!(", {threads} threads")).unwrap_or_default();
    format!(
        "| {} | {}{threads} | {time} | {} | {} | {} |\n",
        cell.scenario,
        cell.router,
        number(cell.cpu_s),
        number(cell.memory_octets / 1e6),
        number(cell.resident_octets / 1e6)
    )
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::report;
    use super::super::record::{Choice, choose};
    use super::*;

    #[test]
    fn the_table_follows_the_record() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        let page = folder.path().join(PART.page);
        std::fs::write(&page, format!("before\n{}\nafter\n", PART.marks.join("\nold\n"))).unwrap();
        write(folder.path(), None).unwrap();
        assert!(check(folder.path(), None).unwrap().is_none());
        let report = serde_json::from_value(report("bgp", "123", "2026-01-01T10:00:00Z")).unwrap();
        let Choice { record, .. } = choose(&[report]);
        assert!(check(folder.path(), Some(&record)).unwrap().is_some());
        write(folder.path(), Some(&record)).unwrap();
        assert!(check(folder.path(), Some(&record)).unwrap().is_none());
        let text = std::fs::read_to_string(&page).unwrap();
        for expected in [
            "before\n",
            "2026-01-01, commit 123, a processor with 2 processors, Linux 6.1.\n",
            "| `bgp.time` | 0.12 x | at most 1.00 | yes | 4 % | release |\n",
            "| S1 | Sluice | 0.5 s | 1.00 | 200 | 250 |\n",
            "\nafter\n",
        ] {
            assert!(text.contains(expected), "{expected}{text}");
        }
    }

    #[test]
    fn a_missed_target_and_an_unfinished_cell_are_named() {
        let mut report = report("a", "1", "2026-01-01");
        report["bars"][0]["value"] = 1.5.into();
        report["rows"][1]["value_median"] = serde_json::Value::Null;
        report["host"]["foreign_cpu_pct"] = serde_json::Value::Null;
        let text = text(Some(&choose(&[serde_json::from_value(report).unwrap()]).record));
        assert!(text.contains("| at most 1.00 | **no** | not measured |"), "{text}");
        assert!(text.contains("| S1 | Sluice | not done |"), "{text}");
    }
}
