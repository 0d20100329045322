//! System calls without a safe wrapper.
#![allow(unsafe_code)]

pub(crate) use sluice_process::watch;
use std::io;
use std::mem::size_of_val;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an integer socket option.
pub(crate) fn set_int(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    set(fd, level, option, &value)
}

/// Sets a socket option to `value`, which must be of the kernel's type for the option.
fn set<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (pointer, length) = (std::ptr::from_ref(value), size_of_val(value) as libc::socklen_t);
    // SAFETY: the pointer and the length describe `value`, which lives for the call; the kernel only reads it.
    let rc = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer.cast(), length) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a socket receive only packets accepted by the classic BPF program.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let fprog = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // `fprog` points into `program`, which outlives the call; the kernel copies it.
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &fprog)
}

/// Binds a packet socket to a protocol of the link layer on an interface.
pub(crate) fn bind_packet(fd: BorrowedFd<'_>, ether_type: u16, interface: u32) -> io::Result<()> {
    // SAFETY: all fields are integers or arrays of integers: all zeroes is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ether_type.to_be();
    address.sll_ifindex = interface.cast_signed();
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `address`, which lives for the call; the kernel only reads it.
    let rc = unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the interface of a packet socket receive a group of the link layer.
pub(crate) fn join_link_group(fd: BorrowedFd<'_>, interface: u32, group: [u8; 6]) -> io::Result<()> {
    let [a, b, c, d, e, f] = group;
    let request = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: libc::PACKET_MR_MULTICAST as u16,
        mr_alen: 6,
        mr_address: [a, b, c, d, e, f, 0, 0],
    };
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Keeps the socket's holders from changing or removing the filter.
pub(crate) fn lock_filter(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)
}

/// The kernel's `struct tcp_md5sig` (linux/tcp.h), which libc does not have.
#[repr(C)]
struct TcpMd5Sig {
    address: libc::sockaddr_storage,
    flags: u8,
    prefix_length: u8,
    key_length: u16,
    interface: i32,
    key: [u8; libc::TCP_MD5SIG_MAXKEYLEN],
}

/// The kernel's option for keys of prefixes, `TCP_MD5SIG_EXT` (linux/tcp.h, since Linux 4.13), which libc does not have.
const TCP_MD5SIG_EXT: libc::c_int = 32;
/// The kernel's `TCP_MD5SIG_FLAG_PREFIX`: `prefix_length` counts.
const TCP_MD5SIG_FLAG_PREFIX: u8 = 1;

/// Sets the TCP MD5 key (RFC 2385) for segments of `peer`, or of all addresses with the first `prefix_length` bits of `peer`; an empty key
/// removes it.
pub(crate) fn set_tcp_md5(
    fd: BorrowedFd<'_>,
    peer: IpAddr,
    prefix_length: Option<u8>,
    key: &[u8],
) -> io::Result<()> {
    if key.len() > libc::TCP_MD5SIG_MAXKEYLEN {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the key is longer than 80 octets"));
    }
    let address = socket2::SockAddr::from(std::net::SocketAddr::new(peer, 0));
    // SAFETY: all fields are integers, arrays of integers or the C structure sockaddr_storage: all zeroes is a value.
    let mut md5: TcpMd5Sig = unsafe { std::mem::zeroed() };
    // SAFETY: the address is shorter than sockaddr_storage, and the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            std::ptr::from_mut(&mut md5.address).cast::<u8>(),
            address.len() as usize,
        );
    }
    md5.key_length = key.len() as u16;
    md5.key[..key.len()].copy_from_slice(key);
    let Some(length) = prefix_length else { return set(fd, libc::IPPROTO_TCP, libc::TCP_MD5SIG, &md5) };
    (md5.flags, md5.prefix_length) = (TCP_MD5SIG_FLAG_PREFIX, length);
    set(fd, libc::IPPROTO_TCP, TCP_MD5SIG_EXT, &md5)
}
