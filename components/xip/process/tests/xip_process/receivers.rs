//! Packets that come up by an AF_XDP socket: the frames as they were sent, those that a socket does not take, a full memory, and a closed
//! socket.

use crate::support;
use crate::support::{Bench, ROUTER, frame, octets, set_port};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use sluice_bpf::Link;
use sluice_bpf::attach::interface_index;
use sluice_bpf::layout::xip::REASON_NAMES;
use sluice_bpf::receiver::{self, LARGEST_FRAME, QUEUES, Receiver, Receivers};
use sluice_lab::{Lab, LabOptions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

const TOPOLOGY: &str = "[nodes.r]\n[nodes.a]\n[[links]]\na = 'a:eth0'\nb = 'r:eth0'\nxdp = true\n";
/// A packet to a domain that nobody knows, without its payload.
const HEADER: &str = "010000008001007e000000105a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a007f7f7f";
/// The frames that a socket of the tests keeps.
const FRAMES: u32 = 64;

/// Returns a frame of `length` octets with a number in its payload.
fn numbered(number: u32, length: usize) -> Vec<u8> {
    let mut packet = octets(HEADER);
    let payload = length - 14 - packet.len();
    packet[2..4].copy_from_slice(&(payload as u16).to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet.resize(length - 14, 0xa5);
    frame(&packet)
}

/// Sends frames of the given lengths from the far node, and waits until the program has given all of them to user space.
fn send(lab: &Lab, bench: &Bench, lengths: &[usize]) -> Vec<Vec<u8>> {
    let program = "import socket, sys\n\
                   s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)\n\
                   s.bind(('eth0', 0))\n\
                   [s.send(bytes.fromhex(line)) for line in open(sys.argv[1]).read().split()]\n";
    let frames: Vec<_> = (0..).zip(lengths).map(|(number, length)| numbered(number, *length)).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    let line = |frame: &Vec<u8>| frame.iter().map(|octet| format!("{octet:02x}")).collect::<String>() + "\n";
    std::fs::write(file.path(), frames.iter().map(line).collect::<String>()).unwrap();
    let before = counted(bench, "to-user");
    lab.exec("a", "python3", ["-c", program, file.path().to_str().unwrap()]).unwrap();
    until(|| counted(bench, "to-user") >= before + frames.len() as u64);
    frames
}

fn counted(bench: &Bench, name: &str) -> u64 {
    let (number, _) = REASON_NAMES.iter().find(|(_, known)| *known == name).unwrap();
    bench.maps.counts()[*number as usize]
}

fn until(is_done: impl FnMut() -> bool) {
    assert!(sluice_lab::until(Duration::from_secs(10), is_done), "waited for 10 seconds");
}

/// Reads the frames that wait at a socket, `most` at most.
fn read(receiver: &mut Receiver, most: u32) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    receiver.receive(most, |frame| frames.push(frame.to_vec()));
    frames
}

/// Returns true if the kernel's stack gets the frame.
fn passes(stack: &OwnedFd, frame: &[u8]) -> bool {
    let mut buffer = [0; 4096];
    sluice_lab::until(Duration::from_secs(10), || {
        let received = recv(stack.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT);
        received.is_ok_and(|length| buffer[..length] == *frame)
    })
}

/// Returns true if no frame of XIP waits at the stack.
fn is_empty(stack: &OwnedFd) -> bool {
    let mut buffer = [0; 4096];
    while let Ok(length) = recv(stack.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
        if length > 14 && buffer[12..14] == [0xc0, 0xde] {
            return false;
        }
    }
    true
}

fn open(map: &Receivers, index: u32) -> Receiver {
    let socket = receiver::socket("eth0").unwrap();
    let receiver = Receiver::new(socket, FRAMES).unwrap();
    // The kernel takes leave of a closed socket a moment later.
    until(|| match receiver::bind(receiver.socket(), index, 0) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
            false
        }
    });
    map.put(index, 0, receiver.socket()).unwrap();
    receiver
}

fn work(lab: &Lab) {
    let index = interface_index("eth0").unwrap();
    let bench = Bench::of(sluice_bpf::Loader::new(sluice_bpf::Embedded::Xip).load().unwrap());
    set_port(&bench.program, index as usize, ROUTER);
    let _link = Link::attach("eth0", bench.program.program()).unwrap();
    let map = Receivers::new(&bench.program, "xip_receivers").unwrap();
    let stack = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_NONBLOCK, SockProtocol::EthAll);
    let stack = stack.unwrap();

    // Without a socket, the kernel gets the frames.
    let frames = send(lab, &bench, &[100]);
    assert!(passes(&stack, &frames[0]));

    // With one, the frames come as they were sent, and the kernel's stack does not see them.
    let mut socket = open(&map, index);
    let frames = send(lab, &bench, &[60, 300, 1514, LARGEST_FRAME as usize]);
    until(|| counted(&bench, "to-user") >= 5);
    assert_eq!(read(&mut socket, u32::MAX), frames);
    assert!(is_empty(&stack));
    // Larger ones do not fit the socket's memory.
    let large = send(lab, &bench, &[LARGEST_FRAME as usize + 1]);
    assert!(passes(&stack, &large[0]));
    assert_eq!(read(&mut socket, u32::MAX), Vec::<Vec<u8>>::new());

    // Many more than there is memory for, all read: each comes once and in order.
    let mut lengths = vec![120; 40];
    for _ in 0..5 {
        let frames = send(lab, &bench, &lengths);
        let (mut first, rest) = (read(&mut socket, 7), read(&mut socket, u32::MAX));
        first.extend(rest);
        assert_eq!(first, frames);
    }
    assert_eq!(socket.lost().unwrap(), receiver::Lost::default());

    // More than there is memory for, none read: the first ones come, the others are counted.
    lengths.resize(100, 120);
    let frames = send(lab, &bench, &lengths);
    assert_eq!(read(&mut socket, u32::MAX), frames[..FRAMES as usize]);
    assert_eq!(socket.lost().unwrap(), receiver::Lost { full: 36, invalid: 0 });

    // One socket a queue, none for queues that do not exist or have no place, none for another interface.
    let other = Receiver::new(receiver::socket("eth0").unwrap(), 1).unwrap();
    let refused = |interface, queue| receiver::bind(other.socket(), interface, queue).unwrap_err().kind();
    assert_eq!(refused(index, 0), ErrorKind::ResourceBusy);
    assert_eq!(refused(index, 1000), ErrorKind::InvalidInput);
    assert_eq!(refused(1, 0), ErrorKind::InvalidInput);
    assert!(map.put(index, QUEUES, other.socket()).is_err() && map.put(1 << 16, 0, other.socket()).is_err());
    // Memory is registered once.
    assert!(Receiver::new(other.socket().try_clone_to_owned().unwrap(), 1).is_err());

    // A closed socket leaves the map by itself, and its queue.
    drop((socket, other));
    let frames = send(lab, &bench, &[100]);
    assert!(passes(&stack, &frames[0]));
    let mut socket = open(&map, index);
    let frames = send(lab, &bench, &[100]);
    assert_eq!(read(&mut socket, u32::MAX), frames);
}

#[test]
fn frames_come_up_by_a_socket_and_otherwise_by_the_kernel() {
    if !support::is_root() {
        return sluice_testkit::skipped("not root");
    }
    if let Err(error) = sluice_lab::available() {
        return sluice_testkit::skipped(error.to_string());
    }
    let lab = Lab::up(&TOPOLOGY.parse().unwrap(), LabOptions::unique("xip-receivers")).unwrap();
    for node in ["a", "r"] {
        lab.exec(node, "ip", ["link", "set", "eth0", "mtu", "2500"]).unwrap();
    }
    lab.inside("r", || work(&lab)).unwrap();
    lab.down().unwrap();
}

#[test]
fn a_socket_needs_its_interface() {
    if !support::is_root() {
        return sluice_testkit::skipped("not root");
    }
    assert!(receiver::socket("no-such-link").is_err());
    assert_eq!(receiver::queues("no-such-link"), 1);
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(Receiver::new(file.as_fd().try_clone_to_owned().unwrap(), 8).is_err());
}
