//! The authority takes the internal routes and a list of others, and the engines beside it take all.

use super::*;

fn ours(engine: &Shared) -> Vec<IpPrefix> {
    let routes = engine.engine.borrow().forwarding();
    routes.into_iter().filter(|(_, forwarding)| forwarding.is_some()).map(|((_, prefix), _)| prefix).collect()
}

fn internal_and(prefixes: &[u8]) -> AuthorityRoutes {
    AuthorityRoutes::Internal(prefixes.iter().map(|p| prefix(*p).into()).collect())
}

/// A world with an engine beside the authority, and 40 routes, of which the 20 with odd numbers are external.
fn mixed_world() -> (World, Shared) {
    let mut world = World::new();
    let beside = world.join(UNICAST, &[]);
    world.group(TableId::MAIN, false, 1, hops(&[(1, 2)]));
    for p in 0..40 {
        world.announce(TableId::MAIN, false, Some((1, p % 2 == 1)), &[p]);
    }
    world.check();
    (world, beside)
}

fn is_selected(world: &mut World) -> bool {
    let selected = world.effects.contains(&Effect::RoutesSelected);
    world.effects.clear();
    selected
}

#[test]
fn external_routes_leave_the_authority_and_return() {
    let (mut world, beside) = mixed_world();
    assert!(!is_selected(&mut world));
    world.select(internal_and(&[]));
    assert!(!is_selected(&mut world), "routes move in the background");
    world.check();
    assert!(is_selected(&mut world));
    assert_eq!((ours(&world.authority).len(), ours(&beside).len()), (20, 40));
    world.select(internal_and(&[3, 4]));
    world.check();
    assert_eq!((ours(&world.authority).len(), ours(&beside).len()), (21, 40));
    assert!(ours(&world.authority).contains(&prefix(3).into()));
    world.select(AuthorityRoutes::All);
    world.check();
    assert!(is_selected(&mut world));
    assert_eq!((ours(&world.authority).len(), ours(&beside).len()), (40, 40));
}

/// External routes are announced, moved and withdrawn without an operation of the authority.
#[test]
fn the_authority_does_not_see_external_routes() {
    let mut world = World::new();
    world.select(internal_and(&[]));
    let beside = world.join(UNICAST, &[]);
    world.group(TableId::MAIN, false, 1, hops(&[(1, 2)]));
    world.group(TableId::MAIN, false, 2, hops(&[(2, 2)]));
    world.announce(TableId::MAIN, false, Some((1, false)), &[0]);
    world.announce(TableId::MAIN, false, Some((2, false)), &[1]);
    world.check();
    let before = world.authority.engine.borrow().operations;
    world.announce(TableId::MAIN, false, Some((1, true)), &[2, 3, 4]);
    world.announce(TableId::MAIN, false, Some((2, true)), &[2, 3]);
    world.announce(TableId::MAIN, false, None, &[4]);
    world.check();
    assert_eq!(world.authority.engine.borrow().operations, before);
    assert_eq!(ours(&beside), [0, 1, 2, 3].map(|p| prefix(p).into()));
    // The origin of a route changes.
    world.announce(TableId::MAIN, false, Some((2, false)), &[2]);
    world.announce(TableId::MAIN, false, Some((1, true)), &[0]);
    world.check();
    assert_eq!(ours(&world.authority), [1, 2].map(|p| prefix(p).into()));
    assert_eq!(ours(&beside), [0, 1, 2, 3].map(|p| prefix(p).into()));
}

/// An answer of "unreachable" is the authority's work.
#[test]
fn the_authority_keeps_routes_that_are_answered() {
    let (mut world, beside) = mixed_world();
    world.select(internal_and(&[]));
    world.group(TableId::MAIN, false, 2, Forwarding::Reject);
    world.announce(TableId::MAIN, false, Some((2, true)), &[1]);
    world.check();
    assert!(ours(&world.authority).contains(&prefix(1).into()));
    world.group(TableId::MAIN, false, 2, hops(&[(2, 2)]));
    world.check();
    assert!(!ours(&world.authority).contains(&prefix(1).into()));
    assert_eq!(ours(&beside).len(), 40);
}

/// Notices about prefixes of external routes repair nothing: other programs' routes come and go, and a stray of ours is removed.
#[test]
fn notices_about_external_routes_repair_nothing() {
    let (mut world, beside) = mixed_world();
    world.select(internal_and(&[]));
    world.check();
    let stray = *world.authority.engine.borrow().routes.values().next().unwrap();
    let repaired = world.drive.core().totals().repaired;
    let authority = Rc::clone(&world.authority.engine);
    authority.borrow_mut().outsider_sets(TableId::MAIN, prefix(1).into());
    world.check();
    authority.borrow_mut().outsider_deletes(TableId::MAIN, prefix(1).into());
    world.check();
    authority.borrow_mut().routes.insert((TableId::MAIN, prefix(3).into()), stray);
    authority.borrow_mut().overrun();
    world.check();
    assert_eq!(world.drive.core().totals().repaired, repaired);
    assert_eq!((ours(&world.authority).len(), ours(&beside).len()), (20, 40));
    // Another program's route stays when the authority takes external routes again, and no engine of ours has the prefix then.
    authority.borrow_mut().outsider_sets(TableId::MAIN, prefix(5).into());
    world.select(AuthorityRoutes::All);
    world.check();
    assert!(authority.borrow().forwarding()[&(TableId::MAIN, prefix(5).into())].is_none());
    assert_eq!((ours(&world.authority).len(), ours(&beside).len()), (39, 39));
}

/// The core of a new life finds the internal routes in the authority, and an engine that joins gets all.
#[test]
fn a_new_life_floods_nothing() {
    let (mut world, _) = mixed_world();
    world.select(internal_and(&[]));
    world.quiet();
    let before = world.authority.engine.borrow().operations;
    let mut later = World::of(world.authority, Vec::new());
    later.select(internal_and(&[]));
    later.quiet();
    later.input(Input::BeginResync(TableId::MAIN));
    later.group(TableId::MAIN, false, 1, hops(&[(1, 2)]));
    for p in 0..40 {
        later.announce(TableId::MAIN, false, Some((1, p % 2 == 1)), &[p]);
    }
    later.input(Input::EndResync(TableId::MAIN));
    let beside = later.join(UNICAST, &[]);
    later.check();
    assert_eq!(later.authority.engine.borrow().operations, before);
    assert_eq!((ours(&later.authority).len(), ours(&beside).len()), (20, 40));
}

/// Routes of a group without a usable member leave the engines beside the authority too, and return.
#[test]
fn external_routes_follow_their_group() {
    let (mut world, beside) = mixed_world();
    world.select(internal_and(&[]));
    world.check();
    world.authority.engine.borrow_mut().set_up(index(1), false);
    world.check();
    assert_eq!((ours(&world.authority).len(), ours(&beside).len()), (0, 0));
    world.select(AuthorityRoutes::All);
    world.check();
    world.select(internal_and(&[]));
    world.authority.engine.borrow_mut().set_up(index(1), true);
    world.check();
    assert_eq!((ours(&world.authority).len(), ours(&beside).len()), (20, 40));
}

/// The selection changes while routes move.
#[test]
fn a_selection_interrupts_the_one_before() {
    for slices in 0..30 {
        let (mut world, beside) = mixed_world();
        world.select(internal_and(&[]));
        for n in 0..slices {
            world.slice(2);
            world.announce(TableId::MAIN, false, Some((1, n % 3 == 0)), &[n as u8]);
        }
        world.select(internal_and(&[7, 9]));
        world.slice(3);
        world.select(AuthorityRoutes::All);
        for _ in 0..slices {
            world.slice(1);
        }
        let late = world.join(UNICAST, &[]);
        world.select(internal_and(&[1]));
        world.check();
        assert_eq!((ours(&beside).len(), ours(&late).len()), (40, 40));
    }
}
