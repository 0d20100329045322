//! Predictions beyond the machine's cores. The separate cost of each stage gives a lower bound of a scenario with a
//! number of threads. The process with as many threads as cores shows the accuracy of the bound.

use crate::cell::{Sample, Stage};
use crate::contender::Contender;
use crate::model::{Machine, Model, Others, Prediction};
use crate::scenario::{Play, Scenario, Variant};
use anyhow::{Result, bail, ensure};
use bench_lab::Device;
use bench_profile::crossing::{self, MessageCost, TcpCost};
use bench_profile::stages::{self, Scene, Stages};
use bench_report::{Plot, Report, Series, median, table};
use serde_json::json;
use sluice_bgpsim::session::Role;
use sluice_bgpsim::table::Table;
use sluice_bgpsim::workload::Action;

/// The interesting numbers of threads.
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Octets by which TCP is measured.
const TCP_OCTETS: usize = 512 << 20;

/// The parameters of the measurement.
pub struct Scaling<'a> {
    /// The setting in which cells run.
    pub stage: &'a Stage<'a>,
    /// Runs of each cell.
    pub runs: usize,
    /// The share of the table.
    pub scale: f64,
}

/// The measured process with a number of threads.
struct Measured {
    threads: usize,
    seconds: f64,
    /// Processor time of BGP alone.
    cpu_s: f64,
    others: Others,
    switches: f64,
    /// Load of the machine by foreign processes: 0 to 1.
    foreign: f64,
}

/// The results for a number of threads.
struct Point<'a> {
    threads: usize,
    cores: usize,
    model: Model,
    stages: Stages,
    measured: Option<&'a Measured>,
    /// On a separate machine, beside the client, and beside the client if idle threads take ready work.
    predicted: [Prediction; 3],
    /// Beside the client and the foreign load of the measurement.
    expected: Prediction,
}

impl Scaling<'_> {
    /// Measures, predicts, prints and draws some scenarios.
    pub fn draw(&self, table: &Table, scenarios: &[Scenario]) -> Result<()> {
        let mut report = Report::begin("bgp-scaling");
        let (message, tcp) = (crossing::messages()?, crossing::tcp(TCP_OCTETS)?);
        println!(
            "a message {:.0} ns ({:.0} ns to one who sleeps); TCP {:.2} ns an octet read, {:.2} written",
            1e9 * message.awake,
            1e9 * message.asleep,
            1e9 * tcp.read,
            1e9 * tcp.write
        );
        report.row(json!({
            "what": "crossing", "letter_ns": 1e9 * message.awake, "letter_to_sleeper_ns": 1e9 * message.asleep,
            "tcp_read_ns_octet": 1e9 * tcp.read, "tcp_write_ns_octet": 1e9 * tcp.write, "scale": self.scale,
        }));
        let mut series = Vec::new();
        for scenario in scenarios {
            let play = Play::plan(*scenario, table, self.scale, Variant::default())?;
            series.extend(self.scenario(&play, message, tcp, &mut report)?);
            bench_lab::reap_orphans();
        }
        let plot = Plot {
            title: "BGP past this machine's cores: at least (client elsewhere), and measured".into(),
            x: "threads".into(),
            y: "seconds".into(),
            logarithmic: true,
            boxes: Vec::new(),
            names: Vec::new(),
            series,
        };
        report.finish(&[("", &plot)])?;
        Ok(())
    }

    fn scenario(
        &self,
        play: &Play,
        message: MessageCost,
        tcp: TcpCost,
        report: &mut Report,
    ) -> Result<Vec<Series>> {
        let cores = self.stage.processors.len();
        let name = play.scenario.name();
        println!("{name}: {}", play.scenario.title());
        let measured: Vec<Measured> = THREADS
            .into_iter()
            .filter(|n| *n <= cores)
            .map(|n| self.measure(play, n))
            .collect::<Result<_>>()?;
        let Some(Action::Send { streams, .. }) = play.workload.phases.last().map(|p| &p.action) else {
            bail!("{name}: nothing is sent");
        };
        let feeds: Vec<&[u8]> = streams.iter().map(|s| s.octets(0..s.len())).collect();
        let octets: Vec<usize> = feeds.iter().map(|f| f.len()).collect();
        let receivers = play.peers.iter().filter(|p| p.role == Role::Receiver).count();
        let ipv6 = play.peers.iter().any(|p| p.families.v6);
        let scene = Scene { feeds, receivers, ipv6 };
        let mut points = Vec::new();
        for threads in THREADS {
            let own = measured.iter().find(|m| m.threads == threads);
            let others = own.or(measured.last()).map(|m| m.others).unwrap_or_default();
            let stages = stages::measure(&scene, threads as u16)?;
            let model = Model::new(&stages, &octets, message, tcp, others);
            let cores = threads.max(cores);
            let left = cores as f64 * (1.0 - own.map_or(0.0, |m| m.foreign));
            let on = |cores, client, pinned| model.predict(Machine { threads, cores, client, pinned });
            let all = cores as f64;
            let predicted = [on(all, false, true), on(all, true, true), on(all, true, false)];
            let expected = on(left, true, true);
            points.push(Point { threads, cores, model, stages, measured: own, predicted, expected });
        }
        points.iter().for_each(|p| report.row(p.row(play.scenario)));
        print_points(play.scenario, &points);
        let line = |name: String, y: &dyn Fn(&Point<'_>) -> Option<f64>| {
            let points = points.iter().filter_map(|p| Some((p.threads as f64, y(p)?, 0.0)));
            Series { name, points: points.collect() }
        };
        Ok(vec![
            line(name.to_owned(), &|p| Some(p.predicted[0].seconds)),
            line(format!("{name}, measured"), &|p| p.measured.map(|m| m.seconds)),
        ])
    }

    /// The process with so many threads.
    fn measure(&self, play: &Play, threads: usize) -> Result<Measured> {
        let contender =
            Contender { threads: Some(threads), scheduling: Some("peer"), ..Contender::new(Device::Sluice) };
        let mut samples: Vec<Sample> = Vec::new();
        for run in 0..self.runs {
            let sample = self.stage.perform(contender, play);
            ensure!(sample.seconds.is_some(), "{}: {}", contender.name(), sample.note);
            println!("  run {} {:<18} {}", run + 1, contender.name(), crate::cell::line(&sample));
            samples.push(sample);
        }
        let middle = |value: &dyn Fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
        let of_bgp = |s: &Sample| s.processes.iter().find(|p| p.0 == "bgp").map_or(0.0, |p| p.1);
        let of_main = |s: &Sample| s.threads.iter().find(|t| t.is_main).map_or(0.0, |t| t.cpu_s);
        // With one thread the main one has everything: the model knows what the routes' part of it is.
        let main = if threads == 1 { 0.0 } else { middle(&of_main) };
        Ok(Measured {
            threads,
            seconds: middle(&|s| s.seconds.unwrap_or(0.0)),
            cpu_s: middle(&of_bgp),
            others: Others {
                main,
                processes: middle(&|s| s.cpu_s - of_bgp(s)),
                client: middle(&|s| s.client_cpu_s),
            },
            switches: middle(&|s| s.threads.iter().map(|t| t.switches as f64).sum()),
            foreign: middle(&|s| s.foreign_pct) / 100.0,
        })
    }
}

impl Point<'_> {
    /// Microseconds of each stage for a prefix.
    fn each_route(&self) -> [f64; 5] {
        let routes = self.stages.read.1.max(1) as f64;
        let tables = |part: fn(&stages::TableCost) -> f64| self.stages.tables.iter().map(part).sum::<f64>();
        let writers: f64 = self.model.writers.iter().sum();
        let intakes: f64 = self.model.intakes.iter().sum();
        [intakes, tables(|t| t.decide), tables(|t| t.fill), writers, self.model.others.main]
            .map(|s| 1e6 * s / routes)
    }

    fn row(&self, scenario: Scenario) -> serde_json::Value {
        let [intake, decide, fill, write, main] = self.each_route();
        let prediction = |p: &Prediction| json!({ "seconds": p.seconds, "bound": p.bound });
        let chains: Vec<_> =
            self.model.chains().iter().map(|(n, s)| json!({ "chain": n, "seconds": s })).collect();
        json!({
            "what": "point", "scenario": scenario.name(), "threads": self.threads, "cores": self.cores,
            "updates": self.stages.read.0, "prefixes": self.stages.read.1, "routes_for_rib": self.stages.for_rib,
            "octets_told": self.stages.advertised.iter().sum::<usize>(), "letters": self.model.messages,
            "us_a_prefix": { "intake": intake, "decide": decide, "fill": fill, "write": write, "main": main },
            "work_s": self.model.work(), "chains": chains,
            "main_s": self.model.others.main, "other_processes_s": self.model.others.processes,
            "client_s": self.model.others.client,
            "predicted_client_elsewhere": prediction(&self.predicted[0]),
            "predicted_client_here": prediction(&self.predicted[1]),
            "predicted_client_here_dynamic": prediction(&self.predicted[2]),
            "predicted_client_and_others_here": self.measured.map(|_| prediction(&self.expected)),
            "foreign_share": self.measured.map(|m| m.foreign),
            "measured_s": self.measured.map(|m| m.seconds), "measured_bgp_cpu_s": self.measured.map(|m| m.cpu_s),
            "measured_context_switches": self.measured.map(|m| m.switches),
        })
    }
}

/// A scenario's tables.
fn print_points(scenario: Scenario, points: &[Point<'_>]) {
    let Some(first) = points.first() else { return };
    let head = [
        scenario.name(),
        "work s",
        "intake",
        "table",
        "writer",
        "main",
        "alone s",
        "speed-up",
        "because of",
        "client s",
        "beside it s",
        "speed-up",
        "because of",
        "measured s",
        "speed-up",
        "measured / predicted",
        "foreign",
        "but for it",
    ];
    let base = first.measured.map(|m| m.seconds);
    let line = |p: &Point<'_>| {
        let mut line = vec![format!("{} threads", p.threads), format!("{:.2}", p.model.work())];
        line.extend(p.model.chains().iter().map(|c| format!("{:.2}", c.1)));
        for (at, found) in p.predicted[..2].iter().enumerate() {
            if at == 1 {
                line.push(format!("{:.2}", p.model.others.client));
            }
            let speedup = first.predicted[at].seconds / found.seconds.max(f64::MIN_POSITIVE);
            line.extend([format!("{:.2}", found.seconds), format!("{speedup:.1}"), found.bound.to_owned()]);
        }
        if let (Some(measured), Some(base)) = (p.measured, base) {
            line.push(format!("{:.2}", measured.seconds));
            line.push(format!("{:.2}", base / measured.seconds.max(f64::MIN_POSITIVE)));
            line.push(format!("{:.2}", measured.seconds / p.predicted[1].seconds.max(f64::MIN_POSITIVE)));
            line.push(format!("{:.0} %", 100.0 * measured.foreign));
            line.push(format!("{:.2}", measured.seconds / p.expected.seconds.max(f64::MIN_POSITIVE)));
        }
        line
    };
    println!("{}", table(&head, &points.iter().map(line).collect::<Vec<_>>()));
    let head = [
        "us a prefix",
        "intake",
        "decide",
        "fill",
        "write",
        "main",
        "letters",
        "CPU s of bgp",
        "predicted",
        "switches / 1000",
    ];
    let line = |p: &Point<'_>| {
        let mut line = vec![format!("{} threads", p.threads)];
        line.extend(p.each_route().map(|us| format!("{us:.2}")));
        line.push(p.model.messages.to_string());
        if let Some(measured) = p.measured {
            let routes = p.stages.read.1.max(1) as f64;
            line.push(format!("{:.2}", measured.cpu_s));
            line.push(format!("{:.2}", p.model.work() + p.model.others.main));
            line.push(format!("{:.2}", 1e3 * measured.switches / routes));
        }
        line
    };
    println!("{}", table(&head, &points.iter().map(line).collect::<Vec<_>>()));
}
