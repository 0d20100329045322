//! The console between elements: operators of an element read from components of another one.
//!
//! The command line calls this element's component (`cluster.v1.Elements`), by the access list of this machine. The component connects to the
//! other element's component by TLS. Both ends show certificates of members. The other component makes the
//! call by the rights of that component, if the call only reads, or if the managers of both machines admit the person
//! ([`sluice_cluster::console`]). A connection carries one call: a request, then a reply, each behind a length (u32, network order).

use crate::ClusterProcess;
use crate::credentials::{element_of, machine_of, name_of};
use crate::identity::{self, IdentityError};
use crate::idl::cluster::v1 as pb;
use crate::store::Connector;
use prost::Message;
use rustls::pki_types::ServerName;
use sluice_cluster::console::{CallKind, PORT, kind};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::roster::AdminState;
use sluice_process::tcp;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::idl::manager::v1 as manager;
use sluice_xrl::{Octets, XrlError};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

/// The protocol of the console (RFC 7301).
const PROTOCOL: &[u8] = b"sluice-console/1";
/// The longest wait for the other end, beside the call itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait for a call, by default and at most.
const WITHIN: Duration = Duration::from_secs(10);
const MOST_WITHIN: Duration = Duration::from_secs(60);
/// The most octets of a request, and of a reply.
const MOST_REQUEST: usize = 1 << 20;
const MOST_REPLY: usize = 16 << 20;
/// The most connections at a time.
const MOST_CONNECTIONS: usize = 32;
/// The time until a port that cannot be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// The beginning of a person's name as a principal.
const PERSON: &str = "user:";
/// The origin of calls at this element.
const OWN_ORIGIN: &str = "this element";
/// The number of the errors by which another element is not asked.
pub(crate) const NOT_ASKED: u32 = 1;

/// The reason why a connection of another element ends without a reply.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("its certificate is of no member of this cluster")]
    NoMember,
    #[error("it is silent")]
    Silent,
    #[error("its request is not understood")]
    Request,
}

/// The console on this element.
#[derive(Default)]
pub struct Console {
    /// The settings changed.
    pub changed: Notify,
    /// The reason why others cannot ask this element.
    problem: RefCell<Option<String>>,
    connections: Cell<usize>,
}

impl Console {
    /// Returns the reason why others cannot ask this element.
    pub fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }
}

/// The port, open.
struct Listening {
    address: IpAddr,
    task: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin), limit: usize) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > limit {
        return Err(io::Error::other(format!("{length} octets are more than {limit}")));
    }
    let mut octets = vec![0; length];
    stream.read_exact(&mut octets).await?;
    Ok(octets)
}

async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), octets: &[u8]) -> io::Result<()> {
    let length = u32::try_from(octets.len()).map_err(io::Error::other)?;
    stream.write_u32(length).await?;
    stream.write_all(octets).await?;
    stream.flush().await
}

/// Opens the port when the element has an address, for ever.
pub async fn follow(process: Rc<ClusterProcess>) {
    let console = &process.console;
    let mut open: Option<Listening> = None;
    loop {
        let wanted =
            process.settings.borrow().as_ref().and_then(|own| own.reached.get(&own.element).copied());
        open = open.filter(|open| Some(open.address) == wanted);
        let mut problem = None;
        if let (None, Some(address)) = (&open, wanted) {
            match listen(&process, address).await {
                Ok(listener) => {
                    let task = tokio::task::spawn_local(accept(Rc::clone(&process), listener));
                    open = Some(Listening { address, task: task.abort_handle() });
                }
                Err(error) => {
                    problem = Some(format!("other elements cannot ask this one at {address}: {error}"));
                }
            }
        }
        let failed = problem.is_some();
        console.problem.replace(problem);
        tokio::select! {
            () = console.changed.notified() => {}
            () = tokio::time::sleep(RETRY), if failed => {}
        }
    }
}

async fn listen(process: &ClusterProcess, address: IpAddr) -> io::Result<TcpListener> {
    let client = fea::SocketsClient::new(&process.protocol.frame.router, "fea");
    let request = fea::OpenTcpListenerRequest {
        local: Some(address.into()),
        port: PORT.into(),
        options: None,
        backlog: 16,
    };
    let reply = client.open_tcp_listener(request).await.map_err(io::Error::other)?;
    let fetched = tcp::listener(&process.protocol.frame.run_dir, &reply).await;
    // The descriptor is ours now; the FEA needs its own no longer.
    let closed = client.close_socket(fea::CloseSocketRequest { socket: reply.socket }).await;
    closed.map_err(io::Error::other)?;
    fetched
}

async fn accept(process: Rc<ClusterProcess>, listener: TcpListener) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let connections = &process.console.connections;
        if connections.get() >= MOST_CONNECTIONS {
            continue;
        }
        connections.set(connections.get() + 1);
        let process = Rc::clone(&process);
        tokio::task::spawn_local(async move {
            if let Err(error) = serve(&process, stream).await {
                warn!(event = "cluster.console.refused", %peer, %error, "{peer} gets no answer: {error}");
            }
            let connections = &process.console.connections;
            connections.set(connections.get().saturating_sub(1));
        });
    }
}

async fn serve(process: &ClusterProcess, stream: TcpStream) -> Result<(), ServeError> {
    let own = process.settings.borrow().as_ref().map(|own| own.element).ok_or(ServeError::NoMember)?;
    let credentials = identity::fetch(&process.protocol.frame, own).await?;
    let tls = credentials.server(PROTOCOL).map_err(IdentityError::from)?;
    let silent = |_| ServeError::Silent;
    let accepting = TlsAcceptor::from(Arc::new(tls)).accept(stream);
    let mut stream = tokio::time::timeout(PATIENCE, accepting).await.map_err(silent)??;
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates.and_then(|chain| chain.first());
    let machine = certificate.map_or(0, machine_of);
    let peer = certificate.and_then(element_of);
    let peer = peer.filter(|element| {
        let configured = process.configured.borrow();
        configured.as_ref().is_some_and(|own| own.inventory.get(*element).is_some())
    });
    let peer = peer.ok_or(ServeError::NoMember)?;
    let state = process.roster.state(peer);
    let request = tokio::time::timeout(PATIENCE, read_frame(&mut stream, MOST_REQUEST)).await;
    let request = pb::GetFromElementRequest::decode(&request.map_err(silent)??[..]);
    let request = request.map_err(|_| ServeError::Request)?;
    let reply = match machine < state.machine || state.removed {
        true => no_member(state),
        false => carry_out(process, request, &format!("element {peer}")).await,
    };
    let answering = async {
        write_frame(&mut stream, &reply.encode_to_vec()).await?;
        stream.shutdown().await
    };
    Ok(tokio::time::timeout(PATIENCE, answering).await.map_err(silent)??)
}

/// Returns the reply to a machine that is not its element any more: the machine learns that, and nothing else.
fn no_member(state: AdminState) -> pb::GetFromElementReply {
    let reason = match state.removed {
        true => "the element was removed".to_owned(),
        false => format!("machine {} is the element now", state.machine),
    };
    let mut error = Vec::new();
    XrlError::AccessDenied(reason).encode(&mut error);
    pb::GetFromElementReply { reply: Vec::new(), error, machine: state.machine, removed: state.removed }
}

fn within(request: &pb::GetFromElementRequest) -> Duration {
    match request.within_ms {
        0 => WITHIN,
        ms => Duration::from_millis(ms.into()).min(MOST_WITHIN),
    }
}

/// Asks the manager whether a person of another element may make a call here. The manager records the answer.
async fn admit(
    process: &ClusterProcess,
    person: &str,
    origin: &str,
    request: &pb::GetFromElementRequest,
) -> Result<(), XrlError> {
    let method = format!("{}/{}", request.target, request.path);
    let client = manager::RemoteClient::new(&process.protocol.frame.router, "manager");
    let asked =
        manager::AdmitRequest { person: person.into(), origin: origin.into(), method: method.clone() };
    client.admit(asked).await?;
    info!(event = "cluster.console.call", by = person, origin, method, "{person} at {origin} calls {method}");
    Ok(())
}

/// Makes a call on this element for a person at `origin`, if the call only reads or the person may make it.
async fn carry_out(
    process: &ClusterProcess,
    request: pb::GetFromElementRequest,
    origin: &str,
) -> pb::GetFromElementReply {
    let path = &request.path;
    // A method that this component may not resolve is none that reads; the errors of the call itself say more.
    let reads = process.protocol.frame.router.reads(&request.target, path).await.unwrap_or(false);
    let admitted = match kind(path, reads) {
        Some(CallKind::Reads) => Ok(()),
        Some(CallKind::Changes) => admit(process, &request.person, origin, &request).await,
        // Calls of this element itself come by its manager.
        Some(CallKind::Prepares) if origin != OWN_ORIGIN => Ok(()),
        Some(CallKind::Prepares) => Err(XrlError::AccessDenied(format!("{path}: elements call it"))),
        None => Err(XrlError::AccessDenied(format!(
            "{path} at another element: from here an element is read, cleared, reset and refreshed; do this on that element"
        ))),
    };
    let called = match admitted {
        Ok(()) => {
            let within = within(&request);
            let octets = Octets(request.request);
            process.protocol.frame.router.call_octets(&request.target, path, None, Some(within), octets).await
        }
        Err(error) => Err(error),
    };
    let called = called.and_then(|reply| match reply.0.len() {
        size if size > MOST_REPLY - 64 => {
            Err(XrlError::TooLarge { size: size as u64, limit: MOST_REPLY as u64 })
        }
        _ => Ok(reply.0),
    });
    match called {
        Ok(reply) => pb::GetFromElementReply { reply, ..Default::default() },
        Err(reason) => {
            let mut error = Vec::new();
            reason.encode(&mut error);
            pb::GetFromElementReply { error, ..Default::default() }
        }
    }
}

/// Asks an element to make a call that changes something, for a person of this machine, whose role on this machine has to allow the call too.
///
/// # Errors
/// The role does not allow the call, or the element is not asked.
pub(crate) async fn ask_for(
    process: &ClusterProcess,
    principal: &str,
    request: pb::GetFromElementRequest,
) -> Result<pb::GetFromElementReply, XrlError> {
    let person = principal.strip_prefix(PERSON);
    let person =
        person.ok_or_else(|| XrlError::AccessDenied("other elements are people's to change".into()))?;
    let own = process.settings.borrow().as_ref().map(|own| own.element);
    // A call at this element is decided and recorded once.
    if kind(&request.path, false) == Some(CallKind::Changes)
        && own.map(|own| u32::from(own.number())) != Some(request.element)
    {
        let origin = format!("this element, for element {}", request.element);
        admit(process, person, &origin, &request).await?;
    }
    ask(process, pb::GetFromElementRequest { person: person.into(), ..request }).await
}

/// Asks an element to make a call.
///
/// # Errors
/// The element is no member, has no address, or does not answer.
pub async fn ask(
    process: &ClusterProcess,
    request: pb::GetFromElementRequest,
) -> Result<pb::GetFromElementReply, XrlError> {
    let refused = |reason: String| XrlError::application(NOT_ASKED, reason);
    let number = request.element;
    let settings = process.settings.borrow().clone();
    let settings = settings.ok_or_else(|| refused("no cluster is configured".into()))?;
    let element = u16::try_from(number).ok().and_then(ElementId::new);
    let element = element.filter(|element| settings.inventory.get(*element).is_some());
    let element = element
        .ok_or_else(|| refused(format!("there is no element {number}; `sluice show cluster` lists all")))?;
    if element == settings.element {
        return Ok(carry_out(process, request, OWN_ORIGIN).await);
    }
    let address = settings.reached.get(&element).copied().ok_or_else(|| {
        refused(format!("element {number} has no address; set cluster member {number} address"))
    })?;
    let address = SocketAddr::new(address, PORT);
    let credentials = identity::fetch(&process.protocol.frame, settings.element).await;
    let tls = credentials.and_then(|credentials| Ok(credentials.client(PROTOCOL)?));
    let tls = Arc::new(tls.map_err(|error| refused(error.to_string()))?);
    let name = ServerName::try_from(name_of(element)).map_err(|error| refused(error.to_string()))?;
    let patience = PATIENCE + within(&request);
    let asking = async {
        let connector =
            Connector::start(process.protocol.frame.router.clone(), process.protocol.frame.run_dir.clone());
        let mut stream = connector.connect(address, Some((tls, name))).await?;
        write_frame(&mut stream, &request.encode_to_vec()).await?;
        read_frame(&mut stream, MOST_REPLY).await
    };
    let failed = |reason: String| refused(format!("element {number} does not answer at {address}: {reason}"));
    let reply = tokio::time::timeout(patience, asking).await;
    let reply = reply.map_err(|_| failed("no reply in time".into()))?;
    let reply = reply.map_err(|error| failed(error.to_string()))?;
    pb::GetFromElementReply::decode(&reply[..]).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn frames_have_a_limit() {
        let (mut near, mut far) = tokio::io::duplex(64);
        write_frame(&mut near, b"question").await.expect("written");
        assert_eq!(read_frame(&mut far, 8).await.expect("read"), b"question");
        write_frame(&mut near, b"question").await.expect("written");
        assert!(read_frame(&mut far, 7).await.is_err());
        let (mut near, mut far) = tokio::io::duplex(64);
        near.write_all(&[0, 0, 0, 9, 1]).await.expect("written");
        drop(near);
        assert!(read_frame(&mut far, 64).await.is_err(), "an early end");
    }

    #[test]
    fn waits_are_bounded() {
        let of = |within_ms| within(&pb::GetFromElementRequest { within_ms, ..Default::default() });
        assert_eq!((of(0), of(70), of(u32::MAX)), (WITHIN, Duration::from_millis(70), MOST_WITHIN));
    }
}
