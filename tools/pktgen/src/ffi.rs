//! System calls that the standard library and nix lack: a signal to one thread, and packet sockets.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::OnceLock;
use std::thread::JoinHandle;

/// The signal that ends a run of live frames. Processes ignore the signal by default, so that a stray one does no harm.
const INTERRUPT: libc::c_int = libc::SIGURG;

extern "C" fn nothing(_: libc::c_int) {}

/// Gives the signal of [`interrupt`] an empty handler: an ignored signal would not end a system call.
pub(crate) fn prepare_interrupts() -> io::Result<()> {
    static DONE: OnceLock<Option<i32>> = OnceLock::new();
    let error = DONE.get_or_init(|| {
        // SAFETY: zeros are a value of the struct: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the action is complete, and its handler does nothing.
        let rc = unsafe { libc::sigaction(INTERRUPT, &raw const action, std::ptr::null_mut()) };
        if rc < 0 { io::Error::last_os_error().raw_os_error() } else { None }
    });
    error.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

/// Interrupts a thread's system call. Does nothing if the thread has ended or is in no system call.
pub(crate) fn interrupt<T>(thread: &JoinHandle<T>) {
    // SAFETY: the handle shows that the thread was not joined, so that its identifier is valid, also after its end.
    unsafe { libc::pthread_kill(thread.as_pthread_t(), INTERRUPT) };
}

/// Opens a packet socket that sends out of the interface with the index `interface` and receives nothing.
pub(crate) fn packet_socket(interface: u32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes three integers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor; nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: zeros are a value of the struct: protocol 0, which receives nothing.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = interface as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives until the call returns and has the given length.
    let rc = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Sends frames through a packet socket, each as one packet. Returns the number of frames sent, at least one; an error
/// belongs to the first frame.
pub(crate) fn send_frames(socket: BorrowedFd<'_>, frames: &[&[u8]]) -> io::Result<usize> {
    let mut parts: Vec<libc::iovec> = frames
        .iter()
        .map(|frame| libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() })
        .collect();
    let message = |part: &mut libc::iovec| {
        // SAFETY: zeros are a value of the struct: no address, no control data, no flags.
        let mut message: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        message
    };
    let mut messages: Vec<libc::mmsghdr> = parts.iter_mut().map(message).collect();
    let count = messages.len() as libc::c_uint;
    // SAFETY: messages, parts and frames live until the call returns; the kernel only reads the frames.
    let rc = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as usize) }
}
