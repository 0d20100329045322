//! Runs one target for a while, or over files that another fuzzer made.

use sluice_fuzz::{Mutator, TARGETS};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let target = arguments.first().and_then(|name| TARGETS.iter().find(|t| t.name == name));
    let Some(target) = target else {
        eprintln!("usage: sluice-fuzz TARGET [SECONDS | FILE...]; targets:");
        TARGETS.iter().for_each(|t| eprintln!("  {}", t.name));
        return ExitCode::from(2);
    };
    let seconds = match arguments.get(1).map(|a| a.parse::<u64>()) {
        None => 60,
        Some(Ok(seconds)) => seconds,
        Some(Err(_)) => {
            for file in &arguments[1..] {
                match std::fs::read(file) {
                    Ok(octets) => (target.run)(&octets),
                    Err(error) => eprintln!("{file}: {error}"),
                }
            }
            return ExitCode::SUCCESS;
        }
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let seeds = (target.seeds)();
    let (mut mutator, mut runs) = (Mutator::new(seconds), 0u64);
    while Instant::now() < end {
        for _ in 0..1000 {
            (target.run)(&mutator.mutate(&seeds));
        }
        runs += 1000;
    }
    println!("{}: {runs} runs", target.name);
    ExitCode::SUCCESS
}
