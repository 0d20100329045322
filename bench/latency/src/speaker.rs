//! A minimal BGP speaker for timing routers: sends given messages, and records the arrival of routes.

use crate::message::{self, HEADER, KEEPALIVE, NOTIFICATION, NextHops, OPEN, UPDATE};
use anyhow::{Context, Result, bail, ensure};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Prefix};
use sluice_lab::Lab;
use sluice_load::{Announcement, RoutingTable};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

/// The longest wait for a message of the router during the handshake.
const PATIENCE: Duration = Duration::from_secs(20);

/// Timed routes that may wait to be looked at; more than any run has.
const ARRIVALS: usize = 65_536;

/// A route that is timed: 198.18.N.0/24, from the block for benchmarks (RFC 2544, RFC 6890).
pub fn probe(number: u8) -> IpPrefix {
    slash24([198, 18, number, 0])
}

/// A route that is there all the time, so that the next hop is known, as in the paper.
pub fn kept() -> IpPrefix {
    slash24([198, 19, 255, 0])
}

fn slash24(address: [u8; 4]) -> IpPrefix {
    Ipv4Prefix::from_parts(u32::from_be_bytes(address), 24).expect("24 is a length").into()
}

/// A timed route has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The route's number.
    pub number: u8,
    /// True for a withdrawn route.
    pub withdrawn: bool,
    /// The time when its octets had been read.
    pub at: Instant,
}

/// The identities of a speaker and of its router.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The speaker's AS.
    pub asn: u32,
    /// The speaker's addresses, which are the next hops of its routes.
    pub local: NextHops,
    /// The router.
    pub router: Ipv4Addr,
    /// True if IPv6 routes are exchanged too.
    pub with_v6: bool,
    /// The proposed hold time in seconds, longer than any session of a benchmark.
    pub hold_time: u16,
}

/// IPv4 prefixes in the UPDATEs that a speaker was sent, including repetitions.
#[derive(Default)]
struct Counts {
    announced: AtomicU64,
    withdrawn: AtomicU64,
}

/// A speaker with an established session.
pub struct Speaker {
    stream: TcpStream,
    identity: Identity,
    counts: Arc<Counts>,
    /// Timed routes in the order of their arrival.
    pub arrivals: Receiver<Seen>,
}

impl Speaker {
    /// Connects from the namespace of `node`, tries again while the router refuses, and waits until the session is established.
    pub fn connect(lab: &Lab, node: &str, identity: Identity) -> Result<Self> {
        let begin = Instant::now();
        let mut stream = loop {
            let attempt = lab.inside(node, || establish(identity))?;
            match attempt {
                Ok(stream) => break stream,
                Err(e) if begin.elapsed() > PATIENCE => return Err(e),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        let (sender, arrivals) = mpsc::sync_channel(ARRIVALS);
        let counts = Arc::new(Counts::default());
        let speaker = Speaker { stream: stream.try_clone()?, identity, counts: counts.clone(), arrivals };
        // It ends when the connection does.
        std::thread::spawn(move || listen(&mut stream, &counts, &sender));
        Ok(speaker)
    }

    /// Announces a route.
    pub fn announce(&mut self, prefix: IpPrefix) -> Result<()> {
        self.announce_by(prefix, &[])
    }

    /// Announces a route along a path through further ASes.
    pub fn announce_by(&mut self, prefix: IpPrefix, further: &[u32]) -> Result<()> {
        let path: Vec<Asn> = [self.identity.asn].iter().chain(further).copied().map(Asn).collect();
        let mut octets = Vec::new();
        message::announcements(&path, self.identity.local, &[prefix], &mut octets);
        Ok(self.stream.write_all(&octets)?)
    }

    /// Requests all IPv4 routes again (RFC 2918).
    pub fn request_routes(&mut self) -> Result<()> {
        Ok(self.stream.write_all(&message::route_refresh())?)
    }

    /// Ends the connection, and the session with it.
    pub fn end(&mut self) -> Result<()> {
        Ok(self.stream.shutdown(Shutdown::Both)?)
    }

    /// Withdraws a route.
    pub fn withdraw(&mut self, prefix: IpPrefix) -> Result<()> {
        Ok(self.stream.write_all(&message::withdrawal(prefix))?)
    }

    /// Announces a whole table.
    pub fn announce_table(&mut self, table: &RoutingTable) -> Result<()> {
        let mut octets = Vec::new();
        for family in [&table.v4, &table.v6] {
            // Neighbors in the table often have the path in common, and then go into one message.
            for group in family.chunk_by(|a, b| a.path == b.path) {
                let first: &Announcement = &group[0];
                let path: Vec<Asn> =
                    std::iter::once(Asn(self.identity.asn)).chain(first.path.iter().copied()).collect();
                let prefixes: Vec<IpPrefix> = group.iter().map(|a| a.prefix).collect();
                message::announcements(&path, self.identity.local, &prefixes, &mut octets);
                if octets.len() > 1 << 16 {
                    self.stream.write_all(&octets)?;
                    octets.clear();
                }
            }
        }
        Ok(self.stream.write_all(&octets)?)
    }

    /// IPv4 prefixes announced to the speaker so far, including repetitions.
    pub fn announced(&self) -> u64 {
        self.counts.announced.load(Ordering::Relaxed)
    }

    /// IPv4 prefixes announced to the speaker or withdrawn so far, including repetitions.
    pub fn changes(&self) -> u64 {
        self.announced() + self.counts.withdrawn.load(Ordering::Relaxed)
    }

    /// Waits until the given number of IPv4 prefixes have been announced to the speaker.
    pub fn await_announced(&self, wanted: u64, patience: Duration) -> Result<()> {
        let begin = Instant::now();
        while self.announced() < wanted {
            ensure!(begin.elapsed() < patience, "{} of {wanted} prefixes have arrived", self.announced());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        // The listening thread ends; a connection that is gone already is as good.
        let _ = self.end();
    }
}

fn establish(identity: Identity) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(identity.router.into(), 179), PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&message::open(
        identity.asn,
        identity.local.v4,
        identity.with_v6,
        identity.hold_time,
    ))?;
    expect(&mut stream, OPEN)?;
    stream.write_all(&message::message(KEEPALIVE, &[]))?;
    expect(&mut stream, KEEPALIVE)?;
    stream.set_read_timeout(None)?;
    Ok(stream)
}

fn expect(stream: &mut TcpStream, wanted: u8) -> Result<()> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let mut body = vec![0; length.checked_sub(HEADER).context("a message shorter than its header")?];
    stream.read_exact(&mut body)?;
    match header[18] {
        kind if kind == wanted => Ok(()),
        kind => bail!("message {kind} {body:?} instead of {wanted}"),
    }
}

/// Reads until the end of the connection.
fn listen(stream: &mut TcpStream, counts: &Counts, arrivals: &SyncSender<Seen>) {
    let mut buffer = vec![0; 1 << 18];
    let mut filled = 0;
    while let Ok(read) = stream.read(&mut buffer[filled..]) {
        if read == 0 {
            return;
        }
        let at = Instant::now();
        filled += read;
        let mut from = 0;
        while let Some([high, low, kind]) = buffer[from..filled].get(16..HEADER) {
            let length = usize::from(u16::from_be_bytes([*high, *low])).max(HEADER);
            if from + length > filled {
                break;
            }
            let body = &buffer[from + HEADER..from + length];
            match *kind {
                UPDATE => note(body, at, counts, arrivals),
                NOTIFICATION => eprintln!("NOTIFICATION from the router: {body:?}"),
                _ => {}
            }
            from += length;
        }
        buffer.copy_within(from..filled, 0);
        filled -= from;
    }
}

fn note(body: &[u8], at: Instant, counts: &Counts, arrivals: &SyncSender<Seen>) {
    let mut all = [0; 2];
    for (address, length, withdrawn) in message::prefixes(body) {
        all[usize::from(withdrawn)] += 1;
        if let ([198, 18, number, 0], 24) = (address.octets(), length) {
            // At the end of a run nobody listens any more.
            let _ = arrivals.try_send(Seen { number, withdrawn, at });
        }
    }
    counts.announced.fetch_add(all[0], Ordering::Relaxed);
    counts.withdrawn.fetch_add(all[1], Ordering::Relaxed);
}
