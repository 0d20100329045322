//! A lab with one router, whatever its stack: packets measured, and routes moved while they flow.

use crate::cases::{Case, Stack};
use crate::domains::Domains;
use crate::xia::XiaRouter;
use anyhow::{Context, Result, ensure};
use bench_forward::network::{IN, SOURCE, Threads, WAYS, interface};
use bench_forward::router::{Engines, Router};
use bench_forward::traffic::{Run, STREAM, launch, meter, on_wide_lab, sink};
use sluice_base::{IpPrefix, Rng};
use sluice_bpf::counters::Counters;
use sluice_bpf::layout::Reason;
use sluice_bpf::{Embedded, Link, Loaded, Loader};
use sluice_lab::Lab;
use sluice_pktgen::{Content, Sink, Spec, XipFormat};
use std::path::Path;
use std::time::{Duration, Instant};

/// Updates that are made at once for IPv4.
const BATCH: usize = 256;
/// The longest time to catch up with updates that are due, before the time is looked at.
const TURN: Duration = Duration::from_millis(20);
/// The time for packets on their way.
const GRACE: Duration = Duration::from_millis(100);

/// The result of a case.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The rates.
    pub run: Run,
    /// Updates a second that were made.
    pub updates: f64,
}

/// A running router of some stack.
enum Forwarder {
    Ip { router: Box<Router>, ways: Vec<usize>, prefixes: Vec<IpPrefix> },
    Xip { router: Box<XiaRouter>, format: XipFormat },
}

/// The ends of the ways.
enum Sinks {
    Stamped(Vec<Sink>),
    /// XIP packets have no stamp: all frames count.
    Whole(Vec<(Counters, Link, Loaded)>),
}

impl Sinks {
    fn open(lab: &Lab, ports: usize, is_stamped: bool) -> Result<Self> {
        if is_stamped {
            return Ok(Sinks::Stamped((0..ports).map(|way| sink(lab, way)).collect::<Result<_>>()?));
        }
        let whole = WAYS.into_iter().take(ports).map(|(_, node, interface)| {
            lab.inside(node, || -> Result<_> {
                let program = Loader::new(Embedded::Drop).load()?;
                let link = Link::attach(interface, program.program())?;
                Ok((Counters::new(program.map("counts")?)?, link, program))
            })?
        });
        Ok(Sinks::Whole(whole.collect::<Result<_>>()?))
    }

    fn received(&self, way: usize) -> Result<u64> {
        Ok(match self {
            Sinks::Stamped(sinks) => sinks[way].tally().received,
            Sinks::Whole(sinks) => sinks[way].0.total(Reason::Dropped)?.packets,
        })
    }

    fn all(&self) -> Result<u64> {
        let count = match self {
            Sinks::Stamped(sinks) => sinks.len(),
            Sinks::Whole(sinks) => sinks.len(),
        };
        (0..count).map(|way| self.received(way)).sum()
    }
}

/// A lab with a router that has a route for each domain.
pub struct Bed<'a> {
    lab: &'a Lab,
    domains: &'a Domains,
    threads: Threads,
    forwarder: Forwarder,
    /// The ways out.
    ports: usize,
    random: Rng,
}

/// Builds a lab with a router that has `ports` ways out, and runs `work` on a thread inside the router's node.
pub fn on_bed<T: Send>(
    stack: Stack,
    domains: &Domains,
    ports: usize,
    pins: &Path,
    work: impl FnOnce(&mut Bed<'_>) -> Result<T> + Send,
) -> Result<T> {
    on_wide_lab(ports, |lab, threads| {
        let ip = |engines| -> Result<Forwarder> {
            let mut router = Box::new(Router::start_wide(lab, engines, ports, pins)?);
            router.load_in_turn(&domains.prefixes)?;
            router.settle()?;
            let ways = (0..domains.prefixes.len()).map(|number| number % ports).collect();
            Ok(Forwarder::Ip { router, ways, prefixes: domains.prefixes.clone() })
        };
        let forwarder = match stack {
            Stack::Kernel => ip(Engines::Kernel)?,
            Stack::FastIp => ip(Engines::Xdp)?,
            Stack::Xip(format) => {
                let router = Box::new(XiaRouter::start(lab, format, domains, ports, pins)?);
                println!("{}: {:.2} % of the domains cached", stack.name(), 100.0 * router.cached());
                Forwarder::Xip { router, format }
            }
        };
        work(&mut Bed { lab, domains, threads, forwarder, ports, random: Rng::from_seed(44) })
    })
}

impl Bed<'_> {
    /// Measures a case for `seconds`.
    pub fn measure(&mut self, case: &Case, seconds: f64) -> Result<Sample> {
        let spec = self.spec(case)?;
        let sinks = Sinks::open(self.lab, self.ports, matches!(spec.content, Content::Udp(_)))?;
        let running = launch(self.lab, spec)?;
        let (mut made, mut begin, mut elapsed) = (0_u64, None, f64::INFINITY);
        let (threads, forwarder, random) = (&self.threads, &mut self.forwarder, &mut self.random);
        let ports = self.ports;
        let run = meter(
            threads,
            running,
            || sinks.all(),
            seconds,
            || {
                let begin: Instant = *begin.get_or_insert_with(Instant::now);
                let turn = Instant::now();
                let due = || (begin.elapsed().as_secs_f64() * f64::from(case.updates)) as u64;
                while made < due() && turn.elapsed() < TURN {
                    made += forwarder.move_some(due() - made, ports, random)?;
                }
                elapsed = begin.elapsed().as_secs_f64();
                forwarder.pump()
            },
        )?;
        Ok(Sample { run, updates: made as f64 / elapsed })
    }

    /// Moves each domain to the second way while packets flow, and returns the packets that go other ways afterwards.
    pub fn strays(&mut self, case: &Case) -> Result<u64> {
        let spec = self.spec(case)?;
        let sinks = Sinks::open(self.lab, self.ports, matches!(spec.content, Content::Udp(_)))?;
        let running = launch(self.lab, spec)?;
        std::thread::sleep(GRACE);
        ensure!(sinks.received(0)? > 0, "no packet went the first way");
        self.forwarder.move_all(1)?;
        std::thread::sleep(GRACE);
        let others =
            || (0..self.ports).filter(|way| *way != 1).map(|way| sinks.received(way)).sum::<Result<u64>>();
        let (before, second) = (others()?, sinks.received(1)?);
        std::thread::sleep(5 * GRACE);
        let after = others()?;
        ensure!(sinks.received(1)? > second, "no packet went the second way");
        running.stop()?;
        Ok(after - before)
    }

    fn spec(&self, case: &Case) -> Result<Spec> {
        let mac = interface(self.lab, "r", IN)?.1;
        let ring = self.domains.draw(case.exponent);
        let mut spec = match &self.forwarder {
            Forwarder::Ip { .. } => {
                let mut spec = Spec::udp(SOURCE, mac, "10.0.0.2".parse().context("an address")?, ring);
                spec.stream = STREAM;
                spec
            }
            Forwarder::Xip { format, .. } => Spec::xip(SOURCE, mac, *format, ring),
        };
        spec.size = Some(case.size.into());
        Ok(spec)
    }
}

impl Forwarder {
    /// Moves up to `most` domains, drawn at random, to the next of `ports` ways. Returns the number of moves.
    fn move_some(&mut self, most: u64, ports: usize, random: &mut Rng) -> Result<u64> {
        match self {
            Forwarder::Xip { router, .. } => {
                let number = random.below(router.domains() as u64) as usize;
                router.move_to(number, (router.way(number) + 1) % ports)?;
                Ok(1)
            }
            Forwarder::Ip { router, ways, prefixes } => {
                let mut moved = vec![Vec::new(); ports];
                let count = most.min(BATCH as u64);
                for _ in 0..count {
                    let number = random.below(prefixes.len() as u64) as usize;
                    ways[number] = (ways[number] + 1) % ports;
                    moved[ways[number]].push(prefixes[number]);
                }
                moved.iter().enumerate().for_each(|(way, some)| router.move_to(some, way));
                Ok(count)
            }
        }
    }

    /// Moves all domains to a way.
    fn move_all(&mut self, way: usize) -> Result<()> {
        match self {
            Forwarder::Xip { router, .. } => {
                (0..router.domains()).try_for_each(|number| router.move_to(number, way))
            }
            Forwarder::Ip { router, ways, prefixes } => {
                ways.fill(way);
                router.move_to(prefixes, way);
                router.pump()
            }
        }
    }

    fn pump(&mut self) -> Result<()> {
        match self {
            Forwarder::Xip { .. } => Ok(()),
            Forwarder::Ip { router, .. } => router.pump(),
        }
    }
}
