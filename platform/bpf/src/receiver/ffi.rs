//! The system calls of AF_XDP sockets, and their memory.
#![allow(unsafe_code)]

use super::Lost;
use super::ring::Ring;
use std::io;
use std::mem::{size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Entries of the ring for sent frames, which the kernel asks for and nobody uses.
const UNUSED: u32 = 2;

/// linux/ethtool.h; libc lacks the request and its struct.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[derive(Default)]
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    received: u32,
    sent: u32,
    other: u32,
    combined: u32,
}

fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

fn open(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes three integers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) })?;
    // SAFETY: the kernel has just made the descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to the octets of `value`.
fn set<T: ?Sized>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (place, length) = (std::ptr::from_ref(value), size_of_val(value) as libc::socklen_t);
    // SAFETY: place and length describe `value`, which lives until the call returns; the kernel only reads it.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, place.cast(), length) }).map(drop)
}

/// Options of AF_XDP sockets.
///
/// # Safety
///
/// Implementers are `repr(C)` structs of integers, so that all octets are a value.
unsafe trait OptionValue: Sized {}
// SAFETY: `repr(C)`, integers only.
unsafe impl OptionValue for libc::xdp_mmap_offsets {}
// SAFETY: `repr(C)`, integers only.
unsafe impl OptionValue for libc::xdp_statistics {}

/// Reads an option of AF_XDP sockets. Fields that the kernel does not know are 0.
fn get<T: OptionValue>(fd: BorrowedFd<'_>, option: i32) -> io::Result<T> {
    // SAFETY: all octets are a value of an `OptionValue`.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    let place = (&raw mut value).cast();
    // SAFETY: place and length describe `value`, into which the kernel writes at most `length` octets.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, place, &raw mut length) })?;
    Ok(value)
}

/// Makes a socket for frames of an interface.
pub(super) fn socket(interface: &str) -> io::Result<OwnedFd> {
    let socket = open(libc::AF_XDP, libc::SOCK_RAW)?;
    let fd = std::os::fd::AsFd::as_fd(&socket);
    set(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_bytes())?;
    Ok(socket)
}

/// Binds a socket to a queue, in copy mode.
pub(super) fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address lives until the call returns and has the given length; the kernel only reads it.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}

/// Asks the driver for the number of queues on which an interface receives.
pub(super) fn receive_queues(interface: &str) -> io::Result<u32> {
    let socket = open(libc::AF_INET, libc::SOCK_DGRAM)?;
    // SAFETY: all fields are integers, arrays of integers or pointers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, octet) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = octet as libc::c_char;
    }
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the request names `channels`, which has the size that the kernel writes for this command; both live until the call
    // returns.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) })?;
    Ok(channels.received.saturating_add(channels.combined))
}

/// Returns the numbers of lost frames.
pub(super) fn lost(socket: BorrowedFd<'_>) -> io::Result<Lost> {
    let statistics: libc::xdp_statistics = get(socket, libc::XDP_STATISTICS)?;
    Ok(Lost {
        full: statistics.rx_dropped.saturating_add(statistics.rx_ring_full),
        invalid: statistics.rx_invalid_descs,
    })
}

/// Registers memory for frames with chunks of `chunk` octets.
pub(super) fn register(socket: BorrowedFd<'_>, memory: &Mapping, chunk: u32) -> io::Result<()> {
    // SAFETY: all fields are integers, for which zeros are valid.
    let mut region: libc::xdp_umem_reg = unsafe { zeroed() };
    region.addr = memory.start.as_ptr() as u64;
    region.len = memory.octets as u64;
    region.chunk_size = chunk;
    set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &region)
}

/// Makes the rings of `entries` entries, a power of two. Returns the ring of received frames and that of frames for the kernel.
pub(super) fn rings(socket: BorrowedFd<'_>, entries: u32) -> io::Result<[RingMemory; 2]> {
    set(socket, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, &UNUSED)?;
    set(socket, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, &entries)?;
    set(socket, libc::SOL_XDP, libc::XDP_RX_RING, &entries)?;
    let offsets: libc::xdp_mmap_offsets = get(socket, libc::XDP_MMAP_OFFSETS)?;
    let received = size_of::<libc::xdp_desc>() / 8 * entries as usize;
    let fill_at = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
    Ok([
        RingMemory::new(socket, libc::XDP_PGOFF_RX_RING, &offsets.rx, received)?,
        RingMemory::new(socket, fill_at, &offsets.fr, entries as usize)?,
    ])
}

/// Memory that this process and the kernel share.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    octets: usize,
}

// SAFETY: the mapping has one owner; shared words are read and written by atomic instructions.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(octets: usize, flags: libc::c_int, fd: libc::c_int, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so that no memory of this process changes; it checks length and offset.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), octets, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, octets })
    }

    /// Maps memory of zeros.
    pub(super) fn anonymous(octets: usize) -> io::Result<Self> {
        Mapping::new(octets, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// Returns octets; `None` beyond the end. They must be of a frame that the kernel has given to this process.
    pub(super) fn octets(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(length)? > self.octets {
            return None;
        }
        // SAFETY: the range lies in the mapping, which lives as long as `self`. The kernel writes into no frame that it has given to
        // this process before the process gives the frame back, which needs the receiver exclusively.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), length) })
    }

    /// Returns the memory from `offset` on as words of `T`; none if the offset is no word's.
    ///
    /// # Safety
    ///
    /// `T` is an atomic integer.
    unsafe fn words<T>(&self, offset: usize, count: usize) -> &[T] {
        let octets = count.saturating_mul(size_of::<T>());
        let is_inside = offset.checked_add(octets).is_some_and(|end| end <= self.octets);
        if !is_inside || !offset.is_multiple_of(align_of::<T>()) {
            return &[];
        }
        // SAFETY: the range lies in the mapping, is aligned because mappings begin at a page, and holds atomic integers.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset).cast(), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: address and length are those of the mapping, and no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.octets) };
    }
}

/// The memory of a ring.
#[derive(Debug)]
pub(super) struct RingMemory {
    mapping: Mapping,
    produced: usize,
    consumed: usize,
    entries: usize,
    words: usize,
}

impl RingMemory {
    fn new(
        socket: BorrowedFd<'_>,
        at: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        words: usize,
    ) -> io::Result<Self> {
        let [produced, consumed, entries] =
            [offsets.producer, offsets.consumer, offsets.desc].map(|offset| offset as usize);
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let mapping = Mapping::new(entries + words * 8, flags, socket.as_raw_fd(), at)?;
        Ok(RingMemory { mapping, produced, consumed, entries, words })
    }

    /// Returns the ring.
    pub(super) fn ring(&self) -> Ring<'_> {
        static NONE: AtomicU32 = AtomicU32::new(0);
        // SAFETY: counters and entries are words that both sides read and write as a whole.
        let counter = |at| unsafe { self.mapping.words::<AtomicU32>(at, 1) }.first().unwrap_or(&NONE);
        // SAFETY: as above.
        let words = unsafe { self.mapping.words::<AtomicU64>(self.entries, self.words) };
        Ring { produced: counter(self.produced), consumed: counter(self.consumed), words }
    }
}
