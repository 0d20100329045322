//! Runs targets for a while, or a single target over files of a different fuzzer.

use sluice_fuzz::{TARGETS, Target};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |t: &&Target| arguments.first().is_some_and(|name| name == "all" || name == t.name);
    let targets: Vec<&Target> = TARGETS.iter().filter(named).collect();
    if targets.is_empty() {
        eprintln!("usage: sluice-fuzz all|TARGET [SECONDS | FILE...]; targets:");
        TARGETS.iter().for_each(|t| eprintln!("  {}", t.name));
        return ExitCode::from(2);
    }
    let seconds = match arguments.get(1).map(|a| a.parse::<u64>()) {
        None => 60,
        Some(Ok(seconds)) => seconds,
        Some(Err(_)) => {
            for file in &arguments[1..] {
                match std::fs::read(file) {
                    Ok(octets) => targets.iter().for_each(|t| t.check(&octets)),
                    Err(error) => eprintln!("{file}: {error}"),
                }
            }
            return ExitCode::SUCCESS;
        }
    };
    // Another time, another way through the inputs.
    let seed = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    println!("seed {seed}, {seconds} s a target");
    for target in targets {
        target.warm_up();
        let end = Instant::now() + Duration::from_secs(seconds);
        let runs = target.attack(&target.inputs(), seed, |done| done % 64 != 0 || Instant::now() < end);
        println!("{}: {runs} runs", target.name);
    }
    ExitCode::SUCCESS
}
