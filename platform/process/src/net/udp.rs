//! UDP sockets that the FEA opens.

use crate::{Frame, descriptor};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1::{OpenUdpRequest, SocketsClient};
use std::io;
use thiserror::Error;
use tokio::net::UdpSocket;

/// The reason for which there is no socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The FEA refused the socket, or is not there.
    #[error("the FEA opens no socket: {0}")]
    Refused(#[from] XrlError),
    /// The socket could not be fetched.
    #[error("the socket cannot be fetched: {0}")]
    Fetch(#[from] io::Error),
}

/// Opens a UDP socket by the FEA. The component's `rights.toml` needs the call `fea.v1.Sockets/OpenUdp`, and the port in
/// `[sockets] udp`.
///
/// # Errors
/// The FEA's refusal, or the failure of the socket's transfer.
pub async fn open_udp(frame: &Frame, request: OpenUdpRequest) -> Result<UdpSocket, SocketError> {
    let reply = SocketsClient::new(&frame.router, "fea").open_udp(request).await?;
    let socket = std::net::UdpSocket::from(descriptor::fetch(&frame.run_dir, &reply.token).await?);
    socket.set_nonblocking(true)?;
    Ok(UdpSocket::from_std(socket)?)
}
