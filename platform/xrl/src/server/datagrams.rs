//! The receiving side of the family `udp`: datagrams answered.

use super::accounts::MAX_RUNNING;
use super::registry::{Bound, Registry};
use super::service::{CallContext, Started, put_octets};
use crate::wire::frame::{self, Datagram, Frame, HEADER, Kind, MAX_DATAGRAM};
use crate::{Family, XrlError};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::Instant;

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
    let Ok(Some((Frame { kind: Kind::Datagram, sequence, method: version, body }, _))) = frame::decode(data)
    else {
        return;
    };
    let Ok(call) = Datagram::decode(body) else {
        return;
    };
    // Callers that state no version have the first one with datagrams, which is this one.
    if version != 0
        && let Err(other) = frame::check_version(version)
    {
        return answer(socket, from, sequence, Err(other));
    }
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
