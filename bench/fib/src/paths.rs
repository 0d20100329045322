//! The two ways into the kernel, on the same prefixes: a bare netlink loop, and the FEA's core and engine.

use crate::netlink::{Took, Watch};
use anyhow::{Context, Result, ensure};
use bench_report::median;
use sluice_base::*;
use sluice_fea::engine::Scope;
use sluice_fea::{Drive, Effect, EngineOp, Fea, Input, Member, Members, NextHopId, RouteTarget};
use sluice_fea_process::linux::LinuxEngine;
use sluice_fea_process::linux::netlink::{decode, encode::Messages, socket::Socket};
use sluice_lab::Lab;
use std::net::IpAddr;
use std::time;

const TABLE: TableId = TableId::MAIN;

/// Messages in a datagram of the bare loop: those of the engine.
const BATCH: usize = 128;

/// Routes in a batch from the RIB.
const FROM_RIB: usize = 4096;

/// The FEA's results.
pub struct Engine {
    /// Every route, from the RIB's batches to the kernel.
    pub took: Took,
    /// A next hop changed under all of them, until the kernel uses the new one.
    pub change_ms: f64,
    /// A single route.
    pub single_us: f64,
}

/// The least possible work: a message made once, its prefix and number patched, 128 in a datagram, refusals read.
pub fn bare_loop(lab: &Lab, prefixes: &[Ipv4Prefix]) -> Result<Took> {
    let socket = Socket::open()?;
    let template = template(lab, &socket)?;
    let mut datagram = template.repeat(BATCH);
    let mut buffer = vec![0; 1 << 16];
    let mut refused = 0;
    let watch = Watch::start()?;
    for (n, chunk) in prefixes.chunks(BATCH).enumerate() {
        for (i, prefix) in chunk.iter().enumerate() {
            let message = &mut datagram[i * template.len()..][..template.len()];
            // nlmsg_seq, rtm_dst_len, and the value of the first attribute, RTA_DST.
            message[8..12].copy_from_slice(&((n * BATCH + i) as u32).to_ne_bytes());
            message[17] = prefix.len();
            message[32..36].copy_from_slice(&prefix.to_parts().0.to_be_bytes());
        }
        socket.send(&datagram[..chunk.len() * template.len()])?;
        while let Some(answer) = socket.receive(&mut buffer)? {
            refused += decode::messages(answer).count();
        }
    }
    let took = watch.stop()?;
    ensure!(refused == 0, "the kernel refused {refused} routes");
    Ok(took)
}

/// Makes a next hop and returns the message that sets a route to it.
fn template(lab: &Lab, socket: &Socket) -> Result<Vec<u8>> {
    let (member, group) = (NextHopId(10), NextHopId(11));
    let via = Member::Via { gateway: "10.0.0.2".parse()?, interface: index(lab, "eth0")? };
    let members: Members = [(member, 1)].into_iter().collect();
    let mut setup = Messages::default();
    setup.push(&EngineOp::SetMember { id: member, member: via }, 1);
    setup.push(&EngineOp::SetGroup { id: group, members, create: true }, 2);
    socket.send(setup.octets())?;
    let set = EngineOp::SetRoute {
        table: TABLE,
        prefix: "0.0.0.0/0".parse()?,
        target: RouteTarget::Group(group),
        replace: false,
        scope: Scope::All,
        provenance: Provenance::NONE,
    };
    let mut template = Messages::default();
    template.push(&set, 0);
    Ok(template.octets().to_vec())
}

/// `/sys` is the host's, so the number is asked through `ip`, which enters the namespace.
fn index(lab: &Lab, interface: &str) -> Result<InterfaceIndex> {
    let text = lab.exec("r", "ip", ["-o", "link", "show", "dev", interface])?;
    let number = text.split(':').next().and_then(|n| n.parse().ok());
    number.and_then(InterfaceIndex::new).with_context(|| format!("no interface {interface}"))
}

/// The FEA's core with the real engine.
struct Bench {
    drive: Drive<LinuxEngine>,
    effects: Vec<Effect>,
    ways: [(Forwarding, InterfaceIndex); 2],
}

/// The group of every route.
const GROUP: GroupId = GroupId(1);

/// The whole path, from the RIB's batch to the kernel; then next-hop changes under the whole table, then single
/// routes.
pub fn fea(lab: &Lab, prefixes: &[Ipv4Prefix]) -> Result<Engine> {
    let way = |gateway: &str, interface: &str| -> Result<(Forwarding, InterfaceIndex)> {
        let index = index(lab, interface)?;
        Ok((Forwarding::one(NextHop::via_on(gateway.parse()?, index)), index))
    };
    let mut bench = Bench {
        drive: Drive::new(Fea::new(1), LinuxEngine::open()?),
        effects: Vec::new(),
        ways: [way("10.0.0.2", "eth0")?, way("10.0.1.2", "eth1")?],
    };
    bench.drive.quiesce(Instant::ZERO, &mut bench.effects);
    let took = bench.fill(prefixes)?;
    let change_ms = bench.change(prefixes)?;
    Ok(Engine { took, change_ms, single_us: bench.single(prefixes) })
}

impl Bench {
    fn handle(&mut self, batch: FibBatch<Ipv4Prefix>) {
        self.drive.handle(Instant::ZERO, Input::UpdateIpv4(TABLE, batch), &mut self.effects);
    }

    fn fill(&mut self, prefixes: &[Ipv4Prefix]) -> Result<Took> {
        let route = |p: &Ipv4Prefix| FibRoute {
            prefix: *p,
            group: Some(GROUP),
            is_external: false,
            provenance: Provenance::new(1, 1),
        };
        let batch = |chunk: &[Ipv4Prefix]| FibBatch {
            routes: chunk.iter().map(route).collect(),
            ..FibBatch::default()
        };
        let mut batches: Vec<_> = prefixes.chunks(FROM_RIB).map(batch).collect();
        let first = batches.first_mut().context("there is at least one route")?;
        first.groups.push((GROUP, self.ways[0].0.clone()));
        let watch = Watch::start()?;
        batches.into_iter().for_each(|b| self.handle(b));
        let took = watch.stop()?;
        self.drive.quiesce(Instant::ZERO, &mut self.effects);
        let refused = self.effects.iter().filter(|e| matches!(e, Effect::Rejected { .. })).count();
        ensure!(refused == 0, "the kernel refused {refused} routes");
        let wanted = self.drive.core().totals().tables[0].2.wanted;
        ensure!(wanted == prefixes.len(), "the FEA has {wanted} routes of {}", prefixes.len());
        Ok(took)
    }

    /// Milliseconds until the kernel uses the other next hop.
    fn change(&mut self, prefixes: &[Ipv4Prefix]) -> Result<f64> {
        let mut changes = Vec::new();
        let lookup = Socket::open()?;
        let probe = prefixes[prefixes.len() / 2];
        for n in 1..=9 {
            let (way, wanted) = self.ways[n % 2].clone();
            let start = time::Instant::now();
            self.handle(FibBatch { groups: vec![(GROUP, way)], ..FibBatch::default() });
            while output_interface(&lookup, probe.addr().into())? != Some(wanted.number()) {
                ensure!(start.elapsed() < time::Duration::from_secs(10), "the new path is never used");
            }
            changes.push(start.elapsed().as_secs_f64() * 1e3);
            self.drive.quiesce(Instant::ZERO, &mut self.effects);
        }
        Ok(median(&changes))
    }

    /// Microseconds for one route, removed and set again.
    fn single(&mut self, prefixes: &[Ipv4Prefix]) -> f64 {
        let mut singles = Vec::new();
        for prefix in prefixes.iter().take(2000) {
            for group in [None, Some(GROUP)] {
                let routes = vec![FibRoute {
                    prefix: *prefix,
                    group,
                    is_external: false,
                    provenance: Provenance::new(1, 1),
                }];
                let start = time::Instant::now();
                self.handle(FibBatch { routes, ..FibBatch::default() });
                singles.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        median(&singles)
    }
}

/// The interface that the kernel would send a packet to `to` out of: RTM_GETROUTE, as `ip route get` does.
fn output_interface(socket: &Socket, to: IpAddr) -> Result<Option<u32>> {
    const RTM_GETROUTE: u16 = 26;
    const RTA_OIF: u8 = 4;
    let IpAddr::V4(to) = to else { return Ok(None) };
    let mut request = Vec::new();
    request.extend_from_slice(&36u32.to_ne_bytes());
    request.extend_from_slice(&RTM_GETROUTE.to_ne_bytes());
    request.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    request.extend_from_slice(&[2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    request.extend_from_slice(&[8, 0, 1, 0]);
    request.extend_from_slice(&to.octets());
    socket.send(&request)?;
    let mut buffer = vec![0; 4096];
    let answer = socket.receive(&mut buffer)?.unwrap_or_default();
    let Some(message) = decode::messages(answer).next() else { return Ok(None) };
    let mut rest = message.body.get(12..).unwrap_or_default();
    while let [low, high, kind, _, value @ ..] = rest {
        let length = usize::from(u16::from_ne_bytes([*low, *high]));
        if *kind == RTA_OIF {
            return Ok(value.first_chunk().map(|v| u32::from_ne_bytes(*v)));
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(None)
}
