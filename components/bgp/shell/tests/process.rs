//! The process between a Finder, a scripted FEA, a scripted RIB and a neighbour on a real socket.
#![allow(clippy::unwrap_used)] // a test that cannot go on says so

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use sluice_base::{Ipv4Prefix, Prefix, Provenance, RouteAction};
use sluice_bgp::wire::attribute::{code, put_header};
use sluice_bgp::wire::{
    AFI_IPV4, Capability, Frame as Message, MessageType, Nlri, Open, Unicast, Update, header,
};
use sluice_bgp_shell::BgpShell;
use sluice_bgp_shell::idl::bgp::v1 as bgp;
use sluice_shell::{Component, Frame, Profile};
use sluice_xrl::finder::Finder;
use sluice_xrl::idl::{fea::v1 as fea, rib::v1 as rib};
use sluice_xrl::{Acl, CallContext, Principal, Router, RouterOptions, Target, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Notify;

const SECRET: [u8; 16] = [1; 16];
const NEIGHBOR: &str = "127.0.0.2";

/// Opens sockets as the FEA does, but listens on any free port.
#[derive(Default)]
struct FakeFea {
    descriptors: RefCell<BTreeMap<Vec<u8>, OwnedFd>>,
    listening: Cell<Option<SocketAddr>>,
    opened: Cell<u64>,
    changed: Notify,
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

    /// Hands descriptors to those who have a token.
    async fn serve(self: Rc<Self>, run_dir: std::path::PathBuf) {
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::SEQPACKET, None).unwrap();
        let address = sluice_shell::descriptor::socket_path(&run_dir);
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

struct Served<T>(Rc<T>);

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

/// Remembers routes; reaches every next hop, and says so when it is let.
#[derive(Default)]
struct FakeRib {
    routes: RefCell<BTreeMap<Ipv4Prefix, Provenance>>,
    /// How many routes there were when everything had been announced.
    refreshed: Cell<Option<usize>>,
    /// Whether it answers questions about next hops.
    answers: Cell<bool>,
    changed: Notify,
}

impl rib::Rib for Served<FakeRib> {
    async fn register_origin(
        &self,
        _: &CallContext,
        request: rib::RegisterOriginRequest,
    ) -> Result<rib::RegisterOriginReply, XrlError> {
        assert!(request.external && request.origin == "bgp");
        Ok(rib::RegisterOriginReply { stale_routes: 0 })
    }

    async fn unregister_origin(
        &self,
        _: &CallContext,
        _: rib::UnregisterOriginRequest,
    ) -> Result<rib::UnregisterOriginReply, XrlError> {
        not_here()
    }

    async fn update_routes(
        &self,
        _: &CallContext,
        request: rib::UpdateRoutesRequest,
    ) -> Result<rib::UpdateRoutesReply, XrlError> {
        let batch = sluice_xrl::routes::routes_of::<Ipv4Prefix>(&request)?;
        for update in batch.updates {
            match update.action {
                RouteAction::Set(_) => {
                    self.0.routes.borrow_mut().insert(update.prefix, update.provenance);
                }
                RouteAction::Delete => assert!(self.0.routes.borrow_mut().remove(&update.prefix).is_some()),
            }
        }
        self.0.changed.notify_waiters();
        Ok(rib::UpdateRoutesReply {})
    }

    async fn end_of_refresh(
        &self,
        _: &CallContext,
        _: rib::EndOfRefreshRequest,
    ) -> Result<rib::EndOfRefreshReply, XrlError> {
        self.0.refreshed.set(Some(self.0.routes.borrow().len()));
        self.0.changed.notify_waiters();
        Ok(rib::EndOfRefreshReply {})
    }

    async fn register_interest(
        &self,
        _: &CallContext,
        request: rib::RegisterInterestRequest,
    ) -> Result<rib::RegisterInterestReply, XrlError> {
        until(&self.0.changed, || self.0.answers.get()).await;
        let hop = sluice_base::NextHop::on(sluice_base::InterfaceIndex::new(1).unwrap());
        let forwarding: sluice_xrl::idl::common::v1::Forwarding = (&sluice_base::Forwarding::one(hop)).into();
        let answers = request.addrs.iter().map(|addr| {
            let net = sluice_xrl::idl::common::v1::Net { octets: addr.octets.clone(), length: 32 };
            rib::Interest {
                valid: Some(net.clone()),
                reachable: true,
                net: Some(net),
                metric: 5,
                distance: 0,
                connected: true,
                forwarding: Some(forwarding.clone()),
            }
        });
        Ok(rib::RegisterInterestReply { answers: answers.collect() })
    }

    async fn deregister_interest(
        &self,
        _: &CallContext,
        _: rib::DeregisterInterestRequest,
    ) -> Result<rib::DeregisterInterestReply, XrlError> {
        Ok(rib::DeregisterInterestReply {})
    }

    async fn subscribe(
        &self,
        _: &CallContext,
        _: rib::SubscribeRequest,
    ) -> Result<rib::SubscribeReply, XrlError> {
        not_here()
    }

    async fn unsubscribe(
        &self,
        _: &CallContext,
        _: rib::UnsubscribeRequest,
    ) -> Result<rib::UnsubscribeReply, XrlError> {
        not_here()
    }

    async fn lookup_route(
        &self,
        _: &CallContext,
        _: rib::LookupRouteRequest,
    ) -> Result<rib::LookupRouteReply, XrlError> {
        not_here()
    }

    async fn get_routes(
        &self,
        _: &CallContext,
        _: rib::GetRoutesRequest,
    ) -> Result<rib::GetRoutesReply, XrlError> {
        not_here()
    }

    async fn get_summary(
        &self,
        _: &CallContext,
        _: rib::GetSummaryRequest,
    ) -> Result<rib::GetSummaryReply, XrlError> {
        not_here()
    }
}

/// A neighbour of AS 65002 on a connection.
struct Neighbor {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Neighbor {
    /// The next message: type and body.
    async fn hear(&mut self) -> (MessageType, Vec<u8>) {
        loop {
            if let Some(Message { kind, body }) = header::frame(&self.buffer).unwrap() {
                let message = (kind, body.to_vec());
                self.buffer.drain(..19 + message.1.len());
                return message;
            }
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "closed");
        }
    }

    /// Opens the session.
    async fn open(stream: TcpStream) -> Self {
        let mut neighbor = Neighbor { stream, buffer: vec![] };
        let (kind, body) = neighbor.hear().await;
        assert_eq!(kind, MessageType::Open);
        assert_eq!(Open::decode(&body).unwrap().asn().0, 65001);
        let mut octets = vec![];
        Open {
            version: 4,
            as_field: 65002,
            hold_time: 90,
            router_id: sluice_base::RouterId(2),
            capabilities: vec![
                Capability::unicast(AFI_IPV4),
                Capability::FourOctetAs(sluice_base::Asn(65002)),
                Capability::RouteRefresh,
            ],
        }
        .put(&mut octets);
        header::put_keepalive(&mut octets);
        neighbor.stream.write_all(&octets).await.unwrap();
        neighbor
    }

    /// Announces `count` prefixes and says that this was all.
    async fn announce(&mut self, count: u32) {
        let mut octets = vec![];
        for first in (0..count).step_by(500) {
            let at = header::start(&mut octets, MessageType::Update);
            let mut attributes = vec![];
            let parts: [(u8, u8, &[u8]); 3] = [
                (0x40, code::ORIGIN, &[0]),
                (0x40, code::AS_PATH, &[2, 1, 0, 0, 0xfd, 0xea]),
                (0x40, code::NEXT_HOP, &[10, 9, 9, 9]),
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
        sluice_bgp::writer::put_end_of_rib(sluice_base::Family::Ipv4, &mut octets);
        self.stream.write_all(&octets).await.unwrap();
    }

    /// Hears UPDATEs until the End-of-RIB marker; the prefixes announced.
    async fn hear_all(&mut self) -> Vec<Ipv4Prefix> {
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

fn prefix(n: u32) -> Ipv4Prefix {
    Ipv4Prefix::from_parts(0x1400_0000 + (n << 8), 24).unwrap()
}

async fn router(dir: &Path) -> Router {
    Router::connect(RouterOptions::new(dir.join("finder"), SECRET, dir)).await.unwrap()
}

async fn until(changed: &Notify, is: impl Fn() -> bool) {
    while !is() {
        let change = changed.notified();
        if !is() {
            let _ = tokio::time::timeout(Duration::from_millis(100), change).await;
        }
    }
}

#[test]
fn a_session_over_real_sockets() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(60), scenario()).await.expect("it ends in time");
    });
}

async fn scenario() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let acl = Acl::from([(SECRET, Principal::all_powerful("tests"))]);
    let _finder = Finder::bind(dir.join("finder"), acl).await.unwrap();

    let others = router(dir).await;
    let (fake_fea, fake_rib) = (Rc::new(FakeFea::default()), Rc::new(FakeRib::default()));
    tokio::task::spawn_local(Rc::clone(&fake_fea).serve(dir.to_path_buf()));
    let services = vec![
        fea::sockets_service(Rc::new(Served(Rc::clone(&fake_fea)))),
        fea::interfaces_service(Rc::new(Served(Rc::clone(&fake_fea)))),
    ];
    let _fea = others.register(Target::new("fea", services).singleton()).await.unwrap();
    let services = vec![rib::rib_service(Rc::new(Served(Rc::clone(&fake_rib))))];
    let _rib = others.register(Target::new("rib", services).singleton()).await.unwrap();

    let frame = Frame {
        router: router(dir).await,
        profile: Profile::default(),
        run_dir: dir.to_path_buf(),
        provenance: Provenance::new(9, 0),
    };
    let shell = BgpShell::new(frame.clone());
    let handle = frame.router.register(Target::new("bgp", shell.services()).singleton()).await.unwrap();
    Rc::clone(&shell).registered(handle.instance().to_string()).await;

    let listener = TcpListener::bind((NEIGHBOR, 0)).await.unwrap();
    let config = serde_json::json!({
        "local-as": 65001, "router-id": "10.0.0.1", "network": ["192.0.2.0/24"],
        "neighbor": [{"address": NEIGHBOR, "peer-as": 65002, "port": listener.local_addr().unwrap().port()}],
    });
    assert!(Rc::clone(&shell).configure(serde_json::json!({"local-as": "x"}), true).await.is_err());
    Rc::clone(&shell).configure(config, false).await.unwrap();

    // The router connects, tells its network, takes a table and hands it to the RIB.
    let (stream, _) = listener.accept().await.unwrap();
    let mut neighbor = Neighbor::open(stream).await;
    neighbor.announce(20_000).await;
    assert_eq!(neighbor.hear_all().await, ["192.0.2.0/24".parse().unwrap()]);
    // The neighbour has told everything, and nothing of it can be announced while its next hop is not known.
    all_told(&others).await;
    assert_eq!(fake_rib.refreshed.get(), None);
    fake_rib.answers.set(true);
    fake_rib.changed.notify_waiters();
    until(&fake_rib.changed, || fake_rib.refreshed.get().is_some()).await;
    assert_eq!(fake_rib.refreshed.get(), Some(20_000), "all is said to be announced when it is");
    let provenance = fake_rib.routes.borrow()[&prefix(7)];
    assert_eq!(provenance.source(), 9);

    ask(&others).await;

    // The neighbour connects by itself while the session is up: the session stays, the new connection goes.
    until(&fake_fea.changed, || fake_fea.listening.get().is_some()).await;
    let port = fake_fea.listening.get().unwrap().port();
    let second = tokio::net::TcpSocket::new_v4().unwrap();
    second.bind(SocketAddr::new(NEIGHBOR.parse().unwrap(), 0)).unwrap();
    let stream = second.connect(SocketAddr::new("127.0.0.1".parse().unwrap(), port)).await.unwrap();
    let mut late = Neighbor::open(stream).await;
    assert_eq!(late.hear().await, (MessageType::Notification, vec![6, 7]));

    // The session is lost: so are its routes.
    drop(neighbor);
    until(&fake_rib.changed, || fake_rib.routes.borrow().is_empty()).await;

    // It comes back by the neighbour's own connection, and ends with a word when the process does.
    let (stream, _) = listener.accept().await.unwrap();
    let mut neighbor = Neighbor::open(stream).await;
    neighbor.announce(10).await;
    until(&fake_rib.changed, || fake_rib.routes.borrow().len() == 10).await;
    Rc::clone(&shell).shutdown(false).await;
    loop {
        let (kind, body) = neighbor.hear().await;
        if kind == MessageType::Notification {
            assert_eq!(body, [6, 3]);
            break;
        }
    }
    assert_eq!(fake_rib.routes.borrow().len(), 10, "the RIB keeps the routes for the next life");
}

/// Asks until the neighbour has told all its routes.
async fn all_told(router: &Router) {
    let client = bgp::BgpClient::new(router, "bgp");
    loop {
        let reply = client.get_neighbors(bgp::GetNeighborsRequest::default()).await.unwrap();
        if reply.neighbors[0].families[0].end_of_rib {
            return;
        }
    }
}

/// What operators ask.
async fn ask(router: &Router) {
    let client = bgp::BgpClient::new(router, "bgp");
    let summary = client.get_summary(bgp::GetSummaryRequest {}).await.unwrap();
    assert_eq!(
        (summary.established, summary.tables[0].prefixes, summary.tables[0].in_rib),
        (1, 20_001, 20_000)
    );
    let reply = client.get_neighbors(bgp::GetNeighborsRequest::default()).await.unwrap();
    let neighbor = &reply.neighbors[0];
    assert_eq!((neighbor.state.as_str(), neighbor.families[0].prefixes_received), ("Established", 20_000));
    assert!(neighbor.families[0].end_of_rib && neighbor.hold_time == 90);
    let unknown = bgp::GetNeighborsRequest { address: "10.0.0.99".into() };
    assert!(client.get_neighbors(unknown).await.is_err());

    let mut request = bgp::GetRoutesRequest {
        family: sluice_xrl::idl::common::v1::Family::Ipv4.into(),
        received_from: NEIGHBOR.into(),
        ..bgp::GetRoutesRequest::default()
    };
    let mut routes = 0;
    loop {
        let reply = client.get_routes(request.clone()).await.unwrap();
        routes += reply.routes.len();
        if reply.next_page == 0 {
            break;
        }
        request.page = reply.next_page;
    }
    assert_eq!(routes, 20_000);
    let longest = bgp::GetRoutesRequest {
        net: Some(sluice_xrl::convert::net(Ipv4Prefix::from_parts(0x1400_0001, 32).unwrap())),
        r#match: bgp::Match::Longest.into(),
        ..bgp::GetRoutesRequest::default()
    };
    let reply = client.get_routes(longest).await.unwrap();
    let path = &reply.routes[0].paths[0];
    assert_eq!((path.as_path.as_str(), path.best, path.interior_cost), ("65002", true, 5));
    let plumbing = client.get_plumbing(bgp::GetPlumbingRequest {}).await.unwrap();
    assert_eq!(plumbing.tables[0].next_hops[0].resolution, "reachable");
}
