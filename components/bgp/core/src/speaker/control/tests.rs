//! Tests of the timers of many sessions.

mod origination;

use super::router::STRAGGLERS;
use super::{Control, GRACE, Input, Output};
use crate::endpoints::Endpoints;
use crate::family::FamilyCodes;
use crate::intake::Message;
use crate::session::{ConnectionId, Direction, Received};
use crate::speaker::{Config, Identity, NeighborConfig};
use crate::wire::{Capability, Open};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use sluice_base::{Asn, RouterId};
use sluice_base::{Duration, Instant};
use sluice_machine::{Machine, Outbox};

fn address(n: u32) -> IpAddr {
    IpAddr::from(Ipv4Addr::from(0x0a00_0100 + n))
}

/// A router with so many neighbors, all up.
fn router(neighbors: u32) -> (Control, Outbox<Output>) {
    router_with(neighbors, neighbors)
}

/// A router with so many neighbors, of which the first `up` are up.
fn router_with(neighbors: u32, up: u32) -> (Control, Outbox<Output>) {
    let codes = FamilyCodes::DEFAULT;
    let identity = Identity {
        started: Instant::ZERO,
        is_restarted: false,
        local_as: Asn(1),
        router_id: RouterId(1),
        seed: 7,
        tables: 1,
        source: 1,
        codes,
        decision: Default::default(),
    };
    let now = Instant::ZERO;
    let mut control = Control::new(identity, now);
    let mut out = Outbox::new();
    let neighbor = |n| NeighborConfig { passive: true, ..NeighborConfig::new(address(n), Asn(2)) };
    let config = Config { neighbors: (0..neighbors).map(neighbor).collect(), ..Config::default() };
    control.handle(now, Input::Configure(config), &mut out);
    for n in 0..up {
        let id = ConnectionId { direction: Direction::Incoming, number: n };
        let endpoints = Endpoints::new(Ipv4Addr::LOCALHOST.into());
        control.handle(now, Input::Accepted(address(n), id, endpoints), &mut out);
        let capabilities = Vec::from([Capability::FourOctetAs(Asn(2))]);
        let open = Open { version: 4, as_field: 2, hold_time: 90, router_id: RouterId(n + 2), capabilities };
        for received in [Received::Open(open), Received::Keepalive] {
            let message = Message::Session(received);
            control.handle(now, Input::Message(address(n), id, message), &mut out);
        }
        assert_eq!(control.established(address(n)), Some(id));
    }
    (control, out)
}

#[test]
fn only_sessions_with_a_timer_that_is_due_are_looked_at() {
    let (mut control, mut out) = router(1000);
    let mut fired = 0;
    for _ in 0..1000 {
        let now = control.next_deadline().expect("KEEPALIVEs are due");
        let due = control.due(now).len();
        // Now and then control looks whether all have announced their routes.
        if due < 1000 {
            fired += due;
        }
        out.drain().for_each(drop);
        control.on_deadline(now, &mut out);
    }
    assert!((900..5000).contains(&fired), "a few sessions at a time: {fired} in 1000 deadlines");
}

/// Returns the time at which every neighbor counts as having announced its routes.
fn announced_after(control: &Control) -> Duration {
    let at = (0..=GRACE.as_secs()).map(|seconds| Instant::ZERO + Duration::from_secs(seconds));
    let first = at.into_iter().find(|now| control.have_all_announced(*now));
    first.expect("at the latest after the grace time").saturating_since(Instant::ZERO)
}

/// A neighbor without a session in the previous process is not awaited. A neighbor with a session, or with an unknown past, is
/// awaited for some seconds after the last session came up; if no neighbor is back, for the whole grace time.
#[test]
fn absent_neighbors_are_awaited_for_seconds_after_the_others() {
    let before = |control: &mut Control, neighbors: &[u32]| {
        let neighbors = neighbors.iter().copied().map(address).collect();
        control.handle(Instant::ZERO, Input::EstablishedBefore(neighbors), &mut Outbox::new());
    };
    let (mut control, _) = router_with(3, 2);
    assert_eq!(announced_after(&control), STRAGGLERS, "of the third neighbor nothing is known");
    before(&mut control, &[0, 1]);
    assert!(announced_after(&control) < Duration::from_secs(5), "the third was down before");
    before(&mut control, &[0, 1, 2]);
    assert_eq!(announced_after(&control), STRAGGLERS);
    assert!(control.neighbors_to_remember().contains(&address(2)), "it is still awaited");

    let (mut control, _) = router_with(3, 0);
    assert_eq!(announced_after(&control), GRACE);
    before(&mut control, &[]);
    assert_eq!(announced_after(&control), Duration::ZERO, "nobody had a session");
    before(&mut control, &[1]);
    assert_eq!(announced_after(&control), GRACE);
    assert_eq!(control.neighbors_to_remember(), BTreeSet::from([address(1)]));
}
