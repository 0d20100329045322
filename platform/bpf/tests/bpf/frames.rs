//! Malformed frames: the root program passes or drops each, and never does anything else.
#![cfg(feature = "xdp")]

use crate::support;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluice_bpf::counters::Counters;
use sluice_bpf::layout::Reason;
use sluice_bpf::run::{Verdict, run};
use sluice_bpf::{Embedded, Loaded, Loader};

/// The least frame that the kernel runs a program on: an Ethernet header.
const LEAST: usize = 14;

fn ipv4(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 34 + payload];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(20 + payload as u16).to_be_bytes());
    frame[22] = 64;
    frame
}

fn ipv6(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 54 + payload];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame[14] = 0x60;
    frame[18..20].copy_from_slice(&(payload as u16).to_be_bytes());
    frame
}

fn root() -> (Loaded, Counters) {
    let root = Loader::new(Embedded::Root).load().unwrap();
    let counters = Counters::new(root.map("counts").unwrap()).unwrap();
    (root, counters)
}

fn verdict(program: &Loaded, frame: &[u8]) -> Verdict {
    let ran = run(program.program(), frame, 1).unwrap();
    assert_eq!(ran.frame, frame, "the root program changes no frame");
    ran.verdict
}

#[test]
fn frames_truncated_at_every_length_pass_as_malformed() {
    if !support::usable() {
        return;
    }
    let (root, counters) = root();
    for whole in [ipv4(40), ipv6(40)] {
        for length in LEAST..whole.len() {
            let before = counters.total(Reason::Malformed).unwrap().packets;
            assert_eq!(verdict(&root, &whole[..length]), Verdict::Pass, "{length} octets");
            assert_eq!(counters.total(Reason::Malformed).unwrap().packets, before + 1, "{length} octets");
        }
        let before = counters.total(Reason::Malformed).unwrap().packets;
        assert_eq!(verdict(&root, &whole), Verdict::Pass);
        assert_eq!(counters.total(Reason::Malformed).unwrap().packets, before);
    }
}

#[test]
fn wrong_fields_are_malformed() {
    if !support::usable() {
        return;
    }
    let (root, counters) = root();
    let good = ipv4(40);
    // Offset and value of one octet: version, header lengths, total lengths.
    for (at, value) in [(14, 0x55), (14, 0x44), (14, 0x4f), (17, 19), (16, 0xff)] {
        let mut frame = good.clone();
        frame[at] = value;
        let before = counters.total(Reason::Malformed).unwrap().packets;
        assert_eq!(verdict(&root, &frame), Verdict::Pass);
        let now = counters.total(Reason::Malformed).unwrap().packets;
        // A header of 60 octets fits into a packet of 60 octets.
        assert_eq!(now, before + u64::from(value != 0x4f), "octet {at} is {value:#x}");
    }
}

#[test]
fn random_octets_pass_or_drop() {
    if !support::usable() {
        return;
    }
    let (root, _) = root();
    let ether_type = prop_oneof![
        Just([0x08, 0x00]),
        Just([0x86, 0xdd]),
        Just([0xc0, 0xde]),
        Just([0xc0, 0xdf]),
        Just([0x81, 0x00]),
        any::<[u8; 2]>()
    ];
    let frames =
        (prop::collection::vec(any::<u8>(), LEAST..600), ether_type).prop_map(|(mut frame, ether_type)| {
            frame[12..14].copy_from_slice(&ether_type);
            frame
        });
    let mut runner = TestRunner::new(Config { cases: 2000, failure_persistence: None, ..Config::default() });
    runner
        .run(&frames, |frame| {
            prop_assert!(matches!(verdict(&root, &frame), Verdict::Pass | Verdict::Drop));
            Ok(())
        })
        .unwrap();
    for program in [Embedded::Sink, Embedded::Pktgen] {
        let program = Loader::new(program).load().unwrap();
        for length in LEAST..80 {
            let ran = run(program.program(), &ipv4(66)[..length], 1).unwrap();
            assert!(ran.verdict != Verdict::Aborted && ran.verdict != Verdict::Redirect, "{ran:?}");
        }
    }
}
