//! Monitoring stations (BMP, RFC 7854): messages read by tshark, an independent decoder, and slow stations.

use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_bgp::shard::{MonitoredRib, MonitoredRibs};
use sluice_bgp_dut::station::Watcher;
use sluice_bgp_dut::{Dut, LOCAL_AS, Net, Route, TestPolicy};
use sluice_testkit::tshark::{self, Packet};
use std::net::IpAddr;

/// The port in captures.
const PORT: u16 = 5000;
const PREFIXES: u32 = 24;

/// A router with an external and an internal neighbor that announce, and one that receives.
fn router<P: Net>(several: bool) -> Dut<P> {
    let mut dut: Dut<P> = Dut::new(&[65002, LOCAL_AS, 65003], 2);
    dut.peers[0].several = several;
    dut.configure();
    (2..5).for_each(|hop| dut.set_reach(P::host_addr(hop), Some((0, true))));
    (0..3).for_each(|peer| dut.up(peer));
    dut.settle();
    let prefixes: Vec<P> = (0..4).map(P::nth).collect();
    dut.announce(0, &prefixes, &Route::new(vec![65002, 7], P::host_addr(2)));
    let internal = Route { local_pref: Some(50), med: Some(4), ..Route::new(vec![8], P::host_addr(3)) };
    dut.announce(1, &prefixes[2..], &internal);
    dut.settle();
    dut
}

/// Decodes messages, one a packet; `None` without tshark.
fn decoded(messages: &[Vec<u8>]) -> Option<Vec<Packet>> {
    let name = format!("sluice-bmp-{}-{:?}.pcap", std::process::id(), std::thread::current().id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, sluice_testkit::capture::written(PORT, messages)).unwrap();
    let packets = tshark::decode_with(&file, "bmp", &["-d", &format!("tcp.port=={PORT},bmp")]);
    std::fs::remove_file(&file).unwrap();
    let packets = packets?;
    assert_eq!(packets.len(), messages.len());
    // tshark 4.0 reads the information behind the OPENs (RFC 9069, section 5.2.1) as the beginning of a message.
    let has_information =
        |packet: &&Packet| packet.shown("bmp.type") == ["3"] && packet.shown("bmp.peer.type") == ["3"];
    for packet in packets.iter().filter(|packet| !has_information(packet)) {
        assert_eq!(packet.complaints(), [""; 0], "{packet:?}");
    }
    Some(packets)
}

/// Returns the packets of a message type.
fn of_type<'a>(packets: &'a [Packet], kind: &str) -> Vec<&'a Packet> {
    packets.iter().filter(|packet| packet.shown("bmp.type") == [kind]).collect()
}

fn shown_by_tshark<P: Net>(several: bool) {
    let mut dut: Dut<P> = router(several);
    let mut watcher = Watcher::begin(&mut dut);
    watcher.compare(&mut dut, PREFIXES);
    dut.withdraw(0, &[P::nth(0)]);
    dut.down(1);
    dut.settle();
    watcher.compare(&mut dut, PREFIXES);
    let Some(packets) = decoded(&watcher.messages) else { return };
    assert_eq!(of_type(&packets, "4").len(), 1);
    // Three neighbors and the Loc-RIB.
    let ups = of_type(&packets, "3");
    assert_eq!(ups.len(), 4);
    assert_eq!(
        ups.iter().filter(|packet| packet.shown("bgp.type") == ["1", "1"]).count(),
        4,
        "two OPENs each"
    );
    let downs = of_type(&packets, "2");
    assert_eq!(downs.len(), 1);
    assert_eq!(downs[0].shown("bmp.peer.down.reason"), ["4"]);
    let routes = of_type(&packets, "0");
    assert!(routes.len() > 10 && routes.iter().all(|packet| packet.shown("bgp.type") == ["2"]));
}

#[test]
fn tshark_reads_all_messages() {
    shown_by_tshark::<Ipv4Prefix>(false);
    shown_by_tshark::<Ipv4Prefix>(true);
    shown_by_tshark::<Ipv6Prefix>(false);
}

#[test]
fn an_export_policy_that_changes_there_and_back_leaves_no_trace() {
    let mut dut: Dut<Ipv4Prefix> = router(false);
    let mut watcher = Watcher::begin(&mut dut);
    watcher.compare(&mut dut, PREFIXES);
    // The station reads between the change and the walk over the routes of the update group.
    dut.peers[2].export = TestPolicy::NoExport;
    dut.configure();
    dut.withdraw(0, &[Ipv4Prefix::nth(3)]);
    watcher.serve(&mut dut, 100);
    dut.peers[2].export = TestPolicy::default();
    dut.configure();
    dut.settle();
    watcher.compare(&mut dut, PREFIXES);
}

#[test]
fn a_station_that_reads_nothing_becomes_void_and_the_log_stays_bounded() {
    const SLOW: u32 = 1;
    let mut dut: Dut<Ipv4Prefix> = router(false);
    let ribs: MonitoredRibs = [MonitoredRib::PrePolicy].into_iter().collect();
    let is_void = |dut: &Dut<Ipv4Prefix>, id| dut.speaker.is_monitor_void(id);
    assert!(is_void(&dut, SLOW), "nobody has begun");
    dut.speaker.begin_monitor(SLOW, ribs);
    let mut quick = Watcher::begin(&mut dut);
    let prefixes: Vec<Ipv4Prefix> = (0..1000).map(Ipv4Prefix::nth).collect();
    let hop: IpAddr = Ipv4Prefix::host_addr(2);
    let mut rounds = 0;
    while !is_void(&dut, SLOW) {
        dut.announce(0, &prefixes, &Route { med: Some(rounds), ..Route::new(vec![65002], hop) });
        while quick.serve(&mut dut, 5000) {}
        rounds += 1;
        assert!(rounds < 1000, "the log has no bound");
    }
    // 2 tables of 65,536 changes and a change for each route.
    assert!((50..160).contains(&rounds), "{rounds}");
    assert!(!is_void(&dut, sluice_bgp_dut::station::MONITOR));
    dut.settle();
    quick.compare(&mut dut, 1000);
    // The slow one begins anew.
    dut.speaker.begin_monitor(SLOW, ribs);
    assert!(!is_void(&dut, SLOW));
    dut.speaker.end_monitor(SLOW);
    assert!(is_void(&dut, SLOW));
}
