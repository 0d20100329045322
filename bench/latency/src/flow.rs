//! Figure 13: a peer sends routes in sequence; measured is the appearance of each route at a second peer.

use crate::network::Peers;
use crate::speaker::probe;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// The paper's number of routes.
pub const ROUTES: u8 = 255;

/// Between two routes; the paper had a second.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest time of the last routes.
const PATIENCE: Duration = Duration::from_secs(40);

/// The result of a run: for each route its time of sending, in seconds since the first route, and its delay to the
/// second peer in milliseconds.
pub type Flow = Vec<(f64, f64)>;

/// Announces the routes from `b`, records them at `c`, and withdraws them again.
pub fn run(peers: &mut Peers) -> Result<Flow> {
    while peers.c.arrivals.try_recv().is_ok() {}
    let begin = Instant::now();
    let mut sent_at: Vec<Instant> = Vec::new();
    let mut arrived: Vec<Option<Instant>> = vec![None; ROUTES.into()];
    for number in 0..ROUTES {
        let due = begin + PAUSE * u32::from(number);
        collect(peers, &mut arrived, due);
        sent_at.push(Instant::now());
        peers.b.announce(probe(number))?;
    }
    let end = Instant::now() + PATIENCE;
    while arrived.contains(&None) && Instant::now() < end {
        collect(peers, &mut arrived, Instant::now() + PAUSE);
    }
    let flow: Flow = sent_at
        .iter()
        .zip(&arrived)
        .filter_map(|(sent, arrived)| {
            let delay = arrived.as_ref()?.duration_since(*sent);
            Some((sent.duration_since(begin).as_secs_f64(), delay.as_secs_f64() * 1e3))
        })
        .collect();
    ensure!(flow.len() == usize::from(ROUTES), "{} of {ROUTES} routes arrived at the other peer", flow.len());
    withdraw(peers)?;
    Ok(flow)
}

/// Records arrivals until `due`.
fn collect(peers: &Peers, arrived: &mut [Option<Instant>], due: Instant) {
    while let Some(left) = due.checked_duration_since(Instant::now()) {
        let Ok(seen) = peers.c.arrivals.recv_timeout(left) else { return };
        if let Some(place) = arrived.get_mut(usize::from(seen.number))
            && !seen.withdrawn
        {
            place.get_or_insert(seen.at);
        }
    }
}

fn withdraw(peers: &mut Peers) -> Result<()> {
    let mut left: Vec<u8> = (0..ROUTES).collect();
    for number in 0..ROUTES {
        peers.b.withdraw(probe(number))?;
    }
    while !left.is_empty() {
        let seen = peers.c.arrivals.recv_timeout(PATIENCE)?;
        left.retain(|n| !(seen.withdrawn && *n == seen.number));
    }
    Ok(())
}
