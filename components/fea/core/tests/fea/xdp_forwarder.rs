//! The forwarder: the host's facts and the engine's operations decide together where packets go.

use sluice_base::*;
use sluice_fea::engine::{PREFERENCE, Scope};
use sluice_fea::xdp::{Action, Area, ForeignRoute, Forwarder, Memory, NeighborWish, Port, Way, Words};
use sluice_fea::{EngineOp, Member, NextHopId, RouteTarget};
use std::net::IpAddr;

const PORT_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const NEIGHBOR_MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 10]);

fn index(n: u32) -> InterfaceIndex {
    InterfaceIndex::new(n).unwrap()
}

fn gateway(n: u8) -> IpAddr {
    [10, 0, n, 2].into()
}

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn foreign(text: &str, table: TableId, metric: u32) -> ForeignRoute {
    ForeignRoute { prefix: prefix(text), table, metric }
}

/// A forwarder with two ports, members 1 and 2 by them, and the groups 11 and 12 of one member each, 13 of both.
fn forwarder() -> Forwarder<Memory> {
    let mut forwarder = Forwarder::new(Memory::default());
    for n in [1, 2] {
        forwarder.set_port(index(n), Some(Port { mac: PORT_MAC, mtu: 1500, sends: true }));
        let member = Member::Via { gateway: gateway(n as u8), interface: index(n) };
        forwarder.apply(&EngineOp::SetMember { id: NextHopId(n), member });
        set_group(&mut forwarder, 10 + n, &[n]);
    }
    set_group(&mut forwarder, 13, &[1, 2]);
    forwarder
}

fn set_group(forwarder: &mut Forwarder<Memory>, id: u32, members: &[u32]) {
    let members = members.iter().map(|n| (NextHopId(*n), 1)).collect();
    forwarder.apply(&EngineOp::SetGroup { id: NextHopId(id), members, create: true });
}

fn set_route(forwarder: &mut Forwarder<Memory>, text: &str, target: RouteTarget) {
    let (table, provenance) = (TableId::MAIN, Provenance::NONE);
    forwarder.apply(&EngineOp::SetRoute {
        table,
        prefix: prefix(text),
        target,
        replace: true,
        scope: Scope::All,
        provenance,
    });
}

fn delete_route(forwarder: &mut Forwarder<Memory>, text: &str) {
    let (table, provenance) = (TableId::MAIN, Provenance::NONE);
    forwarder.apply(&EngineOp::DeleteRoute { table, prefix: prefix(text), scope: Scope::All, provenance });
}

fn way(forwarder: &Forwarder<Memory>, address: [u8; 4], flow: u32) -> Way {
    let tables = forwarder.tables();
    tables.way(tables.lookup_ipv4(address.into(), flow))
}

fn action(forwarder: &Forwarder<Memory>, address: [u8; 4]) -> Action {
    way(forwarder, address, 0).action
}

#[test]
fn a_member_forwards_once_its_neighbor_is_known() {
    let mut forwarder = forwarder();
    assert_eq!(forwarder.take_wishes(), [1, 2].map(|n| NeighborWish::Watch(index(n.into()), gateway(n))));
    set_route(&mut forwarder, "192.0.2.0/24", RouteTarget::Group(NextHopId(11)));
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Unresolved);
    forwarder.set_neighbor(index(1), gateway(1), Some(NEIGHBOR_MAC));
    let expected = Way {
        action: Action::Forward,
        interface: Some(index(1)),
        mtu: 1500,
        destination: NEIGHBOR_MAC,
        source: PORT_MAC,
    };
    assert_eq!(way(&forwarder, [192, 0, 2, 1], 0), expected);
    forwarder.set_neighbor(index(1), gateway(1), Some(OTHER_MAC));
    assert_eq!(way(&forwarder, [192, 0, 2, 1], 0).destination, OTHER_MAC);
    forwarder.set_neighbor(index(1), gateway(1), None);
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Unresolved);
    assert_eq!(action(&forwarder, [192, 0, 3, 1]), Action::Kernel, "no route");
}

#[test]
fn a_port_that_does_not_send_leaves_its_packets_to_the_kernel() {
    let mut forwarder = forwarder();
    set_route(&mut forwarder, "192.0.2.0/24", RouteTarget::Group(NextHopId(11)));
    forwarder.set_neighbor(index(1), gateway(1), Some(NEIGHBOR_MAC));
    forwarder.set_port(index(1), Some(Port { mac: PORT_MAC, mtu: 1500, sends: false }));
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Kernel);
    forwarder.set_port(index(1), Some(Port { mac: OTHER_MAC, mtu: 1400, sends: true }));
    let way = way(&forwarder, [192, 0, 2, 1], 0);
    assert_eq!((way.action, way.mtu, way.source), (Action::Forward, 1400, OTHER_MAC));
    forwarder.set_port(index(1), None);
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Kernel);
}

#[test]
fn a_group_spreads_flows_over_its_members() {
    let mut forwarder = forwarder();
    for n in [1, 2] {
        forwarder.set_neighbor(index(n), gateway(n as u8), Some(NEIGHBOR_MAC));
    }
    set_route(&mut forwarder, "192.0.2.0/24", RouteTarget::Group(NextHopId(13)));
    let by = |forwarder: &Forwarder<Memory>, n: u32| {
        (0..128).filter(|flow| way(forwarder, [192, 0, 2, 1], *flow).interface == Some(index(n))).count()
    };
    assert_eq!((by(&forwarder, 1), by(&forwarder, 2)), (64, 64));
    forwarder.apply(&EngineOp::DeleteNextHop { id: NextHopId(2) });
    assert_eq!((by(&forwarder, 1), by(&forwarder, 2)), (128, 0));
    assert_eq!(forwarder.take_wishes().last(), Some(&NeighborWish::Forget(index(2), gateway(2))));
}

#[test]
fn a_foreign_route_that_precedes_takes_its_prefix_only() {
    let mut forwarder = forwarder();
    forwarder.set_neighbor(index(1), gateway(1), Some(NEIGHBOR_MAC));
    set_route(&mut forwarder, "10.0.0.0/8", RouteTarget::Group(NextHopId(11)));
    let connected = foreign("10.0.1.0/24", TableId::MAIN, 0);
    let own = foreign("10.0.1.1/32", TableId::LOCAL, 0);
    forwarder.add_foreign(connected, false);
    forwarder.add_foreign(own, false);
    assert_eq!(action(&forwarder, [10, 0, 1, 7]), Action::Kernel);
    assert_eq!(action(&forwarder, [10, 0, 2, 7]), Action::Forward);
    // A route of Sluice's for the same prefix waits until the foreign one is gone.
    set_route(&mut forwarder, "10.0.1.0/24", RouteTarget::Group(NextHopId(11)));
    assert_eq!(action(&forwarder, [10, 0, 1, 7]), Action::Kernel);
    forwarder.remove_foreign(connected);
    assert_eq!(action(&forwarder, [10, 0, 1, 7]), Action::Forward);
    assert_eq!(action(&forwarder, [10, 0, 1, 1]), Action::Kernel);
    delete_route(&mut forwarder, "10.0.1.0/24");
    forwarder.set_foreign(core::iter::empty());
    assert_eq!(action(&forwarder, [10, 0, 1, 1]), Action::Forward, "by 10.0.0.0/8");
    assert_eq!((forwarder.counts().routes, forwarder.counts().foreign), (1, 0));
}

#[test]
fn sluice_precedes_a_foreign_route_of_lower_preference() {
    let mut forwarder = forwarder();
    forwarder.set_neighbor(index(1), gateway(1), Some(NEIGHBOR_MAC));
    let late = foreign("192.0.2.0/24", TableId::MAIN, PREFERENCE + 1);
    set_route(&mut forwarder, "192.0.2.0/24", RouteTarget::Group(NextHopId(11)));
    forwarder.add_foreign(late, false);
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Forward);
    delete_route(&mut forwarder, "192.0.2.0/24");
    set_route(&mut forwarder, "192.0.0.0/16", RouteTarget::Group(NextHopId(11)));
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Kernel, "the foreign route is more specific");
    // A route at Sluice's own preference is one that Sluice's did not replace yet.
    let same = foreign("198.51.100.0/24", TableId::MAIN, PREFERENCE);
    forwarder.add_foreign(same, false);
    set_route(&mut forwarder, "198.51.100.0/24", RouteTarget::Group(NextHopId(11)));
    assert_eq!(action(&forwarder, [198, 51, 100, 1]), Action::Forward);
}

#[test]
fn targets_without_members_go_to_the_kernel() {
    let mut forwarder = forwarder();
    forwarder.set_neighbor(index(1), gateway(1), Some(NEIGHBOR_MAC));
    set_route(&mut forwarder, "192.0.0.0/16", RouteTarget::Group(NextHopId(11)));
    set_route(&mut forwarder, "192.0.2.0/24", RouteTarget::Unreachable);
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Kernel);
    let blackhole = Member::Blackhole { family: Family::Ipv4 };
    forwarder.apply(&EngineOp::SetMember { id: NextHopId(3), member: blackhole });
    set_group(&mut forwarder, 14, &[3]);
    set_route(&mut forwarder, "192.0.2.0/24", RouteTarget::Group(NextHopId(14)));
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Drop);
    forwarder.apply(&EngineOp::DeleteNextHop { id: NextHopId(14) });
    assert_eq!(
        action(&forwarder, [192, 0, 2, 1]),
        Action::Kernel,
        "the kernel dropped the route with the group"
    );
    delete_route(&mut forwarder, "192.0.2.0/24");
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Forward);
    let grace = forwarder.tables_mut().begin_grace().unwrap();
    forwarder.tables_mut().end_grace(grace);
    assert_eq!(forwarder.tables().usage().groups.retired, 0);
}

/// A route that the kernel does not have has replaced nothing there.
#[test]
fn a_route_beside_the_kernel_leaves_another_programs_route() {
    let mut forwarder = forwarder();
    forwarder.set_neighbor(index(1), gateway(1), Some(NEIGHBOR_MAC));
    forwarder.add_foreign(foreign("192.0.2.0/24", TableId::MAIN, PREFERENCE), false);
    let mut op = EngineOp::SetRoute {
        table: TableId::MAIN,
        prefix: prefix("192.0.2.0/24"),
        target: RouteTarget::Group(NextHopId(11)),
        replace: true,
        scope: Scope::Beside,
        provenance: Provenance::NONE,
    };
    forwarder.apply(&op);
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Kernel);
    if let EngineOp::SetRoute { scope, .. } = &mut op {
        *scope = Scope::All;
    }
    forwarder.apply(&op);
    assert_eq!(action(&forwarder, [192, 0, 2, 1]), Action::Forward);
}

/// The kernel drops packets from outside whose source is local, so that it gets them: for each of its addresses, while it has them.
#[test]
fn packets_with_the_hosts_own_sources_go_to_the_kernel() {
    let mut forwarder = forwarder();
    let bits = |forwarder: &Forwarder<Memory>| -> u32 {
        let words = forwarder.tables().words();
        (0..Area::Sources.words()).map(|word| words.load(Area::Sources, word).count_ones()).sum()
    };
    let local = |text| foreign(text, TableId::LOCAL, 0);
    forwarder.set_foreign([local("10.0.1.1/32"), local("10.0.1.255/32"), local("127.0.0.0/8")].into_iter());
    assert_eq!(bits(&forwarder), 2);
    forwarder.add_foreign(foreign("10.0.2.1/32", TableId::MAIN, 0), false);
    forwarder.add_foreign(local("2001:db8::1/128"), false);
    assert_eq!(bits(&forwarder), 2, "no address of the host, or one of IPv6");
    forwarder.add_foreign(local("10.0.2.1/32"), false);
    assert_eq!(bits(&forwarder), 3);
    forwarder.remove_foreign(local("10.0.1.1/32"));
    forwarder.set_foreign([local("10.0.2.1/32")].into_iter());
    assert_eq!(bits(&forwarder), 1);
}
