//! The balancer by the number of inner interfaces: figure 5. The limit of the paper's network cards, memory latency, is a budget at the
//! far end of each inner link.

use crate::element::{Budget, Front, Port, Spent};
use crate::{PAPER_BALANCER, PAPER_ROUTER};
use anyhow::Result;
use bench_forward::network::interface;
use bench_report::{Plot, Report, Series, number, table};
use serde_json::json;
use sluice_bpf::{Embedded, Link, Loader};
use sluice_cluster::balancer::Input;
use sluice_lab::{Lab, LabOptions};
use sluice_pktgen::{Generator, Spec};
use std::num::NonZeroU64;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most inner interfaces.
const MOST: usize = 5;
/// The time before a measurement begins.
const WARM_UP: Duration = Duration::from_millis(500);

fn topology() -> String {
    let link = |a: &str, b: &str| format!("[[links]]\na = '{a}'\nb = '{b}'\nxdp = true\n");
    let inner: String = (0..MOST).map(|n| link(&format!("b:in{n}"), &format!("s:far{n}"))).collect();
    format!("[nodes.a]\n[nodes.b]\n[nodes.s]\n{}{inner}", link("a:aout", "b:out"))
}

/// Measures, prints and reports.
pub fn run(share: f64, seconds: f64, report: &mut Report) -> Result<Plot> {
    let lab = Lab::up(&topology().parse()?, LabOptions::unique("bench-multistage"))?;
    let rates = (1..=MOST).map(|inners| measure(&lab, inners, share, seconds)).collect::<Result<Vec<_>>>();
    lab.down()?;
    let rates = rates?;
    let (line, card) = (PAPER_BALANCER * share, PAPER_ROUTER * share);
    let expected = |inners: usize| line.min(card * inners as f64);
    let mut lines = Vec::new();
    for (inners, rate) in (1..).zip(&rates) {
        lines.push(vec![format!("DTX-{inners}"), number(*rate), number(expected(inners)), number(card)]);
        report.row(json!({
            "what": "figure 5", "inner_interfaces": inners, "packets_per_s": rate, "expected": expected(inners),
            "share": share,
        }));
    }
    println!("{}", table(&["inner interfaces", "packets/s", "min(n x card, line)", "one router"], &lines));
    let over = |rate: &dyn Fn(usize) -> f64| {
        (1..=MOST).map(|n| (n as f64, rate(n) / 1000.0, 0.0)).collect::<Vec<_>>()
    };
    let series = |name: &str, points| Series { name: name.to_owned(), points };
    Ok(Plot {
        title: format!("A balancer by inner interfaces (paper: figure 5, x {share})"),
        x: "inner interfaces (DTX-n)".to_owned(),
        y: "thousand packets a second".to_owned(),
        logarithmic: false,
        names: Vec::new(),
        boxes: Vec::new(),
        series: vec![
            series("balancer", over(&|n| rates[n - 1])),
            series("paper: line rate", over(&|_| line)),
            series("paper: one router", over(&|_| card)),
        ],
    })
}

/// Returns the packets a second that arrive through `inners` interfaces with the limit of the paper's card.
fn measure(lab: &Lab, inners: usize, share: f64, seconds: f64) -> Result<f64> {
    let mac = interface(lab, "b", "out")?.1;
    let (_front, _links) = lab.inside("b", || -> Result<(Front, Vec<Link>)> {
        let ports = [Port { number: 1, balancer: 1, mac }];
        let mut front = Front::new(Loader::new(Embedded::Balance).load()?, 1, &ports, 1)?;
        front.outer(1, interface(lab, "b", "out")?.0)?;
        let names: Vec<String> = (0..inners).map(|n| format!("in{n}")).collect();
        let indices = names.iter().map(|name| Ok(interface(lab, "b", name)?.0)).collect::<Result<_>>()?;
        front.input(Input::Inner(indices))?;
        let attach = |name: &str| Ok(Link::attach(name, front.program.program())?);
        let links = ["out"].into_iter().chain(names.iter().map(String::as_str)).map(attach);
        let links = links.collect::<Result<_>>()?;
        Ok((front, links))
    })??;
    let cards = lab.inside("s", || -> Result<Vec<Budget>> {
        let card = |n: usize| {
            let mut budget = Budget::load(PAPER_ROUTER * share, true, |loader| loader)?;
            budget.attach(&format!("far{n}"))?;
            Ok(budget)
        };
        (0..inners).map(card).collect()
    })??;
    let mut spec = Spec::udp("aout", mac, "10.0.0.2".parse()?, vec!["198.18.0.1".parse()?]);
    spec.rate = NonZeroU64::new((PAPER_BALANCER * share) as u64);
    let running = lab.inside("a", || Generator::new(spec).start())??;
    sleep(WARM_UP);
    let within = || cards.iter().map(Budget::spent).map(|Spent { within, .. }| within).sum::<u64>();
    let (begin, before) = (Instant::now(), within());
    sleep(Duration::from_secs_f64(seconds));
    let rate = (within() - before) as f64 / begin.elapsed().as_secs_f64();
    running.stop()?;
    Ok(rate)
}
