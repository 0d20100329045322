//! Connections to the store: the FEA opens the sockets, since the component has no network of its own. A store of the elements
//! speaks TLS.

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sluice_process::tcp;
use sluice_xrl::XrlEndpoint;
use sluice_xrl::idl::fea::v1 as fea;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;

/// Connections that wait for the FEA.
const MOST_WAITING: usize = 8;

/// A connection, by TLS or without.
pub trait Octets: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Octets for T {}

struct Wanted {
    address: SocketAddr,
    answer: oneshot::Sender<io::Result<TcpStream>>,
}

/// Makes connections. The client library wants futures for any thread, and those of the FEA belong to this one: a task is between.
#[derive(Clone)]
pub struct Connector {
    wanted: mpsc::Sender<Wanted>,
}

impl Connector {
    /// Starts the task.
    pub fn start(router: XrlEndpoint, run_dir: PathBuf) -> Self {
        let (wanted, mut waiting) = mpsc::channel::<Wanted>(MOST_WAITING);
        tokio::task::spawn_local(async move {
            while let Some(Wanted { address, answer }) = waiting.recv().await {
                let _gone = answer.send(connect(&router, &run_dir, address).await);
            }
        });
        Connector { wanted }
    }

    /// Connects, by TLS if there are settings of TLS. The server's certificate has to have the name.
    ///
    /// # Errors
    /// The FEA opens no socket, nobody answers at the address, or the ends do not trust each other.
    pub async fn connect(
        &self,
        address: SocketAddr,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<Box<dyn Octets>> {
        let (answer, connected) = oneshot::channel();
        let ended = || io::Error::other("the process ends");
        self.wanted.send(Wanted { address, answer }).await.map_err(|_| ended())?;
        let stream = connected.await.map_err(|_| ended())??;
        match tls {
            None => Ok(Box::new(stream)),
            Some((tls, name)) => Ok(Box::new(TlsConnector::from(tls).connect(name, stream).await?)),
        }
    }
}

async fn connect(
    router: &XrlEndpoint,
    run_dir: &std::path::Path,
    address: SocketAddr,
) -> io::Result<TcpStream> {
    let client = fea::SocketsClient::new(router, "fea");
    let request = fea::OpenTcpRequest {
        remote: Some(address.ip().into()),
        remote_port: address.port().into(),
        ..Default::default()
    };
    let reply = client.open_tcp(request).await.map_err(io::Error::other)?;
    tcp::connect(&client, run_dir, &reply, address).await
}
