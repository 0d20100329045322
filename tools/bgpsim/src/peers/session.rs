//! A peer's connection: made or awaited, opened by the protocol, and then a socket with two independent ends.

use anyhow::{Context, Result, bail, ensure};
use rustix::net::SendFlags;
use sluice_base::{Asn, RouterId};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::wire::{
    AFI_IPV4, AFI_IPV6, Capability, HEADER_LEN, MAX_MESSAGE_LEN, MessageType, Notification, Open,
    PathsFamily, RestartFamily, SAFI_UNICAST, VERSION, header,
};
use crate::workload::Families;

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);

/// The seconds that a restart of a sender may take.
const RESTART_TIME: u16 = 120;

/// The role of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Announces routes, and ignores received routes.
    Sender,
    /// Listens.
    Receiver,
}

/// The identity of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The peer's role.
    pub role: Role,
    /// The peer's number within its role, from 0.
    pub number: usize,
    /// The peer's AS.
    pub asn: Asn,
    /// The peer's address; `None`: chosen by the system.
    pub local: Option<IpAddr>,
    /// The peer's address families.
    pub families: Families,
    /// The proposed hold time, in seconds; 0 for no hold time.
    pub hold_time: u16,
    /// What most runs do without.
    pub features: Features,
}

/// Capabilities that a run may need, which the target then must have too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Path identifiers stand before all prefixes (ADD-PATH, RFC 7911): the target receives several paths from a sender, and sends
    /// several to a receiver.
    pub paths: bool,
    /// The peer's part in graceful restarts.
    pub restart: Restart,
}

/// A peer's part in graceful restarts (RFC 4724).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Restart {
    /// The peer has no capability.
    #[default]
    No,
    /// The peer may restart, and keeps its forwarding state meanwhile.
    Possible,
    /// The peer has restarted, and has kept its forwarding state.
    Done,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let role = if self.role == Role::Sender { "sender" } else { "receiver" };
        write!(f, "{role} {} (AS {}", self.number + 1, self.asn)?;
        match self.local {
            Some(local) => write!(f, ", {local})"),
            None => f.write_str(")"),
        }
    }
}

/// An established session.
#[derive(Debug)]
pub struct Session {
    /// Whose.
    pub peer: Peer,
    /// Read without waiting, written with waiting.
    pub socket: TcpStream,
    /// The negotiated hold time, in seconds; 0 for no hold time.
    pub hold_time: u16,
    /// Number of written prefixes.
    pub prefixes_sent: AtomicU64,
    /// Number of written octets.
    pub octets_sent: AtomicU64,
    /// Number of read octets.
    pub octets_received: AtomicU64,
    /// Set after octets were discarded: the next read may begin within a message.
    pub is_cut: AtomicBool,
    /// The client itself has ended the connection.
    is_closed: AtomicBool,
    /// Held while a part of a message may be out.
    writing: Mutex<()>,
}

impl Session {
    /// Connects, again and again until `deadline`, and opens the session.
    pub fn connect(peer: Peer, target: SocketAddr, target_as: Asn, deadline: Instant) -> Result<Self> {
        loop {
            let attempt = connected(&peer, target, deadline)
                .and_then(|socket| Session::open(peer.clone(), socket, target_as, deadline));
            match attempt {
                Ok(session) => return Ok(session),
                Err(e) if Instant::now() + RETRY > deadline || is_final(&e) => {
                    return Err(e.context(format!("{peer} has no session with {target}")));
                }
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }

    /// Waits for the target's connection until `deadline`, and opens the session.
    pub fn listen(
        peer: Peer,
        port: u16,
        target: SocketAddr,
        target_as: Asn,
        deadline: Instant,
    ) -> Result<Self> {
        let local = peer.local.context("a peer that listens has an address")?;
        let accept = || -> Result<Session> {
            let listener = TcpListener::bind((local, port))
                .with_context(|| format!("cannot listen at {local}:{port}"))?;
            listener.set_nonblocking(true)?;
            loop {
                ensure!(Instant::now() < deadline, "nobody connected");
                match listener.accept() {
                    Ok((socket, from)) if from.ip() == target.ip() => {
                        socket.set_nonblocking(false)?;
                        // One that fails may be the loser of a collision.
                        if let Ok(session) = Session::open(peer.clone(), socket, target_as, deadline) {
                            return Ok(session);
                        }
                    }
                    Ok(_) => {}
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(RETRY / 10),
                    Err(e) => return Err(e.into()),
                }
            }
        };
        accept().with_context(|| format!("{peer} has no session with {target}"))
    }

    /// Opens the session on a connection (RFC 4271, section 8): OPEN and KEEPALIVE both ways.
    fn open(peer: Peer, mut socket: TcpStream, target_as: Asn, deadline: Instant) -> Result<Self> {
        socket.set_nodelay(true)?;
        let patience = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(patience))?;
        let mut octets = Vec::new();
        own_open(&peer, &socket)?.put(&mut octets);
        socket.write_all(&octets)?;
        let theirs = Open::decode(&expect(&mut socket, MessageType::Open)?)?;
        if theirs.asn() != target_as {
            refuse(&mut socket);
            return Err(Final(format!("the target's AS is {}, not {target_as}", theirs.asn())).into());
        }
        if let Some(missing) = missing(&peer, &theirs.capabilities) {
            refuse(&mut socket);
            return Err(Final(format!("the target does not offer {missing}")).into());
        }
        octets.clear();
        header::put_keepalive(&mut octets);
        socket.write_all(&octets)?;
        expect(&mut socket, MessageType::Keepalive)?;
        socket.set_read_timeout(None)?;
        Ok(Session {
            hold_time: peer.hold_time.min(theirs.hold_time),
            peer,
            socket,
            prefixes_sent: AtomicU64::new(0),
            octets_sent: AtomicU64::new(0),
            octets_received: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            writing: Mutex::new(()),
        })
    }

    /// Writes whole messages with so many prefixes; waits while the target does not read.
    pub fn send(&self, messages: &[u8], prefixes: usize) -> Result<()> {
        let _whole = self.writing.lock().map_err(|_| anyhow::anyhow!("another thread panicked"))?;
        (&self.socket).write_all(messages).with_context(|| format!("{} cannot send", self.peer))?;
        self.prefixes_sent.fetch_add(prefixes as u64, Ordering::Relaxed);
        self.octets_sent.fetch_add(messages.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Sends KEEPALIVE, unless a message is under way: a message is an equal sign of life.
    pub fn keepalive(&self) {
        let Ok(_whole) = self.writing.try_lock() else { return };
        let mut octets = Vec::new();
        header::put_keepalive(&mut octets);
        // A full socket has signs of life enough in it. A broken one shows where it is read.
        if let Ok(sent @ 1..) =
            rustix::net::send(&self.socket, &octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        {
            let _ = (&self.socket).write_all(&octets[sent..]);
        }
    }

    /// Sends the last message and ends the connection.
    pub fn close(&self) {
        let mut octets = Vec::new();
        Notification::new(Notification::CEASE, Notification::SHUTDOWN).put(&mut octets);
        if let Ok(_whole) = self.writing.try_lock() {
            let _ = rustix::net::send(&self.socket, &octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        self.hang_up();
    }

    /// Returns true if the client itself has ended the connection.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Ends the connection without a word.
    pub fn hang_up(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // A connection that is gone already is as good.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// An error that would recur in a further attempt.
#[derive(Debug)]
struct Final(String);

impl std::fmt::Display for Final {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Final {}

fn is_final(e: &anyhow::Error) -> bool {
    e.is::<Final>()
}

fn refuse(socket: &mut TcpStream) {
    let mut octets = Vec::new();
    Notification::new(Notification::OPEN, Notification::PEER_AS).put(&mut octets);
    // The connection is given up anyway.
    let _ = socket.write_all(&octets);
}

fn connected(peer: &Peer, target: SocketAddr, deadline: Instant) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(local) = peer.local {
        socket.set_reuse_address(true)?;
        let bound = socket.bind(&SocketAddr::new(local, 0).into());
        bound.map_err(|e| Final(format!("{local} is no address of this machine: {e}")))?;
    }
    let patience = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    socket.connect_timeout(&target.into(), patience).context("cannot connect")?;
    Ok(socket.into())
}

fn own_open(peer: &Peer, socket: &TcpStream) -> Result<Open> {
    let mut capabilities = Vec::new();
    capabilities.extend(peer.families.v4.then(|| Capability::unicast(AFI_IPV4)));
    capabilities.extend(peer.families.v6.then(|| Capability::unicast(AFI_IPV6)));
    capabilities.extend([Capability::RouteRefresh, Capability::FourOctetAs(peer.asn)]);
    let families =
        || [(peer.families.v4, AFI_IPV4), (peer.families.v6, AFI_IPV6)].into_iter().filter(|f| f.0);
    if peer.features.paths {
        let (send, receive) = (peer.role == Role::Sender, peer.role == Role::Receiver);
        let each = families().map(|(_, afi)| PathsFamily { afi, safi: SAFI_UNICAST, receive, send });
        capabilities.push(Capability::AddPath(each.collect()));
    }
    if peer.features.restart != Restart::No {
        let restarted = peer.features.restart == Restart::Done;
        let flags = if restarted { Capability::RESTARTING } else { 0 };
        let kept = if restarted { RestartFamily::FORWARDING } else { 0 };
        let each = families().map(|(_, afi)| RestartFamily { afi, safi: SAFI_UNICAST, flags: kept });
        let families = each.collect();
        capabilities.push(Capability::GracefulRestart { flags, restart_time: RESTART_TIME, families });
    }
    // Any number but 0 that no other peer has: the address where there is one of IPv4.
    let router_id = match socket.local_addr()?.ip() {
        IpAddr::V4(a) if !a.is_loopback() => a.to_bits(),
        _ => {
            Ipv4Addr::new(172, 16, 0, 1).to_bits()
                + 2 * peer.number as u32
                + u32::from(peer.role == Role::Receiver)
        }
    };
    Ok(Open {
        version: VERSION,
        as_field: peer.asn.to_u16(),
        hold_time: peer.hold_time,
        router_id: RouterId(router_id),
        capabilities,
    })
}

/// Returns the feature of a peer that the target's capabilities lack.
fn missing(peer: &Peer, capabilities: &[Capability]) -> Option<&'static str> {
    let has_paths = |afi: u16| {
        let families = capabilities.iter().filter_map(|capability| match capability {
            Capability::AddPath(families) => Some(families),
            _ => None,
        });
        let of_family = families.flatten().filter(|family| (family.afi, family.safi) == (afi, SAFI_UNICAST));
        of_family.into_iter().any(|family| match peer.role {
            Role::Sender => family.receive,
            Role::Receiver => family.send,
        })
    };
    let wanted = [(peer.families.v4, AFI_IPV4), (peer.families.v6, AFI_IPV6)];
    if peer.features.paths && wanted.iter().any(|(wanted, afi)| *wanted && !has_paths(*afi)) {
        return Some("several paths of a prefix (ADD-PATH)");
    }
    let restarts = capabilities.iter().any(|c| matches!(c, Capability::GracefulRestart { .. }));
    (peer.features.restart != Restart::No && !restarts).then_some("graceful restart")
}

/// The body of the next message, which has to be of a kind.
pub(crate) fn expect(socket: &mut TcpStream, kind: MessageType) -> Result<Vec<u8>> {
    let mut octets = vec![0; HEADER_LEN];
    socket.read_exact(&mut octets).with_context(|| format!("no {kind:?} came"))?;
    let length = usize::from(u16::from_be_bytes([octets[16], octets[17]]));
    ensure!((HEADER_LEN..=MAX_MESSAGE_LEN).contains(&length), "a message of {length} octets came");
    octets.resize(length, 0);
    socket.read_exact(&mut octets[HEADER_LEN..])?;
    let frame = header::frame(&octets)?.context("a message was cut off")?;
    match frame.kind {
        found if found == kind => Ok(frame.body.to_vec()),
        MessageType::Notification => {
            let text = format!("the target sent {}", said(frame.body));
            // What is wrong with an OPEN is wrong with the next one too.
            let is_final = frame.body.first() == Some(&Notification::OPEN);
            if is_final { Err(Final(text).into()) } else { bail!(text) }
        }
        found => bail!("{found:?} came instead of {kind:?}"),
    }
}

/// A NOTIFICATION's body in words.
pub(crate) fn said(body: &[u8]) -> String {
    match Notification::decode(body) {
        Ok(n) => format!("NOTIFICATION {n}"),
        Err(_) => "NOTIFICATION that is cut off".into(),
    }
}
