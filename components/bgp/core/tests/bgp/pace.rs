//! MinRouteAdvertisementInterval (RFC 4271, section 9.2.1.1): a neighbor with an interval receives many changes of a prefix as one.

use sluice_base::{Duration, Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::speaker::{Config, Input};
use sluice_bgp_dut::{Dut, Net, Route};

/// A router of three tables with a feed and two receivers, of which the first has this interval in seconds.
fn router<P: Net>(interval: u16) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, 65003, 65004], 3);
    dut.set_reach(P::host_addr(2), Some((0, true)));
    set_interval(&mut dut, interval);
    (0..3).for_each(|peer| dut.up(peer));
    dut.settle();
    dut
}

fn set_interval<P: Net>(dut: &mut Dut<P>, interval: u16) {
    let mut config: Config = dut.config();
    config.neighbors[1].advertisement_interval = interval;
    dut.input(Input::Configure(config));
    dut.settle();
}

fn route<P: Net>(path: u32) -> Route {
    Route::new(vec![65002, path], P::host_addr(2))
}

/// Lets so many milliseconds pass.
fn pass<P: Net>(dut: &mut Dut<P>, ms: u64) {
    dut.now = dut.now + Duration::from_millis(ms);
    dut.fire();
    dut.settle();
}

fn many_changes_are_one<P: Net>() {
    let mut dut = router::<P>(10);
    let prefixes: Vec<P> = (0..30).map(P::nth).collect();
    let before = [1, 2].map(|peer| dut.peers[peer].updates);
    for n in 0..40 {
        dut.announce(0, &prefixes, &route::<P>(100 + n));
        dut.settle();
        pass(&mut dut, 500);
    }
    let [paced, others] = [1, 2].map(|peer| dut.peers[peer].updates - before[peer - 1]);
    // 20 s are two to three intervals, each with an UPDATE for each table; before that there is the first change.
    assert!((6..=12).contains(&paced), "{paced} UPDATEs");
    assert!(others >= 120, "{others} UPDATEs");
    pass(&mut dut, 10_000);
    assert_eq!(dut.peers[1].received, dut.peers[2].received);
    // Withdrawals wait too, and what comes back meanwhile is no change.
    pass(&mut dut, 10_000);
    dut.withdraw(0, &prefixes[..1]);
    dut.settle();
    let before = dut.peers[1].updates;
    dut.withdraw(0, &prefixes[1..]);
    dut.settle();
    dut.announce(0, &prefixes, &route::<P>(139));
    dut.settle();
    pass(&mut dut, 10_000);
    assert_eq!(dut.peers[1].received, dut.peers[2].received);
    assert!(dut.peers[1].updates - before <= 6);
    assert_eq!(dut.speaker.tables().violations::<P>(), []);
}

#[test]
fn many_changes_are_one_ipv4() {
    many_changes_are_one::<Ipv4Prefix>();
}

#[test]
fn many_changes_are_one_ipv6() {
    many_changes_are_one::<Ipv6Prefix>();
}

#[test]
fn an_interval_that_is_configured_away_ends_at_once() {
    let mut dut = router::<Ipv4Prefix>(600);
    dut.announce(0, &[Ipv4Prefix::nth(1)], &route::<Ipv4Prefix>(1));
    dut.settle();
    dut.withdraw(0, &[Ipv4Prefix::nth(1)]);
    dut.settle();
    assert_eq!((dut.peers[1].received.len(), dut.peers[2].received.len()), (1, 0));
    set_interval(&mut dut, 0);
    assert_eq!(dut.peers[1].received.len(), 0);
    dut.announce(0, &[Ipv4Prefix::nth(1)], &route::<Ipv4Prefix>(1));
    dut.settle();
    dut.withdraw(0, &[Ipv4Prefix::nth(1)]);
    dut.settle();
    assert_eq!(dut.peers[1].received.len(), 0);
}

#[test]
fn a_new_session_begins_without_an_interval() {
    let mut dut = router::<Ipv4Prefix>(600);
    dut.announce(0, &[Ipv4Prefix::nth(1)], &route::<Ipv4Prefix>(1));
    dut.settle();
    dut.down(1);
    dut.announce(0, &[Ipv4Prefix::nth(2)], &route::<Ipv4Prefix>(1));
    dut.settle();
    dut.up(1);
    dut.settle();
    assert!(dut.peers[1].end_of_rib);
    assert_eq!(dut.peers[1].received.len(), 2);
}
