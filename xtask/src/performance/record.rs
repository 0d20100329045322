//! The record of the results, in `docs/performance.json`, and its choice among the files of the benchmarks.

use anyhow::{Context, Result};
use bench_report::{Bar, Machine};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// The file of the record, below the root.
const FILE: &str = "docs/performance.json";

/// The results of benchmarks at one commit on one machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The commit, with `+` behind it if the sources had further changes.
    pub commit: String,
    /// The time of the last result, as in `2026-11-28T08:30:00Z`.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// The benchmarks, sorted by name.
    pub benchmarks: Vec<Benchmark>,
}

/// The results of a benchmark.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Benchmark {
    /// The benchmark's name, which is the name of its file.
    pub name: String,
    /// The build profile.
    pub profile: String,
    /// The load of the machine by other programs, in percent; absent if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_cpu_pct: Option<f64>,
    /// The values with a target.
    pub bars: Vec<Bar>,
    /// The cells of a comparison of routers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<Cell>,
}

/// A router in a scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The scenario's name, as `S1`.
    pub scenario: String,
    /// The router's name.
    pub router: String,
    /// The threads that the router was given; absent for the router's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// The unit of the value.
    pub unit: String,
    /// The median; absent if the router did not finish.
    #[serde(rename = "value_median")]
    pub value: Option<f64>,
    /// Processor time in seconds.
    #[serde(rename = "cpu_s_median")]
    pub cpu_s: f64,
    /// Peak memory, pages that processes share counted once.
    #[serde(rename = "peak_memory_octets_median")]
    pub memory_octets: f64,
    /// Peak memory, pages that processes share counted in each process.
    #[serde(rename = "resident_peak_octets_median")]
    pub resident_octets: f64,
}

/// What a benchmark wrote, as far as the page needs it.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    name: String,
    #[serde(default)]
    host: Option<Host>,
    profile: String,
    #[serde(default)]
    commit: Option<String>,
    #[serde(default)]
    date: Option<String>,
    rows: Vec<Value>,
    bars: Vec<Bar>,
}

#[derive(Clone, Debug, Deserialize)]
struct Host {
    #[serde(flatten)]
    machine: Machine,
    #[serde(default)]
    foreign_cpu_pct: Option<f64>,
}

/// The results that belong together, and the reasons why others do not.
pub struct Choice {
    /// The chosen results.
    pub record: Record,
    /// A reason for each result that was left out.
    pub left_out: Vec<String>,
}

impl Record {
    /// Reads the record of a workspace; `None` if nothing is recorded.
    ///
    /// # Errors
    ///
    /// If the file is not of the expected form.
    pub fn read(root: &Path) -> Result<Option<Self>> {
        match std::fs::read_to_string(root.join(FILE)) {
            Ok(text) => Ok(Some(serde_json::from_str(&text).context(FILE)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(FILE),
        }
    }

    /// Replaces the file atomically.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, root: &Path) -> Result<()> {
        let new = root.join(FILE).with_extension("new");
        std::fs::write(&new, serde_json::to_string_pretty(self)? + "\n").context(FILE)?;
        std::fs::rename(&new, root.join(FILE)).context(FILE)
    }
}

/// Reads the files of the benchmarks in a folder, sorted by name.
///
/// # Errors
///
/// If the folder cannot be read, or a file is not of the expected form.
pub fn results(folder: &Path) -> Result<Vec<Report>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let shown = || format!("{}", path.display());
        let text = std::fs::read_to_string(path).with_context(shown)?;
        serde_json::from_str(&text).with_context(shown)
    };
    paths.iter().map(read).collect()
}

/// Chooses the results of the commit and the machine of the latest result.
pub fn choose(reports: &[Report]) -> Choice {
    let dated = |report: &&Report| report.date.is_some() && report.commit.is_some() && report.host.is_some();
    let latest = reports.iter().filter(dated).max_by(|a, b| a.date.cmp(&b.date));
    let commit = latest.and_then(|report| report.commit.clone()).unwrap_or_default();
    let date = latest.and_then(|report| report.date.clone()).unwrap_or_default();
    let empty = || Machine { cpu: String::new(), cores: 0, kernel: String::new() };
    let machine =
        latest.and_then(|report| report.host.as_ref()).map_or_else(empty, |host| host.machine.clone());
    let mut choice =
        Choice { record: Record { commit, date, machine, benchmarks: Vec::new() }, left_out: Vec::new() };
    for report in reports {
        match benchmark(report, &choice.record) {
            Ok(Some(benchmark)) => choice.record.benchmarks.push(benchmark),
            Ok(None) => {}
            Err(reason) => choice.left_out.push(format!("{}: {reason}", report.name)),
        }
    }
    choice.record.benchmarks.sort_by(|a, b| a.name.cmp(&b.name));
    choice
}

/// Returns the results of a benchmark; `None` without results for the page, or the reason why they do not belong to the record.
fn benchmark(report: &Report, record: &Record) -> Result<Option<Benchmark>, &'static str> {
    let rows = || report.rows.iter();
    let cell = |row: &Value| match row["what"] == "cell" {
        true => serde_json::from_value(row.clone()).ok(),
        false => None,
    };
    let cells: Vec<Cell> = rows().filter_map(cell).map(Cell::rounded).collect();
    if report.bars.is_empty() && cells.is_empty() {
        return Ok(None);
    }
    if report.commit.as_ref() != Some(&record.commit) {
        return Err("of another commit, or of none");
    }
    let Some(host) = report.host.as_ref().filter(|host| host.machine == record.machine) else {
        return Err("of another machine, or of none");
    };
    if rows().any(|row| row["what"] == "how" && row["scale"].as_f64().is_some_and(|scale| scale < 1.0)) {
        return Err("of a part of the table (`--scale`)");
    }
    let rounded = |bar: &Bar| Bar { value: rounded(bar.value), ..bar.clone() };
    Ok(Some(Benchmark {
        name: report.name.clone(),
        profile: report.profile.clone(),
        foreign_cpu_pct: host.foreign_cpu_pct,
        bars: report.bars.iter().map(rounded).collect(),
        cells,
    }))
}

impl Cell {
    fn rounded(self) -> Self {
        Cell {
            value: self.value.map(rounded),
            cpu_s: rounded(self.cpu_s),
            memory_octets: rounded(self.memory_octets),
            resident_octets: rounded(self.resident_octets),
            ..self
        }
    }
}

/// Rounds to four significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// The file of a benchmark with a bar and a cell.
    pub fn report(name: &str, commit: &str, date: &str) -> Value {
        json!({
            "name": name, "profile": "release", "commit": commit, "date": date,
            "host": { "cpu": "a processor", "cores": 2, "kernel": "6.1", "foreign_cpu_pct": 3.5 },
            "bars": [
                { "name": format!("{name}.time"), "value": 0.123_456, "unit": "x", "better": "lower", "target": 1.0 },
            ],
            "rows": [
                { "what": "how", "scale": 1.0 },
                {
                    "what": "cell", "scenario": "S1", "router": "Sluice", "threads": null, "unit": "s",
                    "value_median": 0.5, "cpu_s_median": 1.0, "peak_memory_octets_median": 2e8,
                    "resident_peak_octets_median": 2.5e8,
                },
                { "what": "cell", "of": "another benchmark" },
            ],
        })
    }

    fn chosen(reports: &[Value]) -> Choice {
        let reports: Vec<Report> =
            reports.iter().map(|report| serde_json::from_value(report.clone()).unwrap()).collect();
        choose(&reports)
    }

    #[test]
    fn only_results_of_the_latest_commit_and_machine_are_recorded() {
        let mut elsewhere = report("d", "2", "2026-01-01");
        elsewhere["host"]["cores"] = 3.into();
        let mut undated = report("e", "2", "2026-01-01");
        undated["commit"] = Value::Null;
        let mut part = report("f", "2", "2026-01-01");
        part["rows"][0]["scale"] = 0.1.into();
        let mut empty = report("g", "1", "2026-01-01");
        (empty["bars"], empty["rows"]) = (json!([]), json!([]));
        let (later, earlier) = (report("c", "2", "2026-01-03"), report("a", "1", "2026-01-02"));
        let first = report("b", "2", "2026-01-01");
        let Choice { record, left_out } = chosen(&[later, earlier, first, elsewhere, undated, part, empty]);
        let names: Vec<&str> = record.benchmarks.iter().map(|b| b.name.as_str()).collect();
        assert_eq!((record.commit.as_str(), record.date.as_str()), ("2", "2026-01-03"));
        assert_eq!(names, ["b", "c"]);
        let left: Vec<&str> = left_out.iter().map(|reason| &reason[..1]).collect();
        assert_eq!(left, ["a", "d", "e", "f"]);
        let benchmark = &record.benchmarks[0];
        assert_eq!(benchmark.bars[0].value, 0.1235);
        assert_eq!((benchmark.cells.len(), benchmark.cells[0].value), (1, Some(0.5)));
        assert_eq!(benchmark.foreign_cpu_pct, Some(3.5));
    }

    #[test]
    fn the_record_comes_back_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), None);
        let record = chosen(&[report("a", "1", "2026-01-01")]).record;
        record.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), Some(record));
        assert_eq!(std::fs::read_dir(folder.path().join("docs")).unwrap().count(), 1);
        assert!(chosen(&[]).record.benchmarks.is_empty());
    }

    #[test]
    fn four_digits_are_kept() {
        for (value, expected) in [(123_456_789.0, 123_500_000.0), (0.000_123_44, 0.000_123_4), (0.0, 0.0)] {
            assert_eq!(rounded(value), expected);
        }
    }
}
