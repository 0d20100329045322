//! XRL: frames and their content, the text form, packed route batches.

use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use sluice_base::{
    Address, Distance, Encapsulation, FamilyId, FibBatch, FibRoute, Forwarding, GroupId, Identifier,
    InterfaceIndex, Ipv4Prefix, Ipv6Prefix, Metric, NextHop, Prefix, Provenance, RouteAction, RouteBatch,
    RouteKind, RouteSet, RouteUpdate, Tag,
};
use sluice_xrl::XrlError;
use sluice_xrl::frame::{self, Bind, Datagram, Frame, Kind};
use sluice_xrl::idl::{fea::v1 as fea, rib::v1 as rib};
use sluice_xrl::routes;
use sluice_xrl::text;
use std::fmt::Debug;
use std::net::IpAddr;
use std::path::Path;
use std::sync::OnceLock;

/// Frames from a connection: each frame is the same after writing, and no frame is delivered before it is complete.
pub fn frames(octets: &[u8]) {
    let mut rest = octets;
    while let Ok(Some((frame, size))) = frame::decode(rest) {
        assert_eq!(frame::announced_size(rest), size);
        assert_eq!(frame::decode(&rest[..size - 1]), Ok(None));
        let mut out = Vec::new();
        assert_eq!(frame::put(&mut out, frame), Ok(()));
        assert_eq!(out, rest[..size]);
        bodies(frame.body);
        rest = &rest[size..];
    }
}

/// The body of any kind of frame, as any kind.
fn bodies(body: &[u8]) {
    if let Ok(bind) = Bind::decode(body) {
        let mut out = Vec::new();
        bind.encode(&mut out);
        assert_eq!(out, body);
    }
    error(body);
}

fn error(body: &[u8]) {
    let mut out = Vec::new();
    XrlError::decode(body).encode(&mut out);
    // What is out of range is cut, once.
    let again = XrlError::decode(&out);
    let mut twice = Vec::new();
    again.encode(&mut twice);
    assert_eq!(XrlError::decode(&twice), again);
    assert!(!again.to_string().is_empty());
}

/// A datagram of the family `udp`: a frame with a whole call.
pub fn datagram(octets: &[u8]) {
    let Ok(Some((Frame { kind: Kind::Datagram, sequence, body, .. }, size))) = frame::decode(octets) else {
        return;
    };
    let Ok(call) = Datagram::decode(body) else { return };
    let mut out = Vec::new();
    let start = frame::begin(&mut out, Kind::Datagram, sequence, u16::from_be_bytes([octets[9], octets[10]]));
    Datagram::encode_head(&call.bind, call.within_ms, &mut out);
    out.extend_from_slice(call.arguments);
    assert_eq!(frame::end(&mut out, start), Ok(()));
    assert_eq!(out, octets[..size]);
}

/// Messages for calls in text form: a message with a field of every type, and the components' messages.
fn described() -> &'static [MessageDescriptor] {
    static DESCRIBED: OnceLock<Vec<MessageDescriptor>> = OnceLock::new();
    DESCRIBED.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folders = [root.join("platform/xrl/tests/idl"), root.join("idl")];
        let set = protox::compile(["echo.proto"], folders).expect("the tests' interfaces are good");
        let echo = DescriptorPool::from_file_descriptor_set(set).expect("and describe themselves");
        let own = DescriptorPool::decode(sluice_xrl::idl::DESCRIPTORS).expect("so do the platform's");
        let names = ["rib.v1.UpdateRoutesRequest", "fea.v1.UpdateFibRequest", "finder.v1.RegisterRequest"];
        let mut all: Vec<_> = echo.get_message_by_name("echo.v1.Everything").into_iter().collect();
        all.extend(names.iter().filter_map(|n| own.get_message_by_name(n)));
        all
    })
}

/// The text form: a parsed text is the same after writing and parsing, as a call and as a message.
pub fn text(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    if let Some(plain) = text::unescape(&text) {
        let mut escaped = String::new();
        text::escape(&plain, &mut escaped);
        assert_eq!(text::unescape(&escaped), Some(plain));
    }
    let call = match text::parse(&text) {
        Ok(call) => call,
        Err(error) => return assert!(error.offset <= text.len() && text.is_char_boundary(error.offset)),
    };
    assert_eq!(text::parse(&call.to_string()).as_ref(), Ok(&call));
    for message in described() {
        let Ok(built) = text::build(message, &call.arguments) else { continue };
        let written = text::render(&built);
        let again = text::parse(&format!("t/i/m?{written}")).expect("what was written is read");
        let again = text::build(message, &again.arguments).expect("and fits");
        assert_eq!(text::render(&again), written);
    }
}

/// A packed batch of either kind and family, and the equivalent messages.
pub fn packed(octets: &[u8]) {
    batches::<Ipv4Prefix>(octets);
    batches::<Ipv6Prefix>(octets);
}

fn batches<P: Prefix>(octets: &[u8])
where
    RouteBatch<P>: PartialEq + Debug,
    FibBatch<P, Address>: PartialEq + Debug,
{
    if let Ok(batch) = routes::decode_routes::<P>(octets) {
        assert_eq!(routes::decode_routes(&routes::encode_routes(&batch)).as_ref(), Ok(&batch));
        let (sets, changes) = routes::routes_to_messages(&batch);
        assert_eq!(routes::routes_from_messages(&sets, &changes).as_ref(), Ok(&batch));
    }
    if let Ok(batch) = routes::decode_fib::<P, Address>(octets) {
        assert_eq!(routes::decode_fib(&routes::encode_fib(&batch)).as_ref(), Ok(&batch));
        let (groups, rows, unused) = routes::fib_to_messages(&batch);
        assert_eq!(routes::fib_from_messages(&groups, &rows, &unused).as_ref(), Ok(&batch));
    }
}

/// The arguments of the calls that carry routes.
pub fn route_requests(octets: &[u8]) {
    if let Ok(request) = rib::UpdateRoutesRequest::decode(octets) {
        let _ = (routes::routes_of::<Ipv4Prefix>(&request), routes::routes_of::<Ipv6Prefix>(&request));
    }
    if let Ok(request) = fea::UpdateFibRequest::decode(octets) {
        let _ =
            (routes::fib_of::<Ipv4Prefix, IpAddr>(&request), routes::fib_of::<Ipv6Prefix, Address>(&request));
    }
}

const PATH: &str = "rib/rib.v1.Rib/UpdateRoutes";

/// Connections from Hello on, both sides.
pub fn connections() -> Vec<Vec<u8>> {
    let mut caller = Vec::new();
    frame::put_hello(&mut caller);
    let mut bind = Vec::new();
    Bind { key: [7; 16], grant: 9, principal: "radar", path: PATH }.encode(&mut bind);
    let mut error = Vec::new();
    XrlError::TooLarge { size: 17 << 20, limit: 16 << 20 }.encode(&mut error);
    let arguments = route_messages().swap_remove(0);
    let within = [&250u32.to_be_bytes()[..], &arguments].concat();
    let put = |kind, sequence, body: &[u8], out: &mut Vec<u8>| {
        let _fits = frame::put(out, Frame { kind, sequence, method: 3, body });
    };
    put(Kind::Bind, 0, &bind, &mut caller);
    put(Kind::Call, 1, &arguments, &mut caller);
    put(Kind::CallWithin, 2, &within, &mut caller);
    put(Kind::Cancel, 2, &[], &mut caller);
    let mut target = Vec::new();
    put(Kind::Reply, 1, &[], &mut target);
    put(Kind::Error, 2, &error, &mut target);
    put(Kind::Close, 0, &error, &mut target);
    vec![caller, target]
}

/// Datagrams with a call each.
pub fn datagrams() -> Vec<Vec<u8>> {
    let call = |within_ms, arguments: &[u8]| {
        let mut out = Vec::new();
        let start = frame::begin(&mut out, Kind::Datagram, 9, 0);
        Datagram::encode_head(
            &Bind { key: [1; 16], grant: 9, principal: "radar", path: PATH },
            within_ms,
            &mut out,
        );
        out.extend_from_slice(arguments);
        let _fits = frame::end(&mut out, start);
        out
    };
    vec![call(0, &[]), call(500, b"arguments")]
}

/// Calls as written by people.
pub fn texts() -> Vec<Vec<u8>> {
    let all = [
        "finder://bgp/bgp.v1.Bgp/SetLocalAs?as:u32=65001&name:txt=a+b%26c->ok:bool",
        "unix://x/y.v1/Z",
        "t/i/m?i32:i32=-5&u32:u32=4294967295&i64:i64=-1&u64:u64=18446744073709551615&fp32:fp32=NaN&fp64:fp64=-1e300",
        "t/i/m?flag:bool=true&txt:txt=&binary:binary=%00x%FF&numbers:list<u32>=1,2&texts:list<txt>=a,,&color:enum=RED",
        "t/i/m?addr:ipv4=192.0.2.1&net:ipv6net=2001:db8::/32&mac:mac=00:11:22:33:44:55&addrs:list<ipv6>=::1,2001:db8::1",
        "t/i/m?inner:json=%7B%22x%22:1%7D&maybe:u32=0&table:json=%7B%22a%22:1%7D&inners:json=%5B%5D&right:txt=r",
        "rib/rib.v1/UpdateRoutes?origin:txt=bgp&packed:binary=%01%01%04",
    ];
    all.iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn hops() -> Forwarding<Address> {
    let hop = |gateway: Option<Address>, interface, weight| NextHop {
        is_backup: false,
        gateway,
        interface: InterfaceIndex::new(interface),
        encapsulation: None,
        weight,
    };
    let gateways: [IpAddr; 2] = [[192, 0, 2, 1].into(), [0xfe80, 0, 0, 0, 0, 0, 0, 1].into()];
    let identifier = Identifier::new(FamilyId(20), &[7; 24]).map(Address::Identifier);
    let hops = vec![
        hop(Some(Address::Ip(gateways[0])), 0, 1),
        hop(Some(Address::Ip(gateways[1])), 3, 200).as_backup(),
        NextHop { encapsulation: Encapsulation::new(1, &[0, 1, 0x81]), ..hop(identifier, 0, 1) },
        hop(None, 4, 1),
    ];
    Forwarding::many(hops).expect("four are not none")
}

fn route_batch<P: Prefix>(prefixes: &[&str]) -> RouteBatch<P> {
    let set = |forwarding, distance| RouteSet {
        forwarding,
        metric: Metric(100),
        distance,
        kind: RouteKind(1),
        tags: [Tag(77), Tag(78)].into_iter().collect(),
    };
    let update = |(index, text): (usize, &&str)| RouteUpdate {
        prefix: text.parse().expect("a prefix"),
        action: if index == 0 { RouteAction::Delete } else { RouteAction::Set(index as u32 % 2) },
        provenance: Provenance::new(1, index as u64 / 2 * 1000),
    };
    RouteBatch {
        sets: vec![set(hops(), Some(Distance(200))), set(Forwarding::Discard, None)],
        updates: prefixes.iter().enumerate().map(update).collect(),
    }
}

fn fib_batch<P: Prefix>(prefixes: &[&str]) -> FibBatch<P, Address> {
    let route = |(index, text): (usize, &&str)| FibRoute {
        prefix: text.parse().expect("a prefix"),
        group: (index > 0).then_some(GroupId(index as u32)),
        is_external: index > 1,
        provenance: Provenance::new(2, index as u64),
    };
    FibBatch {
        groups: vec![(GroupId(1), hops()), (GroupId(2), Forwarding::Reject)],
        routes: prefixes.iter().enumerate().map(route).collect(),
        unused: vec![GroupId(9), GroupId(300)],
    }
}

const V4: &[&str] = &["0.0.0.0/0", "10.0.0.0/8", "192.0.2.0/24", "192.0.2.1/32"];
const V6: &[&str] = &["::/0", "2001:db8::/32", "2001:db8:2::/47", "2001:db8::1/128"];

/// Packed batches of both kinds and families.
pub fn packed_batches() -> Vec<Vec<u8>> {
    vec![
        routes::encode_routes(&route_batch::<Ipv4Prefix>(V4)),
        routes::encode_routes(&route_batch::<Ipv6Prefix>(V6)),
        routes::encode_fib(&fib_batch::<Ipv4Prefix>(V4)),
        routes::encode_fib(&fib_batch::<Ipv6Prefix>(V6)),
    ]
}

/// Arguments of the calls that carry routes, packed and readable.
pub fn route_messages() -> Vec<Vec<u8>> {
    let (sets, changes) = routes::routes_to_messages(&route_batch::<Ipv4Prefix>(V4));
    let (groups, rows, unused) = routes::fib_to_messages(&fib_batch::<Ipv6Prefix>(V6));
    let packed = packed_batches();
    vec![
        rib::UpdateRoutesRequest { sets, routes: changes, ..Default::default() }.encode_to_vec(),
        rib::UpdateRoutesRequest { packed: packed[1].clone(), ..Default::default() }.encode_to_vec(),
        fea::UpdateFibRequest { groups, routes: rows, unused, ..Default::default() }.encode_to_vec(),
        fea::UpdateFibRequest { packed: packed[2].clone(), ..Default::default() }.encode_to_vec(),
    ]
}
