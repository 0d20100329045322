//! Connections to caches: sockets of the FEA, a task each, protected by TLS where configured.

use crate::{RpkiProcess, tls};
use sluice_process::{Frame, tcp};
use sluice_rpki::machine::{ConnectionId, Input};
use sluice_rpki::settings::TlsSettings;
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Weak;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::AbortHandle;

/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// The longest wait for a closed connection's last octets to be taken.
const LINGER: Duration = Duration::from_secs(5);

/// Attempts to have a socket opened, and the time between two.
const ATTEMPTS: u32 = 20;
const AGAIN: Duration = Duration::from_millis(50);

/// Octets read at once.
const PIECE: usize = 1 << 16;

/// The place of a connection.
pub struct Target {
    /// The cache's address.
    pub address: IpAddr,
    /// The cache's port.
    pub port: u16,
    /// The address to connect from; `None` for the system's choice.
    pub local: Option<IpAddr>,
    /// The protection by TLS.
    pub tls: Option<TlsSettings>,
}

/// A connection, by TLS or without.
trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// A connection, or a connection attempt. The core sends a query and at most a report, which keeps the queue short.
struct Connection {
    queue: UnboundedSender<Vec<u8>>,
    task: AbortHandle,
}

/// The core's connections.
#[derive(Default)]
pub struct Connections(RefCell<BTreeMap<ConnectionId, Connection>>);

impl Connections {
    /// Begins to make a connection.
    pub fn open(&self, process: Weak<RpkiProcess>, id: ConnectionId, target: Target) {
        let (queue, mut queued) = mpsc::unbounded_channel::<Vec<u8>>();
        let task = tokio::task::spawn_local(async move {
            let Some(frame) = process.upgrade().map(|process| process.frame.clone()) else { return };
            let connected = tokio::time::timeout(CONNECT, connect(&frame, &target)).await;
            let stream = match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => stream,
                Err(error) => return end(&process, id, Input::NotConnected(id, error.to_string())).await,
            };
            let (reader, mut writer) = tokio::io::split(stream);
            input(&process, Input::Connected(id)).await;
            let mut reading = std::pin::pin!(read(&process, id, reader));
            loop {
                tokio::select! {
                    () = &mut reading => return end(&process, id, Input::Closed(id)).await,
                    octets = queued.recv() => match octets {
                        Some(octets) if writer.write_all(&octets).await.is_ok() => {}
                        Some(_) => return end(&process, id, Input::Closed(id)).await,
                        // The core closed the connection.
                        None => {
                            let _ = tokio::time::timeout(LINGER, writer.shutdown()).await;
                            return;
                        }
                    },
                }
            }
        });
        self.0.borrow_mut().insert(id, Connection { queue, task: task.abort_handle() });
    }

    /// Sends octets.
    pub fn send(&self, id: ConnectionId, octets: Vec<u8>) {
        if let Some(connection) = self.0.borrow().get(&id) {
            // A connection that ended meanwhile is reported as closed.
            let _ = connection.queue.send(octets);
        }
    }

    /// Closes a connection behind the last octets, or ends the connection attempt.
    pub fn close(&self, id: ConnectionId) {
        let Some(connection) = self.0.borrow_mut().remove(&id) else { return };
        drop(connection.queue);
        let task = connection.task;
        tokio::task::spawn_local(async move {
            tokio::time::sleep(CONNECT + LINGER).await;
            task.abort();
        });
    }
}

/// Gives the core an input, after the rest of a hand-over.
async fn input(process: &Weak<RpkiProcess>, input: Input) {
    if let Some(process) = process.upgrade() {
        process.rest.over().await;
        process.driver.input(input);
    }
}

/// Reports the end of a connection to the core.
async fn end(process: &Weak<RpkiProcess>, id: ConnectionId, ended: Input) {
    let is_known =
        process.upgrade().is_some_and(|process| process.connections.0.borrow_mut().remove(&id).is_some());
    if is_known {
        input(process, ended).await;
    }
}

async fn read(process: &Weak<RpkiProcess>, id: ConnectionId, mut reader: ReadHalf<Box<dyn Stream>>) {
    let mut octets = vec![0; PIECE];
    loop {
        match reader.read(&mut octets).await {
            Ok(count @ 1..) => input(process, Input::Received(id, octets[..count].to_vec())).await,
            _ => return,
        }
    }
}

async fn connect(frame: &Frame, target: &Target) -> io::Result<Box<dyn Stream>> {
    let refused = |error: XrlError| io::Error::other(format!("the FEA opens no socket: {error}"));
    let client = fea::SocketsClient::new(&frame.router, "fea");
    let request = fea::OpenTcpRequest {
        local: target.local.map(Into::into),
        remote: Some(target.address.into()),
        remote_port: target.port.into(),
        options: Some(fea::SocketOptions::default()),
        md5_password: String::new(),
    };
    let mut attempts = 0;
    let reply = loop {
        match client.open_tcp(request.clone()).await {
            // The FEA learns a moment later that this process has taken over from another one.
            Err(XrlError::AccessDenied(_)) if attempts < ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(AGAIN).await;
            }
            other => break other.map_err(refused)?,
        }
    };
    let address = SocketAddr::new(target.address, target.port);
    let stream = tcp::connect(&client, &frame.run_dir, &reply, address).await?;
    Ok(match &target.tls {
        None => Box::new(stream),
        Some(tls) => {
            Box::new(tls::connect(frame, tls, target.address, stream).await.map_err(io::Error::other)?)
        }
    })
}
