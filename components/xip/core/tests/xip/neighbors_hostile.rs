//! Forged, replayed and excessive frames, manual neighbors and limits.

use crate::neighbors_world::{LINK, frame, handle, hid, host, link, mac, neighbor};
use proptest::prelude::*;
use sluice_base::{Duration, Instant};
use sluice_machine::{Machine, Outbox};
use sluice_xip::neighbors::{
    DROP_NAMES, Event, Input, Limits, Link, LinkProof, MOST_OUTSTANDING, MOST_SIGNATURES, Neighbor,
    Neighbors, Output, ProofAnswer, ProofRequest, ProofState, VerificationResult,
};
use sluice_xip::wire::nwp::{
    Announcement, Challenge, Form, Listed, ListedAddress, Message, Probe, ProbeKind, Response, Status,
};
use sluice_xip::wire::{Hid, Mac};

const T: Instant = Instant::from_nanos(1);

fn with_link(form: Form, proof: LinkProof, limits: Limits) -> Neighbors {
    let mut host = host(1, limits);
    handle(&mut host, T, Input::SetLink(link(1, form, proof)));
    host
}

fn octets(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![];
    message.put(&mut octets);
    octets
}

fn announcement(sender: Mac, clock: Option<u32>, hids: Vec<Hid>) -> Vec<u8> {
    octets(&Message::Announcement(Announcement { clock, sender, hids }))
}

#[test]
fn frames_that_cannot_be_genuine_are_counted_by_reason() {
    let mut host = with_link(Form::Monitoring, LinkProof::Off, Limits::default());
    let valid = announcement(mac(2), Some(9), vec![hid(2)]);
    let older = announcement(mac(2), Some(8), vec![hid(2), hid(3)]);
    let probe = |kind, destination| {
        octets(&Message::Probe(Probe { kind, clock: 0, source: mac(2), destination, investigated: None }))
    };
    for (source, wire, reason) in [
        (mac(3), valid.clone(), "forged-sender"),
        (mac(1), valid.clone(), "own-address"),
        (Mac([3, 0, 0, 0, 0, 2]), valid.clone(), "group-address"),
        (mac(2), valid[..9].to_vec(), "truncated"),
        (mac(2), older, "replayed"),
        (mac(2), probe(ProbeKind::Ping, mac(9)), "misdirected"),
        (mac(2), probe(ProbeKind::Ack, mac(1)), "unsolicited-ack"),
    ] {
        if reason == "replayed" {
            assert_eq!(frame(&mut host, T, mac(2), &valid)[0], Output::Learned(neighbor(2)));
        }
        assert_eq!(frame(&mut host, T, source, &wire), [], "{reason}");
        assert_eq!(host.drops().of(reason), 1, "{reason}");
    }
    handle(
        &mut host,
        T,
        Input::Frame {
            interface: 9.try_into().map(sluice_base::InterfaceIndex).unwrap(),
            source: mac(2),
            octets: valid,
        },
    );
    assert_eq!(host.drops().of("unknown-link"), 1);
    assert_eq!(host.drops().iter().map(|(_, count)| count).sum::<u64>(), 8);
}

#[test]
fn lists_add_all_but_own_hids_failed_addresses_and_groups() {
    let mut host = with_link(Form::Monitoring, LinkProof::Off, Limits::default());
    let status = |is_alive| Some(Status { is_alive, clock: 5 });
    let listed = |n, mac, is_alive| Listed {
        hid: hid(n),
        addresses: vec![ListedAddress { mac, status: status(is_alive) }],
    };
    let list = Message::List(vec![
        listed(1, mac(7), true),
        listed(3, mac(3), true),
        listed(4, mac(4), false),
        listed(5, Mac::BROADCAST, true),
        listed(6, mac(1), true),
    ]);
    assert_eq!(frame(&mut host, T, mac(2), &octets(&list)), [Output::Learned(neighbor(3))]);
    // A clock of hearsay does not make the first announcement look replayed.
    frame(&mut host, T, mac(3), &announcement(mac(3), Some(1), vec![hid(3)]));
    assert_eq!((host.drops().of("replayed"), host.drops().of("group-address")), (0, 1));
}

#[test]
fn manual_neighbors_need_no_frame_and_are_never_listed() {
    let mut host = with_link(Form::Basic, LinkProof::Required, Limits::default());
    assert_eq!(handle(&mut host, T, Input::AddManual(neighbor(2))), [Output::Learned(neighbor(2))]);
    let sent =
        |outputs: Vec<Output>| outputs.into_iter().filter(|out| matches!(out, Output::Send { .. })).count();
    for second in 0..30 {
        let now = T + Duration::from_secs(second);
        assert_eq!(sent(frame(&mut host, now, mac(3), &announcement(mac(3), None, vec![hid(2)]))), 0);
        let changed = Input::SetLink(Link { hids: vec![hid(1)], ..link(1, Form::Basic, LinkProof::Off) });
        handle(&mut host, now, changed);
    }
    assert_eq!(handle(&mut host, T, Input::RemoveLink(LINK)).first(), Some(&Output::Lost(neighbor(2))));
    let back = handle(&mut host, T, Input::SetLink(link(1, Form::Basic, LinkProof::Off)));
    assert_eq!(back, [Output::Learned(neighbor(2))]);
    assert_eq!(handle(&mut host, T, Input::Remove(neighbor(2))), [Output::Lost(neighbor(2))]);
}

#[test]
fn tables_are_bounded_for_each_link_and_in_all() {
    for (limits, reason) in
        [(Limits { link: 10, table: 99 }, "link-limit"), (Limits { link: 99, table: 10 }, "table-limit")]
    {
        let mut host = with_link(Form::Basic, LinkProof::Off, limits);
        let hids: Vec<Hid> = (2..=71).map(hid).collect();
        let outputs = frame(&mut host, T, mac(2), &announcement(mac(2), None, hids));
        let full = outputs.iter().filter(|out| matches!(out, Output::Event(Event::Full(_)))).count();
        assert_eq!((host.iter().count(), host.drops().of(reason), full), (10, 60, 1));
    }
}

#[test]
fn lists_are_split_at_the_mtu_and_at_255_hids() {
    for (mtu, frames) in [(1500, 6), (9000, 2)] {
        let mut host = host(1, Limits::default());
        let mut all = link(1, Form::Basic, LinkProof::Off);
        (all.mtu, all.hids) = (mtu, (0..255).map(|n| Hid([n; 20])).collect());
        handle(&mut host, T, Input::SetLink(all));
        for n in 0..300_u16 {
            let mut id = [0xee; 20];
            id[..2].copy_from_slice(&n.to_be_bytes());
            let now = T + Duration::from_secs(n.into());
            frame(&mut host, now, mac(2), &announcement(mac(2), None, vec![Hid(id)]));
        }
        // With 255 local HIDs an answer comes at nearly every second announcement.
        let now = T + Duration::from_secs(1000);
        let answers = (0..50).map(|n| now + Duration::from_secs(n)).find_map(|now| {
            let outputs = frame(&mut host, now, mac(9), &announcement(mac(9), None, vec![Hid([0xdd; 20])]));
            let sent: Vec<usize> = outputs
                .iter()
                .filter_map(|out| match out {
                    Output::Send { octets, destination, .. } if *destination == mac(9) => Some(octets.len()),
                    _ => None,
                })
                .collect();
            (!sent.is_empty()).then_some(sent)
        });
        let answers = answers.unwrap();
        assert!(answers.iter().all(|len| *len <= mtu));
        assert_eq!(answers.len(), frames);
    }
}

fn challenge_of(host: &mut Neighbors, outputs: &[Output], nonce: u8) -> Challenge {
    let id = outputs.iter().find_map(|out| match out {
        Output::Proof(ProofRequest::DrawNonce(id)) => Some(*id),
        _ => None,
    });
    let outputs =
        handle(host, T, Input::Proof(ProofAnswer::Nonce(id.expect("a nonce is drawn"), [nonce; 32])));
    let [Output::Send { octets, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    let Ok(Message::Challenge(challenge)) = Message::decode(octets, Form::Basic) else { panic!() };
    challenge
}

#[test]
fn proofs_are_accepted_once_and_for_their_nonce_only() {
    let mut host = with_link(Form::Basic, LinkProof::Required, Limits::default());
    let outputs = frame(&mut host, T, mac(2), &announcement(mac(2), None, vec![hid(2)]));
    let challenge = challenge_of(&mut host, &outputs, 7);
    let response = |nonce| {
        octets(&Message::Response(Response {
            sender: mac(2),
            hid: hid(2),
            nonce,
            key: &[1],
            signature: &[2],
        }))
    };
    assert_eq!(frame(&mut host, T, mac(2), &response([8; 32])), []);
    assert_eq!(host.drops().of("unsolicited-proof"), 1);
    let outputs = frame(&mut host, T, mac(2), &response(challenge.nonce));
    let [Output::Proof(ProofRequest::Verify { proof, .. })] = outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(frame(&mut host, T, mac(2), &response(challenge.nonce)), [], "replayed");
    assert_eq!(host.drops().of("unsolicited-proof"), 2);
    let outputs =
        handle(&mut host, T, Input::Proof(ProofAnswer::Verified(proof, VerificationResult::Refused)));
    assert_eq!(outputs, [Output::Event(Event::Refused(neighbor(2)))]);
    assert_eq!((host.drops().of("refused-proof"), host.get(neighbor(2)).unwrap().is_usable), (1, false));
    assert_eq!(
        handle(&mut host, T, Input::Proof(ProofAnswer::Verified(proof, VerificationResult::Verified))),
        [],
        "late"
    );
    // A refused neighbor is challenged again after 60 s, once, and stays unusable until its proof.
    let later = T + Duration::from_secs(61);
    let again = announcement(mac(2), None, vec![hid(2)]);
    let draws = |outputs: Vec<Output>| {
        outputs.iter().filter(|out| matches!(out, Output::Proof(ProofRequest::DrawNonce(_)))).count()
    };
    assert_eq!(draws(frame(&mut host, T, mac(2), &again)), 0);
    assert_eq!(draws(frame(&mut host, later, mac(2), &again)), 1);
    assert_eq!(draws(frame(&mut host, later, mac(2), &again)), 0);
    assert!(!host.get(neighbor(2)).unwrap().is_usable);
}

#[test]
fn a_neighbor_that_restarted_is_accepted_with_its_older_clock_after_a_probe() {
    let mut host = with_link(Form::Monitoring, LinkProof::Off, Limits::default());
    let announced = |clock| announcement(mac(2), Some(clock), vec![hid(2)]);
    frame(&mut host, T, mac(2), &announced(1000));
    frame(&mut host, T, mac(2), &announced(5));
    assert_eq!(host.drops().of("replayed"), 1);
    let mut now;
    let probe = loop {
        now = host.next_deadline().unwrap();
        let mut out = Outbox::new();
        host.on_deadline(now, &mut out);
        let is_ping = |output| match output {
            Output::Send { octets, .. } => match Message::decode(&octets, Form::Monitoring) {
                Ok(Message::Probe(probe)) => Some(probe),
                _ => None,
            },
            _ => None,
        };
        if let Some(probe) = out.drain().find_map(is_ping) {
            break probe;
        }
    };
    assert_eq!((probe.kind, probe.destination), (ProbeKind::Ping, mac(2)));
    let ack = Probe { kind: ProbeKind::Ack, clock: 6, source: mac(2), destination: mac(1), ..probe };
    frame(&mut host, now, mac(2), &octets(&Message::Probe(ack)));
    frame(&mut host, now, mac(2), &announced(7));
    assert_eq!((host.drops().of("replayed"), host.get(neighbor(2)).unwrap().clock), (1, 7));
}

#[test]
fn a_neighbor_without_the_extension_is_used_only_where_no_proof_is_required() {
    for (proof, is_usable) in [(LinkProof::Optional, true), (LinkProof::Required, false)] {
        let mut host = with_link(Form::Basic, proof, Limits::default());
        frame(&mut host, T, mac(2), &announcement(mac(2), None, vec![hid(2)]));
        let (mut out, mut draws) = (Outbox::new(), 1);
        for second in 0..20 {
            host.on_deadline(T + Duration::from_secs(second), &mut out);
            draws +=
                out.drain().filter(|out| matches!(out, Output::Proof(ProofRequest::DrawNonce(_)))).count();
        }
        let entry = host.get(neighbor(2)).unwrap();
        assert!(matches!(entry.proof, ProofState::Unproven(_)));
        assert_eq!((entry.is_usable, draws), (is_usable, 3));
    }
}

#[test]
fn challenges_and_signatures_are_bounded() {
    let mut host = with_link(Form::Basic, LinkProof::Required, Limits::default());
    let hids: Vec<Hid> = (2..=71).map(hid).collect();
    let outputs = frame(&mut host, T, mac(2), &announcement(mac(2), None, hids));
    let draws = outputs.iter().filter(|out| matches!(out, Output::Proof(ProofRequest::DrawNonce(_)))).count();
    assert_eq!((draws, host.drops().of("challenge-limit")), (MOST_OUTSTANDING, 70 - MOST_OUTSTANDING as u64));
    let challenge =
        |n, about| octets(&Message::Challenge(Challenge { sender: mac(n), hid: about, nonce: [n; 32] }));
    let signs = (10..60).map(|n| frame(&mut host, T, mac(n), &challenge(n, hid(1))).len()).sum::<usize>();
    assert_eq!((signs, host.drops().of("signature-limit")), (MOST_SIGNATURES, 50 - MOST_SIGNATURES as u64));
    assert_eq!(frame(&mut host, T, mac(9), &challenge(9, hid(4))), []);
    assert_eq!(host.drops().of("foreign-challenge"), 1);
}

#[test]
fn every_reason_has_one_name() {
    let mut names = DROP_NAMES.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), DROP_NAMES.len());
}

proptest! {
    /// Any frames at any time leave the machine within its bounds, and each `Lost` follows a `Learned`.
    #[test]
    fn any_frames_keep_the_machine_within_its_bounds(
        frames in proptest::collection::vec((0_u8..6, 0_u8..0x83, 0_u8..4, proptest::collection::vec(0_u8..5, 0..90), 0_u64..9), 1..60),
        is_monitoring: bool,
    ) {
        let form = if is_monitoring { Form::Monitoring } else { Form::Basic };
        let mut host = with_link(form, LinkProof::Required, Limits { link: 5, table: 5 });
        let mut usable = std::collections::BTreeSet::<Neighbor>::new();
        let mut now = T;
        for (source, kind, count, body, seconds) in frames {
            now = now + Duration::from_secs(seconds);
            let mut out = Outbox::new();
            host.on_deadline(now, &mut out);
            let octets = [&[1, kind, count, 6], &mac(source).0[..], &body].concat();
            host.handle(now, Input::Frame { interface: LINK, source: mac(source), octets }, &mut out);
            for output in out.drain() {
                match output {
                    Output::Learned(neighbor) => prop_assert!(usable.insert(neighbor)),
                    Output::Lost(neighbor) => prop_assert!(usable.remove(&neighbor)),
                    _ => {}
                }
            }
            prop_assert!(host.iter().count() <= 5);
            prop_assert!(host.next_deadline().is_some_and(|at| at > now));
        }
    }
}

#[test]
fn a_list_brings_a_failed_neighbor_back_only_with_a_newer_clock() {
    let mut host = with_link(Form::Monitoring, LinkProof::Off, Limits::default());
    frame(&mut host, T, mac(2), &announcement(mac(2), Some(9), vec![hid(2)]));
    let failed = Output::Event(Event::Failed(LINK, mac(2)));
    let now = loop {
        let now = host.next_deadline().unwrap();
        let mut out = Outbox::new();
        host.on_deadline(now, &mut out);
        if out.as_slice().contains(&failed) {
            break now;
        }
    };
    for (clock, is_usable) in [(9, false), (10, true)] {
        let status = Some(Status { is_alive: true, clock });
        let addresses = vec![ListedAddress { mac: mac(2), status }];
        let list = octets(&Message::List(vec![Listed { hid: hid(2), addresses }]));
        frame(&mut host, now, mac(3), &list);
        assert_eq!(host.get(neighbor(2)).unwrap().is_usable, is_usable);
    }
}
