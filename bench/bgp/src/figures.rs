//! The figures of the multicore BGP thesis (chapter 4 and table 5.1), as far as they concern software, beside the
//! paper's numbers from its text. The number of measured threads is at most the number of cores.

use crate::cell::{Sample, Stage};
use crate::contender::Contender;
use crate::scenario::Play;
use anyhow::{Context, Result, ensure};
use bench_lab::Device;
use bench_profile::Row;
use bench_report::{Bar, Plot, Report, Series, median, number, table};
use serde_json::json;
use sluice_bgpsim::order::{Mix, Order};
use sluice_bgpsim::table::{Size, Table};
use sluice_bgpsim::trace::Trace;

/// Peers of the thesis's router.
const PEERS: usize = 12;
/// Number of routes in figures without a size axis.
const ROUTES: f64 = 500_000.0;
/// Table sizes of figure 4.8.
const SIZES: [f64; 3] = [250_000.0, 1_000_000.0, 4_000_000.0];
/// The thesis's interval.
const INTERVAL: f64 = 500.0;
/// Parts that a run is cut into for figure 4.8.
const PARTS: usize = 10;
/// The paper's speed-up by PBTS on 16 cores (section 4.2.2).
const PAPER_SPEEDUP: (f64, f64) = (16.0, 5.5);
/// The paper's overall gain by its stream hardware (table 5.1): PBTS, DTS.
const PAPER_STREAMS: (f64, f64) = (5.85, 6.67);

const MIXES: [Mix; 5] = [Mix::Best, Mix::One, Mix::Two, Mix::Three, Mix::Worst];

/// The parameters of the figures.
pub struct Figures<'a> {
    /// The setting in which cells run.
    pub stage: &'a Stage<'a>,
    /// Runs of each.
    pub runs: usize,
    /// The share of routes.
    pub scale: f64,
    /// The input of the thesis's router, for the figures of threads and of mixes; generated feeds if absent.
    pub trace: Option<Trace<'a>>,
}

type Plots = Vec<(String, Plot)>;

impl Figures<'_> {
    /// Measures and draws everything.
    pub fn draw(&self) -> Result<()> {
        let mut report = Report::begin("figures");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut plots = Plots::new();
        self.speedup(cores, &mut report, &mut plots)?;
        self.mixes(cores, &mut report, &mut plots)?;
        self.sizes(&mut report, &mut plots)?;
        let rows = bench_profile::functions(None, self.runs, cores)?;
        functions(&rows, cores, &mut report, &mut plots);
        bench_lab::reap_orphans();
        let plots: Vec<_> = plots.iter().map(|(suffix, plot)| (suffix.as_str(), plot)).collect();
        report.finish(&plots)?;
        Ok(())
    }

    /// The messages of the peers of the thesis's router.
    fn feeds(&self, order: Order, mix: Mix) -> Result<Play> {
        match &self.trace {
            Some(trace) => Play::trace(trace, PEERS, order, mix),
            None => Play::feeds(&self.table(ROUTES)?, PEERS, order, mix),
        }
    }

    fn table(&self, routes: f64) -> Result<Table> {
        Table::synthetic(Size { v4: ((routes * self.scale) as usize).max(1000), v6: 0 }, 3, 1)
    }

    /// Runs a play with Sluice in the given setting; every run has to be verified.
    fn samples(&self, contender: Contender, play: &Play) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for _ in 0..self.runs {
            let sample = self.stage.perform(contender, play);
            ensure!(sample.seconds.is_some(), "{}: {}", contender.name(), sample.note);
            samples.push(sample);
        }
        Ok(samples)
    }

    fn seconds(&self, contender: Contender, play: &Play) -> Result<f64> {
        let all = self.samples(contender, play)?;
        Ok(median(&all.iter().filter_map(|s| s.seconds).collect::<Vec<_>>()))
    }

    fn floor(&self, play: &Play) -> Result<f64> {
        let all: Result<Vec<f64>> = (0..self.runs)
            .map(|_| self.stage.floor(play)?.seconds.context("the relay received nothing"))
            .collect();
        Ok(median(&all?))
    }

    /// Figures 4.3 and 4.9: twelve feeds, by threads and by the scheduling of work.
    fn speedup(&self, cores: usize, report: &mut Report, plots: &mut Plots) -> Result<()> {
        println!("figures 4.3 and 4.9: {PEERS} feeds, 1 to {cores} threads");
        let play = self.feeds(Order::Threads, Mix::One)?;
        let floor = self.floor(&play)?;
        let counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2))
            .take_while(|n| *n < cores)
            .chain([cores])
            .collect();
        let mut lines = Vec::new();
        let mut series = Vec::new();
        for scheduling in ["peer", "dynamic"] {
            let mut times = Vec::new();
            for threads in &counts {
                let seconds = self.seconds(sluice(*threads, scheduling), &play)?;
                times.push((*threads, seconds));
                let speedup = times[0].1 / seconds;
                lines.push(vec![
                    format!("{threads} threads, {scheduling}"),
                    format!("{seconds:.2}"),
                    format!("{speedup:.2}"),
                ]);
                report.row(json!({
                    "what": "figures 4.3 and 4.9", "threads": threads, "scheduling": scheduling, "seconds": seconds,
                    "speedup": speedup, "floor_seconds": floor,
                }));
            }
            series.push((scheduling, times));
        }
        println!("{}", table(&["figures 4.3, 4.9", "seconds", "speed-up"], &lines));
        println!(
            "the client alone: {floor:.2} s; the paper: {} times on {} cores\n",
            PAPER_SPEEDUP.1, PAPER_SPEEDUP.0
        );
        let ours = series.iter().map(|(name, times)| Series {
            name: format!("Sluice, {name}"),
            points: times.iter().map(|(n, s)| (*n as f64, times[0].1 / s, 0.0)).collect(),
        });
        let paper =
            Series { name: "paper: PBTS".into(), points: vec![(PAPER_SPEEDUP.0, PAPER_SPEEDUP.1, 0.0)] };
        plots.push(("-4.3".into(), plot("Figure 4.3: speed-up", "threads", "times", ours.chain([paper]))));
        let times = series.iter().map(|(name, times)| Series {
            name: format!("Sluice, {name}"),
            points: times.iter().map(|(n, s)| (*n as f64, *s, 0.0)).collect(),
        });
        plots.push(("-4.9".into(), plot("Figure 4.9: by peer and dynamic", "threads", "seconds", times)));
        if let Some((_, many)) = series[0].1.last().filter(|(n, _)| *n > 1) {
            report.bar(Bar::higher("figures.4_3.speedup", series[0].1[0].1 / many, "x", 1.5));
        }
        Ok(())
    }

    /// Figure 4.7: the five mixes, with as many threads as cores.
    fn mixes(&self, cores: usize, report: &mut Report, plots: &mut Plots) -> Result<()> {
        println!("figure 4.7: {PEERS} feeds in five mixes");
        let mut lines = Vec::new();
        let mut all: [Vec<f64>; 3] = Default::default();
        for mix in MIXES {
            // One thread sends in every mix. The order differs, and with the order the number of a peer's
            // messages in a write: one in the best mix.
            let order = if mix == Mix::Best { Order::RoundRobin(1) } else { Order::Trace };
            let play = self.feeds(order, mix)?;
            let times = [
                self.seconds(sluice(cores, "peer"), &play)?,
                self.seconds(sluice(cores, "dynamic"), &play)?,
                self.floor(&play)?,
            ];
            all.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
            lines.push([vec![mix.name().to_owned()], times.map(|t| format!("{t:.2}")).to_vec()].concat());
            report.row(json!({
                "what": "figure 4.7", "mix": mix.name(), "threads": cores, "peer_seconds": times[0],
                "dynamic_seconds": times[1], "floor_seconds": times[2],
            }));
        }
        println!("{}", table(&["figure 4.7, mix", "by peer, s", "dynamic, s", "client alone, s"], &lines));
        println!(
            "the paper has no number; there time grows from the best mix over 1, 2 and 3 to the worst\n"
        );
        let series = ["by peer", "dynamic", "client alone"].iter().zip(&all).map(|(name, times)| Series {
            name: (*name).to_owned(),
            points: times.iter().enumerate().map(|(x, s)| (x as f64, *s, 0.0)).collect(),
        });
        let mut drawn = plot("Figure 4.7: traffic mixes", "", "seconds", series);
        drawn.names = MIXES.iter().map(|m| m.name().to_owned()).collect();
        plots.push(("-4.7".into(), drawn));
        Ok(())
    }

    /// Figure 4.8: the time for 500 UPDATEs as the table grows.
    fn sizes(&self, report: &mut Report, plots: &mut Plots) -> Result<()> {
        println!("figure 4.8: tables of three sizes");
        let mut lines = Vec::new();
        let mut series = Vec::new();
        let mut totals = Vec::new();
        for size in SIZES {
            let routes = self.table(size)?;
            let count = routes.prefixes().count() as f64;
            let play = Play::feeds(&routes, PEERS, Order::Threads, Mix::One)?;
            let samples = self.samples(Contender::new(Device::Sluice), &play)?;
            let sample = &samples[samples.len() / 2];
            let parts = parts(sample, count);
            let total = 1e3 * sample.seconds.unwrap_or(0.0) * INTERVAL / sample.sent.max(1) as f64;
            totals.push(total);
            let middle = |parts: &[(f64, f64)]| median(&parts.iter().map(|p| p.1).collect::<Vec<_>>());
            let (early, late) = (middle(&parts[..parts.len() / 2]), middle(&parts[parts.len() / 2..]));
            lines.push(vec![
                number(count),
                format!("{total:.3}"),
                format!("{early:.3}"),
                format!("{late:.3}"),
                number(sample.peak as f64 / 1e6),
            ]);
            report.row(json!({
                "what": "figure 4.8", "routes": count, "updates": sample.sent, "ms_for_500": total,
                "ms_for_500_first_half": early, "ms_for_500_second_half": late, "parts": parts,
            }));
            series.push(Series {
                name: format!("{} routes", number(count)),
                points: parts.iter().map(|(x, ms)| (*x, *ms, 0.0)).collect(),
            });
        }
        let head = ["figure 4.8, routes", "ms for 500 UPDATEs", "first half", "second half", "MB at most"];
        println!("{}", table(&head, &lines));
        println!("the paper has no number; there four times the prefixes change the time but little\n");
        plots.push((
            "-4.8".into(),
            plot("Figure 4.8: 500 UPDATEs as the table grows", "share of the run", "ms", series.into_iter()),
        ));
        if let [small, .., large] = totals[..] {
            report.bar(Bar::lower("figures.4_8.largest_vs_smallest", large / small, "x", 1.5));
        }
        Ok(())
    }
}

const fn sluice(threads: usize, scheduling: &'static str) -> Contender {
    Contender { threads: Some(threads), scheduling: Some(scheduling), ..Contender::new(Device::Sluice) }
}

/// The run in parts of the same number of routes: the middle of each as a share of the run, and its milliseconds for 500 UPDATEs.
fn parts(sample: &Sample, routes: f64) -> Vec<(f64, f64)> {
    let at = |share: f64| {
        let reached = sample.progress.iter().find(|p| p.1 >= share * routes);
        reached.or(sample.progress.last()).map_or(0.0, |p| p.0)
    };
    let updates = sample.sent as f64 / PARTS as f64;
    let part = |n: usize| {
        let (from, to) = (n as f64 / PARTS as f64, (n + 1) as f64 / PARTS as f64);
        ((from + to) / 2.0, 1e3 * (at(to) - at(from)) * INTERVAL / updates.max(1.0))
    };
    (0..PARTS).map(part).collect()
}

fn plot(title: &str, x: &str, y: &str, series: impl Iterator<Item = Series>) -> Plot {
    Plot {
        title: title.to_owned(),
        x: x.to_owned(),
        y: y.to_owned(),
        logarithmic: false,
        boxes: Vec::new(),
        names: Vec::new(),
        series: series.collect(),
    }
}

/// Figures 4.4 to 4.6, tables 4.2 and 5.1: the functions of an UPDATE.
fn functions(rows: &[Row], threads: usize, report: &mut Report, plots: &mut Plots) {
    let total: f64 = rows.iter().filter_map(|r| r.ns).sum();
    let of_paper: f64 = rows.iter().map(|r| r.paper).sum();
    let names: Vec<String> = rows.iter().map(|r| r.name.to_owned()).collect();
    let bars = |title: &str, y: &str, all: [(&str, Vec<f64>); 2]| {
        let series = all.map(|(name, values)| Series {
            name: name.to_owned(),
            points: values.into_iter().enumerate().map(|(x, v)| (x as f64, v, 0.0)).collect(),
        });
        Plot { names: names.clone(), ..plot(title, "", y, series.into_iter()) }
    };
    let share = rows.iter().map(|r| 100.0 * r.ns.unwrap_or(0.0) / total).collect();
    let paper_share = rows.iter().map(|r| 100.0 * r.paper / of_paper).collect();
    let gain = |r: &Row| r.ns.zip(r.ns_beside).filter(|(_, each)| *each > 1.0).map(|(ns, each)| ns / each);
    let speedup = rows.iter().map(|r| threads as f64 * gain(r).unwrap_or(0.0)).collect();
    let overhead =
        rows.iter().map(|r| gain(r).map_or(0.0, |gain| 100.0 * (1.0 / gain - 1.0)).max(0.0)).collect();
    let ours = format!("Sluice, {threads} threads");
    plots.push((
        "-4.4".into(),
        bars("Figure 4.4: share of functions", "percent", [("Sluice", share), ("paper", paper_share)]),
    ));
    let paper_speedup = rows.iter().map(|r| r.paper_speedup).collect();
    plots.push((
        "-4.5".into(),
        bars(
            "Figure 4.5: speed-up of functions",
            "times",
            [(&ours, speedup), ("paper, 12 threads", paper_speedup)],
        ),
    ));
    plots.push((
        "-4.6".into(),
        bars("Figure 4.6: what others cost a thread", "percent", [(&ours, overhead), ("", Vec::new())]),
    ));
    for row in rows {
        report.row(json!({
            "what": "table 4.2", "function": row.name, "ns": row.ns, "ns_beside_others": row.ns_beside,
            "threads": threads, "paper_cycles": row.paper, "paper_speedup": row.paper_speedup,
        }));
    }
    // The software's counterpart of table 5.1: its stream hardware makes reading cost nothing; so much is there to gain at most.
    let streams: f64 = rows
        .iter()
        .filter(|r| r.name.ends_with("read") || r.name.ends_with("parse"))
        .filter_map(|r| r.ns)
        .sum();
    let most = 100.0 * (total / (total - streams) - 1.0);
    report.row(json!({
        "what": "table 5.1", "read_and_parse_share": streams / total, "gain_at_most_pct": most,
        "paper_pbts_pct": PAPER_STREAMS.0, "paper_dts_pct": PAPER_STREAMS.1,
    }));
    println!(
        "table 5.1: reading and parsing take {:.0} % of an UPDATE; were they free, {most:.0} % would be gained at most (the paper's \
         stream hardware: {} % with PBTS, {} % with DTS)\n",
        100.0 * streams / total,
        PAPER_STREAMS.0,
        PAPER_STREAMS.1
    );
}
