//! Packets that come up through real sockets: by AF_XDP beside the packet socket, on the same network with the same packets. Each packet
//! has a row that was never seen; the machine decides on the packet, caches the answer and sends the packet by a packet socket. The
//! processor time is that of the deciding thread and of the threads that poll the router's ports.

use crate::domains::Domains;
use crate::punts::{Ports, machine};
use crate::rows;
use crate::slow_path::cpu;
use anyhow::{Context, Result, ensure};
use bench_forward::network::{IN, OUT, SINKS, SOURCE, Threads, interface};
use bench_forward::traffic::{launch, on_lab};
use bench_report::{Bar, Report, median, number, table};
use serde_json::json;
use sluice_base::{InterfaceIndex, Rng};
use sluice_bpf::Embedded;
use sluice_bpf::layout::Slot;
use sluice_bpf::receiver::{self, Receiver, Receivers};
use sluice_fea::socket::Reception;
use sluice_fea_process::sockets::broker::{Kind, SocketRequest};
use sluice_fea_process::xdp::chain::Chain;
use sluice_lab::Lab;
use sluice_machine::{Machine, Outbox};
use sluice_pktgen::destinations::in_turn;
use sluice_pktgen::{Spec, XipFormat};
use sluice_process::{PacketSocket, watch};
use sluice_xip::cache::{Cache, HashKey};
use sluice_xip::io::{Input, Output};
use sluice_xip::links::Station;
use sluice_xip::machine::Xip;
use sluice_xip::wire::{ETHERTYPE_XIP, LinkDestination, Mac};
use sluice_xip_process::maps::{CacheLines, NAMES, ProgramMaps, ProgramSettings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Lines of the cache as a power of two, as the process has by default.
const LINE_BITS: u32 = 16;
/// Octets of a frame.
const SIZE: usize = 256;
/// Packets a second that are offered: fewer than either way takes.
const RATE: u64 = 60_000;
/// The most packets of a run.
const MOST: usize = 120_000;
/// Frames in the memory of a socket, and frames read before they are sent, as the process has.
const FRAMES: u32 = 512;
const BATCH: u32 = 64;
/// The time without packets after which a run has ended.
const SILENCE: Duration = Duration::from_millis(300);

/// A way by which packets come up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    PacketSocket,
    AfXdp,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct Sample {
    per_cpu_second: f64,
    arrived: f64,
}

/// Measures both ways in turn, prints and reports.
pub fn run(domains: &Domains, rounds: usize, pins: &Path, report: &mut Report) -> Result<()> {
    let mut samples = [const { Vec::<Sample>::new() }; 2];
    for round in 0..rounds {
        let mut ways = [(0, Way::PacketSocket), (1, Way::AfXdp)];
        if round % 2 == 1 {
            ways.reverse();
        }
        for (place, way) in ways {
            samples[place].push(on_lab(|lab, threads| measure(lab, &threads, domains, way, pins))?);
        }
    }
    let rates = samples.each_ref().map(|all| all.iter().map(|s| s.per_cpu_second).collect::<Vec<_>>());
    let arrived = samples.each_ref().map(|all| median(&all.iter().map(|s| s.arrived).collect::<Vec<_>>()));
    let ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(packet, ring)| ring / packet).collect();
    let (ratio, rates) = (median(&ratios), rates.each_ref().map(|rates| median(rates)));
    let line = |what: &str, place: usize| {
        vec![what.to_owned(), number(rates[place]), format!("{:.1} %", 100.0 * arrived[place])]
    };
    let mut lines = vec![line("by the packet socket", 0), line("by AF_XDP", 1)];
    lines.push(vec!["AF_XDP to packet socket".into(), format!("{ratio:.2}"), String::new()]);
    println!("{}", table(&["a packet up, decided, cached and sent", "packets/CPU s", "arrived"], &lines));
    for (place, way) in ["packet socket", "AF_XDP"].into_iter().enumerate() {
        report.row(json!({
            "what": "punts by sockets", "format": "fb3", "way": way, "octets": SIZE, "offered_per_s": RATE,
            "punts_per_s": rates[place], "arrived": arrived[place], "runs": rounds,
        }));
    }
    report.bar(Bar::higher("xia.socket_punts_per_s", rates[1], "packets/s", 100_000.0));
    report.bar(Bar::higher("xia.af_xdp_vs_packet_socket", ratio, "x", 1.0));
    Ok(())
}

/// The router: the machine, and the sockets by which packets leave.
struct SlowPath {
    machine: RefCell<Xip<CacheLines>>,
    out: BTreeMap<InterfaceIndex, Rc<PacketSocket>>,
    decided: Cell<u64>,
}

impl SlowPath {
    fn packet(&self, input: InterfaceIndex, mac: [u8; 6], octets: &[u8]) {
        let from = Station { interface: input, mac: Mac(mac) };
        let packet = Input::Packet { from, link: LinkDestination::ThisHost, octets: octets.to_vec() };
        let mut out = Outbox::new();
        self.machine.borrow_mut().handle(sluice_base::Instant::ZERO, packet, &mut out);
        for output in out.drain() {
            if let Output::Send { to, octets, .. } = output
                && let Some(socket) = self.out.get(&to.interface)
            {
                socket.push(to.mac, octets);
                self.decided.set(self.decided.get() + 1);
            }
        }
    }

    fn flush(&self) {
        self.out.values().for_each(|socket| socket.flush());
    }
}

fn packet_socket(name: &str, index: InterfaceIndex) -> Result<Rc<PacketSocket>> {
    let protocol = sluice_clients::LinkProtocol::ether_type(ETHERTYPE_XIP).context("no EtherType")?;
    let request = SocketRequest {
        kind: Kind::Packet { protocol },
        interface: Some(name.into()),
        ttl: None,
        min_ttl: None,
        dscp: 0,
        reception: Reception::default(),
    };
    Ok(PacketSocket::of(request.open()?, index, ETHERTYPE_XIP)?)
}

/// Measures one way, on a thread inside the router's node.
fn measure(lab: &Lab, threads: &Threads, domains: &Domains, way: Way, pins: &Path) -> Result<Sample> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let sample = local.block_on(&runtime, measured(lab, threads, domains, way, pins));
    drop(local);
    // The next run reports pins that stay.
    let _ = Chain::remove(pins);
    sample
}

async fn measured(lab: &Lab, threads: &Threads, domains: &Domains, way: Way, pins: &Path) -> Result<Sample> {
    let mut chain = Chain::open(pins)?;
    let program = chain.load(Embedded::Xip, &NAMES)?;
    let (lines, maps) = ProgramMaps::new(|name| program.map(name))?;
    let (input, input_mac) = interface(lab, "r", IN)?;
    let mut ports = Ports { input: (input, input_mac), output: Vec::new() };
    for (place, (node, name)) in SINKS.into_iter().enumerate() {
        let (index, mac) = interface(lab, "r", OUT[place])?;
        ports.output.push((index, mac, interface(lab, node, name)?.1));
    }
    chain.attach(input, IN)?;
    chain.set_port(input, Mac(input_mac), 0, 0);
    let mut random = Rng::from_seed(rows::SEED);
    let cache = Cache::new(lines, LINE_BITS, HashKey::draw(|| random.next_u64()));
    maps.set_hashes(cache.key(), cache.line_shift());
    maps.set_settings(ProgramSettings {
        shadow_interval: 0,
        punts_per_second: 10_000_000,
        punt_burst: 10_000_000,
        has_reports: false,
        ether_type: ETHERTYPE_XIP,
        tunnel: None,
    });
    chain.fill(Slot::Xip, &program)?;
    let mut out = BTreeMap::new();
    for (place, (index, _, _)) in ports.output.iter().enumerate() {
        out.insert(*index, packet_socket(OUT[place], *index)?);
    }
    let machine = RefCell::new(machine(domains, &ports, cache)?);
    let router = Rc::new(SlowPath { machine, out, decided: Cell::new(0) });

    let reader = match way {
        Way::PacketSocket => {
            let socket = packet_socket(IN, input)?;
            let router = Rc::clone(&router);
            tokio::task::spawn_local(async move {
                let received =
                    |link: sluice_process::Link, octets: &[u8]| router.packet(input, link.mac.0, octets);
                // The run ends the reader.
                let _ = socket.receive(received, || router.flush()).await;
            })
        }
        Way::AfXdp => {
            let mut receiver = Receiver::new(receiver::socket(IN)?, FRAMES)?;
            receiver::bind(receiver.socket(), input.number(), 0)?;
            Receivers::new(&program, "xip_receivers")?.put(input.number(), 0, receiver.socket())?;
            let watched = watch(receiver.socket().try_clone_to_owned()?)?;
            let router = Rc::clone(&router);
            tokio::task::spawn_local(async move {
                while let Ok(mut ready) = watched.readable().await {
                    let count = receiver.receive(BATCH, |frame| {
                        let Some((header, octets)) = frame.split_at_checked(14) else { return };
                        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *header else { return };
                        router.packet(input, [a, b, c, d, e, f], octets);
                    });
                    if count == 0 {
                        ready.clear_ready();
                        continue;
                    }
                    router.flush();
                    tokio::task::yield_now().await;
                }
            })
        }
    };

    let packets = domains.destinations.len().min(MOST);
    let mut spec = Spec::xip(SOURCE, input_mac, XipFormat::Fb3, in_turn(&domains.destinations));
    (spec.size, spec.rate, spec.limit) = (Some(SIZE), NonZeroU64::new(RATE), NonZeroU64::new(packets as u64));
    let (own, polling) = (cpu()?, threads.router_cpu()?);
    let running = launch(lab, spec)?;
    let (mut last, mut since) = (0, Instant::now());
    while last < packets as u64 && since.elapsed() < SILENCE + Duration::from_secs(u64::from(last == 0)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if router.decided.get() != last {
            (last, since) = (router.decided.get(), Instant::now());
        }
    }
    let spent = cpu()? - own + (threads.router_cpu()? - polling);
    running.stop()?;
    reader.abort();
    ensure!(last > 0, "no packet came up");
    Ok(Sample { per_cpu_second: last as f64 / spent.as_secs_f64(), arrived: last as f64 / packets as f64 })
}
