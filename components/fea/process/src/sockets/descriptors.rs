//! Hands descriptors over to the requesting processes (see `sluice_process::descriptor` for the other side).

use crate::ffi;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use sluice_process::descriptor::{TOKEN, socket_path};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tracing::warn;

/// The lifetime of a token.
pub const LIFETIME: Duration = Duration::from_secs(10);

/// The most descriptors that wait to be fetched.
const WAITING: usize = 1024;

/// The most connections served at the same time, of processes with a descriptor to fetch; a connection lasts until the client has
/// sent 16 octets. Further processes are disconnected at once.
const CONNECTIONS: usize = 64;

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The longest wait for a client.
const PATIENCE: Duration = Duration::from_secs(2);

/// The purpose of a token.
enum Purpose {
    /// The process fetches the descriptor.
    Fetch(Rc<OwnedFd>),
    /// The process gives a descriptor, which the function accepts or refuses.
    Give(Box<dyn FnOnce(OwnedFd) -> bool>),
}

/// A waiting token.
struct Waiting {
    token: [u8; TOKEN],
    pid: u32,
    until: Instant,
    purpose: Purpose,
}

/// The waiting descriptors.
#[derive(Default)]
pub struct Descriptors {
    waiting: RefCell<VecDeque<Waiting>>,
    connections: Cell<usize>,
    /// The task for accepting connections.
    task: Cell<Option<AbortHandle>>,
    /// The reason why no descriptors are handed over.
    problem: RefCell<Option<String>>,
}

impl Descriptors {
    /// Returns the reason why no descriptors are handed over; `None` without a failure.
    pub fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }

    /// Listens in the router's run-time folder, and serves for as long as the process lives. Needs a `LocalSet`.
    pub fn serve(self: &Rc<Self>, run_dir: &Path) -> io::Result<()> {
        let served = self.listen(run_dir);
        self.problem
            .replace(served.as_ref().err().map(|error| format!("components cannot have sockets: {error}")));
        served
    }

    fn listen(self: &Rc<Self>, run_dir: &Path) -> io::Result<()> {
        let path = socket_path(run_dir);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
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
                me.problem.replace(Some(format!("components cannot have sockets: {error}")));
            }
        });
        if let Some(before) = self.task.replace(Some(task.abort_handle())) {
            before.abort();
        }
        Ok(())
    }

    /// Lets the process `pid` fetch the descriptor, once, with the token. `None` if too many wait already, or
    /// without randomness.
    pub fn offer(&self, pid: u32, descriptor: Rc<OwnedFd>) -> Option<[u8; TOKEN]> {
        self.wait_for(pid, Purpose::Fetch(descriptor))
    }

    /// Lets the process `pid` give a descriptor, once, with the token. `accept` returns false for a refusal. `None` as for
    /// [`Descriptors::offer`].
    pub fn request(&self, pid: u32, accept: impl FnOnce(OwnedFd) -> bool + 'static) -> Option<[u8; TOKEN]> {
        self.wait_for(pid, Purpose::Give(Box::new(accept)))
    }

    fn wait_for(&self, pid: u32, purpose: Purpose) -> Option<[u8; TOKEN]> {
        let mut token = [0; TOKEN];
        getrandom::fill(&mut token).ok()?;
        let waiting = &mut *self.waiting.borrow_mut();
        let now = Instant::now();
        waiting.retain(|w| w.until > now);
        if waiting.len() >= WAITING {
            return None;
        }
        waiting.push_back(Waiting { token, pid, until: now + LIFETIME, purpose });
        Some(token)
    }

    /// Takes an unfetched descriptor back.
    pub fn withdraw(&self, descriptor: &Rc<OwnedFd>) {
        let is_it =
            |purpose: &Purpose| matches!(purpose, Purpose::Fetch(held) if Rc::ptr_eq(held, descriptor));
        self.waiting.borrow_mut().retain(|w| !is_it(&w.purpose));
    }

    /// Returns the process at the other end if a descriptor waits for it. A descriptor is offered to a process before the process receives
    /// the token.
    fn expected(&self, client: &OwnedFd) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(client).ok()?;
        let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
        let now = Instant::now();
        self.waiting.borrow().iter().any(|w| w.pid == pid && w.until > now).then_some(pid)
    }

    fn take(&self, token: &[u8], pid: u32) -> Option<Purpose> {
        let waiting = &mut *self.waiting.borrow_mut();
        let now = Instant::now();
        waiting.retain(|w| w.until > now);
        let place = waiting.iter().position(|w| same(&w.token, token) && w.pid == pid)?;
        waiting.remove(place).map(|w| w.purpose)
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
        let (length, given) = loop {
            let mut guard = client.readable().await?;
            if let Ok(received) = guard.try_io(|c| receive(c.get_ref(), &mut token)) {
                break received?;
            }
        };
        // One octet into an empty buffer: never refused for lack of room.
        let octet = [IoSlice::new(&[0])];
        let descriptor = match self.take(&token[..length], pid) {
            Some(Purpose::Fetch(descriptor)) => descriptor,
            Some(Purpose::Give(accept)) => {
                if given.is_some_and(accept) {
                    let mut nothing = SendAncillaryBuffer::default();
                    rustix::net::sendmsg(client.get_ref(), &octet, &mut nothing, SendFlags::NOSIGNAL)?;
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        rustix::net::sendmsg(client.get_ref(), &octet, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// Receives a request: the length, and the descriptor beside the request.
fn receive(client: &OwnedFd, token: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut data = [IoSliceMut::new(token)];
    let received = rustix::net::recvmsg(client, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let given = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, given))
}

/// Returns true if two tokens are the same, in constant time.
fn same(a: &[u8; TOKEN], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}
