//! BGP side by side: Sluice beside the BGP daemons of the machine, with the same feeds by the same client
//! (`sluice bgpsim`, as a library), each in network namespaces of its own. `make bench-bgp`, as root.
//! `docs/performance.md` describes the way of measuring and the scenarios.

mod cell;
mod cells;
mod contender;
mod figures;
mod model;
mod payloads;
mod results;
mod scaling;
mod scenario;
mod speedup;
mod thread;
mod transactions;

use anyhow::{Context, Result, ensure};
use bench_lab::Device;
use bench_report::Report;
use cell::{Rests, Sample, Stage, line};
use cells::Cell;
use clap::Parser;
use contender::Contender;
use figures::Figures;
use payloads::Payloads;
use results::Results;
use scaling::Scaling;
use scenario::{Play, Scenario, Variant};
use sluice_bgpsim::table::{Size, Table};
use sluice_bgpsim::trace::Trace;
use speedup::{alone, fixed};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use transactions::Transactions;

/// The table of a quick look.
const SMOKE: Size = Size { v4: 2000, v6: 500 };

/// Sluice beside the BGP daemons of the machine.
#[derive(Parser)]
struct Args {
    /// Runs of each cell, each with the daemons in a different order; results are medians.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Only these scenarios.
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    only: Vec<Scenario>,
    /// Only these daemons: sluice, bird, bird3, frr, openbgpd, gobgp.
    #[arg(long, value_delimiter = ',')]
    daemons: Vec<String>,
    /// The share of each table that is used.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Sluice also with a single thread, on every processor and on a single one, and with the given number of threads,
    /// in the scenarios with ten feeds (S2, S3) and with single routes (S6). The default is a thread for each core.
    /// The scenarios with ten feeds also run with the client out of the way, which gives the speed-up.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Number of additional silent neighbors: IPv6 sessions without routes, beside IPv4 routes only. Compare with `--silent 0`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=4000), conflicts_with_all = ["figures", "scaling"])]
    silent: Option<u16>,
    /// With validated ROA payloads at every router, at most 400,000: an import policy lowers LOCAL_PREF of invalid routes. Sluice, BIRD 2 and FRR.
    #[arg(long, conflicts_with_all = ["figures", "scaling", "transactions", "smoke"])]
    rpki: bool,
    /// With so many paths of each prefix (ADD-PATH, RFC 7911): S1, S2, S4, S7 and S8, unless `--only` selects some of them. Sluice, BIRD and
    /// FRR.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16),
          conflicts_with_all = ["figures", "scaling", "transactions", "smoke", "rpki", "silent"])]
    paths: u32,
    /// S5 with graceful restart (RFC 4724): the lost feed comes back and announces the same routes again. Sluice, BIRD and FRR.
    #[arg(long, conflicts_with_all = ["figures", "scaling", "transactions", "smoke", "rpki", "silent", "paths"])]
    restart: bool,
    /// Seconds that a daemon may take for a scenario; longer is "not done", and is not tried again.
    #[arg(long, default_value_t = 240)]
    limit: u64,
    /// Processors for the daemons, by number; absent: the whole machine. The client has no limit.
    #[arg(long, value_delimiter = ',')]
    processors: Vec<usize>,
    /// The table: prefixes, a line each, or an MRT dump; a real one if absent.
    #[arg(long)]
    table: Option<PathBuf>,
    /// The Sluice executable; the one beside this program if absent.
    #[arg(long)]
    sluice: Option<PathBuf>,
    /// Instead of the comparison: the figures of the multicore BGP thesis, with Sluice alone.
    #[arg(long, conflicts_with = "smoke")]
    figures: bool,
    /// With --figures: an MRT trace for the figures of threads and of mixes, as `sluice simulate thesis --mrt` makes it; made-up feeds
    /// if absent.
    #[arg(long, requires = "figures")]
    trace: Option<PathBuf>,
    /// Instead of the comparison: predict S1 to S4 with more threads than the machine has cores, from the cost of each
    /// stage, beside measurements with as many threads as cores.
    #[arg(long, conflicts_with_all = ["smoke", "figures"])]
    scaling: bool,
    /// Instead of the comparison: table 2.1 of the thesis, eight scenarios in prefixes a second.
    #[arg(long, conflicts_with_all = ["smoke", "figures", "scaling"])]
    transactions: bool,
    /// A quick look at whether everything still works together: a small made-up table, Sluice and BIRD 2, once; nothing is written.
    #[arg(long)]
    smoke: bool,
}

impl Args {
    fn smoking(mut self) -> Self {
        if self.smoke {
            (self.runs, self.scale, self.limit) = (1, 1.0, 20);
            if self.daemons.is_empty() {
                self.daemons = vec!["sluice".into(), "bird".into()];
            }
        }
        self
    }

    /// The table and its source.
    fn table(&self) -> Result<(Table, String)> {
        if self.smoke {
            return Ok((Table::synthetic(SMOKE, 3, 1)?, "made up".to_owned()));
        }
        let (table, source) = sluice_load::source::find(self.table.as_deref())?;
        Ok((Table::real(&table), source.to_string()))
    }

    /// The payloads for the table.
    fn payloads(&self) -> Result<Option<Payloads>> {
        if !self.rpki {
            return Ok(None);
        }
        let (table, _) = sluice_load::source::find(self.table.as_deref())?;
        let payloads = Payloads::of(&table)?;
        println!("validated payloads: {}", bench_report::number(payloads.count as f64));
        Ok(Some(payloads))
    }

    /// The requested variant of the scenarios.
    fn variant(&self) -> Variant {
        Variant { silent: self.silent.map(usize::from), paths: self.paths, restarts: self.restart }
    }

    /// The requested scenarios.
    fn scenarios(&self) -> Vec<Scenario> {
        use Scenario::{S1, S2, S3, S4, S5, S6, S7, S8};
        let all = [S1, S2, S3, S4, S5, S6, S7, S8];
        let wanted = |s: &Scenario| self.only.is_empty() || self.only.contains(s);
        all.into_iter().filter(|s| wanted(s) && self.variant().has(*s)).collect()
    }

    /// The requested daemons that are installed.
    fn contenders(&self) -> Result<Vec<Contender>> {
        let all = [Device::Sluice, Device::Bird, Device::Bird3, Device::Frr, Device::Openbgpd, Device::Gobgp];
        let all = all.map(Contender::new);
        for name in &self.daemons {
            ensure!(all.iter().any(|c| c.key() == name), "no daemon is called `{name}`");
        }
        let wanted = |c: &Contender| {
            let is_named = self.daemons.is_empty() || self.daemons.iter().any(|d| d == c.key());
            let has_variants = self.paths == 1 && !self.restart || c.has_variants();
            is_named && has_variants && (!self.rpki || c.validates())
        };
        let (here, missing): (Vec<_>, Vec<_>) =
            all.into_iter().filter(wanted).partition(|c| c.device.is_here());
        for contender in missing {
            // Debian 12 has no BIRD 3: nobody misses it.
            if contender.device != Device::Bird3 || !self.daemons.is_empty() {
                println!("skipped: {} is not installed", contender.name());
            }
        }
        ensure!(!here.is_empty(), "no daemon is left");
        Ok(here)
    }
}

fn main() -> Result<()> {
    let args = Args::parse().smoking();
    ensure!(args.scale > 0.0 && args.scale <= 1.0, "--scale is a share: above 0, at most 1");
    sluice_lab::available().context("labs cannot be made here")?;
    bench_lab::adopt_orphans()?;
    let sluice = contender::sluice(args.sluice.as_deref())?;
    let contenders = args.contenders()?;
    let here = contender::processors()?;
    let processors = if args.processors.is_empty() { here } else { args.processors.clone() };
    let payloads = args.payloads()?;
    let stage = Stage {
        sluice: &sluice,
        processors: &processors,
        limit: Duration::from_secs(args.limit),
        rests: if args.smoke { Rests::SMOKE } else { Rests::MEASURED },
        payloads: payloads.as_ref(),
    };
    if args.figures {
        let octets = args.trace.as_ref().map(std::fs::read).transpose().context("the trace")?;
        let trace = octets.as_deref().map(Trace::read).transpose()?;
        return Figures { stage: &stage, runs: args.runs, scale: args.scale, trace }.draw();
    }
    if args.transactions {
        let (contenders, runs, scale) = (&contenders[..], args.runs, args.scale);
        return Transactions { stage: &stage, contenders, runs, scale }.draw();
    }
    let (table, source) = args.table()?;
    println!("table: {source}: {} prefixes", bench_report::number(table.prefixes().count() as f64));
    println!(
        "daemons: processors {processors:?} by affinity; {} runs, {} s a cell at most",
        args.runs, args.limit
    );
    if args.scaling {
        let scenarios: Vec<_> = args.scenarios().into_iter().filter(|s| s.has_model()).collect();
        return Scaling { stage: &stage, runs: args.runs, scale: args.scale }.draw(&table, &scenarios);
    }
    let name = if args.rpki { "bgp-rpki".to_owned() } else { args.variant().name() };
    let mut report = Report::begin(&name);
    let mut results = Results::new(&source, args.scale, &processors);
    let begin = Instant::now();
    for scenario in args.scenarios() {
        let play = Play::plan(scenario, &table, args.scale, args.variant())?;
        compare(&args, &stage, &contenders, &play, begin, &mut results)?;
        results.show(scenario);
        bench_lab::reap_orphans();
    }
    if args.smoke {
        return results.verified();
    }
    let plots = results.report_to(&mut report);
    let plots: Vec<_> = plots.iter().map(|(suffix, plot)| (suffix.as_str(), plot)).collect();
    report.finish(&plots)?;
    Ok(())
}

/// Runs a scenario several times, each with the daemons in a different order.
fn compare(
    args: &Args,
    stage: &Stage<'_>,
    contenders: &[Contender],
    play: &Play,
    begin: Instant,
    results: &mut Results,
) -> Result<()> {
    let scenario = play.scenario;
    println!("{}: {} (after {})", scenario.name(), scenario.title(), cell::clock(begin));
    let mut contenders: Vec<Contender> =
        contenders.iter().copied().filter(|c| !scenario.installs() || c.installs()).collect();
    let with_threads = args.threads.filter(|n| *n > 1 && scenario.has_threads());
    if let (Some(threads), Some(first)) = (with_threads, contenders.first())
        && first.device == Device::Sluice
    {
        let stays = Contender { scheduling: Some("peer"), ..fixed(threads) };
        contenders.splice(1..1, [alone(), fixed(1), fixed(threads), stays]);
    }
    let aloof = with_threads.filter(|_| !scenario.is_latency() && contenders[0].device == Device::Sluice);
    let mut gave_up: Vec<Contender> = Vec::new();
    for run in 0..args.runs {
        if scenario.has_floor() {
            let sample = stage.floor(play).context("the relay in the router's place")?;
            println!("  run {} {:<12} {}", run + 1, "(a relay)", line(&sample));
            results.floor(scenario, sample);
        }
        let mut order = contenders.clone();
        let count = order.len();
        order.rotate_left(run % count);
        for contender in order {
            if gave_up.contains(&contender) {
                continue;
            }
            let sample: Sample = stage.perform(contender, play);
            println!("  run {} {:<12} {}", run + 1, contender.name(), line(&sample));
            if sample.seconds.is_none() {
                gave_up.push(contender);
            }
            results.cells.add(Cell { scenario, contender, sample });
        }
        if let Some(threads) = aloof {
            let rounds = if args.smoke { 1 } else { speedup::ROUNDS };
            results.speedups.measure(stage, play, threads, run, rounds);
        }
    }
    Ok(())
}
