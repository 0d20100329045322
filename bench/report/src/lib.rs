//! The output of a benchmark: `target/bench/NAME.json`, a table on the terminal, a plot beside the JSON.

mod boxes;
mod circumstances;
mod host;
mod plot;
mod table;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use boxes::Spread;
pub use circumstances::{Machine, commit, machine, now};
pub use host::HostMeter;
pub use plot::{Plot, Series};
pub use table::table;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A time, a size.
    Lower,
    /// A rate, a ratio.
    Higher,
}

/// A value with a target.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// The bar's name, as `xrl.unix_vs_grpc`.
    pub name: String,
    /// The measured value: the median of at least five alternating runs.
    pub value: f64,
    /// The unit of the value and the target.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// The target.
    pub target: f64,
}

impl Bar {
    /// A bar where more is better.
    pub fn higher(name: &str, value: f64, unit: &str, target: f64) -> Self {
        Bar { name: name.to_owned(), value, unit: unit.to_owned(), better: Better::Higher, target }
    }

    /// A bar where less is better.
    pub fn lower(name: &str, value: f64, unit: &str, target: f64) -> Self {
        Bar { better: Better::Lower, ..Bar::higher(name, value, unit, target) }
    }

    /// Returns true if the target is reached.
    pub fn reached(&self) -> bool {
        match self.better {
            Better::Lower => self.value <= self.target,
            Better::Higher => self.value >= self.target,
        }
    }
}

/// A benchmark's results.
pub struct Report {
    name: String,
    meter: HostMeter,
    rows: Vec<Value>,
    bars: Vec<Bar>,
}

impl Report {
    /// Begins the benchmark `name`; foreign load is measured from here on.
    pub fn begin(name: &str) -> Self {
        Report { name: name.to_owned(), meter: HostMeter::start(), rows: Vec::new(), bars: Vec::new() }
    }

    /// Adds a row: an object of named values.
    pub fn row(&mut self, row: Value) {
        self.rows.push(row);
    }

    /// Adds a bar.
    pub fn bar(&mut self, bar: Bar) {
        self.bars.push(bar);
    }

    /// Prints the bars, writes the JSON and the plots; returns where the JSON is.
    pub fn finish(self, plots: &[(&str, &Plot)]) -> std::io::Result<PathBuf> {
        let host = self.meter.stop();
        let report = json!({
            "name": self.name,
            "host": host,
            "profile": profile(),
            "commit": sources(),
            "date": now(),
            "rows": self.rows,
            "bars": self.bars,
        });
        let lines: Vec<Vec<String>> = self.bars.iter().map(bar_line).collect();
        println!("{}", table(&["bar", "value", "target", "reached"], &lines));
        println!("foreign load: {:.0} % of the machine", host["foreign_cpu_pct"].as_f64().unwrap_or(0.0));
        println!("build profile: {}", profile());
        let folder = folder();
        std::fs::create_dir_all(&folder)?;
        for (suffix, plot) in plots {
            std::fs::write(folder.join(format!("{}{suffix}.svg", self.name)), plot.svg())?;
        }
        let path = folder.join(format!("{}.json", self.name));
        std::fs::write(&path, serde_json::to_string_pretty(&report)? + "\n")?;
        println!("{}", path.display());
        Ok(path)
    }
}

/// Puts bars that another program measures into the results of the benchmark `name` in a folder, in the place of earlier bars of the same
/// names, and prints them. Results of another commit are replaced by the bars alone. Returns where the JSON is.
pub fn add_bars(folder: &Path, name: &str, bars: &[Bar]) -> std::io::Result<PathBuf> {
    let path = folder.join(format!("{name}.json"));
    let commit = sources();
    let earlier = match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str::<Value>(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut report = earlier.filter(|report| report["commit"] == json!(commit)).unwrap_or_else(|| {
        json!({
            "name": name, "host": machine(), "profile": profile(), "commit": commit, "rows": [], "bars": [],
        })
    });
    report["date"] = now().into();
    let is_new = |old: &Value| bars.iter().any(|bar| old["name"] == *bar.name);
    let mut all = report["bars"].as_array().cloned().unwrap_or_default();
    all.retain(|old| !is_new(old));
    all.extend(bars.iter().map(|bar| json!(bar)));
    report["bars"] = all.into();
    let lines: Vec<Vec<String>> = bars.iter().map(bar_line).collect();
    println!("{}", table(&["bar", "value", "target", "reached"], &lines));
    std::fs::create_dir_all(folder)?;
    std::fs::write(&path, serde_json::to_string_pretty(&report)? + "\n")?;
    Ok(path)
}

/// Returns the commit of the sources around the working folder; `None` outside of a repository.
fn sources() -> Option<String> {
    commit(Path::new(".")).ok()
}

fn bar_line(bar: &Bar) -> Vec<String> {
    let sign = if bar.better == Better::Lower { "<=" } else { ">=" };
    vec![
        bar.name.clone(),
        format!("{} {}", number(bar.value), bar.unit),
        format!("{sign} {} {}", number(bar.target), bar.unit),
        if bar.reached() { "yes" } else { "NO" }.to_owned(),
    ]
}

/// The folder of results: `bench/` in cargo's target folder, which cargo marks by a file.
pub fn folder() -> PathBuf {
    let executable = std::env::current_exe().unwrap_or_default();
    let own = executable.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).map(Path::to_owned);
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.or(own).unwrap_or_else(|| PathBuf::from("target")).join("bench")
}

/// Returns the name of the cargo profile of the benchmark and of the executables beside it.
///
/// Cargo puts executables into a folder named after the profile; moved executables have the name of their new folder.
pub fn profile() -> String {
    let executable = std::env::current_exe().unwrap_or_default();
    let names = executable.ancestors().skip(1).filter_map(|folder| folder.file_name());
    // Test programs are one folder deeper.
    let name = names.map(|name| name.to_string_lossy()).find(|name| name != "deps");
    name.unwrap_or_default().into_owned()
}

/// A number for people: three significant digits or the whole integer part, with separated thousands.
pub fn number(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), String::new()), |(w, r)| (w, format!(".{r}")));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |w| ("-", w));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{sign}{out}{rest}")
}

/// The middle value, or the mean of the two middle values of an even number; 0 for an empty slice.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Mean and standard deviation (of a sample).
pub fn mean_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    (mean, if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (value, expected) in
            [(1_234_567.8, "1,234,568"), (12.34, "12.3"), (1.234, "1.23"), (0.0, "0.00"), (-1000.0, "-1,000")]
        {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn statistics() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(mean_sd(&[1.0, 3.0]), (2.0, 2f64.sqrt()));
    }
}
