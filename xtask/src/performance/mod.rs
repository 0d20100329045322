//! The results on `docs/performance.md`: one table of one commit and one machine, made from what the benchmarks write.
//!
//! Benchmarks write `target/bench/NAME.json`. `cargo xtask performance` keeps their bars in `docs/performance.json` ([`record`]) and writes
//! the page's table from that file ([`page`]). People write the rest of the page.

mod page;
mod record;

use anyhow::{Result, ensure};
use record::{Choice, Record};
use std::path::{Path, PathBuf};

/// Options of the page's table.
#[derive(clap::Args)]
pub struct Options {
    /// The folder with the results of benchmarks; by default `bench` in cargo's target folder.
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Writes the page's table again from the record, and reads no results.
    #[arg(long, conflicts_with = "from")]
    page: bool,
}

/// Records the results of the benchmarks that ran last at one commit on one machine, and writes the page's table.
///
/// # Errors
///
/// If there are no results, a file has another form, or the record or the page cannot be written.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    if options.page {
        return page::write(root, Record::read(root)?.as_ref());
    }
    let folder = options.from.clone().unwrap_or_else(bench_report::folder);
    let Choice { record, left_out } = record::choose(&record::results(&folder)?);
    for reason in left_out {
        println!("left out: {reason}");
    }
    let names: Vec<&str> = record.benchmarks.iter().map(|benchmark| benchmark.name.as_str()).collect();
    ensure!(!names.is_empty(), "{} has no results that name their commit", folder.display());
    println!("{}, {}: {}", record.commit, record.date, names.join(", "));
    record.write(root)?;
    page::write(root, Some(&record))
}

/// Returns a broken rule if the page's table is not that of the record.
///
/// # Errors
///
/// If the page cannot be read, or the record has another form.
pub fn check(root: &Path) -> Result<Option<String>> {
    page::check(root, Record::read(root)?.as_ref())
}
