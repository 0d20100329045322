//! Cache lines that a route needs in BGP's core, by cachegrind: the counterpart of the multicore BGP thesis's figure 5.1.
//!
//! A run with more routes less a run with fewer leaves what the routes between both cost; the start of the program is in both. The
//! last-level cache is simulated in several sizes: where misses stop falling, the working set fits.

use anyhow::{Context, Result, ensure};
use bench_report::{Report, number, table};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of the measurement.
#[derive(clap::Args)]
pub struct Options {
    /// UPDATEs of the table, with three prefixes each.
    #[arg(long, default_value_t = 100_000)]
    updates: u32,
    /// Single routes at full table.
    #[arg(long, default_value_t = 4000)]
    singles: u32,
}

/// Sizes of the last-level cache, in KiB.
const SIZES: [u32; 6] = [256, 1024, 2048, 4096, 16_384, 65_536];
/// Octets of a cache line.
const LINE: f64 = 64.0;
/// The thesis's first-level cache of data: octets, ways, octets of a line.
const FIRST_LEVEL: &str = "32768,8,64";

/// Cachegrind's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    instructions: f64,
    accesses: f64,
    first_misses: f64,
    last_misses: f64,
}

impl Counts {
    /// Parses cachegrind's summary; `None` if a line is missing.
    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let label: Vec<&str> = name.split(' ').collect();
            let number = |line: &str| {
                // Labels are padded with spaces.
                let words: Vec<&str> = line.split_whitespace().skip(1).collect();
                words.strip_prefix(&label[..])?.first()?.replace(',', "").parse::<f64>().ok()
            };
            text.lines().find_map(number)
        };
        Some(Counts {
            instructions: value("I refs:")?,
            accesses: value("D refs:")?,
            first_misses: value("D1 misses:")?,
            last_misses: value("LLd misses:")?,
        })
    }

    /// Returns the cost of each of the `routes` routes that `self` has more than `less`.
    fn each(self, less: Self, routes: f64) -> Self {
        let each = |a: f64, b: f64| (a - b) / routes;
        Counts {
            instructions: each(self.instructions, less.instructions),
            accesses: each(self.accesses, less.accesses),
            first_misses: each(self.first_misses, less.first_misses),
            last_misses: each(self.last_misses, less.last_misses),
        }
    }
}

/// Measures; without valgrind skipped by name.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let probe = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: working-set: valgrind is not installed");
        return Ok(());
    }
    let program = build(root)?;
    let mut report = Report::begin("working-set");
    let mut lines = Vec::new();
    for size in SIZES {
        let count = |updates, singles| simulate(&program, size, updates, singles);
        let half = count(options.updates / 2, 0)?;
        let whole = count(options.updates, 0)?;
        let more = count(options.updates, options.singles)?;
        let loaded = whole.1 - half.1;
        ensure!(loaded > 0.0 && options.singles > 0, "no route lies between both runs");
        let cases = [
            ("a route of a table", whole.0.each(half.0, loaded)),
            ("a single route at full table", more.0.each(whole.0, options.singles.into())),
        ];
        for (what, each) in cases {
            report.row(json!({
                "what": what, "last_level_kib": size, "table": whole.1, "instructions": each.instructions,
                "accesses": each.accesses, "first_level_misses": each.first_misses,
                "last_level_misses": each.last_misses,
            }));
            lines.push(vec![
                format!("{what}, {} MB", f64::from(size) / 1024.0),
                number(each.instructions),
                number(each.accesses),
                format!("{:.1}", each.first_misses),
                format!("{:.2}", each.last_misses),
                number(each.last_misses * LINE),
            ]);
        }
    }
    let head = [
        "cachegrind, last level",
        "instructions",
        "accesses",
        "D1 misses",
        "LL misses",
        "octets from memory",
    ];
    println!("{}", table(&head, &lines));
    println!(
        "the thesis (figure 5.1): the working set is 1 to 2 MB with one thread, 4 MB with many; D1 is {FIRST_LEVEL}"
    );
    report.finish(&[])?;
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "-p", "sluice-bgp", "--example", "full_table"])
        .current_dir(root)
        .status()
        .context("cargo does not start")?;
    ensure!(status.success(), "the example full_table does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/examples/full_table"))
}

/// Runs the example under cachegrind. Returns the counts, and the number of routes in the table.
fn simulate(program: &Path, size: u32, updates: u32, singles: u32) -> Result<(Counts, f64)> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args([format!("--D1={FIRST_LEVEL}"), format!("--LL={},16,64", u64::from(size) << 10)])
        .arg(program)
        .args(["--synthetic", "--updates", &updates.to_string(), "--singles", &singles.to_string()])
        .output()
        .context("valgrind does not start")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind fails: {said}");
    let counts = Counts::parse(&said).with_context(|| format!("valgrind printed something else: {said}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let routes = printed.split_once(" RIB changes").and_then(|(before, _)| before.split(' ').next_back());
    Ok((counts, routes.context("the example prints no routes")?.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "==7== I   refs:      1,234,567\n==7== I1  misses:          1,000\n==7== \n\
                        ==7== D   refs:        900,000  (600,000 rd   + 300,000 wr)\n\
                        ==7== D1  misses:       50,000  ( 40,000 rd   +  10,000 wr)\n\
                        ==7== LLd misses:        4,000  (  3,000 rd   +   1,000 wr)\n";

    #[test]
    fn a_summary_is_read() {
        let counts = Counts::parse(SAID).unwrap();
        let wanted = Counts {
            instructions: 1_234_567.0,
            accesses: 900_000.0,
            first_misses: 50_000.0,
            last_misses: 4000.0,
        };
        assert_eq!(counts, wanted);
        assert_eq!(Counts::parse("==7== I   refs: 1\n"), None);
    }

    #[test]
    fn what_two_runs_share_is_not_counted() {
        let counts = Counts::parse(SAID).unwrap();
        let twice = Counts { last_misses: 6000.0, ..counts };
        assert_eq!(twice.each(counts, 1000.0), Counts { last_misses: 2.0, ..Counts::default() });
    }
}
