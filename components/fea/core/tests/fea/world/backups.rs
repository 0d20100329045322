//! Groups with backups: which operations a loss costs, and which it does not.

use super::{Step, Way, World, hop};

/// A world with 200 routes of a group with a backup, whose member another group uses too.
fn backed_world() -> World {
    let mut world = World::new();
    world.group(1, Way::Backed([(1, 2), (2, 2)]));
    world.group(2, hop(2, 2));
    for p in 0..200 {
        world.route(p, Some(1));
    }
    world.route(200, Some(2));
    world.check();
    world
}

#[test]
fn a_backup_that_takes_over_is_one_group_write() {
    let mut world = backed_world();
    let before = world.drive.engine().operations;
    // A backup that changes while a primary next hop forwards: its member comes and goes, the group stays as it is.
    world.group(1, Way::Backed([(1, 2), (2, 3)]));
    world.group(1, Way::Backed([(1, 2), (2, 2)]));
    world.quiet();
    assert_eq!(world.drive.engine().operations - before, 2);
    let before = world.drive.engine().operations;
    world.group(1, hop(2, 2));
    world.quiet();
    // The group, and the old member's end.
    assert_eq!(world.drive.engine().operations - before, 2);
    world.check();
}

#[test]
fn a_lost_interface_leaves_the_routes_to_the_backup() {
    let mut world = backed_world();
    world.step(Step::Link(1, false));
    world.check();
    // The RIB finds the same, later: nothing is left to write.
    let before = world.drive.engine().operations;
    world.group(1, hop(2, 2));
    world.quiet();
    assert_eq!(world.drive.engine().operations, before);
    world.group(1, Way::Backed([(1, 2), (2, 2)]));
    world.step(Step::Link(1, true));
    world.check();
}

#[test]
fn a_restart_finds_groups_with_backups() {
    let mut world = backed_world();
    let before = world.drive.engine().operations;
    world.step(Step::RibRestarts);
    world.quiet();
    assert_eq!(world.drive.engine().operations, before, "after a restart of the RIB");
    world.step(Step::FeaRestarts);
    world.quiet();
    // The switch for forwarding is written with every configuration.
    assert_eq!(world.drive.engine().operations, before + 1, "after a restart of the FEA");
}

/// After a failover, routes that move to the group of the path that is left are not written.
#[test]
fn routes_follow_a_failover_without_a_write() {
    let mut world = backed_world();
    let all = 0..200;
    let operations = |world: &mut World| world.drive.engine().operations;
    world.group(1, hop(2, 2));
    world.quiet();
    let before = operations(&mut world);
    world.group(3, hop(2, 2));
    all.clone().for_each(|p| world.route(p, Some(3)));
    world.quiet();
    assert_eq!(operations(&mut world), before);
    world.check();
    // The engine's object is the new group's from now on, and a loss is one group write again.
    world.group(3, hop(3, 2));
    world.quiet();
    let repointed = operations(&mut world) - before;
    assert!(repointed <= 3, "{repointed}");
    world.check();
    // A guest whose host goes another way has an object of its own.
    world.group(4, hop(3, 2));
    (0..100).for_each(|p| world.route(p, Some(4)));
    world.quiet();
    let before = operations(&mut world);
    world.group(3, hop(1, 2));
    world.quiet();
    assert!(operations(&mut world) - before >= 100);
    world.check();
}
