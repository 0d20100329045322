//! Limits of a principal. The callers use TCP: by Unix socket, the user who started the test has no limits.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::support::*;
use sluice_xrl::frame::{self, Bind, Frame, Kind};
use sluice_xrl::idl::finder::v1::{FinderClient, ResolveRequest};
use sluice_xrl::{Denied, EndpointOptions, MAX_CONNECTIONS, XrlEndpoint, XrlError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The TCP address of the target `echo`, and the octets with which a caller begins.
async fn resolved(world: &World) -> (String, Vec<u8>) {
    let request =
        ResolveRequest { target: "echo".into(), interface: "echo.v1.Echo".into(), method: "Note".into() };
    let reply = FinderClient::new(&world.router().await, "finder").resolve(request).await.unwrap();
    let tcp = reply.endpoints.iter().find(|e| e.address.contains(':')).unwrap().address.clone();
    let mut out = Vec::new();
    frame::put_hello(&mut out);
    let start = frame::begin(&mut out, Kind::Bind, 0, 0);
    let key = reply.network_key.try_into().unwrap();
    Bind { key, grant: reply.grant, principal: "tests", path: "echo/echo.v1.Echo/Note" }.encode(&mut out);
    frame::end(&mut out, start).unwrap();
    (tcp, out)
}

async fn connect(address: &str, octets: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(octets).await.unwrap();
    stream
}

/// Reads the next frame: its kind, and the error in its body.
async fn answer(stream: &mut TcpStream) -> (Kind, XrlError) {
    let mut input = Vec::new();
    loop {
        if let Some((Frame { kind, body, .. }, _)) = frame::decode(&input).unwrap() {
            return (kind, XrlError::decode(body));
        }
        assert!(stream.read_buf(&mut input).await.unwrap() > 0);
    }
}

/// Waits until the Finder has counted a refusal at a limit.
async fn counted(world: &World, subject: &str) {
    loop {
        let (denials, _) = world.finder.borrow().as_ref().unwrap().take_denials();
        let is_it = |denial: &sluice_xrl::Denial| {
            denial.denied == Denied::Limit && denial.principal == "tests" && denial.subject.contains(subject)
        };
        if denials.iter().any(|(denial, _)| is_it(denial)) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_principal_has_so_many_connections_and_no_more() {
    run(async |world| {
        let (_noter, _handle) = noter(&world.router().await, echo()).await;
        let (address, mut octets) = resolved(&world).await;
        frame::put(&mut octets, Frame { kind: Kind::Call, sequence: 1, method: 0, body: &[] }).unwrap();
        let mut kept = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let mut stream = connect(&address, &octets).await;
            assert_eq!(answer(&mut stream).await.0, Kind::Reply);
            kept.push(stream);
        }
        let mut refused = connect(&address, &octets).await;
        assert!(matches!(answer(&mut refused).await, (Kind::Close, XrlError::Busy(_))));
        counted(&world, "more than 64 connections").await;
        // All connections are served in turn, and room is made by one that ends.
        for stream in &mut kept {
            let call = octets.split_off(octets.len() - frame::HEADER);
            stream.write_all(&call).await.unwrap();
            octets.extend(call);
            assert_eq!(answer(stream).await.0, Kind::Reply);
        }
        kept.pop();
        loop {
            let mut again = connect(&address, &octets).await;
            if answer(&mut again).await.0 == Kind::Reply {
                break;
            }
        }
    });
}

#[test]
fn a_frame_beyond_the_limit_ends_its_connection_only() {
    run(async |world| {
        let options = EndpointOptions { max_frame: 1 << 20, ..world.options(SECRET) };
        let receiver = XrlEndpoint::connect(options).await.unwrap();
        let (_noter, _handle) = noter(&receiver, echo()).await;
        let (address, octets) = resolved(&world).await;
        let mut stream = connect(&address, &octets).await;
        stream.write_all(&(2_u32 << 20).to_be_bytes()).await.unwrap();
        let error = XrlError::TooLarge { size: (2 << 20) + 4, limit: 1 << 20 };
        assert_eq!(answer(&mut stream).await, (Kind::Close, error));
        counted(&world, "octets").await;
        assert!(EchoClient::new(&world.router().await, "echo").note(note(1, 0)).await.is_ok());
    });
}
