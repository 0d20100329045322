//! Neighbors that restart and go on forwarding (RFC 4724): stale routes stay, and routes not announced again are removed.

mod long_lived;
mod notifications;

use sluice_base::{Asn, Duration, Instant, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::event::PeerEvent;
use sluice_bgp::family::FamilyCodes;
use sluice_bgp::speaker::{Config, Identity, Input};
use sluice_bgp::table::Sharded;
use sluice_bgp::wire::header::put_keepalive;
use sluice_bgp::wire::notification::{cease, code};
use sluice_bgp::wire::{Capability, HEADER_LEN, MessageType, Notification, Open, RestartFamily};
use sluice_bgp::writer::put_end_of_rib;
use sluice_bgp_dut::{Dut, Net, Route};
use sluice_machine::Progress;
use std::net::IpAddr;

/// The longest duration of the neighbor's restart, in seconds.
const TIME: u16 = 120;
const STALE_TIME: u64 = 360;
const GRACEFUL: u8 = Capability::GRACEFUL_NOTIFICATION;

/// The restarting neighbor, and the receiver of the routes.
const ASES: [u32; 2] = [65002, 65003];

fn hop<P: Net>() -> IpAddr {
    P::host_addr(2)
}

fn restart<P: Net>(is_preserved: bool) -> Capability {
    restart_with::<P>(0, is_preserved)
}

fn restart_with<P: Net>(restart_flags: u8, is_preserved: bool) -> Capability {
    let flags = if is_preserved { RestartFamily::FORWARDING } else { 0 };
    let families = vec![RestartFamily { afi: P::AFI, safi: P::SAFI, flags }];
    Capability::GracefulRestart { flags: restart_flags, restart_time: TIME, families }
}

fn capabilities<P: Net>(is_preserved: bool) -> Vec<Capability> {
    let family = Capability::Multiprotocol { afi: P::AFI, safi: P::SAFI };
    vec![family, Capability::FourOctetAs(Asn(ASES[0])), restart::<P>(is_preserved)]
}

/// A router with two routes of the first neighbor.
fn router<P: Net>(change: impl FnOnce(&mut Config)) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&ASES, 1);
    dut.set_reach(hop::<P>(), Some((5, true)));
    let mut config = dut.config();
    change(&mut config);
    dut.input(Input::Configure(config));
    dut.up_speaking(0, capabilities::<P>(false));
    dut.up(1);
    announce(&mut dut, &[1, 2]);
    assert_eq!(advertised(&dut), [1, 2]);
    dut
}

fn announce<P: Net>(dut: &mut Dut<P>, numbers: &[u32]) {
    let prefixes: Vec<P> = numbers.iter().map(|number| P::nth(*number)).collect();
    dut.announce(0, &prefixes, &Route::new(vec![ASES[0]], hop::<P>()));
    dut.settle();
}

fn end_of_rib<P: Net>(dut: &mut Dut<P>) {
    let mut octets = vec![];
    put_end_of_rib(P::INDEX, &FamilyCodes::DEFAULT, &mut octets);
    dut.say(0, &octets);
    dut.settle();
}

fn down<P: Net>(dut: &mut Dut<P>) {
    dut.down(0);
    dut.settle();
}

/// Returns the numbers of the routes at the second neighbor and at the RIB.
fn advertised<P: Net>(dut: &Dut<P>) -> Vec<u32> {
    let advertised: Vec<u32> =
        (0..8).filter(|number| dut.peers[1].received.contains_key(&P::nth(*number))).collect();
    assert_eq!(dut.rib.len(), advertised.len());
    advertised
}

/// Lets time pass, in which neighbors with a session send KEEPALIVEs.
fn pass<P: Net>(dut: &mut Dut<P>, until: Instant) {
    let mut keepalive = vec![];
    put_keepalive(&mut keepalive);
    while dut.now < until {
        for peer in 0..ASES.len() {
            if dut.peers[peer].connection.is_some() {
                dut.say(peer, &keepalive);
            }
        }
        let next = until.min(dut.now + Duration::from_secs(30));
        while let Some(at) = dut.deadline().filter(|at| *at <= next) {
            dut.now = at.max(dut.now);
            dut.fire();
        }
        dut.now = next;
        dut.settle();
    }
}

fn routes_stay<P: Net>() {
    let mut dut = router::<P>(|_| {});
    down(&mut dut);
    assert_eq!(advertised(&dut), [1, 2]);
    dut.up_speaking(0, capabilities::<P>(true));
    let updates = dut.peers[1].updates;
    announce(&mut dut, &[1]);
    assert_eq!(advertised(&dut), [1, 2]);
    assert_eq!(dut.peers[1].updates, updates, "nothing has changed");
    end_of_rib(&mut dut);
    assert_eq!(advertised(&dut), [1]);
    // The end of the time for stale routes has nothing to remove.
    let later = dut.now + Duration::from_secs(STALE_TIME + 1);
    announce(&mut dut, &[3]);
    pass(&mut dut, later);
    assert!(!dut.events.iter().any(|event| matches!(event.what, PeerEvent::RestartTookTooLong(_))));
}

#[test]
fn routes_stay_until_the_neighbor_has_announced_all_again() {
    routes_stay::<Ipv4Prefix>();
    routes_stay::<Ipv6Prefix>();
}

#[test]
fn routes_go_when_the_neighbor_has_lost_its_forwarding_state() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    down(&mut dut);
    dut.up_speaking(0, capabilities::<Ipv4Prefix>(false));
    dut.settle();
    assert_eq!(advertised(&dut), [0; 0]);
    // The family is gone after the restart: the same.
    let mut dut = router::<Ipv4Prefix>(|_| {});
    down(&mut dut);
    dut.up(0);
    dut.settle();
    assert_eq!(advertised(&dut), [0; 0]);
}

#[test]
fn a_restart_has_its_time() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    let begin = dut.now;
    down(&mut dut);
    pass(&mut dut, begin + Duration::from_secs(u64::from(TIME) - 1));
    assert_eq!(advertised(&dut), [1, 2]);
    pass(&mut dut, begin + Duration::from_secs(u64::from(TIME)));
    assert_eq!(advertised(&dut), [0; 0]);
    assert!(dut.events.iter().any(|event| matches!(event.what, PeerEvent::RestartTookTooLong(_))));
}

#[test]
fn a_neighbor_that_never_ends_its_table_has_a_time_too() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    down(&mut dut);
    dut.up_speaking(0, capabilities::<Ipv4Prefix>(true));
    let begin = dut.now;
    announce(&mut dut, &[1]);
    pass(&mut dut, begin + Duration::from_secs(STALE_TIME - 1));
    assert_eq!(advertised(&dut), [1, 2]);
    pass(&mut dut, begin + Duration::from_secs(STALE_TIME));
    assert_eq!(advertised(&dut), [1]);
}

/// RFC 4724, section 4.2: stale routes do not stay over a second restart.
#[test]
fn a_restart_in_the_restart_keeps_what_came_again() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    down(&mut dut);
    dut.up_speaking(0, capabilities::<Ipv4Prefix>(true));
    announce(&mut dut, &[1, 3]);
    down(&mut dut);
    assert_eq!(advertised(&dut), [1, 3]);
    dut.up_speaking(0, capabilities::<Ipv4Prefix>(true));
    end_of_rib(&mut dut);
    assert_eq!(advertised(&dut), [0; 0]);
}

/// Stale routes survive a live upgrade: while the neighbor is away, and while the neighbor announces its routes again.
#[test]
fn routes_stay_when_another_process_takes_over() {
    for is_back in [false, true] {
        let mut dut = router::<Ipv4Prefix>(|_| {});
        down(&mut dut);
        if is_back {
            dut.up_speaking(0, capabilities::<Ipv4Prefix>(true));
        }
        dut.hand_over();
        assert_eq!(advertised(&dut), [1, 2]);
        if !is_back {
            dut.up_speaking(0, capabilities::<Ipv4Prefix>(true));
        }
        announce(&mut dut, &[2, 3]);
        assert_eq!(advertised(&dut), [1, 2, 3]);
        end_of_rib(&mut dut);
        assert_eq!(advertised(&dut), [2, 3]);
    }
    // The neighbor does not come back in time.
    let mut dut = router::<Ipv4Prefix>(|_| {});
    down(&mut dut);
    dut.hand_over();
    assert_eq!(advertised(&dut), [1, 2]);
    let later = dut.now + Duration::from_secs(u64::from(TIME) + 1);
    pass(&mut dut, later);
    assert_eq!(advertised(&dut), [0; 0]);
}

/// A neighbor that lost power does not close the connection: the next connection announces the restart (RFC 4724, section 5).
#[test]
fn a_new_connection_ends_the_one_that_the_neighbor_forgot() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    dut.connect(0, capabilities::<Ipv4Prefix>(true));
    dut.settle();
    assert_eq!(advertised(&dut), [1, 2]);
    announce(&mut dut, &[2]);
    end_of_rib(&mut dut);
    assert_eq!(advertised(&dut), [2]);
}

#[test]
fn routes_go_with_a_session_that_somebody_ended() {
    let mut dut = router::<Ipv4Prefix>(|_| {});
    let mut octets = vec![];
    Notification::new(code::CEASE, cease::SHUTDOWN).put(&mut octets);
    dut.say(0, &octets);
    dut.settle();
    assert_eq!(advertised(&dut), [0; 0]);

    let mut dut = router::<Ipv4Prefix>(|config| config.neighbors[0].graceful_restart.helper = false);
    down(&mut dut);
    assert_eq!(advertised(&dut), [0; 0]);

    // The neighbor is not configured any more, or not wanted, while its routes stay.
    for is_removed in [false, true] {
        let mut dut = router::<Ipv4Prefix>(|_| {});
        down(&mut dut);
        let mut config = dut.config();
        if is_removed {
            config.neighbors.remove(0);
        } else {
            config.neighbors[0].enabled = false;
        }
        dut.input(Input::Configure(config));
        dut.settle();
        assert_eq!(advertised(&dut), [0; 0], "{is_removed}");
    }
}

/// Returns the flags of graceful restart, and of its family, in the OPEN to a neighbor.
fn own_flags(dut: &Dut<Ipv4Prefix>) -> (u8, u16, Vec<u8>) {
    let open = dut.peers[0].wire.iter().find(|message| message[18] == MessageType::Open as u8).unwrap();
    let capabilities = Open::decode(&open[HEADER_LEN..]).unwrap().capabilities;
    let restart = capabilities.into_iter().find_map(|capability| match capability {
        Capability::GracefulRestart { flags, restart_time, families } => {
            Some((flags, restart_time, families.iter().map(|family| family.flags).collect()))
        }
        _ => None,
    });
    restart.unwrap()
}

/// A router after a start, with two neighbors that keep its routes over a restart, and with two routes.
fn started(is_restarted: bool) -> Dut<Ipv4Prefix> {
    let mut dut = back(is_restarted);
    announce(&mut dut, &[1, 2]);
    dut
}

/// A router after a start, with sessions to two neighbors that keep its routes over a restart.
fn back(is_restarted: bool) -> Dut<Ipv4Prefix> {
    let identity = Identity { is_restarted, ..sluice_bgp_dut::identity(1) };
    let mut dut = Dut::<Ipv4Prefix>::with_identity(&ASES, identity);
    dut.set_reach(hop::<Ipv4Prefix>(), Some((5, true)));
    let mut config = dut.config();
    config.neighbors.iter_mut().for_each(|neighbor| neighbor.restart_time = Some(TIME));
    dut.input(Input::Configure(config));
    dut.up_speaking(0, capabilities::<Ipv4Prefix>(true));
    dut.up_speaking(1, capabilities_of(ASES[1]));
    dut
}

fn capabilities_of(asn: u32) -> Vec<Capability> {
    vec![Capability::unicast(1), Capability::FourOctetAs(Asn(asn)), restart::<Ipv4Prefix>(true)]
}

#[test]
fn a_router_that_restarts_waits_for_its_neighbors_before_it_advertises() {
    let mut dut = started(true);
    assert_eq!(own_flags(&dut), (Capability::RESTARTING | GRACEFUL, TIME, vec![RestartFamily::FORWARDING]));
    assert!(dut.peers[1].received.is_empty() && !dut.peers[1].end_of_rib);
    end_of_rib(&mut dut);
    assert!(dut.peers[1].received.is_empty(), "the other neighbor has not announced its routes yet");
    let mut octets = vec![];
    put_end_of_rib(Ipv4Prefix::INDEX, &FamilyCodes::DEFAULT, &mut octets);
    dut.say(1, &octets);
    let soon = dut.now + Duration::from_secs(1);
    pass(&mut dut, soon);
    assert_eq!(advertised(&dut), [1, 2]);
    assert!(dut.peers[1].end_of_rib);
}

/// Lets time pass in which the RIB answers no question.
fn pass_without_answers(dut: &mut Dut<Ipv4Prefix>, time: Duration) {
    let until = dut.now + time;
    while let Some(at) = dut.deadline().filter(|at| *at <= until) {
        dut.now = at.max(dut.now);
        dut.fire();
        while dut.slice(100) == Progress::More {}
        while dut.transmit(1, 4096) {}
    }
    dut.now = until;
}

#[test]
fn a_router_that_restarts_waits_for_next_hops_too() {
    for is_answered in [true, false] {
        let mut dut = back(true);
        dut.announce(0, &[1, 2].map(Ipv4Prefix::nth), &Route::new(vec![ASES[0]], hop::<Ipv4Prefix>()));
        let mut octets = vec![];
        put_end_of_rib(Ipv4Prefix::INDEX, &FamilyCodes::DEFAULT, &mut octets);
        (0..2).for_each(|peer| dut.say(peer, &octets));
        pass_without_answers(&mut dut, Duration::from_secs(20));
        assert!(!dut.peers[1].end_of_rib && dut.peers[1].received.is_empty(), "the RIB has not answered yet");
        match is_answered {
            true => dut.settle(),
            false => pass_without_answers(&mut dut, Duration::from_secs(20)),
        }
        assert!(dut.peers[1].end_of_rib);
        assert_eq!(dut.peers[1].received.len(), if is_answered { 2 } else { 0 });
    }
}

#[test]
fn a_router_that_starts_without_routes_announces_that() {
    let mut dut = started(false);
    assert_eq!(own_flags(&dut), (GRACEFUL, TIME, vec![0]));
    assert_eq!(advertised(&dut), [1, 2]);
    // Much later a session that ends is no restart, and packets go on.
    let later = dut.now + Duration::from_secs(2 * u64::from(TIME));
    pass(&mut dut, later);
    dut.peers[0].wire.clear();
    down(&mut dut);
    dut.up_speaking(0, capabilities::<Ipv4Prefix>(true));
    assert_eq!(own_flags(&dut), (GRACEFUL, TIME, vec![RestartFamily::FORWARDING]));
}
