//! The interface `Sockets` through a Finder, as a component uses it.
#![allow(clippy::unwrap_used)]

use sluice_fea::socket::{SocketPolicy, SocketRights};
use sluice_fea_process::sockets::Sockets;
use sluice_process::descriptor::fetch;
use sluice_xrl::finder::Finder;
use sluice_xrl::idl::fea::v1::{self as pb, SocketsClient, sockets_service};
use sluice_xrl::{Acl, Principal, Router, RouterOptions, Target, TargetHandle, XrlError};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::rc::Rc;

const SECRET: [u8; 16] = [7; 16];

fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limit = std::time::Duration::from_secs(60);
    let all = async { tokio::time::timeout(limit, test()).await.expect("the test ends in time") };
    tokio::task::LocalSet::new().block_on(&runtime, all);
}

async fn router(dir: &Path) -> Router {
    Router::connect(RouterOptions::new(dir.join("finder"), SECRET, dir)).await.unwrap()
}

/// A Finder, the FEA's sockets, and the component `bgp` that calls them.
struct World {
    dir: tempfile::TempDir,
    _finder: Finder,
    broker: Rc<Sockets>,
    caller: Router,
    _registered: [TargetHandle; 2],
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let acl = Acl::from([(SECRET, Principal::all_powerful("tests"))]);
        let finder = Finder::bind(dir.path().join("finder"), acl).await.unwrap();
        let fea = router(dir.path()).await;
        let broker = Sockets::new(fea.clone());
        broker.serve(dir.path()).unwrap();
        let services = vec![sockets_service(broker.service())];
        let served = fea.register(Target::new("fea", services)).await.unwrap();
        let caller = router(dir.path()).await;
        let bgp = caller.register(Target::new("bgp", Vec::new())).await.unwrap();
        World { dir, _finder: finder, broker, caller, _registered: [served, bgp] }
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
        world.allow(SocketRights { tcp_listen: vec![port], tcp_connect: vec![port], ..Default::default() });
        denied(client.open_tcp_listener(listen(port ^ 1)).await, "bgp may not listen on TCP port");

        let reply = client.open_tcp_listener(listen(port)).await.unwrap();
        let listener = TcpListener::from(fetch(world.dir.path(), &reply.token).await.unwrap());
        assert_eq!(listener.local_addr().unwrap().port(), port);
        let taken = client.open_tcp_listener(listen(port)).await;
        assert!(taken.unwrap_err().to_string().contains("in use"));
        let remote = Some(IpAddr::from([127, 0, 0, 2]).into());
        let key = pb::SetTcpMd5Request { socket: reply.socket, remote, password: "secret".into() };
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
        world.allow(SocketRights { tcp_listen: vec![port], ..Default::default() });
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
        world.allow(SocketRights { tcp_listen: vec![port], ..Default::default() });
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
