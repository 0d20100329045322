//! Single routes from peer to peer while the router has background work: no event waits for it (XORP, section 4).

use crate::network::{self, Peers};
use crate::speaker::probe;
use anyhow::{Context, Result, ensure};
use bench_lab::Device;
use sluice_load::counts::Cli;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Between two routes.
const PAUSE: Duration = Duration::from_millis(4);
/// The number of routes that take turns. A route on its way is not announced again.
const ROUTES: usize = 256;
/// Work is over when the receiving peer has been sent nothing but timed routes for so long.
const REST: Duration = Duration::from_millis(700);
/// The longest time of a kind of work, and of the last routes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A kind of background work on a full table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A changed import policy decides on all routes of a neighbor again.
    Import,
    /// A changed export policy changes all routes that a neighbor is sent.
    Export,
    /// A neighbor requests all routes again (RFC 2918).
    Refresh,
    /// The session that all routes came by ends.
    SessionEnd,
}

impl Work {
    /// All kinds, in the order of measuring: the table is gone after the last.
    pub const ALL: [Work; 4] = [Work::Import, Work::Export, Work::Refresh, Work::SessionEnd];

    /// The kind's name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Import => "import policy of the table's neighbor",
            Work::Export => "export policy of the receiver",
            Work::Refresh => "route refresh of the receiver",
            Work::SessionEnd => "end of the table's session",
        }
    }

    /// Begins the work; returns the command to wait for, if there is one.
    fn begin(self, device: Device, peers: &mut Peers, cli: &Cli<'_>) -> Result<Option<Child>> {
        // A community of its own for each step: one that a route has already would change nothing.
        let configure = |peer: usize, step: &str| {
            let address = network::address(device, peer);
            let child = cli
                .command(&[
                    "configure",
                    &format!("set policy community of-{step} member 64500:{peer}"),
                    &format!("set policy policy-statement mark-{step} term all then community-add of-{step}"),
                    &format!("set policy policy-statement mark-{step} term all then accept"),
                    &format!("set protocols bgp neighbor {address} {step} mark-{step}"),
                    "commit",
                ])
                .stdout(Stdio::null())
                .spawn()
                .context("the CLI does not start")?;
            Ok(Some(child))
        };
        match self {
            Work::Import => configure(0, "import"),
            Work::Export => configure(2, "export"),
            Work::Refresh => peers.c.request_routes().map(|()| None),
            Work::SessionEnd => peers.a.end().map(|()| None),
        }
    }
}

/// The delays of routes from peer to peer during a kind of work.
#[derive(Clone, Debug)]
pub struct Delays {
    /// The router.
    pub device: Device,
    /// The kind of work.
    pub work: Work,
    /// For each route the time of sending, in seconds since the beginning of the work, and the delay in milliseconds.
    pub routes: Vec<(f64, f64)>,
    /// The changes of other routes that the receiver was sent meanwhile.
    pub changes: u64,
    /// The duration of the work, to the last of these changes, in seconds.
    pub seconds: f64,
}

/// Measures a router with a full table of at least `changes` routes during a kind of work.
pub fn during(device: Device, work: Work, peers: &mut Peers, cli: &Cli<'_>, changes: u64) -> Result<Delays> {
    while peers.c.arrivals.try_recv().is_ok() {}
    let before = peers.c.changes();
    let start = Instant::now();
    let mut probes = Probes::new(work, start);
    let mut child = work.begin(device, peers, cli)?;
    let (mut others, mut last_change) = (0, start);
    for round in 0.. {
        probes.collect(peers, start + PAUSE * round);
        probes.send(peers)?;
        let now = (peers.c.changes() - before).saturating_sub(probes.arrived);
        if now > others {
            (others, last_change) = (now, Instant::now());
        }
        if others >= changes && last_change.elapsed() > REST {
            break;
        }
        ensure!(start.elapsed() < PATIENCE, "{others} of {changes} changes have arrived: {}", work.name());
    }
    if let Some(child) = &mut child {
        ensure!(child.wait()?.success(), "the commit failed");
    }
    probes.finish(peers)?;
    let seconds = last_change.duration_since(start).as_secs_f64();
    probes.delays.retain(|(at, _)| *at <= seconds);
    Ok(Delays { device, work, routes: probes.delays, changes: others, seconds })
}

/// Timed routes that take turns.
struct Probes {
    work: Work,
    start: Instant,
    /// For each route on its way the time of sending.
    sent: [Option<Instant>; ROUTES],
    next: usize,
    arrived: u64,
    delays: Vec<(f64, f64)>,
}

impl Probes {
    fn new(work: Work, start: Instant) -> Self {
        Probes { work, start, sent: [None; ROUTES], next: 0, arrived: 0, delays: Vec::new() }
    }

    /// Announces the next route along a path that it never had, unless it is still on its way.
    fn send(&mut self, peers: &mut Peers) -> Result<()> {
        let number = self.next % ROUTES;
        if self.sent[number].is_none() {
            self.sent[number] = Some(Instant::now());
            let path = [self.work as u32 + 1, (self.next / ROUTES) as u32 + 1];
            peers.b.announce_by(probe(number as u8), &path)?;
            self.next += 1;
        }
        Ok(())
    }

    /// Records arrivals until `due`.
    fn collect(&mut self, peers: &Peers, due: Instant) {
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            let Ok(seen) = peers.c.arrivals.recv_timeout(left) else { return };
            self.arrived += 1;
            if let Some(sent) = self.sent[usize::from(seen.number)].take() {
                let at = sent.duration_since(self.start).as_secs_f64();
                self.delays.push((at, seen.at.duration_since(sent).as_secs_f64() * 1e3));
            }
        }
    }

    /// Waits for the routes on their way.
    fn finish(&mut self, peers: &Peers) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.sent.iter().any(Option::is_some) {
            ensure!(Instant::now() < end, "timed routes did not arrive");
            self.collect(peers, Instant::now() + PAUSE);
        }
        self.delays.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(())
    }
}
