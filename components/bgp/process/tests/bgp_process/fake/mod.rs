//! The surroundings of BGP's process in a test: a scripted FEA, a scripted RIB, and neighbors on real sockets.

mod rib_calls;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use sluice_base::{
    Asn, InterfaceEvent, IpKey, IpPrefix, Ipv4Prefix, Prefix, Provenance, RouteAction, TableId,
};
use sluice_bgp::speaker::Settings;
use sluice_bgp::wire::attribute::{code, put_header};
use sluice_bgp::wire::{
    AFI_IPV4, AFI_IPV6, Capability, FamilyKey, Frame as Message, MessageType, Nlri, Open, Update, header,
};
use sluice_bgp_process::BgpProcess;
use sluice_process::part::{Change, Edit, Part, Planned};
use sluice_process::{Component, Frame, Prepared, Profile};
use sluice_xrl::finder::Finder;
use sluice_xrl::idl::{fea::v1 as fea, rib::v1 as rib};
use sluice_xrl::{Acl, CallContext, EndpointOptions, Principal, Target, TargetHandle, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener};
use tokio::sync::Notify;

pub const SECRET: [u8; 16] = [1; 16];
/// Opens sockets as the FEA does, but listens on any free port.
#[derive(Default)]
pub struct FakeFea {
    descriptors: RefCell<BTreeMap<Vec<u8>, OwnedFd>>,
    pub listening: Cell<Option<SocketAddr>>,
    opened: Cell<u64>,
    pub changed: Notify,
    /// Refuse to open listeners.
    pub refuses: Cell<bool>,
}

impl FakeFea {
    fn offer(&self, descriptor: OwnedFd) -> fea::OpenReply {
        self.opened.set(self.opened.get() + 1);
        let mut token = [0; 16].to_vec();
        token[..8].copy_from_slice(&self.opened.get().to_be_bytes());
        self.descriptors.borrow_mut().insert(token.clone(), descriptor);
        self.changed.notify_waiters();
        fea::OpenReply { socket: self.opened.get(), token }
    }

    /// Hands descriptors to owners of a token.
    pub async fn serve(self: Rc<Self>, run_dir: std::path::PathBuf) {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::SEQPACKET, None).unwrap();
        let address = sluice_process::descriptor::socket_path(&run_dir);
        std::fs::create_dir_all(address.parent().unwrap()).unwrap();
        socket.bind(&socket2::SockAddr::unix(address).unwrap()).unwrap();
        socket.listen(16).unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = UnixListener::from_std(socket.into()).unwrap();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut token = vec![0; 16];
            stream.read_exact(&mut token).await.unwrap();
            if let Some(descriptor) = self.descriptors.borrow_mut().remove(&token) {
                let rights = [descriptor.as_raw_fd()];
                let control = [ControlMessage::ScmRights(&rights)];
                sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(&[0])], &control, MsgFlags::empty(), None)
                    .unwrap();
            }
        }
    }
}

pub struct Served<T>(pub Rc<T>);

fn not_here<T>() -> Result<T, XrlError> {
    Err(XrlError::application(1, "not in this test"))
}

impl fea::Sockets for Served<FakeFea> {
    async fn open_tcp_listener(
        &self,
        _: &CallContext,
        request: fea::OpenTcpListenerRequest,
    ) -> Result<fea::OpenReply, XrlError> {
        assert_eq!(request.port, 179);
        if self.0.refuses.get() {
            return Err(XrlError::application(1, "Address already in use (os error 98)"));
        }
        let listener = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        self.0.listening.set(Some(listener.local_addr().unwrap()));
        Ok(self.0.offer(listener.into()))
    }

    async fn open_tcp(
        &self,
        _: &CallContext,
        request: fea::OpenTcpRequest,
    ) -> Result<fea::OpenReply, XrlError> {
        assert_eq!(request.options.unwrap().ttl, 1);
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        Ok(self.0.offer(socket.into()))
    }

    async fn open_udp(&self, _: &CallContext, _: fea::OpenUdpRequest) -> Result<fea::OpenReply, XrlError> {
        not_here()
    }

    async fn open_raw(&self, _: &CallContext, _: fea::OpenRawRequest) -> Result<fea::OpenReply, XrlError> {
        not_here()
    }

    async fn open_packet(
        &self,
        _: &CallContext,
        _: fea::OpenPacketRequest,
    ) -> Result<fea::OpenReply, XrlError> {
        not_here()
    }

    async fn adopt_listener(
        &self,
        _: &CallContext,
        _: fea::AdoptListenerRequest,
    ) -> Result<fea::OpenReply, XrlError> {
        not_here()
    }

    async fn set_tcp_md5(
        &self,
        _: &CallContext,
        _: fea::SetTcpMd5Request,
    ) -> Result<fea::SetTcpMd5Reply, XrlError> {
        not_here()
    }

    async fn close_socket(
        &self,
        _: &CallContext,
        _: fea::CloseSocketRequest,
    ) -> Result<fea::CloseSocketReply, XrlError> {
        Ok(fea::CloseSocketReply {})
    }

    async fn share_socket(
        &self,
        _: &CallContext,
        _: fea::ShareSocketRequest,
    ) -> Result<fea::ShareSocketReply, XrlError> {
        not_here()
    }

    async fn start_relay(
        &self,
        _: &CallContext,
        _: fea::StartRelayRequest,
    ) -> Result<fea::StartRelayReply, XrlError> {
        not_here()
    }

    async fn send_packet(
        &self,
        _: &CallContext,
        _: fea::SendPacketRequest,
    ) -> Result<fea::SendPacketReply, XrlError> {
        not_here()
    }
}

impl fea::Interfaces for Served<FakeFea> {
    async fn get_interfaces(
        &self,
        _: &CallContext,
        _: fea::GetInterfacesRequest,
    ) -> Result<fea::GetInterfacesReply, XrlError> {
        not_here()
    }

    async fn subscribe(
        &self,
        _: &CallContext,
        _: fea::SubscribeRequest,
    ) -> Result<fea::SubscribeReply, XrlError> {
        Ok(fea::SubscribeReply {})
    }
}

/// Remembers routes; reaches every next hop, and answers when allowed to.
#[derive(Default)]
pub struct FakeRib {
    pub routes: RefCell<BTreeMap<IpPrefix, Provenance>>,
    /// The number of routes at the end of the refresh.
    pub refreshed: Cell<Option<usize>>,
    /// Received batches.
    pub batches: Cell<usize>,
    /// The time for which the RIB lets changes be gathered.
    pub coalesce_ms: Cell<u32>,
    /// Prefixes whose routes have a backup.
    pub backups: RefCell<BTreeSet<IpPrefix>>,
    /// True if an origin was registered.
    pub has_origin: Cell<bool>,
    /// Refuses subscriptions.
    pub refuses_subscriptions: Cell<bool>,
    /// Refuses to register origins.
    pub refuses: Cell<bool>,
    /// The subscriptions in the order of numbers, from 1: true for a live subscription.
    pub subscriptions: RefCell<Vec<bool>>,
    /// True if the RIB answers questions about next hops.
    pub answers: Cell<bool>,
    pub changed: Notify,
}

impl FakeRib {
    fn take<P: IpKey>(&self, request: &rib::UpdateRoutesRequest) -> Result<(), XrlError> {
        let batch = sluice_xrl::routes::routes_of::<P>(request)?;
        for update in batch.updates {
            self.backups.borrow_mut().remove(&update.prefix.into());
            match update.action {
                RouteAction::Set(set) => {
                    if batch.sets[set as usize].forwarding.next_hops().iter().any(|hop| hop.is_backup) {
                        self.backups.borrow_mut().insert(update.prefix.into());
                    }
                    self.routes.borrow_mut().insert(update.prefix.into(), update.provenance);
                }
                RouteAction::Delete => {
                    assert!(self.routes.borrow_mut().remove(&update.prefix.into()).is_some());
                }
            }
        }
        Ok(())
    }
}

/// A neighbor on a connection, or on the read half of a connection.
pub struct Neighbor<S = TcpStream> {
    pub stream: S,
    pub buffer: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Neighbor<S> {
    /// The next message: type and body.
    pub async fn hear(&mut self) -> (MessageType, Vec<u8>) {
        loop {
            if let Some(Message { kind, body }) = header::frame(&self.buffer).unwrap() {
                let message = (kind, body.to_vec());
                self.buffer.drain(..19 + message.1.len());
                return message;
            }
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "closed");
        }
    }
}

impl Neighbor {
    /// Opens the session of AS 65002.
    pub async fn open(stream: TcpStream) -> Self {
        Self::open_as(stream, 65002).await
    }

    /// Opens the session.
    pub async fn open_as(stream: TcpStream, asn: u16) -> Self {
        let mut neighbor = Neighbor { stream, buffer: vec![] };
        let (kind, body) = neighbor.hear().await;
        assert_eq!(kind, MessageType::Open);
        assert_eq!(Open::decode(&body).unwrap().asn().0, 65001);
        neighbor.stream.write_all(&Self::hello(asn)).await.unwrap();
        neighbor
    }

    /// OPEN and KEEPALIVE.
    pub fn hello(asn: u16) -> Vec<u8> {
        let mut octets = vec![];
        Open {
            version: 4,
            as_field: asn,
            hold_time: 90,
            router_id: sluice_base::RouterId(asn.into()),
            capabilities: vec![
                Capability::unicast(AFI_IPV4),
                Capability::unicast(AFI_IPV6),
                Capability::FourOctetAs(Asn(asn.into())),
                Capability::RouteRefresh,
            ],
        }
        .put(&mut octets);
        header::put_keepalive(&mut octets);
        octets
    }

    /// Announces `count` prefixes and sends End-of-RIB.
    pub async fn announce(&mut self, count: u32) {
        self.announce_via(Ipv4Addr::new(10, 9, 9, 9), count).await;
    }

    /// Announces `count` prefixes through a next hop and sends End-of-RIB.
    pub async fn announce_via(&mut self, next_hop: Ipv4Addr, count: u32) {
        let mut octets = vec![];
        for first in (0..count).step_by(500) {
            let at = header::start(&mut octets, MessageType::Update);
            let mut attributes = vec![];
            let parts: [(u8, u8, &[u8]); 3] = [
                (0x40, code::ORIGIN, &[0]),
                (0x40, code::AS_PATH, &[2, 1, 0, 0, 0xfd, 0xea]),
                (0x40, code::NEXT_HOP, &next_hop.octets()),
            ];
            for (flags, code, value) in parts {
                put_header(&mut attributes, flags, code, value.len());
                attributes.extend_from_slice(value);
            }
            octets.extend_from_slice(&[0, 0]);
            octets.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
            octets.extend(attributes);
            for n in first..(first + 500).min(count) {
                prefix(n).put(&mut octets);
            }
            header::finish(&mut octets, at);
        }
        sluice_bgp::writer::put_end_of_rib(
            sluice_bgp::family::FamilyIndex::IPV4,
            &sluice_bgp::family::FamilyCodes::DEFAULT,
            &mut octets,
        );
        self.stream.write_all(&octets).await.unwrap();
    }

    /// Hears UPDATEs until the End-of-RIB marker; the prefixes announced.
    pub async fn hear_all(&mut self) -> Vec<Ipv4Prefix> {
        let mut prefixes = vec![];
        loop {
            let (kind, body) = self.hear().await;
            if kind != MessageType::Update {
                continue;
            }
            let update = Update::decode(&body).unwrap();
            if update.is_empty() {
                return prefixes;
            }
            prefixes.extend(Nlri::<Ipv4Prefix>::new(update.nlri, 0).flatten());
        }
    }
}

pub fn prefix(n: u32) -> Ipv4Prefix {
    Ipv4Prefix::from_parts(0x1400_0000 + (n << 8), 24).unwrap()
}

pub async fn router(dir: &Path) -> XrlEndpoint {
    XrlEndpoint::connect(EndpointOptions::new(dir.join("finder"), SECRET, dir)).await.unwrap()
}

pub async fn until(changed: &Notify, is: impl Fn() -> bool) {
    while !is() {
        let change = changed.notified();
        if !is() {
            let _ = tokio::time::timeout(Duration::from_millis(100), change).await;
        }
    }
}

/// BGP's process in its surroundings.
pub struct Surroundings {
    pub process: Rc<BgpProcess>,
    pub fea: Rc<FakeFea>,
    pub rib: Rc<FakeRib>,
    /// The endpoint of BGP's clients.
    pub others: XrlEndpoint,
    _finder: Finder,
    rib_target: Option<TargetHandle>,
    _targets: Vec<TargetHandle>,
}

impl Surroundings {
    /// The FEA tells of an interface.
    pub async fn interface(&self, event: &InterfaceEvent) {
        let events = vec![event.into()];
        let client = fea::InterfaceObserverClient::new(&self.others, "bgp");
        client
            .interface_changed(fea::InterfaceChangedRequest { events, takes_programs: None })
            .await
            .unwrap();
    }

    /// Ends the RIB and starts it again.
    pub async fn restart_rib(&mut self) {
        self.rib_target = None;
        self.rib_target = Some(register_rib(&self.others, &self.rib).await);
    }
}

async fn register_rib(router: &XrlEndpoint, fake: &Rc<FakeRib>) -> TargetHandle {
    loop {
        let services = vec![rib::rib_service(Rc::new(Served(Rc::clone(fake))))];
        match router.register(Target::new("rib", services).singleton()).await {
            Err(XrlError::NameTaken(_)) => {} // the Finder has not forgotten the one before yet
            registered => return registered.unwrap(),
        }
    }
}

/// Prepares a whole configuration, as the frame of a process does.
pub async fn prepare(
    process: &Rc<BgpProcess>,
    config: serde_json::Value,
) -> Result<Prepared<Settings>, String> {
    let edits = config.as_object().into_iter().flatten();
    let edits = edits.map(|(name, value)| Edit {
        subtree: None,
        name: name.clone(),
        key: None,
        value: Some(value.clone()),
    });
    let change = Change { clear: true, edits: edits.collect() };
    Rc::clone(process).survey().await;
    process.prepare(&Planned { part: &Part::default(), change: &change }).map_err(|e| e.to_string())
}

/// Hands the router its whole configuration.
pub async fn configure(process: &Rc<BgpProcess>, config: serde_json::Value) -> Result<(), String> {
    let prepared = prepare(process, config).await?;
    Rc::clone(process).apply(prepared.settings).await.map_err(|e| e.to_string())
}

/// Starts BGP's process, not configured yet.
pub async fn surround(dir: &Path) -> Surroundings {
    surround_with(dir, FakeRib::default()).await
}

/// Starts BGP's process beside a RIB, without a configuration.
pub async fn surround_with(dir: &Path, fake_rib: FakeRib) -> Surroundings {
    let acl = Acl::from([(SECRET, Principal::all_powerful("tests"))]);
    let finder = Finder::bind(dir.join("finder"), acl).await.unwrap();
    let others = router(dir).await;
    let (fake_fea, fake_rib) = (Rc::new(FakeFea::default()), Rc::new(fake_rib));
    tokio::task::spawn_local(Rc::clone(&fake_fea).serve(dir.to_path_buf()));
    let services = vec![
        fea::sockets_service(Rc::new(Served(Rc::clone(&fake_fea)))),
        fea::interfaces_service(Rc::new(Served(Rc::clone(&fake_fea)))),
    ];
    let fea_target = others.register(Target::new("fea", services).singleton()).await.unwrap();
    let rib_target = Some(register_rib(&others, &fake_rib).await);
    let frame = Frame {
        router: router(dir).await,
        profile: Profile::default(),
        run_dir: dir.to_path_buf(),
        name: "bgp".into(),
        table: TableId::MAIN,
        provenance: Provenance::new(9, 0),
    };
    let process = BgpProcess::new(frame.clone());
    let target = frame.router.register(Target::new("bgp", process.services()).singleton()).await.unwrap();
    Rc::clone(&process).registered(target.instance().to_string()).await;
    let surroundings = Surroundings {
        process,
        fea: fake_fea,
        rib: fake_rib,
        others,
        _finder: finder,
        rib_target,
        _targets: vec![fea_target, target],
    };
    // The host has no interfaces, and the FEA has notified of all of them.
    surroundings.interface(&InterfaceEvent::SnapshotEnd).await;
    surroundings
}
