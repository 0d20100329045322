//! Keys: for one caller alone, for as long as the caller has the right.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::support;
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;

use crate::support::*;
use sluice_xrl::frame::{self, Bind, Frame, Kind};
use sluice_xrl::idl::finder::v1::{FinderClient, ResolveReply, ResolveRequest};
use sluice_xrl::{Denial, Denied, EndpointOptions, Family, Peer, Principal, Target, XrlEndpoint, XrlError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

const NOTE: &str = "echo.v1.Echo/Note";
/// Sends its input to a socket, and prints the first answer.
const SENDS: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.stdin.buffer.read())
sys.stdout.buffer.write(s.recv(4096))
";
/// Listens at a socket, and prints how many octets a caller sends until it hangs up.
const LISTENS: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
print('ready', flush=True)
c, _ = s.accept()
n = 0
while octets := c.recv(4096):
    n += len(octets)
print(n)
";

fn python(script: &str, path: &Path) -> Child {
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

async fn resolve(router: &XrlEndpoint) -> (String, ResolveReply) {
    let request = ResolveRequest {
        target: "echo".to_owned(),
        interface: "echo.v1.Echo".to_owned(),
        method: "Note".to_owned(),
    };
    let reply = FinderClient::new(router, "finder").resolve(request).await.unwrap();
    let unix = reply.endpoints.iter().find(|e| e.address.starts_with('/')).unwrap();
    (unix.address.clone(), reply)
}

/// The octets of a connection with one call.
fn call_with(key: &[u8], grant: u64, principal: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_hello(&mut out);
    let start = frame::begin(&mut out, Kind::Bind, 0, 0);
    let path = format!("echo/{NOTE}");
    Bind { key: key.try_into().unwrap(), grant, principal, path: &path }.encode(&mut out);
    frame::end(&mut out, start).unwrap();
    out.extend_from_slice(&call(7));
    out
}

fn call(sequence: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, Frame { kind: Kind::Call, sequence, method: 0, body: &[] }).unwrap();
    out
}

/// Reads the answer to a call.
async fn answer(stream: &mut UnixStream) -> Result<(), XrlError> {
    let mut input = Vec::new();
    loop {
        if let Some((frame, _)) = frame::decode(&input).unwrap() {
            return match frame.kind {
                Kind::Reply => Ok(()),
                _ => Err(XrlError::decode(frame.body)),
            };
        }
        assert!(stream.read_buf(&mut input).await.unwrap() > 0);
    }
}

fn weak(may_call: &str) -> Principal {
    Principal {
        name: "weak".to_owned(),
        uid: None,
        may_register: vec!["weak".to_owned()],
        may_call: vec![may_call.to_owned()],
        may_read: false,
        guarded: Vec::new(),
    }
}

/// Waits for the first denials.
async fn denials(world: &World) -> Vec<(Denial, u64)> {
    loop {
        let (denials, _) = world.finder.borrow().as_ref().unwrap().take_denials();
        if !denials.is_empty() {
            return denials;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn the_key_names_the_caller() {
    run(async |world| {
        let (noter, _handle) = noter(&world.router().await, echo()).await;
        world.finder.borrow().as_ref().unwrap().set_principal([2; 16], weak("*"));
        let caller = XrlEndpoint::connect(world.options([2; 16])).await.unwrap();
        for family in [Family::Unix, Family::Tcp, Family::Udp] {
            noter.principal.borrow_mut().clear();
            EchoClient::new(&caller, "echo").via(family).note(note(1, 0)).await.unwrap();
            assert_eq!(&*noter.principal.borrow(), "weak", "{family}");
        }
        // And within a process.
        let (own, _own_handle) = support::noter(&caller, Target::new("weak", vec![])).await;
        EchoClient::new(&caller, "weak").note(note(1, 0)).await.unwrap();
        assert_eq!(&*own.principal.borrow(), "weak");
    });
}

#[test]
fn a_copied_key_is_refused_and_counted() {
    run(async |world| {
        let (noter, _handle) = noter(&world.router().await, echo()).await;
        let router = world.router().await;
        let (path, reply) = resolve(&router).await;
        // The process that resolved it may use it.
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(&call_with(&reply.key, reply.grant, "tests")).await.unwrap();
        answer(&mut stream).await.unwrap();
        // Another process may not, even of the same user, nor may anybody with the key for networks.
        let mut thief = python(SENDS, Path::new(&path));
        let pid = thief.id().unwrap();
        let stolen = call_with(&reply.key, reply.grant, "tests");
        thief.stdin.take().unwrap().write_all(&stolen).await.unwrap();
        let output = thief.wait_with_output().await.unwrap().stdout;
        let (frame, _) = frame::decode(&output).unwrap().unwrap();
        assert_eq!(XrlError::decode(frame.body), XrlError::BadKey);
        let denied = denials(&world).await;
        let [(denial, 1)] = &denied[..] else { panic!("{denied:?}") };
        let expected = Denial {
            denied: Denied::Key,
            principal: "tests".to_owned(),
            pid,
            uid: nix::unistd::getuid().as_raw(),
            subject: format!("echo/{NOTE}"),
            reporter: "tests".to_owned(),
        };
        assert_eq!(*denial, expected);
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(&call_with(&reply.network_key, reply.grant, "tests")).await.unwrap();
        assert_eq!(answer(&mut stream).await, Err(XrlError::BadKey));
        // Nor is another name, or another grant, believed.
        for (grant, name) in [(reply.grant, "manager"), (reply.grant ^ 1, "tests")] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(&call_with(&reply.key, grant, name)).await.unwrap();
            assert_eq!(answer(&mut stream).await, Err(XrlError::BadKey));
        }
        assert_eq!(noter.notes.borrow().len(), 1);
    });
}

#[test]
fn an_impostor_receives_neither_key_nor_argument() {
    run(async |world| {
        let receiver = world.router().await;
        let (noter, _handle) = noter(&receiver, Target::new("echo", vec![])).await;
        let caller = world.router().await;
        let (path, _) = resolve(&caller).await;
        // Another process takes the place of the target's socket.
        std::fs::remove_file(&path).unwrap();
        let mut impostor = python(LISTENS, Path::new(&path));
        let mut lines = BufReader::new(impostor.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        let called = EchoClient::new(&caller, "echo").via(Family::Unix).note(note(1, 0)).await;
        let Err(XrlError::Disconnected(why)) = called else { panic!("{called:?}") };
        assert!(why.contains("not the target's process"), "{why}");
        // At most the Hello frame.
        let octets: usize = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        assert!(octets <= 15, "{octets}");
        assert!(noter.notes.borrow().is_empty());
        let denied = denials(&world).await;
        assert!(matches!(&denied[..], [(Denial { denied: Denied::Impostor, .. }, 1)]), "{denied:?}");
    });
}

#[test]
fn rights_that_are_taken_away_end_at_once() {
    run(async |world| {
        let (noter, _handle) = noter(&world.router().await, echo()).await;
        let set = |p| world.finder.borrow().as_ref().unwrap().set_principal([2; 16], p);
        set(weak("echo/*/*"));
        let caller = XrlEndpoint::connect(world.options([2; 16])).await.unwrap();
        let (path, reply) = resolve(&caller).await;
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let first = call_with(&reply.key, reply.grant, "weak");
        stream.write_all(&first).await.unwrap();
        answer(&mut stream).await.unwrap();
        // More rights end nothing.
        set(Principal { may_call: vec!["echo/*/*".to_owned(), "rib/*/*".to_owned()], ..weak("") });
        // The Finder has notified the receiver of them before it answers.
        resolve(&caller).await;
        stream.write_all(&call(8)).await.unwrap();
        answer(&mut stream).await.unwrap();
        // Fewer do, although the connection is open, the method bound, and the caller resolves nothing again.
        set(weak("rib/*/*"));
        let refusal = loop {
            stream.write_all(&call(9)).await.unwrap();
            match answer(&mut stream).await {
                Ok(()) => tokio::task::yield_now().await,
                Err(e) => break e,
            }
        };
        assert_eq!(refusal, XrlError::AccessDenied("the rights of weak were taken away".to_owned()));
        // A target that registers later is notified of it too.
        let (_later, _handle) = support::noter(&world.router().await, echo().named("echo-9")).await;
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(&first).await.unwrap();
        assert_eq!(answer(&mut stream).await, Err(XrlError::BadKey));
        let _still = Rc::clone(&noter);
    });
}

#[test]
fn a_secret_is_accepted_from_its_user_alone() {
    run(async |world| {
        let own = nix::unistd::getuid().as_raw();
        let of = |uid| Principal { uid: Some(uid), ..weak("*") };
        let finder = || std::cell::Ref::map(world.finder.borrow(), |f| f.as_ref().unwrap());
        finder().set_principal([2; 16], of(own));
        assert!(XrlEndpoint::connect(world.options([2; 16])).await.is_ok());
        finder().set_principal([3; 16], of(own + 1));
        let other = XrlEndpoint::connect(world.options([3; 16])).await;
        // Root may use every secret: it can read them all.
        assert_eq!(other.is_ok(), own == 0);
    });
}

#[test]
fn people_are_known_by_their_user() {
    run(async |world| {
        let (noter, _handle) = noter(&world.router().await, echo()).await;
        let by_user = || EndpointOptions { secret: None, ..world.options([0; 16]) };
        assert!(matches!(XrlEndpoint::connect(by_user()).await.err(), Some(XrlError::AccessDenied(_))));
        let role = Rc::new(std::cell::RefCell::new(Some(weak("echo/echo.v1.Echo/Note"))));
        let (shared, own) = (Rc::clone(&role), nix::unistd::getuid().as_raw());
        let people = move |peer: Peer| shared.borrow().clone().filter(|_| peer.uid == own);
        world.finder.borrow().as_ref().unwrap().set_people(Box::new(people));
        let person = XrlEndpoint::connect(by_user()).await.unwrap();
        let client = EchoClient::new(&person, "echo");
        client.note(note(1, 0)).await.unwrap();
        assert_eq!(&*noter.principal.borrow(), "weak");
        assert!(matches!(client.echo(Everything::default()).await, Err(XrlError::AccessDenied(_))));
        // A user who loses the role at the next connection loses it on the earlier ones too.
        role.replace(None);
        assert!(XrlEndpoint::connect(by_user()).await.is_err());
        let denied = loop {
            match client.note(note(2, 0)).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(e) => break e,
            }
        };
        assert!(matches!(denied, XrlError::AccessDenied(_)), "{denied}");
    });
}
