//! Large configurations: loading 100,000 lines, adding a line, beside BIRD 2 and FRR with the same routes; and the
//! delay of `show` while a full table loads. `make bench-config`, as root; in network namespaces of its own.

mod contender;
mod show;

use anyhow::{Context, Result};
use bench_lab::TableArgs;
use bench_report::{Bar, Plot, Report, median};
use clap::Parser;
use contender::Contender;
use serde_json::json;
use sluice_lab::{Lab, LabOptions};

/// Large configurations, beside peers in the same run.
#[derive(Parser)]
struct Args {
    /// Lines: a static route each.
    #[arg(long, default_value_t = 100_000)]
    lines: usize,
    /// Alternating runs of each router; FRR has a single run.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Lines to add singly in each run.
    #[arg(long, default_value_t = 10)]
    changes: usize,
    #[command(flatten)]
    full: TableArgs,
}

/// The time of a contender: seconds for the whole load, milliseconds for each additional line.
#[derive(Default)]
struct Times {
    load_s: Vec<f64>,
    change_ms: Vec<f64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    sluice_lab::available().context("labs cannot be made here")?;
    bench_lab::adopt_orphans()?;
    let sluice = args.full.sluice()?;
    let mut report = Report::begin("config");
    let options = LabOptions { sluice: Some(sluice.clone()), ..LabOptions::unique("bench-config") };
    let mut lab = Lab::up(&contender::topology()?, options)?;
    let measured = lines(&args, &mut lab, &mut report);
    if measured.is_err() {
        eprintln!("{}", lab.log("sluice", "sluice"));
    }
    let plot = measured?;
    lab.down()?;
    show::run(&sluice, &args.full, &mut report)?;
    bench_lab::reap_orphans();
    report.finish(&[("", &plot)])?;
    Ok(())
}

fn lines(args: &Args, lab: &mut Lab, report: &mut Report) -> Result<Plot> {
    println!("{} lines, a static route each", args.lines);
    let mut all: Vec<(Contender, Times)> = Contender::ALL.map(|c| (c, Times::default())).into();
    for round in 0..args.rounds {
        for (contender, times) in &mut all {
            if *contender == Contender::Frr && round > 0 {
                continue; // it takes minutes
            }
            let took = contender.load(lab, args.lines).with_context(|| contender.name())?;
            times.load_s.push(took.as_secs_f64());
            for change in 0..args.changes {
                let took = contender.add_line(lab, args.lines, change).with_context(|| contender.name())?;
                times.change_ms.push(took.as_secs_f64() * 1e3);
            }
            let (load, change) = (times.load_s[times.load_s.len() - 1], median(&times.change_ms));
            println!(
                "  run {} {:<8} all {load:.2} s, one line more {change:.1} ms",
                round + 1,
                contender.name()
            );
            contender.empty(lab)?;
        }
    }
    for (contender, times) in &all {
        let worst = times.change_ms.iter().copied().fold(0.0, f64::max);
        report.row(json!({
            "router": contender.name(), "lines": args.lines, "load_s": median(&times.load_s),
            "one_line_ms": median(&times.change_ms), "one_line_worst_ms": worst, "runs": times.load_s.len(),
        }));
    }
    let of =
        |wanted: Contender| all.iter().find(|(c, _)| *c == wanted).map(|(_, t)| t).context("it took part");
    let (ours, bird) = (of(Contender::Sluice)?, of(Contender::Bird)?);
    report.bar(Bar::lower("config.load_100k_lines_s", median(&ours.load_s), "s", 5.0));
    report.bar(Bar::lower("config.one_line_commit_ms", median(&ours.change_ms), "ms", 200.0));
    let vs_bird = median(&ours.change_ms) / median(&bird.change_ms);
    report.bar(Bar::lower("config.one_line_vs_bird", vs_bird, "ratio", 1.0));
    println!(
        "one line more beside BIRD 2: {vs_bird:.2}; all: {:.2}",
        median(&ours.load_s) / median(&bird.load_s)
    );
    Ok(contender::plot(&all.iter().map(|(c, t)| (c.name(), median(&t.change_ms))).collect::<Vec<_>>()))
}
