//! Frames received by AF_XDP: a socket's memory and rings, and the map by which a program hands frames to sockets.
//!
//! A process with rights makes the socket ([`socket`]) and hands the descriptor over. The receiving process registers memory and makes
//! the rings ([`Receiver::new`]), which takes no rights. Then the first process binds the socket to a queue ([`bind`]) and puts the
//! socket into the map of the program ([`Receivers::put`]). The kernel takes a socket out of the map when its last descriptor is
//! closed.
//!
//! Sockets are bound in copy mode: a driver that gives its buffers away (zero-copy) would need the receiving process for each frame of
//! the queue, those that programs forward included.

mod ffi;
mod ring;

use crate::{BpfError, Loaded};
use ring::Place;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The queues of an interface that have a place in a map of sockets. Frames of further queues go to the kernel.
pub const QUEUES: u32 = 8;

/// The octets of the largest frame that a socket receives. A program hands no larger ones to sockets.
pub const LARGEST_FRAME: u32 = CHUNK - HEADROOM;

/// The octets of memory for a frame: half a page.
const CHUNK: u32 = 2048;

/// The kernel's headroom before each frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;

/// Makes a socket for frames of an interface of this thread's network namespace. The socket cannot be bound to another interface
/// (since Linux 6.6; before, to none by a process that keeps to this module). Needs CAP_NET_RAW.
///
/// # Errors
///
/// If the kernel has no AF_XDP, there is no such interface, or rights are missing.
pub fn socket(interface: &str) -> io::Result<OwnedFd> {
    ffi::socket(interface)
}

/// Binds a socket that has memory and rings to a queue of the interface with the index `interface`.
///
/// # Errors
///
/// `ResourceBusy` if another socket is bound there, or was a moment ago: the kernel removes such sockets later. `InvalidInput` if there is
/// no such queue, or the socket lacks memory or a ring.
pub fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32) -> io::Result<()> {
    ffi::bind(socket, interface, queue)
}

/// Returns the number of queues on which an interface of this thread's network namespace receives; 1 if the driver does not say.
pub fn queues(interface: &str) -> u32 {
    ffi::receive_queues(interface).unwrap_or(1).max(1)
}

/// A map of sockets (`BPF_MAP_TYPE_XSKMAP`) by interface and queue.
#[derive(Debug)]
pub struct Receivers {
    map: OwnedFd,
}

impl Receivers {
    /// Takes the map `name` of a loaded program.
    ///
    /// # Errors
    ///
    /// If there is no such map, or its descriptor cannot be copied.
    pub fn new(loaded: &Loaded, name: &str) -> Result<Self, BpfError> {
        let map = loaded.map(name)?.try_clone_to_owned();
        Ok(Receivers { map: map.map_err(BpfError::call("copying a map's descriptor"))? })
    }

    /// Has the program hand frames of a queue of the interface with the index `interface` to a bound socket.
    ///
    /// # Errors
    ///
    /// If the interface's index or the queue has no place in the map, or the kernel refuses the socket.
    pub fn put(&self, interface: u32, queue: u32, socket: BorrowedFd<'_>) -> Result<(), BpfError> {
        use std::os::fd::AsRawFd;
        let beyond = || io::Error::from(io::ErrorKind::InvalidInput);
        let key = interface.checked_mul(QUEUES).filter(|_| queue < QUEUES).map(|key| key + queue);
        let key = key.ok_or_else(beyond).map_err(BpfError::call("finding a socket's place"))?;
        let socket = socket.as_raw_fd() as u32;
        crate::ffi::map_store_u32(self.map.as_fd(), key, socket).map_err(BpfError::call("storing a socket"))
    }
}

/// Frames that a socket lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Lost {
    /// All frames had been received and not been read yet.
    pub full: u64,
    /// The kernel refused what this process gave to it.
    pub invalid: u64,
}

/// The memory and the rings of a socket.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    frames: ffi::Mapping,
    received: ffi::RingMemory,
    free: ffi::RingMemory,
    received_place: Place,
    free_place: Place,
    /// Offsets of frames that were read and not given back yet.
    read: Vec<u64>,
}

impl Receiver {
    /// Registers memory for `frames` frames, at least 1, rounded up to a power of two, and makes the rings. The kernel counts the memory, 2 KiB
    /// a frame, as locked memory of the user (`RLIMIT_MEMLOCK`).
    ///
    /// # Errors
    ///
    /// If the socket is no AF_XDP socket or has memory already, or the user may not lock so much memory.
    pub fn new(socket: OwnedFd, frames: u32) -> io::Result<Self> {
        let count = frames.max(1).next_power_of_two();
        let octets = count as usize * CHUNK as usize;
        let memory = ffi::Mapping::anonymous(octets)?;
        ffi::register(socket.as_fd(), &memory, CHUNK)?;
        let [received, free] = ffi::rings(socket.as_fd(), count)?;
        let mut receiver = Receiver {
            socket,
            frames: memory,
            received,
            free,
            received_place: Place::new(count),
            free_place: Place::new(count),
            read: Vec::new(),
        };
        let all = (0..u64::from(count)).map(|frame| frame * u64::from(CHUNK));
        ring::give(receiver.free.ring(), &mut receiver.free_place, all);
        Ok(receiver)
    }

    /// Returns the socket: readable while frames wait.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Hands up to `most` received frames to `frame`, each with the header of its link layer, and returns their number.
    pub fn receive(&mut self, most: u32, mut frame: impl FnMut(&[u8])) -> u32 {
        let Receiver { frames, received, received_place, read, .. } = self;
        let count = ring::take(received.ring(), received_place, most, |place| {
            // A frame lies in one chunk; what does not is none of this socket's.
            let chunk = place.offset & !(u64::from(CHUNK) - 1);
            let is_inside = place.offset + u64::from(place.length) <= chunk + u64::from(CHUNK);
            let octets = frames.octets(place.offset, place.length as usize).filter(|_| is_inside);
            if let Some(octets) = octets {
                frame(octets);
                read.push(chunk);
            }
        });
        let given = ring::give(self.free.ring(), &mut self.free_place, self.read.iter().copied());
        self.read.drain(..given as usize);
        count
    }

    /// Returns the numbers of frames that the socket lost.
    ///
    /// # Errors
    ///
    /// If the kernel does not say.
    pub fn lost(&self) -> io::Result<Lost> {
        ffi::lost(self.socket.as_fd())
    }
}
