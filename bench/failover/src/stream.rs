//! A stream of packets to random prefixes, and where each packet arrives.

use crate::network::HOST;
use anyhow::Result;
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use sluice_base::Rng;
use sluice_lab::Lab;
use sluice_load::RoutingTable;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Packets a second.
pub const RATE: u32 = 10_000;
/// Different destinations.
const DESTINATIONS: usize = 10_000;
/// Octets of a sink's buffer: what was forwarded must not be lost where it arrives.
const BUFFER: usize = 64 << 20;
/// The UDP port of the packets.
const PORT: u16 = 40_000;

/// A flowing stream.
pub struct Stream {
    ends: Arc<AtomicBool>,
    source: JoinHandle<Vec<Instant>>,
    sinks: Vec<JoinHandle<Vec<u64>>>,
}

/// The fate of a stream's packets.
pub struct Arrivals {
    /// The time when each packet was sent.
    pub sent: Vec<Instant>,
    /// For each feed, whether each packet arrived there.
    pub arrived: Vec<Vec<bool>>,
}

impl Stream {
    /// Begins to send.
    pub fn start(lab: &Lab, feeds: &[&str], table: &RoutingTable) -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let mut sinks = Vec::new();
        for feed in feeds {
            let socket = lab.inside(feed, || UdpSocket::bind(("0.0.0.0", PORT)))??;
            setsockopt(&socket, RcvBufForce, &BUFFER)?;
            socket.set_read_timeout(Some(Duration::from_millis(200)))?;
            let ends = Arc::clone(&ends);
            sinks.push(spawn(move || sink(&socket, &ends)));
        }
        let socket = lab.inside(HOST, || UdpSocket::bind("0.0.0.0:0"))??;
        let mut rng = Rng::from_seed(7);
        let any = |rng: &mut Rng| table.v4[rng.below(table.v4.len() as u64) as usize].prefix.addr();
        let destinations: Vec<IpAddr> = (0..DESTINATIONS).map(|_| any(&mut rng)).collect();
        let shared = Arc::clone(&ends);
        let source = spawn(move || source(&socket, &destinations, &shared));
        Ok(Stream { ends, source, sinks })
    }

    /// Ends the stream, and waits for what is on its way.
    pub fn stop(self) -> Result<Arrivals> {
        let panicked = |_| anyhow::anyhow!("a thread of the stream panicked");
        self.ends.store(true, Ordering::Relaxed);
        let sent = self.source.join().map_err(panicked)?;
        let mut arrived = Vec::new();
        for sink in self.sinks {
            let mut here = vec![false; sent.len()];
            for number in sink.join().map_err(panicked)? {
                if let Some(place) = here.get_mut(number as usize) {
                    *place = true;
                }
            }
            arrived.push(here);
        }
        Ok(Arrivals { sent, arrived })
    }
}

fn source(socket: &UdpSocket, destinations: &[IpAddr], ends: &AtomicBool) -> Vec<Instant> {
    let begin = Instant::now();
    let mut sent = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(RATE)) as usize;
        while sent.len() < due {
            let number = (sent.len() as u64).to_be_bytes();
            // What cannot be sent counts as sent: it does not arrive.
            let _ = socket.send_to(&number, (destinations[sent.len() % destinations.len()], PORT));
            sent.push(Instant::now());
        }
        sleep(Duration::from_millis(1));
    }
    sent
}

/// Returns the numbers of the packets that arrive until the end and a moment longer.
fn sink(socket: &UdpSocket, ends: &AtomicBool) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut packet = [0; 8];
    loop {
        match socket.recv(&mut packet) {
            Ok(8) => numbers.push(u64::from_be_bytes(packet)),
            Ok(_) => {}
            Err(_) if ends.load(Ordering::Relaxed) => return numbers,
            Err(_) => {}
        }
    }
}

impl Arrivals {
    /// Returns the time from `event` to the last packet that did not arrive at feed number `at`, and how many did not.
    pub fn lost_since(&self, event: Instant, at: usize) -> (Duration, usize) {
        let lost = self.sent.iter().zip(&self.arrived[at]).filter(|(sent, here)| **sent >= event && !**here);
        let times: Vec<Instant> = lost.map(|(sent, _)| *sent).collect();
        (times.last().map_or(Duration::ZERO, |last| last.duration_since(event)), times.len())
    }
}
