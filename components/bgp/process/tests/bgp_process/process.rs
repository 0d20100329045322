//! The process between a Finder, a scripted FEA, a scripted RIB and a neighbor on a real socket.

use crate::fake::{
    FakeFea, FakeRib, Neighbor, Surroundings, configure, prefix, prepare, surround, surround_with, until,
};
use sluice_base::{
    FamilyId, Forwarding, IpPrefix, Ipv4Prefix, Prefix, Provenance, RouteAction, RouteBatch, RouteSet,
    RouteUpdate,
};
use sluice_bgp::wire::{HEADER_LEN, MessageType};
use sluice_bgp_process::idl::bgp::v1 as bgp;
use sluice_process::{Component, EffectKind};
use sluice_xrl::XrlEndpoint;
use sluice_xrl::idl::rib::v1 as rib;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const NEIGHBOR: &str = "127.0.0.2";

fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(60), scenario).await.expect("it ends in time");
    });
}

#[test]
fn a_session_over_real_sockets() {
    run(scenario());
}

#[test]
fn changes_that_nobody_waits_for_are_gathered() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let Surroundings { process, rib, others, .. } = &surround(dir.path()).await;
        rib.answers.set(true);
        rib.coalesce_ms.set(300);
        let listener = TcpListener::bind((NEIGHBOR, 0)).await.unwrap();
        let config = serde_json::json!({
            "local-as": 65001, "router-id": "10.0.0.1", "default-policy": "accept",
            "neighbor": [{"address": NEIGHBOR, "peer-as": 65002, "port": listener.local_addr().unwrap().port()}],
        });
        configure(process, config).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut neighbor = Neighbor::open(stream).await;
        let client = bgp::BgpClient::new(others, "bgp");
        let count = 30;
        for n in 1..=count {
            neighbor.announce(n).await;
            // BGP has decided: the RIB could be notified of this one alone.
            while client.get_summary(bgp::GetSummaryRequest {}).await.unwrap().tables[0].prefixes < n.into() {
            }
        }
        until(&rib.changed, || rib.routes.borrow().len() == count as usize).await;
        assert!(rib.batches.get() < count as usize, "{} batches of {count} routes", rib.batches.get());
        // What is much is not held up by that.
        neighbor.announce(20_000).await;
        until(&rib.changed, || rib.routes.borrow().len() == 20_000).await;
        Rc::clone(process).shutdown(false).await;
    });
}

/// A RIB that sends routes of `static` to its subscriber.
struct Redistributing<'s> {
    subscriber: rib::RouteSubscriberClient,
    bgp: bgp::BgpClient,
    rib: &'s FakeRib,
}

impl Redistributing<'_> {
    /// Sends changes of IPv4 routes: the number of the prefix, and whether there is a route.
    async fn send(&self, subscription: u64, changes: &[(u32, bool)], dump_done: bool) {
        let update = |(n, is_set): &(u32, bool)| RouteUpdate {
            prefix: prefix(*n),
            action: if *is_set { RouteAction::Set(0) } else { RouteAction::Delete },
            provenance: Provenance::NONE,
        };
        let sets = vec![RouteSet::plain(Forwarding::Discard)];
        let batch = RouteBatch { sets, updates: changes.iter().map(update).collect() };
        let origin = rib::SubscribedOrigin { name: "static".into(), distance: 1, ..Default::default() };
        let request = rib::SubscribedRoutesRequest {
            subscription,
            family: FamilyId::IPV4.0.into(),
            packed: sluice_xrl::routes::encode_routes(&batch),
            dump_done,
            origins: vec![origin],
            set_origins: vec![0],
        };
        self.subscriber.subscribed_routes(request).await.unwrap();
    }

    /// Waits until BGP originates exactly these IPv4 prefixes.
    async fn originates(&self, expected: &[u32]) {
        let expected: Vec<String> = expected.iter().map(|n| prefix(*n).to_string()).collect();
        loop {
            let request =
                bgp::GetRoutesRequest { family: FamilyId::IPV4.0.into(), limit: 100, ..Default::default() };
            let routes = self.bgp.get_routes(request).await.unwrap().routes;
            let nets = routes.into_iter().map(|route| route.net.unwrap());
            let found: Vec<String> = nets.map(|net| IpPrefix::try_from(&net).unwrap().to_string()).collect();
            if found == expected {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until exactly the subscriptions with these numbers are live.
    async fn subscribed(&self, numbers: &[usize]) {
        let live = || {
            let all = self.rib.subscriptions.borrow();
            (1..=all.len()).filter(|n| all[n - 1]).collect::<Vec<_>>()
        };
        until(&self.rib.changed, || live() == numbers).await;
    }
}

#[test]
fn redistributed_routes_follow_the_rib() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let mut surroundings = surround(dir.path()).await;
        let (process, rib) = (Rc::clone(&surroundings.process), Rc::clone(&surroundings.rib));
        let others = surroundings.others.clone();
        let redistributing = Redistributing {
            subscriber: rib::RouteSubscriberClient::new(&others, "bgp"),
            bgp: bgp::BgpClient::new(&others, "bgp"),
            rib: &rib,
        };
        let r = &redistributing;
        let configured = |origins: &[&str]| {
            let origins: Vec<_> =
                origins.iter().map(|o| serde_json::json!({"origin": o, "policy": ["p"]})).collect();
            let terms = serde_json::json!([{"name": "all", "then": {"accept": [null]}}]);
            let policy = serde_json::json!({"policy-statement": [{"name": "p", "term": terms}]});
            serde_json::json!({"local-as": 65001, "router-id": "10.0.0.1", "redistribute": origins, "policy": policy})
        };
        let refused = configure(&process, configured(&["bgp"])).await.unwrap_err();
        assert!(refused.contains("expected another origin"), "{refused}");
        configure(&process, configured(&["static"])).await.unwrap();
        r.subscribed(&[1, 2, 3]).await;
        r.send(1, &[(1, true), (2, true)], true).await;
        r.originates(&[1, 2]).await;
        r.send(1, &[(1, false), (3, true)], false).await;
        r.originates(&[2, 3]).await;
        // The next RIB has a route less, and another one.
        surroundings.restart_rib().await;
        until(&rib.changed, || rib.subscriptions.borrow().len() == 6).await;
        r.send(4, &[(3, true), (4, true)], false).await;
        r.originates(&[2, 3, 4]).await;
        r.send(4, &[], true).await;
        r.originates(&[3, 4]).await;
        // Other origins: another subscription, and routes of the ended one are late.
        *rib.subscriptions.borrow_mut() = vec![false, false, false, true, true, true];
        configure(&process, configured(&["connected", "static"])).await.unwrap();
        r.subscribed(&[7, 8, 9]).await;
        r.send(4, &[(9, true)], false).await;
        r.send(7, &[(4, true), (5, true)], true).await;
        r.originates(&[4, 5]).await;
        configure(&process, configured(&[])).await.unwrap();
        r.originates(&[]).await;
        r.subscribed(&[]).await;
        Rc::clone(&process).shutdown(false).await;
    });
}

#[test]
fn a_refused_subscription_is_reported_and_requested_again() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let Surroundings { process, rib, .. } = &surround(dir.path()).await;
        rib.refuses_subscriptions.set(true);
        let config = serde_json::json!({
            "local-as": 65001, "router-id": "10.0.0.1", "redistribute": [{"origin": "static"}],
        });
        configure(process, config).await.unwrap();
        let problem = "the RIB does not send the routes of static";
        while !process.degraded().iter().any(|p| p.contains(problem) && p.contains("it has too many")) {
            tokio::task::yield_now().await;
        }
        rib.refuses_subscriptions.set(false);
        until(&rib.changed, || rib.subscriptions.borrow().len() == 3).await;
        while process.degraded().iter().any(|p| p.contains(problem)) {
            tokio::task::yield_now().await;
        }
        Rc::clone(process).shutdown(false).await;
    });
}

/// Whichever comes first, the RIB or the configuration.
#[test]
fn a_rib_that_is_there_before_the_configuration_hears_of_backups() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let refusing = FakeRib { refuses: true.into(), answers: true.into(), ..FakeRib::default() };
        let mut surroundings = surround_with(dir.path(), refusing).await;
        while surroundings.process.degraded().is_empty() {
            tokio::task::yield_now().await;
        }
        surroundings.rib.refuses.set(false);
        surroundings.restart_rib().await;
        // The process has read that the RIB takes its routes when it has no complaint any more.
        while !surroundings.process.degraded().is_empty() {
            tokio::task::yield_now().await;
        }
        let Surroundings { process, rib, .. } = &surroundings;
        let (mut neighbors, mut listeners) = (vec![], vec![]);
        for address in [NEIGHBOR, "127.0.0.3"] {
            let listener = TcpListener::bind((address, 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            neighbors.push(serde_json::json!({"address": address, "peer-as": 65002, "port": port}));
            listeners.push(listener);
        }
        let config = serde_json::json!({"local-as": 65001, "router-id": "10.0.0.1", "default-policy": "accept", "neighbor": neighbors});
        configure(process, config).await.unwrap();
        let mut opened = vec![];
        for (listener, number) in listeners.iter().zip(1..) {
            let mut neighbor = Neighbor::open(listener.accept().await.unwrap().0).await;
            neighbor.announce_via([10, 9, 9, number].into(), 3).await;
            opened.push(neighbor);
        }
        until(&rib.changed, || rib.backups.borrow().len() == 3).await;
        Rc::clone(process).shutdown(false).await;
    });
}

#[test]
fn a_listener_that_could_not_be_opened_is_tried_again() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let Surroundings { process, fea, others, .. } = &surround(dir.path()).await;
        fea.refuses.set(true);
        let config = serde_json::json!({
            "local-as": 65001, "router-id": "10.0.0.1", "default-policy": "accept",
            "neighbor": [{"address": NEIGHBOR, "peer-as": 65002, "passive": true}],
        });
        configure(process, config).await.unwrap();
        let client = bgp::BgpClient::new(others, "bgp");
        let reason = async || {
            let reply = client.get_neighbors(bgp::GetNeighborsRequest::default()).await.unwrap();
            reply.neighbors[0].reason.clone()
        };
        let degraded = process.degraded().join("; ");
        assert!(degraded.contains("cannot connect over IPv4") && degraded.contains("in use"), "{degraded}");
        let why = reason().await;
        assert!(why.starts_with("this router does not listen") && why.contains("in use"), "{why}");
        fea.refuses.set(false);
        until(&fea.changed, || fea.listening.get().is_some()).await;
        // The status follows when the descriptor was fetched.
        while !process.degraded().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(reason().await, "the neighbor has not connected yet");
        Rc::clone(process).shutdown(false).await;
    });
}

#[test]
fn an_origin_that_the_rib_refuses_is_in_the_status_until_a_rib_takes_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let rib = FakeRib { refuses: true.into(), ..FakeRib::default() };
        let mut surroundings = surround_with(dir.path(), rib).await;
        let process = Rc::clone(&surroundings.process);
        while process.degraded().is_empty() {
            tokio::task::yield_now().await;
        }
        let expected = "the RIB takes no routes of `bgp`: bad arguments: origin: in use";
        assert_eq!(process.degraded(), [expected]);
        surroundings.rib.refuses.set(false);
        surroundings.restart_rib().await;
        while !process.degraded().is_empty() {
            tokio::task::yield_now().await;
        }
        process.shutdown(false).await;
    });
}

#[test]
fn a_neighbor_that_refuses_is_said_to_refuse() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let Surroundings { process, others, .. } = &surround(dir.path()).await;
        // Nobody listens at a port that was somebody's.
        let listener = TcpListener::bind((NEIGHBOR, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let config = serde_json::json!({
            "local-as": 65001, "router-id": "10.0.0.1", "default-policy": "accept",
            "neighbor": [{"address": NEIGHBOR, "peer-as": 65002, "port": port}],
        });
        configure(process, config).await.unwrap();
        let client = bgp::BgpClient::new(others, "bgp");
        loop {
            let reply = client.get_neighbors(bgp::GetNeighborsRequest::default()).await.unwrap();
            match reply.neighbors[0].reason.as_str() {
                "connection refused" => break,
                reason => assert_eq!(reason, ""),
            }
        }
        let refused = client.refresh_neighbor(bgp::RefreshNeighborRequest { address: NEIGHBOR.into() }).await;
        assert!(refused.unwrap_err().to_string().contains("not Established"));
        Rc::clone(process).shutdown(false).await;
    });
}

/// Connects to the router with a TTL, sends an OPEN at once, and returns true if the router answers by an OPEN.
async fn is_answered(fea: &FakeFea, from: &str, ttl: u32) -> bool {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket2::SockRef::from(&socket).set_ttl_v4(ttl).unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    let port = fea.listening.get().unwrap().port();
    let router = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
    let Ok(mut stream) = socket.connect(router).await else { return false };
    let mut header = [0; HEADER_LEN];
    // Before the router looks at the connection: this is its thread.
    let is_written = stream.write_all(&Neighbor::hello(65002)).await.is_ok();
    is_written && stream.read_exact(&mut header).await.is_ok() && header[18] == MessageType::Open as u8
}

/// Connects until the router answers: the router may open its listener anew on notice of the FEA.
async fn until_answered(fea: &FakeFea, from: &str, ttl: u32) {
    while !is_answered(fea, from, ttl).await {
        tokio::task::yield_now().await;
    }
}

#[test]
fn nothing_from_far_away_is_processed() {
    // Both neighbors are protected: the listener drops the packets. One of them is: the first packet is looked at.
    for is_mixed in [false, true] {
        run(async {
            let dir = tempfile::tempdir().unwrap();
            let Surroundings { process, fea, others, .. } = &surround(dir.path()).await;
            let config = serde_json::json!({
                "local-as": 65001, "router-id": "10.0.0.1", "default-policy": "accept",
                "neighbor": [
                    {"address": NEIGHBOR, "peer-as": 65002, "passive": true, "ttl-security": true},
                    {"address": "127.0.0.3", "peer-as": 65002, "passive": true, "ttl-security": !is_mixed},
                ],
            });
            configure(process, config).await.unwrap();
            until(&fea.changed, || fea.listening.get().is_some()).await;
            let far = async {
                for ttl in [64, 254] {
                    assert!(!is_answered(fea, NEIGHBOR, ttl).await, "{ttl}");
                }
            };
            if is_mixed {
                far.await;
                until_answered(fea, "127.0.0.3", 64).await;
            } else {
                // No SYN is answered: the connection is still being made when another one is up.
                tokio::select! {
                    biased;
                    () = far => {}
                    () = until_answered(fea, "127.0.0.3", 255) => {}
                }
            }
            let client = bgp::BgpClient::new(others, "bgp");
            let reply = client.get_neighbors(bgp::GetNeighborsRequest::default()).await.unwrap();
            assert_eq!(reply.neighbors[0].received.unwrap().open, 0);
            until_answered(fea, NEIGHBOR, 255).await;
            Rc::clone(process).shutdown(false).await;
        });
    }
}

#[test]
fn a_bound_below_the_count_is_named_before_the_commit() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let Surroundings { process, others, .. } = &surround(dir.path()).await;
        let listener = TcpListener::bind((NEIGHBOR, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = |bounds: serde_json::Value| {
            serde_json::json!({
                "local-as": 65001, "router-id": "10.0.0.1", "default-policy": "accept", "threads": 2,
                "neighbor": [{"address": NEIGHBOR, "peer-as": 65002, "port": port,
                    "ipv4-unicast": {"maximum-prefixes": bounds}}],
            })
        };
        configure(process, config(serde_json::json!({}))).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut neighbor = Neighbor::open(stream).await;
        neighbor.announce(100).await;
        all_told(others).await;
        let effects = async |bounds| prepare(process, config(bounds)).await.unwrap().effects;
        assert_eq!(effects(serde_json::json!({"received": 100})).await, []);
        let found = effects(serde_json::json!({"received": 99})).await;
        let kinds: Vec<EffectKind> = found.iter().map(|effect| effect.kind()).collect();
        assert_eq!(kinds, [EffectKind::SessionReset, EffectKind::Noted]);
        assert_eq!(found[0].subjects, [NEIGHBOR]);
        let note = "127.0.0.2 ipv4: 100 prefixes received, more than the configured maximum of 99: the session ends and stays down";
        assert_eq!(found[1].subjects, [note]);
        let warned = effects(serde_json::json!({"received": 99, "action": "warn"})).await;
        assert_eq!((warned.len(), warned[0].kind()), (1, EffectKind::Noted));
        // What was said comes true, with the bound in the NOTIFICATION.
        configure(process, config(serde_json::json!({"received": 99, "restart-after": 600}))).await.unwrap();
        loop {
            let (kind, body) = neighbor.hear().await;
            if kind == MessageType::Notification {
                assert_eq!(body, [6, 1, 0, 1, 1, 0, 0, 0, 99]);
                break;
            }
        }
        let client = bgp::BgpClient::new(others, "bgp");
        let reply = client.get_neighbors(bgp::GetNeighborsRequest::default()).await.unwrap();
        let stop = reply.neighbors[0].stopped.expect("it ended for a bound");
        assert_eq!((stop.bound, stop.count, stop.reopens_in_ms.is_some()), (99, 100, true));
        Rc::clone(process).shutdown(false).await;
    });
}

async fn scenario() {
    let dir = tempfile::tempdir().unwrap();
    let Surroundings { process, fea: fake_fea, rib: fake_rib, others, .. } = &surround(dir.path()).await;
    let listener = TcpListener::bind((NEIGHBOR, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = |threads: u16, scheduling: &str| {
        serde_json::json!({
            "local-as": 65001, "router-id": "10.0.0.1", "default-policy": "accept", "network": ["192.0.2.0/24"],
            "threads": threads, "scheduling": scheduling,
            "neighbor": [{"address": NEIGHBOR, "peer-as": 65002, "port": port}],
        })
    };
    assert!(configure(process, serde_json::json!({"local-as": "x"})).await.is_err());
    configure(process, config(2, "peer")).await.unwrap();

    // The router connects, tells its network, takes a table and hands it to the RIB.
    let (stream, _) = listener.accept().await.unwrap();
    let mut neighbor = Neighbor::open(stream).await;
    neighbor.announce(20_000).await;
    assert_eq!(neighbor.hear_all().await, ["192.0.2.0/24".parse().unwrap()]);
    // The neighbor has announced everything, and nothing of it can be announced while its next hop is not known.
    all_told(others).await;
    assert_eq!(fake_rib.refreshed.get(), None);
    fake_rib.answers.set(true);
    fake_rib.changed.notify_waiters();
    until(&fake_rib.changed, || fake_rib.refreshed.get().is_some()).await;
    assert_eq!(fake_rib.refreshed.get(), Some(20_000), "all is said to be announced when it is");
    let provenance = fake_rib.routes.borrow()[&prefix(7).into()];
    assert_eq!(provenance.source(), 9);

    ask(others).await;

    // Threads come and go while the neighbor talks; the session does not notice.
    for (n, (threads, scheduling)) in
        [(2, "dynamic"), (1, "peer"), (3, "peer"), (4, "dynamic"), (3, "dynamic"), (2, "peer")]
            .into_iter()
            .enumerate()
    {
        let count = 20_001 + n as u32;
        neighbor.announce(count).await;
        configure(process, config(threads, scheduling)).await.unwrap();
        until(&fake_rib.changed, || fake_rib.routes.borrow().len() == count as usize).await;
    }
    let reply = bgp::BgpClient::new(others, "bgp").get_neighbors(bgp::GetNeighborsRequest::default()).await;
    let neighbors = reply.unwrap().neighbors;
    assert_eq!((neighbors[0].flaps, neighbors[0].families[0].prefixes_received), (0, 20_006));
    describes_both_ends(&neighbors[0], port);

    // The neighbor connects by itself while the session is up: the session stays, the new connection goes.
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

    // It comes back by the neighbor's own connection, and ends with a word when the process does.
    let (stream, _) = listener.accept().await.unwrap();
    let mut neighbor = Neighbor::open(stream).await;
    neighbor.announce(10).await;
    until(&fake_rib.changed, || fake_rib.routes.borrow().len() == 10).await;
    Rc::clone(process).shutdown(false).await;
    loop {
        let (kind, body) = neighbor.hear().await;
        if kind == MessageType::Notification {
            assert_eq!(body, [6, 3]);
            break;
        }
    }
    assert_eq!(fake_rib.routes.borrow().len(), 10, "the RIB keeps the routes for the next life");
}

/// An established session is shown with both ends and both OPENs.
fn describes_both_ends(neighbor: &bgp::Neighbor, port: u16) {
    assert_eq!((neighbor.local_as, neighbor.remote_port), (65001, port.into()));
    assert!(neighbor.local_address.starts_with("127.") && neighbor.local_port > 0, "{neighbor:?}");
    assert!(neighbor.capabilities_sent.contains(&"4-octet-as 65001".to_string()), "{neighbor:?}");
    assert!(neighbor.keepalive_time > 0 && neighbor.keepalive_time <= neighbor.hold_time / 3, "{neighbor:?}");
    assert_eq!((neighbor.password, neighbor.multihop, neighbor.last_end.as_ref()), (false, None, None));
    let restart = neighbor.restart.as_ref().expect("its state");
    assert_eq!((restart.helper, restart.own_time), (true, None));
}

/// Asks until the neighbor has announced every route.
async fn all_told(router: &XrlEndpoint) {
    let client = bgp::BgpClient::new(router, "bgp");
    loop {
        let reply = client.get_neighbors(bgp::GetNeighborsRequest::default()).await.unwrap();
        if reply.neighbors[0].families[0].end_of_rib {
            return;
        }
    }
}

/// Makes the requests of operators.
async fn ask(router: &XrlEndpoint) {
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
        limit: 100,
        ..bgp::GetRoutesRequest::default()
    };
    let mut routes: Vec<IpPrefix> = Vec::new();
    loop {
        let reply = client.get_routes(request.clone()).await.unwrap();
        routes.extend(reply.routes.iter().map(|r| IpPrefix::try_from(r.net.as_ref().unwrap()).unwrap()));
        if reply.next_page == 0 {
            break;
        }
        // The first page knows nothing of what comes behind it; the others are of one listing.
        assert!(reply.routes.len() == request.limit as usize);
        (request.page, request.limit) = (reply.next_page, 1_000);
    }
    assert_eq!(routes.len(), 20_000);
    assert!(routes.is_sorted_by(|a, b| a < b), "in the order of the prefixes, each once");
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
