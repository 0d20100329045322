//! The router by the numbers of balancers and routers: figure 6. Each element has a budget in the paper's proportion, so that the
//! elements are the bottleneck and not this machine. The real cost of a packet in each kind of element is printed beside.

use crate::element::{Budget, FIRST_ROUTER, Front, Port, Spent};
use crate::{PAPER_BALANCER, PAPER_ROUTER};
use anyhow::{Context, Result};
use bench_forward::network::{cpu_of, interface, new_threads, poll_by_thread, polling_threads};
use bench_report::{Bar, Plot, Report, Series, number, table};
use serde_json::json;
use sluice_bpf::layout::Slot;
use sluice_bpf::slots::Slots;
use sluice_bpf::{Embedded, Link, Loader, Pins};
use sluice_cluster::balancer::Input;
use sluice_lab::{Lab, LabOptions};
use sluice_pktgen::{Generator, Running, Sink, Spec};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most balancers, and the most routers.
const MOST: u16 = 4;
/// Outer ports to sinks have the number of the port to the source and this.
const TO_SINK: u16 = 100;
/// The rate of a source, in budgets of a balancer.
const OFFERED: f64 = 1.25;
/// The time before a measurement begins: longer than the budgets' bursts.
const WARM_UP: Duration = Duration::from_millis(700);

/// A balancer with its budget.
struct Balancer {
    front: Front,
    budget: Budget,
    _inner: Link,
    _pins: Pins,
}

/// The laboratory: all balancers and routers. A measurement uses the first ones.
struct Bed {
    lab: Lab,
    balancers: Vec<Balancer>,
    routers: Vec<Budget>,
    sinks: Vec<Sink>,
    threads: BTreeMap<String, Vec<u32>>,
    share: f64,
}

/// The result for some numbers of balancers and routers.
struct Sample {
    balancers: u16,
    routers: u16,
    rate: f64,
    /// Processor time of a packet in a balancer and in a router, in nanoseconds.
    costs: [f64; 2],
}

impl Sample {
    /// Returns the rate by the paper's law.
    fn expected(&self, share: f64) -> f64 {
        share * (f64::from(self.balancers) * PAPER_BALANCER).min(f64::from(self.routers) * PAPER_ROUTER)
    }

    fn error(&self, share: f64) -> f64 {
        (self.rate / self.expected(share) - 1.0).abs()
    }
}

/// Measures, prints and reports.
pub fn run(share: f64, seconds: f64, pins: &Path, report: &mut Report) -> Result<Plot> {
    let mut bed = Bed::up(share, pins)?;
    let mut samples = Vec::new();
    for balancers in 1..=MOST {
        for routers in 1..=MOST {
            samples.push(bed.measure(balancers, routers, seconds)?);
        }
    }
    bed.lab.down()?;
    let mut lines = Vec::new();
    for sample in &samples {
        let expected = sample.expected(share);
        lines.push(vec![
            format!("{} x {}", sample.balancers, sample.routers),
            number(sample.rate),
            number(expected),
            format!("{:.1} %", 100.0 * sample.error(share)),
            number(sample.costs[0]),
            number(sample.costs[1]),
        ]);
        report.row(json!({
            "what": "figure 6", "balancers": sample.balancers, "routers": sample.routers, "packets_per_s": sample.rate,
            "expected": expected, "share": share, "balancer_ns": sample.costs[0], "router_ns": sample.costs[1],
        }));
    }
    let head = ["balancers x routers", "packets/s", "min(N1 b, N2 r)", "error", "balancer ns", "router ns"];
    println!("{}", table(&head, &lines));
    let worst = samples.iter().map(|sample| sample.error(share)).fold(0.0, f64::max);
    report.bar(Bar::lower("multistage.scaling_error", worst, "", 0.10));
    Ok(plot(share, &samples))
}

fn plot(share: f64, samples: &[Sample]) -> Plot {
    let curve = |balancers: u16, name: &str, rate: &dyn Fn(&Sample) -> f64| {
        let of = samples.iter().filter(|sample| sample.balancers == balancers);
        let points = of.map(|sample| (f64::from(sample.routers), rate(sample) / 1000.0, 0.0)).collect();
        Series { name: format!("{balancers} {name}"), points }
    };
    let measured = (1..=MOST).map(|n| curve(n, "balancers", &|sample| sample.rate));
    let paper = (1..=MOST).map(|n| curve(n, "in the paper", &|sample| sample.expected(share)));
    Plot {
        title: format!("The router by its elements (paper: figure 6, x {share})"),
        x: "routers".to_owned(),
        y: "thousand packets a second".to_owned(),
        logarithmic: false,
        names: Vec::new(),
        boxes: Vec::new(),
        series: measured.chain(paper).collect(),
    }
}

/// Describes the laboratory: sources `a1` and so on, balancers `b1`, the switch `s`, routers `r1`, sinks `t1`. Names of interfaces are
/// unique, because polling threads are found by names of interfaces.
fn topology() -> String {
    let link = |a: String, b: String| format!("[[links]]\na = '{a}'\nb = '{b}'\nxdp = true\n");
    let mut text = String::from("[nodes.s]\ndaemon = 'switch'\n");
    for n in 1..=MOST {
        text += &format!("[nodes.a{n}]\n[nodes.b{n}]\n[nodes.t{n}]\n[nodes.r{n}]\nforwarding = true\n");
        text += &link(format!("a{n}:a{n}e"), format!("b{n}:b{n}o"));
        text += &link(format!("b{n}:b{n}t"), format!("t{n}:t{n}e"));
        text += &link(format!("b{n}:b{n}i"), format!("s:sb{n}"));
        text += &link(format!("r{n}:r{n}e"), format!("s:sr{n}"));
    }
    text
}

/// The virtual MAC address of a port.
fn virtual_mac(port: u16) -> [u8; 6] {
    let [high, low] = port.to_be_bytes();
    [2, 0, 0, 1, high, low]
}

/// The MAC address of a router on the interconnect for a port, as `docs/cluster.md` has it.
fn inner_mac(router: u16, port: u16) -> String {
    let ([a, b], [c, d]) = ((FIRST_ROUTER + router - 1).to_be_bytes(), port.to_be_bytes());
    format!("02:5c:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

fn text_of(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

/// The ports of all balancers.
fn ports() -> Vec<Port> {
    let of = |balancer: u16| [balancer, TO_SINK + balancer].map(|number| (number, balancer));
    let all = (1..=MOST).flat_map(of);
    all.map(|(number, balancer)| Port { number, balancer, mac: virtual_mac(number) }).collect()
}

impl Bed {
    fn up(share: f64, pins: &Path) -> Result<Self> {
        let before = polling_threads();
        let lab = Lab::up(&topology().parse()?, LabOptions::unique("bench-multistage"))?;
        let mut polled = Vec::new();
        for n in 1..=MOST {
            for (node, interface) in [
                (format!("b{n}"), format!("b{n}o")),
                (format!("b{n}"), format!("b{n}i")),
                (format!("r{n}"), format!("r{n}e")),
                ("s".to_owned(), format!("sb{n}")),
                ("s".to_owned(), format!("sr{n}")),
            ] {
                poll_by_thread(&lab, &node, &interface)?;
                polled.push(interface);
            }
        }
        let names: Vec<&str> = polled.iter().map(String::as_str).collect();
        let threads = new_threads(&before, &names)?;
        let sink_macs: Vec<[u8; 6]> = (1..=MOST)
            .map(|n| Ok(interface(&lab, &format!("t{n}"), &format!("t{n}e"))?.1))
            .collect::<Result<_>>()?;
        for n in 1..=MOST {
            make_router(&lab, n, &sink_macs)?;
        }
        teach_switch(&lab, &sink_macs)?;
        let balancers =
            (1..=MOST).map(|n| make_balancer(&lab, n, share, &sink_macs, pins)).collect::<Result<_>>()?;
        let routers = (1..=MOST)
            .map(|n| {
                lab.inside(&format!("r{n}"), || {
                    let mut budget = Budget::load(PAPER_ROUTER * share, false, |loader| loader)?;
                    budget.attach(&format!("r{n}e"))?;
                    Ok(budget)
                })?
            })
            .collect::<Result<_>>()?;
        let sinks = (1..=MOST)
            .map(|n| Ok(lab.inside(&format!("t{n}"), || Sink::attach(&format!("t{n}e"), n.into()))??))
            .collect::<Result<_>>()?;
        Ok(Bed { lab, balancers, routers, sinks, threads, share })
    }

    /// Measures with the first `balancers` balancers and the first `routers` routers.
    fn measure(&mut self, balancers: u16, routers: u16, seconds: f64) -> Result<Sample> {
        for balancer in &mut self.balancers {
            balancer.front.serve_by(routers)?;
        }
        let running: Vec<Running> = (1..=balancers).map(|n| self.source(n)).collect::<Result<_>>()?;
        sleep(WARM_UP);
        let (begin, before, spent) = (Instant::now(), self.received(), self.spent()?);
        sleep(Duration::from_secs_f64(seconds));
        let rate = (self.received() - before) as f64 / begin.elapsed().as_secs_f64();
        let after = self.spent()?;
        for running in running {
            running.stop()?;
        }
        let cost = |place: usize| {
            let ((cpu, frames), (cpu_before, frames_before)) = (after[place], spent[place]);
            (cpu - cpu_before).as_nanos() as f64 / (frames - frames_before).max(1) as f64
        };
        Ok(Sample { balancers, routers, rate, costs: [cost(0), cost(1)] })
    }

    fn source(&self, n: u16) -> Result<Running> {
        let destination = format!("10.{}.0.2", TO_SINK + n).parse()?;
        let mut spec =
            Spec::udp(&format!("a{n}e"), virtual_mac(n), format!("10.{n}.0.2").parse()?, vec![destination]);
        spec.stream = n.into();
        spec.rate = NonZeroU64::new((PAPER_BALANCER * self.share * OFFERED) as u64);
        Ok(self.lab.inside(&format!("a{n}"), || Generator::new(spec).start())??)
    }

    fn received(&self) -> u64 {
        self.sinks.iter().map(|sink| sink.tally().received).sum()
    }

    /// Returns processor time and frames of all balancers, and of all routers.
    fn spent(&self) -> Result<[(Duration, u64); 2]> {
        let cpu = |letter: char, end: char| -> Result<Duration> {
            let own = self.threads.iter().filter(|(name, _)| name.starts_with(letter) && name.ends_with(end));
            own.map(|(_, pids)| cpu_of(pids)).sum()
        };
        let all = |budgets: &mut dyn Iterator<Item = &Budget>| {
            budgets.map(Budget::spent).map(|Spent { within, beyond }| within + beyond).sum::<u64>()
        };
        let fronts = all(&mut self.balancers.iter().map(|balancer| &balancer.budget));
        Ok([(cpu('b', 'o')?, fronts), (cpu('r', 'e')?, all(&mut self.routers.iter()))])
    }
}

/// Makes a balancer: the budget at the port of its source, then the program.
fn make_balancer(lab: &Lab, n: u16, share: f64, sinks: &[[u8; 6]], pins: &Path) -> Result<Balancer> {
    let node = format!("b{n}");
    lab.inside(&node, || {
        let pins = Pins::open(&pins.join(&node))?;
        let chained = |loader: Loader| {
            let maps = ["slots", "counts", "ports"].into_iter();
            maps.fold(loader, |loader, map| loader.share(map, &pins.map_path(map)))
        };
        let program = chained(Loader::new(Embedded::Balance)).load()?;
        let slots = Slots::new(program.map("slots")?)?;
        slots.set(Slot::Balance, program.program())?;
        let mut front = Front::new(program, n, &ports(), MOST)?;
        let of = |end: char| -> Result<_> { Ok(interface(lab, &node, &format!("{node}{end}"))?.0) };
        front.outer(n, of('o')?)?;
        front.outer(TO_SINK + n, of('t')?)?;
        front.input(Input::Inner(vec![of('i')?]))?;
        for (number, mac) in (TO_SINK + 1..).zip(sinks) {
            front.neighbor(*mac, number)?;
        }
        let mut budget = Budget::load(PAPER_BALANCER * share, false, chained)?;
        budget.attach(&format!("{node}o"))?;
        let inner = Link::attach(&format!("{node}i"), front.program.program())?;
        Ok(Balancer { front, budget, _inner: inner, _pins: pins })
    })?
}

/// Makes the links of a router for all ports, and sets the neighbors: routers resolve none.
fn make_router(lab: &Lab, n: u16, sinks: &[[u8; 6]]) -> Result<()> {
    let node = format!("r{n}");
    let mut commands = Vec::new();
    for port in ports() {
        let number = port.number;
        let name = format!("p{number}");
        commands.push(format!(
            "link add {name} link {node}e address {} type macvlan mode private",
            inner_mac(n, number)
        ));
        commands.push(format!("link set dev {name} arp off up"));
        commands.push(format!("address add 10.{number}.0.1/24 dev {name}"));
    }
    for (number, mac) in (TO_SINK + 1..).zip(sinks) {
        commands.push(format!(
            "neigh replace 10.{number}.0.2 lladdr {} dev p{number} nud permanent",
            text_of(*mac)
        ));
    }
    for command in commands {
        lab.exec(&node, "ip", command.split(' ')).with_context(|| command.clone())?;
    }
    Ok(())
}

/// Sends frames from all addresses to the switch: the measured traffic has one direction, so that the switch learns few of them.
fn teach_switch(lab: &Lab, sinks: &[[u8; 6]]) -> Result<()> {
    let teach = |mac: &str, port: &str| {
        lab.exec("s", "bridge", ["fdb", "replace", mac, "dev", port, "master", "static"])
    };
    for n in 1..=MOST {
        for port in ports() {
            teach(&inner_mac(n, port.number), &format!("sr{n}"))?;
        }
    }
    for (n, mac) in (1..).zip(sinks) {
        teach(&text_of(*mac), &format!("sb{n}"))?;
    }
    Ok(())
}
