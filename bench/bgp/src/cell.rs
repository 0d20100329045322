//! A cell: a router, a scenario, a run.

use crate::contender::{Contender, PEERS, ROUTER};
use crate::payloads::Payloads;
use crate::scenario::Play;
use crate::thread::{self, Thread};
use anyhow::{Context, Result, anyhow};
use bench_lab::{Device, Process, TableWatch, of_node, within};
use sluice_base::Asn;
use sluice_bgpsim::aloof;
use sluice_bgpsim::brake::ProcessBrake;
use sluice_bgpsim::relay::Relay;
use sluice_bgpsim::report;
use sluice_bgpsim::run::{self, PhaseResult, Setup};
use sluice_bgpsim::sender::Speed;
use sluice_bgpsim::session::{Peer, Role};
use sluice_lab::Lab;
use sluice_load::counts::Count;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The waits around a measurement, which do not count.
#[derive(Clone, Copy, Debug)]
pub struct Rests {
    /// Between the start of a router and the first connection.
    start: Duration,
    /// The silence that ends a phase. Longer than any delay of a router, so that delayed messages are counted in their own phase.
    settle: Duration,
    /// The longest time that a router may work after the receivers have every route.
    unrest: Duration,
}

impl Rests {
    /// For values that are kept.
    pub const MEASURED: Rests = Rests {
        start: Duration::from_secs(1),
        settle: Duration::from_millis(1500),
        unrest: Duration::from_secs(30),
    };
    /// For a quick look, whose values nobody keeps.
    pub const SMOKE: Rests =
        Rests { start: Duration::ZERO, settle: Duration::from_millis(500), unrest: Duration::from_secs(1) };
}

/// The longest time until the kernel has added its own routes for a link.
const LINKING: Duration = Duration::from_secs(10);
/// The longest time until the sockets of a stopped router have accepted every message.
const TAKING_OVER: Duration = Duration::from_secs(10);

/// The client's place while the router works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    /// Beside the router: the client sends, and reads and verifies its input at once.
    Beside,
    /// Out of the way: the client sends every message beforehand, and reads and verifies the receivers' input
    /// afterwards.
    Aloof,
}

/// The measurements of every cell.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Time until the last receiver had the last route; `None`: a receiver lacks routes, and `note` has the reason.
    pub seconds: Option<f64>,
    /// The reason.
    pub note: String,
    /// Processor time of the router's processes in the measured phase.
    pub cpu_s: f64,
    /// Peak resident memory of the router's processes, in octets, minus the memory shared between them at the end.
    pub peak: u64,
    /// Peak resident memory with every page counted as often as it is mapped, for example the executable in each
    /// process.
    pub resident_peak: u64,
    /// Each process: its name, its processor time in the measured phase, its peak.
    pub processes: Vec<(String, f64, u64)>,
    /// Processor time of the client.
    pub client_cpu_s: f64,
    /// Load of the machine by foreign processes, in percent.
    pub foreign_pct: f64,
    /// Delays of single routes in milliseconds: median and 99th percentile.
    pub delays_ms: Option<(f64, f64)>,
    /// UPDATEs that the receivers received, on average.
    pub updates: f64,
    /// UPDATEs from the senders.
    pub sent: usize,
    /// Seconds, and the prefixes that a receiver had received by then.
    pub progress: Vec<(f64, f64)>,
    /// Sluice's BGP by thread: the work of each thread in the measured phase and until the router's rest.
    pub threads: Vec<Thread>,
}

impl Sample {
    /// The cell's main value: seconds, or the median of single routes in milliseconds.
    pub fn value(&self) -> Option<f64> {
        self.seconds?;
        Some(self.delays_ms.map_or(self.seconds?, |d| d.0))
    }
}

/// The setting in which cells run.
pub struct Stage<'a> {
    /// The Sluice executable.
    pub sluice: &'a Path,
    /// Processors for routers.
    pub processors: &'a [usize],
    /// The longest time of a cell.
    pub limit: Duration,
    /// The waits around each measurement.
    pub rests: Rests,
    /// Validated payloads that routers have before the scenario begins, in a file; `None`: routers validate nothing.
    pub payloads: Option<&'a Payloads>,
}

impl Stage<'_> {
    /// Runs a scenario with a router. A fault of the router is a result.
    pub fn perform(&self, contender: Contender, play: &Play) -> Sample {
        self.perform_with(contender, play, Client::Beside)
    }

    /// Runs a scenario with a router, with the client at the given place.
    pub fn perform_with(&self, contender: Contender, play: &Play, client: Client) -> Sample {
        self.try_perform(contender, play, client).unwrap_or_else(|e| {
            eprintln!("{}: {e:#}", contender.name());
            Sample { note: e.root_cause().to_string(), ..Sample::default() }
        })
    }

    fn try_perform(&self, contender: Contender, play: &Play, client: Client) -> Result<Sample> {
        let validates = self.payloads.is_some();
        let mut lab = contender.up(play, self.sluice, self.processors, client, validates)?;
        if let Some(payloads) = self.payloads {
            payloads.hand_out(&mut lab)?;
            until_quiet(&lab, self.rests);
        }
        until_linked(&lab);
        // What a router does in its first moment is not what is measured.
        std::thread::sleep(self.rests.start);
        let before = of_node(&lab, ROUTER);
        let pid = within(&lab, ROUTER)?;
        let watch = play.scenario.installs().then(|| TableWatch::start(pid)).transpose()?;
        let bgp = before.iter().find(|p| p.name == "bgp").map(|p| p.id.pid);
        let earlier = bgp.map(thread::of_process).unwrap_or_default();
        let pids: Vec<u32> = before.iter().map(|p| p.id.pid).collect();
        let mut setup = self.setup(play, SocketAddr::from((Ipv4Addr::new(10, 1, 0, 1), 179)), pids);
        setup
            .peers
            .iter_mut()
            .chain(&mut setup.late)
            .for_each(|p| p.hold_time = contender.device.hold_time());
        let performed = std::thread::scope(|threads| {
            let wanted = Count { v4: play.routes.0 as u64, v6: play.routes.1 as u64 };
            let kernel = watch.map(|watch| threads.spawn(move || watch.wait(wanted, self.limit)));
            let mut installed = Ok(None);
            let (mut at_end, mut after, mut shared) = (Vec::new(), Vec::new(), 0);
            let watched = || {
                at_end = of_node(&lab, ROUTER);
                let join = |k: ScopedJoinHandle<'_, _>| {
                    k.join().map_err(|_| anyhow!("the kernel's watch panicked"))?
                };
                installed = kernel.map(join).transpose();
                after = until_quiet(&lab, self.rests);
                shared = after.iter().map(|p| p.memory.saturating_sub(p.proportional_memory())).sum();
            };
            let phases = lab.inside(PEERS, || match client {
                Client::Beside => run::run_and(&setup, &play.workload, watched),
                Client::Aloof => {
                    let bgp = ProcessBrake(bgp.context("who stands still has a process called bgp")?);
                    setup.patience = setup.patience.min(TAKING_OVER);
                    aloof::run_and(&setup, &play.workload, &bgp, watched)
                }
            });
            Ok::<_, anyhow::Error>((phases??, installed, at_end, after, shared))
        });
        let (phases, installed, at_end, after, shared) =
            performed.with_context(|| self.log(&lab, contender))?;
        let mut sample = sample(play, &phases, &before, &after, self.limit);
        // The processes may have worked on after the receivers had everything: that is part of it.
        add_rest(&mut sample, &at_end, &after);
        let threads = bgp.map(thread::of_process).unwrap_or_default();
        sample.threads = threads.into_iter().map(|t| t.since(&earlier)).collect();
        sample.peak = sample.resident_peak.saturating_sub(shared);
        match installed {
            Err(e) => (sample.seconds, sample.note) = (None, format!("{e:#}")),
            Ok(Some(at)) => {
                let begin = phases.first().map(|p| p.begin);
                let seconds = begin.map(|b| at.saturating_duration_since(b).as_secs_f64());
                sample.seconds = sample.seconds.zip(seconds).map(|(a, b)| a.max(b));
            }
            Ok(None) => {}
        }
        Ok(sample)
    }

    /// The end of the router's log.
    fn log(&self, lab: &Lab, contender: Contender) -> String {
        let part = match contender.device {
            Device::Frr => "bgpd",
            Device::Gobgp => "gobgpd",
            other => other.node(),
        };
        lab.log(ROUTER, part)
    }

    /// Runs a scenario with a relay that only copies octets: the client's own limit.
    pub fn floor(&self, play: &Play) -> Result<Sample> {
        let receivers = play.peers.iter().filter(|p| p.role == Role::Receiver).map(|p| p.asn).collect();
        let relay = Relay::start(Asn(bench_lab::LOCAL_AS), play.peers.len(), receivers)?;
        let mut setup = self.setup(play, relay.address, Vec::new());
        setup.peers = play.peers.iter().map(|p| Peer { local: None, ..p.clone() }).collect();
        setup.only_count = play.is_trace;
        let phases = run::run(&setup, &play.workload)?;
        relay.join()?;
        Ok(sample(play, &phases, &[], &[], self.limit))
    }

    fn setup(&self, play: &Play, target: SocketAddr, target_processes: Vec<u32>) -> Setup {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let receivers = play.peers.iter().filter(|p| p.role == Role::Receiver).count();
        Setup {
            target,
            target_as: Asn(bench_lab::LOCAL_AS),
            peers: play.peers.clone(),
            late: play.late.clone(),
            listen: None,
            only_count: false,
            speed: Speed::Full,
            reading_threads: cores.min(receivers),
            target_processes,
            timeout: self.limit,
            patience: self.limit.min(Duration::from_secs(60)),
            settle: self.rests.settle,
        }
    }
}

fn sample(
    play: &Play,
    phases: &[PhaseResult],
    before: &[Process],
    after: &[Process],
    limit: Duration,
) -> Sample {
    let Some(last) = phases.last() else {
        return Sample { note: "nothing was said".into(), ..Sample::default() };
    };
    let changes = last.received.iter().map(|h| h.counts.announced + h.counts.withdrawn).max().unwrap_or(0);
    let is_graceful = !play.restarts || changes <= last.news as u64;
    let done = (report::verified(phases) && is_graceful).then(|| last.done()).flatten();
    let delay = |share| report::delay(last, share).map(|s| 1e3 * s);
    let received = last.received.len().max(1) as f64;
    let cpu = |process: &Process| {
        let at = before.iter().position(|b| b.id == process.id)?;
        last.load.target_processes_s.get(at).copied()
    };
    Sample {
        seconds: done.map(|d| d.as_secs_f64()),
        note: match done {
            Some(_) => String::new(),
            None if !is_graceful => {
                format!("not graceful: a receiver received {changes} changes of {}", last.news)
            }
            None => missing(play, phases, limit),
        },
        cpu_s: last.load.target_s,
        peak: 0,
        resident_peak: after.iter().map(|p| p.peak_memory).sum(),
        processes: after.iter().map(|p| (p.name.clone(), cpu(p).unwrap_or(p.cpu_s), p.peak_memory)).collect(),
        client_cpu_s: last.load.own_s,
        foreign_pct: last.load.foreign_pct,
        delays_ms: delay(0.5).zip(delay(0.99)).filter(|_| play.scenario.is_latency()),
        updates: last.received.iter().map(|h| h.counts.messages as f64).sum::<f64>() / received,
        sent: last.messages,
        progress: last.progress.iter().map(|p| (p.0, p.2)).collect(),
        threads: Vec::new(),
    }
}

/// Waits until the kernel has added its own routes for the router's link, which happens some time after the link is up: a route of the
/// kernel that comes later would be counted as one of the router.
fn until_linked(lab: &Lab) {
    let is_linked = || {
        let local = lab.output(ROUTER, "ip", ["-6", "route", "show", "table", "local", "dev", "peers"]);
        local.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("anycast fe80::"))
    };
    // A kernel without these routes does not add them later either.
    sluice_lab::until(LINKING, is_linked);
}

/// Waits until the router's processes are at rest; returns them.
fn until_quiet(lab: &Lab, rests: Rests) -> Vec<Process> {
    let begin = Instant::now();
    let mut before = of_node(lab, ROUTER);
    loop {
        std::thread::sleep(rests.settle);
        let now = of_node(lab, ROUTER);
        let used: f64 = now.iter().zip(&before).map(|(n, b)| n.cpu_s - b.cpu_s).sum();
        // So much is what timers and polls need.
        if used < 0.025 || begin.elapsed() > rests.unrest {
            return now;
        }
        before = now;
    }
}

/// Adds the processor time between the end of the measured phase and the router's rest.
fn add_rest(sample: &mut Sample, at_end: &[Process], after: &[Process]) {
    for (entry, process) in sample.processes.iter_mut().zip(after) {
        let earlier = at_end.iter().find(|b| b.id == process.id).map_or(process.cpu_s, |b| b.cpu_s);
        entry.1 += process.cpu_s - earlier;
    }
    sample.cpu_s = sample.processes.iter().map(|p| p.1).sum();
}

fn missing(play: &Play, phases: &[PhaseResult], limit: Duration) -> String {
    let last = &phases[phases.len() - 1];
    let received: Vec<usize> =
        last.received.iter().filter(|h| !h.complete).map(|h| h.missing.0 + h.surplus.0).collect();
    let worst = received.iter().max().copied().unwrap_or(0);
    let stalled = last.begin.elapsed() < limit;
    format!(
        "not done {}: phase `{}`, {} of {} receivers lack up to {worst} prefixes or have them still",
        if stalled { "and silent".to_owned() } else { format!("in {} s", limit.as_secs()) },
        last.name,
        received.len(),
        play.peers.iter().filter(|p| p.role == Role::Receiver).count()
    )
}

/// For progress lines.
pub fn line(sample: &Sample) -> String {
    let time = match (sample.seconds, sample.delays_ms) {
        (Some(_), Some((middle, late))) => format!("median {middle:.3} ms, p99 {late:.3} ms"),
        (Some(seconds), None) => format!("{seconds:>7.2} s"),
        (None, _) => return sample.note.clone(),
    };
    let each: Vec<String> = sample
        .processes
        .iter()
        .map(|(name, cpu, peak)| format!("{name} {cpu:.3} s {} MB", peak / 1_000_000))
        .collect();
    format!(
        "{time}, CPU {:>7.3} s, at most {:>4} MB, resident {} MB (client {:.3} s, foreign {:.0} %) [{}]",
        sample.cpu_s,
        sample.peak / 1_000_000,
        sample.resident_peak / 1_000_000,
        sample.client_cpu_s,
        sample.foreign_pct,
        each.join(", ")
    )
}

/// The time since the start, for people.
pub fn clock(begin: Instant) -> String {
    let seconds = begin.elapsed().as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
