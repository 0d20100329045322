//! A connected Unix socket.
//!
//! Only that there is something to read is waited for all the time. The kernel tells of room whenever the other end has read
//! something: who waited for that too would be woken once for every call, for nothing.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as Socket;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use crate::ffi;

/// A connected Unix socket.
pub(crate) struct Unix {
    socket: AsyncFd<Socket>,
    /// While the socket takes no more: a second descriptor of it, for whose room is waited.
    blocked: RefCell<Option<AsyncFd<Socket>>>,
    /// The process and the user at the other end.
    peer: (Option<u32>, Option<u32>),
}

impl Unix {
    /// Takes over a connected socket.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred().ok();
        let peer = credentials
            .map_or((None, None), |c| (c.pid().and_then(|pid| u32::try_from(pid).ok()), Some(c.uid())));
        let socket = ffi::watch(stream.into_std()?, Interest::READABLE)?;
        Ok(Unix { socket, blocked: RefCell::default(), peer })
    }

    /// The process and the user at the other end, where the kernel tells.
    pub(crate) fn peer(&self) -> (Option<u32>, Option<u32>) {
        self.peer
    }

    /// Reads what is there; 0 is the end.
    pub(crate) fn poll_read(&self, buf: &mut [u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            match self.socket.get_ref().read(buf) {
                Ok(read) => {
                    // Less than there was room for is all that there is: that more came will be told.
                    if 0 < read && read < buf.len() {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(read));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }

    /// Writes what the socket takes now.
    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.get_ref().write(buf)
    }

    /// Waits until it is worth trying to write again, after the socket took no more.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut blocked = self.blocked.borrow_mut();
        let room = match &mut *blocked {
            Some(room) => room,
            None => {
                let second = self.socket.get_ref().try_clone()?;
                blocked.insert(ffi::watch(second, Interest::WRITABLE)?)
            }
        };
        // Whoever is told tries: only what comes after that is news.
        ready!(room.poll_write_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }

    /// Everything is written: room is of no interest any more.
    pub(crate) fn unblock(&self) {
        self.blocked.take();
    }

    /// Waits until the other end has closed, however much there is still to be read.
    pub(crate) async fn hung_up(&self) {
        // Urgent data are never sent, so what is reported is that the reading side was closed.
        let _closed_or_broken = self.socket.ready(Interest::PRIORITY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let limit = std::time::Duration::from_secs(60);
        runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("it ends in time") });
    }

    fn pair() -> (Unix, Unix) {
        let (a, b) = UnixStream::pair().expect("two ends");
        (Unix::new(a).expect("an end"), Unix::new(b).expect("an end"))
    }

    async fn read(unix: &Unix, buf: &mut [u8]) -> usize {
        poll_fn(|cx| unix.poll_read(buf, cx)).await.expect("it reads")
    }

    #[test]
    fn what_is_written_is_read_however_often_the_socket_is_full() {
        run(async {
            let (a, b) = pair();
            let octets: Vec<u8> = (0..4_000_000u32).map(|n| (n % 251) as u8).collect();
            let write = async {
                let mut written = 0;
                while written < octets.len() {
                    match a.try_write(&octets[written..]) {
                        Ok(n) => written += n,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                            poll_fn(|cx| a.poll_room(cx)).await.expect("there will be room");
                        }
                        Err(e) => panic!("{e}"),
                    }
                }
                a.unblock();
            };
            let listen = async {
                let (mut heard, mut buf) = (Vec::new(), [0; 65_536]);
                while heard.len() < octets.len() {
                    let n = read(&b, &mut buf).await;
                    heard.extend_from_slice(&buf[..n]);
                }
                heard
            };
            let ((), heard) = tokio::join!(write, listen);
            assert!(heard == octets);
        });
    }

    #[test]
    fn the_end_is_read_after_what_was_said_last_and_told_before() {
        run(async {
            let (a, b) = pair();
            let mut buf = [0; 16];
            assert_eq!(a.try_write(b"last").expect("it is written"), 4);
            assert_eq!((read(&b, &mut buf).await, &buf[..4]), (4, &b"last"[..]));
            assert_eq!(a.try_write(b"words").expect("it is written"), 5);
            drop(a);
            b.hung_up().await;
            assert_eq!((read(&b, &mut buf).await, &buf[..5]), (5, &b"words"[..]));
            assert_eq!(read(&b, &mut buf).await, 0);
        });
    }
}
