//! The speed-up of Sluice with more threads, and on more processors. The client is out of the way, because a client on
//! the same processors would leave a processor to the single thread, but none to many threads.

use crate::cell::{Client, Sample, Stage, line};
use crate::cells::{Cell, Cells};
use crate::contender::Contender;
use crate::scenario::{Play, Scenario};
use anyhow::{Result, bail};
use bench_lab::Device;
use bench_report::{Bar, Report, table};
use serde_json::json;

/// The target for the gain of more threads, and of more threads and processors.
const WANTED: f64 = 1.7;

/// Repetitions in a run: the measurements are short, and machines with shared processors vary in speed.
pub const ROUNDS: usize = 3;

/// The measured cells.
#[derive(Default)]
pub struct Speedups(Cells);

/// Sluice with so many threads of BGP.
pub const fn fixed(threads: usize) -> Contender {
    Contender { threads: Some(threads), ..Contender::new(Device::Sluice) }
}

/// Sluice with a single thread and a single processor for its processes.
pub const fn alone() -> Contender {
    Contender { cores: Some(1), ..fixed(1) }
}

/// The settings that a number of threads is compared with, with their names.
const fn rivals() -> [(&'static str, Contender); 2] {
    [("threads", fixed(1)), ("cores", alone())]
}

impl Speedups {
    /// Measures a number of threads and the compared settings `rounds` times, each time in a different order.
    pub fn measure(&mut self, stage: &Stage<'_>, play: &Play, threads: usize, run: usize, rounds: usize) {
        for round in run * rounds..(run + 1) * rounds {
            let mut order = [alone(), fixed(1), fixed(threads)];
            let count = order.len();
            order.rotate_left(round % count);
            for contender in order {
                self.once(stage, play, contender, run);
            }
        }
    }

    fn once(&mut self, stage: &Stage<'_>, play: &Play, contender: Contender, run: usize) {
        if self.0.of(play.scenario, contender).iter().any(|s| s.seconds.is_none()) {
            return;
        }
        let sample = stage.perform_with(contender, play, Client::Aloof);
        println!("  run {} {:<12}, client out of the way {}", run + 1, contender.name(), line(&sample));
        self.0.add(Cell { scenario: play.scenario, contender, sample });
    }

    fn seconds(&self, scenario: Scenario, contender: Contender) -> Option<f64> {
        self.0.middle(scenario, contender, |s| s.seconds)
    }

    /// A scenario's table, with the results of the cells with the client beside the router.
    pub fn show(&self, scenario: Scenario, beside: &Cells) {
        let contenders = self.0.contenders(Some(scenario));
        let Some(many) = contenders.last().copied() else { return };
        let head = [
            format!("{}, threads", scenario.name()),
            "client out of the way: s".into(),
            "CPU s".into(),
            "client's".into(),
            "others".into(),
            "speed-up".into(),
            "client beside: s".into(),
            "speed-up".into(),
        ];
        let seconds = |s: Option<f64>| s.map_or("not done".to_owned(), |s| format!("{s:.3}"));
        let times = |one: Option<f64>, of: Option<f64>| match one.zip(of) {
            Some((one, of)) => format!("{:.2}", one / of),
            None => String::new(),
        };
        let row = |contender: &Contender| {
            let middle = |value| seconds(self.0.middle(scenario, *contender, value));
            let (out, with) = (|c| self.seconds(scenario, c), |c| beside.middle(scenario, c, Sample::value));
            let (gain, gain_beside) = match *contender == many {
                true => (String::new(), String::new()),
                false => (times(out(*contender), out(many)), times(with(*contender), with(many))),
            };
            let foreign = self.0.middle(scenario, *contender, |s| s.seconds.map(|_| s.foreign_pct));
            vec![
                contender.name(),
                seconds(out(*contender)),
                middle(|s| s.seconds.map(|_| s.cpu_s)),
                middle(|s| s.seconds.map(|_| s.client_cpu_s)),
                foreign.map_or(String::new(), |f| format!("{f:.0} %")),
                gain,
                seconds(with(*contender)),
                gain_beside,
            ]
        };
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        println!("{}", table(&head, &contenders.iter().map(row).collect::<Vec<_>>()));
        for contender in &contenders {
            if let Some(failed) = self.0.of(scenario, *contender).iter().find(|s| s.seconds.is_none()) {
                println!("{}, client out of the way: {}", contender.name(), failed.note);
            }
        }
    }

    /// Returns true if everything was done.
    pub fn verified(&self) -> Result<()> {
        if let Some(Cell { scenario, contender, sample }) = self.0.failed() {
            bail!("{} {}, client out of the way: {}", scenario.name(), contender.name(), sample.note);
        }
        Ok(())
    }

    /// Rows and bars for the report.
    pub fn report_to(&self, scenario: Scenario, processors: usize, report: &mut Report) {
        let contenders = self.0.contenders(Some(scenario));
        for contender in &contenders {
            let samples = self.0.of(scenario, *contender);
            report.row(json!({
                "what": "cell with the client out of the way", "scenario": scenario.name(), "router": contender.name(),
                "threads": contender.threads, "runs": samples.len(), "unit": "s",
                "not_done": samples.iter().find(|s| s.seconds.is_none()).map(|s| s.note.clone()),
                "value_median": self.seconds(scenario, *contender),
                "values": samples.iter().map(|s| s.seconds).collect::<Vec<_>>(),
                "cpu_s_median": self.0.middle(scenario, *contender, |s| s.seconds.map(|_| s.cpu_s)),
                "client_cpu_s_median": self.0.middle(scenario, *contender, |s| s.seconds.map(|_| s.client_cpu_s)),
                "foreign_cpu_pct": self.0.middle(scenario, *contender, |s| s.seconds.map(|_| s.foreign_pct)),
            }));
        }
        let Some((many, threads)) = contenders.last().and_then(|c| Some((*c, c.threads?))) else { return };
        for (of, single) in rivals().into_iter().filter(|(of, _)| *of == "threads" || threads == processors) {
            if let Some((one, many)) = self.seconds(scenario, single).zip(self.seconds(scenario, many)) {
                let name = format!("bgp.{}.speedup_{threads}_{of}", scenario.name());
                report.bar(Bar::higher(&name, one / many, "x", WANTED));
            }
        }
    }
}
