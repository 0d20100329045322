//! The recorder of a component's state: a successor that writes down what a running component hands over, and refuses it, so
//! that the component goes on.
//!
//! For the form, see `sluice_testkit::recording`. The FEA shares a listener with the successor that the manager has started only: a
//! recording of BGP ends before the listeners.

use super::RouterLab;
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// The most octets of a packet: those of a piece of a value, and its kind.
const PACKET: usize = 65_537;

/// The silence after which a component is taken to wait for an answer.
const SILENCE: Duration = Duration::from_secs(1);

/// The reason that the recorder gives.
const RECORDED: &[u8] = b"rrecorded";

/// Records the state of a component of the router.
pub fn record(lab: &RouterLab, component: &str) -> Vec<u8> {
    let own = std::process::id();
    let path = lab.run_dir().join("xrl").join(component).join(format!("{own}-handover"));
    let socket = || {
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    };
    let listener: OwnedFd = socket();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    // The component runs as another user.
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let recording = std::thread::spawn(move || {
        let stream = rustix::net::accept(&listener).unwrap();
        packets(&stream)
    });
    let call = format!("{component}/common.v1.Component/HandOver?successor:u32={own}");
    let answer = lab.cli(&["call", &call]);
    let answer = String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).into_owned();
    assert!(answer.contains("recorded") || answer.contains("the listener is not shared"), "{answer}");
    std::fs::remove_file(&path).unwrap();
    recording.join().unwrap()
}

/// Reads packets until the component waits for an answer, and refuses the state; or until the component closes the socket.
fn packets(stream: &OwnedFd) -> Vec<u8> {
    rustix::net::sockopt::set_socket_timeout(stream, Timeout::Recv, Some(SILENCE)).unwrap();
    let mut recording = Vec::new();
    let mut packet = vec![0; PACKET];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut data = [IoSliceMut::new(&mut packet)];
        let got = match rustix::net::recvmsg(stream, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => got.bytes,
            Err(Errno::AGAIN) => break,
            Err(error) => panic!("the component's packets end: {error}"),
        };
        // The copies of the descriptors are closed.
        ancillary.drain().for_each(drop);
        if got == 0 {
            return recording;
        }
        let is_first = recording.is_empty();
        recording.push(packet[0]);
        recording.extend_from_slice(&(got as u32 - 1).to_be_bytes());
        recording.extend_from_slice(&packet[1..got]);
        if is_first && let Some(abilities) = abilities(&packet[1..got]) {
            // Whoever writes these versions reads them too.
            rustix::net::send(stream, &[b"a", abilities].concat(), SendFlags::NOSIGNAL).unwrap();
        }
    }
    rustix::net::send(stream, RECORDED, SendFlags::NOSIGNAL).unwrap();
    recording
}

/// Returns the octets of the abilities in the first value: behind two texts with a number after each, and a third text. `None` in the
/// form before the parts.
fn abilities(value: &[u8]) -> Option<&[u8]> {
    let text = |value: &'_ [u8]| -> Vec<u8> { value[1 + usize::from(value[0])..].to_vec() };
    let behind_magic = text(value);
    let format = behind_magic[0];
    let length = value.len() - text(&text(&behind_magic[1..])[1..]).len();
    (format > 1).then(|| &value[length..])
}
