//! The summaries of cells: tables, rows, bars, plots.

use crate::cell::Sample;
use crate::cells::{Cell, Cells, Value};
use crate::contender::Contender;
use crate::scenario::Scenario;
use crate::speedup::{Speedups, alone, fixed};
use anyhow::{Result, bail};
use bench_lab::Device;
use bench_report::{Bar, Plot, Report, Series, median, number, table};
use serde_json::json;

/// The results of a benchmark.
pub struct Results {
    source: String,
    scale: f64,
    processors: Vec<usize>,
    /// Cells with the client beside the router.
    pub cells: Cells,
    floors: Vec<(Scenario, Sample)>,
    /// Cells with the client out of the way.
    pub speedups: Speedups,
}

/// The compared values, with their name in bars and their unit.
const VALUES: [(&str, &str, Value); 3] = [
    ("time_vs_best", "time", Sample::value),
    ("cpu_vs_best", "CPU", |s| s.seconds.map(|_| s.cpu_s)),
    ("memory_vs_leanest", "memory", |s| s.seconds.map(|_| s.peak as f64 / 1e6)),
];

impl Results {
    /// Returns empty results.
    pub fn new(source: &str, scale: f64, processors: &[usize]) -> Self {
        Results {
            source: source.to_owned(),
            scale,
            processors: processors.to_vec(),
            cells: Cells::default(),
            floors: Vec::new(),
            speedups: Speedups::default(),
        }
    }

    /// The relay was.
    pub fn floor(&mut self, scenario: Scenario, sample: Sample) {
        self.floors.push((scenario, sample));
    }

    /// The best of the competitors.
    fn best_peer(&self, scenario: Scenario, value: Value) -> Option<(Contender, f64)> {
        let peers = self.cells.contenders(Some(scenario)).into_iter().filter(|c| c.device != Device::Sluice);
        let values = peers.filter_map(|c| Some((c, self.cells.middle(scenario, c, value)?)));
        values.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// A scenario's table.
    pub fn show(&self, scenario: Scenario) {
        let unit = if scenario.is_latency() { "ms (median, p99)" } else { "seconds" };
        let head = [
            scenario.name(),
            unit,
            "CPU s",
            "MB at most",
            "MB resident",
            "UPDATEs",
            "time / best",
            "CPU / best",
            "MB / leanest",
        ];
        let (mut lines, mut notes) = (Vec::new(), Vec::new());
        for contender in self.cells.contenders(Some(scenario)) {
            let samples = self.cells.of(scenario, contender);
            let mut line = vec![contender.name()];
            if let Some(failed) = samples.iter().find(|s| s.seconds.is_none()) {
                line.push("not done".to_owned());
                notes.push(format!("{}: {}", contender.name(), failed.note));
                lines.push(line);
                continue;
            }
            line.push(time(&samples));
            let [_, cpu, memory] =
                VALUES.map(|(_, _, value)| self.cells.middle(scenario, contender, value).unwrap_or(0.0));
            let resident = median(&samples.iter().map(|s| s.resident_peak as f64 / 1e6).collect::<Vec<_>>());
            line.extend([format!("{cpu:.3}"), number(memory), number(resident)]);
            line.push(number(median(&samples.iter().map(|s| s.updates).collect::<Vec<_>>())));
            for (_, _, value) in VALUES {
                let ratio =
                    self.best_peer(scenario, value).zip(self.cells.middle(scenario, contender, value));
                line.push(ratio.map_or(String::new(), |((_, best), own)| ratio_text(own, best)));
            }
            lines.push(line);
            if contender.device == Device::Sluice {
                lines.extend(processes(&samples));
            }
        }
        let floors: Vec<&Sample> =
            self.floors.iter().filter(|(s, _)| *s == scenario).map(|(_, f)| f).collect();
        if !floors.is_empty() {
            let cpu = median(&floors.iter().map(|f| f.client_cpu_s).collect::<Vec<_>>());
            lines.push(vec!["(a relay)".into(), time(&floors), format!("{cpu:.3}")]);
        }
        println!("{}", table(&head, &lines));
        notes.iter().for_each(|note| println!("{note}"));
        self.speedups.show(scenario, &self.cells);
    }

    /// Returns true if every cell was done.
    pub fn verified(&self) -> Result<()> {
        if let Some(Cell { scenario, contender, sample }) = self.cells.failed() {
            bail!("{} {}: {}", scenario.name(), contender.name(), sample.note);
        }
        self.speedups.verified()
    }

    /// Rows and bars for the report; the plots.
    pub fn report_to(&self, report: &mut Report) -> Vec<(String, Plot)> {
        report.row(json!({
            "what": "how", "table": self.source, "scale": self.scale, "limit": "affinity", "processors": self.processors,
            "client": "sluice bgpsim as a library, on any processor",
        }));
        for scenario in self.cells.scenarios() {
            for contender in self.cells.contenders(Some(scenario)) {
                report.row(self.row(scenario, contender));
            }
            let floors: Vec<&Sample> =
                self.floors.iter().filter(|(s, _)| *s == scenario).map(|(_, f)| f).collect();
            if !floors.is_empty() {
                let all: Vec<f64> = floors.iter().filter_map(|f| f.value()).collect();
                let cpu: Vec<f64> = floors.iter().map(|f| f.client_cpu_s).collect();
                report.row(json!({
                    "what": "floor", "scenario": scenario.name(), "value_median": median(&all), "values": all,
                    "unit": unit(scenario), "client_cpu_s_median": median(&cpu),
                }));
            }
            self.bars(scenario, report);
        }
        let plots = VALUES.iter().map(|(_, what, value)| self.plot(what, *value));
        plots.enumerate().map(|(n, plot)| (["", "-cpu", "-memory"][n].to_owned(), plot)).collect()
    }

    fn row(&self, scenario: Scenario, contender: Contender) -> serde_json::Value {
        let samples = self.cells.of(scenario, contender);
        let middle =
            |value: &dyn Fn(&Sample) -> f64| median(&samples.iter().map(|s| value(s)).collect::<Vec<_>>());
        let names = samples.first().map(|s| s.processes.as_slice()).unwrap_or_default();
        let each = names.iter().enumerate().map(|(at, (name, _, _))| {
            let of =
                |value: fn(&(String, f64, u64)) -> f64| middle(&|s| s.processes.get(at).map_or(0.0, value));
            json!({ "name": name, "cpu_s": of(|p| p.1), "peak_memory_octets": of(|p| p.2 as f64) })
        });
        json!({
            "what": "cell", "scenario": scenario.name(), "title": scenario.title(), "router": contender.name(),
            "threads": contender.threads, "runs": samples.len(),
            "not_done": samples.iter().find(|s| s.seconds.is_none()).map(|s| s.note.clone()),
            "unit": unit(scenario),
            "value_median": self.cells.middle(scenario, contender, Sample::value),
            "values": samples.iter().map(|s| s.value()).collect::<Vec<_>>(),
            "p99_ms_median": scenario.is_latency().then(|| middle(&|s| s.delays_ms.map_or(0.0, |d| d.1))),
            "cpu_s_median": middle(&|s| s.cpu_s), "peak_memory_octets_median": middle(&|s| s.peak as f64),
            "resident_peak_octets_median": middle(&|s| s.resident_peak as f64),
            "client_cpu_s_median": middle(&|s| s.client_cpu_s), "foreign_cpu_pct": middle(&|s| s.foreign_pct),
            "updates_to_a_receiver": middle(&|s| s.updates),
            "processes": each.collect::<Vec<_>>(),
        })
    }

    fn bars(&self, scenario: Scenario, report: &mut Report) {
        let sluice = Contender::new(Device::Sluice);
        for (name, _, value) in VALUES {
            let pair = self.cells.middle(scenario, sluice, value).zip(self.best_peer(scenario, value));
            if let Some((own, (_, best))) = pair.filter(|(_, (_, best))| *best > 0.0) {
                report.bar(Bar::lower(&format!("bgp.{}.{name}", scenario.name()), own / best, "x", 1.0));
            }
        }
        let several = self.cells.contenders(Some(scenario)).into_iter().filter(|c| c.threads > Some(1));
        for several in several.filter(|_| !scenario.is_latency()) {
            self.speedup_beside(scenario, fixed(1), several, "threads", report);
            if several.threads == Some(self.processors.len()) {
                self.speedup_beside(scenario, alone(), several, "cores", report);
            }
        }
        self.speedups.report_to(scenario, self.processors.len(), report);
    }

    /// The speed-up of `several`, for more threads on the same processors or for more of both, with the client on the
    /// same processors: no bar, because the client influences the value as much.
    fn speedup_beside(
        &self,
        scenario: Scenario,
        single: Contender,
        several: Contender,
        of: &str,
        report: &mut Report,
    ) {
        let time = |contender| self.cells.middle(scenario, contender, Sample::value);
        if let (Some(one), Some(many), Some(number)) = (time(single), time(several), several.threads) {
            let scheduling = several.scheduling.map_or(String::new(), |s| format!("_{s}"));
            let name = format!("bgp.{}.speedup_{number}_{of}{scheduling}_beside_client", scenario.name());
            report.row(json!({ "what": "speed-up", "name": name, "value": one / many, "unit": "x" }));
        }
    }

    fn plot(&self, what: &str, value: Value) -> Plot {
        let scenarios: Vec<Scenario> =
            self.cells.scenarios().into_iter().filter(|s| !s.is_latency() || what != "time").collect();
        let series = self.cells.contenders(None).into_iter().map(|contender| {
            let points = scenarios.iter().enumerate();
            let points =
                points.filter_map(|(x, s)| Some((x as f64, self.cells.middle(*s, contender, value)?, 0.0)));
            Series { name: contender.name(), points: points.collect() }
        });
        Plot {
            title: format!("BGP side by side: {what}"),
            x: String::new(),
            y: if what == "memory" { "MB at most" } else { "seconds" }.to_owned(),
            logarithmic: true,
            boxes: Vec::new(),
            names: scenarios.iter().map(|s| s.name().to_owned()).collect(),
            series: series.collect(),
        }
    }
}

const fn unit(scenario: Scenario) -> &'static str {
    if scenario.is_latency() { "ms" } else { "s" }
}

fn time(samples: &[&Sample]) -> String {
    let middle =
        |value: &dyn Fn(&Sample) -> f64| median(&samples.iter().map(|s| value(s)).collect::<Vec<_>>());
    if samples.iter().all(|s| s.delays_ms.is_some()) {
        let of = |which: fn((f64, f64)) -> f64| middle(&|s| s.delays_ms.map_or(0.0, which));
        return format!("{:.3}, {:.3}", of(|d| d.0), of(|d| d.1));
    }
    format!("{:.2}", middle(&|s| s.seconds.unwrap_or(0.0)))
}

fn ratio_text(own: f64, best: f64) -> String {
    if best > 0.0 { format!("{:.2}", own / best) } else { "-".to_owned() }
}

/// A line for each process of Sluice.
fn processes(samples: &[&Sample]) -> Vec<Vec<String>> {
    let Some(first) = samples.first() else { return Vec::new() };
    let line = |(at, (name, _, _)): (usize, &(String, f64, u64))| {
        let of = |value: fn(&(String, f64, u64)) -> f64| {
            let all = samples.iter().filter_map(|s| s.processes.get(at)).map(value);
            median(&all.collect::<Vec<_>>())
        };
        let peak = number(of(|p| p.2 as f64 / 1e6));
        vec![format!("  {name}"), String::new(), format!("{:.3}", of(|p| p.1)), String::new(), peak]
    };
    first.processes.iter().enumerate().map(line).collect()
}
