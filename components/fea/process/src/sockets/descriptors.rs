//! Hands descriptors over to the processes that asked for them (see `sluice_process::descriptor` for the other side).

use crate::ffi;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use sluice_process::descriptor::{TOKEN, socket_path};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tracing::warn;

/// How long a token is good.
pub const LIFETIME: Duration = Duration::from_secs(10);

/// Descriptors that may wait to be fetched.
const WAITING: usize = 1024;

/// Connections of processes with a descriptor to fetch that may be served at the same time; one takes as long as its client takes to
/// send 16 octets. Other processes are sent away at once.
const CONNECTIONS: usize = 64;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A descriptor that waits to be fetched.
struct Waiting {
    token: [u8; TOKEN],
    pid: u32,
    until: Instant,
    descriptor: Rc<OwnedFd>,
}

/// The descriptors that wait to be fetched.
#[derive(Default)]
pub struct Descriptors {
    waiting: RefCell<VecDeque<Waiting>>,
    connections: Cell<usize>,
    /// Who accepts connections.
    task: Cell<Option<AbortHandle>>,
}

impl Descriptors {
    /// Listens in the router's run-time folder, and serves for as long as the process lives. Needs a `LocalSet`.
    pub fn serve(self: &Rc<Self>, run_dir: &Path) -> io::Result<()> {
        let path = socket_path(run_dir);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path)?)?;
        // Anybody may connect: what counts is the token, and who has it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        rustix::net::listen(&listener, BACKLOG)?;
        let listener = ffi::watch(listener)?;
        let me = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            if let Err(error) = me.accept(&listener).await {
                warn!(%error, "no descriptors are handed over any more");
            }
        });
        if let Some(before) = self.task.replace(Some(task.abort_handle())) {
            before.abort();
        }
        Ok(())
    }

    /// Lets the process `pid` fetch the descriptor, once, with the token. `None` if too many wait already, or no
    /// randomness is to be had.
    pub fn offer(&self, pid: u32, descriptor: Rc<OwnedFd>) -> Option<[u8; TOKEN]> {
        let mut token = [0; TOKEN];
        getrandom::fill(&mut token).ok()?;
        let waiting = &mut *self.waiting.borrow_mut();
        let now = Instant::now();
        waiting.retain(|w| w.until > now);
        if waiting.len() >= WAITING {
            return None;
        }
        waiting.push_back(Waiting { token, pid, until: now + LIFETIME, descriptor });
        Some(token)
    }

    /// Takes the descriptor back that nobody fetched.
    pub fn withdraw(&self, descriptor: &Rc<OwnedFd>) {
        self.waiting.borrow_mut().retain(|w| !Rc::ptr_eq(&w.descriptor, descriptor));
    }

    /// Returns the process at the other end if a descriptor waits for it. A process is offered a descriptor before it hears the token.
    fn expected(&self, client: &OwnedFd) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(client).ok()?;
        let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
        let now = Instant::now();
        self.waiting.borrow().iter().any(|w| w.pid == pid && w.until > now).then_some(pid)
    }

    fn take(&self, token: &[u8], pid: u32) -> Option<Rc<OwnedFd>> {
        let waiting = &mut *self.waiting.borrow_mut();
        let now = Instant::now();
        waiting.retain(|w| w.until > now);
        let place = waiting.iter().position(|w| same(&w.token, token) && w.pid == pid)?;
        waiting.remove(place).map(|w| w.descriptor)
    }

    async fn accept(self: &Rc<Self>, listener: &AsyncFd<OwnedFd>) -> io::Result<()> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let mut guard = listener.readable().await?;
            match guard.try_io(|l| rustix::net::accept_with(l.get_ref(), flags).map_err(io::Error::from)) {
                Ok(Ok(client)) => {
                    let Some(pid) = self.expected(&client) else { continue };
                    if self.connections.get() >= CONNECTIONS {
                        continue; // it may come again
                    }
                    let me = Rc::clone(self);
                    self.connections.set(self.connections.get() + 1);
                    tokio::task::spawn_local(async move {
                        // A client that is too slow, or asks for what is not there, is sent away without a word.
                        let _ = tokio::time::timeout(PATIENCE, me.answer(client, pid)).await;
                        me.connections.set(me.connections.get() - 1);
                    });
                }
                Err(_) => {}
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Ok(Err(error)) => {
                    warn!(%error, "a client was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn answer(&self, client: OwnedFd, pid: u32) -> io::Result<()> {
        let client = ffi::watch(client)?;
        let mut token = [0; TOKEN + 1];
        let length = loop {
            let mut guard = client.readable().await?;
            let read = guard.try_io(|c| {
                let received = rustix::net::recv(c.get_ref(), &mut token[..], RecvFlags::empty());
                received.map(|(length, _)| length).map_err(io::Error::from)
            });
            if let Ok(length) = read {
                break length?;
            }
        };
        let Some(descriptor) = self.take(&token[..length], pid) else { return Ok(()) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        // One octet into an empty buffer: never refused for lack of room.
        let octet = [IoSlice::new(&[0])];
        rustix::net::sendmsg(client.get_ref(), &octet, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Whether two tokens are the same, in a time that does not tell where they differ.
fn same(a: &[u8; TOKEN], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}
