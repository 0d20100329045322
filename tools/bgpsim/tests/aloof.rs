//! A client out of the way: the target reads nothing until it is released, and receivers read when it has come to rest.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

use anyhow::Result;
use sluice_base::{Asn, RouterId};
use sluice_bgp::wire::{AFI_IPV4, Capability, HEADER_LEN, Notification, Open, header};
use sluice_bgpsim::aloof;
use sluice_bgpsim::brake::Brake;
use sluice_bgpsim::message::Voice;
use sluice_bgpsim::order::{Mix, Order};
use sluice_bgpsim::report;
use sluice_bgpsim::run::{PhaseResult, Setup};
use sluice_bgpsim::scenario::Scenario;
use sluice_bgpsim::sender::Speed;
use sluice_bgpsim::session::{Peer, Role};
use sluice_bgpsim::table::{Size, Table};
use sluice_bgpsim::workload::{ANY_NUMBER, Cast, Families, Spread};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

const TARGET: Asn = Asn(64500);
const FAMILIES: Families = Families { v4: true, v6: false };
const SENDERS: usize = 3;
const RECEIVERS: usize = 2;

/// A target's wheel: it reads only while it may.
#[derive(Default)]
struct Wheel {
    stands: Mutex<bool>,
    turns: Condvar,
}

impl Wheel {
    fn wait(&self) {
        let stands = self.stands.lock().unwrap();
        drop(self.turns.wait_while(stands, |stands| *stands).unwrap());
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

/// What a target does with the messages of a sender.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Tells all receivers all of them, and senders something that interests nobody.
    Copies,
    /// Does not tell the first one.
    Drops,
    /// Pauses in the middle for longer than one who has come to rest.
    Pauses,
    /// Says a lot, and then that it is enough.
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

fn opened(listener: &TcpListener) -> TcpStream {
    let mut socket = listener.accept().unwrap().0;
    message(&mut socket).unwrap();
    let capabilities = vec![Capability::unicast(AFI_IPV4), Capability::FourOctetAs(TARGET)];
    let (version, as_field) = (sluice_bgp::wire::open::VERSION, TARGET.to_u16());
    let mut octets = Vec::new();
    Open { version, as_field, hold_time: 0, router_id: RouterId(1), capabilities }.put(&mut octets);
    header::put_keepalive(&mut octets);
    socket.write_all(&octets).unwrap();
    message(&mut socket).unwrap();
    socket
}

/// Serves one sender to the end of its connection.
fn serve(mut socket: TcpStream, manner: Manner, wheel: &Wheel, said: Sender<Vec<u8>>) {
    let mut keepalives = Vec::new();
    (0..20_000).for_each(|_| header::put_keepalive(&mut keepalives));
    let mut is_first = true;
    loop {
        wheel.wait();
        let Some(update) = message(&mut socket) else { return };
        wheel.wait();
        if is_first {
            socket.write_all(&keepalives).unwrap();
        }
        match manner {
            Manner::Drops if is_first => {}
            Manner::Refuses => {
                let mut octets = Vec::new();
                Notification::new(6, 2).put(&mut octets);
                return socket.write_all(&octets).unwrap();
            }
            Manner::Copies | Manner::Drops | Manner::Pauses => {
                said.send(update).unwrap();
            }
        }
        is_first = false;
    }
}

/// Tells receivers what senders said, until they are gone.
fn tell(all: std::sync::mpsc::Receiver<Vec<u8>>, receivers: &mut [TcpStream], manner: Manner) {
    for (number, update) in all.into_iter().enumerate() {
        if manner == Manner::Pauses && number == 1 {
            std::thread::sleep(4 * SETTLE);
        }
        // A receiver that is gone need not be told.
        receivers.iter_mut().for_each(|r| _ = r.write_all(&update));
    }
}

const SETTLE: Duration = Duration::from_millis(60);

fn peer(role: Role, number: usize) -> Peer {
    let asn = Asn(65001 + number as u32 + if role == Role::Receiver { SENDERS as u32 } else { 0 });
    Peer { role, number, asn, local: None, families: FAMILIES, hold_time: 0 }
}

/// A run with so many routes at a target of a manner.
fn run(routes: usize, manner: Manner, patience: Duration) -> Result<Vec<PhaseResult>> {
    let voice = |number| Voice {
        asn: peer(Role::Sender, number).asn,
        internal: false,
        next_hop_v4: Ipv4Addr::new(192, 0, 2, 1),
        next_hop_v6: std::net::Ipv6Addr::UNSPECIFIED,
        per_message: ANY_NUMBER,
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
        target: SocketAddr::from(listener.local_addr()?),
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
    std::thread::scope(|threads| {
        let wheel = &wheel;
        threads.spawn(move || {
            let (say, said) = channel();
            // Who is a sender shows by speaking first; receivers never do.
            let all: Vec<TcpStream> = (0..SENDERS + RECEIVERS).map(|_| opened(&listener)).collect();
            let _ = (all, say, said);
        });
        aloof::run_and(&setup, &workload, wheel, || ())
    })
}
