//! A scripted BGP speaker on a node of a lab: a session octet by octet, and the routes received on the session.

use super::RouterLab;
use sluice_base::{Asn, Ipv4Prefix, Ipv6Prefix, RouterId};
use sluice_bgpsim::wire::attribute::{Attributes, code, put_header};
use sluice_bgpsim::wire::{
    AFI_IPV4, AFI_IPV6, Capability, HEADER_LEN, MessageType, MpReach, MpUnreach, Nlri, Notification, Open,
    Update, VERSION, WirePrefix, header,
};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The longest wait for a message of the router.
const PATIENCE: Duration = Duration::from_secs(30);

/// A path attribute: flags, code and value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attr(pub u8, pub u8, pub Vec<u8>);

/// The attributes of a received route.
pub type Route = Vec<Attr>;

/// Returns the value of an attribute.
pub fn value(route: &Route, code: u8) -> Option<&[u8]> {
    route.iter().find(|attr| attr.1 == code).map(|attr| &attr.2[..])
}

/// A change in a received UPDATE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The prefix is announced.
    Announced(Route),
    /// The prefix is withdrawn.
    Withdrawn,
}

/// The end of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The router sent a NOTIFICATION.
    Notification(Notification),
    /// The router closed the connection without a NOTIFICATION.
    Closed,
    /// The router sends nothing more for a long time, which no test expects.
    Silent,
}

/// A speaker with an established session without a hold time.
pub struct Speaker {
    socket: TcpStream,
    /// The routes received and not withdrawn since, by prefix.
    pub routes: BTreeMap<String, Route>,
    /// The number of withdrawals received, by prefix.
    pub withdrawals: BTreeMap<String, u32>,
    /// Changes that nobody has taken yet, by prefix, oldest first.
    changes: BTreeMap<String, VecDeque<Change>>,
    /// The number of ROUTE-REFRESH messages received.
    pub refreshes: usize,
}

/// Returns the capabilities of a speaker of both address families.
pub fn usual(asn: u32) -> Vec<Capability> {
    vec![
        Capability::unicast(AFI_IPV4),
        Capability::unicast(AFI_IPV6),
        Capability::RouteRefresh,
        Capability::FourOctetAs(Asn(asn)),
    ]
}

impl Speaker {
    /// Opens a session from `local` on a node to the router at `router`; repeats the attempt while the router refuses.
    pub fn connect(
        lab: &RouterLab,
        node: &str,
        local: Ipv4Addr,
        router: Ipv4Addr,
        capabilities: &[Capability],
    ) -> Speaker {
        Speaker::connect_as(lab, node, (local, router), asn_of(capabilities), capabilities)
    }

    /// Opens a session as [`Speaker::connect`] does, as a speaker of an AS that need not be among the capabilities.
    pub fn connect_as(
        lab: &RouterLab,
        node: &str,
        (local, router): (Ipv4Addr, Ipv4Addr),
        asn: Asn,
        capabilities: &[Capability],
    ) -> Speaker {
        let mut opened = None;
        lab.until("a scripted speaker has a session", |lab| {
            opened = lab.lab.inside(node, || attempt(local, router, asn, capabilities)).unwrap().ok();
            opened.is_some()
        });
        Speaker {
            socket: opened.unwrap(),
            routes: BTreeMap::new(),
            withdrawals: BTreeMap::new(),
            changes: BTreeMap::new(),
            refreshes: 0,
        }
    }

    /// Tries to open a session from `local` on a node until the router at `router` answers with a NOTIFICATION.
    pub fn refused(
        lab: &RouterLab,
        node: &str,
        local: Ipv4Addr,
        router: Ipv4Addr,
        capabilities: &[Capability],
    ) -> End {
        let mut end = End::Closed;
        lab.until("a scripted speaker is refused", |lab| {
            let asn = asn_of(capabilities);
            let attempted = lab.lab.inside(node, || attempt(local, router, asn, capabilities)).unwrap();
            end = attempted.expect_err("the router refuses the session");
            end != End::Closed
        });
        end
    }

    /// Sends octets as they are. A connection that the router has closed shows where the speaker reads.
    pub fn send(&mut self, octets: &[u8]) {
        let _ = self.socket.write_all(octets);
    }

    /// Sends an UPDATE.
    pub fn update(&mut self, body: &[u8]) {
        self.send(&message(MessageType::Update, body));
    }

    /// Announces IPv4 prefixes.
    pub fn announce(&mut self, attributes: &[Attr], prefixes: &[&str]) {
        self.update(&announcement(attributes, &nlri(prefixes)));
    }

    /// Returns the next change of a prefix; waits for the change.
    pub fn next_change(&mut self, prefix: &str) -> Result<Change, End> {
        loop {
            if let Some(change) = self.changes.get_mut(prefix).and_then(VecDeque::pop_front) {
                return Ok(change);
            }
            self.read()?;
        }
    }

    /// Reads until the session ends.
    pub fn end(&mut self) -> End {
        loop {
            if let Err(end) = self.read() {
                return end;
            }
        }
    }

    /// Reads messages until the routes are as wanted.
    pub fn until(&mut self, what: &str, mut so: impl FnMut(&BTreeMap<String, Route>) -> bool) {
        while !so(&self.routes) {
            self.read().unwrap_or_else(|end| panic!("never: {what}: {end:?}, {:?}", self.routes));
        }
    }

    /// Reads until so many IPv4 prefixes are known, and keeps no more than the prefixes: for tables that many speakers receive.
    pub fn count_until(&mut self, count: usize) {
        let mut known: HashSet<Ipv4Prefix> = HashSet::new();
        while known.len() < count {
            let (kind, body) =
                read(&mut self.socket).unwrap_or_else(|end| panic!("{} routes: {end:?}", known.len()));
            if kind != MessageType::Update {
                continue;
            }
            let update = Update::decode(&body).unwrap();
            for prefix in Nlri::<Ipv4Prefix>::new(update.withdrawn) {
                known.remove(&prefix.unwrap());
            }
            known.extend(Nlri::<Ipv4Prefix>::new(update.nlri).map(Result::unwrap));
        }
    }

    /// Reads messages until none has come for so long. Returns the number of messages, or the end of the session.
    pub fn drain(&mut self, quiet: Duration) -> Result<usize, End> {
        let mut count = 0;
        loop {
            self.socket.set_read_timeout(Some(quiet)).unwrap();
            let waiting = self.socket.peek(&mut [0]);
            self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
            if waiting.is_err() {
                return Ok(count);
            }
            self.read()?;
            self.changes.clear();
            count += 1;
        }
    }

    /// Reads a message.
    fn read(&mut self) -> Result<(), End> {
        let (kind, body) = read(&mut self.socket)?;
        match kind {
            MessageType::Update => self.take(&body),
            MessageType::RouteRefresh => self.refreshes += 1,
            MessageType::Notification => {
                return Err(End::Notification(Notification::decode(&body).unwrap()));
            }
            MessageType::Open | MessageType::Keepalive => {}
        }
        Ok(())
    }

    fn take(&mut self, body: &[u8]) {
        let update = Update::decode(body).unwrap();
        let attributes = Attributes::new(update.attributes).map(Result::unwrap);
        let route: Route = attributes.map(|a| Attr(a.flags, a.code, a.value.to_vec())).collect();
        for prefix in Nlri::<Ipv4Prefix>::new(update.withdrawn) {
            self.change(prefix.unwrap().to_string(), Change::Withdrawn);
        }
        if let Some(field) = value(&route, code::MP_UNREACH_NLRI) {
            for prefix in Nlri::<Ipv6Prefix>::new(MpUnreach::decode(field).unwrap().withdrawn) {
                self.change(prefix.unwrap().to_string(), Change::Withdrawn);
            }
        }
        if let Some(field) = value(&route, code::MP_REACH_NLRI) {
            for prefix in Nlri::<Ipv6Prefix>::new(MpReach::decode(field).unwrap().nlri) {
                self.change(prefix.unwrap().to_string(), Change::Announced(route.clone()));
            }
        }
        for prefix in Nlri::<Ipv4Prefix>::new(update.nlri) {
            self.change(prefix.unwrap().to_string(), Change::Announced(route.clone()));
        }
    }

    fn change(&mut self, prefix: String, change: Change) {
        match &change {
            Change::Announced(route) => {
                self.routes.insert(prefix.clone(), route.clone());
            }
            Change::Withdrawn => {
                self.routes.remove(&prefix);
                *self.withdrawals.entry(prefix.clone()).or_default() += 1;
            }
        }
        self.changes.entry(prefix).or_default().push_back(change);
    }
}

/// Returns a message with this body, however long.
pub fn message(kind: MessageType, body: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    let at = header::start(&mut octets, kind);
    octets.extend_from_slice(body);
    header::finish(&mut octets, at);
    octets
}

/// Returns the body of an UPDATE that announces the prefixes in a field.
pub fn announcement(attributes: &[Attr], nlri: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    for Attr(flags, code, value) in attributes {
        // A malformed length is part of a value; the header is always the sender's own.
        put_header(&mut field, *flags, *code, value.len());
        field.extend_from_slice(value);
    }
    let mut body = vec![0, 0];
    body.extend_from_slice(&(field.len() as u16).to_be_bytes());
    body.extend_from_slice(&field);
    body.extend_from_slice(nlri);
    body
}

/// Returns IPv4 prefixes as they travel.
pub fn nlri(prefixes: &[&str]) -> Vec<u8> {
    let mut field = Vec::new();
    for prefix in prefixes {
        WirePrefix::put(prefix.parse::<Ipv4Prefix>().unwrap(), &mut field);
    }
    field
}

/// Returns the mandatory attributes of a route with a path of these AS numbers.
pub fn base(path: &[u32], next_hop: Ipv4Addr) -> Route {
    let mut segments = Vec::new();
    if !path.is_empty() {
        segments.extend([2, path.len() as u8]);
        segments.extend(path.iter().flat_map(|asn| asn.to_be_bytes()));
    }
    vec![
        Attr(0x40, code::ORIGIN, vec![0]),
        Attr(0x40, code::AS_PATH, segments),
        Attr(0x40, code::NEXT_HOP, next_hop.octets().to_vec()),
    ]
}

/// Returns the AS among capabilities.
fn asn_of(capabilities: &[Capability]) -> Asn {
    let asn = capabilities.iter().find_map(|capability| match capability {
        Capability::FourOctetAs(asn) => Some(*asn),
        _ => None,
    });
    asn.unwrap()
}

/// Connects once and opens the session.
fn attempt(
    local: Ipv4Addr,
    router: Ipv4Addr,
    asn: Asn,
    capabilities: &[Capability],
) -> Result<TcpStream, End> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from((local, 0)).into()).unwrap();
    socket.connect_timeout(&SocketAddr::from((router, 179)).into(), PATIENCE).map_err(|_| End::Closed)?;
    let mut socket = TcpStream::from(socket);
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let open = Open {
        version: VERSION,
        as_field: asn.to_u16(),
        hold_time: 0,
        router_id: RouterId(local.to_bits()),
        capabilities: capabilities.to_vec(),
    };
    let mut octets = Vec::new();
    open.put(&mut octets);
    header::put_keepalive(&mut octets);
    socket.write_all(&octets).map_err(|_| End::Closed)?;
    for expected in [MessageType::Open, MessageType::Keepalive] {
        let (kind, body) = read(&mut socket)?;
        if kind == MessageType::Notification {
            return Err(End::Notification(Notification::decode(&body).unwrap()));
        }
        assert_eq!(kind, expected);
    }
    Ok(socket)
}

/// Reads a whole message.
fn read(socket: &mut TcpStream) -> Result<(MessageType, Vec<u8>), End> {
    let mut header = [0; HEADER_LEN];
    let mut body = Vec::new();
    let mut whole = || -> std::io::Result<()> {
        socket.read_exact(&mut header)?;
        body = vec![0; usize::from(u16::from_be_bytes([header[16], header[17]])) - HEADER_LEN];
        socket.read_exact(&mut body)
    };
    match whole() {
        Ok(()) => Ok((MessageType::from_code(header[18]).unwrap(), body)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(End::Silent),
        Err(_) => Err(End::Closed),
    }
}
