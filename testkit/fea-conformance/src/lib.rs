//! The rules that every engine with all capabilities follows, as one suite: the simulated engine, a set of engines and the kernel
//! run it.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

use sluice_base::*;
use sluice_fea::engine::{Capability, EngineRoute, RouteQuery, Scope};
use sluice_fea::{Engine, EngineOp, Member, NextHopId, Notice, RefusalKind, Refused, RouteTarget};
use std::net::IpAddr;
use std::ops::ControlFlow;

/// An engine under test. Two interfaces are up; interface `n` has the address 10.0.n.1/24.
pub trait Subject {
    /// Returns the engine.
    fn engine(&mut self) -> &mut dyn Engine;

    /// Returns the number of interface `n`, which is 0 or 1.
    fn interface(&self, n: usize) -> InterfaceIndex;

    /// Waits until the engine may have notices.
    fn wait(&mut self);

    /// Deletes a route of the main table as another program.
    fn delete_as_outsider(&mut self, prefix: IpPrefix);
}

const TABLE: TableId = TableId::MAIN;
const FIRST: NextHopId = NextHopId(0x534c_1001);
const SECOND: NextHopId = NextHopId(0x534c_1002);
const GROUP: NextHopId = NextHopId(0x534c_1003);
const UNKNOWN: NextHopId = NextHopId(0x534c_1004);

fn prefix(n: u8) -> IpPrefix {
    format!("198.51.{n}.0/24").parse().unwrap()
}

fn gateway(n: u8) -> IpAddr {
    IpAddr::from([10, 0, n, 2])
}

fn set_route(n: u8, target: RouteTarget, replace: bool) -> EngineOp {
    EngineOp::SetRoute {
        table: TABLE,
        prefix: prefix(n),
        target,
        replace,
        scope: Scope::All,
        provenance: Provenance::NONE,
    }
}

fn delete_route(n: u8) -> EngineOp {
    EngineOp::DeleteRoute { table: TABLE, prefix: prefix(n), scope: Scope::All, provenance: Provenance::NONE }
}

struct Suite<S> {
    subject: S,
}

/// Runs the suite on a fresh engine without routes.
pub fn check(subject: impl Subject) {
    let mut suite = Suite { subject };
    for capability in [Capability::Unicast, Capability::Host] {
        assert!(suite.subject.engine().capabilities().contains(&capability));
    }
    suite.routes_are_read_back();
    suite.a_group_moves_its_routes();
    suite.refusals_name_their_operation();
    suite.changes_by_others_are_noticed();
    suite.the_host_is_configured();
    suite.a_snapshot_is_complete();
    suite.nothing_is_left();
}

impl<S: Subject> Suite<S> {
    fn apply(&mut self, ops: &[EngineOp]) -> Vec<(usize, RefusalKind)> {
        let mut refused: Vec<Refused> = Vec::new();
        self.subject.engine().apply(ops, &mut refused);
        assert!(refused.iter().all(|r| !r.refusal.reason.is_empty()), "a refusal has a reason: {refused:?}");
        refused.into_iter().map(|r| (r.index, r.refusal.kind)).collect()
    }

    fn read(&mut self, ours_only: bool, table: TableId, exact: Option<IpPrefix>) -> Vec<EngineRoute> {
        let query = RouteQuery { family: Family::Ipv4, table, ours_only, exact };
        let mut routes = Vec::new();
        let mut each = |route| {
            routes.push(route);
            ControlFlow::Continue(())
        };
        self.subject.engine().reader().unwrap().dump(&query, &mut each).unwrap();
        routes
    }

    fn via(&self, n: u8, weight: u8) -> NextHop {
        NextHop { weight, ..NextHop::via_on(gateway(n), self.subject.interface(n.into())) }
    }

    /// Polls until the notices contain one that `wanted` accepts, and returns all.
    fn until(&mut self, what: &str, wanted: impl Fn(&Notice) -> bool) -> Vec<Notice> {
        let mut notices = Vec::new();
        for _ in 0..1000 {
            while self.subject.engine().poll(&mut notices) {}
            if notices.iter().any(&wanted) {
                return notices;
            }
            self.subject.wait();
        }
        panic!("never: {what}; {notices:?}");
    }

    fn routes_are_read_back(&mut self) {
        let member = |n: u8| Member::Via { gateway: gateway(n), interface: self.subject.interface(n.into()) };
        let ops = [
            EngineOp::SetMember { id: FIRST, member: member(0) },
            EngineOp::SetMember { id: SECOND, member: member(1) },
            EngineOp::SetGroup {
                id: GROUP,
                members: [(FIRST, 1), (SECOND, 3)].into_iter().collect(),
                create: true,
            },
            set_route(1, RouteTarget::Group(GROUP), false),
            set_route(2, RouteTarget::Unreachable, false),
        ];
        assert_eq!(self.apply(&ops), []);
        let both = Forwarding::many([self.via(0, 1), self.via(1, 3)]).unwrap();
        let found = self.read(true, TABLE, None);
        let forwarding = |n: u8| &found.iter().find(|r| r.prefix == prefix(n)).unwrap().forwarding;
        assert_eq!((found.len(), forwarding(1), forwarding(2)), (2, &both, &Forwarding::Reject));
        assert!(found.iter().all(|r| r.is_ours() && r.metric == 20 && r.table == TABLE));
        assert_eq!(self.read(false, TABLE, Some(prefix(1))).len(), 1);
        assert_eq!(self.read(true, TableId(1000), None), []);
        let mut reader = self.subject.engine().reader().unwrap();
        let mut count = 0;
        let query = RouteQuery { family: Family::Ipv4, table: TABLE, ours_only: true, exact: None };
        let mut each = |_| {
            count += 1;
            ControlFlow::Break(())
        };
        reader.dump(&query, &mut each).unwrap();
        assert_eq!(count, 1, "reading ends where the reader breaks");
        let found = reader.lookup([198, 51, 1, 9].into()).unwrap().unwrap();
        assert_eq!((found.prefix, found.forwarding), (prefix(1), both));
        assert_eq!(reader.lookup([198, 51, 77, 9].into()).unwrap(), None);
    }

    fn a_group_moves_its_routes(&mut self) {
        let members = [(SECOND, 1)].into_iter().collect();
        assert_eq!(self.apply(&[EngineOp::SetGroup { id: GROUP, members, create: false }]), []);
        let found = self.read(true, TABLE, Some(prefix(1)));
        assert_eq!(found[0].forwarding, Forwarding::one(self.via(1, 1)));
    }

    fn refusals_name_their_operation(&mut self) {
        let off_link = IpAddr::from([172, 16, 0, 1]);
        let ops = [
            set_route(1, RouteTarget::Group(GROUP), false),
            EngineOp::SetGroup { id: UNKNOWN, members: [(SECOND, 1)].into_iter().collect(), create: false },
            EngineOp::SetMember {
                id: UNKNOWN,
                member: Member::Via { gateway: off_link, interface: self.subject.interface(0) },
            },
            delete_route(9),
            set_route(3, RouteTarget::Group(GROUP), true),
            EngineOp::DeleteNextHop { id: UNKNOWN },
        ];
        let expected = [
            (0, RefusalKind::Exists),
            (1, RefusalKind::NotFound),
            (2, RefusalKind::Invalid),
            (3, RefusalKind::NotFound),
            (5, RefusalKind::NotFound),
        ];
        assert_eq!(self.apply(&ops), expected);
        assert_eq!(self.read(true, TABLE, Some(prefix(3))).len(), 1, "what follows a refusal is carried out");
    }

    fn changes_by_others_are_noticed(&mut self) {
        self.subject.delete_as_outsider(prefix(3));
        let gone = Notice::RouteGone { table: TABLE, prefix: prefix(3) };
        let notices = self.until("the deleted route", |n| *n == gone);
        let of_routes = |n: &&Notice| {
            matches!(
                n,
                Notice::RouteIs { .. }
                    | Notice::RouteGone { .. }
                    | Notice::GroupIs(..)
                    | Notice::MemberIs(..)
            )
        };
        assert_eq!(
            notices.iter().filter(of_routes).collect::<Vec<_>>(),
            [&gone],
            "own changes are no notices"
        );
    }

    fn the_host_is_configured(&mut self) {
        let interface = self.subject.interface(0);
        let address = InterfaceAddress { addr: [192, 0, 2, 1].into(), prefix_len: 24, peer: None };
        let add = EngineOp::AddAddress { interface, address };
        let delete = EngineOp::DeleteAddress { interface, address };
        let mtu = EngineOp::SetLink { interface, up: None, mtu: Some(1400) };
        assert_eq!(self.apply(&[mtu, add.clone(), add]), [(2, RefusalKind::Exists)]);
        let of_address = |n: &Notice| *n == Notice::AddressIs(interface, address, true);
        let notices = self.until("the address, marked as ours", of_address);
        let of_mtu =
            |n: &Notice| matches!(n, Notice::LinkIs(link) if link.index == interface && link.mtu == 1400);
        assert!(notices.iter().any(of_mtu));
        assert_eq!(self.apply(&[delete.clone(), delete]), [(1, RefusalKind::NotFound)]);
        self.until("the address is gone", |n| *n == Notice::AddressGone(interface, address));
        for family in Family::ALL {
            for enabled in [false, true] {
                assert_eq!(self.apply(&[EngineOp::SetForwarding { family, enabled }]), []);
            }
            self.until("the host forwards", |n| *n == Notice::ForwardingIs(family, true));
        }
    }

    fn a_snapshot_is_complete(&mut self) {
        // The second request comes while the answer to the first one is under way.
        self.subject.engine().request_snapshot();
        let mut earlier = Vec::new();
        self.subject.engine().poll(&mut earlier);
        assert!(earlier.contains(&Notice::SnapshotBegin));
        self.subject.engine().request_snapshot();
        let mut notices = self.until("the snapshot begins again", |n| *n == Notice::SnapshotBegin);
        if !notices.contains(&Notice::SnapshotEnd) {
            notices.extend(self.until("the snapshot ends", |n| *n == Notice::SnapshotEnd));
        }
        let begin = notices.iter().rposition(|n| *n == Notice::SnapshotBegin).unwrap();
        let end = notices.iter().rposition(|n| *n == Notice::SnapshotEnd).unwrap();
        let snapshot = &notices[begin..end];
        for n in [0, 1] {
            let interface = self.subject.interface(n);
            let link =
                |n: &Notice| matches!(n, Notice::LinkIs(link) if link.index == interface && link.admin_up);
            assert!(snapshot.iter().any(link));
            let addr = IpAddr::from([10, 0, n as u8, 1]);
            let own =
                |n: &Notice| matches!(n, Notice::AddressIs(i, a, false) if *i == interface && a.addr == addr);
            assert!(snapshot.iter().any(own));
        }
        let member = Member::Via { gateway: gateway(1), interface: self.subject.interface(1) };
        let route = |n: u8, target: RouteTarget| Notice::RouteIs {
            table: TABLE,
            prefix: prefix(n),
            target: Some(target),
            replaced: false,
        };
        let expected = [
            Notice::MemberIs(SECOND, member),
            Notice::GroupIs(GROUP, [(SECOND, 1)].into_iter().collect()),
            route(1, RouteTarget::Group(GROUP)),
            route(2, RouteTarget::Unreachable),
            Notice::ForwardingIs(Family::Ipv4, true),
            Notice::ForwardingIs(Family::Ipv6, true),
        ];
        for notice in expected {
            assert!(snapshot.contains(&notice), "{notice:?} is missing in {snapshot:?}");
        }
    }

    fn nothing_is_left(&mut self) {
        let next_hop = |id| EngineOp::DeleteNextHop { id };
        let ops = [
            delete_route(1),
            delete_route(2),
            next_hop(GROUP),
            next_hop(FIRST),
            next_hop(SECOND),
            next_hop(GROUP),
        ];
        assert_eq!(self.apply(&ops), [(5, RefusalKind::NotFound)]);
        assert_eq!(self.read(true, TABLE, None), []);
    }
}
