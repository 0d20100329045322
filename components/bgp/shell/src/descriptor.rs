//! Fetches a socket that the FEA has opened: its descriptor comes over a Unix socket, for the token that the FEA gave.
//!
//! The exchange: connect to `descriptors.sock` in the run-time folder, write the token's 16 octets, read one octet with the
//! descriptor beside it (SCM_RIGHTS). A connection closed without it is a refusal.

use crate::ffi;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// The descriptor for `token`.
pub async fn fetch(run_dir: &Path, token: &[u8]) -> io::Result<OwnedFd> {
    let mut stream = UnixStream::connect(run_dir.join("descriptors.sock")).await?;
    stream.write_all(token).await?;
    loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || receive(stream.as_raw_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

fn receive(socket: i32) -> io::Result<OwnedFd> {
    let mut octet = [0];
    let mut data = [IoSliceMut::new(&mut octet)];
    let mut space = nix::cmsg_space!([i32; 1]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket, &mut data, Some(&mut space), flags)?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control
            && let [descriptor] = descriptors[..]
        {
            return Ok(ffi::own(descriptor));
        }
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the FEA does not know the token"))
}
