//! One balancer beside one router, the kernel: packets per processor second of the polling threads, by frame size.

use crate::element::{Front, Port};
use crate::{PAPER_BALANCER, PAPER_ROUTER};
use anyhow::{Context, Result, ensure};
use bench_forward::network::{IN, OUT, SOURCE, interface};
use bench_forward::router::{Engines, Router};
use bench_forward::traffic::{Run, STREAM, launch, meter, on_lab, sink};
use bench_report::{Bar, Plot, Report, Series, median, number, table};
use serde_json::json;
use sluice_base::IpPrefix;
use sluice_bpf::{Embedded, Link, Loader};
use sluice_cluster::balancer::Input;
use sluice_lab::Lab;
use sluice_pktgen::Spec;
use std::path::Path;

/// Octets of frames without the check sequence: 64 to 1,518 octets on the wire, as in the paper's figure 2.
const SIZES: [usize; 6] = [60, 124, 252, 508, 1020, 1514];
/// The ways of the network.
const WAYS: usize = 2;

/// A machine under test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    Balancer,
    Router,
}

const MACHINES: [Machine; 2] = [Machine::Balancer, Machine::Router];

impl Machine {
    const fn name(self) -> &'static str {
        match self {
            Machine::Balancer => "balancer",
            Machine::Router => "router (kernel)",
        }
    }
}

/// Measures, prints and reports.
pub fn run(rounds: usize, seconds: f64, pins: &Path, report: &mut Report) -> Result<Plot> {
    let mut runs: [[Vec<f64>; SIZES.len()]; 2] = Default::default();
    for round in 0..rounds {
        for place in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let rates = measure(MACHINES[place], seconds, pins)?;
            for (of_size, run) in runs[place].iter_mut().zip(rates) {
                of_size.push(run.per_cpu_second);
            }
        }
        println!("round {} of {rounds}", round + 1);
    }
    let ratios: Vec<f64> = runs[0][0].iter().zip(&runs[1][0]).map(|(ours, router)| ours / router).collect();
    let middle = runs.each_ref().map(|sizes| sizes.each_ref().map(|rates| median(rates)));
    let mut lines = Vec::new();
    for (place, size) in SIZES.into_iter().enumerate() {
        lines.push(vec![
            (size + 4).to_string(),
            number(middle[0][place]),
            number(middle[1][place]),
            format!("{:.1}", middle[0][place] / middle[1][place]),
        ]);
        for (machine, rates) in MACHINES.into_iter().zip(&middle) {
            report.row(json!({
                "what": "one machine", "machine": machine.name(), "octets": size + 4, "packets_per_cpu_s": rates[place],
                "runs": rounds,
            }));
        }
    }
    println!("{}", table(&["octets of a frame", "balancer/CPU s", "router/CPU s", "ratio"], &lines));
    println!("paper: {:.1} (1,488,000 to 640,000 packets a second)", PAPER_BALANCER / PAPER_ROUTER);
    report.bar(Bar::higher("multistage.balancer_vs_routing", median(&ratios), "x", 4.0));
    let series = |machine: Machine, rates: &[f64; SIZES.len()]| Series {
        name: machine.name().to_owned(),
        points: SIZES.iter().zip(rates).map(|(size, rate)| ((size + 4) as f64, rate / 1000.0, 0.0)).collect(),
    };
    Ok(Plot {
        title: "One machine by frame size (paper: figure 2)".to_owned(),
        x: "octets of a frame".to_owned(),
        y: "thousand packets a second of CPU time".to_owned(),
        logarithmic: false,
        names: Vec::new(),
        boxes: Vec::new(),
        series: MACHINES
            .into_iter()
            .zip(&middle)
            .map(|(machine, rates)| series(machine, rates))
            .chain(paper())
            .collect(),
    })
}

/// Returns the curves of the paper's figure 2: the line rate of 1 Gbit/s Ethernet, and the rate that a single computer has of it. The paper names
/// that rate for frames of 64 octets; it holds up to the size at which the line is slower.
fn paper() -> [Series; 2] {
    // Octets of the preamble and of the gap between frames.
    const AROUND: f64 = 20.0;
    let line = |octets: f64| 1e9 / (8.0 * (octets + AROUND));
    let curve = |name: &str, rate: &dyn Fn(f64) -> f64| Series {
        name: name.to_owned(),
        points: SIZES
            .iter()
            .map(|size| (*size + 4) as f64)
            .map(|octets| (octets, rate(octets) / 1000.0, 0.0))
            .collect(),
    };
    [curve("paper: line rate", &line), curve("paper: a computer", &|octets| line(octets).min(PAPER_ROUTER))]
}

/// Measures a machine with frames of each size.
fn measure(machine: Machine, seconds: f64, pins: &Path) -> Result<Vec<Run>> {
    on_lab(|lab, threads| {
        let sizes = |meanwhile: &mut dyn FnMut() -> Result<()>| -> Result<Vec<Run>> {
            let one = |size: usize| {
                let sinks: Vec<_> = (0..WAYS).map(|way| sink(lab, way)).collect::<Result<_>>()?;
                let running = launch(lab, packets(lab, size)?)?;
                let received = || Ok(sinks.iter().map(|sink| sink.tally().received).sum());
                let run = meter(&threads, running, received, seconds, &mut *meanwhile)?;
                ensure!(run.per_second > 0.0, "no packet arrived");
                Ok(run)
            };
            SIZES.into_iter().map(one).collect()
        };
        match machine {
            Machine::Balancer => {
                let (_front, _links) = balancer(lab)?;
                sizes(&mut || Ok(()))
            }
            Machine::Router => {
                let mut router = Router::start(lab, Engines::Kernel, pins)?;
                let all: IpPrefix = "198.18.0.0/15".parse().context("a prefix")?;
                router.load(&[all])?;
                router.settle()?;
                sizes(&mut || router.pump())
            }
        }
    })
}

fn packets(lab: &Lab, size: usize) -> Result<Spec> {
    let destination = "198.18.0.1".parse()?;
    let mut spec = Spec::udp(SOURCE, interface(lab, "r", IN)?.1, "10.0.0.2".parse()?, vec![destination]);
    spec.stream = STREAM;
    spec.size = Some(size);
    Ok(spec)
}

/// Makes the node `r` a balancer with one outer port, two inner interfaces and two routers behind.
fn balancer(lab: &Lab) -> Result<(Front, Vec<Link>)> {
    let (outer, mac) = interface(lab, "r", IN)?;
    let ports = [Port { number: 1, balancer: 1, mac }];
    let mut front = Front::new(Loader::new(Embedded::Balance).load()?, 1, &ports, 2)?;
    let inner: Vec<_> =
        OUT.into_iter().map(|name| Ok(interface(lab, "r", name)?.0)).collect::<Result<_>>()?;
    front.outer(1, outer)?;
    front.input(Input::Inner(inner))?;
    let attach = |name: &str| Ok(Link::attach(name, front.program.program())?);
    let links = [IN, OUT[0], OUT[1]].into_iter().map(attach).collect::<Result<_>>()?;
    Ok((front, links))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_curve_begins_at_its_rates() {
        let [line, computer] = paper();
        // 1,488 and 640 thousand packets a second with frames of 64 octets, the line rate with frames of 1,518 octets.
        assert_eq!((line.points[0].0, line.points[0].1.round(), computer.points[0].1), (64.0, 1488.0, 640.0));
        assert_eq!(line.points.last(), computer.points.last());
        assert_eq!(line.points.last().map(|point| point.1.round()), Some(81.0));
    }
}
