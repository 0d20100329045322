//! A relay in place of a router. The relay copies the senders' messages to every receiver. The throughput with a relay
//! is the client's own limit.

use crate::peers::session;
use crate::wire::{AFI_IPV4, AFI_IPV6, Capability, MessageType, Open, PathsFamily, VERSION, header};
use anyhow::{Context, Result};
use sluice_base::{Asn, RouterId};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Octets to read at a time.
const CHUNK: usize = 1 << 18;

/// A running relay; ends with its peers.
pub struct Relay {
    /// The address of the listener.
    pub address: SocketAddr,
    thread: JoinHandle<Result<()>>,
}

/// The receivers of every copy.
type Receivers = Arc<Mutex<Vec<Arc<Mutex<TcpStream>>>>>;

impl Relay {
    /// Starts a relay on the loopback for a number of peers; peers with an AS of `receivers` receive the messages of
    /// the senders.
    pub fn start(asn: Asn, peers: usize, receivers: HashSet<Asn>) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on the loopback")?;
        let address = listener.local_addr()?;
        let thread = std::thread::spawn(move || {
            let connected = Receivers::default();
            let receivers = Arc::new(receivers);
            let accepted = (0..peers).map(|_| {
                let (socket, _) = listener.accept()?;
                let (connected, receivers) = (connected.clone(), receivers.clone());
                Ok(std::thread::spawn(move || serve(socket, asn, &receivers, &connected)))
            });
            // All of them run beside each other before the first is waited for.
            let threads: Vec<JoinHandle<Result<()>>> = accepted.collect::<Result<_>>()?;
            threads.into_iter().try_for_each(joined)
        });
        Ok(Relay { address, thread })
    }

    /// Waits until every peer has disconnected.
    pub fn join(self) -> Result<()> {
        joined(self.thread)
    }
}

fn joined(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread.join().map_err(|_| anyhow::anyhow!("the relay panicked"))?
}

fn serve(mut socket: TcpStream, asn: Asn, receivers: &HashSet<Asn>, connected: &Receivers) -> Result<()> {
    socket.set_nodelay(true)?;
    let theirs = Open::decode(&session::expect(&mut socket, MessageType::Open)?)?;
    let own = Open {
        version: VERSION,
        as_field: asn.to_u16(),
        hold_time: theirs.hold_time,
        router_id: RouterId(1),
        capabilities: [
            vec![Capability::unicast(AFI_IPV4), Capability::unicast(AFI_IPV6), Capability::FourOctetAs(asn)],
            paths(&theirs),
        ]
        .concat(),
    };
    let is_receiver = receivers.contains(&theirs.asn());
    if is_receiver {
        let lock = connected.lock();
        lock.unwrap_or_else(PoisonError::into_inner).push(Arc::new(Mutex::new(socket.try_clone()?)));
    }
    let mut octets = Vec::new();
    own.put(&mut octets);
    header::put_keepalive(&mut octets);
    socket.write_all(&octets)?;
    session::expect(&mut socket, MessageType::Keepalive)?;
    if is_receiver { drain(&mut socket) } else { copy(&mut socket, connected) }
}

/// Returns the capability to send and to receive several paths of the families in which a peer has such a capability (RFC 7911).
fn paths(theirs: &Open) -> Vec<Capability> {
    let both = |family: &PathsFamily| PathsFamily { receive: true, send: true, ..*family };
    let own = theirs.capabilities.iter().filter_map(|capability| match capability {
        Capability::AddPath(families) => Some(Capability::AddPath(families.iter().map(both).collect())),
        _ => None,
    });
    own.collect()
}

/// Reads until the end of the connection; a broken connection counts as ended.
fn drain(socket: &mut TcpStream) -> Result<()> {
    let mut chunk = vec![0; 4096];
    while let Ok(1..) = socket.read(&mut chunk) {}
    Ok(())
}

/// Copies UPDATEs until the end of the connection.
fn copy(socket: &mut TcpStream, connected: &Receivers) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut filled = 0;
    // Senders speak when all sessions are up: nobody joins any more.
    let mut receivers: Option<Vec<Arc<Mutex<TcpStream>>>> = None;
    while let Ok(read @ 1..) = socket.read(&mut buffer[filled..]) {
        filled += read;
        let (mut from, mut to) = (0, 0);
        let all =
            receivers.get_or_insert_with(|| connected.lock().unwrap_or_else(PoisonError::into_inner).clone());
        while let Some(frame) = header::frame(&buffer[to..filled])? {
            let end = to + frame.len();
            if frame.kind != MessageType::Update {
                forward(all, &buffer[from..to]);
                from = end;
            }
            to = end;
        }
        forward(all, &buffer[from..to]);
        buffer.copy_within(to..filled, 0);
        filled -= to;
    }
    Ok(())
}

/// Sends to the receivers, except receivers that have disconnected.
fn forward(receivers: &[Arc<Mutex<TcpStream>>], messages: &[u8]) {
    if messages.is_empty() {
        return;
    }
    for receiver in receivers {
        let _ = receiver.lock().unwrap_or_else(PoisonError::into_inner).write_all(messages);
    }
}
