//! Every test in a single run, with a last line that counts passed, failed and skipped tests.

use anyhow::Context;
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
}

/// Environment variable with the file for the record of skipped tests (`testkit/src/skip.rs` writes it).
const RECORD: &str = "SLUICE_SKIPPED";

#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    ignored: u64,
    failures: Vec<String>,
}

impl Count {
    /// Adds the counts in a line of a Rust test program.
    fn rust(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            for part in rest.split([';', '.']) {
                let mut words = part.split_whitespace();
                let Some(number) = words.next().and_then(|n| n.parse::<u64>().ok()) else { continue };
                match words.next() {
                    Some("passed") => self.passed += number,
                    Some("failed") => self.failed += number,
                    Some("ignored") => self.ignored += number,
                    _ => {}
                }
            }
        } else if let Some(test) = line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED")) {
            self.failures.push(test.to_owned());
        }
    }

    /// Adds the counts in a line of Python's unittest: `Ran 12 tests in 1.2s`, `FAILED (failures=1, errors=2)`,
    /// `OK (skipped=1)`.
    fn python(&mut self, line: &str) {
        let number_after = |word: &str| -> u64 {
            let digits = line.split_once(word).map(|(_, rest)| rest).unwrap_or_default();
            digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        if line.starts_with("Ran ") {
            self.passed += number_after("Ran ");
        } else if line.starts_with("FAILED") || line.starts_with("OK") {
            let failed = number_after("failures=") + number_after("errors=");
            let skipped = number_after("skipped=");
            self.failed += failed;
            self.ignored += skipped;
            self.passed = self.passed.saturating_sub(failed + skipped);
        } else if let Some(test) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) {
            self.failures.push(test.to_owned());
        }
    }
}

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
/// If cargo or Python cannot be started, or the record of skipped tests cannot be written.
pub fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    let record = std::env::temp_dir().join(format!("sluice-skipped-{}", std::process::id()));
    std::fs::write(&record, "").with_context(|| format!("cannot write {}", record.display()))?;
    let mut count = Count::default();

    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).env(RECORD, &record).args(["test", "--locked", "--no-fail-fast"]);
    match options.package.is_empty() {
        true => _ = cargo.arg("--workspace"),
        false => options.package.iter().for_each(|p| _ = cargo.args(["-p", p])),
    }
    let mut fine = follow(&mut cargo, |line| count.rust(line))?;

    if options.package.is_empty() {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
        let mut python = Command::new("sh");
        python
            .current_dir(root.join("sdk/python"))
            .args(["-c", "exec python3 -m unittest discover -s tests 2>&1"])
            .env("SLUICE", target.join("debug/sluice"));
        let mut python_count = Count::default();
        fine &= follow(&mut python, |line| python_count.python(line))?;
        count.passed += python_count.passed;
        count.failed += python_count.failed;
        count.ignored += python_count.ignored;
        count.failures.append(&mut python_count.failures);
    }

    let skips = std::fs::read_to_string(&record)?;
    std::fs::remove_file(&record)?;
    let skips: std::collections::BTreeSet<&str> = skips.lines().collect();
    let skipped = skips.len() as u64 + count.ignored;
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
    fn results_of_rust_tests_are_added() {
        let mut count = Count::default();
        count.rust(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.3s",
        );
        count.rust("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        count.rust("test a::b ... FAILED");
        count.rust("test a::c ... ok");
        assert_eq!((count.passed, count.failed, count.ignored), (15, 2, 1));
        assert_eq!(count.failures, ["a::b"]);
    }

    #[test]
    fn results_of_python_tests_are_added() {
        let mut count = Count::default();
        count.python("Ran 20 tests in 3.1s");
        count.python("FAILED (failures=1, errors=2, skipped=4)");
        assert_eq!((count.passed, count.failed, count.ignored), (13, 3, 4));
        let mut count = Count::default();
        count.python("Ran 7 tests in 3.1s");
        count.python("OK");
        assert_eq!((count.passed, count.failed, count.ignored), (7, 0, 0));
    }

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
