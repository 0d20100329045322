//! Each target over its seeds, over real and fuzzer-made inputs where they are at hand, and over damage to them.

use sluice_fuzz::{Mutator, TARGETS, Target};
use sluice_testkit::tar;

/// Damaged inputs a target gets on every test run.
const RUNS: usize = 20_000;

fn run(target: &Target, more: &[Vec<u8>]) {
    let mut inputs = (target.seeds)();
    inputs.extend_from_slice(more);
    inputs.iter().for_each(|input| (target.run)(input));
    let mut mutator = Mutator::new(1);
    for _ in 0..RUNS {
        (target.run)(&mutator.mutate(&inputs));
    }
}

#[test]
fn seeds_and_their_mutations() {
    for target in TARGETS {
        if target.name != "bgp-session" {
            run(target, &[]);
        }
    }
}

#[test]
fn what_fuzzers_found_against_other_daemons() {
    let Some(archive) = sluice_testkit::read("data/fuzz/corpi-bgpd.tar.zst") else { return };
    let files: Vec<Vec<u8>> = tar::files(&archive).into_iter().map(|(_, f)| f.to_vec()).collect();
    assert!(files.len() > 1000);
    let bodies: Vec<Vec<u8>> = files.iter().filter_map(|f| f.get(19..).map(<[u8]>::to_vec)).collect();
    for target in TARGETS {
        match target.name {
            "bgp-frame" => run(target, &files),
            "bgp-session" => files.iter().for_each(|f| (target.run)(f)),
            _ => run(target, &bodies),
        }
    }
}

#[test]
fn a_session_takes_anything() {
    let Some(target) = TARGETS.iter().find(|t| t.name == "bgp-session") else { panic!("it is there") };
    let inputs = (target.seeds)();
    let mut mutator = Mutator::new(2);
    for _ in 0..2000 {
        (target.run)(&mutator.mutate(&inputs));
    }
}
