//! The new process's end of a hand-over.

use super::packets::{PACKET, check_peer, kind, receive, send};
use super::versions::{Abilities, AgreedPart, StatePart};
use super::{BEFORE_PARTS, FORMAT, HandOverError, Head, MAGIC, MOST_OCTETS, PartHead, Tail, socket_path};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use tokio::net::{UnixListener, UnixStream};

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

    /// Accepts the predecessor's state of `class`; see [`Source::open`].
    pub(crate) async fn accept(
        self,
        class: &str,
        state: u32,
        parts: &[&StatePart],
    ) -> Result<Source, HandOverError> {
        let (socket, _) = self.listener.accept().await?;
        check_peer(&socket, self.predecessor)?;
        Source::open(socket, class, state, parts).await
    }
}

/// The way from the predecessor.
pub struct Source {
    socket: UnixStream,
    tail: Tail,
    /// True for a predecessor whose state has no parts.
    is_before_parts: bool,
    agreed: Vec<AgreedPart>,
    /// The present part.
    part: &'static str,
}

impl Source {
    /// Reads the head of a hand-over from `socket`, and agrees on the versions of the parts. The peer is not trusted: the head must name
    /// `class`. A predecessor from before the parts must hand over version `state`.
    ///
    /// # Errors
    /// The head is of another class or from the future, or the versions have nothing in common. The predecessor is sent the reason.
    pub async fn open(
        socket: UnixStream,
        class: &str,
        state: u32,
        parts: &[&StatePart],
    ) -> Result<Source, HandOverError> {
        let (tail, agreed) = (Tail::default(), Vec::new());
        let mut source = Source { socket, tail, is_before_parts: false, agreed, part: "head" };
        match source.agree(class, state, parts).await {
            Ok(()) => Ok(source),
            Err(error @ HandOverError::Io(_)) => Err(error),
            Err(error) => {
                source.answer(Err(&error.to_string())).await?;
                Err(HandOverError::Refused(error.to_string()))
            }
        }
    }

    async fn agree(&mut self, class: &str, state: u32, parts: &[&StatePart]) -> Result<(), HandOverError> {
        let octets = self.value().await?;
        self.tail.add(&octets);
        let (head, rest): (Head, &[u8]) =
            postcard::take_from_bytes(&octets).map_err(|error| self.unreadable(error))?;
        let own = Abilities::of(parts.iter().copied());
        let is_known = (head.magic.as_str(), head.class.as_str()) == (MAGIC, class);
        if is_known && head.format == BEFORE_PARTS && head.state == state {
            self.is_before_parts = true;
            return Ok(());
        }
        if !is_known || head.format != FORMAT {
            return Err(HandOverError::Value(format!(
                "{} {} hands over state of format {}.{}, this is {class} {} for format {FORMAT}.{state}",
                head.class, head.program, head.format, head.state, own.program
            )));
        }
        let theirs: Abilities = postcard::from_bytes(rest).map_err(|error| self.unreadable(error))?;
        let expected = theirs.agree(&own)?;
        send(&self.socket, kind::ABILITIES, &super::encode(&own)?, None).await?;
        self.agreed = self.take().await?;
        if self.agreed != expected {
            return Err(HandOverError::Value("the old process hands over other versions than agreed".into()));
        }
        Ok(())
    }

    /// Returns the version in which a part is handed over; `None` for a part that is left out.
    pub fn version(&self, part: &StatePart) -> Option<u16> {
        if self.is_before_parts {
            return part.is_required.then_some(1);
        }
        self.agreed.iter().find(|known| known.name == part.name).map(|known| known.version)
    }

    /// Begins a part of the state, and returns the version in which the part was written; `None` if an optional part was not handed
    /// over.
    ///
    /// # Errors
    /// Another part comes, or values of the part before are left.
    pub async fn begin(&mut self, part: &StatePart) -> Result<Option<u16>, HandOverError> {
        self.part = part.name;
        let Some(version) = self.version(part) else {
            return match part.is_required {
                true => Err(HandOverError::Value(format!("the part {} is missing", part.name))),
                false => Ok(None),
            };
        };
        if self.is_before_parts {
            return Ok(Some(version));
        }
        let expected = PartHead { name: part.name.into(), version };
        let octets = self.mark(kind::PART).await?;
        let found: PartHead = super::decode(&octets)?;
        if found != expected {
            return Err(HandOverError::Value(format!(
                "the part {} in version {} came in the place of {} in version {}",
                found.name, found.version, expected.name, expected.version
            )));
        }
        Ok(Some(expected.version))
    }

    /// Receives a packet that stands between parts.
    async fn mark(&mut self, expected: u8) -> Result<Vec<u8>, HandOverError> {
        let mut octets = Vec::new();
        if receive(&self.socket, &mut octets).await?.0 == expected {
            return Ok(octets);
        }
        let what = if expected == kind::END { "the end of the state" } else { "the beginning of a part" };
        Err(HandOverError::Value(format!("{}: {what} was expected", self.part)))
    }

    /// Receives the octets of a value.
    async fn value(&mut self) -> Result<Vec<u8>, HandOverError> {
        let mut octets = Vec::new();
        loop {
            match receive(&self.socket, &mut octets).await? {
                (kind::LAST_PIECE, _) => return Ok(octets),
                (kind::PIECE, _) if octets.len() <= MOST_OCTETS => {}
                (kind::PIECE, _) => {
                    return Err(HandOverError::Value(format!("{}: a value is too long", self.part)));
                }
                _ => return Err(HandOverError::Value(format!("{}: a value was expected", self.part))),
            }
        }
    }

    fn unreadable(&self, error: postcard::Error) -> HandOverError {
        HandOverError::Value(format!("{}: a value cannot be read: {error}", self.part))
    }

    /// The next value.
    ///
    /// # Errors
    /// No value comes, or a value of another type.
    pub async fn take<T: DeserializeOwned>(&mut self) -> Result<T, HandOverError> {
        let octets = self.value().await?;
        self.tail.add(&octets);
        postcard::from_bytes(&octets).map_err(|error| self.unreadable(error))
    }

    /// The next descriptor.
    ///
    /// # Errors
    /// No descriptor comes.
    pub async fn take_descriptor(&mut self) -> Result<OwnedFd, HandOverError> {
        match receive(&self.socket, &mut Vec::new()).await? {
            (kind::DESCRIPTOR, Some(descriptor)) => Ok(descriptor),
            _ => Err(HandOverError::Value(format!("{}: a descriptor was expected", self.part))),
        }
    }

    /// Checks that the whole state has arrived.
    ///
    /// # Errors
    /// Values are left, or others arrived than were sent.
    pub async fn finish(&mut self) -> Result<(), HandOverError> {
        let expected = self.tail;
        let octets = match self.is_before_parts {
            true => self.value().await?,
            false => self.mark(kind::END).await?,
        };
        let tail: Tail = super::decode(&octets)?;
        let wrong = || HandOverError::Value("what came is not what was sent".into());
        (tail == expected).then_some(()).ok_or_else(wrong)
    }

    /// Reports whether it was taken.
    pub(crate) async fn answer(&self, outcome: Result<(), &str>) -> io::Result<()> {
        match outcome {
            Ok(()) => send(&self.socket, kind::TAKEN, &[], None).await,
            Err(reason) => {
                let end = reason.floor_char_boundary(PACKET);
                send(&self.socket, kind::REFUSED, &reason.as_bytes()[..end], None).await
            }
        }
    }

    /// Reports a finished takeover: the predecessor ends.
    pub(crate) async fn done(&self) -> io::Result<()> {
        send(&self.socket, kind::DONE, &[], None).await
    }
}
