//! A real capture, replayed from one node of a lab to the other.

use sluice_lab::{Lab, LabOptions};
use sluice_pktgen::capture::{self, Frame};
use sluice_pktgen::{Pace, PktgenError, Replay, Replayed};
use std::collections::VecDeque;
use std::io::Read;
use std::time::Duration;

const PAIR: &str = "
[nodes.r]
[nodes.a]
[[links]]
a = 'r:eth0'
b = 'a:eth0'
";

/// Captures of Ethernet frames, one in each format.
const CAPTURES: [&str; 2] =
    ["data/pcap/bgp/netgauze__traffic-00.pcap", "data/pcap/ospf/tcpdump__OSPFv2_Capture_FINAL.pcapng"];

/// The longest wait for a frame on its way.
const PATIENCE: Duration = Duration::from_secs(10);

fn lab(name: &str) -> Option<Lab> {
    if !nix::unistd::geteuid().is_root() {
        sluice_testkit::skipped("not root");
        return None;
    }
    Some(Lab::up(&PAIR.parse().unwrap(), LabOptions::unique(name)).unwrap())
}

/// Reads a capture of the shared data, or records that there is none.
fn frames(path: &str) -> Option<Vec<Frame>> {
    match sluice_testkit::shared(path) {
        Some(path) => Some(capture::read(&path).unwrap()),
        None => {
            sluice_testkit::skipped(format!("there is no {path}"));
            None
        }
    }
}

fn frame(milliseconds: u64, last: u8) -> Frame {
    let mut octets = vec![2; 60];
    octets[59] = last;
    Frame { time: Duration::from_millis(milliseconds), octets, is_cut: false }
}

fn replay(frames: Vec<Frame>, pace: Pace) -> Replay {
    Replay { interface: "eth0".into(), frames, pace, loops: Some(1), named_again: None }
}

/// A pause that waits for nothing else.
fn pause(longest: Duration, _: &Replayed) -> Result<bool, PktgenError> {
    std::thread::park_timeout(longest);
    Ok(false)
}

fn run(lab: &Lab, replay: &Replay) -> Replayed {
    lab.inside("r", || replay.run(pause)).unwrap().unwrap()
}

/// Opens a packet socket for the frames of the node `a`.
fn receiver(lab: &Lab) -> socket2::Socket {
    const ALL: u16 = 0x0003;
    let open = || {
        socket2::Socket::new(socket2::Domain::PACKET, socket2::Type::RAW, Some(i32::from(ALL.to_be()).into()))
    };
    let socket = lab.inside("a", open).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(mut receiver: &socket2::Socket) -> Vec<u8> {
    let mut frame = vec![0; 65536];
    let octets = receiver.read(&mut frame).unwrap();
    frame.truncate(octets);
    frame
}

#[test]
fn a_capture_arrives_octet_for_octet() {
    let Some(lab) = lab("replay") else { return };
    for path in CAPTURES {
        let Some(frames) = frames(path) else { return };
        let receiver = receiver(&lab);
        let counts = run(&lab, &replay(frames.clone(), Pace::Full));
        assert_eq!((counts.frames, counts.refused), (frames.len() as u64, 0), "{path}");
        let mut missing: VecDeque<Vec<u8>> = frames.into_iter().map(|frame| frame.octets).collect();
        assert!(missing.len() > 1, "{path}");
        while let Some(expected) = missing.front() {
            // The nodes' own frames, such as router solicitations, are between those of the capture.
            if receive(&receiver) == *expected {
                missing.pop_front();
            }
        }
    }
}

#[test]
fn no_frame_is_sent_before_its_time() {
    let Some(lab) = lab("replay-time") else { return };
    let frames = vec![frame(0, 0), frame(30, 1), frame(20, 2), frame(60, 3)];
    for (factor, least) in [(1.0, 60), (2.0, 30), (0.5, 120)] {
        let counts = run(&lab, &replay(frames.clone(), Pace::Factor(factor)));
        assert_eq!((counts.frames, counts.octets, counts.loops), (4, 240, 1));
        assert!(counts.duration >= Duration::from_millis(least), "{factor}: {counts:?}");
    }
}

#[test]
fn loops_are_counted_and_the_caller_ends_them() {
    let Some(lab) = lab("replay-loops") else { return };
    let frames = vec![frame(0, 0), frame(1, 1)];
    let three = Replay { loops: Some(3), ..replay(frames.clone(), Pace::Full) };
    let counts = run(&lab, &three);
    assert_eq!((counts.frames, counts.loops), (6, 3));
    let endless = Replay { loops: None, ..replay(frames, Pace::Factor(1.0)) };
    let enough = |_: Duration, counts: &Replayed| Ok(counts.loops >= 5);
    let counts = lab.inside("r", || endless.run(enough)).unwrap().unwrap();
    assert_eq!((counts.frames, counts.loops), (11, 5));
    let nothing = Replay { loops: None, ..replay(Vec::new(), Pace::Full) };
    assert_eq!(run(&lab, &nothing).frames, 0);
}

#[test]
fn frames_beyond_the_mtu_are_refused_and_counted() {
    let Some(lab) = lab("replay-mtu") else { return };
    let mut frames = vec![frame(0, 0), frame(0, 1), frame(0, 2)];
    frames[1].octets.resize(3000, 0);
    let counts = run(&lab, &replay(frames, Pace::Full));
    assert_eq!((counts.frames, counts.octets, counts.refused), (2, 120, 1));
}

#[test]
fn replay_is_refused_on_the_hosts_own_namespace() {
    let replay = Replay { interface: "lo".into(), ..replay(vec![frame(0, 0)], Pace::Full) };
    assert!(matches!(replay.run(pause), Err(PktgenError::NotPermitted { .. })));
}
