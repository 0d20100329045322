//! `sluice bench bgp-profile`: where BGP's time goes in an UPDATE, function by function as in table 4.2 of the multicore BGP thesis,
//! sequential and with threads, beside the paper's cycles; and what each optimization of ours gains.
//!
//! As there, timers are off and nothing is announced while the functions are profiled: only the way from the socket into the table.

#![warn(clippy::disallowed_macros)]

mod ablation;
mod clock;
pub mod crossing;
mod feed;
mod next_hop;
mod passes;
mod speaker;
pub mod stages;
mod table;

use ablation::Ablation;
use anyhow::{Result, ensure};
use bench_report::{Report, number};
use clap::Args;
use feed::Feed;
use passes::{FUNCTIONS, Profile};
use serde_json::json;
use std::path::{Path, PathBuf};

/// The profiled work.
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    /// An MRT trace to read; if absent, a whole table of a real session, or a generated one.
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// Threads of the parallel profile; absent: every core.
    #[arg(long)]
    pub threads: Option<usize>,
    /// Runs, of which the median is sent.
    #[arg(long, default_value_t = 7)]
    pub runs: usize,
}

/// Runs the command.
pub fn run(args: &ProfileArgs) -> Result<()> {
    ensure!(args.runs > 0, "at least one run");
    let mut report = Report::begin("bgp-profile");
    let feed = Feed::find(args.trace.as_deref())?;
    sluice_print::outln!(
        "{}: {} UPDATEs, {} prefixes",
        feed.source,
        number(feed.updates as f64),
        number(feed.prefixes as f64)
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or(cores).max(1);
    let sequential = passes::sequential(&feed, args.runs)?;
    let parallel = passes::parallel(&feed, args.runs, threads)?;
    report_functions(&feed, threads, &sequential, &parallel, &mut report);
    report_ablations(&ablation::all(&feed, args.runs)?, &mut report);
    report.finish(&[])?;
    Ok(())
}

/// A function in the router's way of an UPDATE, and in the paper's (the thesis's table 4.2).
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The function's name.
    pub name: &'static str,
    /// Nanoseconds in an UPDATE on a single thread; `None`: not a separate step.
    pub ns: Option<f64>,
    /// Nanoseconds in an UPDATE on each of several parallel threads.
    pub ns_beside: Option<f64>,
    /// The paper's cycles in an UPDATE.
    pub paper: f64,
    /// The paper's speed-up with 12 threads.
    pub paper_speedup: f64,
}

/// Profiles the functions only, for drawing them.
///
/// # Errors
/// If the trace cannot be read.
pub fn functions(trace: Option<&Path>, runs: usize, threads: usize) -> Result<Vec<Row>> {
    let feed = Feed::find(trace)?;
    let one = passes::sequential(&feed, runs)?;
    let many = passes::parallel(&feed, runs, threads)?;
    let row = |(at, function): (usize, &passes::Function)| Row {
        name: function.name,
        ns: one.ns[at],
        ns_beside: many.ns[at],
        paper: function.paper.0,
        paper_speedup: function.paper.2,
    };
    Ok(FUNCTIONS.iter().enumerate().map(row).collect())
}

/// Prints the thesis's table 4.2 beside the measured values.
fn report_functions(feed: &Feed, threads: usize, one: &Profile, many: &Profile, report: &mut Report) {
    let clock = clock::cycles_per_ns();
    let speedup = format!("{threads} threads");
    let head = [
        "an UPDATE",
        "ns",
        "cycles",
        "share",
        &speedup,
        "speed-up",
        "paper: cycles",
        "share",
        "PBTS",
        "speed-up",
    ];
    let total: f64 = one.ns.iter().flatten().sum();
    let of_paper: f64 = FUNCTIONS.iter().map(|f| f.paper.0).sum();
    let mut lines = Vec::new();
    for (at, function) in FUNCTIONS.iter().enumerate() {
        let paper = function.paper;
        let mut line = vec![function.name.to_owned()];
        match one.ns[at].zip(many.ns[at]) {
            None => line.extend(["with the payload", "", "", "", ""].map(str::to_owned)),
            Some((ns, each)) => {
                let times = threads as f64 * ns / each.max(f64::MIN_POSITIVE);
                line.extend([
                    format!("{ns:.1}"),
                    clock.map_or("-".to_owned(), |c| number(ns * c)),
                    format!("{:.0} %", 100.0 * ns / total),
                    format!("{:.1}", each / threads as f64),
                    // What is nearly nothing is nothing that could be divided.
                    if each < 1.0 { "-".to_owned() } else { format!("{times:.2}") },
                ]);
            }
        }
        line.extend([
            number(paper.0),
            format!("{:.0} %", 100.0 * paper.0 / of_paper),
            number(paper.1),
            format!("{:.1}", paper.2),
        ]);
        lines.push(line);
        report.row(json!({
            "what": "function", "function": function.name, "feed": feed.source, "updates": feed.updates,
            "prefixes": feed.prefixes, "ns": one.ns[at], "cycles": one.ns[at].zip(clock).map(|(ns, c)| ns * c),
            "threads": threads, "ns_with_threads": many.ns[at].map(|ns| ns / threads as f64),
            "paper_cycles": paper.0, "paper_pbts_cycles": paper.1, "paper_speedup": paper.2,
        }));
    }
    let each: f64 = many.ns.iter().flatten().sum();
    let of_pbts: f64 = FUNCTIONS.iter().map(|f| f.paper.1).sum();
    lines.push(vec![
        "all".to_owned(),
        format!("{total:.1}"),
        clock.map_or("-".to_owned(), |c| number(total * c)),
        String::new(),
        format!("{:.1}", each / threads as f64),
        format!("{:.2}", threads as f64 * total / each.max(f64::MIN_POSITIVE)),
        number(of_paper),
        String::new(),
        number(of_pbts),
        format!("{:.1}", of_paper / of_pbts),
    ]);
    sluice_print::outln!("{}", bench_report::table(&head, &lines));
}

fn report_ablations(all: &[Ablation], report: &mut Report) {
    let line = |a: &Ablation| {
        report.row(json!({
            "what": "ablation", "optimization": a.what, "with": a.with, "without": a.without,
            "ns_with": a.ns.0, "ns_without": a.ns.1, "gain": a.gain(), "note": a.note,
        }));
        vec![
            a.what.to_owned(),
            a.with.to_owned(),
            a.without.to_owned(),
            number(a.ns.0),
            number(a.ns.1),
            format!("{:.2}", a.gain()),
            a.note.clone(),
        ]
    };
    let lines: Vec<Vec<String>> = all.iter().map(line).collect();
    sluice_print::outln!(
        "{}",
        bench_report::table(&["optimization", "with", "without", "ns", "ns", "gain", ""], &lines)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_bgp::wire::{Update, header};
    use std::collections::BTreeSet;

    /// Every pass and every ablation takes every UPDATE.
    #[test]
    fn a_small_feed() {
        let feed = Feed::made_up(3000).expect("there are so many routes");
        assert_eq!((feed.updates, feed.prefixes), (1000, 3000));
        let one = passes::sequential(&feed, 1).expect("the feed is well-formed");
        assert!(one.ns.iter().flatten().all(|ns| ns.is_finite()));
        assert!(one.ns[3].is_some_and(|ns| ns > 0.0), "{one:?}");
        passes::parallel(&feed, 1, 2).expect("the feed is well-formed");
        let all = ablation::all(&feed, 1).expect("the feed is well-formed");
        assert!(all.iter().all(|a| a.ns.0 > 0.0 && a.ns.1 > 0.0));
    }

    /// A distinct mark in each UPDATE leaves no two UPDATEs with the same attributes.
    #[test]
    fn unique_attributes() {
        let once = Feed::made_up(300).expect("there are so many routes");
        let twice = Feed { octets: once.octets.repeat(2), ..once };
        for (is_unique, expected) in [(true, 200), (false, 100)] {
            let marked = twice.marked(is_unique);
            assert_eq!((marked.updates, marked.prefixes), (200, 600));
            let (mut rest, mut all) = (&marked.octets[..], BTreeSet::new());
            while let Some(frame) = header::frame(rest).expect("well-formed") {
                rest = &rest[frame.len()..];
                all.insert(Update::decode(frame.body).expect("well-formed").attributes);
            }
            assert_eq!(all.len(), expected, "{is_unique}");
        }
    }
}
