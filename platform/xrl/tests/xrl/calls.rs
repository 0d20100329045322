//! Calls over every family: replies, errors, order, cancellation, deadlines.
#![allow(missing_docs, clippy::unwrap_used)]

use std::rc::Rc;
use std::time::Duration;

use crate::support::*;
use sluice_xrl::idl::finder::v1::{ProcessClient, SignalRequest};
use sluice_xrl::{Family, Octets, Relay, RelayedReply, XrlEndpoint, XrlError};

const CARRIERS: [Family; 4] = [Family::InProcess, Family::Unix, Family::Tcp, Family::Udp];

fn for_each_family(families: &[Family], test: impl AsyncFn(Family, std::rc::Rc<Noter>, EchoClient)) {
    for family in families {
        run(async |world| {
            let receiver = world.router().await;
            let (noter, _handle) = noter(&receiver, echo()).await;
            let caller = if *family == Family::InProcess { receiver.clone() } else { world.router().await };
            test(*family, noter, EchoClient::new(&caller, "echo").via(*family)).await;
        });
    }
}

#[test]
fn the_same_client_over_each_family() {
    for_each_family(&CARRIERS, async |_, _, client| {
        let everything = Everything {
            u32: 7,
            txt: "grüezi".to_owned(),
            binary: vec![0, 255],
            numbers: vec![1, 2, 3],
            ..Default::default()
        };
        assert_eq!(client.echo(everything.clone()).await.unwrap(), everything);
        let said = client.fail(FailRequest { code: 42, message: "no".to_owned() }).await;
        assert_eq!(said, Err(XrlError::application(42, "no")));
        assert!(matches!(client.panic(HangRequest {}).await, Err(XrlError::Internal(_))));
        assert_eq!(client.note(note(5, 3)).await.unwrap().number, 5);
    });
}

/// Passes calls on to the targets of an endpoint.
struct PassedOn(XrlEndpoint);

impl Relay for PassedOn {
    fn call(&self, target: &str, path: &str, within: Option<Duration>, request: Vec<u8>) -> RelayedReply {
        let call = self.0.call_octets(target, path, None, within, Octets(request));
        Box::pin(async move { call.await.map(|reply| reply.0) })
    }
}

#[test]
fn the_same_client_through_a_relay() {
    run(async |world| {
        let receiver = world.router().await;
        let (_noter, _handle) = noter(&receiver, echo()).await;
        let relayed = XrlEndpoint::through(Rc::new(PassedOn(world.router().await)));
        let client = EchoClient::new(&relayed, "echo");
        let everything = Everything { u32: 7, numbers: vec![1, 2, 3], ..Default::default() };
        assert_eq!(client.echo(everything.clone()).await.unwrap(), everything);
        let said = client.fail(FailRequest { code: 42, message: "no".to_owned() }).await;
        assert_eq!(said, Err(XrlError::application(42, "no")));
        let missing = EchoClient::new(&relayed, "nobody").echo(everything).await;
        assert!(matches!(missing, Err(XrlError::UnknownTarget(_))), "{missing:?}");
        // The Finder of the relay describes the targets.
        assert!(relayed.targets().await.unwrap().iter().any(|target| target.class == "echo"));
        assert!(!relayed.descriptors("echo", "echo.v1.Echo").await.unwrap().is_empty());
        let late = client.with_deadline(Duration::from_millis(20)).hang(HangRequest {}).await;
        assert_eq!(late, Err(XrlError::DeadlineExceeded));
    });
}

#[test]
fn calls_start_in_the_order_in_which_they_were_made() {
    for_each_family(&CARRIERS, async |_, noter, client| {
        // More than the window, and before anything is resolved.
        let calls: Vec<_> = (0..1000).map(|n| client.note(note(n, n % 3))).collect();
        for (n, call) in (0..).zip(calls) {
            assert_eq!(call.await.unwrap().number, n);
        }
        assert_eq!(*noter.notes.borrow(), (0..1000).collect::<Vec<_>>());
    });
}

#[test]
fn a_dropped_call_ends_its_handler() {
    for_each_family(&[Family::InProcess, Family::Unix, Family::Tcp], async |_, noter, client| {
        let call = client.hang(HangRequest {});
        noter.hanging(1).await;
        drop(call);
        noter.hanging(0).await;
        // Nothing is left behind: the connection goes on.
        assert!(client.note(note(1, 0)).await.is_ok());
    });
}

#[test]
fn a_deadline_ends_both_sides() {
    for_each_family(&CARRIERS, async |_, noter, client| {
        let client = client.with_deadline(Duration::from_millis(30));
        assert_eq!(client.hang(HangRequest {}).await, Err(XrlError::DeadlineExceeded));
        noter.hanging(0).await;
        assert!(client.note(note(1, 0)).await.is_ok());
    });
}

#[test]
fn the_end_of_a_caller_ends_its_handlers() {
    run(async |world| {
        let (noter, _handle) = noter(&world.router().await, echo()).await;
        let caller = world.router().await;
        let client = EchoClient::new(&caller, "echo");
        let _call = client.hang(HangRequest {});
        noter.hanging(1).await;
        drop(_call);
        drop(client);
        drop(caller);
        noter.hanging(0).await;
    });
}

#[test]
fn too_large_is_an_error_and_not_the_end() {
    for_each_family(&[Family::Unix, Family::Tcp, Family::Udp], async |family, _, client| {
        let of = |size| Everything { binary: vec![7; size], ..Default::default() };
        assert!(matches!(client.echo(of(17 << 20)).await, Err(XrlError::TooLarge { .. })));
        let large = if family == Family::Udp { 60_000 } else { 10 << 20 };
        assert_eq!(client.echo(of(large)).await.unwrap().binary.len(), large);
    });
}

#[test]
fn unknown_things_are_distinct_errors() {
    run(async |world| {
        let router = world.router().await;
        let (_noter, _handle) = noter(&router, echo()).await;
        let check = async |target: &str, path: &'static [&'static str], expected: &str| {
            let client = sluice_xrl::Client::new(&router, target, path);
            let request = FailRequest { code: 0, message: "not a number".to_owned() };
            let error = client.call::<_, NoteReply>(0, request).await.unwrap_err();
            assert_eq!(error.name(), expected, "{error}");
        };
        check("nobody", &["echo.v1.Echo/Note"], "UnknownTarget").await;
        check("echo", &["echo.v1.Ohce/Note"], "UnknownInterface").await;
        check("echo", &["echo.v1.Echo/Eton"], "UnknownMethod").await;
        check("echo", &["echo.v1.Echo/Note"], "BadArguments").await;
    });
}

#[test]
fn restricted_methods_are_refused_by_other_families() {
    run(async |world| {
        let receiver = world.router().await;
        let noter = std::rc::Rc::new(Noter::default());
        let service = echo_service(noter).restrict("Note", &[Family::Tcp]);
        let mut target = echo();
        target.services.push(service);
        let _handle = receiver.register(target).await.unwrap();
        let client = EchoClient::new(&world.router().await, "echo");
        assert!(client.via(Family::Tcp).note(note(1, 0)).await.is_ok());
        assert!(client.note(note(1, 0)).await.is_ok());
        assert!(matches!(client.via(Family::Unix).note(note(1, 0)).await, Err(XrlError::NoFamily(_))));
        assert!(client.via(Family::Unix).echo(Everything::default()).await.is_ok());
    });
}

#[test]
fn a_signal_reaches_the_process() {
    run(async |world| {
        let router = world.router().await;
        let (_noter, _handle) = noter(&router, echo()).await;
        let mut signals =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1()).unwrap();
        let client = ProcessClient::new(&router, "echo");
        client.signal(SignalRequest { number: 10 }).await.unwrap();
        signals.recv().await.unwrap();
        assert!(matches!(
            client.signal(SignalRequest { number: 4711 }).await,
            Err(XrlError::BadArguments(_))
        ));
        let echo = EchoClient::new(&router, "echo").via(Family::Kill);
        assert!(matches!(echo.note(note(1, 0)).await, Err(XrlError::NoFamily(_))));
    });
}
