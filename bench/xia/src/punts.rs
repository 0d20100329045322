//! Packets that come up to the process because their row has no answer yet: the whole machine of XIP decides on each, caches the answer
//! and gives out the packet to send. On one core, without a network: the system calls of the packet sockets are left out.

use crate::domains::Domains;
use crate::rows;
use crate::slow_path::{SLOT_WORDS, cpu};
use anyhow::{Context, Result, ensure};
use bench_report::{Bar, Report, median, number, table};
use serde_json::json;
use sluice_base::{Instant, Interface, InterfaceEvent, InterfaceIndex, Rng, Xid, XidType};
use sluice_machine::{Machine, Outbox, Request};
use sluice_pktgen::{XipFormat, domain};
use sluice_xip::cache::{Cache, HashKey, Lines, SLOTS_PER_LINE};
use sluice_xip::io::{Gateway, Input, Output, RibRoute, Settings};
use sluice_xip::links::Station;
use sluice_xip::machine::{FastPath, Xip};
use sluice_xip::wire::{Dag, LinkDestination, Mac, PacketHead};
use std::collections::BTreeMap;

/// Lines of the cache as a power of two, as the process has by default.
const LINE_BITS: u32 = 16;
/// Octets of payload: frames of about 256 octets.
const PAYLOAD: usize = 100;
/// The link-layer address of all stations here.
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// Measures, prints and reports.
pub fn run(domains: &Domains, rounds: usize, report: &mut Report) -> Result<()> {
    let mut random = Rng::from_seed(rows::SEED);
    let key = HashKey::draw(|| random.next_u64());
    let packets: Vec<Vec<u8>> = domains.octets().map(packet).collect::<Result<_>>()?;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let lines = vec![0_u64; (SLOT_WORDS * SLOTS_PER_LINE) << LINE_BITS];
        let ports = Ports {
            input: (index(1)?, MAC.0),
            output: vec![(index(1)?, MAC.0, [2, 0, 0, 0, 1, 0]), (index(2)?, MAC.0, [2, 0, 0, 0, 1, 1])],
        };
        let mut machine = machine(domains, &ports, Cache::new(lines, LINE_BITS, key.clone()))?;
        let from = Station { interface: index(1)?, mac: MAC };
        let copies = packets.clone();
        let (mut out, mut sent) = (Outbox::new(), 0_usize);
        let begin = cpu()?;
        for octets in copies {
            let input = Input::Packet { from, link: LinkDestination::ThisHost, octets };
            machine.handle(Instant::ZERO, input, &mut out);
            sent += out.drain().filter(|output| matches!(output, Output::Send { .. })).count();
        }
        rates.push(packets.len() as f64 / (cpu()? - begin).as_secs_f64());
        ensure!(sent == packets.len(), "{sent} of {} packets were sent", packets.len());
    }
    let rate = median(&rates);
    let lines = [vec!["decided, cached and given out".to_owned(), number(rate)]];
    println!("{}", table(&["a packet of fb3, its row never seen before", "packets/CPU s"], &lines));
    report.row(json!({ "what": "punts", "format": "fb3", "packets": packets.len(), "punts_per_s": rate, "runs": rounds }));
    report.bar(Bar::higher("xia.punts_per_s", rate, "packets/s", 250_000.0));
    Ok(())
}

fn packet(octets: [u8; 4]) -> Result<Vec<u8>> {
    let mut packet = Vec::new();
    let head = PacketHead::new(XipFormat::Fb3.address(domain(octets)), Dag::EMPTY);
    head.put(&[0; PAYLOAD], &mut packet).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(packet)
}

fn index(number: u32) -> Result<InterfaceIndex> {
    InterfaceIndex::new(number).context("an interface has no number")
}

/// The router's interfaces.
pub struct Ports {
    /// The interface to the source: index and link-layer address.
    pub input: (InterfaceIndex, [u8; 6]),
    /// The interfaces out, one for each way: index, link-layer address, and that of the neighbor. One may be that of `input`.
    pub output: Vec<(InterfaceIndex, [u8; 6], [u8; 6])>,
}

/// Returns a router with these interfaces, a neighbor on each way, a redirect for each domain, and a cache.
pub fn machine<L: Lines>(domains: &Domains, ports: &Ports, cache: Cache<L>) -> Result<Xip<L>> {
    let mut machine = Xip::new(rows::SEED, 0);
    let mut stations = BTreeMap::from([ports.input]);
    stations.extend(ports.output.iter().map(|(index, mac, _)| (*index, *mac)));
    let name = |index: InterfaceIndex| format!("port{}", index.number());
    let mut inputs = vec![Input::Configure(Settings {
        interfaces: stations.keys().map(|index| (name(*index), false)).collect(),
        principals: [(XidType::AD, "ad"), (XidType::HID, "hid")].into(),
        consultations: 2,
        ..Settings::default()
    })];
    for (index, mac) in stations {
        inputs.push(Input::Interface(InterfaceEvent::Changed(Interface {
            index,
            name: name(index),
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: mac.to_vec(),
            addresses: vec![],
        })));
    }
    let neighbor = |(way, (index, _, mac)): (usize, &(InterfaceIndex, _, [u8; 6]))| -> Result<_> {
        let gateway = Gateway { xid: Xid::of_link_address(*mac), interface: Some(*index), weight: 1 };
        Ok((rows::whole(rows::host(way))?, Some(RibRoute::Gateways(vec![gateway]))))
    };
    inputs.push(Input::Routes(ports.output.iter().enumerate().map(neighbor).collect::<Result<_>>()?));
    let redirect = |(number, octets): (usize, [u8; 4])| -> Result<_> {
        let gateway = Gateway { xid: rows::host(number % rows::WAYS), interface: None, weight: 1 };
        Ok((rows::whole(domain(octets))?, Some(RibRoute::Gateways(vec![gateway]))))
    };
    inputs.push(Input::Routes(domains.octets().enumerate().map(redirect).collect::<Result<_>>()?));
    let mut out = Outbox::new();
    inputs.into_iter().for_each(|input| machine.handle(Instant::ZERO, input, &mut out));
    FastPath(Some(cache)).make(&mut machine, Instant::ZERO, &mut out);
    Ok(machine)
}
