//! The family `udp`: a datagram for each call and one for its reply; a single call at a time to each address.
//!
//! No datagram is repeated: a lost datagram is a call that fails with [`XrlError::DeadlineExceeded`], because a call
//! sent twice might be carried out twice.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::Instant;

use crate::frame::{self, Datagram, Frame, HEADER, Kind};
use crate::registry::{Bound, Registry};
use crate::seal::Credential;
use crate::server::MAX_RUNNING;
use crate::service::{CallContext, Started, put_octets};
use crate::{Family, XrlError};

/// Octets of the largest datagram over IPv4.
pub const MAX_DATAGRAM: usize = 65_507;
/// The wait of a caller without a deadline: the reply may be lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Calls a single address, a call at a time.
pub(crate) struct UdpCaller {
    socket: Mutex<UdpSocket>,
    sequence: Cell<u32>,
    valid: Cell<bool>,
}

impl UdpCaller {
    pub(crate) async fn new(address: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr =
            if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        Ok(UdpCaller { socket: Mutex::new(socket), sequence: Cell::new(0), valid: Cell::new(true) })
    }

    /// Returns true if the address's resolution still seems valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid.get()
    }

    pub(crate) async fn call(
        &self,
        path: &str,
        credential: &Credential,
        arguments: &[u8],
        within: Option<Duration>,
    ) -> Result<Vec<u8>, XrlError> {
        let socket = self.socket.lock().await;
        let sequence = self.sequence.get();
        self.sequence.set(sequence.wrapping_add(1));
        let ms = within.map_or(0, |d| u32::try_from(d.as_millis()).unwrap_or(u32::MAX));
        let mut out = Vec::new();
        let start = frame::begin(&mut out, Kind::Datagram, sequence, 0);
        Datagram::encode_head(&credential.bind(path), ms, &mut out);
        out.extend_from_slice(arguments);
        let fits = frame::end(&mut out, start);
        if fits.is_err() || out.len() > MAX_DATAGRAM {
            let size = fits.err().unwrap_or(out.len());
            return Err(XrlError::TooLarge { size: size as u64, limit: MAX_DATAGRAM as u64 });
        }
        let exchange = async {
            socket.send(&out).await?;
            let mut buf = vec![0; MAX_DATAGRAM];
            loop {
                let n = socket.recv(&mut buf).await?;
                // Late replies of calls that were given up are passed over.
                if let Ok(Some((reply, _))) = frame::decode(&buf[..n])
                    && reply.sequence == sequence
                {
                    return Ok(match reply.kind {
                        Kind::Reply => Ok(reply.body.to_vec()),
                        Kind::Error => Err(XrlError::decode(reply.body)),
                        other => Err(XrlError::Protocol(format!("unexpected {other:?} frame"))),
                    });
                }
            }
        };
        let result: io::Result<Result<Vec<u8>, XrlError>> =
            tokio::time::timeout(within.unwrap_or(PATIENCE), exchange)
                .await
                .unwrap_or(Ok(Err(XrlError::DeadlineExceeded)));
        let result = result.unwrap_or_else(|e| {
            self.valid.set(false);
            Err(XrlError::Disconnected(e.to_string()))
        });
        if matches!(result, Err(XrlError::BadKey | XrlError::UnknownTarget(_))) {
            self.valid.set(false);
        }
        result
    }
}

/// Answers datagrams for as long as the task lives.
pub(crate) async fn serve(socket: UdpSocket, registry: Rc<Registry>) {
    let socket = Rc::new(socket);
    let mut running = JoinSet::new();
    let mut buf = vec![0; MAX_DATAGRAM];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buf) => {
                // An error here is of an earlier reply that nobody took.
                if let Ok((n, from)) = received {
                    handle(&buf[..n], from, &socket, &registry, &mut running);
                }
            }
            Some(_) = running.join_next() => {}
        }
    }
}

fn handle(
    data: &[u8],
    from: SocketAddr,
    socket: &Rc<UdpSocket>,
    registry: &Registry,
    running: &mut JoinSet<()>,
) {
    let Ok(Some((Frame { kind: Kind::Datagram, sequence, body, .. }, _))) = frame::decode(data) else {
        return;
    };
    let Ok(call) = Datagram::decode(body) else {
        return;
    };
    let deadline =
        (call.within_ms != 0).then(|| Instant::now() + Duration::from_millis(call.within_ms.into()));
    let started = match registry.find(&call.bind, Family::Udp, None, None) {
        Ok(Bound { entry, grant }) => {
            let principal = Rc::clone(&grant.principal);
            let ctx =
                CallContext { connection: 0, pid: None, uid: None, principal, family: Family::Udp, deadline };
            entry.handler.start_octets(ctx, call.arguments)
        }
        Err(e) => Started::Ready(Err(e)),
    };
    match started {
        Started::Ready(result) => answer(socket, from, sequence, result),
        Started::Pending(_) if running.len() >= MAX_RUNNING => {
            answer(
                socket,
                from,
                sequence,
                Err(XrlError::Busy(format!("{MAX_RUNNING} handlers are going on"))),
            );
        }
        Started::Pending(handler) => {
            let socket = Rc::clone(socket);
            running.spawn_local(async move {
                let result = spawn_local(handler).await;
                let panicked = |_| Err(XrlError::Internal("the handler panicked".to_owned()));
                answer(&socket, from, sequence, result.unwrap_or_else(panicked));
            });
        }
    }
}

fn answer(socket: &UdpSocket, to: SocketAddr, sequence: u32, result: Result<Vec<u8>, XrlError>) {
    let mut out = Vec::new();
    put_octets(&mut out, sequence, &result);
    if out.len() > MAX_DATAGRAM {
        let size = (out.len() - HEADER) as u64;
        out.clear();
        put_octets(&mut out, sequence, &Err(XrlError::TooLarge { size, limit: MAX_DATAGRAM as u64 }));
    }
    // A full socket loses the reply, as a network may.
    let _lost = socket.try_send_to(&out, to);
}
