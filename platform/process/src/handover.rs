//! Hand-over: the values a process passes to its successor, and their transport.
//!
//! The successor listens on a Unix socket with message boundaries; its predecessor connects, and each checks with the
//! kernel (SO_PEERCRED) that the peer is the process named by the manager. The socket carries *values*: postcard, at
//! most [`MOST_OCTETS`] each, in packets that the socket takes at once, with descriptors beside the packets
//! (SCM_RIGHTS, unix(7)). The first value holds the kind and the version of the state; the last value the number of
//! values and their checksum. The successor answers once, with "taken" or with the reason of a refusal, and again after
//! taking over.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

/// The most octets of one value.
pub const MOST_OCTETS: usize = 4 << 20;
/// Octets of a packet: a fraction of what every kernel lets wait in a socket.
const PACKET: usize = 65_536;
/// The version of the whole format except the components' values.
const FORMAT: u32 = 1;
const MAGIC: &str = "sluice hand-over";

/// The kinds of packets.
const PIECE: u8 = b'p';
const LAST_PIECE: u8 = b'l';
const DESCRIPTOR: u8 = b'd';
const TAKEN: u8 = b't';
const REFUSED: u8 = b'r';
const DONE: u8 = b'.';

/// The reason why nothing was handed over.
#[derive(Debug, Error)]
pub enum HandOverError {
    /// The socket does not work, or the other side is gone.
    #[error("the way between the processes broke: {0}")]
    Io(#[from] io::Error),
    /// A value is too large, or not what was expected.
    #[error("{0}")]
    Value(String),
    /// The successor does not want it.
    #[error("the new process refuses: {0}")]
    Refused(String),
    /// The component cannot let go, or cannot take it.
    #[error("{0}")]
    Component(Box<dyn std::error::Error>),
}

impl HandOverError {
    /// Wraps the component's own reason.
    pub fn component(reason: impl Into<Box<dyn std::error::Error>>) -> Self {
        HandOverError::Component(reason.into())
    }
}

/// Returns the path of a successor's socket in the folder of the component's sockets.
pub fn socket_path(folder: &Path, successor: u32) -> PathBuf {
    folder.join(format!("{successor}-handover"))
}

/// The first value.
#[derive(Serialize, Deserialize)]
struct Head {
    magic: String,
    format: u32,
    class: String,
    state: u32,
    version: String,
}

/// The last value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Tail {
    values: u64,
    sum: u64,
}

impl Tail {
    /// Adds a value to the sum (FNV-1a over all octets).
    fn add(&mut self, octets: &[u8]) {
        self.values += 1;
        let step = |sum: u64, octet: &u8| (sum ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
        self.sum = octets.iter().fold(self.sum, step);
    }
}

async fn send(
    socket: &UnixStream,
    kind: u8,
    octets: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    loop {
        socket.writable().await?;
        let sent = socket.try_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors = descriptor.map(|d| [d]);
            if let Some(descriptors) = &descriptors {
                ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            let packet = [IoSlice::new(std::slice::from_ref(&kind)), IoSlice::new(octets)];
            Ok(rustix::net::sendmsg(socket, &packet, &mut ancillary, SendFlags::NOSIGNAL)?)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other.map(|_| ()),
        }
    }
}

/// Receives the next packet's kind and descriptor; appends its octets to `into`.
async fn receive(socket: &UnixStream, into: &mut Vec<u8>) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut packet = vec![0; PACKET + 1];
    loop {
        socket.readable().await?;
        let mut descriptor = None;
        let received = socket.try_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut data = [IoSliceMut::new(&mut packet)];
            let got = rustix::net::recvmsg(socket, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                    descriptor = descriptors.next();
                }
            }
            Ok(got.bytes)
        });
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                into.extend_from_slice(&packet[1..length]);
                return Ok((packet[0], descriptor));
            }
        }
    }
}

/// The way to the successor.
pub struct Sink {
    successor: u32,
    socket: UnixStream,
    tail: Tail,
    octets: u64,
    descriptors: u32,
}

impl Sink {
    /// Connects to the successor with a process number, whose socket is in `folder`, and announces the state of `class` in
    /// version `state`.
    pub async fn connect(
        folder: &Path,
        successor: u32,
        class: &str,
        state: u32,
    ) -> Result<Self, HandOverError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(io::Error::from)?;
        let address = SocketAddrUnix::new(socket_path(folder, successor)).map_err(io::Error::from)?;
        rustix::net::connect(&socket, &address).map_err(io::Error::from)?;
        // The event loop's type for Unix sockets; it does not mind that this one keeps messages apart.
        let socket = UnixStream::from_std(socket.into())?;
        check_peer(&socket, successor)?;
        let mut sink = Sink { successor, socket, tail: Tail::default(), octets: 0, descriptors: 0 };
        let version = env!("CARGO_PKG_VERSION").to_string();
        sink.put(&Head { magic: MAGIC.into(), format: FORMAT, class: class.into(), state, version }).await?;
        Ok(sink)
    }

    /// Sends a value.
    pub async fn put<T: Serialize>(&mut self, value: &T) -> Result<(), HandOverError> {
        let octets = postcard::to_allocvec(value).map_err(|e| HandOverError::Value(e.to_string()))?;
        if octets.len() > MOST_OCTETS {
            return Err(HandOverError::Value(format!("a value has {} octets", octets.len())));
        }
        let mut pieces = octets.chunks(PACKET).peekable();
        if pieces.peek().is_none() {
            send(&self.socket, LAST_PIECE, &[], None).await?;
        }
        while let Some(piece) = pieces.next() {
            let kind = if pieces.peek().is_some() { PIECE } else { LAST_PIECE };
            send(&self.socket, kind, piece, None).await?;
        }
        self.tail.add(&octets);
        self.octets += octets.len() as u64;
        Ok(())
    }

    /// Sends a descriptor; the process keeps its own copy.
    pub async fn put_descriptor(&mut self, descriptor: BorrowedFd<'_>) -> Result<(), HandOverError> {
        send(&self.socket, DESCRIPTOR, &[], Some(descriptor)).await?;
        self.descriptors += 1;
        Ok(())
    }

    /// The number of the process at the other end.
    pub fn successor(&self) -> u32 {
        self.successor
    }

    /// Returns the counts of sent octets and descriptors.
    pub fn sent(&self) -> (u64, u32) {
        (self.octets, self.descriptors)
    }

    /// Ends the hand-over: waits until the successor has received and checked all values.
    pub(crate) async fn finish(&mut self) -> Result<(), HandOverError> {
        let tail = self.tail;
        self.put(&tail).await?;
        let mut reason = Vec::new();
        match receive(&self.socket, &mut reason).await? {
            (TAKEN, _) => Ok(()),
            (REFUSED, _) => Err(HandOverError::Refused(String::from_utf8_lossy(&reason).into_owned())),
            _ => Err(HandOverError::Value("the new process sent a meaningless answer".into())),
        }
    }

    /// Returns the successor's reason for an error: a successor that refuses sends a reason and closes the socket.
    pub(crate) async fn explain(&self, error: HandOverError) -> HandOverError {
        if !matches!(error, HandOverError::Io(_)) {
            return error;
        }
        // The kernel reports the close first, once, and then the earlier data.
        for _ in 0..2 {
            let mut reason = Vec::new();
            if let Ok((REFUSED, _)) = receive(&self.socket, &mut reason).await {
                return HandOverError::Refused(String::from_utf8_lossy(&reason).into_owned());
            }
        }
        error
    }

    /// Waits until the successor has taken over (`true`), or has ended.
    pub(crate) async fn taken_over(&self) -> bool {
        matches!(receive(&self.socket, &mut Vec::new()).await, Ok((DONE, _)))
    }
}

fn check_peer(socket: &UnixStream, expected: u32) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    match peer.pid.as_raw_nonzero().get().unsigned_abs() == expected {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "another process is at the other end")),
    }
}

/// The socket at which a successor waits for its predecessor.
pub(crate) struct Waiting {
    listener: UnixListener,
    predecessor: u32,
}

impl Waiting {
    /// Listens in `folder` for the process of this number.
    pub(crate) fn new(folder: &Path, predecessor: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(socket_path(folder, std::process::id()))?)?;
        rustix::net::listen(&listener, 1)?;
        let listener = UnixListener::from_std(listener.into())?;
        Ok(Waiting { listener, predecessor })
    }

    /// Accepts the predecessor's state of `class`, which must be of version `state`.
    pub(crate) async fn accept(self, class: &str, state: u32) -> Result<Source, HandOverError> {
        let (socket, _) = self.listener.accept().await?;
        check_peer(&socket, self.predecessor)?;
        Source::open(socket, class, state).await
    }
}

/// The way from the predecessor.
pub struct Source {
    socket: UnixStream,
    tail: Tail,
}

impl Source {
    /// Reads the head of a hand-over from `socket`. The peer is not trusted: the head must name `class` and version `state`.
    pub async fn open(socket: UnixStream, class: &str, state: u32) -> Result<Source, HandOverError> {
        let mut source = Source { socket, tail: Tail::default() };
        let head: Head = source.take().await?;
        let theirs = (head.magic.as_str(), head.format, head.class.as_str(), head.state);
        match theirs == (MAGIC, FORMAT, class, state) {
            true => Ok(source),
            false => {
                let reason = format!(
                    "{} {} hands over state of version {}.{}, this is {class} {} for version {FORMAT}.{state}",
                    head.class,
                    head.version,
                    head.format,
                    head.state,
                    env!("CARGO_PKG_VERSION")
                );
                source.answer(Err(&reason)).await?;
                Err(HandOverError::Refused(reason))
            }
        }
    }

    async fn octets(&mut self) -> Result<Vec<u8>, HandOverError> {
        let mut octets = Vec::new();
        loop {
            match receive(&self.socket, &mut octets).await? {
                (LAST_PIECE, _) => return Ok(octets),
                (PIECE, _) if octets.len() <= MOST_OCTETS => {}
                (PIECE, _) => return Err(HandOverError::Value("a value is too long".into())),
                _ => return Err(HandOverError::Value("a value was expected".into())),
            }
        }
    }

    fn decode<T: DeserializeOwned>(octets: &[u8]) -> Result<T, HandOverError> {
        postcard::from_bytes(octets).map_err(|e| HandOverError::Value(format!("a value cannot be read: {e}")))
    }

    /// The next value.
    pub async fn take<T: DeserializeOwned>(&mut self) -> Result<T, HandOverError> {
        let octets = self.octets().await?;
        self.tail.add(&octets);
        Self::decode(&octets)
    }

    /// The next descriptor.
    pub async fn take_descriptor(&mut self) -> Result<OwnedFd, HandOverError> {
        match receive(&self.socket, &mut Vec::new()).await? {
            (DESCRIPTOR, Some(descriptor)) => Ok(descriptor),
            _ => Err(HandOverError::Value("a descriptor was expected".into())),
        }
    }

    /// Waits for the successor's confirmation of the whole state.
    pub async fn finish(&mut self) -> Result<(), HandOverError> {
        let expected = self.tail;
        let tail: Tail = Self::decode(&self.octets().await?)?;
        let wrong = || HandOverError::Value("what came is not what was sent".into());
        (tail == expected).then_some(()).ok_or_else(wrong)
    }

    /// Reports whether it was taken.
    pub(crate) async fn answer(&self, outcome: Result<(), &str>) -> io::Result<()> {
        match outcome {
            Ok(()) => send(&self.socket, TAKEN, &[], None).await,
            Err(reason) => {
                let end = reason.floor_char_boundary(PACKET);
                send(&self.socket, REFUSED, &reason.as_bytes()[..end], None).await
            }
        }
    }

    /// Reports a finished takeover: the predecessor ends.
    pub(crate) async fn done(&self) -> io::Result<()> {
        send(&self.socket, DONE, &[], None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn here<F: Future>(act: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(act)
    }

    /// Passes values from end to end in a single process, its own successor; `state` is the expected version.
    async fn pass(state: u32) -> (Result<(), HandOverError>, Result<String, HandOverError>) {
        let folder = std::env::temp_dir().join(format!("sluice-handover-{}-{state}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let me = std::process::id();
        let waiting = Waiting::new(&folder, me).expect("listens");
        let giving = async {
            let mut sink = Sink::connect(&folder, me, "test", 1).await?;
            let given = async {
                sink.put(&vec![7_u8; 300_000]).await?;
                sink.put_descriptor(std::io::stdin().as_fd()).await?;
                sink.put(&"the end").await?;
                sink.finish().await
            };
            match given.await {
                Ok(()) => Ok(()),
                Err(error) => Err(sink.explain(error).await),
            }
        };
        let taking = async {
            let mut source = waiting.accept("test", state).await?;
            let long: Vec<u8> = source.take().await?;
            assert_eq!(long, vec![7; 300_000]);
            source.take_descriptor().await?;
            let last: String = source.take().await?;
            source.finish().await?;
            source.answer(Ok(())).await?;
            Ok(last)
        };
        let both = tokio::join!(giving, taking);
        std::fs::remove_dir_all(&folder).expect("removes what it made");
        both
    }

    #[test]
    fn values_and_descriptors_arrive() {
        let (given, taken) = here(pass(1));
        given.expect("given");
        assert_eq!(taken.expect("taken"), "the end");
    }

    #[test]
    fn another_version_is_refused_in_words() {
        let (given, _) = here(pass(2));
        let reason = given.expect_err("refused").to_string();
        assert!(reason.contains("version 1.1") && reason.contains("version 1.2"), "{reason}");
    }
}
