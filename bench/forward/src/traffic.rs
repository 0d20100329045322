//! One run: packets from the source through the router to a sink, and the processor time that the router spent.

use crate::network::{self, IN, SOURCE, Threads, WAYS};
use crate::router::{Engines, Router};
use anyhow::Result;
use sluice_base::{IpPrefix, Rng};
use sluice_lab::Lab;
use sluice_pktgen::destinations::{random_hosts, zipf};
use sluice_pktgen::{Content, Generator, Running, Sink, Spec};
use std::net::IpAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The stream of the packets.
pub const STREAM: u32 = 1;
/// The addresses among which destinations are drawn.
const DRAWN: usize = 1 << 20;
/// The time before the measurement begins.
const WARM_UP: Duration = Duration::from_millis(500);

/// The distribution of the destinations over the prefixes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spread {
    /// Each prefix with the same probability.
    Uniform,
    /// Zipf's distribution with exponent 1.
    Zipf,
}

impl Spread {
    /// Draws destinations in the prefixes.
    pub fn draw(self, prefixes: &[IpPrefix]) -> Vec<IpAddr> {
        let mut random = Rng::from_seed(20);
        let hosts = random_hosts(prefixes, DRAWN, &mut random);
        match self {
            Spread::Uniform => hosts,
            Spread::Zipf => zipf(&hosts, 1.0, &mut random),
        }
    }
}

/// The packets of the source.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Destinations in turn.
    pub destinations: Vec<IpAddr>,
    /// Source ports in turn.
    pub flows: u32,
    /// Packets in a row with one destination and source port.
    pub flow_length: u32,
}

impl From<Vec<IpAddr>> for Load {
    fn from(destinations: Vec<IpAddr>) -> Self {
        Load { destinations, flows: 64, flow_length: 1 }
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Packets that arrived, a second of the router's processor time.
    pub per_cpu_second: f64,
    /// Packets that arrived, a second of the clock.
    pub per_second: f64,
    /// The share of the generated packets that arrived.
    pub arrived: f64,
}

/// The lab of one run, with a router that has its routes.
pub struct Field<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// The threads of the router's ports.
    pub threads: Threads,
    /// The router.
    pub router: Router,
}

/// Builds a network, starts a router with the prefixes, and runs `work` on a thread inside the router's node.
pub fn on_field<T: Send>(
    engines: Engines,
    prefixes: &[IpPrefix],
    pins: &Path,
    work: impl FnOnce(&mut Field<'_>) -> Result<T> + Send,
) -> Result<T> {
    on_prepared_field(engines, prefixes, None, pins, work)
}

/// Like `on_field`, with rules of nftables that the router's node has before the router starts.
pub fn on_prepared_field<T: Send>(
    engines: Engines,
    prefixes: &[IpPrefix],
    rules: Option<&str>,
    pins: &Path,
    work: impl FnOnce(&mut Field<'_>) -> Result<T> + Send,
) -> Result<T> {
    on_lab(|lab, threads| {
        if let Some(rules) = rules {
            lab.exec("r", "nft", [rules])?;
        }
        let mut router = Router::start(lab, engines, pins)?;
        router.load(prefixes)?;
        router.settle()?;
        work(&mut Field { lab, threads, router })
    })
}

/// Builds a network with two sinks, and runs `work` on a thread inside the router's node.
pub fn on_lab<T: Send>(work: impl FnOnce(&Lab, Threads) -> Result<T> + Send) -> Result<T> {
    on_wide_lab(network::OUT.len(), work)
}

/// Builds a network with `ways` sinks, and runs `work` on a thread inside the router's node.
pub fn on_wide_lab<T: Send>(ways: usize, work: impl FnOnce(&Lab, Threads) -> Result<T> + Send) -> Result<T> {
    let before = network::polling_threads();
    let lab = network::up_with(ways)?;
    let threads = Threads::of_new_lab(&before, ways)?;
    let result = lab.inside("r", || work(&lab, threads))?;
    lab.down()?;
    result
}

/// Starts the source.
pub fn start(lab: &Lab, load: impl Into<Load>) -> Result<Running> {
    let Load { destinations, flows, flow_length } = load.into();
    let mac = network::interface(lab, "r", IN)?.1;
    let source = match destinations.first() {
        Some(IpAddr::V6(_)) => "fd00:0::2",
        _ => "10.0.0.2",
    };
    let mut spec = Spec::udp(SOURCE, mac, source.parse()?, destinations);
    spec.stream = STREAM;
    if let Content::Udp(udp) = &mut spec.content {
        udp.flows = flows;
        udp.flow_length = flow_length;
    }
    launch(lab, spec)
}

/// Starts a source of the packets `spec`.
pub fn launch(lab: &Lab, spec: Spec) -> Result<Running> {
    lab.inside("a", || -> Result<Running> {
        network::pin_to_source()?;
        Ok(Generator::new(spec).start()?)
    })?
}

/// Attaches a sink to the end of a way.
pub fn sink(lab: &Lab, way: usize) -> Result<Sink> {
    let (_, node, interface) = WAYS[way];
    Ok(lab.inside(node, || Sink::attach(interface, STREAM))??)
}

/// Measures packets for `seconds`. `meanwhile` runs again and again.
pub fn measure(
    field: &mut Field<'_>,
    load: impl Into<Load>,
    seconds: f64,
    mut meanwhile: impl FnMut(&mut Router) -> Result<()>,
) -> Result<Run> {
    let sink = sink(field.lab, 0)?;
    let running = start(field.lab, load)?;
    meter(
        &field.threads,
        running,
        || Ok(sink.tally().received),
        seconds,
        || {
            meanwhile(&mut field.router)?;
            field.router.pump()
        },
    )
}

/// Counts the packets that arrive in `seconds`, by `received`, and ends the source. `meanwhile` runs again and again.
pub fn meter(
    threads: &Threads,
    running: Running,
    received: impl Fn() -> Result<u64>,
    seconds: f64,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<Run> {
    sleep(WARM_UP);
    let (cpu, sent, before) = (threads.router_cpu()?, running.sent(), received()?);
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < seconds {
        meanwhile()?;
        sleep(Duration::from_millis(1));
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = (threads.router_cpu()? - cpu).as_secs_f64();
    let received = (received()? - before) as f64;
    let sent = (running.sent() - sent) as f64;
    running.stop()?;
    Ok(Run { per_cpu_second: received / cpu, per_second: received / elapsed, arrived: received / sent })
}
