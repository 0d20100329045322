//! Whole hosts, joined by links that carry frames at once.

use sluice_base::{Instant, Interface, InterfaceEvent, InterfaceIndex, Rng, Xid, XidPrefix, XidType};
use sluice_machine::{Machine, Outbox, Request};
use sluice_xip::cache::{Cache, HashKey};
use sluice_xip::io::{Gateway, Input, Output, Ping, PongKind, RibRoute, Settings};
use sluice_xip::links::Station;
use sluice_xip::machine::{FastPath, Xip};
use sluice_xip::principals::catalog::CATALOG;
use sluice_xip::wire::{Dag, LinkDestination, Mac};

type Host = Xip<Vec<u64>>;

fn xid(kind: XidType, octet: u8) -> Xid {
    Xid { kind, id: [octet; 20] }
}

fn exact(xid: Xid) -> XidPrefix {
    XidPrefix::of_type(xid.kind, xid.id, 160).unwrap()
}

fn index(number: u32) -> InterfaceIndex {
    InterfaceIndex::new(number).unwrap()
}

/// The address of a host's interface.
fn mac(host: usize, interface: u32) -> Mac {
    Mac([2, 0, 0, 0, host as u8, interface as u8])
}

/// Hosts in a row: interface 2 of each leads to interface 1 of the next.
struct Net {
    hosts: Vec<Host>,
    now: Instant,
    pongs: Vec<(usize, PongKind, Dag)>,
    delivered: Vec<(usize, Vec<u8>)>,
    frames: usize,
}

impl Net {
    fn row(count: usize) -> Net {
        let hosts = (0..count).map(|_| Xip::new(7, 0)).collect();
        let mut net = Net { hosts, now: Instant::ZERO, pongs: vec![], delivered: vec![], frames: 0 };
        for host in 0..count {
            let principals = CATALOG.iter().map(|row| (row.number, row.name)).collect();
            let interfaces = [("a".into(), false), ("b".into(), false)].into();
            let settings =
                Settings { interfaces, principals, consultations: 2, has_xcmp: true, ..Settings::default() };
            net.input(host, Input::Configure(settings));
            for (number, name) in [(1, "a"), (2, "b")] {
                let interface = Interface {
                    index: index(number),
                    name: name.into(),
                    admin_up: true,
                    running: true,
                    loopback: false,
                    point_to_point: false,
                    multicast: true,
                    mtu: 1500,
                    mac: mac(host, number).0.to_vec(),
                    addresses: vec![],
                };
                net.input(host, Input::Interface(InterfaceEvent::Changed(interface)));
            }
            net.route(host, xid(XidType::HID, host as u8 + 1), Some(RibRoute::Local));
        }
        for host in 1..count {
            net.neighbor(host - 1, 2, host, 1);
            net.neighbor(host, 1, host - 1, 2);
        }
        net
    }

    fn neighbor(&mut self, host: usize, interface: u32, other: usize, far: u32) {
        let mut id = [0; 20];
        id[..6].copy_from_slice(&mac(other, far).0);
        let gateway =
            Gateway { xid: Xid { kind: XidType::ETHER, id }, interface: Some(index(interface)), weight: 1 };
        self.route(host, xid(XidType::HID, other as u8 + 1), Some(RibRoute::Gateways(vec![gateway])));
    }

    fn route(&mut self, host: usize, xid: Xid, route: Option<RibRoute>) {
        self.input(host, Input::Routes(vec![(exact(xid), route)]));
    }

    fn redirect(&mut self, host: usize, xid: Xid, gateway: Xid) {
        let gateway = Gateway { xid: gateway, interface: None, weight: 1 };
        self.route(host, xid, Some(RibRoute::Gateways(vec![gateway])));
    }

    fn cache(&mut self, host: usize) {
        let mut rng = Rng::from_seed(host as u64);
        let cache = Cache::new(vec![0; 8 << 8], 8, HashKey::draw(|| rng.next_u64()));
        FastPath(Some(cache)).make(&mut self.hosts[host], self.now, &mut Outbox::new());
    }

    fn input(&mut self, host: usize, input: Input) {
        let mut waiting = vec![(host, input)];
        while let Some((host, input)) = waiting.pop() {
            let mut out = Outbox::new();
            self.hosts[host].handle(self.now, input, &mut out);
            for output in out.drain() {
                match output {
                    Output::Send { to, octets, .. } => {
                        self.frames += 1;
                        assert!(self.frames < 10_000, "frames circle");
                        let far = if to.interface == index(2) { host + 1 } else { host - 1 };
                        let at = if to.interface == index(2) { 1 } else { 2 };
                        assert_eq!(to.mac, mac(far, at));
                        let from = Station { interface: index(at), mac: mac(host, to.interface.number()) };
                        waiting.push((far, Input::Packet { from, link: LinkDestination::ThisHost, octets }));
                    }
                    Output::Pong(pong) => self.pongs.push((host, pong.kind, pong.from)),
                    Output::Deliver { octets, .. } => self.delivered.push((host, octets)),
                    _ => {}
                }
            }
        }
    }

    fn ping(&mut self, host: usize, destination: Dag, hop_limit: u8) -> Vec<(usize, PongKind, Dag)> {
        let ping = Ping { destination, hop_limit, identifier: 1, sequence: 1, octets: 56 };
        self.input(host, Input::Ping(ping));
        std::mem::take(&mut self.pongs)
    }
}

fn hid(host: usize) -> Xid {
    xid(XidType::HID, host as u8 + 1)
}

#[test]
fn an_echo_crosses_routers_and_comes_back() {
    let mut net = Net::row(4);
    let domain = xid(XidType::AD, 0xa1);
    for host in 0..3 {
        net.redirect(host, domain, hid(host + 1));
    }
    net.route(3, domain, Some(RibRoute::Local));
    let home = xid(XidType::AD, 0xa0);
    for host in 1..4 {
        net.redirect(host, home, hid(host - 1));
    }
    net.route(0, home, Some(RibRoute::Local));
    let to = Dag::scoped(&[domain], hid(3)).unwrap();
    for round in 0..3 {
        let pongs = net.ping(0, to, 128);
        let from = pongs.first().map(|(_, kind, from)| (*kind, from.intent()));
        assert_eq!((pongs.len(), from), (1, Some((PongKind::Reply, Some(hid(3))))), "{round}");
        (0..4).for_each(|host| net.cache(host));
    }
    // The hop limit counts routers: the host that sends takes none.
    let pongs = net.ping(0, to, 1);
    assert_eq!(
        pongs.iter().map(|(_, kind, from)| (*kind, from.intent())).collect::<Vec<_>>(),
        [(PongKind::TimeExceeded, Some(hid(2)))]
    );
}

#[test]
fn a_changed_redirect_moves_the_next_packet_and_a_removed_one_reports_unreachable() {
    let mut net = Net::row(3);
    (0..3).for_each(|host| net.cache(host));
    let domain = xid(XidType::AD, 0xa1);
    let to = Dag::direct(domain);
    net.redirect(1, domain, hid(2));
    net.redirect(0, domain, hid(1));
    net.redirect(2, hid(0), hid(1));
    net.route(2, domain, Some(RibRoute::Local));
    net.neighbor(1, 1, 0, 2);
    let replies =
        |pongs: Vec<(usize, PongKind, Dag)>| pongs.into_iter().map(|(_, kind, _)| kind).collect::<Vec<_>>();
    // A HID cannot be redirected to a HID: the answer of host 2 finds no way back.
    assert_eq!(replies(net.ping(0, to, 128)), []);
    net.redirect(2, hid(0), xid(XidType::AD, 0xa0));
    net.redirect(2, xid(XidType::AD, 0xa0), hid(1));
    // Three consultations are more than two.
    assert_eq!(replies(net.ping(0, to, 128)), []);
    net.route(1, domain, Some(RibRoute::Local));
    assert_eq!(replies(net.ping(0, to, 128)), [PongKind::Reply]);
    net.route(1, domain, None);
    assert_eq!(replies(net.ping(0, to, 128)), [PongKind::Unreachable]);
    let wrong: u64 = net.hosts.iter().map(|host| host.answers().reached().wrong).sum();
    assert_eq!(wrong, 0);
}

#[test]
fn a_socket_gets_its_packets_and_an_unknown_principal_is_the_next_edge() {
    let mut net = Net::row(2);
    let socket = xid(XidType::XDP, 0xd1);
    net.route(1, socket, Some(RibRoute::Local));
    let unknown = xid(XidType(0x1001), 1);
    let to = Dag::with_fallback(socket, &[hid(1)]).unwrap();
    let mut octets = Vec::new();
    sluice_xip::wire::PacketHead::new(to, Dag::EMPTY).put(b"hello", &mut octets).unwrap();
    let from = Station { interface: index(2), mac: mac(1, 1) };
    net.input(0, Input::Packet { from, link: LinkDestination::ThisHost, octets });
    assert_eq!(net.delivered.len(), 1);
    assert!(net.delivered[0].1.ends_with(b"hello"));
    let reply = net.ping(0, Dag::any_of(&[unknown, hid(1)]).unwrap(), 128);
    assert_eq!(reply.first().map(|(_, kind, _)| *kind), Some(PongKind::Reply));
}

/// Every router on a LAN would forward its copy of a frame to a group; a packet for a socket here arrives.
#[test]
fn packets_to_a_group_of_hosts_are_never_forwarded() {
    let mut net = Net::row(3);
    let socket = xid(XidType::XDP, 0xd1);
    net.route(1, socket, Some(RibRoute::Local));
    let from = Station { interface: index(2), mac: mac(1, 1) };
    for (to, forwarded) in [
        (Dag::direct(hid(2)), true),
        (Dag::direct(xid(XidType::HID, 0x99)), false),
        (Dag::with_fallback(socket, &[hid(1)]).unwrap(), false),
    ] {
        let mut octets = Vec::new();
        sluice_xip::wire::PacketHead::new(to, Dag::EMPTY).put(b"hello", &mut octets).unwrap();
        let mut sent = |link| {
            let before = net.hosts[1].forwarding().counts().clone();
            net.input(1, Input::Packet { from, link, octets: octets.clone() });
            let counts = net.hosts[1].forwarding().counts();
            let grown = counts.iter().filter(|(name, count)| *count > before.of(name)).map(|(name, _)| name);
            grown.collect::<Vec<_>>()
        };
        let (to_group, to_host) = (sent(LinkDestination::Group), sent(LinkDestination::ThisHost));
        assert!(!to_group.contains(&"sent"), "{to_group:?}");
        assert_eq!(to_host.contains(&"sent"), forwarded, "{to_host:?}");
        let is_here = to_host.contains(&"delivered");
        assert!(to_group.contains(&if is_here { "delivered" } else { "group" }), "{to_group:?}");
    }
}
