//! TCP sockets that the FEA has opened.

use crate::descriptor;
use sluice_xrl::idl::fea::v1::{CloseSocketRequest, OpenReply, SocketsClient};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connects by a socket that the FEA has opened for it (`fea.v1.Sockets/OpenTcp`). Small writes leave at once.
///
/// # Errors
/// The socket cannot be fetched, or nobody answers at the address.
pub async fn connect(
    sockets: &SocketsClient,
    run_dir: &Path,
    opened: &OpenReply,
    remote: SocketAddr,
) -> io::Result<TcpStream> {
    let stream = std::net::TcpStream::from(descriptor::fetch(run_dir, &opened.token).await?);
    stream.set_nonblocking(true)?;
    // The descriptor is this process's now; the FEA needs its own no longer.
    let closed = sockets.close_socket(CloseSocketRequest { socket: opened.socket });
    let connected = TcpSocket::from_std_stream(stream).connect(remote).await;
    let _ = closed.await;
    let stream = connected?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Fetches a listener that the FEA has opened (`fea.v1.Sockets/OpenTcpListener`).
///
/// # Errors
/// The listener cannot be fetched.
pub async fn listener(run_dir: &Path, opened: &OpenReply) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(descriptor::fetch(run_dir, &opened.token).await?);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
