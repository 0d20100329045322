//! A full table from one BIRD feed over BGP to a router under test, until its kernel has every route.
//!
//! Time starts when the feed's link has carried the first octets of the table, and ends when the kernel's own counters have every
//! route: for both routers the same.

use crate::network::{self, DEVICES, INTERFACE};
use anyhow::{Context, Result, ensure};
use bench_lab::{Device, Process, TableWatch, octets_received, of_node};
use bench_report::{Bar, Plot, Report, Series, mean_sd, median, number, table};
use serde_json::json;
use sluice_lab::{Lab, LabOptions};
use sluice_load::RoutingTable;
use sluice_load::counts::{Cli, Count, kernel};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest time that a router may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A session that carries more than this has begun to send the table: OPEN and KEEPALIVE are far shorter.
const FIRST_OCTETS: u64 = 4096;

/// Routes of the XORP paper's full table, and megabytes of its processes (section 5.1).
const PAPER_ROUTES: f64 = 150_000.0;
const PAPER_MEMORY: [(&str, f64); 2] = [("bgp", 120.0), ("rib", 60.0)];

/// A run of one router.
pub struct Run {
    device: Device,
    seconds: f64,
    feed_cpu_s: f64,
    processes: Vec<Process>,
}

impl Run {
    fn cpu_s(&self) -> f64 {
        self.processes.iter().map(|p| p.cpu_s).sum()
    }

    fn memory(&self) -> u64 {
        self.processes.iter().map(|p| p.memory).sum()
    }

    fn peak_memory(&self) -> u64 {
        self.processes.iter().map(|p| p.peak_memory).sum()
    }
}

/// Brings feed and routers up and gives each router the table, `rounds` times in turn.
pub fn run(sluice: &Path, table: &RoutingTable, rounds: usize) -> Result<Vec<Run>> {
    let options = LabOptions { sluice: Some(sluice.into()), ..LabOptions::unique("bench-fib") };
    let mut lab = Lab::up(&network::topology(table)?, options)?;
    for (device, _) in DEVICES {
        session(&lab, device, "disable")?;
        device.reset(&mut lab, &[INTERFACE])?;
    }
    wait_for_feed(&lab, table)?;
    let mut runs = Vec::new();
    for round in 0..rounds {
        let mut devices = DEVICES.map(|(device, _)| device);
        devices.rotate_left(round % DEVICES.len());
        for device in devices {
            let run = once(&mut lab, sluice, device, table, round == 0)
                .with_context(|| format!("{}: {}", device.name(), lab.log(device.node(), device.node())))?;
            println!(
                "round {}: {:<6} {:>6.2} s, CPU {:>6.2} s (feed {:.2} s), {:>4} MB, at most {:>4} MB",
                round + 1,
                device.name(),
                run.seconds,
                run.cpu_s(),
                run.feed_cpu_s,
                run.memory() / 1_000_000,
                run.peak_memory() / 1_000_000
            );
            runs.push(run);
        }
    }
    Ok(runs)
}

fn session(lab: &Lab, device: Device, verb: &str) -> Result<()> {
    let socket = lab.dir("feed").join("bird.ctl").display().to_string();
    lab.exec("feed", "birdc", ["-s", &socket, verb, network::session(device)])?;
    Ok(())
}

/// Waits until the feed has the whole table in its own.
fn wait_for_feed(lab: &Lab, table: &RoutingTable) -> Result<()> {
    let begin = Instant::now();
    loop {
        let answer = lab.control("feed", "show route count")?;
        let counts =
            answer.lines().filter_map(|l| l.split_once(" of ")?.0.rsplit(' ').next()?.parse::<usize>().ok());
        if counts.sum::<usize>() >= table.len() {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "the feed does not have its table: {answer}");
        sleep(Duration::from_millis(200));
    }
}

fn cpu_of_feed(lab: &Lab) -> f64 {
    of_node(lab, "feed").iter().map(|p| p.cpu_s).sum()
}

fn once(lab: &mut Lab, sluice: &Path, device: Device, table: &RoutingTable, is_first: bool) -> Result<Run> {
    let pid = device.start(lab)?;
    let all = Count::of(table);
    let watch = TableWatch::start(pid)?;
    let silent = octets_received(pid, INTERFACE)?;
    session(lab, device, "enable")?;
    let asked = Instant::now();
    while octets_received(pid, INTERFACE)? < silent + FIRST_OCTETS {
        ensure!(asked.elapsed() < PATIENCE, "the session does not come up");
        sleep(Duration::from_millis(1));
    }
    let feed_cpu = cpu_of_feed(lab);
    let begin = Instant::now();
    let end = watch.wait(all, PATIENCE)?;
    let run = Run {
        device,
        seconds: end.duration_since(begin).as_secs_f64(),
        feed_cpu_s: cpu_of_feed(lab) - feed_cpu,
        processes: of_node(lab, device.node()),
    };
    // Counters of the kernel and the routers' own tables must say the same; the first round asks both.
    if is_first {
        ensure!(rib(lab, sluice, device)? == all, "the router's own table is not complete");
        let protocol = if device == Device::Sluice { 83 } else { 12 };
        let counted = kernel(lab, device.node(), protocol)?;
        ensure!(counted == all, "routes counted one by one: {counted}, not {all}");
    }
    session(lab, device, "disable")?;
    device.reset(lab, &[INTERFACE])?;
    Ok(run)
}

/// Routes of BGP that the router has by its own words.
fn rib(lab: &Lab, sluice: &Path, device: Device) -> Result<Count> {
    if device == Device::Sluice {
        return Ok(Cli { lab, sluice }.rib()?.0);
    }
    let mut count = Count::default();
    let answer = lab.control(device.node(), "show route count")?;
    for line in answer.lines() {
        let routes = line.split_once(" of ").and_then(|(n, _)| n.rsplit(' ').next()?.parse().ok());
        match routes {
            Some(n) if line.ends_with("master4") => count.v4 = n,
            Some(n) if line.ends_with("master6") => count.v6 = n,
            _ => {}
        }
    }
    Ok(count)
}

/// The results of the runs: rows, the bar, plots.
pub fn report(
    runs: &[Run],
    routes: &RoutingTable,
    source: &str,
    report: &mut Report,
) -> Vec<(&'static str, Plot)> {
    let of = |device: Device| runs.iter().filter(move |r| r.device == device);
    let mut lines = Vec::new();
    for (device, _) in DEVICES {
        let middle = |value: &dyn Fn(&Run) -> f64| median(&of(device).map(value).collect::<Vec<_>>());
        let per_route = middle(&|r| r.memory() as f64) / routes.len() as f64;
        let row = json!({
            "what": "full table", "table": source, "ipv4": routes.v4.len(), "ipv6": routes.v6.len(),
            "router": device.name(), "runs": of(device).count(),
            "seconds_median": middle(&|r| r.seconds), "cpu_s_median": middle(&Run::cpu_s),
            "feed_cpu_s_median": middle(&|r| r.feed_cpu_s),
            "memory_octets_median": middle(&|r| r.memory() as f64),
            "peak_memory_octets_median": middle(&|r| r.peak_memory() as f64),
            "memory_octets_per_route": per_route,
            "seconds": of(device).map(|r| r.seconds).collect::<Vec<_>>(),
            "cpu_s": of(device).map(Run::cpu_s).collect::<Vec<_>>(),
        });
        report.row(row);
        lines.push(vec![
            device.name().to_owned(),
            format!("{:.2}", middle(&|r| r.seconds)),
            format!("{:.2}", middle(&Run::cpu_s)),
            number(middle(&|r| r.memory() as f64 / 1e6)),
            number(middle(&|r| r.peak_memory() as f64 / 1e6)),
            number(per_route),
        ]);
        lines.extend(processes(device, &of(device).collect::<Vec<_>>(), routes.len(), report));
    }
    for (process, megabytes) in PAPER_MEMORY {
        let each = megabytes * 1e6 / PAPER_ROUTES;
        let cells = [String::new(), String::new(), number(megabytes), String::new(), number(each)];
        lines.push([vec![format!("the paper: {process}")], cells.into()].concat());
        report.row(json!({
            "what": "full table, process", "router": "paper: XORP", "process": process,
            "memory_octets": megabytes * 1e6, "octets_per_route": each,
        }));
    }
    let head = ["full table, medians", "seconds", "CPU s", "MB", "MB at most", "octets/route"];
    println!("{}", table(&head, &lines));
    let ratios: Vec<f64> =
        of(Device::Sluice).zip(of(Device::Bird)).map(|(a, b)| a.seconds / b.seconds).collect();
    let cpu: Vec<f64> =
        of(Device::Sluice).zip(of(Device::Bird)).map(|(a, b)| a.cpu_s() / b.cpu_s()).collect();
    report.row(json!({
        "what": "full table, Sluice / BIRD", "seconds": ratios, "cpu": cpu, "cpu_median": median(&cpu),
    }));
    report.bar(Bar::lower("fib.full_table_vs_bird", median(&ratios), "x", 1.0));
    plots(runs)
}

/// A line for each of the router's processes.
fn processes(device: Device, runs: &[&Run], routes: usize, report: &mut Report) -> Vec<Vec<String>> {
    let Some(first) = runs.first() else { return Vec::new() };
    let line = |name: &String| {
        let of = |value: &dyn Fn(&Process) -> f64| {
            let all = runs.iter().flat_map(|r| &r.processes).filter(|p| p.name == *name);
            median(&all.map(value).collect::<Vec<_>>())
        };
        let (cpu, memory) = (of(&|p| p.cpu_s), of(&|p| p.memory as f64));
        let peak = of(&|p| p.peak_memory as f64);
        report.row(json!({
            "what": "full table, process", "router": device.name(), "process": name, "cpu_s": cpu,
            "memory_octets": memory, "peak_memory_octets": peak, "octets_per_route": memory / routes as f64,
        }));
        vec![
            format!("  {name}"),
            String::new(),
            format!("{cpu:.2}"),
            number(memory / 1e6),
            number(peak / 1e6),
            number(memory / routes as f64),
        ]
    };
    first.processes.iter().map(|p| &p.name).map(line).collect()
}

fn plots(runs: &[Run]) -> Vec<(&'static str, Plot)> {
    let series = |values: &[&dyn Fn(&Run) -> f64]| -> Vec<Series> {
        let of = |device: Device| {
            let points = values.iter().enumerate().map(|(x, value)| {
                let all: Vec<f64> = runs.iter().filter(|r| r.device == device).map(value).collect();
                let (mean, sd) = mean_sd(&all);
                (x as f64, mean, sd)
            });
            Series { name: device.name().to_owned(), points: points.collect() }
        };
        DEVICES.map(|(device, _)| of(device)).into()
    };
    let plot = |title: &str, y: &str, names: [&str; 2], series| Plot {
        title: title.to_owned(),
        x: String::new(),
        y: y.to_owned(),
        logarithmic: false,
        boxes: Vec::new(),
        names: names.map(str::to_owned).into(),
        series,
    };
    let time = series(&[&|r| r.seconds, &Run::cpu_s]);
    let memory = series(&[&|r| r.memory() as f64 / 1e6, &|r| r.peak_memory() as f64 / 1e6]);
    vec![
        ("", plot("A full table from BGP to the kernel", "seconds", ["by the clock", "of processors"], time)),
        ("-memory", plot("Memory with a full table", "MB", ["when complete", "at most"], memory)),
    ]
}
