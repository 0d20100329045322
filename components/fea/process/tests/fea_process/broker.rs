//! The interface `Sockets` through a Finder, as a component uses it.

use sluice_clients::{PortRight, SocketRights};
use sluice_fea::socket::SocketPolicy;
use sluice_fea_process::sockets::Sockets;
use sluice_process::descriptor::{fetch, give};
use sluice_xrl::finder::Finder;
use sluice_xrl::idl::fea::v1::{self as pb, SocketsClient, sockets_service};
use sluice_xrl::{Acl, EndpointOptions, Principal, Target, TargetHandle, XrlEndpoint, XrlError};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

const SECRET: [u8; 16] = [7; 16];

fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = std::time::Duration::from_secs(60);
    let all = async { tokio::time::timeout(limit, test()).await.expect("the test ends in time") };
    tokio::task::LocalSet::new().block_on(&runtime, all);
}

async fn router(dir: &Path) -> XrlEndpoint {
    XrlEndpoint::connect(EndpointOptions::new(dir.join("finder"), SECRET, dir)).await.unwrap()
}

/// A Finder, the FEA's sockets, and the component `bgp` that calls them.
struct World {
    dir: tempfile::TempDir,
    _finder: Finder,
    broker: Rc<Sockets>,
    caller: XrlEndpoint,
    served: TargetHandle,
    _caller: TargetHandle,
}

/// The FEA as it starts: it has not been configured.
async fn start_fea(dir: &Path) -> (Rc<Sockets>, TargetHandle) {
    let fea = router(dir).await;
    let broker = Sockets::new(fea.clone());
    broker.serve(dir).unwrap();
    let services = vec![sockets_service(broker.service())];
    let served = fea.register(Target::new("fea", services)).await.unwrap();
    (broker, served)
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let acl = Acl::from([(SECRET, Principal::all_powerful("tests"))]);
        let finder = Finder::bind(dir.path().join("finder"), acl).await.unwrap();
        let (broker, served) = start_fea(dir.path()).await;
        broker.set_policy(SocketPolicy::default());
        let caller = router(dir.path()).await;
        let bgp = caller.register(Target::new("bgp", Vec::new())).await.unwrap();
        World { dir, _finder: finder, broker, caller, served, _caller: bgp }
    }

    /// Another life of the FEA takes the place of this one.
    async fn restart_fea(&mut self) {
        let (broker, served) = start_fea(self.dir.path()).await;
        (self.broker, self.served) = (broker, served);
    }

    /// From now on `bgp` may have these sockets.
    fn allow(&self, rights: SocketRights) {
        self.broker.set_policy(SocketPolicy { components: [("bgp".to_owned(), rights)].into() });
    }
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn listening_on(port: u16) -> SocketRights {
    SocketRights { tcp_listen: vec![PortRight::one(port)], ..Default::default() }
}

fn listen(port: u16) -> pb::OpenTcpListenerRequest {
    let local = Some(IpAddr::from(Ipv4Addr::LOCALHOST).into());
    pb::OpenTcpListenerRequest { local, port: port.into(), ..Default::default() }
}

#[test]
fn a_component_gets_what_its_rights_say() {
    run(|| async {
        let world = World::new().await;
        let client = SocketsClient::new(&world.caller, "fea");
        let port = free_port();
        let denied = |r: Result<pb::OpenReply, XrlError>, why: &str| match r {
            Err(XrlError::AccessDenied(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        };
        denied(client.open_tcp_listener(listen(port)).await, "bgp may not open sockets");
        world.allow(SocketRights { tcp_connect: vec![PortRight::one(port)], ..listening_on(port) });
        denied(client.open_tcp_listener(listen(port ^ 1)).await, "bgp may not listen on TCP port");

        let reply = client.open_tcp_listener(listen(port)).await.unwrap();
        let listener = TcpListener::from(fetch(world.dir.path(), &reply.token).await.unwrap());
        assert_eq!(listener.local_addr().unwrap().port(), port);
        let taken = client.open_tcp_listener(listen(port)).await;
        assert!(taken.unwrap_err().to_string().contains("in use"));
        let remote = Some(IpAddr::from([127, 0, 0, 2]).into());
        let key = pb::SetTcpMd5Request {
            socket: reply.socket,
            remote,
            password: "secret".into(),
            prefix_length: None,
        };
        client.set_tcp_md5(key).await.unwrap();
        assert!(
            client.set_tcp_md5(pb::SetTcpMd5Request { socket: 999, ..Default::default() }).await.is_err()
        );

        let remote = Some(IpAddr::from(Ipv4Addr::LOCALHOST).into());
        let request = pb::OpenTcpRequest { remote, remote_port: port.into(), ..Default::default() };
        let reply = client.open_tcp(request).await.unwrap();
        let connector = socket2::Socket::from(fetch(world.dir.path(), &reply.token).await.unwrap());
        connector.set_nonblocking(false).unwrap();
        connector.connect(&listener.local_addr().unwrap().into()).unwrap();
        // The FEA has no part in it any more: closed here is closed.
        drop(connector);
        listener.set_nonblocking(false).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(false).unwrap();
        assert_eq!(std::io::Read::read(&mut accepted, &mut [0; 8]).unwrap(), 0);
    });
}

#[test]
fn a_listener_goes_when_it_is_closed() {
    run(|| async {
        let world = World::new().await;
        let port = free_port();
        world.allow(listening_on(port));
        let client = SocketsClient::new(&world.caller, "fea");
        // Never fetched, and closed: the port is free again, and the token is void.
        let reply = client.open_tcp_listener(listen(port)).await.unwrap();
        client.close_socket(pb::CloseSocketRequest { socket: reply.socket }).await.unwrap();
        assert!(fetch(world.dir.path(), &reply.token).await.is_err());
        let reply = client.open_tcp_listener(listen(port)).await.unwrap();
        let listener = fetch(world.dir.path(), &reply.token).await.unwrap();
        drop(listener);
        assert!(client.open_tcp_listener(listen(port)).await.is_err(), "the FEA keeps a listener");
        client.close_socket(pb::CloseSocketRequest { socket: reply.socket }).await.unwrap();
        client.open_tcp_listener(listen(port)).await.unwrap();
    });
}

#[test]
fn a_listener_is_shared_with_the_successor_alone() {
    run(|| async {
        let world = World::new().await;
        let port = free_port();
        world.allow(listening_on(port));
        let client = SocketsClient::new(&world.caller, "fea");
        let socket = client.open_tcp_listener(listen(port)).await.unwrap().socket;
        let share = |successor: u32, socket: u64| {
            let shared = client.share_socket(pb::ShareSocketRequest { socket, successor });
            async { shared.await.map(|_| ()).map_err(|e| e.to_string()) }
        };
        let me = std::process::id();
        let strange =
            |outcome: Result<(), String>| assert!(outcome.unwrap_err().contains("does not take over"));
        strange(share(1, socket).await);
        strange(share(me, socket).await);
        let _rip = world.caller.register(Target::new("rip:next", Vec::new())).await.unwrap();
        strange(share(me, socket).await);
        let _next = world.caller.register(Target::new("bgp:next", Vec::new())).await.unwrap();
        share(me, socket).await.unwrap();
        assert!(share(me, 999).await.unwrap_err().contains("is not open"));
    });
}

/// A listener goes on accepting while the FEA starts again; then the new FEA knows it, if the component may have it.
#[test]
fn listeners_survive_the_fea() {
    run(|| async {
        let mut world = World::new().await;
        let port = free_port();
        world.allow(listening_on(port));
        let client = SocketsClient::new(&world.caller, "fea");
        let opened = client.open_tcp_listener(listen(port)).await.unwrap();
        let listener = TcpListener::from(fetch(world.dir.path(), &opened.token).await.unwrap());
        listener.set_nonblocking(false).unwrap();
        let accepts = || {
            let connected = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert_eq!(listener.accept().unwrap().1, connected.local_addr().unwrap());
        };
        // The FEA's copy goes with the FEA, which is a part of this process here.
        client.close_socket(pb::CloseSocketRequest { socket: opened.socket }).await.unwrap();
        world.restart_fea().await;
        accepts();
        let client = SocketsClient::new(&world.caller, "fea");
        let key = |socket: u64| {
            let remote = Some(IpAddr::from([127, 0, 0, 2]).into());
            client.set_tcp_md5(pb::SetTcpMd5Request {
                socket,
                remote,
                password: "secret".into(),
                prefix_length: None,
            })
        };
        // A call before the FEA has its configuration waits for that.
        let early = client.adopt_listener(pb::AdoptListenerRequest {});
        let configured = async { world.allow(listening_on(port ^ 1)) };
        let (early, ()) = tokio::join!(biased; early, configured);
        let refused = give(world.dir.path(), &early.unwrap().token, listener.as_fd()).await;
        assert_eq!(
            refused.unwrap_err().kind(),
            std::io::ErrorKind::PermissionDenied,
            "a port without the right"
        );
        world.allow(listening_on(port));
        let no_listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let reply = client.adopt_listener(pb::AdoptListenerRequest {}).await.unwrap();
        assert!(give(world.dir.path(), &reply.token, no_listener.as_fd()).await.is_err());
        assert!(key(reply.socket).await.is_err(), "nothing was adopted");

        let reply = client.adopt_listener(pb::AdoptListenerRequest {}).await.unwrap();
        give(world.dir.path(), &reply.token, listener.as_fd()).await.unwrap();
        key(reply.socket).await.unwrap();
        accepts();
        let taken = client.open_tcp_listener(listen(port)).await;
        assert!(taken.unwrap_err().to_string().contains("in use"));
        // Adopted twice, it has the later number alone.
        let again = client.adopt_listener(pb::AdoptListenerRequest {}).await.unwrap();
        give(world.dir.path(), &again.token, listener.as_fd()).await.unwrap();
        assert!(key(reply.socket).await.is_err());
        key(again.socket).await.unwrap();
        accepts();
        drop(listener);
        assert!(client.open_tcp_listener(listen(port)).await.is_err(), "the FEA keeps it");
        client.close_socket(pb::CloseSocketRequest { socket: again.socket }).await.unwrap();
        client.open_tcp_listener(listen(port)).await.unwrap();
    });
}

#[test]
fn other_sockets_need_their_rights() {
    run(|| async {
        let world = World::new().await;
        let client = SocketsClient::new(&world.caller, "fea");
        world.allow(SocketRights {
            udp: vec!["49152-65535".parse().unwrap()],
            udp_connect: vec!["123".parse().unwrap()],
            multicast: vec!["ff02::/16".parse().unwrap()],
            packet: vec!["llc:fe".parse().unwrap()],
            icmpv6: vec![133],
            ..Default::default()
        });
        let denied = |r: Result<pb::OpenReply, XrlError>, why: &str| match r {
            Err(XrlError::AccessDenied(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        };
        let local = Some(IpAddr::from(Ipv4Addr::LOCALHOST).into());
        let range = |port, last_port| pb::OpenUdpRequest {
            local: local.clone(),
            port,
            last_port,
            ..Default::default()
        };
        let reply = client.open_udp(range(49152, 65535)).await.unwrap();
        let socket = std::net::UdpSocket::from(fetch(world.dir.path(), &reply.token).await.unwrap());
        assert!(socket.local_addr().unwrap().port() >= 49152);
        denied(client.open_udp(range(49151, 65535)).await, "from 49151 to 65535");
        denied(client.open_udp(range(49151, 0)).await, "bind UDP port 49151");
        let to = |remote_port| pb::OpenUdpRequest { remote: local.clone(), remote_port, ..range(0, 0) };
        let reply = client.open_udp(to(123)).await.unwrap();
        let socket = std::net::UdpSocket::from(fetch(world.dir.path(), &reply.token).await.unwrap());
        assert_eq!(socket.peer_addr().unwrap(), "127.0.0.1:123".parse().unwrap());
        denied(client.open_udp(to(53)).await, "connect to UDP port 53");
        for wrong in [pb::OpenUdpRequest { port: 123, ..to(123) }, to(0), to(65536)] {
            assert!(matches!(client.open_udp(wrong).await, Err(XrlError::BadArguments(_))));
        }
        assert!(matches!(
            client.open_udp(range(50001, 50000)).await,
            Err(XrlError::BadArguments(_) | XrlError::AccessDenied(_))
        ));
        let any: IpAddr = std::net::Ipv6Addr::UNSPECIFIED.into();
        let group: IpAddr = "ff05::2".parse().unwrap();
        let options = pb::SocketOptions { multicast_groups: vec![group.into()], ..Default::default() };
        let grouped = pb::OpenUdpRequest {
            local: Some(any.into()),
            port: 50000,
            options: Some(options),
            ..Default::default()
        };
        denied(client.open_udp(grouped).await, "may not join ff05::2");
        let icmpv6 = |icmpv6_types| pb::OpenRawRequest {
            family: pb_family(),
            protocol: 58,
            icmpv6_types,
            ..Default::default()
        };
        denied(client.open_raw(icmpv6(vec![133, 135])).await, "ICMPv6 type 135");
        denied(client.open_raw(icmpv6(vec![])).await, "IP protocol 58");
        let packet = |protocol, octets: [u8; 6]| pb::OpenPacketRequest {
            interface: "lo".into(),
            protocol: Some(protocol),
            groups: vec![sluice_xrl::idl::common::v1::Mac { octets: octets.to_vec() }],
        };
        use pb::open_packet_request::Protocol::{EtherType, Llc};
        denied(client.open_packet(packet(EtherType(0x88cc), [1; 6])).await, "packet sockets of 0x88cc");
        denied(client.open_packet(packet(Llc(0xfe), [1; 6])).await, "may not join 01:01:01:01:01:01");
        assert!(matches!(
            client.open_packet(packet(Llc(0xfe), [2; 6])).await,
            Err(XrlError::BadArguments(_))
        ));
        assert!(matches!(
            client.open_packet(packet(EtherType(5), [1; 6])).await,
            Err(XrlError::BadArguments(_))
        ));
    });
}

fn pb_family() -> i32 {
    sluice_xrl::idl::common::v1::Family::from(sluice_base::Family::Ipv6).into()
}
