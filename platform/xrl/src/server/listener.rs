//! Connections accepted at the sockets of a process.

use super::connection::ServerConnection;
use super::guests::Guests;
use super::registry::Registry;
use crate::wire::denied::Denied;
use crate::wire::stream::Stream;
use nix::sys::resource::{Resource, getrlimit};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::Instant;

/// A source of connections.
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(l) => l.accept().await.map(|(s, _)| Stream::Unix(s)),
            Listener::Tcp(l) => {
                let (stream, _) = l.accept().await?;
                // Frames are gathered here already; Nagle would only delay the last ones.
                let _slower_without = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

thread_local! {
    static NEXT_CONNECTION: Cell<u64> = const { Cell::new(1) };
}

/// The time in which connections are accepted in a row, before other tasks of the process.
const IN_A_ROW: Duration = Duration::from_millis(1);

/// Accepts connections for as long as the task lives, each served by a task that ends with the accepting task.
pub(crate) async fn serve(listener: Listener, registry: Rc<Registry>) {
    let mut connections = tokio::task::JoinSet::new();
    let (descriptors, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let guests = Rc::new(Guests::new(descriptors));
    let mut since = Instant::now();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    let id = NEXT_CONNECTION.get();
                    NEXT_CONNECTION.set(id + 1);
                    let (pid, uid) = stream.peer();
                    let connection = ServerConnection::new(stream, Rc::clone(&registry), id, &guests);
                    if let Some(crowd) = guests.enter(uid, id, connections.spawn_local(connection)) {
                        // The process is known if the displaced guest's user is the new guest's.
                        let pid = pid.filter(|_| crowd == uid);
                        let subject = "connections without a secret or a key";
                        registry.refusals.note(Denied::Limit, "", subject, (pid, crowd));
                    }
                    if since.elapsed() > IN_A_ROW {
                        tokio::task::yield_now().await;
                        since = Instant::now();
                    }
                }
                Err(e) => {
                    // Out of descriptors, mostly: others are closed meanwhile.
                    tracing::warn!(%e, "accepting an XRL connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
