//! The whole client against a relay that only copies: every variant receives the senders' whole output.

use clap::Parser;
use sluice_bgpsim::cli::{Simulated, simulate};
use sluice_bgpsim::run::PhaseResult;
use sluice_bgpsim::{BgpsimArgs, report};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: BgpsimArgs,
}

fn run(line: &str) -> anyhow::Result<Vec<PhaseResult>> {
    let words =
        ["bgpsim", "--floor", "--timeout", "60", "--settle", "20"].into_iter().chain(line.split_whitespace());
    let Simulated { title, phases, .. } = simulate(&Line::try_parse_from(words)?.args)?;
    let value = report::value(&title, &phases);
    assert_eq!(value["verified"], report::verified(&phases));
    assert!(report::text(&title, &phases).contains("sent = received"), "{}", report::text(&title, &phases));
    assert!(report::plot(&title, &phases).svg().ends_with("</svg>\n"));
    Ok(phases)
}

fn check(line: &str, routes: usize, received: u64) {
    let phases = run(line).unwrap();
    let last = phases.last().unwrap();
    assert!(report::verified(&phases), "{line}");
    assert_eq!(last.routes, routes, "{line}");
    for receiver in &last.received {
        let counts = &receiver.counts;
        assert_eq!((counts.announced + counts.withdrawn, counts.unexpected), (received, 0), "{line}");
    }
}

#[test]
fn every_variant_and_mix() {
    // Each of five senders marks the end with a prefix.
    for order in ["trace", "round-robin:1", "round-robin:7", "threads"] {
        for mix in ["best", "1", "2", "3", "worst"] {
            let line = format!(
                "--workload synthetic --routes 3000 --senders 5 --receivers 2 --order {order} --mix {mix}"
            );
            check(&line, 3000, 3005);
        }
    }
}

#[test]
fn every_scenario() {
    for scenario in 1..=8 {
        let line = format!("--workload synthetic:{scenario} --routes 3000 --senders 3 --family both");
        check(&line, 3000, 3006);
    }
    check("--workload synthetic --routes 2000 --senders 3 --spread same", 6000, 6003);
    check("--workload synthetic --routes 2000 --family ipv6 --hold-time 3", 2000, 2001);
    check("--workload synthetic --routes 2000 --senders 40 --receivers 30", 2000, 2040);
    check("--workload synthetic --routes 2000 --paths 3", 6000, 6003);
    let several = "--workload synthetic --routes 2000 --senders 3 --receivers 2 --family both --paths 2";
    check(several, 4000, 4012);
    check("--workload synthetic:latency --routes 2000 --receivers 2", 200, 200);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let check = |line: &str, expected: &str| {
        let refusal = run(line).unwrap_err().to_string();
        assert!(refusal.contains(expected), "{line}: {refusal}");
    };
    check("--workload synthetic:5 --routes 10", "two senders");
    check("--workload synthetic:5 --scenario 6", "scenario 5");
    for scenario in ["lost", "lost-best --senders 2", "restart --senders 2", "late"] {
        check(&format!("--workload synthetic --scenario {scenario}"), "relay");
    }
    check("--workload synthetic --routes 10 --senders 2 --spread same --paths 2", "several paths");
    check("--workload synthetic --speed original", "only a trace has pauses");
    check("--workload mrt:/nowhere", "/nowhere");
    check("--workload synthetic --routes 0", "no route");
    check("--workload synthetic --senders 0", "senders");
    check("--workload nonsense", "synthetic:SCENARIO");
    check("--order round-robin:0", "not a number");
    check("--target 10.0.0.1", "--floor");
}

/// With the trace's own pauses, a run takes the trace's time; the variants receive the same prefixes.
#[test]
fn a_real_trace() {
    let Some(file) = sluice_testkit::shared("data/bgp/updates/rrc15.updates.20100227.1600.gz") else {
        return;
    };
    let line = format!("--workload mrt:{} --target-as 64500", file.display());
    let phases = run(&format!("{line} --senders 1 --speed 300x")).unwrap();
    let took = phases[0].sent.unwrap().as_secs_f64();
    assert!((0.9..20.0).contains(&took), "300 s at 300 times the speed took {took} s");
    assert!(report::verified(&phases));
    // Several senders: the relay's receivers count, for the order in which they receive is not known.
    for senders in ["", "--senders 3"] {
        let phases = run(&format!("{line} {senders} --receivers 2")).unwrap();
        let received: Vec<u64> =
            phases[0].received.iter().map(|h| h.counts.announced + h.counts.withdrawn).collect();
        assert!(
            report::verified(&phases) && received[0] == received[1] && received[0] > phases[0].routes as u64
        );
    }
}
