//! The simulated engine and a set of engines follow the rules of engines.

use crate::shared::{ALL, Shared, UNICAST};
use sluice_base::*;
use sluice_fea::engine::{Beside, BesideId, ReplayStep, Scope, Stage};
use sluice_fea::{Engine, EngineOp, EngineSet, Member, NextHopId, Notice, RouteTarget};
use sluice_fea_conformance::Subject;

struct Sim<E> {
    engine: E,
    authority: Shared,
}

impl<E: Engine> Subject for Sim<E> {
    fn engine(&mut self) -> &mut dyn Engine {
        &mut self.engine
    }

    fn interface(&self, n: usize) -> InterfaceIndex {
        InterfaceIndex::new(n as u32 + 1).unwrap()
    }

    fn wait(&mut self) {
        panic!("the simulated engine has its notices at once");
    }

    fn delete_as_outsider(&mut self, prefix: IpPrefix) {
        self.authority.engine.borrow_mut().outsider_deletes(TableId::MAIN, prefix);
    }
}

#[test]
fn the_simulated_engine_conforms() {
    let authority = Shared::new(ALL);
    sluice_fea_conformance::check(Sim { engine: authority.clone(), authority });
}

/// Leaves nothing to replay to the first engine beside the authority.
fn complete(set: &mut EngineSet) {
    set.replay([(BesideId(0), ReplayStep::Enter(Stage::Complete))]);
}

#[test]
fn a_set_conforms() {
    let authority = Shared::new(ALL);
    let beside = Shared::new(UNICAST);
    let mut engine = EngineSet::new(Box::new(authority.clone())).with(Box::new(beside));
    complete(&mut engine);
    assert_eq!(engine.names(), ["sim", "sim"]);
    sluice_fea_conformance::check(Sim { engine, authority });
}

/// An engine beside the authority has what the authority has, without operations for which it lacks the capability, and
/// its refusals are counted without a further effect.
#[test]
fn an_engine_beside_follows_the_authority() {
    let (authority, beside) = (Shared::new(ALL), Shared::new(UNICAST));
    let mut set = EngineSet::new(Box::new(authority.clone())).with(Box::new(beside.clone()));
    complete(&mut set);
    let (interface, prefix) = (InterfaceIndex::new(1).unwrap(), "192.0.2.0/24".parse().unwrap());
    let other: IpPrefix = "192.0.3.0/24".parse().unwrap();
    authority.engine.borrow_mut().refuse.insert(other);
    beside.engine.borrow_mut().refuse.insert(prefix);
    let member = Member::Via { gateway: [10, 0, 0, 2].into(), interface };
    let route = |prefix| EngineOp::SetRoute {
        table: TableId::MAIN,
        prefix,
        target: RouteTarget::Unreachable,
        replace: true,
        scope: Scope::All,
        provenance: Provenance::NONE,
    };
    let ops = [
        EngineOp::SetMember { id: NextHopId(1), member },
        EngineOp::SetLink { interface, up: None, mtu: Some(1400) },
        route(other),
        route(prefix),
    ];
    let mut refused = Vec::new();
    set.apply(&ops, &mut refused);
    assert_eq!(refused.iter().map(|r| r.index).collect::<Vec<_>>(), [2]);
    assert_eq!(set.beside().map(Beside::refused).collect::<Vec<_>>(), [1]);
    assert!(beside.engine.borrow().members.contains_key(&NextHopId(1)));
    assert!(beside.engine.borrow().routes.is_empty() && authority.engine.borrow().routes.len() == 1);
    assert_eq!(beside.engine.borrow().links[&interface].0.mtu, 1500);
    // Notices of an engine beside are not the set's.
    beside.engine.borrow_mut().outsider_deletes_next_hop(NextHopId(1));
    let mut notices = Vec::new();
    while set.poll(&mut notices) {}
    assert!(!notices.contains(&Notice::NextHopGone(NextHopId(1))));
}

/// An engine that leaves gets no operation any more, and its number is not used again.
#[test]
fn an_engine_leaves() {
    let (authority, beside) = (Shared::new(ALL), Shared::new(UNICAST));
    let mut set = EngineSet::new(Box::new(authority)).with(Box::new(beside.clone()));
    complete(&mut set);
    assert!(set.leave(BesideId(0)).is_some_and(|engine| engine.name() == "sim"));
    assert!(set.leave(BesideId(0)).is_none());
    assert_eq!((set.take_joined(DigestKey(1)).len(), set.names()), (0, vec!["sim"]));
    let member = Member::Blackhole { family: Family::Ipv4 };
    set.apply(&[EngineOp::SetMember { id: NextHopId(1), member }], &mut Vec::new());
    assert_eq!(beside.engine.borrow().operations, 0);
    assert_eq!(set.join(Box::new(beside)), BesideId(1));
}

/// Operations for the authority and for the others reach these only, and a refusal names the place among all operations.
#[test]
fn an_operation_reaches_the_engines_of_its_scope() {
    let (authority, beside) = (Shared::new(ALL), Shared::new(UNICAST));
    let mut set = EngineSet::new(Box::new(authority.clone())).with(Box::new(beside.clone()));
    complete(&mut set);
    let prefix = |n: u8| IpPrefix::new([192, 0, n, 0].into(), 24).unwrap();
    let (table, provenance, target) = (TableId::MAIN, Provenance::NONE, RouteTarget::Unreachable);
    let route = |n, scope| {
        let prefix = prefix(n);
        EngineOp::SetRoute { table, prefix, target, replace: false, scope, provenance }
    };
    authority.engine.borrow_mut().refuse.extend([prefix(2), prefix(4)]);
    let ops = [
        route(1, Scope::Beside),
        route(2, Scope::Beside),
        route(3, Scope::Authority),
        route(4, Scope::All),
        route(5, Scope::All),
    ];
    let mut refused = Vec::new();
    set.apply(&ops, &mut refused);
    assert_eq!(refused.iter().map(|r| r.index).collect::<Vec<_>>(), [3]);
    let held = |engine: &Shared| -> Vec<_> {
        engine.engine.borrow().routes.keys().map(|(_, prefix)| *prefix).collect()
    };
    assert_eq!(
        (held(&authority), held(&beside)),
        (vec![prefix(3), prefix(5)], [1, 2, 5].map(prefix).to_vec())
    );
    let delete = |n, scope| EngineOp::DeleteRoute { table, prefix: prefix(n), scope, provenance };
    set.apply(&[delete(5, Scope::Authority), delete(2, Scope::Beside)], &mut refused);
    assert_eq!((held(&authority), held(&beside)), (vec![prefix(3)], [1, 5].map(prefix).to_vec()));
    assert_eq!((refused.len(), set.beside().map(Beside::refused).sum::<u64>()), (1, 0));
}
