//! The state that a process exports to its replacement: packets of a socket. The sender may have a different version,
//! or be a foreign process.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};
use sluice_process::handover::{StatePart, Versions};
use sluice_process::{HandOverError, Source};
use std::os::fd::AsRawFd;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// The parts of the state, as this process knows them.
const FIRST: StatePart = StatePart::new("test.first", Versions::new(1, 2));
const SECOND: StatePart = StatePart::new("test.second", Versions::only(1));

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
}

/// Packets, each behind its length in two octets, high octet first: every packet is imported, or refused with a
/// message.
pub fn stream(octets: &[u8]) {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
    let (theirs, ours) = pair.expect("the kernel makes pairs of sockets");
    let mut rest = octets;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (packet, after) = after.split_at(usize::from(u16::from_be_bytes(*length)).min(after.len()));
        // What finds no place comes no more: the process that sent it is gone.
        if send(theirs.as_raw_fd(), packet, MsgFlags::MSG_NOSIGNAL).is_err() {
            break;
        }
        rest = after;
    }
    let _ = nix::sys::socket::shutdown(theirs.as_raw_fd(), nix::sys::socket::Shutdown::Write);
    let outcome: Result<(), HandOverError> = RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let socket = UnixStream::from_std(ours.into())?;
            let mut source = Source::open(socket, "test", 1, &[&FIRST, &SECOND]).await?;
            source.begin(&FIRST).await?;
            let _first: Vec<u8> = source.take().await?;
            source.begin(&SECOND).await?;
            let _second: Vec<(String, Option<u64>)> = source.take().await?;
            source.finish().await
        })
    });
    if let Err(error) = outcome {
        assert!(!error.to_string().is_empty());
    }
}

fn packets(packets: &[&[u8]]) -> Vec<u8> {
    let one = |packet: &&[u8]| [&(packet.len() as u16).to_be_bytes(), *packet].concat();
    packets.iter().flat_map(one).collect()
}

/// Streams that begin well, whole and in pieces: from before the parts, and with parts.
pub fn streams() -> Vec<Vec<u8>> {
    let head: &[u8] = b"l\x10sluice hand-over\x01\x04test\x01\x010";
    let first: &[u8] = b"l\x03abc";
    let second: &[u8] = b"l\x02\x01a\x01\x05\x01b\x00";
    let pieces: [&[u8]; 4] = [b"p\x10sluice hand", b"l-over\x01\x04test\x01\x010", b"p\x03a", b"lbc"];
    // The program's version; two parts with the versions written and read, and whether each is required.
    let abilities: &[u8] = b"\x010\x02\x0atest.first\x01\x02\x01\x02\x01\x0btest.second\x01\x01\x01\x01\x01";
    let parted = [b"l\x10sluice hand-over\x02\x04test\x01\x010", abilities].concat();
    let agreed: &[u8] = b"l\x02\x0atest.first\x02\x0btest.second\x01";
    let (begin_first, begin_second): (&[u8], &[u8]) = (b"b\x0atest.first\x02", b"b\x0btest.second\x01");
    vec![
        packets(&[head]),
        packets(&[head, first, second, b"l\x03\x00"]),
        packets(&[pieces[0], pieces[1], pieces[2], pieces[3], second, b"l\x03\x01"]),
        packets(&[head, b"d", first]),
        packets(&[&parted, agreed, begin_first, first, begin_second, second, b"e\x04\x00"]),
        packets(&[&parted, agreed, begin_second, second, begin_first, first]),
    ]
}
