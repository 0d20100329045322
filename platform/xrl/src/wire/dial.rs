//! Connecting to the socket of a target or of the Finder.

use super::stream::Stream;
use crate::Family;
use std::io;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// The pause before a caller tries a full queue of connections again.
const PAUSE: Duration = Duration::from_millis(2);
/// The number of attempts at a full queue.
const ATTEMPTS: u32 = 1000;

/// Connects to a path by Unix socket, or to HOST:PORT by TCP.
pub(crate) async fn dial(family: Family, address: &str) -> io::Result<Stream> {
    if family == Family::Unix {
        return dial_unix(address).await.map(Stream::Unix);
    }
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Stream::Tcp(stream))
}

/// Connects to a Unix socket. Tries again while the listener's queue is full: other users may have filled the queue.
async fn dial_unix(address: &str) -> io::Result<UnixStream> {
    for _ in 0..ATTEMPTS {
        match UnixStream::connect(address).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
            connected => return connected,
        }
    }
    UnixStream::connect(address).await
}
