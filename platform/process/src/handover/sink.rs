//! The old process's end of a hand-over.

use super::packets::{PACKET, check_peer, kind, receive, send};
use super::versions::{Abilities, AgreedPart, StatePart, losses};
use super::{FORMAT, HandOverError, Head, MAGIC, MOST_OCTETS, PartHead, Tail, socket_path};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::Serialize;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use tokio::net::UnixStream;

/// The way to the successor.
pub struct Sink {
    successor: u32,
    socket: UnixStream,
    agreed: Vec<AgreedPart>,
    losses: Vec<String>,
    tail: Tail,
    octets: u64,
    descriptors: u32,
}

impl Sink {
    /// Connects to the successor with a process number, whose socket is in `folder`, and agrees on the versions of the parts of
    /// the state of `class`. The old process works on meanwhile.
    ///
    /// # Errors
    /// The successor is not there, refuses, or knows no version of a part that this process writes.
    pub async fn connect(
        folder: &Path,
        successor: u32,
        class: &str,
        state: u32,
        parts: &[&StatePart],
    ) -> Result<Self, HandOverError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(io::Error::from)?;
        let address = SocketAddrUnix::new(socket_path(folder, successor)).map_err(io::Error::from)?;
        rustix::net::connect(&socket, &address).map_err(io::Error::from)?;
        // The event loop's type for Unix sockets; it does not mind that this one keeps messages apart.
        let socket = UnixStream::from_std(socket.into())?;
        check_peer(&socket, successor)?;
        let (agreed, losses) = (Vec::new(), Vec::new());
        let mut sink =
            Sink { successor, socket, agreed, losses, tail: Tail::default(), octets: 0, descriptors: 0 };
        match sink.agree(class, state, parts).await {
            Ok(()) => Ok(sink),
            Err(error) => Err(sink.explain(error).await),
        }
    }

    /// Sends this process's abilities, and receives the successor's.
    async fn agree(&mut self, class: &str, state: u32, parts: &[&StatePart]) -> Result<(), HandOverError> {
        let own = Abilities::of(parts.iter().copied());
        let program = own.program.clone();
        let head = Head { magic: MAGIC.into(), format: FORMAT, class: class.into(), state, program };
        self.put(&(head, &own)).await?;
        let mut octets = Vec::new();
        let theirs: Abilities = match receive(&self.socket, &mut octets).await? {
            (kind::ABILITIES, _) => super::decode(&octets)?,
            (kind::REFUSED, _) => return Err(refusal(&octets)),
            _ => return Err(HandOverError::Value("the new process sent no abilities".into())),
        };
        self.agreed = own.agree(&theirs)?;
        self.losses = losses(parts.iter().copied(), &self.agreed);
        let agreed = self.agreed.clone();
        self.put(&agreed).await
    }

    /// Begins a part of the state, and returns the version in which the part is to be written; `None` if the successor does not
    /// know the part, which is then left out.
    ///
    /// # Errors
    /// The socket does not work.
    pub async fn begin(&mut self, part: &StatePart) -> Result<Option<u16>, HandOverError> {
        let Some(agreed) = self.agreed.iter().find(|known| known.name == part.name) else { return Ok(None) };
        let version = agreed.version;
        let head = PartHead { name: part.name.into(), version };
        let octets = super::encode(&head)?;
        send(&self.socket, kind::PART, &octets, None).await?;
        Ok(Some(version))
    }

    /// Sends a value.
    ///
    /// # Errors
    /// The value has more than [`MOST_OCTETS`] octets, or the socket does not work.
    pub async fn put<T: Serialize>(&mut self, value: &T) -> Result<(), HandOverError> {
        let octets = super::encode(value)?;
        if octets.len() > MOST_OCTETS {
            return Err(HandOverError::Value(format!("a value has {} octets", octets.len())));
        }
        let mut pieces = octets.chunks(PACKET).peekable();
        if pieces.peek().is_none() {
            send(&self.socket, kind::LAST_PIECE, &[], None).await?;
        }
        while let Some(piece) = pieces.next() {
            let kind = if pieces.peek().is_some() { kind::PIECE } else { kind::LAST_PIECE };
            send(&self.socket, kind, piece, None).await?;
        }
        self.tail.add(&octets);
        self.octets += octets.len() as u64;
        Ok(())
    }

    /// Sends a descriptor; the process keeps its own copy.
    ///
    /// # Errors
    /// The socket does not work.
    pub async fn put_descriptor(&mut self, descriptor: BorrowedFd<'_>) -> Result<(), HandOverError> {
        send(&self.socket, kind::DESCRIPTOR, &[], Some(descriptor)).await?;
        self.descriptors += 1;
        Ok(())
    }

    /// The number of the process at the other end.
    pub fn successor(&self) -> u32 {
        self.successor
    }

    /// Returns what is lost because the successor knows older versions only: a sentence for each loss.
    pub fn losses(&self) -> &[String] {
        &self.losses
    }

    /// Returns the counts of sent octets and descriptors.
    pub fn sent(&self) -> (u64, u32) {
        (self.octets, self.descriptors)
    }

    /// Ends the hand-over: waits until the successor has received and checked all values.
    pub(crate) async fn finish(&mut self) -> Result<(), HandOverError> {
        send(&self.socket, kind::END, &super::encode(&self.tail)?, None).await?;
        let mut reason = Vec::new();
        match receive(&self.socket, &mut reason).await? {
            (kind::TAKEN, _) => Ok(()),
            (kind::REFUSED, _) => Err(refusal(&reason)),
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
            if let Ok((kind::REFUSED, _)) = receive(&self.socket, &mut reason).await {
                return refusal(&reason);
            }
        }
        error
    }

    /// Waits until the successor has taken over (`true`), or has ended.
    pub(crate) async fn taken_over(&self) -> bool {
        matches!(receive(&self.socket, &mut Vec::new()).await, Ok((kind::DONE, _)))
    }
}

fn refusal(reason: &[u8]) -> HandOverError {
    HandOverError::Refused(String::from_utf8_lossy(reason).into_owned())
}
