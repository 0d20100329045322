//! The UDP socket of tunnels.

use crate::XipProcess;
use crate::config::Settings;
use sluice_process::{SocketError, open_udp};
use sluice_xip::early::EarlyPacket;
use sluice_xip::io::Tunnel;
use sluice_xrl::idl::fea::v1 as fea;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;
use tracing::warn;

/// The name of the tunnels' socket among those of interfaces, which no interface can have.
pub(crate) const NAME: &str = "tunnels/";

/// The largest datagram.
const LARGEST: usize = 65_535;

/// An open socket with the reading task.
pub(crate) struct TunnelSocket {
    settings: Tunnel,
    socket: Rc<UdpSocket>,
    reader: AbortHandle,
}

impl Drop for TunnelSocket {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl TunnelSocket {
    /// Sends a packet, unless the kernel's queue is full: the network may lose any.
    pub(crate) fn send(&self, to: SocketAddr, octets: &[u8]) {
        let _ = self.socket.try_send_to(octets, to);
    }
}

/// Opens or closes the socket as the settings want.
pub(crate) async fn follow(process: &Rc<XipProcess>, settings: &Settings) {
    let wanted = settings.core.tunnel;
    if wanted.is_none() {
        process.without_sockets.borrow_mut().remove(NAME);
    }
    if process.tunnel.borrow().as_ref().map(|tunnel| tunnel.settings) == wanted {
        return;
    }
    process.tunnel.take();
    let Some(tunnel) = wanted else { return };
    match open(process, tunnel).await {
        Ok(socket) => {
            process.tunnel.replace(Some(socket));
            process.without_sockets.borrow_mut().remove(NAME);
        }
        Err(error) => {
            warn!(event = "xip.socket.missing", %error, "no tunnels from {}: {error}", tunnel.local);
            let text = format!("no tunnels from {}: {error}", tunnel.local);
            process.without_sockets.borrow_mut().insert(NAME.into(), text);
        }
    }
}

async fn open(process: &Rc<XipProcess>, tunnel: Tunnel) -> Result<TunnelSocket, SocketError> {
    let request = fea::OpenUdpRequest {
        local: Some(tunnel.local.ip().into()),
        port: tunnel.local.port().into(),
        ..Default::default()
    };
    let socket = Rc::new(open_udp(&process.protocol.frame, request).await?);
    if tunnel.no_check {
        sluice_process::leave_out_checksums(socket.as_fd())?;
    }
    let (me, reading) = (Rc::downgrade(process), Rc::clone(&socket));
    let reader = tokio::task::spawn_local(async move {
        let mut octets = vec![0; LARGEST];
        loop {
            match reading.recv_from(&mut octets).await {
                Ok((length, _)) => {
                    let Some(me) = me.upgrade() else { return };
                    me.packet(EarlyPacket::Datagram(octets.get(..length).unwrap_or_default().to_vec()));
                    me.flush();
                }
                // An ICMP error about an earlier datagram.
                Err(error) => tracing::debug!(%error, "a far end of a tunnel answers with an error"),
            }
            tokio::task::yield_now().await;
        }
    });
    Ok(TunnelSocket { settings: tunnel, socket, reader: reader.abort_handle() })
}
