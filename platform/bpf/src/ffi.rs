//! System calls that aya and the standard library lack: links, pins, test runs and the mapping of arrays.
//!
//! The structs are the beginnings of `union bpf_attr` of `linux/bpf.h`. The kernel takes shorter attributes and reads the
//! rest as zero.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;

const BPF_XDP: u32 = 37;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// `BPF_MAP_TYPE_ARRAY`.
pub(crate) const MAP_TYPE_ARRAY: u32 = 2;
/// `BPF_MAP_TYPE_PROG_ARRAY`.
pub(crate) const MAP_TYPE_PROG_ARRAY: u32 = 3;
/// `BPF_MAP_TYPE_PERCPU_ARRAY`.
pub(crate) const MAP_TYPE_PERCPU_ARRAY: u32 = 6;
/// `BPF_F_MMAPABLE`.
pub(crate) const F_MMAPABLE: u32 = 1 << 10;
/// `XDP_FLAGS_SKB_MODE`.
pub(crate) const XDP_GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE`.
pub(crate) const XDP_NATIVE: u32 = 1 << 2;

/// Calls bpf(2).
///
/// # Safety
///
/// `attributes` must be the beginning of `union bpf_attr` for `command`; each address in it must be valid for the sizes
/// given beside it, for writing where the kernel writes.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the caller vouches for the attributes; the size is the struct's own.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as libc::c_int) }
}

/// Waits for an RCU grace period (membarrier(2)).
pub(crate) fn synchronize_rcu() -> io::Result<()> {
    // SAFETY: the call takes three numbers and touches no memory.
    let rc = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes a descriptor that the kernel has just made.
fn owned(fd: libc::c_int) -> OwnedFd {
    // SAFETY: only called with the result of a command that returns a new descriptor; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// Creates a map of 4-octet keys.
pub(crate) fn map_create(
    map_type: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        map_flags: u32,
    }
    let mut attributes = Attributes { map_type, key_size: 4, value_size, max_entries, map_flags: flags };
    // SAFETY: the attributes have no addresses.
    unsafe { bpf(BPF_MAP_CREATE, &mut attributes) }.map(owned)
}

#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Stores `value` under `key` in a map of 4-octet keys and 4-octet values.
pub(crate) fn map_store_u32(map: BorrowedFd<'_>, key: u32, value: u32) -> io::Result<()> {
    check_sizes(map, 4)?;
    let mut attributes = Element {
        map_fd: raw(map),
        padding: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: key and value live until the call returns and have the map's sizes, as checked.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Makes the device with the index `device` the one under the same key of a map of devices; `program` runs for its frames.
pub(crate) fn device_store(map: BorrowedFd<'_>, device: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    check_sizes(map, 8)?;
    // `struct bpf_devmap_val`.
    let value = [device, raw(program)];
    let mut attributes = Element {
        map_fd: raw(map),
        padding: 0,
        key: (&raw const device) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: key and value live until the call returns and have the map's sizes, as checked.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Loads the value under `key` of a map of 4-octet keys and 4-octet values.
pub(crate) fn map_load_u32(map: BorrowedFd<'_>, key: u32) -> io::Result<u32> {
    check_sizes(map, 4)?;
    let mut value = 0u32;
    let mut attributes = Element {
        map_fd: raw(map),
        padding: 0,
        key: (&raw const key) as u64,
        value: (&raw mut value) as u64,
        flags: 0,
    };
    // SAFETY: key and value live until the call returns and have the map's sizes, as checked.
    unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut attributes) }?;
    Ok(value)
}

/// Loads `count` values of a per-CPU array from the key `first` on, as words of 64 bits: `words` for each key, the values of
/// all possible CPUs.
pub(crate) fn map_load_batch(
    map: BorrowedFd<'_>,
    first: u32,
    count: u32,
    words: usize,
) -> io::Result<Vec<u64>> {
    #[repr(C)]
    struct Attributes {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        count: u32,
        map_fd: u32,
        element_flags: u64,
        flags: u64,
    }
    let info = map_info(map)?;
    let per_cpu = (info.value_size as usize).div_ceil(8);
    let is_whole = words == per_cpu * aya::util::nr_cpus().map_err(|(_, error)| error)?;
    let is_inside = first.checked_add(count).is_some_and(|end| end <= info.max_entries);
    if info.map_type != MAP_TYPE_PERCPU_ARRAY || !is_whole || !is_inside {
        return Err(libc_error(libc::EINVAL));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    // A batch continues behind the key of the batch before it; the first batch of a map has none.
    let before = first.wrapping_sub(1);
    let mut last = 0u32;
    let mut keys = vec![0u32; count as usize];
    let mut values = vec![0u64; count as usize * words];
    let mut attributes = Attributes {
        in_batch: if first == 0 { 0 } else { (&raw const before) as u64 },
        out_batch: (&raw mut last) as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count,
        map_fd: raw(map),
        element_flags: 0,
        flags: 0,
    };
    // SAFETY: all buffers live until the call returns; `keys` has `count` keys of 4 octets, as an array's are, and `values`
    // has the values of all possible CPUs for each of them, as checked.
    unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut attributes) }?;
    if attributes.count == count { Ok(values) } else { Err(libc_error(libc::EIO)) }
}

/// Removes `key` of a map of 4-octet keys.
pub(crate) fn map_remove(map: BorrowedFd<'_>, key: u32) -> io::Result<()> {
    check_sizes(map, 4)?;
    let mut attributes =
        Element { map_fd: raw(map), padding: 0, key: (&raw const key) as u64, value: 0, flags: 0 };
    // SAFETY: the key lives until the call returns and has the map's size, as checked.
    unsafe { bpf(BPF_MAP_DELETE_ELEM, &mut attributes) }.map(drop)
}

fn check_sizes(map: BorrowedFd<'_>, value_size: u32) -> io::Result<()> {
    let info = map_info(map)?;
    if info.key_size == 4 && info.value_size == value_size { Ok(()) } else { Err(libc_error(libc::EINVAL)) }
}

fn libc_error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// The beginning of `struct bpf_map_info`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct MapInfo {
    pub(crate) map_type: u32,
    pub(crate) id: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) map_flags: u32,
}

/// The beginning of `struct bpf_prog_info`.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(crate) struct ProgramInfo {
    pub(crate) program_type: u32,
    pub(crate) id: u32,
}

/// The beginning of `struct bpf_link_info`, of a link of XDP.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(crate) struct LinkInfo {
    pub(crate) link_type: u32,
    pub(crate) id: u32,
    pub(crate) program: u32,
    padding: u32,
    pub(crate) interface: u32,
    padding_after: u32,
}

/// Types that the kernel may fill with any octets.
///
/// # Safety
///
/// Implementers are `repr(C)` and every bit pattern is a value.
unsafe trait Info: Default {}
// SAFETY: integers only, `repr(C)`.
unsafe impl Info for MapInfo {}
// SAFETY: integers only, `repr(C)`.
unsafe impl Info for ProgramInfo {}
// SAFETY: integers only, `repr(C)`.
unsafe impl Info for LinkInfo {}

fn info<T: Info>(fd: BorrowedFd<'_>) -> io::Result<T> {
    #[repr(C)]
    struct Attributes {
        bpf_fd: u32,
        info_len: u32,
        info: u64,
    }
    let mut found = T::default();
    let mut attributes =
        Attributes { bpf_fd: raw(fd), info_len: size_of::<T>() as u32, info: (&raw mut found) as u64 };
    // SAFETY: the kernel writes at most `info_len` octets at `info`, and any octets are a value of an `Info`.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }?;
    Ok(found)
}

/// Returns a map's type and sizes.
pub(crate) fn map_info(fd: BorrowedFd<'_>) -> io::Result<MapInfo> {
    info(fd)
}

/// Returns a program's type and number.
pub(crate) fn program_info(fd: BorrowedFd<'_>) -> io::Result<ProgramInfo> {
    info(fd)
}

/// Returns a link's program and interface.
pub(crate) fn link_info(fd: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    info(fd)
}

/// Opens the program with the kernel's number `id`.
pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        id: u32,
        next_id: u32,
        open_flags: u32,
    }
    // SAFETY: the attributes have no addresses.
    unsafe { bpf(BPF_PROG_GET_FD_BY_ID, &mut Attributes { id, next_id: 0, open_flags: 0 }) }.map(owned)
}

/// Attaches a program to an interface of this thread's network namespace; the descriptor is the link.
pub(crate) fn link_create(program: BorrowedFd<'_>, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    let mut attributes = Attributes { program: raw(program), interface, attach_type: BPF_XDP, flags };
    // SAFETY: the attributes have no addresses.
    unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }.map(owned)
}

/// Replaces a link's program in one step.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        link: u32,
        new_program: u32,
        flags: u32,
        old_program: u32,
    }
    let mut attributes = Attributes { link: raw(link), new_program: raw(program), flags: 0, old_program: 0 };
    // SAFETY: the attributes have no addresses.
    unsafe { bpf(BPF_LINK_UPDATE, &mut attributes) }.map(drop)
}

#[repr(C)]
struct Pin {
    path: u64,
    fd: u32,
    flags: u32,
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| libc_error(libc::EINVAL))
}

/// Pins a map, program or link at `path`.
pub(crate) fn pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let mut attributes = Pin { path: path.as_ptr() as u64, fd: raw(fd), flags: 0 };
    // SAFETY: the path is a string with a zero at the end and lives until the call returns.
    unsafe { bpf(BPF_OBJ_PIN, &mut attributes) }.map(drop)
}

/// Opens the map, program or link pinned at `path`.
pub(crate) fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let mut attributes = Pin { path: path.as_ptr() as u64, fd: 0, flags: 0 };
    // SAFETY: the path is a string with a zero at the end and lives until the call returns.
    unsafe { bpf(BPF_OBJ_GET, &mut attributes) }.map(owned)
}

/// The attributes of `BPF_PROG_TEST_RUN`.
#[derive(Default)]
#[repr(C)]
struct TestRun {
    program: u32,
    verdict: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// `struct xdp_md`.
#[derive(Default)]
#[repr(C)]
struct XdpContext {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

/// The result of a program's runs on one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ran {
    pub(crate) verdict: u32,
    pub(crate) nanoseconds: u32,
    pub(crate) frame: Vec<u8>,
}

/// Runs a program `repeat` times on a copy of `frame`.
pub(crate) fn test_run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<Ran> {
    // Programs may lengthen a frame, by its headroom at most.
    let mut out = vec![0u8; frame.len() + 256];
    let mut attributes = TestRun {
        program: raw(program),
        data_size_in: frame.len() as u32,
        data_size_out: out.len() as u32,
        data_in: frame.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat,
        ..TestRun::default()
    };
    // SAFETY: both buffers live until the call returns and have the given sizes; the kernel writes into `out` only.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) }?;
    out.truncate(attributes.data_size_out as usize);
    Ok(Ran { verdict: attributes.verdict, nanoseconds: attributes.duration, frame: out })
}

/// Runs a program on `repeat` live frames, as if received by `interface`; verdicts are carried out.
pub(crate) fn run_live(
    program: BorrowedFd<'_>,
    frame: &[u8],
    interface: u32,
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let context =
        XdpContext { data_end: frame.len() as u32, ingress_ifindex: interface, ..XdpContext::default() };
    let mut attributes = TestRun {
        program: raw(program),
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat,
        ctx_size_in: size_of::<XdpContext>() as u32,
        ctx_in: (&raw const context) as u64,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..TestRun::default()
    };
    // SAFETY: frame and context live until the call returns, have the given sizes and are only read.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) }.map(drop)
}

/// The mapping of an array map into this process.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u64>,
    octets: usize,
}

// SAFETY: the mapping is only read and written by atomic instructions, and unmapped by its one owner.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `octets` of an array map with the flag `BPF_F_MMAPABLE`.
    pub(crate) fn new(map: BorrowedFd<'_>, octets: usize) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so that no memory of this process changes; it checks the length.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), octets, access, libc::MAP_SHARED, map.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Mapping { start, octets }),
            None => Err(libc_error(libc::ENOMEM)),
        }
    }

    /// Returns the array as 64-bit words.
    pub(crate) fn words64(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, has `octets` octets while `self` lives, and others write whole words.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.octets / 8) }
    }

    /// Returns the array as 32-bit words.
    pub(crate) fn words32(&self) -> &[AtomicU32] {
        // SAFETY: as in `words64`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.octets / 4) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: address and length are those of the mapping, and no reference outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.octets) };
    }
}
