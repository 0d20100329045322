//! Descriptors from the FEA's socket broker.
//!
//! The FEA answers a call that opens a socket with a token of 16 octets. The caller connects to `fea.fd` in the
//! folder of the FEA's sockets (a SOCK_SEQPACKET Unix socket), sends the token and receives one octet with the descriptor
//! beside it (SCM_RIGHTS, unix(7)). A token serves once, for a few seconds, and only for the calling process; a
//! connection closed without an answer is a refusal. A token for [`give`] goes the other way: the descriptor is beside
//! the token.

use crate::socket_folder;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Octets of a token.
pub const TOKEN: usize = 16;

/// The longest wait for the FEA, which only has to look the token up.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause before the FEA's socket is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// Returns the path of the socket at which the FEA hands descriptors out.
pub fn socket_path(run_dir: &Path) -> PathBuf {
    socket_folder(run_dir, "fea").join("fea.fd")
}

/// The descriptor for `token`.
pub async fn fetch(run_dir: &Path, token: &[u8]) -> io::Result<OwnedFd> {
    exchange(run_dir, token, None).await?.ok_or_else(unknown)
}

/// Gives the FEA the descriptor that `token` is for.
pub async fn give(run_dir: &Path, token: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    exchange(run_dir, token, Some(descriptor)).await.map(drop)
}

/// Sends a token, with a descriptor or without one, and returns the descriptor beside the answer.
async fn exchange(
    run_dir: &Path,
    token: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<Option<OwnedFd>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(socket_path(run_dir))?).await?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let token = [IoSlice::new(token)];
    rustix::net::sendmsg(&socket, &token, &mut ancillary, SendFlags::NOSIGNAL).map_err(refused)?;
    // The event loop's type for Unix sockets; it does not mind that this one keeps messages apart.
    let socket = UnixStream::from_std(socket.into())?;
    let answer = async {
        loop {
            socket.readable().await?;
            match socket.try_io(Interest::READABLE, || receive(&socket)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the FEA hands no descriptor out");
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}

/// Connects, and waits while others have filled the queue of the FEA's socket.
async fn connect(socket: &OwnedFd, address: &SocketAddrUnix) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match rustix::net::connect(socket, address) {
            Err(Errno::AGAIN) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
            other => return Ok(other?),
        }
    }
}

/// Receives the answer of a single octet, and the descriptor beside the octet.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut octet = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut data = [IoSliceMut::new(&mut octet)];
    let answer = rustix::net::recvmsg(socket, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    let octets = answer.map_err(refused)?.bytes;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    // Without either the FEA has closed the connection.
    if octets == 0 && descriptor.is_none() { Err(unknown()) } else { Ok(descriptor) }
}

/// Returns the error of a closed socket as the error of an unknown token.
fn refused(error: Errno) -> io::Error {
    match error {
        Errno::PIPE | Errno::CONNRESET => unknown(),
        other => other.into(),
    }
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the FEA does not know the token")
}
