//! Descriptors from the FEA's socket broker.
//!
//! The FEA answers a call that opens a socket with a token of 16 octets. Whoever asked connects to `fea.fd` in the router's
//! run-time folder (a SOCK_SEQPACKET Unix socket), sends the token and receives one octet with the descriptor beside it
//! (SCM_RIGHTS, unix(7)). A token serves once, for a few seconds, and only the process that asked for it; a connection that is
//! closed without an answer is a refusal.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
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
    run_dir.join("fea.fd")
}

/// The descriptor for `token`.
pub async fn fetch(run_dir: &Path, token: &[u8]) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(socket_path(run_dir))?).await?;
    rustix::net::send(&socket, token, SendFlags::NOSIGNAL).map_err(refused)?;
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

fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut octet = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut data = [IoSliceMut::new(&mut octet)];
    rustix::net::recvmsg(socket, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC).map_err(refused)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(descriptor) = descriptors.next()
        {
            return Ok(descriptor);
        }
    }
    Err(unknown())
}

/// Returns the error of a socket that the FEA closed as that of a token that it does not know.
fn refused(error: Errno) -> io::Error {
    match error {
        Errno::PIPE | Errno::CONNRESET => unknown(),
        other => other.into(),
    }
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the FEA does not know the token")
}
