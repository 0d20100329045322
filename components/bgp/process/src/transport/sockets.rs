//! Sockets: opened by the FEA, used here.

use crate::ffi;
use sluice_base::IpPrefix;
use sluice_bgp::event::ConnectError;
use sluice_bgp::gtsm;
use sluice_bgp::speaker::NeighborConfig;
use sluice_process::{Frame, descriptor, tcp};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// BGP's port (RFC 4271, section 8).
const PORT: u16 = 179;
/// The TTL of packets to neighbors without a rule for the TTL; Linux's default.
const DEFAULT_TTL: u8 = 64;

/// Attempts to have a socket opened, and the time between two.
const ATTEMPTS: u32 = 20;
const AGAIN: Duration = Duration::from_millis(50);

/// The FEA's broker.
pub struct Sockets {
    client: fea::SocketsClient,
    run_dir: PathBuf,
}

fn refused(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the FEA: {error}"))
}

impl Sockets {
    /// Makes a client of the router's broker.
    pub fn new(frame: &Frame) -> Self {
        Sockets { client: fea::SocketsClient::new(&frame.router, "fea"), run_dir: frame.run_dir.clone() }
    }

    /// A connection to a neighbor.
    pub async fn connect(&self, neighbor: &NeighborConfig, internal: bool) -> io::Result<TcpStream> {
        let options = fea::SocketOptions {
            ttl: neighbor.ttl(internal).unwrap_or(0).into(),
            min_ttl: neighbor.min_ttl().unwrap_or(0).into(),
            dscp: 48, // CS6, network control (RFC 4594)
            ..fea::SocketOptions::default()
        };
        let request = fea::OpenTcpRequest {
            local: neighbor.local_address.map(Into::into),
            remote: Some(neighbor.address.into()),
            remote_port: neighbor.port.into(),
            options: Some(options),
            md5_password: neighbor.password.clone().unwrap_or_default(),
        };
        let reply = self.client.open_tcp(request).await.map_err(refused)?;
        let remote = SocketAddr::new(neighbor.address, neighbor.port);
        tcp::connect(&self.client, &self.run_dir, &reply, remote).await
    }

    /// Connects to a host that is no neighbor. Retries a refusal: the FEA may learn a moment late of a live upgrade, or of a new
    /// port in the configuration.
    pub async fn connect_to(&self, remote: SocketAddr, local: Option<IpAddr>) -> io::Result<TcpStream> {
        let request = fea::OpenTcpRequest {
            local: local.map(Into::into),
            remote: Some(remote.ip().into()),
            remote_port: remote.port().into(),
            options: Some(fea::SocketOptions::default()),
            md5_password: String::new(),
        };
        let mut attempts = 0;
        let reply = loop {
            match self.client.open_tcp(request.clone()).await {
                Err(XrlError::AccessDenied(_)) if attempts < ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(AGAIN).await;
                }
                other => break other.map_err(refused)?,
            }
        };
        tcp::connect(&self.client, &self.run_dir, &reply, remote).await
    }

    /// Listens for neighbors of a family. Returns the FEA's number of the listener, for [`Sockets::set_password`].
    pub async fn listen(&self, ipv4: bool) -> io::Result<(u64, TcpListener)> {
        let any: IpAddr = if ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let options = fea::SocketOptions { ttl: 255, dscp: 48, ..fea::SocketOptions::default() };
        let request = fea::OpenTcpListenerRequest {
            local: Some(any.into()),
            port: PORT.into(),
            options: Some(options),
            backlog: 128,
        };
        let reply = self.client.open_tcp_listener(request).await.map_err(refused)?;
        Ok((reply.socket, tcp::listener(&self.run_dir, &reply).await?))
    }

    /// Has the FEA adopt a listener of an earlier FEA, and returns the FEA's number of the listener.
    pub async fn adopt(&self, listener: &TcpListener) -> io::Result<u64> {
        let reply = self.client.adopt_listener(fea::AdoptListenerRequest {}).await.map_err(refused)?;
        descriptor::give(&self.run_dir, &reply.token, listener.as_fd()).await?;
        Ok(reply.socket)
    }

    /// Sets or removes the key for signed connections from a neighbor's address, or from a listen range (RFC 2385).
    pub async fn set_password(
        &self,
        socket: u64,
        remote: IpPrefix,
        password: Option<&str>,
    ) -> io::Result<()> {
        let address = remote.addr();
        let is_host = remote.len() == if address.is_ipv4() { 32 } else { 128 };
        let request = fea::SetTcpMd5Request {
            socket,
            remote: Some(address.into()),
            prefix_length: (!is_host).then_some(remote.len().into()),
            password: password.unwrap_or_default().into(),
        };
        self.client.set_tcp_md5(request).await.map(|_| ()).map_err(refused)
    }

    /// Shares a listener with the replacement process.
    pub async fn share(&self, socket: u64, successor: u32) -> io::Result<()> {
        let request = fea::ShareSocketRequest { socket, successor };
        self.client.share_socket(request).await.map(|_| ()).map_err(refused)
    }

    /// Gives a listener back.
    pub async fn close(&self, socket: u64) {
        let _ = self.client.close_socket(fea::CloseSocketRequest { socket }).await;
    }
}

/// Sets the neighbor's options on an accepted connection, and refuses a connection from too far away.
pub fn adopt(stream: &TcpStream, neighbor: &NeighborConfig, internal: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let ttl = neighbor.ttl(internal).unwrap_or(DEFAULT_TTL).into();
    match neighbor.address {
        IpAddr::V4(_) => socket.set_ttl_v4(ttl)?,
        IpAddr::V6(_) => socket.set_unicast_hops_v6(ttl)?,
    }
    if let Some(least) = neighbor.min_ttl() {
        ffi::set_min_ttl(stream, neighbor.address.is_ipv4(), least)?;
        // What came before that was not looked at.
        let has_octets = socket.peek(&mut [MaybeUninit::uninit()]).is_ok_and(|count| count > 0);
        if !gtsm::is_near(least, &ffi::saved_syn(stream)?, has_octets) {
            return Err(io::Error::other("it comes from far away (RFC 5082)"));
        }
    }
    Ok(())
}

/// Returns the cause of a failed connection.
pub fn cause(error: &io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => ConnectError::Unreachable,
        io::ErrorKind::TimedOut => ConnectError::NoAnswer,
        _ => ConnectError::Other(error.to_string()),
    }
}
