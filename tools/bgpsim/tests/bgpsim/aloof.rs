//! A client that does not compete with the target: the target reads no input until its release, and receivers read
//! after the target is idle.

use anyhow::Result;
use sluice_base::{Asn, RouterId};
use sluice_bgpsim::aloof;
use sluice_bgpsim::brake::Brake;
use sluice_bgpsim::message::Voice;
use sluice_bgpsim::order::{Mix, Order};
use sluice_bgpsim::report;
use sluice_bgpsim::run::{PhaseResult, Setup};
use sluice_bgpsim::scenario::Scenario;
use sluice_bgpsim::sender::Speed;
use sluice_bgpsim::session::{Features, Peer, Role};
use sluice_bgpsim::table::{Size, Table};
use sluice_bgpsim::wire::{AFI_IPV4, Capability, HEADER_LEN, Notification, Open, VERSION, header};
use sluice_bgpsim::workload::{ANY_NUMBER, Cast, Families, Spread};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

const TARGET: Asn = Asn(64500);
const FAMILIES: Families = Families { v4: true, v6: false };
const SENDERS: usize = 3;
const RECEIVERS: usize = 2;

/// A stoppable target, which reads only while released.
#[derive(Default)]
struct Wheel {
    stands: Mutex<bool>,
    turns: Condvar,
}

impl Wheel {
    fn wait(&self) {
        let stands = self.stands.lock().unwrap();
        let _moves = self.turns.wait_while(stands, |stands| *stands).unwrap();
    }

    fn set(&self, stands: bool) -> Result<()> {
        *self.stands.lock().unwrap() = stands;
        self.turns.notify_all();
        Ok(())
    }
}

impl Brake for Wheel {
    fn stop(&self) -> Result<()> {
        self.set(true)
    }

    fn release(&self) -> Result<()> {
        self.set(false)
    }
}

/// A target's handling of a sender's messages. At the first message, the target sends the sender a large answer that
/// no test reads.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Copies every message to every receiver, a number of times.
    Copies(usize),
    /// Drops the first message.
    Drops,
    /// Refuses with a NOTIFICATION.
    Refuses,
}

/// The next message, header included; `None` at the end.
fn message(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut octets = vec![0; HEADER_LEN];
    socket.read_exact(&mut octets).ok()?;
    octets.resize(usize::from(u16::from_be_bytes([octets[16], octets[17]])), 0);
    socket.read_exact(&mut octets[HEADER_LEN..]).ok()?;
    Some(octets)
}

/// Accepts the next peer; returns its identity.
fn opened(listener: &TcpListener) -> (Asn, TcpStream) {
    let mut socket = listener.accept().unwrap().0;
    let theirs = Open::decode(&message(&mut socket).unwrap()[HEADER_LEN..]).unwrap();
    let capabilities = vec![Capability::unicast(AFI_IPV4), Capability::FourOctetAs(TARGET)];
    let (version, as_field) = (VERSION, TARGET.to_u16());
    let mut octets = Vec::new();
    Open { version, as_field, hold_time: 0, router_id: RouterId(1), capabilities }.put(&mut octets);
    header::put_keepalive(&mut octets);
    socket.write_all(&octets).unwrap();
    message(&mut socket).unwrap();
    (theirs.asn(), socket)
}

/// Serves a sender to the end of its connection. The client handles connections that end meanwhile.
fn serve(mut socket: TcpStream, manner: Manner, wheel: &Wheel, said: &Sender<Vec<u8>>) {
    let mut much = Vec::new();
    (0..20_000).for_each(|_| header::put_keepalive(&mut much));
    let mut is_first = true;
    while let Some(update) = message(&mut socket) {
        wheel.wait();
        if is_first {
            let _ = socket.write_all(&much);
        }
        match manner {
            Manner::Refuses if is_first => {
                let mut octets = Vec::new();
                Notification::new(6, 2).put(&mut octets);
                let _ = socket.write_all(&octets).and_then(|()| socket.shutdown(Shutdown::Write));
            }
            Manner::Refuses => {}
            Manner::Drops if is_first => {}
            Manner::Drops => said.send(update).unwrap(),
            Manner::Copies(times) => (0..times).for_each(|_| said.send(update.clone()).unwrap()),
        }
        is_first = false;
    }
}

/// Runs a target until every connection has ended.
fn target(listener: &TcpListener, manner: Manner, wheel: &Wheel) {
    let all = (0..SENDERS + RECEIVERS).map(|_| opened(listener));
    let (senders, mut receivers): (Vec<_>, Vec<_>) =
        all.partition(|(asn, _)| *asn < peer(Role::Receiver, 0).asn);
    let (say, said) = channel();
    std::thread::scope(|threads| {
        for (_, sender) in senders {
            let say = say.clone();
            threads.spawn(move || serve(sender, manner, wheel, &say));
        }
        drop(say);
        for update in said {
            receivers.iter_mut().for_each(|(_, r)| _ = r.write_all(&update));
        }
        // Receivers are there as long as the client wants them to be.
        receivers.iter_mut().for_each(|(_, r)| while message(r).is_some() {});
    });
}

const SETTLE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(20);

fn peer(role: Role, number: usize) -> Peer {
    let asn = Asn(65001 + number as u32 + if role == Role::Receiver { SENDERS as u32 } else { 0 });
    Peer { role, number, asn, local: None, families: FAMILIES, hold_time: 0, features: Features::default() }
}

/// A run with so many routes at a target of a manner.
fn run(routes: usize, manner: Manner, patience: Duration) -> Result<Vec<PhaseResult>> {
    let voice = |number| Voice {
        asn: peer(Role::Sender, number).asn,
        internal: false,
        next_hop_v4: Ipv4Addr::new(192, 0, 2, 1),
        next_hop_v6: std::net::Ipv6Addr::UNSPECIFIED,
        per_message: ANY_NUMBER,
        paths: 1,
    };
    let cast = Cast {
        voices: (0..SENDERS).map(voice).collect(),
        families: FAMILIES,
        target_as: TARGET,
        order: Order::Threads,
        mix: Mix::One,
        seed: 1,
    };
    let table = Table::synthetic(Size { v4: routes, v6: 0 }, 3, 1)?;
    let workload = cast.table(&table, Scenario::Announce, Spread::Split, ANY_NUMBER)?;
    let senders = (0..SENDERS).map(|n| peer(Role::Sender, n));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let setup = Setup {
        target: listener.local_addr()?,
        target_as: TARGET,
        peers: senders.chain((0..RECEIVERS).map(|n| peer(Role::Receiver, n))).collect(),
        late: Vec::new(),
        listen: None,
        only_count: false,
        speed: Speed::Full,
        reading_threads: 1,
        target_processes: Vec::new(),
        timeout: Duration::from_secs(60),
        patience,
        settle: SETTLE,
    };
    let wheel = Wheel::default();
    let mut ends = 0;
    let result = std::thread::scope(|threads| {
        threads.spawn(|| target(&listener, manner, &wheel));
        aloof::run_and(&setup, &workload, &wheel, || ends += 1)
    });
    assert_eq!(ends, usize::from(result.is_ok()));
    result
}

fn refusal(routes: usize, manner: Manner) -> String {
    format!("{:#}", run(routes, manner, Duration::from_millis(500)).unwrap_err())
}

#[test]
fn all_that_was_sent_is_received() {
    let phases = run(1000, Manner::Copies(1), PATIENCE).unwrap();
    assert!(report::verified(&phases), "{:?}", phases[0].received);
    assert_eq!((phases.len(), phases[0].routes, phases[0].received.len()), (1, 1000, RECEIVERS));
    assert_eq!(phases[0].sent, Some(Duration::ZERO));
    for received in &phases[0].received {
        let counts = &received.counts;
        // Each sender marks the end with a prefix.
        assert_eq!((counts.announced, counts.unexpected), (1000 + SENDERS as u64, 0));
        assert!(counts.first.unwrap() > phases[0].begin && counts.last >= counts.first);
        assert_eq!(counts.complete, counts.last);
    }
}

#[test]
fn what_is_missing_is_found() {
    let phases = run(1000, Manner::Drops, PATIENCE).unwrap();
    assert!(!report::verified(&phases));
    for received in &phases[0].received {
        let (missing, some) = &received.missing;
        assert_eq!(received.counts.announced as usize + missing, 1000 + SENDERS);
        assert!(*missing >= SENDERS && !some.is_empty() && !received.complete);
        assert_eq!(received.counts.complete, None);
    }
}

#[test]
fn a_target_that_does_not_take_everything() {
    let begin = Instant::now();
    let text = refusal(500_000, Manner::Copies(1));
    assert!(
        text.contains("the target's sockets did not take") && text.contains("net.ipv4.tcp_rmem"),
        "{text}"
    );
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn receivers_that_do_not_hold_everything() {
    let text = refusal(1000, Manner::Copies(2000));
    assert!(text.contains("sockets did not hold everything") && text.contains("net.ipv4.tcp_rmem"), "{text}");
}

/// A NOTIFICATION is visible even behind many discarded octets.
#[test]
fn a_target_that_refuses() {
    let text = refusal(1000, Manner::Refuses);
    assert!(text.contains("sender") && text.contains("the target sent NOTIFICATION 6/2"), "{text}");
}
