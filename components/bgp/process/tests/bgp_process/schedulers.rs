//! With any number of threads and any scheduling, routes to neighbors, routes to the RIB and views of operators are equal to the
//! octet, and equal to those of the core on one thread.

use crate::fake::{FakeFea, Neighbor, configure, surround, until};
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{
    Asn, Distance, Forwarding, Instant, Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex, IpKey,
    IpPrefix, Ipv4Prefix, Ipv6Prefix, Metric, NextHop, Rng, RouterId,
};
use sluice_bgp::endpoints::Endpoints;
use sluice_bgp::family::{FamilyCodes, FamilyIndex};
use sluice_bgp::session::{ConnectionId, Direction};
use sluice_bgp::shard::Interest;
use sluice_bgp::speaker::{Config, DefaultPolicy, Identity, Input, NeighborConfig, Speaker};
use sluice_bgp::wire::attribute::{Attributes, code};
use sluice_bgp::wire::multiprotocol::{MpReach, MpUnreach};
use sluice_bgp::wire::{HEADER_LEN, MessageType, Nlri, Update, header};
use sluice_bgp_dut::Net;
use sluice_bgp_dut::route::{Route, announcement, withdrawal};
use sluice_bgp_process::idl::bgp::v1 as bgp;
use sluice_machine::{Budget, Machine, Outbox, Progress};
use sluice_process::Component;
use sluice_xrl::idl::common::v1 as common;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;

/// The longest run of a trace: a run that hangs is a failure.
const LONGEST: Duration = Duration::from_secs(240);

/// Three announcing neighbors, and two listening neighbors.
const PEERS: usize = 5;
const SENDERS: usize = 3;
const PLANS: [(u16, &str); 5] = [(1, "peer"), (2, "peer"), (2, "dynamic"), (4, "peer"), (4, "dynamic")];

/// The routes sent to a neighbor and not withdrawn: the attributes, octet by octet, for IPv6 behind the next hop.
type AdjRibOut = BTreeMap<IpPrefix, Vec<u8>>;
/// The messages of each sender, in order.
type Trace = [Vec<Vec<u8>>; SENDERS];

fn asn(peer: usize) -> u16 {
    65002 + peer as u16
}

fn address(peer: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + peer as u8)
}

/// The router's address for next hops of IPv6; sessions run over IPv4, because a loopback interface has many addresses of IPv4
/// only.
const OWN_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

fn loopback() -> Interface {
    let address = |addr: IpAddr, prefix_len| InterfaceAddress { addr, prefix_len, peer: None };
    Interface {
        index: InterfaceIndex::new(1).unwrap(),
        name: "lo".into(),
        admin_up: true,
        running: true,
        loopback: true,
        point_to_point: false,
        multicast: false,
        mtu: 65_536,
        mac: vec![],
        addresses: vec![address(Ipv4Addr::LOCALHOST.into(), 8), address(OWN_IPV6.into(), 64)],
    }
}

/// Random announcements and withdrawals of prefixes far apart and close together.
fn random_trace<P: IpNet>(seed: u64) -> Trace {
    let mut rng = Rng::from_seed(seed);
    let mut below = move |n: u64| (rng.next_u64() % n) as u32;
    std::array::from_fn(|sender| {
        let mut messages = vec![];
        for _ in 0..400 {
            let mut prefixes = |most: u64| -> Vec<P> {
                let (cover, place, first, count) = (below(16), below(4), below(64), below(most));
                (0..count).map(|n| P::nth((place * 64 + (first + n) % 64) << 4 | cover)).collect()
            };
            let (withdrawn, announced) = (prefixes(6), prefixes(40));
            let path = std::iter::once(u32::from(asn(sender))).chain((0..below(4)).map(|n| 64_600 + n));
            let mut route = Route::new(path.collect(), P::host_addr(100 + sender as u8));
            (route.origin, route.med) = (below(3) as u8, Some(below(3)));
            if below(2) == 0 {
                let community = (below(8) + 0xfde8_0000).to_be_bytes().to_vec();
                route.others.push((0xc0, code::COMMUNITIES, community));
            }
            messages.push(withdrawal(&withdrawn, None));
            messages.push(announcement(&announced, &route));
        }
        messages
    })
}

/// Returns a real trace with the peers dealt out to the senders; `None` without the file.
fn real_trace() -> Option<Trace> {
    let trace = sluice_testkit::read("data/bgp/updates/rrc23.updates.20220421.0200.gz")?;
    let mut dealt: Trace = Default::default();
    for message in sluice_mrt::messages(&trace).filter(|m| m.four_octet_as).take(20_000) {
        let Ok(Some(frame)) = header::frame(message.octets) else { continue };
        if frame.kind == MessageType::Update && Update::decode(frame.body).is_ok() {
            let peer = message.peer.to_string().bytes().map(usize::from).sum::<usize>() % SENDERS;
            dealt[peer].push(message.octets.to_vec());
        }
    }
    Some(dealt)
}

/// A family of IP prefixes.
trait IpNet: Net<Hop = Self> + IpKey {}
impl<P: Net<Hop = P> + IpKey> IpNet for P {}

fn receive(sent: &mut AdjRibOut, body: &[u8]) {
    fn prefixes<P: IpNet>(field: &[u8]) -> impl Iterator<Item = IpPrefix> {
        Nlri::<P>::new(field, 0).map(|prefix| prefix.unwrap().into())
    }
    let update = Update::decode(body).unwrap();
    let first = Attributes::new(update.attributes, 0).next().map(Result::unwrap);
    let (mut withdrawn, mut announced): (Vec<IpPrefix>, Vec<IpPrefix>) =
        (prefixes::<Ipv4Prefix>(update.withdrawn).collect(), prefixes::<Ipv4Prefix>(update.nlri).collect());
    let mut attributes = update.attributes.to_vec();
    match first {
        Some(first) if first.code == code::MP_REACH_NLRI => {
            let reach = MpReach::decode(first.value, 0).unwrap();
            attributes = [reach.next_hop, &attributes[first.offset + first.value.len()..]].concat();
            announced.extend(prefixes::<Ipv6Prefix>(reach.nlri));
        }
        Some(first) if first.code == code::MP_UNREACH_NLRI => {
            withdrawn.extend(prefixes::<Ipv6Prefix>(MpUnreach::decode(first.value, 0).unwrap().withdrawn));
        }
        _ => {}
    }
    for prefix in withdrawn {
        sent.remove(&prefix);
    }
    for prefix in announced {
        sent.insert(prefix, attributes.clone());
    }
}

/// Returns each peer's routes from the core on one thread, and the number of routes at the RIB.
fn reference<P: IpNet>(trace: &Trace) -> ([AdjRibOut; PEERS], usize) {
    let identity = Identity {
        started: Instant::ZERO,
        is_restarted: false,
        local_as: Asn(65001),
        router_id: RouterId(1),
        seed: 7,
        tables: 1,
        source: 1,
        codes: FamilyCodes::DEFAULT,
        decision: Default::default(),
    };
    let mut speaker = Speaker::new(identity);
    let mut out = Outbox::new();
    let now = Instant::ZERO;
    let neighbors = (0..PEERS).map(|peer| {
        let config = NeighborConfig::new(address(peer).into(), Asn(asn(peer).into()));
        let mut config = NeighborConfig {
            passive: true,
            enforce_first_as: false,
            default_policy: Some(DefaultPolicy::Accept),
            ..config
        };
        config.offer(P::families());
        config
    });
    let config = Config { neighbors: neighbors.collect(), ..Config::default() };
    speaker.handle(now, Input::Configure(config), &mut out);
    let id = |peer: usize| ConnectionId { direction: Direction::Incoming, number: peer as u32 };
    let endpoints = Endpoints { ipv6: Some(OWN_IPV6), ..Endpoints::new(Ipv4Addr::LOCALHOST.into()) };
    for peer in 0..PEERS {
        let address = address(peer).into();
        speaker.handle(now, Input::Accepted(address, id(peer), endpoints), &mut out);
        speaker.receive(now, address, id(peer), &Neighbor::hello(asn(peer)), &mut out);
    }
    for (sender, messages) in trace.iter().enumerate() {
        for message in messages {
            speaker.receive(now, address(sender).into(), id(sender), message, &mut out);
        }
    }
    loop {
        let outputs: Vec<_> = out.drain().collect();
        let mut busy = !outputs.is_empty();
        for output in outputs {
            if let Some(Interest::Register(addr)) = P::interest(&output) {
                let valid = P::host(addr);
                let hop = NextHop::on(InterfaceIndex::new(1).unwrap());
                let route = ResolvingRoute {
                    prefix: valid,
                    metric: Metric(5),
                    distance: Distance::CONNECTED,
                    connected: true,
                    forwarding: Forwarding::one(hop),
                };
                let answer = InterestAnswer { valid, route: Some(route) };
                speaker.handle(now, P::answer(answer), &mut out);
            }
        }
        busy |= speaker.run_slice(now, Budget::SLICE, &mut out) == Progress::More;
        if !busy {
            break;
        }
    }
    let sent = std::array::from_fn(|peer| {
        let mut octets = vec![];
        while speaker.fill(now, address(peer).into(), 65_536, &mut octets) {}
        let (mut sent, mut octets) = (AdjRibOut::new(), &octets[..]);
        while let Some(frame) = header::frame(octets).unwrap() {
            octets = &octets[HEADER_LEN + frame.body.len()..];
            receive(&mut sent, frame.body);
        }
        sent
    });
    let mut batch = Default::default();
    while P::rib_batch(&mut speaker, usize::MAX, &mut batch) {}
    (sent, batch.updates.len())
}

/// Connects until the router has sent octets: the router may open its listener anew on notice of the FEA.
async fn connect(fea: &FakeFea, from: Ipv4Addr) -> TcpStream {
    loop {
        until(&fea.changed, || fea.listening.get().is_some()).await;
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), fea.listening.get().unwrap().port());
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.into(), 0)).unwrap();
        if let Ok(stream) = socket.connect(to).await
            && stream.peek(&mut [0]).await.is_ok_and(|n| n > 0)
        {
            return stream;
        }
    }
}

/// Runs a trace through the process until the routes of each peer are as expected, and checks the views of operators.
async fn run<P: IpNet>(
    trace: &Trace,
    plan: (u16, &str),
    expected: &([AdjRibOut; PEERS], usize),
) -> Vec<bgp::Route> {
    let dir = tempfile::tempdir().unwrap();
    let surroundings = surround(dir.path()).await;
    surroundings.rib.answers.set(true);
    surroundings.interface(&InterfaceEvent::Changed(loopback())).await;
    let families = P::families();
    let neighbors = (0..PEERS).map(|peer| {
        serde_json::json!({
            "address": address(peer).to_string(), "peer-as": asn(peer), "passive": true, "enforce-first-as": false,
            "ipv4-unicast": {"enabled": families.has(FamilyIndex::IPV4)}, "ipv6-unicast": {"enabled": families.has(FamilyIndex::IPV6)},
        })
    });
    let config = serde_json::json!({
        "local-as": 65001, "router-id": "0.0.0.1", "default-policy": "accept", "threads": plan.0, "scheduling": plan.1,
        "neighbor": neighbors.collect::<Vec<_>>(),
    });
    configure(&surroundings.process, config).await.unwrap();
    let sent: Rc<RefCell<[AdjRibOut; PEERS]>> = Rc::default();
    let changed = Rc::new(Notify::new());
    let mut tasks = tokio::task::JoinSet::new();
    for peer in 0..PEERS {
        let stream = connect(&surroundings.fea, address(peer)).await;
        let neighbor = Neighbor::open_as(stream, asn(peer)).await;
        let (reading, mut writing) = neighbor.stream.into_split();
        let (sent, changed) = (Rc::clone(&sent), Rc::clone(&changed));
        let mut reading = Neighbor { stream: reading, buffer: neighbor.buffer };
        tasks.spawn_local(async move {
            loop {
                let (kind, body) = reading.hear().await;
                if kind == MessageType::Update {
                    receive(&mut sent.borrow_mut()[peer], &body);
                    changed.notify_waiters();
                }
            }
        });
        let messages = trace.get(peer).map(|messages| messages.concat()).unwrap_or_default();
        tasks.spawn_local(async move {
            writing.write_all(&messages).await.unwrap();
            std::future::pending::<()>().await;
        });
    }
    let rib = &surroundings.rib;
    let is_done = || *sent.borrow() == expected.0 && rib.routes.borrow().len() == expected.1;
    if tokio::time::timeout(Duration::from_secs(60), until(&changed, is_done)).await.is_err() {
        for (peer, (sent, expected)) in sent.borrow().iter().zip(&expected.0).enumerate() {
            let wrong = expected.iter().find(|(prefix, route)| sent.get(prefix) != Some(route));
            let (count, wanted) = (sent.len(), expected.len());
            println!("{plan:?}: peer {peer} was sent {count} of {wanted}; {wrong:?}");
        }
        panic!(
            "{plan:?}: not what one thread sends; the RIB has {} of {}",
            rib.routes.borrow().len(),
            expected.1
        );
    }

    let client = bgp::BgpClient::new(&surroundings.others, "bgp");
    let mut request = bgp::GetRoutesRequest {
        family: common::Family::from(P::FAMILY).into(),
        ..bgp::GetRoutesRequest::default()
    };
    let mut routes = vec![];
    loop {
        let reply = client.get_routes(request.clone()).await.unwrap();
        routes.extend(reply.routes);
        request.page = reply.next_page;
        if request.page == 0 {
            break;
        }
    }
    routes.sort_by(|a, b| {
        let key = |r: &bgp::Route| r.net.as_ref().map(|n| (n.octets.clone(), n.length));
        key(a).cmp(&key(b))
    });
    tasks.shutdown().await;
    Rc::clone(&surroundings.process).shutdown(false).await;
    routes
}

fn check<P: IpNet>(trace: &Trace) {
    let expected = reference::<P>(trace);
    assert!(expected.1 > 1000, "the trace leaves {} routes", expected.1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut first: Option<Vec<bgp::Route>> = None;
    for plan in PLANS {
        let routes = tokio::task::LocalSet::new().block_on(&runtime, async {
            let ended = tokio::time::timeout(LONGEST, run::<P>(trace, plan, &expected)).await;
            ended.expect("the run ends in time")
        });
        assert_eq!(routes.len(), expected.1, "{plan:?}");
        match &first {
            Some(first) => assert!(*first == routes, "{plan:?}: other tables than with one thread"),
            None => first = Some(routes),
        }
    }
}

#[test]
fn random_traces_of_ipv4_come_out_the_same() {
    (0..4).for_each(|seed| check::<Ipv4Prefix>(&random_trace::<Ipv4Prefix>(seed)));
}

#[test]
fn random_traces_of_ipv6_come_out_the_same() {
    (0..4).for_each(|seed| check::<Ipv6Prefix>(&random_trace::<Ipv6Prefix>(seed)));
}

#[test]
fn a_real_trace_of_ipv4_comes_out_the_same() {
    match real_trace() {
        Some(trace) => check::<Ipv4Prefix>(&trace),
        None => sluice_testkit::skipped("no shared data"),
    }
}

#[test]
fn a_real_trace_of_ipv6_comes_out_the_same() {
    match real_trace() {
        Some(trace) => check::<Ipv6Prefix>(&trace),
        None => sluice_testkit::skipped("no shared data"),
    }
}
