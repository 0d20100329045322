//! Flow control: a peer that does not read stops its senders, and no memory grows. Hostile peers.
#![allow(missing_docs, clippy::unwrap_used)]

use std::rc::Rc;
use std::time::Duration;

use crate::support::*;
use prost::Message;
use sluice_xrl::frame::{self, Bind, Datagram, Frame, Kind};
use sluice_xrl::idl::finder::v1::{FinderClient, ResolveReply, ResolveRequest, TransportFamily};
use sluice_xrl::{MAX_REPLIES, MAX_RUNNING, XrlEndpoint, XrlError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UdpSocket, UnixListener, UnixStream};

/// Returns the Finder's answer about a method of the target `echo`.
async fn resolve(router: &XrlEndpoint, method: &str) -> ResolveReply {
    let request = ResolveRequest {
        target: "echo".to_owned(),
        interface: "echo.v1.Echo".to_owned(),
        method: method.to_owned(),
    };
    FinderClient::new(router, "finder").resolve(request).await.unwrap()
}

/// The Unix socket of a target's method, and a caller's key and grant, from the Finder.
async fn resolved(world: &World, method: &str) -> (String, ([u8; 16], u64)) {
    let reply = resolve(&world.router().await, method).await;
    let unix = reply.endpoints.iter().find(|e| e.address.starts_with('/')).unwrap();
    (unix.address.clone(), (reply.key.try_into().unwrap(), reply.grant))
}

fn hello_and_bind((key, grant): ([u8; 16], u64), method: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_hello(&mut out);
    let start = frame::begin(&mut out, Kind::Bind, 0, 0);
    Bind { key, grant, principal: "tests", path: &format!("echo/echo.v1.Echo/{method}") }.encode(&mut out);
    frame::end(&mut out, start).unwrap();
    out
}

fn call(sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, Frame { kind: Kind::Call, sequence, method: 0, body }).unwrap();
    out
}

/// Runs every ready task. No task here waits for time.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_receiver_that_does_not_read_stops_its_senders() {
    run(async |world| {
        // A target that speaks to the Finder and whose socket nobody reads.
        let path = world.dir.path().join("deaf");
        let listener = UnixListener::bind(&path).unwrap();
        let registrar = UnixStream::connect(world.socket()).await.unwrap();
        register_deaf(registrar, path.to_str().unwrap()).await;
        let router = world.router().await;
        let client = EchoClient::new(&router, "deaf");
        let body = Everything { binary: vec![7; 1 << 20], ..Default::default() };
        let first = client.echo(body.clone());
        let (_kept, _) = listener.accept().await.unwrap();
        let mut sent = 1;
        let mut calls = vec![first];
        loop {
            // With a full buffer the client reports that, long before the window of 256 calls is full.
            let ready = client.ready();
            tokio::pin!(ready);
            let mut turns = 0;
            let free = std::future::poll_fn(|cx| {
                turns += 1;
                if ready.as_mut().poll(cx).is_ready() {
                    std::task::Poll::Ready(true)
                } else if turns > 20 {
                    std::task::Poll::Ready(false)
                } else {
                    cx.waker().wake_by_ref();
                    std::task::Poll::Pending
                }
            });
            if !free.await {
                break;
            }
            calls.push(client.echo(body.clone()));
            sent += 1;
            assert!(sent < 50, "{sent} MiB were taken for a receiver that does not read");
        }
        assert!(sent >= 4);
    });
}

#[test]
fn long_calls_that_came_together_do_not_hold_up_the_others() {
    run(async |world| {
        let router = world.router().await;
        let (noter, _handle) = noter(&router, echo()).await;
        noter.work.set(Duration::from_millis(3));
        let (path, key) = resolved(&world, "Note").await;
        let mut octets = hello_and_bind(key, "Note");
        // A member that nobody knows makes a call long.
        let mut body = note(1, 0).encode_to_vec();
        body.extend_from_slice(&[0x7a, 0x80, 0x20]);
        body.resize(body.len() + 4096, 0);
        const CALLS: usize = 12;
        (0..CALLS as u32).for_each(|sequence| octets.extend(call(sequence + 1, &body)));
        let mut stream = UnixStream::connect(path).await.unwrap();
        stream.write_all(&octets).await.unwrap();
        // What somebody else sees each time that it is his turn.
        let mut seen = std::collections::BTreeSet::new();
        while seen.last() != Some(&CALLS) {
            seen.insert(noter.notes.borrow().len());
            tokio::task::yield_now().await;
        }
        assert!(seen.len() > CALLS / 2, "{seen:?}");
    });
}

/// Registers the target `deaf` by hand, octet by octet, and keeps its connection open.
async fn register_deaf(mut stream: UnixStream, address: &str) {
    use sluice_xrl::idl::finder::v1::*;
    let methods = vec![MethodOffer { name: "Echo".to_owned(), families: vec![], reads: false }];
    let register = RegisterRequest {
        class: "deaf".to_owned(),
        endpoints: vec![Endpoint { family: TransportFamily::Unix.into(), address: address.to_owned() }],
        interfaces: vec![InterfaceOffer { name: "echo.v1.Echo".to_owned(), methods, descriptors: vec![] }],
        ..Default::default()
    };
    let steps = [
        ("Hello", HelloRequest { secret: SECRET.to_vec() }.encode_to_vec()),
        ("Register", register.encode_to_vec()),
        ("Enable", EnableRequest { instance: "deaf".to_owned() }.encode_to_vec()),
    ];
    let mut out = Vec::new();
    frame::put_hello(&mut out);
    for (n, (method, body)) in (0..).zip(&steps) {
        let start = frame::begin(&mut out, Kind::Bind, 0, n);
        Bind { key: [0; 16], grant: 0, principal: "", path: &format!("finder/finder.v1.Finder/{method}") }
            .encode(&mut out);
        frame::end(&mut out, start).unwrap();
        let request = Frame { kind: Kind::Call, sequence: n.into(), method: n, body };
        frame::put(&mut out, request).unwrap();
    }
    stream.write_all(&out).await.unwrap();
    let mut input = Vec::new();
    let mut replies = 0;
    while replies < steps.len() {
        assert!(stream.read_buf(&mut input).await.unwrap() > 0);
        while let Some((frame, size)) = frame::decode(&input).unwrap() {
            assert_eq!(frame.kind, Kind::Reply, "{:?}", sluice_xrl::XrlError::decode(frame.body));
            replies += 1;
            input.drain(..size);
        }
    }
    tokio::task::spawn_local(async move {
        let _kept = stream;
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_caller_that_does_not_read_is_not_read_from() {
    run(async |world| {
        let (_noter, _handle) = noter(&world.router().await, echo()).await;
        let (path, key) = resolved(&world, "Echo").await;
        let mut stream = UnixStream::connect(path).await.unwrap();
        stream.write_all(&hello_and_bind(key, "Echo")).await.unwrap();
        let mut body = vec![0x42];
        prost::encoding::encode_varint(100_000, &mut body);
        body.resize(100_000 + body.len(), 7);
        let mut taken = 0;
        for sequence in 0..2000 {
            // That nothing happens cannot be awaited as an event.
            let frame = call(sequence, &body);
            let written = stream.write_all(&frame);
            if tokio::time::timeout(Duration::from_millis(300), written).await.is_err() {
                assert!(taken < MAX_REPLIES + (4 << 20), "{taken} octets");
                return;
            }
            taken += body.len();
        }
        panic!("{taken} octets of calls were taken from a caller that reads no replies");
    });
}

#[test]
fn so_many_handlers_and_no_more() {
    run(async |world| {
        let (noter, _handle) = noter(&world.router().await, echo()).await;
        let (path, key) = resolved(&world, "Hang").await;
        let mut stream = UnixStream::connect(path).await.unwrap();
        let mut out = hello_and_bind(key, "Hang");
        for sequence in 0..2000 {
            out.extend_from_slice(&call(sequence, &[]));
        }
        stream.write_all(&out).await.unwrap();
        noter.hanging(MAX_RUNNING as u32).await;
        settle().await;
        assert_eq!(noter.hanging.get(), MAX_RUNNING as u32);
        drop(stream);
        noter.hanging(0).await;
    });
}

#[test]
fn hostile_octets_end_their_connection_only() {
    run(async |world| {
        let router = world.router().await;
        let (_noter, _handle) = noter(&router, echo()).await;
        let (path, key) = resolved(&world, "Note").await;
        let mut no_hello = Vec::new();
        frame::put(&mut no_hello, Frame { kind: Kind::Call, sequence: 0, method: 0, body: &[] }).unwrap();
        let mut old = Vec::new();
        frame::put(&mut old, Frame { kind: Kind::Hello, sequence: 0, method: 99, body: frame::MAGIC })
            .unwrap();
        let mut unbound = hello_and_bind(key, "Note");
        frame::put(&mut unbound, Frame { kind: Kind::Call, sequence: 0, method: 7, body: &[] }).unwrap();
        let mut huge = hello_and_bind(key, "Note");
        huge.extend_from_slice(&[0xff; 8]);
        let mut reply = hello_and_bind(key, "Note");
        frame::put(&mut reply, Frame { kind: Kind::Reply, sequence: 0, method: 0, body: &[] }).unwrap();
        for octets in [no_hello, old, unbound, huge, reply] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(&octets).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            let (last, _) = frame::decode(&answer).unwrap().unwrap();
            assert_eq!(last.kind, Kind::Close);
        }
        assert!(EchoClient::new(&router, "echo").note(note(1, 0)).await.is_ok());
    });
}

#[test]
fn a_newer_protocol_is_refused_with_both_versions() {
    run(async |world| {
        let router = world.router().await;
        let (noter, _handle) = noter(&router, echo()).await;
        let refused = |frame: Frame<'_>| {
            let Err(XrlError::Protocol(why)) = Err::<(), _>(XrlError::decode(frame.body)) else {
                panic!("{frame:?}")
            };
            assert!(why.starts_with("version 3 of the XRL protocol; expected 2"), "{why}");
        };
        let mut hello = Vec::new();
        frame::put(&mut hello, Frame { kind: Kind::Hello, sequence: 0, method: 3, body: frame::MAGIC })
            .unwrap();
        let mut stream = UnixStream::connect(&resolved(&world, "Note").await.0).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        refused(frame::decode(&answer).unwrap().unwrap().0);

        let reply = resolve(&router, "Note").await;
        let udp = reply.endpoints.iter().find(|e| e.family() == TransportFamily::Udp).unwrap();
        let bind = Bind {
            key: reply.network_key.try_into().unwrap(),
            grant: reply.grant,
            principal: "tests",
            path: "echo/echo.v1.Echo/Note",
        };
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(&udp.address).await.unwrap();
        // Callers of before state no version.
        for (version, is_read) in [(3, false), (0, true), (frame::VERSION, true)] {
            let mut call = Vec::new();
            let start = frame::begin(&mut call, Kind::Datagram, 7, version);
            Datagram::encode_head(&bind, 0, &mut call);
            frame::end(&mut call, start).unwrap();
            socket.send(&call).await.unwrap();
            let mut answer = [0; 1024];
            let octets = socket.recv(&mut answer).await.unwrap();
            let (answer, _) = frame::decode(&answer[..octets]).unwrap().unwrap();
            if is_read {
                assert_eq!(answer.kind, Kind::Reply);
            } else {
                refused(answer);
            }
        }
        assert_eq!(noter.notes.borrow().len(), 2);
    });
}

#[test]
fn a_wrong_key_is_refused_for_every_method_and_path() {
    run(async |world| {
        let noter = Rc::new(Noter::default());
        let _handle = serve(&world.router().await, &noter, echo()).await.unwrap();
        let (path, mut key) = resolved(&world, "Note").await;
        key.0[15] ^= 1;
        for method in ["Note", "Echo", "Nothing"] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            let mut out = hello_and_bind(key, method);
            out.extend_from_slice(&call(5, &[]));
            stream.write_all(&out).await.unwrap();
            let mut input = Vec::new();
            while frame::decode(&input).unwrap().is_none() {
                assert!(stream.read_buf(&mut input).await.unwrap() > 0);
            }
            let (frame, _) = frame::decode(&input).unwrap().unwrap();
            assert_eq!((frame.kind, frame.sequence), (Kind::Error, 5));
            assert_eq!(sluice_xrl::XrlError::decode(frame.body), sluice_xrl::XrlError::BadKey);
        }
        assert!(noter.notes.borrow().is_empty());
    });
}

#[test]
fn a_stranger_announces_no_long_frames() {
    run(async |world| {
        let (_noter, _handle) = noter(&world.router().await, echo()).await;
        let (path, key) = resolved(&world, "Note").await;
        let mut wrong = key;
        wrong.0[0] ^= 1;
        let mut hello = Vec::new();
        frame::put_hello(&mut hello);
        let cases = [
            (world.socket().to_str().unwrap().to_owned(), Vec::new()),
            (world.socket().to_str().unwrap().to_owned(), hello),
            (path.clone(), Vec::new()),
            (path.clone(), hello_and_bind(wrong, "Note")),
        ];
        for (path, before) in cases {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(&before).await.unwrap();
            stream.write_all(&(frame::MAX_LENGTH as u32).to_be_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            let (last, _) = frame::decode(&answer).unwrap().unwrap();
            assert_eq!(last.kind, Kind::Close, "{path}");
        }
        // A caller with the key may send what it likes.
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let mut out = hello_and_bind(key, "Note");
        out.extend_from_slice(&call(1, &vec![0; 1 << 20]));
        stream.write_all(&out).await.unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[4], Kind::Error as u8);
    });
}

#[test]
fn a_silent_stranger_is_disconnected() {
    run(async |world| {
        let router = world.router().await;
        let (_noter, _handle) = noter(&router, echo()).await;
        let (path, key) = resolved(&world, "Note").await;
        let mut known = UnixStream::connect(&path).await.unwrap();
        known.write_all(&hello_and_bind(key, "Note")).await.unwrap();
        let mut strangers = Vec::new();
        for path in [world.socket(), path.into()] {
            let silent = UnixStream::connect(&path).await.unwrap();
            let mut polite = UnixStream::connect(&path).await.unwrap();
            let mut hello = Vec::new();
            frame::put_hello(&mut hello);
            polite.write_all(&hello).await.unwrap();
            strangers.extend([silent, polite]);
        }
        for mut stranger in strangers {
            let mut answer = Vec::new();
            stranger.read_to_end(&mut answer).await.unwrap();
        }
        known.write_all(&call(1, &[])).await.unwrap();
        assert!(known.read_buf(&mut Vec::new()).await.unwrap() > 0);
        assert!(EchoClient::new(&router, "echo").note(note(1, 0)).await.is_ok());
    });
}
