//! Coverage-guided fuzzing: builds `fuzz/guided` with libFuzzer's instrumentation, and runs each target for a while.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

/// Options of the run.
#[derive(clap::Args)]
pub struct Options {
    /// Seconds for each target.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Runs these targets only.
    #[arg(long)]
    target: Vec<String>,
    /// Builds the fuzzer and runs no target.
    #[arg(long)]
    build: bool,
    /// Writes the fuzzer's best inputs to `fuzz/corpus`, as seeds for tests.
    #[arg(long)]
    keep: bool,
}

/// Instrumentation that libFuzzer works with. All are options of a stable compiler.
const COVERAGE: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=4",
];

/// Octets of a kept input, and total octets of a target's kept inputs.
const KEPT: (u64, usize) = (1024, 16 << 10);

/// Fuzzes the targets in sequence. The status is a failure if a target failed.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    if let Some(missing) = missing()? {
        println!("skipped: fuzz-guided: {missing}");
        return Ok(ExitCode::SUCCESS);
    }
    let program = build(root)?;
    if options.build {
        return Ok(ExitCode::SUCCESS);
    }
    let names = names(root)?;
    for wanted in &options.target {
        ensure!(names.contains(wanted), "no target is called {wanted}");
    }
    let mut failed = Vec::new();
    for name in names.iter().filter(|n| options.target.is_empty() || options.target.contains(n)) {
        let folder = root.join("target/fuzz").join(name);
        if !fuzz(&program, name, &folder, options.seconds)? {
            failed.push(name.as_str());
        }
        if options.keep {
            keep(&program, name, &folder, &root.join("fuzz/corpus"))?;
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("failed: {}; inputs and logs are in target/fuzz", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Returns the missing requirements of libFuzzer; `None` if the machine has them.
pub fn missing() -> Result<Option<String>> {
    let works = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if !works(Command::new(std::env::var("CXX").as_deref().unwrap_or("c++")).arg("--version")) {
        return Ok(Some("no C++ compiler, which libFuzzer needs".into()));
    }
    let place = std::env::temp_dir().join(format!("sluice-coverage-{}", std::process::id()));
    fs::create_dir_all(&place)?;
    let source = place.join("lib.rs");
    fs::write(&source, "pub fn one(x: u32) -> u32 { x + 1 }\n")?;
    let mut probe = Command::new("rustc");
    probe.args(["--crate-type=rlib", "--emit=obj", "--out-dir"]).arg(&place).args(COVERAGE).arg(&source);
    let is_instrumented = works(&mut probe);
    fs::remove_dir_all(&place)?;
    Ok((!is_instrumented).then(|| "this compiler does not instrument for coverage".into()))
}

/// Builds the fuzzer for the host, and returns its path.
fn build(root: &Path) -> Result<PathBuf> {
    let guided = root.join("fuzz/guided");
    fs::copy(root.join("Cargo.lock"), guided.join("Cargo.lock")).context("Cargo.lock")?;
    let said = Command::new("rustc").arg("-vV").output().context("rustc does not start")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = said.lines().find_map(|l| l.strip_prefix("host: ")).context("rustc names no host")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = target.join("guided");
    // With a named target, build scripts and macros of the compiler are not instrumented.
    let status = Command::new(env!("CARGO"))
        .args(["build", "--target", host, "--target-dir"])
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\u{1f}"))
        .current_dir(&guided)
        .status()
        .context("cargo does not start")?;
    ensure!(status.success(), "fuzz/guided does not build");
    Ok(target.join(host).join("debug/sluice-fuzz-guided"))
}

/// Returns the names of all targets, as the table in `fuzz/src/lib.rs` has them.
pub fn names(root: &Path) -> Result<Vec<String>> {
    let table = fs::read_to_string(root.join("fuzz/src/lib.rs"))?;
    let row = |line: &str| Some(line.trim().strip_prefix("Target { name: \"")?.split_once('"')?.0.to_owned());
    let names: Vec<String> = table.lines().filter_map(row).collect();
    ensure!(!names.is_empty(), "fuzz/src/lib.rs has no table of targets");
    Ok(names)
}

/// Runs a target; returns true if the target passed. Its corpus grows in `folder`.
fn fuzz(program: &Path, name: &str, folder: &Path, seconds: u64) -> Result<bool> {
    let corpus = folder.join("corpus");
    fs::create_dir_all(&corpus)?;
    let output = Command::new("nice")
        .arg(program)
        .args([format!("-max_total_time={seconds}"), format!("-artifact_prefix={}/", folder.display())])
        .args(["-max_len=65536", "-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1"])
        .arg(&corpus)
        .env("SLUICE_FUZZ_TARGET", name)
        .env("SLUICE_FUZZ_SEEDS", &corpus)
        .output()
        .context("nice does not start")?;
    let Output { status, stderr, .. } = output;
    let log = String::from_utf8_lossy(&stderr);
    fs::write(folder.join("log"), &*log)?;
    let runs = log.lines().find_map(|l| l.strip_prefix("stat::number_of_executed_units:")).unwrap_or(" ?");
    let covered = log.lines().rev().find_map(|l| l.split_once(" cov: ")?.1.split(' ').next());
    let outcome = if status.success() { "" } else { ", FAILED" };
    println!("{name}:{runs} runs, {} edges covered{outcome}", covered.unwrap_or("?"));
    Ok(status.success())
}

/// Writes the smallest inputs with the coverage of the whole corpus to a file of `kept`.
fn keep(program: &Path, name: &str, folder: &Path, kept: &Path) -> Result<()> {
    let small = folder.join("small");
    if small.exists() {
        fs::remove_dir_all(&small)?;
    }
    fs::create_dir_all(&small)?;
    let merge = Command::new("nice")
        .arg(program)
        .args(["-merge=1".to_owned(), format!("-max_len={}", KEPT.0)])
        .args([&small, &folder.join("corpus")])
        .env("SLUICE_FUZZ_TARGET", name)
        .output()
        .context("nice does not start")?;
    ensure!(merge.status.success(), "{name}: libFuzzer does not merge its corpus");
    let mut inputs = Vec::new();
    for file in fs::read_dir(&small)? {
        inputs.push(fs::read(file?.path())?);
    }
    inputs.sort_by_cached_key(|input| (input.len(), input.clone()));
    fs::create_dir_all(kept)?;
    fs::write(kept.join(format!("{name}.bin")), pack(&inputs, KEPT.1)).context("fuzz/corpus")
}

/// Packs inputs, each behind its length in two octets, high octet first, as long as they fit into `room`.
fn pack(inputs: &[Vec<u8>], room: usize) -> Vec<u8> {
    let mut packed = Vec::new();
    for input in inputs {
        let Ok(length) = u16::try_from(input.len()) else { break };
        if packed.len() + 2 + input.len() > room {
            break;
        }
        packed.extend_from_slice(&length.to_be_bytes());
        packed.extend_from_slice(input);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_packed_smallest_first() {
        let inputs = [vec![], vec![7], vec![1; 300], vec![2; 400]];
        let packed = pack(&inputs, 310);
        assert_eq!(packed[..6], [0, 0, 0, 1, 7, 1]);
        assert_eq!(packed.len(), 2 + 3 + 302);
    }

    #[test]
    fn every_target_is_known_by_name() {
        let names = names(&crate::root()).unwrap();
        assert!(names.len() > 40 && names.iter().any(|n| n == "bgp-update"), "{names:?}");
    }
}
