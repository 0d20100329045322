//! Every test in a single run, with a last line that counts passed, failed and skipped tests.

mod count;
mod programs;

use anyhow::Context;
use count::Count;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Options of the test run.
#[derive(clap::Args)]
pub struct Options {
    /// Fails if a test was skipped.
    #[arg(long)]
    no_skips: bool,
    /// Runs the tests of the given packages only; without the Python client's.
    #[arg(long, short)]
    package: Vec<String>,
    /// So many test programs run beside each other: most of a lab's time is waiting.
    #[arg(long, default_value_t = 2)]
    beside: usize,
}

/// Environment variable with the file for the record of skipped tests (`testkit/src/skip.rs` writes it).
const RECORD: &str = "SLUICE_SKIPPED";

/// So many programs are named with their times at the end, the longest first.
const SHOWN: usize = 20;

/// Runs a command, passes its output on, and gives each line to `count`. Returns true if the command succeeded.
fn follow(command: &mut Command, mut count: impl FnMut(&str)) -> anyhow::Result<bool> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot run {command:?}"))?;
    let output = child.stdout.take().context("the output is a pipe")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let text = String::from_utf8_lossy(&line);
        writeln!(std::io::stdout(), "{text}")?;
        count(&text);
    }
    Ok(child.wait()?.success())
}

/// Runs the workspace's tests and the Python client's, and prints the counts.
///
/// # Errors
///
/// If cargo, Python or a test program cannot be started, or the record of skipped tests cannot be written.
pub fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    let record = std::env::temp_dir().join(format!("sluice-skipped-{}", std::process::id()));
    std::fs::write(&record, "").with_context(|| format!("cannot write {}", record.display()))?;
    let mut count = Count::default();

    let packages: Vec<&str> = match options.package.is_empty() {
        true => vec!["--workspace"],
        false => options.package.iter().flat_map(|package| ["-p", package]).collect(),
    };
    let programs = programs::build(root, &packages)?;
    let outcome = programs::run(programs, &record, options.beside.max(1))?;
    count.add(outcome.count);
    let mut fine = !outcome.has_failed;
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root)
        .env(RECORD, &record)
        .args(["test", "--locked", "--no-fail-fast", "--doc"])
        .args(&packages);
    fine &= follow(&mut cargo, |line| count.rust(line))?;

    if options.package.is_empty() {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
        let mut python = Command::new("sh");
        python
            .current_dir(root.join("sdk/python"))
            .args(["-c", "exec python3 -m unittest discover -s tests 2>&1"])
            .env("SLUICE", target.join("debug/sluice"));
        let mut python_count = Count::default();
        fine &= follow(&mut python, |line| python_count.python(line))?;
        count.add(python_count);
    }

    let skips = std::fs::read_to_string(&record)?;
    std::fs::remove_file(&record)?;
    let skips: std::collections::BTreeSet<&str> = skips.lines().collect();
    let skipped = skips.len() as u64 + count.ignored;
    println!();
    outcome
        .times
        .iter()
        .take(SHOWN)
        .for_each(|(name, time)| println!("{:>6.1} s  {name}", time.as_secs_f64()));
    println!();
    count.failures.iter().for_each(|test| println!("failed:  {test}"));
    skips.iter().for_each(|line| println!("skipped: {line}"));
    // A test program that died, or did not build, has no line of results.
    if !fine && count.failed == 0 {
        println!("failed:  a test program ended without a result; see above");
    }
    // A test that is skipped returns early, and its program counts it as passed.
    let passed = count.passed.saturating_sub(skips.len() as u64);
    println!("{passed} passed, {} failed, {skipped} skipped", count.failed);
    let failed = !fine || count.failed > 0 || (options.no_skips && skipped > 0);
    if options.no_skips && skipped > 0 {
        println!(
            "a skipped test is a failure here: install what is missing (dist/setup), or run without --no-skips"
        );
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_that_is_recorded_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        // The variable belongs to a process of its own: tests of this program run beside each other.
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "test::tests::skips_when_asked", "--nocapture"]).env(RECORD, &record);
        let mut count = Count::default();
        assert!(follow(own.env("SLUICE_SKIP_NOW", "1"), |line| count.rust(line)).unwrap());
        let text = std::fs::read_to_string(&record).unwrap();
        assert_eq!(text, "test::tests::skips_when_asked: asked to\n");
        assert_eq!(count.passed, 1);
    }

    #[test]
    fn skips_when_asked() {
        if std::env::var_os("SLUICE_SKIP_NOW").is_some() {
            sluice_testkit::skipped("asked to");
        }
    }
}
