//! The sole router of a network namespace. Two routers would delete each other's routes: both treat every route of
//! protocol 83 as their own.
//!
//! A router holds an abstract Unix socket, with names local to the network namespace (unix(7)). The socket ends with
//! the process, however the process ends. Any user may take such a name: a holder counts only if the holder runs as
//! root or as the user of the current process.

use anyhow::bail;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket, sockopt,
};
use nix::unistd::geteuid;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use tracing::warn;

/// The prefix of routers' names.
pub const ROUTER: &str = "sluice.router";
/// The most names tried. A foreign process with a name does not keep a router from the next name.
const NAMES: usize = 8;

/// A process that holds a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    /// There is none.
    Nobody,
    /// A process of root or of the own user; its number.
    Router(i32),
    /// A process of somebody else, which is no router.
    Stranger,
}

fn stream() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
}

fn address(base: &str, number: usize) -> nix::Result<UnixAddr> {
    UnixAddr::new_abstract(format!("{base}.{number}").as_bytes())
}

fn holder(address: &UnixAddr) -> nix::Result<Holder> {
    let socket = stream()?;
    match connect(socket.as_raw_fd(), address) {
        Err(Errno::ECONNREFUSED) => return Ok(Holder::Nobody),
        // A router empties its queue.
        Err(_) => return Ok(Holder::Stranger),
        Ok(()) => {}
    }
    let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
    let is_ours = peer.uid() == 0 || peer.uid() == geteuid().as_raw();
    Ok(if is_ours { Holder::Router(peer.pid()) } else { Holder::Stranger })
}

/// Takes a name for the life of the process. The error names the router already running in the network namespace.
pub fn claim(base: &str) -> anyhow::Result<Option<UnixListener>> {
    let mut free = None;
    for number in 0..NAMES {
        let address = address(base, number)?;
        match holder(&address)? {
            Holder::Nobody => drop(free.get_or_insert(address)),
            Holder::Router(pid) => bail!(
                "a router runs already in this network namespace (process {pid}), and two would delete each other's routes; stop it \
                 first, or start this one in a network namespace of its own (`ip netns exec`)"
            ),
            Holder::Stranger => {}
        }
    }
    let held = free.map(|address| {
        let socket = stream()?;
        bind(socket.as_raw_fd(), &address)?;
        listen(&socket, Backlog::new(16)?)?;
        Ok::<_, Errno>(UnixListener::from(socket))
    });
    match held {
        Some(Ok(held)) => Ok(Some(held)),
        // Another router took the name between the question and this.
        Some(Err(Errno::EADDRINUSE)) => {
            bail!("another router starts in this network namespace at the same time")
        }
        Some(Err(error)) => Err(error.into()),
        None => {
            warn!(
                "other users hold all names by which routers of a network namespace know of each other; a second one is not noticed"
            );
            Ok(None)
        }
    }
}

/// Answers clients asking for the holder of a name.
pub async fn answer(held: UnixListener) -> std::io::Result<()> {
    let held = tokio::net::UnixListener::from_std(held)?;
    loop {
        drop(held.accept().await?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_namespace_has_one_router() {
        let base = format!("sluice-test-{}", std::process::id());
        let held = claim(&base).unwrap().unwrap();
        let refused = claim(&base).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(held);
        assert!(claim(&base).unwrap().is_some());
    }
}
