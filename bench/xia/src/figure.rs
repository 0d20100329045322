//! The measurements of all stacks in turn, and what is printed, reported and drawn of them.

use crate::beds::{Sample, on_bed};
use crate::cases::{Case, MOST_UPDATES, Part, Stack};
use crate::domains::Domains;
use anyhow::{Result, ensure};
use bench_report::{Bar, Plot, Report, Series, Spread, median, number, table};
use serde_json::json;
use sluice_pktgen::XipFormat;
use std::path::Path;

/// The form of address that stands for XIP in the sweeps.
const XIP: Stack = Stack::Xip(XipFormat::Fb0);

/// The samples of a case by one stack, one for each round.
#[derive(Clone, Debug)]
pub struct Cell {
    case: Case,
    stack: Stack,
    samples: Vec<Sample>,
}

impl Cell {
    fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.run.per_cpu_second).collect()
    }

    fn rate(&self) -> f64 {
        median(&self.rates())
    }
}

/// Measures all cases: in each round all stacks, each with a lab of its own, in an order that is turned around every round.
pub fn measure(
    cases: &[Case],
    domains: &Domains,
    rounds: usize,
    seconds: f64,
    pins: &Path,
) -> Result<Vec<Cell>> {
    let mut cells: Vec<Cell> = Vec::new();
    for stack in Stack::ALL {
        let own = cases.iter().filter(|case| case.concerns(stack));
        cells.extend(own.map(|case| Cell { case: *case, stack, samples: Vec::new() }));
    }
    for round in 0..rounds {
        let mut stacks = Stack::ALL;
        if round % 2 == 1 {
            stacks.reverse();
        }
        for stack in stacks {
            let mut counts: Vec<usize> = cases.iter().map(|case| case.ports).collect();
            counts.sort_unstable();
            counts.dedup();
            let is_last = round + 1 == rounds;
            for ports in counts {
                let is_own = |cell: &&mut Cell| cell.stack == stack && cell.case.ports == ports;
                let own: Vec<&mut Cell> = cells.iter_mut().filter(is_own).collect();
                if own.is_empty() {
                    continue;
                }
                on_bed(stack, domains, ports, pins, |bed| {
                    for cell in own {
                        let sample = bed.measure(&cell.case, seconds)?;
                        println!("round {}, {}: {}", round + 1, stack.name(), describe(&cell.case, &sample));
                        cell.samples.push(sample);
                    }
                    let last = cases.iter().find(|case| case.part == Part::Updates && case.ports == ports);
                    if let (Some(case), true) = (last.filter(|case| case.concerns(stack)), is_last) {
                        let strays = bed.strays(case)?;
                        ensure!(
                            strays == 0,
                            "{}: {strays} packets went the old way after all updates",
                            stack.name()
                        );
                        println!("{}: no packet goes the old way after all updates", stack.name());
                    }
                    Ok(())
                })?;
            }
        }
    }
    Ok(cells)
}

fn describe(case: &Case, sample: &Sample) -> String {
    format!(
        "exponent {}, {} octets, {} ports, {} updates/s: {} packets/CPU s, {} packets/s, {:.1} % arrived",
        case.exponent,
        case.size,
        case.ports,
        number(sample.updates),
        number(sample.run.per_cpu_second),
        number(sample.run.per_second),
        sample.run.arrived * 100.0
    )
}

/// Prints tables, adds rows and bars, and returns the plots with the suffixes of their files.
pub fn report(cells: &[Cell], report: &mut Report) -> Vec<(&'static str, Plot)> {
    for cell in cells {
        let middle =
            |value: &dyn Fn(&Sample) -> f64| median(&cell.samples.iter().map(value).collect::<Vec<_>>());
        report.row(json!({
            "what": format!("{:?}", cell.case.part).to_lowercase(), "stack": cell.stack.name(),
            "exponent": cell.case.exponent, "octets": cell.case.size, "ports": cell.case.ports, "updates_wanted_per_s": cell.case.updates,
            "updates_per_s": middle(&|s| s.updates), "packets_per_cpu_s": cell.rate(),
            "packets_per_s": middle(&|s| s.run.per_second), "arrived": middle(&|s| s.run.arrived),
            "paper_vs_ip": (cell.case.part == Part::Zipf && cell.case.exponent == 0.8 && cell.stack == XIP).then_some(0.42),
            "runs": cell.samples.len(), "all_per_cpu_s": cell.rates(),
        }));
    }
    let mut plots = Vec::new();
    let of = |part: Part| cells.iter().filter(|cell| cell.case.part == part).cloned().collect::<Vec<_>>();
    let (zipf, updates, sizes) = (of(Part::Zipf), of(Part::Updates), of(Part::Sizes));
    let ports = of(Part::Ports);
    if !zipf.is_empty() {
        compare(&zipf, "Zipf exponent, 256 octets", |case| case.exponent.to_string(), paper_by_exponent);
        report.bar(Bar::higher("xia.vs_ip_worst_zipf", worst(&zipf), "x", 3.0));
        plots.push(("-zipf", by_exponent(&zipf)));
    }
    if !sizes.is_empty() {
        compare(&sizes, "octets of a frame", |case| case.size.to_string(), |_| "small impact");
        plots.push(("-sizes", by_size(&sizes)));
    }
    if !ports.is_empty() {
        compare(&ports, "ports out", |case| case.ports.to_string(), |_| "");
        plots.push(("-ports", by_ports(&ports)));
    }
    if !updates.is_empty() {
        by_updates_printed(&updates);
        let kept = ratio(&updates, XIP, XIP, |case| case.updates == MOST_UPDATES, |case| case.updates == 0);
        report.bar(Bar::higher("xia.rate_at_100k_updates", kept, "x", 0.95));
        plots.push(("-updates", by_updates(&updates)));
    }
    plots
}

/// Returns the paper's words about XIA beside IP.
fn paper_by_exponent(case: &Case) -> &'static str {
    match case.exponent {
        exponent if !(0.5..=1.2).contains(&exponent) => "above 1",
        0.8 => "0.42",
        _ => "0.42 to 1",
    }
}

/// Returns the median over the rounds of the rate of a stack in one case divided by that of another stack in another case.
fn ratio(
    cells: &[Cell],
    upper: Stack,
    lower: Stack,
    upper_case: impl Fn(&Case) -> bool,
    lower_case: impl Fn(&Case) -> bool,
) -> f64 {
    let rates = |stack: Stack, is_it: &dyn Fn(&Case) -> bool| {
        let cell = cells.iter().find(|cell| cell.stack == stack && is_it(&cell.case));
        cell.map(Cell::rates).unwrap_or_default()
    };
    let (upper, lower) = (rates(upper, &upper_case), rates(lower, &lower_case));
    median(&upper.iter().zip(&lower).map(|(upper, lower)| upper / lower).collect::<Vec<_>>())
}

fn beside(cells: &[Cell], other: Stack, case: &Case) -> f64 {
    ratio(cells, XIP, other, |own| own == case, |own| own == case)
}

/// Returns the cases of the cells in order.
fn cases(cells: &[Cell]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for cell in cells {
        if !cases.contains(&cell.case) {
            cases.push(cell.case);
        }
    }
    cases
}

fn worst(cells: &[Cell]) -> f64 {
    let ratios = cases(cells).into_iter().map(|case| beside(cells, Stack::Kernel, &case));
    ratios.fold(f64::INFINITY, f64::min)
}

fn rate_of(cells: &[Cell], stack: Stack, case: &Case) -> f64 {
    cells.iter().find(|cell| cell.stack == stack && cell.case == *case).map_or(0.0, Cell::rate)
}

fn compare(
    cells: &[Cell],
    what: &str,
    name: impl Fn(&Case) -> String,
    paper: impl Fn(&Case) -> &'static str,
) {
    let line = |case: &Case| {
        let rate = |stack| number(rate_of(cells, stack, case));
        let times = |other| format!("{:.2}", beside(cells, other, case));
        vec![
            name(case),
            rate(Stack::Kernel),
            rate(Stack::FastIp),
            rate(XIP),
            times(Stack::Kernel),
            times(Stack::FastIp),
            paper(case).to_owned(),
        ]
    };
    let head = [
        what,
        "kernel IPv4/CPU s",
        "Sluice IPv4/CPU s",
        "Sluice XIP/CPU s",
        "XIP/kernel",
        "XIP/Sluice IPv4",
        "paper: XIP/kernel",
    ];
    println!("{}", table(&head, &cases(cells).iter().map(line).collect::<Vec<_>>()));
}

fn by_updates_printed(cells: &[Cell]) {
    let lines: Vec<_> = cells
        .iter()
        .map(|cell| {
            let made = median(&cell.samples.iter().map(|sample| sample.updates).collect::<Vec<_>>());
            let still = Case { updates: 0, ..cell.case };
            let kept = ratio(cells, cell.stack, cell.stack, |case| *case == cell.case, |case| *case == still);
            let paper = match (cell.stack, cell.case.updates) {
                (Stack::Kernel, MOST_UPDATES) => "could not keep up",
                (Stack::FastIp, _) => "",
                _ => "small impact",
            };
            vec![
                cell.stack.name(),
                number(cell.case.updates.into()),
                number(made),
                number(cell.rate()),
                format!("{kept:.2}"),
                paper.to_owned(),
            ]
        })
        .collect();
    let head =
        ["stack", "updates/s wanted", "made", "packets/CPU s", "of the rate without", "paper, same column"];
    println!("{}", table(&head, &lines));
}

/// Draws a box for each of some stacks and each case. Cases have a name each; a stack without a measurement of a case has no box there.
fn boxes(cells: &[Cell], stacks: &[Stack], title: &str, x: &str, name: impl Fn(&Case) -> String) -> Plot {
    let cases = cases(cells);
    let spread = |stack: Stack, case: &Case| {
        let cell = cells.iter().find(|cell| cell.stack == stack && cell.case == *case)?;
        Spread::of(&cell.rates().iter().map(|rate| rate / 1000.0).collect::<Vec<_>>())
    };
    let runs = cells.iter().map(|cell| cell.samples.len()).max().unwrap_or_default();
    let fixed = cases.first().map_or(String::new(), |case| match case.part {
        Part::Zipf => format!("{} octets, {} ports", case.size, case.ports),
        Part::Sizes => format!("exponent {:.1}, {} ports", case.exponent, case.ports),
        Part::Ports => format!("exponent {:.1}, {} octets", case.exponent, case.size),
        _ => format!("exponent {:.1}, {} octets, {} ports", case.exponent, case.size, case.ports),
    });
    let series = |stack: &Stack| Series { name: stack.name(), points: Vec::new() };
    Plot {
        title: format!("{title}: {fixed}, {runs} runs"),
        x: x.to_owned(),
        y: "thousand packets a second of CPU time".to_owned(),
        logarithmic: false,
        names: cases.iter().map(name).collect(),
        series: stacks.iter().map(series).collect(),
        boxes: stacks.iter().map(|stack| cases.iter().map(|case| spread(*stack, case)).collect()).collect(),
    }
}

/// The stacks that are measured in all cases.
const SWEPT: [Stack; 3] = [Stack::Kernel, Stack::FastIp, XIP];

fn by_exponent(cells: &[Cell]) -> Plot {
    let title = "Popularity of destinations (figure 5, right)";
    let x = "Zipf exponent; the paper's XIA forwards 42 % of its IP at 0.8";
    boxes(cells, &SWEPT, title, x, |case| case.exponent.to_string())
}

fn by_updates(cells: &[Cell]) -> Plot {
    let title = "Updates and forms of address (figure 5, left)";
    boxes(cells, &Stack::ALL, title, "updates a second wanted", |case| number(case.updates.into()))
}

fn by_size(cells: &[Cell]) -> Plot {
    boxes(cells, &SWEPT, "Sizes of packets", "octets of a frame", |case| case.size.to_string())
}

fn by_ports(cells: &[Cell]) -> Plot {
    boxes(cells, &SWEPT, "Ports", "ports out of the router", |case| case.ports.to_string())
}
