//! Neighbors: sessions of the test itself, which announce a feed or record the routes that they receive.

use crate::policies::network::{Role, Router};
use crate::policies::view::View;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use sluice_base::{Asn, Ipv4Prefix, RouterId};
use sluice_bgpsim::wire::as_path::Width;
use sluice_bgpsim::wire::{AFI_IPV4, Capability, HEADER_LEN, MessageType, Nlri, Open, Update, header};
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// The longest wait for a session: a router that has just started refuses the first connections.
const PATIENCE: Duration = Duration::from_secs(60);
const CHUNK: usize = 1 << 16;

/// The received routes: attributes in words, by prefix.
pub type Routes = BTreeMap<Ipv4Prefix, Arc<str>>;

/// An established session.
pub struct Peer {
    pub address: Ipv4Addr,
    socket: Socket,
    view: View,
    input: Vec<u8>,
    output: Vec<u8>,
    /// The routes that the router has announced and not withdrawn.
    pub routes: Routes,
    /// The prefixes that the router has announced, again and again included.
    pub announced: usize,
    /// The withdrawn prefixes.
    pub withdrawn: usize,
    /// The router's ROUTE-REFRESH messages.
    pub refreshes: usize,
    /// True after the End-of-RIB marker.
    pub is_complete: bool,
}

impl Peer {
    /// Connects to the router, from inside the node `peers`.
    pub fn connect(router: Router, role: Role, number: u8) -> Peer {
        let address = router.peer(role, number);
        let mut attempt = Peer::attempt(router, role, address);
        let is_up = sluice_lab::until(PATIENCE, || {
            if attempt.is_err() {
                attempt = Peer::attempt(router, role, address);
            }
            attempt.is_ok()
        });
        assert!(is_up, "no session of {address} with {}: {:?}", router.node, attempt.err());
        attempt.unwrap()
    }

    fn attempt(router: Router, role: Role, address: Ipv4Addr) -> std::io::Result<Peer> {
        let mut socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((address, 0)).into())?;
        socket.connect(&SocketAddr::from((router.address(role), 179)).into())?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut hello = Vec::new();
        open(role, address).put(&mut hello);
        socket.write_all(&hello)?;
        let mut octets = [0; HEADER_LEN];
        socket.read_exact(&mut octets)?;
        let mut body = vec![0; usize::from(u16::from_be_bytes([octets[16], octets[17]])) - HEADER_LEN];
        socket.read_exact(&mut body)?;
        if octets[18] != MessageType::Open as u8 {
            return Err(std::io::Error::other(format!(
                "message {} with {body:?} in place of an OPEN",
                octets[18]
            )));
        }
        let mut keepalive = Vec::new();
        header::put_keepalive(&mut keepalive);
        socket.write_all(&keepalive)?;
        socket.set_nonblocking(true)?;
        let view = View { router, width: role.width() };
        Ok(Peer {
            address,
            socket,
            view,
            input: vec![],
            output: vec![],
            routes: Routes::new(),
            announced: 0,
            withdrawn: 0,
            refreshes: 0,
            is_complete: false,
        })
    }

    /// Announces a feed.
    pub fn announce(&mut self, octets: &[u8]) {
        self.output.extend_from_slice(octets);
    }

    /// Returns true if everything has been written.
    pub fn is_sent(&self) -> bool {
        self.output.is_empty()
    }

    /// Writes and reads as much as is possible at once. Returns true if routes came.
    pub fn pump(&mut self, words: &mut Words) -> bool {
        match self.socket.write(&self.output) {
            Ok(written) => drop(self.output.drain(..written)),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{}: {e}", self.address),
        }
        let mut chunk = [0; CHUNK];
        match self.socket.read(&mut chunk) {
            Ok(0) => panic!("the router ended the session with {}", self.address),
            Ok(read) => self.input.extend_from_slice(&chunk[..read]),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock, "{}: {e}", self.address);
                return false;
            }
        }
        let input = std::mem::take(&mut self.input);
        let (mut rest, mut any) = (&input[..], false);
        while let Some(frame) = header::frame(rest).unwrap() {
            match frame.kind {
                MessageType::Update => {
                    self.update(frame.body, words);
                    any = true;
                }
                MessageType::Notification => panic!("{}: NOTIFICATION {:?}", self.address, frame.body),
                MessageType::RouteRefresh => self.refreshes += 1,
                MessageType::Open | MessageType::Keepalive => {}
            }
            rest = &rest[frame.len()..];
        }
        self.input = rest.to_vec();
        any
    }

    fn update(&mut self, body: &[u8], words: &mut Words) {
        let update = Update::decode(body).unwrap();
        self.is_complete |= update.is_empty();
        for prefix in Nlri::<Ipv4Prefix>::new(update.withdrawn) {
            self.routes.remove(&prefix.unwrap());
            self.withdrawn += 1;
        }
        let announced = Nlri::<Ipv4Prefix>::new(update.nlri);
        let mut attributes = None;
        for prefix in announced {
            let said = attributes.get_or_insert_with(|| words.of(self.view.describe(update.attributes)));
            self.routes.insert(prefix.unwrap(), Arc::clone(said));
            self.announced += 1;
        }
    }
}

/// Waits until a peer can read, or write what is left to write; at most for `longest`.
pub fn wait<'p>(peers: impl IntoIterator<Item = &'p Peer>, longest: Duration) {
    let events = |peer: &Peer| match peer.is_sent() {
        true => PollFlags::POLLIN,
        false => PollFlags::POLLIN | PollFlags::POLLOUT,
    };
    let mut sockets: Vec<PollFd<'_>> =
        peers.into_iter().map(|peer| PollFd::new(peer.socket.as_fd(), events(peer))).collect();
    nix::poll::poll(&mut sockets, PollTimeout::try_from(longest).unwrap()).unwrap();
}

/// The neighbor's OPEN. Without a hold time nobody has to send KEEPALIVEs.
fn open(role: Role, address: Ipv4Addr) -> Open {
    let asn = Asn(role.asn());
    let mut capabilities = vec![Capability::unicast(AFI_IPV4), Capability::RouteRefresh];
    if role.width() == Width::Four {
        capabilities.push(Capability::FourOctetAs(asn));
    }
    // The router ends its table with an End-of-RIB marker.
    capabilities.push(Capability::GracefulRestart { flags: 0, restart_time: 0, families: vec![] });
    let router_id = RouterId(address.to_bits());
    Open { version: 4, as_field: asn.to_u16(), hold_time: 0, router_id, capabilities }
}

/// Attributes in words, each text once.
#[derive(Default)]
pub struct Words(BTreeMap<Arc<str>, ()>);

impl Words {
    fn of(&mut self, text: String) -> Arc<str> {
        if let Some((known, ())) = self.0.get_key_value(&*text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text), ());
        text
    }
}
