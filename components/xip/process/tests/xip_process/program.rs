//! The program `xip` on packets made by hand: the cache as the core fills it, and each reason.

use crate::support::{Bench, NEIGHBOR, ROUTER, SETTINGS, frame, octets, xid};
use sluice_base::{Rng, Xid, XidType};
use sluice_bpf::layout::xip::CacheAction;
use sluice_bpf::run::Verdict;
use sluice_xip::wire::{LinkDestination, Packet};
use sluice_xip_process::maps::ProgramSettings;

/// V2 of the specification: AD, HID, XDP, each leading to the next.
const V2: &str = "010000058003037e00000010a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1017f7f7f000000111111111111111111111111111111111111111111027f7f7f00000017d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1007f7f7f00000010a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2017f7f7f000000112222222222222222222222222222222222222222027f7f7f00000017d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2007f7f7f68656c6c6f";
/// V2 as the first router sends it on.
const V3A: &str = "010000057f03030000000010a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1017f7f7f000000111111111111111111111111111111111111111111027f7f7f00000017d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1807f7f7f00000010a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2017f7f7f000000112222222222222222222222222222222222222222027f7f7f00000017d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2007f7f7f68656c6c6f";

#[test]
fn a_local_domain_is_dug_through_and_the_host_behind_it_is_a_neighbor() {
    let Some(mut bench) = Bench::new() else { return };
    bench.put(&[(xid(XidType::AD, 0xa1), false)], CacheAction::Dig, 0, 0);
    bench.put(&[(xid(XidType::HID, 0x11), false)], CacheAction::Forward, 0, 7);
    let (ran, reasons) = bench.run(&octets(V2));
    assert_eq!((ran.verdict, reasons), (Verdict::Redirect, vec!["hit", "sent", "dug"]));
    let expected = [&NEIGHBOR[..], &ROUTER, &[0xc0, 0xde], &octets(V3A)].concat();
    assert_eq!(ran.frame, expected);
}

#[test]
fn a_row_without_an_answer_goes_to_user_space_unchanged() {
    let Some(bench) = Bench::new() else { return };
    let (ran, reasons) = bench.run(&octets(V2));
    assert_eq!((ran.verdict, reasons), (Verdict::Pass, vec!["miss", "to-user"]));
    assert_eq!(ran.frame, frame(&octets(V2)));
}

#[test]
fn a_sink_has_another_answer_than_the_same_xid_on_the_way() {
    let Some(mut bench) = Bench::new() else { return };
    bench.put(&[(xid(XidType::AD, 0xa1), true)], CacheAction::Drop, 0, 0);
    assert_eq!(bench.run(&octets(V2)).1, ["miss", "to-user"]);
    bench.put(&[(xid(XidType::AD, 0xa1), false)], CacheAction::Unreachable, 0, 0);
    let (ran, reasons) = bench.run(&octets(V2));
    assert_eq!((ran.verdict, reasons), (Verdict::Drop, vec!["hit", "not-reached"]));
}

#[test]
fn the_second_edge_is_marked_where_the_answer_names_it() {
    let Some(mut bench) = Bench::new() else { return };
    // V4: entry to {2, 0}, AD to {2, 1}, HID to {2}.
    let v4 = octets(
        "010000008003007e00000010a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a102017f7f000000111111111111111111111111111111111111111111027f7f7f00000012c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c102007f7f",
    );
    let cid = (xid(XidType(0x12), 0xc1), true);
    bench.put(&[cid, (xid(XidType::AD, 0xa1), false)], CacheAction::Dig, 1, 0);
    bench.put(&[cid, (xid(XidType::HID, 0x11), false)], CacheAction::Forward, 1, 7);
    let (ran, _) = bench.run(&v4);
    assert_eq!(ran.verdict, Verdict::Redirect);
    let packet = &ran.frame[14..];
    // The hop limit, the last node, the marks of the entry node, and those of the AD's row.
    assert_eq!((packet[4], packet[7]), (127, 0));
    assert_eq!(
        (&packet[8 + 2 * 28 + 24..][..4], &packet[8 + 24..][..4]),
        (&[2, 0x80, 0x7f, 0x7f][..], &[2, 1, 0x7f, 0x7f][..])
    );
}

#[test]
fn malformed_packets_are_dropped_for_their_reason() {
    let Some(bench) = Bench::new() else { return };
    let v1 = octets("010000058001007e00000017d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1007f7f7f68656c6c6f");
    let with = |at: usize, value: u8| {
        let mut packet = v1.clone();
        packet[at] = value;
        packet
    };
    for (packet, reason) in [
        (with(0, 0), "version"),
        (with(0, 2), "version"),
        (with(5, 0), "destination-rows"),
        (with(5, 10), "destination-rows"),
        (with(6, 10), "source-rows"),
        (with(7, 1), "last-node"),
        (with(7, 0xff), "last-node"),
        (with(7, 0), "at-sink"),
        (with(3, 6), "short-payload"),
        (with(6, 9), "short-rows"),
        (with(32, 0x80), "bad-row"),
        (with(32, 1), "bad-row"),
        (with(32, 0x7e), "bad-row"),
        (with(32, 0x7f), "bad-row"),
        (with(34, 0), "bad-row"),
        (v1[..7].to_vec(), "short-fixed-header"),
        (v1[..40].to_vec(), "short-payload"),
    ] {
        let (ran, reasons) = bench.run(&packet);
        assert_eq!((ran.verdict, reasons), (Verdict::Drop, vec![reason]), "{packet:02x?}");
    }
    // The process counts the same packets by the same names.
    for (packet, name) in [(&v1[..7], "short-fixed-header"), (&with(5, 10)[..], "destination-rows")] {
        let refused = Packet::receive(LinkDestination::ThisHost, packet).map(|_| ());
        assert_eq!(refused.unwrap_err().name(), name);
    }
    // The reception's own checks let a hop limit of 0 pass: the packet may be for this host.
    assert_eq!(bench.run(&with(4, 0)).1, ["miss", "to-user"]);
}

#[test]
fn packets_that_cannot_leave_are_dropped() {
    let Some(mut bench) = Bench::new() else { return };
    bench.put(&[(xid(XidType::AD, 0xa1), false)], CacheAction::Forward, 0, 7);
    let mut packet = octets(V2);
    packet[4] = 0;
    assert_eq!(bench.run(&packet).1, ["hit", "hop-limit"]);
    packet[4] = 1;
    packet.resize(1500, 0);
    assert_eq!(bench.run(&packet).0.frame[14 + 4], 0);
    packet.resize(1501, 0);
    assert_eq!(bench.run(&packet).1, ["hit", "too-big"]);
    bench.maps.clear_member(7);
    assert_eq!(bench.run(&octets(V2)).1, ["hit", "no-member"]);
}

#[test]
fn undeliverable_packets_go_to_user_space_where_it_reports_them() {
    let Some(mut bench) = Bench::new() else { return };
    bench.put(&[(xid(XidType::AD, 0xa1), false)], CacheAction::Forward, 0, 7);
    bench.maps.set_settings(ProgramSettings { punt_burst: 100, has_reports: true, ..SETTINGS });
    let mut packet = octets(V2);
    packet[4] = 0;
    let (ran, reasons) = bench.run(&packet);
    assert_eq!((ran.verdict, reasons), (Verdict::Pass, vec!["hit", "to-user", "hop-limit"]));
    assert_eq!(ran.frame, frame(&packet));
}

#[test]
fn frames_for_others_and_other_protocols_pass() {
    let Some(bench) = Bench::new() else { return };
    let mut frame = frame(&octets(V2));
    frame[5] = 0xff;
    let (ran, reasons) = bench.run_frame(&frame);
    assert_eq!((ran.verdict, reasons.len()), (Verdict::Pass, 0));
    frame[12..14].copy_from_slice(&[0xc0, 0xdf]);
    let (ran, reasons) = bench.run_frame(&frame);
    assert_eq!((ran.verdict, reasons.len()), (Verdict::Pass, 0));
}

#[test]
fn a_source_that_asks_for_too_much_is_dropped_and_others_are_not() {
    let Some(bench) = Bench::new() else { return };
    bench.maps.set_settings(ProgramSettings { punts_per_second: 1, punt_burst: 3, ..SETTINGS });
    let asked: Vec<_> = (0..6).map(|_| bench.run(&octets(V2)).0.verdict).collect();
    assert_eq!(asked.iter().filter(|verdict| **verdict == Verdict::Pass).count(), 4);
    let mut other = frame(&octets(V2));
    other[6..12].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    assert_eq!(bench.run_frame(&other).0.verdict, Verdict::Pass);
}

#[test]
fn one_hit_in_some_comes_to_user_space_in_shadow_mode() {
    let Some(mut bench) = Bench::new() else { return };
    bench.put(&[(xid(XidType::AD, 0xa1), false)], CacheAction::Forward, 0, 7);
    bench.maps.set_settings(ProgramSettings { shadow_interval: 10, punt_burst: 100, ..SETTINGS });
    let verdicts: Vec<_> = (0..40).map(|_| bench.run(&octets(V2)).0.verdict).collect();
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Pass).count(), 4);
}

#[test]
fn all_shapes_of_rows_hash_in_the_program_as_in_the_core() {
    let Some(mut bench) = Bench::new() else { return };
    let mut rng = Rng::from_seed(11);
    for case in 0..2_000 {
        let rows = 2 + rng.below(8) as usize;
        let count = 1 + rng.below(4.min(rows as u64 - 1)) as usize;
        let edges: Vec<usize> = (0..count).map(|_| rng.below(rows as u64) as usize).collect();
        let mut packet = vec![1, 0, 0, 0, 9, rows as u8, 0, 0x7e];
        let mut sinks = Vec::new();
        let mut xids = Vec::new();
        for number in 0..rows {
            let id: [u8; 20] = std::array::from_fn(|_| rng.next_u64() as u8);
            let xid = Xid { kind: XidType(rng.next_u64() as u32), id };
            let is_last = number + 1 == rows;
            let has_edge = !is_last && rng.below(2) == 0;
            packet.extend(xid.octets());
            let own = if has_edge { [number as u8 + 1, 0x7f, 0x7f, 0x7f] } else { [0x7f; 4] };
            packet.extend(own);
            xids.push(xid);
            sinks.push(is_last || !has_edge);
        }
        let at = packet.len() - 4;
        for (place, edge) in edges.iter().enumerate() {
            packet[at + place] = *edge as u8;
        }
        let row: Vec<(Xid, bool)> = edges.iter().map(|edge| (xids[*edge], sinks[*edge])).collect();
        bench.put(&row, CacheAction::Drop, 0, 0);
        assert_eq!(bench.run(&packet).1, ["hit", "dropped"], "case {case}");
    }
}
