//! Messages against the layouts of RFC 7854, RFC 8671 and RFC 9069, octet by octet.

use super::*;
use crate::family::{ByFamily, Families};
use crate::shard::{MonitorChunk, MonitoredRibs, MonitoredUpdate, PeerIndex};
use crate::table::TableChunk;
use crate::wire::Capability;
use crate::wire::notification::{cease, code};
use sluice_base::{Asn, Instant, RouterId};
use std::string::String;
use std::vec;

const PEER: PeerIndex = PeerIndex(20);

/// 5 s on the router's clock are 1970 and 1,000.25 s.
const NOW: Now = Now { instant: Instant::from_nanos(5_000_000_000), since_1970: 1_000_250_000 };

fn open(asn: u32, router_id: u32) -> Open {
    let capabilities = vec![Capability::FourOctetAs(Asn(asn))];
    Open { version: 4, as_field: 23_456, hold_time: 90, router_id: RouterId(router_id), capabilities }
}

/// The octets of [`open`].
fn open_octets(asn: u32, router_id: u32) -> Vec<u8> {
    let mut out = vec![0xff; 16];
    out.extend_from_slice(&[0, 37, 1, 4, 0x5b, 0xa0, 0, 90]);
    out.extend_from_slice(&router_id.to_be_bytes());
    out.extend_from_slice(&[8, 2, 6, 65, 4]);
    out.extend_from_slice(&asn.to_be_bytes());
    out
}

fn session(epoch: u32) -> MonitoredSession {
    MonitoredSession {
        epoch,
        address: "10.0.0.2".parse().unwrap(),
        local: "10.0.0.1".parse().unwrap(),
        ports: (179, 4000),
        // Two seconds ago.
        since: Instant::from_nanos(3_000_000_000),
        sent: open(65_001, 1),
        received: open(70_000, 2),
        families: Families::only(FamilyIndex::IPV4),
    }
}

fn router(distinguisher: u64) -> MonitoredRouter {
    let name = String::from(if distinguisher == 0 { "global" } else { "red" });
    MonitoredRouter {
        local_as: Asn(65_001),
        router_id: RouterId(1),
        codes: FamilyCodes::DEFAULT,
        families: Families::only(FamilyIndex::IPV4),
        instance: Instance { name, distinguisher },
    }
}

fn station(ribs: &[MonitoredRib]) -> Station {
    let ribs: MonitoredRibs = ribs.iter().copied().collect();
    Station::new(router(0), ribs, ("r1", "Sluice"), NOW)
}

fn change(peer: PeerIndex, change: PeerChange) -> Vec<MonitoredPeer> {
    vec![MonitoredPeer { peer, change }]
}

/// The common header of a message of a type, and what follows.
fn framed(kind: u8, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut out = vec![3];
    out.extend_from_slice(&(body.len() as u32 + 6).to_be_bytes());
    out.push(kind);
    out.extend_from_slice(&body);
    out
}

/// The per-peer header of the peer.
fn peer_header(flags: u8, time: (u32, u32)) -> Vec<u8> {
    let mut out = vec![0, flags];
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    out.extend_from_slice(&70_000_u32.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 2]);
    out.extend_from_slice(&time.0.to_be_bytes());
    out.extend_from_slice(&time.1.to_be_bytes());
    out
}

const NOW_TIME: (u32, u32) = (1000, 250_000);

/// A chunk of one message of a RIB for the peer.
fn chunk(rib: MonitoredRib, epoch: u32, is_from_before: bool, octets: &[u8]) -> TableChunk {
    let peer = if rib == MonitoredRib::LocalRib { PeerIndex::LOCAL } else { PEER };
    let update = MonitoredUpdate { family: FamilyIndex::IPV4, rib, peer, is_from_before, end: octets.len() };
    let chunk = MonitorChunk { updates: vec![update], octets: octets.to_vec(), ..MonitorChunk::default() };
    TableChunk { chunk, sessions: [(PEER, epoch)].into() }
}

/// A malformed UPDATE goes as it came, with the A flag where AS numbers have two octets, to stations that know the session.
#[test]
fn malformed_messages_are_mirrored() {
    let mut station = station(&[MonitoredRib::PrePolicy]);
    station.change_peers(change(PEER, PeerChange::Up(session(4))), NOW);
    station.take_octets();
    let message = [vec![0xff; 16], vec![0, 23, 2, 0, 0, 0, 0]].concat();
    let mirrored = |epoch, four_octet_as| MirroredMessages {
        peer: PEER,
        epoch,
        since_1970: 999_000_007,
        four_octet_as,
        messages: vec![message.clone(), message.clone()],
    };
    for (four_octet_as, flags) in [(true, 0), (false, 0x20)] {
        station.mirror(&mirrored(4, four_octet_as));
        let header = peer_header(flags, (999, 7));
        let one = framed(6, &[&header, &[0, 1, 0, 2, 0, 0], &[0, 0, 0, 23], &message]);
        assert_eq!(station.take_octets(), [&one[..], &one].concat());
    }
    for epoch in [3, 5] {
        station.mirror(&mirrored(epoch, true));
        assert!(station.take_octets().is_empty());
    }
    assert!(station.lacks_session(PEER, 5) && !station.lacks_session(PEER, 4));
    assert!(station.lacks_session(PeerIndex(21), 0));
    station.mirroring_lost(NOW);
    assert_eq!(station.take_octets(), framed(6, &[&peer_header(0, NOW_TIME), &[0, 1, 0, 2, 0, 1]]));
    assert_eq!(station.counters().mirrored, 4);
}

#[test]
fn the_first_and_the_last_message() {
    let mut station = station(&[MonitoredRib::PrePolicy]);
    let initiation = framed(4, &[&[0, 1, 0, 6], b"Sluice", &[0, 2, 0, 2], b"r1"]);
    assert_eq!(station.take_octets(), initiation);
    for (reason, number) in [(Termination::Closed, 0), (Termination::PermanentlyClosed, 4)] {
        station.terminate(reason);
        assert_eq!(station.take_octets(), framed(5, &[&[0, 1, 0, 2, 0, number]]));
    }
    let counters = station.counters();
    assert_eq!((counters.messages, counters.route_monitoring), (3, 0));
    assert_eq!(counters.octets as usize, initiation.len() + 2 * 12);
}

#[test]
fn a_peer_comes_and_goes() {
    let mut station = station(&[MonitoredRib::PrePolicy]);
    station.take_octets();
    station.change_peers(change(PEER, PeerChange::Up(session(1))), NOW);
    let local = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1];
    let ports = [0, 179, 0x0f, 0xa0];
    let opens = [open_octets(65_001, 1), open_octets(70_000, 2)].concat();
    let up = framed(3, &[&peer_header(0, (998, 250_000)), &local, &ports, &opens]);
    assert_eq!(station.take_octets(), up);
    let notification = Notification::new(code::CEASE, cease::SHUTDOWN);
    let mut notified = vec![];
    notification.put(&mut notified);
    let causes = [
        (DownCause::LocalNotification(notification.clone()), [&[1][..], &notified].concat()),
        (DownCause::LocalEvent(2), vec![2, 0, 2]),
        (DownCause::RemoteNotification(notification.clone()), [&[3][..], &notified].concat()),
        (DownCause::RemoteClosed, vec![4]),
        (DownCause::Deconfigured, vec![5]),
    ];
    for (cause, data) in causes {
        station.change_peers(change(PEER, PeerChange::Down(cause)), NOW);
        assert_eq!(station.take_octets(), framed(2, &[&peer_header(0, NOW_TIME), &data]));
        station.change_peers(change(PEER, PeerChange::Down(DownCause::RemoteClosed)), NOW);
        assert!(station.take_octets().is_empty(), "a peer goes once");
        station.change_peers(change(PEER, PeerChange::Up(session(2))), NOW);
        assert_eq!(station.take_octets(), up);
    }
    let causes = [
        (DownReason::Stopped, Some(notification.clone()), DownCause::LocalNotification(notification.clone())),
        (DownReason::Stopped, None, DownCause::LocalEvent(2)),
        (DownReason::Sent(notification.clone()), None, DownCause::LocalNotification(notification.clone())),
        (DownReason::Received(notification.clone()), None, DownCause::RemoteNotification(notification)),
        (DownReason::ConnectionLost, None, DownCause::RemoteClosed),
    ];
    for (reason, sent, cause) in causes {
        assert_eq!(DownCause::of(&reason, sent.as_ref()), cause, "{reason}");
    }
}

#[test]
fn an_ipv6_peer_has_the_v_flag() {
    let mut station = station(&[MonitoredRib::PrePolicy]);
    station.take_octets();
    let addresses = ["2001:db8::2", "2001:db8::1"].map(|address| address.parse().unwrap());
    let session = MonitoredSession { address: addresses[0], local: addresses[1], ..session(1) };
    station.change_peers(change(PEER, PeerChange::Up(session)), NOW);
    let octets = station.take_octets();
    assert_eq!(octets[6..8], [0, 0x80]);
    let [IpAddr::V6(peer), IpAddr::V6(local)] = addresses else { panic!("two IPv6 addresses") };
    assert_eq!((&octets[16..32], &octets[48..64]), (&peer.octets()[..], &local.octets()[..]));
}

#[test]
fn flags_say_which_rib_a_route_is_in() {
    let mut station = station(&MonitoredRib::ALL);
    station.take_octets();
    station.change_peers(change(PEER, PeerChange::Up(session(1))), NOW);
    station.take_octets();
    let flags = [0, 0x40, 0, 0x10, 0x50];
    for (rib, flags) in MonitoredRib::ALL.into_iter().zip(flags) {
        station.take_routes(&chunk(rib, 1, false, b"update"), NOW);
        let octets = station.take_octets();
        if rib == MonitoredRib::LocalRib {
            assert_eq!(octets[6..8], [3, 0]);
            assert_eq!(
                (&octets[8..32], &octets[32..40]),
                (&[0; 24][..], &[0, 0, 0xfd, 0xe9, 0, 0, 0, 1][..])
            );
        } else {
            assert_eq!(octets, framed(0, &[&peer_header(flags, NOW_TIME), b"update"]), "{rib:?}");
        }
    }
    // Nobody knows when a route from before came.
    station.take_routes(&chunk(MonitoredRib::PrePolicy, 1, true, b"update"), NOW);
    assert_eq!(station.take_octets(), framed(0, &[&peer_header(0, (0, 0)), b"update"]));
}

#[test]
fn routes_of_other_sessions_are_left_out() {
    let mut station = station(&[MonitoredRib::PrePolicy]);
    station.take_octets();
    let of = |epoch| chunk(MonitoredRib::PrePolicy, epoch, false, b"update");
    assert!(station.lacks_sessions(&of(1)), "control is to be asked");
    station.take_routes(&of(1), NOW);
    assert!(station.take_octets().is_empty());
    station.change_peers(change(PEER, PeerChange::Up(session(2))), NOW);
    station.take_octets();
    // A table that does not know yet that the session is over.
    assert!(!station.lacks_sessions(&of(1)) && station.lacks_sessions(&of(3)));
    station.take_routes(&of(1), NOW);
    assert!(station.take_octets().is_empty());
    station.take_routes(&of(2), NOW);
    assert_eq!(station.counters().route_monitoring, 1);
}

#[test]
fn the_loc_rib_is_a_peer_with_a_table_name() {
    let ribs: MonitoredRibs = [MonitoredRib::LocalRib].into_iter().collect();
    for (distinguisher, name) in [(0, "global"), (7, "red")] {
        let mut station = Station::new(router(distinguisher), ribs, ("r1", "Sluice"), NOW);
        let octets = station.take_octets();
        let mut header = vec![3, 0];
        header.extend_from_slice(&u64::to_be_bytes(distinguisher));
        header.extend_from_slice(&[0; 16]);
        header.extend_from_slice(&[0, 0, 0xfd, 0xe9, 0, 0, 0, 1]);
        header.extend_from_slice(&[0, 0, 3, 0xe8, 0, 3, 0xd0, 0x90]);
        let up = &octets[framed(4, &[&[0, 1, 0, 6], b"Sluice", &[0, 2, 0, 2], b"r1"]).len()..];
        assert_eq!((up[5], &up[6..48]), (3, &header[..]));
        assert_eq!(up[48..68], [0; 20], "no address and no ports");
        let table = [&[0, 3, 0, name.len() as u8][..], name.as_bytes()].concat();
        assert!(up.ends_with(&table));
        // The same OPEN twice, with the family and AS numbers of four octets.
        let opens = &up[68..up.len() - table.len()];
        let (sent, received) = opens.split_at(opens.len() / 2);
        assert_eq!(sent, received);
        let capabilities =
            [Capability::Multiprotocol { afi: 1, safi: 1 }, Capability::FourOctetAs(Asn(65_001))];
        assert_eq!(Open::decode(&sent[19..]).unwrap().capabilities, capabilities);
        if distinguisher > 0 {
            station.change_peers(change(PEER, PeerChange::Up(session(1))), NOW);
            assert_eq!(station.take_octets()[6..16], [2, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        }
    }
}

#[test]
fn end_of_rib_comes_once_behind_all_routes() {
    let mut station = station(&[MonitoredRib::PrePolicy, MonitoredRib::AdjRibOutPost]);
    station.change_peers(change(PEER, PeerChange::Up(session(1))), NOW);
    station.take_octets();
    station.passed(false, NOW);
    assert!(station.take_octets().is_empty(), "there are routes from before");
    station.passed(true, NOW);
    let marker = [&[0xff; 16][..], &[0, 23, 2, 0, 0, 0, 0]].concat();
    let of = |flags| framed(0, &[&peer_header(flags, NOW_TIME), &marker]);
    assert_eq!(station.take_octets(), [of(0), of(0x50)].concat());
    station.passed(true, NOW);
    assert!(station.take_octets().is_empty());
    // A later session: when the peer has announced everything.
    let ended = PeerChange::Ended(Families::only(FamilyIndex::IPV4));
    station.change_peers(change(PEER, PeerChange::Down(DownCause::RemoteClosed)), NOW);
    station.change_peers(change(PEER, PeerChange::Up(session(2))), NOW);
    station.take_octets();
    station.passed(true, NOW);
    assert!(station.take_octets().is_empty());
    station.change_peers(change(PEER, ended.clone()), NOW);
    assert_eq!(station.known(PEER), Some((2, Families::only(FamilyIndex::IPV4))));
    station.passed(true, NOW);
    assert_eq!(station.take_octets(), of(0));
    station.change_peers(change(PEER, ended), NOW);
    station.passed(true, NOW);
    assert!(station.take_octets().is_empty());
}

#[test]
fn statistics_of_peers_and_of_the_loc_rib() {
    let mut station = station(&[MonitoredRib::LocalRib]);
    station.change_peers(change(PEER, PeerChange::Up(session(1))), NOW);
    station.take_octets();
    let counts = |ipv4| ByFamily::from_fn(|family| if family == FamilyIndex::IPV4 { ipv4 } else { 0 });
    let statistics =
        PeerStatistics { loops: 1 << 32 | 3, treated_as_withdraw: 4, received: counts(5), sent: counts(6) };
    station.report(|_| statistics, &ByFamily::from_fn(|_| 9), NOW);
    let gauge = |kind: u8, value: u8| vec![0, kind, 0, 8, 0, 0, 0, 0, 0, 0, 0, value];
    let of_ipv4 = |kind: u8, value: u8| vec![0, kind, 0, 11, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, value];
    let of_peer = [
        vec![0, 0, 0, 6],
        vec![0, 4, 0, 4, 0, 0, 0, 3],
        gauge(7, 5),
        vec![0, 11, 0, 4, 0, 0, 0, 4],
        gauge(15, 6),
        of_ipv4(9, 5),
        of_ipv4(17, 6),
    ];
    let of_peer = framed(1, &[&peer_header(0, NOW_TIME), &of_peer.concat()]);
    let octets = station.take_octets();
    let (found, of_loc_rib) = octets.split_at(of_peer.len());
    assert_eq!(found, of_peer);
    assert_eq!((of_loc_rib[5], of_loc_rib[6]), (1, 3));
    assert_eq!(of_loc_rib[48..], [vec![0, 0, 0, 2], gauge(8, 9), of_ipv4(10, 9)].concat());
}
