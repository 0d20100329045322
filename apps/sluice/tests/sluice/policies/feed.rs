//! The announced routes: UPDATEs of a real trace, and routes that are made for the policies, with each of some paths and
//! communities.

use crate::policies::network::{LOCAL_AS, Role};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix};
use sluice_bgpsim::message::{Attributes, Voice};
use sluice_bgpsim::stream::Stream;
use sluice_bgpsim::trace::Trace;
use sluice_bgpsim::wire::as_path::{AS_SEQUENCE, AS_SET};
use sluice_bgpsim::wire::attribute::{code, put_header};
use sluice_bgpsim::wire::{MessageType, header};
use sluice_bgpsim::workload::Families;
use sluice_load::RoutingTable;
use std::net::{Ipv4Addr, Ipv6Addr};

const TRACE: &str = "data/bgp/updates/rrc15.updates.20100227.1600.gz";
/// The announced and withdrawn prefixes of the trace, unless the whole trace is announced.
const FEW: usize = 8000;
/// A next hop in the subnet [`crate::policies::network::HOPS`].
const OTHER_HOP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);

/// AS paths behind the feeder's AS.
const PATHS: &[&[u32]] = &[
    &[],
    &[64501, 64501],
    &[3356],
    &[174, 3356, 13335],
    &[13335],
    &[3356, 64512],
    &[65534, 13335],
    &[3356, 4_200_000_001, 4_294_967_294],
    &[1299, 2914, 3257, 6453, 6461, 6762, 6830, 7018, 12956, 5511, 701, 13335],
    &[7018, 23456],
    &[64496, 65551],
    &[64999, 1299],
    &[
        8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218,
        8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218,
        8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218, 8218,
        8218, 15169,
    ],
];
/// Members of an AS_SET behind one of the paths.
const SET: &[u32] = &[13335, 15169];

/// Communities of a route: standard, extended and large.
struct Communities(&'static [[u16; 2]], &'static [[u32; 2]], &'static [[u32; 3]]);

const COMMUNITIES: &[Communities] = &[
    Communities(&[], &[], &[]),
    Communities(&[[64500, 80]], &[], &[]),
    Communities(&[[64500, 100], [64501, 7]], &[], &[]),
    Communities(&[[64500, 120]], &[], &[[64501, 2, 3]]),
    Communities(&[[64500, 101]], &[], &[]),
    Communities(&[[64500, 102], [64500, 120]], &[], &[]),
    Communities(&[[64500, 103]], &[[RT | 64501, 5]], &[]),
    Communities(&[[64500, 0]], &[], &[]),
    Communities(&[[64500, 666]], &[], &[]),
    Communities(&[[65535, 666]], &[], &[]),
    Communities(&[[65535, 65281]], &[], &[]),
    Communities(&[[65535, 65282]], &[], &[]),
    Communities(&[[65535, 0]], &[], &[]),
    Communities(&[[64501, 1], [64501, 2], [174, 3000], [3356, 123]], &[], &[]),
    Communities(&[[64500, 199]], &[], &[[64500, 1, 1], [64500, 1, 2]]),
    Communities(&[], &[[RT | 64500, 1], [SOO | 64500, 9], [RT | 64501, 5]], &[[64500, 100, 7]]),
];
/// Type and subtype of extended communities of an AS of 2 octets (RFC 4360).
const RT: u32 = 0x0002_0000;
const SOO: u32 = 0x0003_0000;
const MEDS: &[Option<u32>] = &[None, Some(0), Some(10), Some(100), Some(u32::MAX - 5)];
/// Prefixes that policies name: special-purpose blocks, the router's own, customers', and further ones of all lengths.
const SPECIAL: &[&str] = &[
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.20.0.0/16",
    "100.64.0.0/10",
    "100.64.7.0/24",
    "169.254.0.0/16",
    "169.254.8.0/24",
    "172.16.0.0/12",
    "172.20.1.0/24",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.0.2.128/25",
    "192.168.0.0/16",
    "192.168.77.0/24",
    "198.18.0.0/15",
    "198.19.4.0/24",
    "198.51.100.0/24",
    "198.51.100.64/26",
    "8.0.0.0/6",
    "44.0.0.0/7",
    "45.10.0.0/16",
    "45.10.0.0/17",
    "45.10.128.0/18",
    "45.10.192.0/20",
    "45.11.0.0/16",
    "45.12.0.0/22",
    "46.0.0.0/8",
    "46.128.0.0/9",
    "46.64.0.0/10",
    "46.32.0.0/11",
    "46.16.0.0/12",
    "46.8.0.0/13",
    "46.4.0.0/14",
    "46.2.0.0/15",
    "193.0.0.0/21",
    "193.0.4.0/24",
    "193.0.6.128/25",
    "193.0.0.1/32",
];

/// The part of the trace that a feeder announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The first [`FEW`] prefixes.
    Begin,
    /// All.
    Whole,
}

/// Returns the messages of the feeder with an address.
pub fn feed(trace: &Trace<'_>, extent: Extent, address: Ipv4Addr) -> Vec<u8> {
    let voice = voice(address);
    let said = trace.said(&[voice], Families { v4: true, v6: false }, Asn(LOCAL_AS));
    let stream = &said.streams[0];
    let mut end = stream.len();
    if extent == Extent::Begin {
        end = (0..end).find(|end| stream.prefixes(0..*end) > FEW).unwrap_or(end);
    }
    let mut octets = stream.octets(0..end).to_vec();
    let mut made = Stream::default();
    for (number, (attributes, prefixes)) in made_up().into_iter().enumerate() {
        let next_hop_v4 = if number % 7 == 3 { OTHER_HOP } else { address };
        voice_with(voice, next_hop_v4).announce(&attributes, &prefixes, &mut made);
    }
    octets.extend_from_slice(made.octets(0..made.len()));
    put_end_of_rib(&mut octets);
    octets
}

/// The prefixes of a flood: each set of attributes replaces an earlier one.
const FLOODED: u32 = 1000;

/// Returns a route whose set of attributes is not any other number's: 44.x.y.0/24 with a large community.
pub fn distinct(address: Ipv4Addr, number: u32) -> Vec<u8> {
    let mut attributes = Attributes::default();
    let community = [LOCAL_AS, number, 1].map(u32::to_be_bytes);
    put_transitive(code::LARGE_COMMUNITY, community.as_flattened(), &mut attributes.rest);
    route(address, &attributes, Ipv4Addr::from(0x2c00_0000 | (number % FLOODED) << 8))
}

/// Returns a route of its own, to a network of a block for private use (RFC 1918): no table of the Internet has it.
pub fn single(address: Ipv4Addr, number: u32) -> (Ipv4Prefix, Vec<u8>) {
    let first = Ipv4Addr::from(0x0a00_0000 | number << 8);
    (format!("{first}/24").parse().unwrap(), route(address, &Attributes::default(), first))
}

/// Returns the messages that announce the IPv4 routes of a table, one message for each run of routes with equal paths.
pub fn table(table: &RoutingTable, address: Ipv4Addr) -> Vec<u8> {
    let mut made = Stream::default();
    for run in table.v4.chunk_by(|a, b| a.path == b.path) {
        let prefixes: Vec<IpPrefix> = run.iter().map(|announcement| announcement.prefix).collect();
        voice(address).announce(&Attributes::of_path(&run[0].path), &prefixes, &mut made);
    }
    made.octets(0..made.len()).to_vec()
}

fn route(address: Ipv4Addr, attributes: &Attributes, first: Ipv4Addr) -> Vec<u8> {
    let mut made = Stream::default();
    voice(address).announce(attributes, &[prefix(first, 24)], &mut made);
    made.octets(0..made.len()).to_vec()
}

/// Appends the End-of-RIB marker: an UPDATE of IPv4 unicast without content (RFC 4724, section 2).
fn put_end_of_rib(out: &mut Vec<u8>) {
    let begin = header::start(out, MessageType::Update);
    out.extend_from_slice(&[0, 0, 0, 0]);
    header::finish(out, begin);
}

/// Returns the unpacked trace, or `None` without the shared data.
pub fn trace() -> Option<Vec<u8>> {
    sluice_testkit::read(TRACE)
}

fn voice(address: Ipv4Addr) -> Voice {
    Voice {
        asn: Asn(Role::Feeder.asn()),
        internal: false,
        next_hop_v4: address,
        next_hop_v6: Ipv6Addr::UNSPECIFIED,
        per_message: usize::MAX,
        paths: 1,
    }
}

fn voice_with(voice: Voice, next_hop_v4: Ipv4Addr) -> Voice {
    Voice { next_hop_v4, ..voice }
}

/// Routes with each path and each set of communities: an ordinary prefix, a prefix in a customer's block, and a special one.
fn made_up() -> Vec<(Attributes, Vec<IpPrefix>)> {
    let all = PATHS.iter().flat_map(|path| COMMUNITIES.iter().map(move |communities| (path, communities)));
    let routes = all.enumerate().map(|(number, (path, communities))| {
        let n = number as u32;
        let mut prefixes = vec![
            prefix(Ipv4Addr::from(0x2c00_0000 | n << 16), 16 + (n % 17) as u8),
            prefix(Ipv4Addr::from(0x2d0a_0000 | n << 8), 24 + (n % 9) as u8),
        ];
        // Far from each other, so that each gets other paths and communities than its neighbors in the list.
        let special = SPECIAL
            .iter()
            .enumerate()
            .filter(|(place, _)| place * 5 % (PATHS.len() * COMMUNITIES.len()) == number);
        prefixes.extend(special.map(|(_, text)| text.parse::<IpPrefix>().unwrap()));
        (attributes(path, number, communities), prefixes)
    });
    routes.collect()
}

fn prefix(address: Ipv4Addr, len: u8) -> IpPrefix {
    let text = format!("{address}/{len}");
    IpPrefix::parse_subnet(&text).unwrap()
}

fn attributes(path: &[u32], number: usize, communities: &Communities) -> Attributes {
    let mut attributes = Attributes { origin: (number % 3) as u8, ..Attributes::default() };
    put_segment(AS_SEQUENCE, path, &mut attributes.path);
    if number % 11 == 5 {
        put_segment(AS_SET, SET, &mut attributes.path);
    }
    let rest = &mut attributes.rest;
    if let Some(med) = MEDS[number % MEDS.len()] {
        put_header(rest, 0x80, code::MULTI_EXIT_DISC, 4);
        rest.extend_from_slice(&med.to_be_bytes());
    }
    let Communities(standard, extended, large) = communities;
    let standard: Vec<u8> = standard.as_flattened().iter().flat_map(|field| field.to_be_bytes()).collect();
    let wide = |fields: &[u32]| fields.iter().flat_map(|field| field.to_be_bytes()).collect::<Vec<u8>>();
    put_transitive(code::COMMUNITIES, &standard, rest);
    put_transitive(code::EXTENDED_COMMUNITIES, &wide(extended.as_flattened()), rest);
    put_transitive(code::LARGE_COMMUNITY, &wide(large.as_flattened()), rest);
    attributes
}

fn put_segment(kind: u8, asns: &[u32], path: &mut Vec<u8>) {
    if !asns.is_empty() {
        path.extend_from_slice(&[kind, asns.len() as u8]);
        asns.iter().for_each(|asn| path.extend_from_slice(&asn.to_be_bytes()));
    }
}

fn put_transitive(code: u8, value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        put_header(out, 0xc0, code, value.len());
        out.extend_from_slice(value);
    }
}
