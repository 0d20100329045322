//! The measurements, as tables, rows, bars and plots.

use crate::background::Delays;
use crate::flow::{Flow, ROUTES};
use crate::profile::{POINTS, Times};
use bench_lab::Device;
use bench_report::{Bar, Plot, Report, Series, mean_sd, median, number, table};
use serde_json::json;
use sluice_load::RoutingTable;

/// The first line of an answer should be there within this many milliseconds.
const FIRST_LINE_MS: f64 = 200.0;

/// A route of figure 13 should be at the other peer within this many milliseconds.
const FLOW_MS: f64 = 10.0;

/// The paper's figure 13, as far as its text has numbers: routers, and the longest delay in milliseconds. The timer counted seconds.
const PAPER_FIGURE13: [(&str, f64); 2] = [("XORP and MRTD", 1000.0), ("Cisco 4500 and Quagga", 30_000.0)];

/// The measurements.
#[derive(Default)]
pub struct Results {
    /// To the kernel with an empty table.
    pub figure10: Times,
    /// With a full table, by the same peer.
    pub figure11: Times,
    /// With a full table, by another peer: each run.
    pub figure12: Vec<Times>,
    /// From peer to peer with an empty table.
    pub empty: Vec<(Device, Flow)>,
    /// From peer to peer with a full table, each run.
    pub full: Vec<(Device, Flow)>,
    /// From peer to peer with a full table while the router has other work.
    pub background: Vec<Delays>,
    /// Milliseconds to the first line while the table was loading.
    pub while_loading: Vec<f64>,
    /// The same with the table complete.
    pub at_rest: Vec<f64>,
    /// Number of answers with the longest match.
    pub matches: usize,
}

/// The value below which a share of the sorted values lies.
fn rank(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Delays of a flow, sorted.
fn delays(flow: &Flow) -> Vec<f64> {
    let mut all: Vec<f64> = flow.iter().map(|(_, delay)| *delay).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn within(flow: &Flow) -> usize {
    flow.iter().filter(|(_, delay)| *delay <= FLOW_MS).count()
}

impl Results {
    /// Prints the last round.
    pub fn show_round(&self, round: usize) {
        let mut text = format!("round {}:", round + 1);
        if let Some(kernel) = self.figure12.last().map(|times| &times[POINTS.len() - 1]) {
            let (p50, p99) = (rank(kernel, 0.5), rank(kernel, 0.99));
            text.push_str(&format!(" to the kernel p50 {p50:.3} ms, p99 {p99:.3} ms"));
        }
        for (device, flow) in self.full.iter().skip(round * 2) {
            let all = delays(flow);
            let (p50, p99) = (rank(&all, 0.5), rank(&all, 0.99));
            text.push_str(&format!("; to the other peer by {} p50 {p50:.3}, p99 {p99:.3}", device.name()));
        }
        println!("{text}");
    }

    /// Prints the last delays during other work.
    pub fn show_background(&self) {
        if let Some(during) = self.background.last() {
            let all = delays(&during.routes);
            println!(
                "{}, {}: {} changes in {:.1} s, {} routes, p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
                during.device.name(),
                during.work.name(),
                number(during.changes as f64),
                during.seconds,
                all.len(),
                rank(&all, 0.5),
                rank(&all, 0.99),
                largest(&all),
            );
        }
    }

    /// Prints and reports everything; the plots.
    pub fn report_to(
        &self,
        source: &str,
        routes: &RoutingTable,
        report: &mut Report,
    ) -> Vec<(&'static str, Plot)> {
        report.row(json!({
            "what": "full table", "table": source, "ipv4": routes.v4.len(), "ipv6": routes.v6.len(),
        }));
        let mut all = Times::default();
        for run in &self.figure12 {
            run.iter().zip(&mut all).for_each(|(from, to)| to.extend(from));
        }
        all.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let cases = [
            ("figure 10: empty table", 0, &self.figure10),
            ("figure 11: full table, same peer", 1, &self.figure11),
            ("figure 12: full table, another peer", 2, &all),
        ];
        for (what, figure, times) in cases {
            points(what, figure, times, report);
        }
        self.flows(report);
        self.during_work(report);
        self.first_lines(report);
        let of_runs = |share| {
            let runs: Vec<f64> = self.figure12.iter().map(|t| rank(&t[POINTS.len() - 1], share)).collect();
            median(&runs)
        };
        report.bar(Bar::lower("latency.p50_ms", of_runs(0.5), "ms", 0.5));
        report.bar(Bar::lower("latency.p99_ms", of_runs(0.99), "ms", 2.0));
        vec![
            ("", profile_plot(&cases.map(|(_, figure, times)| (figure, times)))),
            ("-figure13", flow_plot("full table", &first_of_each(&self.full))),
            ("-figure13-empty", flow_plot("empty table", &first_of_each(&self.empty))),
            ("-background", background_plot(&self.background)),
        ]
    }

    /// From peer to peer.
    fn flows(&self, report: &mut Report) {
        let mut lines = Vec::new();
        for (what, flows) in [("empty table", &self.empty), ("full table", &self.full)] {
            for (device, _) in first_of_each(flows) {
                let of: Vec<&Flow> = flows.iter().filter(|(d, _)| *d == device).map(|(_, f)| f).collect();
                let middle = |value: &dyn Fn(&Flow) -> f64| {
                    median(&of.iter().map(|flow| value(flow)).collect::<Vec<_>>())
                };
                let p50 = middle(&|f| rank(&delays(f), 0.5));
                let p99 = middle(&|f| rank(&delays(f), 0.99));
                let max = of.iter().map(|f| largest(&delays(f))).fold(0.0, f64::max);
                let (good, all) =
                    (of.iter().map(|f| within(f)).sum::<usize>(), of.len() * usize::from(ROUTES));
                report.row(json!({
                    "what": "peer to peer", "table": what, "router": device.name(), "runs": of.len(),
                    "p50_ms": p50, "p99_ms": p99, "max_ms": max,
                    "figure13": format!("{} of {ROUTES} within {FLOW_MS} ms", of.first().map_or(0, |f| within(f))),
                    "within": good, "of": all,
                }));
                let cell = |ms: f64| format!("{ms:.3}");
                lines.push(vec![
                    format!("{what}, {}", device.name()),
                    cell(p50),
                    cell(p99),
                    cell(max),
                    format!("{good} of {all}"),
                ]);
            }
        }
        let within = format!("within {FLOW_MS} ms");
        for (router, most) in PAPER_FIGURE13 {
            lines.push(vec![
                format!("the paper, {router}"),
                String::new(),
                String::new(),
                format!("{most:.0}"),
            ]);
            report
                .row(json!({ "what": "peer to peer", "router": format!("paper: {router}"), "max_ms": most }));
        }
        println!("{}", table(&["figure 13: peer to peer", "p50 ms", "p99 ms", "max ms", &within], &lines));
        // Run by run: what disturbs one disturbs its neighbor too.
        let of = |device| self.full.iter().filter(move |(d, _)| *d == device).map(|(_, flow)| delays(flow));
        let ratio = |share: f64| {
            let pairs = of(Device::Sluice).zip(of(Device::Bird));
            median(&pairs.map(|(a, b)| rank(&a, share) / rank(&b, share)).collect::<Vec<_>>())
        };
        let (p50, p99) = (ratio(0.5), ratio(0.99));
        println!("peer to peer at full table, Sluice / BIRD 2: p50 {p50:.2}, p99 {p99:.2}\n");
        report.row(json!({ "what": "peer to peer, full table, Sluice / BIRD 2", "p50": p50, "p99": p99 }));
    }

    /// From peer to peer while the router has other work.
    fn during_work(&self, report: &mut Report) {
        let mut lines = Vec::new();
        let mut most = 0.0;
        for during in &self.background {
            let all = delays(&during.routes);
            let (p50, p99, max) = (rank(&all, 0.5), rank(&all, 0.99), largest(&all));
            report.row(json!({
                "what": "peer to peer during background work", "router": during.device.name(),
                "work": during.work.name(), "changes": during.changes, "seconds": during.seconds,
                "routes": all.len(), "p50_ms": p50, "p99_ms": p99, "max_ms": max,
            }));
            if during.device == Device::Sluice {
                most = f64::max(most, p99);
            }
            let cell = |ms: f64| format!("{ms:.3}");
            let what = format!("{}, {}", during.device.name(), during.work.name());
            lines.push(vec![what, format!("{:.1}", during.seconds), cell(p50), cell(p99), cell(max)]);
        }
        println!("{}", table(&["peer to peer during other work", "s", "p50 ms", "p99 ms", "max ms"], &lines));
        report.bar(Bar::lower("latency.background_p99_ms", most, "ms", 10.0));
    }

    fn first_lines(&self, report: &mut Report) {
        for (what, all) in [("while the table loads", &self.while_loading), ("at full table", &self.at_rest)]
        {
            let (middle, most) = (median(all), largest(all));
            println!(
                "first line of `show routes ADDRESS` {what}: median {middle:.1} ms, at most {most:.1} ms, {} times",
                all.len()
            );
            report.row(json!({
                "what": "show.first_line_ms", "when": what, "median": middle, "max": most, "times": all.len(),
                "target": FIRST_LINE_MS, "reached": most <= FIRST_LINE_MS,
            }));
        }
        println!("{} of {} answers at full table were the longest match\n", self.matches, self.at_rest.len());
        report.row(json!({
            "what": "longest match at full table", "right": self.matches, "of": self.at_rest.len(),
        }));
    }
}

/// A table of the paper: measured values, and the paper's below each.
fn points(what: &str, figure: usize, times: &Times, report: &mut Report) {
    let mut lines = Vec::new();
    for (point, all) in POINTS.iter().zip(times).skip(1) {
        let (mean, sd) = mean_sd(all);
        let (min, max) = (all.first().copied().unwrap_or(0.0), largest(all));
        let (p50, p99) = (rank(all, 0.5), rank(all, 0.99));
        let paper = point.paper[figure];
        report.row(json!({
            "what": what, "point": point.name, "name": point.title, "routes": all.len(), "avg_ms": mean, "sd_ms": sd,
            "min_ms": min, "max_ms": max, "p50_ms": p50, "p99_ms": p99, "paper_avg_ms": paper.avg,
            "paper_sd_ms": paper.sd, "paper_min_ms": paper.min, "paper_max_ms": paper.max,
        }));
        let cells = [mean, sd, min, max, p50, p99].map(|ms| format!("{ms:.3}"));
        lines.push([vec![point.title.to_owned()], cells.into()].concat());
        let cells = [paper.avg, paper.sd, paper.min, paper.max].map(|ms| format!("{ms:.3}"));
        lines.push([vec!["  the paper".to_owned()], cells.into()].concat());
    }
    let head = [what, "avg ms", "SD", "min", "max", "p50", "p99"];
    println!("{}", table(&head, &lines));
}

/// The first run of each router.
fn first_of_each(flows: &[(Device, Flow)]) -> Vec<(Device, &Flow)> {
    let mut first: Vec<(Device, &Flow)> = Vec::new();
    for (device, flow) in flows {
        if !first.iter().any(|(d, _)| d == device) {
            first.push((*device, flow));
        }
    }
    first
}

fn flow_plot(what: &str, flows: &[(Device, &Flow)]) -> Plot {
    let series = flows.iter().map(|(device, flow)| Series {
        name: device.name().to_owned(),
        points: flow.iter().map(|(at, delay)| (*at, *delay, 0.0)).collect(),
    });
    Plot {
        title: format!("{} routes from peer to peer, {what} (XORP, figure 13)", number(ROUTES.into())),
        x: "when the route was sent, s".to_owned(),
        y: "until it is at the other peer, ms".to_owned(),
        logarithmic: true,
        boxes: Vec::new(),
        names: Vec::new(),
        series: series.collect(),
    }
}

fn background_plot(all: &[Delays]) -> Plot {
    let series = all.iter().map(|during| Series {
        name: format!("{}, {}", during.device.name(), during.work.name()),
        points: during.routes.iter().map(|(at, delay)| (*at, *delay, 0.0)).collect(),
    });
    Plot {
        title: "Routes from peer to peer at full table, while the router has other work".to_owned(),
        x: "when the route was sent, s since the beginning of the work".to_owned(),
        y: "until it is at the other peer, ms".to_owned(),
        logarithmic: true,
        boxes: Vec::new(),
        names: Vec::new(),
        series: series.collect(),
    }
}

fn profile_plot(cases: &[(usize, &Times)]) -> Plot {
    const NAMES: [&str; 7] = ["RIB queue", "RIB sent", "at RIB", "FEA queue", "FEA sent", "at FEA", "kernel"];
    let series = |name: String, value: &dyn Fn(usize) -> (f64, f64)| Series {
        name,
        points: (0..NAMES.len())
            .map(|i| {
                let (mean, sd) = value(i + 1);
                (i as f64, mean, sd)
            })
            .collect(),
    };
    let mut all: Vec<Series> = cases
        .iter()
        .map(|(figure, times)| series(format!("figure {}", figure + 10), &|point| mean_sd(&times[point])))
        .collect();
    all.push(series("paper, figure 12".to_owned(), &|point| {
        (POINTS[point].paper[2].avg, POINTS[point].paper[2].sd)
    }));
    Plot {
        title: "A route from BGP to the kernel (XORP, figures 10 to 12)".to_owned(),
        x: String::new(),
        y: "ms since entering BGP".to_owned(),
        logarithmic: true,
        boxes: Vec::new(),
        names: NAMES.map(str::to_owned).into(),
        series: all,
    }
}
