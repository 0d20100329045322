//! A run from the first connection to the last octet: sessions up, phase after phase, everything watched and bounded in time.

use crate::meter::{Load, Meter};
use crate::order::Schedule;
use crate::peers::reader::Ear;
use crate::peers::sender::{Senders, Speed};
use crate::peers::session::{Features, Peer, Restart, Role, Session};
use crate::stay::Kept;
use crate::stream::Stream;
use crate::tally::{Counts, Tally};
use crate::workload::{Action, Phase, Workload};
use anyhow::{Context, Result, anyhow, bail, ensure};
use sluice_base::Asn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval at which the run is looked at.
const GLANCE: Duration = Duration::from_millis(5);
/// The interval at which the run checks for the arrival of a single route. The reader records the time of arrival.
const PEEK: Duration = Duration::from_micros(100);
/// Between two single routes.
const PACE: Duration = Duration::from_millis(10);
/// Most points of a progress; beyond the limit, every second point is dropped.
const POINTS: usize = 1000;

/// The participants of a run and its timeouts.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The target.
    pub target: SocketAddr,
    /// The target's AS.
    pub target_as: Asn,
    /// Senders first.
    pub peers: Vec<Peer>,
    /// Receivers that connect when the plan requires it.
    pub late: Vec<Peer>,
    /// The port to wait for the target's connections at, instead of connecting.
    pub listen: Option<u16>,
    /// Receivers only count: the target copies, and knows of no best path.
    pub only_count: bool,
    /// The speed at which the measured phase is sent.
    pub speed: Speed,
    /// Number of reading threads.
    pub reading_threads: usize,
    /// The target's processes.
    pub target_processes: Vec<u32>,
    /// Timeout of the whole run.
    pub timeout: Duration,
    /// The time without messages after which receivers give up.
    pub patience: Duration,
    /// The time without messages after which a phase is over.
    pub settle: Duration,
}

/// A receiver's messages in a phase.
#[derive(Clone, Debug)]
pub struct Received {
    /// The receiver.
    pub peer: Peer,
    /// The receiver's counts.
    pub counts: Counts,
    /// True if the receiver received every expected message.
    pub complete: bool,
    /// Prefixes that the receiver lacks: their number, and some of them.
    pub missing: (usize, Vec<String>),
    /// Prefixes that the receiver should not have any more, likewise.
    pub surplus: (usize, Vec<String>),
}

/// The results of a phase.
#[derive(Clone, Debug)]
pub struct PhaseResult {
    /// For people.
    pub name: &'static str,
    /// True for the measured phase of the run.
    pub measured: bool,
    /// Prefixes in the senders' messages.
    pub routes: usize,
    /// Changes that every receiver should have received.
    pub news: usize,
    /// The senders' UPDATEs.
    pub messages: usize,
    /// Octets of the UPDATEs.
    pub octets: usize,
    /// The time when the phase began.
    pub begin: Instant,
    /// The time until the systems of client and target had received the last octet.
    pub sent: Option<Duration>,
    /// Results of each receiver.
    pub received: Vec<Received>,
    /// Processor time.
    pub load: Load,
    /// Peak memory of the target at the end of the phase, in octets.
    pub target_peak: Option<u64>,
    /// For single routes, the time of each route to the last receiver.
    pub delays: Vec<Duration>,
    /// Seconds, prefixes sent, prefixes received by each receiver on average.
    pub progress: Vec<(f64, f64, f64)>,
}

impl PhaseResult {
    /// Returns true if every receiver received everything. Without receivers: whether everything was sent.
    pub fn verified(&self) -> bool {
        self.sent.is_some() && self.received.iter().all(|h| h.complete)
    }

    /// The time until the last receiver had received the last change; without receivers, the time until the last octet
    /// was sent.
    pub fn done(&self) -> Option<Duration> {
        let last = self.received.iter().filter_map(|h| h.counts.last).max();
        if self.received.is_empty() {
            self.sent
        } else {
            last.map(|at| at.saturating_duration_since(self.begin))
        }
    }

    /// Prefixes of the senders a second, until the phase was done.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.done()?.as_secs_f64();
        (seconds > 0.0).then(|| self.routes as f64 / seconds)
    }
}

/// Runs a workload; returns the results of its phases. Ends after the first phase that is not complete in time.
///
/// # Errors
/// If a session does not come up, or ends too early.
pub fn run(setup: &Setup, workload: &Workload) -> Result<Vec<PhaseResult>> {
    run_and(setup, workload, || ())
}

/// Runs a workload and calls `before_end` while the sessions are still up. The sessions end when `before_end` has returned.
///
/// # Errors
/// As [`run`].
pub fn run_and(setup: &Setup, workload: &Workload, before_end: impl FnOnce()) -> Result<Vec<PhaseResult>> {
    run_and_keep(setup, workload, |_, _| {
        before_end();
        Ok(())
    })
}

/// Runs a workload and calls `before_end` with the results and the sessions, which are still up. The sessions end when `before_end`
/// has returned.
///
/// # Errors
/// As [`run`], and with the error of `before_end`.
pub fn run_and_keep(
    setup: &Setup,
    workload: &Workload,
    before_end: impl FnOnce(&[PhaseResult], &Kept<'_>) -> Result<()>,
) -> Result<Vec<PhaseResult>> {
    let deadline = Instant::now() + setup.timeout;
    let sessions = connect(setup, deadline)?;
    let ear = Ear::new(sessions.clone(), &Tally::new(workload.index.clone(), workload.paths));
    let threads = setup.reading_threads.clamp(1, sessions.len());
    let senders: Vec<Arc<Session>> =
        sessions.iter().filter(|s| s.peer.role == Role::Sender).cloned().collect();
    std::thread::scope(|scope| {
        let ear = &ear;
        let reading: Vec<_> =
            (0..threads).map(|first| scope.spawn(move || ear.listen(first, threads))).collect();
        let returned = OnceLock::new();
        let run = Run { setup, ear, sessions: &sessions, senders: &senders, returned: &returned, deadline };
        let result = run.phases(&workload.phases).and_then(|results| {
            before_end(&results, &Kept { ear, sessions: &sessions })?;
            Ok(results)
        });
        ear.let_senders_end();
        sessions.iter().for_each(|s| s.close());
        ear.end();
        if let Some(returned) = returned.into_inner() {
            returned.end()?;
        }
        for thread in reading {
            thread.join().map_err(|_| anyhow!("a reading thread panicked"))??;
        }
        result
    })
}

pub(crate) fn connect(setup: &Setup, deadline: Instant) -> Result<Vec<Arc<Session>>> {
    connect_all(setup, &setup.peers, deadline)
}

fn connect_all(setup: &Setup, peers: &[Peer], deadline: Instant) -> Result<Vec<Arc<Session>>> {
    let connect = |peer: &Peer| match setup.listen {
        Some(port) => Session::listen(peer.clone(), port, setup.target, setup.target_as, deadline),
        None => Session::connect(peer.clone(), setup.target, setup.target_as, deadline),
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = peers.iter().map(|peer| scope.spawn(move || connect(peer))).collect();
        let all = all.into_iter().map(|t| t.join().map_err(|_| anyhow!("a connecting thread panicked"))?);
        all.map(|session| session.map(Arc::new)).collect()
    })
}

#[derive(Clone, Copy)]
struct Run<'a> {
    setup: &'a Setup,
    ear: &'a Ear,
    sessions: &'a [Arc<Session>],
    senders: &'a [Arc<Session>],
    /// The sender that has restarted.
    returned: &'a OnceLock<Returned>,
    deadline: Instant,
}

/// A sender that has connected again, and the thread that reads the target's messages to the sender.
#[derive(Debug)]
struct Returned {
    session: Arc<Session>,
    ear: Arc<Ear>,
    reading: JoinHandle<Result<()>>,
}

impl Returned {
    /// Begins to read a session.
    fn listen(session: Arc<Session>, tally: &Tally) -> Self {
        let ear = Arc::new(Ear::new(vec![session.clone()], tally));
        let thread = ear.clone();
        Returned { session, ear, reading: std::thread::spawn(move || thread.listen(0, 1)) }
    }

    /// Ends the session.
    fn end(self) -> Result<()> {
        self.ear.let_senders_end();
        self.session.close();
        self.ear.end();
        self.reading.join().map_err(|_| anyhow!("a reading thread panicked"))?
    }
}

impl Run<'_> {
    fn phases(&self, phases: &[Phase]) -> Result<Vec<PhaseResult>> {
        // What is left of an earlier run, or said of its own accord, has to be over before anything is counted.
        self.watch(&mut Progress::begin(self.senders, 0), || true)?;
        if let Some((session, tally)) = self.ear.receivers().find(|(_, tally)| !tally.is_complete()) {
            let (count, some) = tally.surplus();
            bail!(
                "{} receives {count} routes before they are sent, such as {}",
                session.peer,
                some.join(", ")
            );
        }
        let mut results = Vec::new();
        for phase in phases {
            let result = self.phase(phase).with_context(|| format!("phase `{}`", phase.name))?;
            let verified = result.verified();
            results.push(result);
            if !verified {
                break;
            }
        }
        Ok(results)
    }

    fn phase(&self, phase: &Phase) -> Result<PhaseResult> {
        self.ear.receivers().for_each(|(_, mut tally)| tally.begin(phase.expectation.clone()));
        if let (true, Action::Send { streams, .. }) = (self.setup.only_count, &phase.action) {
            let all: usize = streams.iter().map(|s| s.prefixes(0..s.len())).sum();
            self.ear.receivers().for_each(|(_, mut tally)| tally.only_count(all as u64));
        }
        let meter = Meter::start(&self.setup.target_processes);
        let mut progress = Progress::begin(self.senders, self.setup.peers.len() - self.senders.len());
        let begin = progress.begin;
        let mut messages = 0;
        let mut octets = 0;
        let mut delays = Vec::new();
        let sent = match &phase.action {
            Action::Send { streams, schedule } => {
                messages = streams.iter().map(|s| s.len()).sum();
                octets = streams.iter().map(|s| s.octets(0..s.len()).len()).sum();
                let speed = if phase.measured { self.setup.speed } else { Speed::Full };
                self.send(self.senders, streams, schedule, speed, &mut progress)?
            }
            Action::Restart { streams, schedule } => {
                messages = streams.iter().map(|s| s.len()).sum();
                octets = streams.iter().map(|s| s.octets(0..s.len()).len()).sum();
                let session = self.restart()?;
                self.send(&[session], streams, schedule, self.setup.speed, &mut progress)?
            }
            Action::Close(first) => {
                self.ear.let_senders_end();
                self.senders.iter().take(*first).for_each(|s| s.close());
                let sent = begin.elapsed();
                self.watch(&mut progress, || true)?;
                Some(sent)
            }
            Action::Probe { sender, stream } => {
                (messages, octets) = (stream.len(), stream.octets(0..stream.len()).len());
                delays = self.probe(&self.senders[*sender], stream)?;
                self.watch(&mut progress, || true)?;
                (delays.len() == stream.len()).then(|| begin.elapsed())
            }
            Action::Join => return self.join(phase, &meter),
        };
        let load = meter.load();
        Ok(PhaseResult {
            name: phase.name,
            measured: phase.measured,
            routes: phase.routes,
            news: phase.expectation.news.count(),
            messages,
            octets,
            begin,
            sent,
            received: self.ear.receivers().map(|(s, tally)| received(s, &tally)).collect(),
            load,
            target_peak: meter.target_peak(),
            delays,
            progress: progress.points,
        })
    }

    /// Sends messages by sessions, and watches until the phase is over. Returns the time when the last octet was sent, if everything was.
    fn send(
        &self,
        sessions: &[Arc<Session>],
        streams: &[Stream],
        schedule: &Schedule,
        speed: Speed,
        progress: &mut Progress<'_>,
    ) -> Result<Option<Duration>> {
        let (begin, over) = (progress.begin, AtomicBool::new(false));
        let senders = Senders { sessions, streams, speed, begin, over: &over };
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| senders.run(schedule).map(|()| begin.elapsed()));
            let end = self.watch(progress, || sending.is_finished());
            let was_sent = sending.is_finished();
            if !was_sent {
                over.store(true, Ordering::Relaxed);
                // A sender that waits for the target to read is woken.
                self.ear.let_senders_end();
                sessions.iter().for_each(|s| s.hang_up());
            }
            let sent = sending.join().map_err(|_| anyhow!("the sender panicked"))?;
            end?;
            if was_sent { sent.map(Some) } else { Ok(None) }
        })
    }

    /// Breaks the first sender's connection without a NOTIFICATION, and connects again as a sender that has restarted.
    fn restart(&self) -> Result<Arc<Session>> {
        self.ear.let_senders_end();
        let first = &self.senders[0];
        first.hang_up();
        let features = Features { restart: Restart::Done, ..first.peer.features };
        let peers = [Peer { features, ..first.peer.clone() }];
        let session = connect_all(self.setup, &peers, self.deadline)?.remove(0);
        let tally = self.ear.blank().context("somebody listens")?;
        let returned = Returned::listen(session.clone(), &tally);
        ensure!(self.returned.set(returned).is_ok(), "a sender restarts once");
        Ok(session)
    }

    /// Sends single messages; returns the time of each message to the last receiver. Ends with a message that does not
    /// arrive in time.
    fn probe(&self, sender: &Session, stream: &Stream) -> Result<Vec<Duration>> {
        let mut delays = Vec::new();
        for message in 0..stream.len() {
            let sent = Instant::now();
            sender.send(stream.octets(message..message + 1), stream.prefixes(message..message + 1))?;
            let arrived = loop {
                std::thread::sleep(PEEK);
                let received = |(_, t): (_, MutexGuard<'_, Tally>)| {
                    (t.counts.announced > message as u64).then_some(t.counts.last).flatten()
                };
                let all: Option<Vec<Instant>> = self.ear.receivers().map(received).collect();
                match all {
                    Some(all) => break all.into_iter().max(),
                    None if sent.elapsed() > self.setup.patience => break None,
                    None => {}
                }
            };
            if let Some(reason) = self.ear.failure() {
                bail!(reason);
            }
            let Some(arrived) = arrived else { break };
            delays.push(arrived.saturating_duration_since(sent));
            std::thread::sleep(PACE.saturating_sub(sent.elapsed()));
        }
        Ok(delays)
    }

    /// The late receivers come, and receive everything.
    fn join(&self, phase: &Phase, meter: &Meter) -> Result<PhaseResult> {
        ensure!(!self.setup.late.is_empty(), "nobody comes late");
        let sessions = connect_all(self.setup, &self.setup.late, self.deadline)?;
        let mut tally = self.ear.blank().context("somebody listens from the start")?;
        tally.begin(phase.expectation.clone());
        let ear = Ear::new(sessions.clone(), &tally);
        std::thread::scope(|scope| {
            let ear = &ear;
            let reading = scope.spawn(move || ear.listen(0, 1));
            let run = Run { ear, sessions: &sessions, senders: &[], ..*self };
            let mut progress = Progress::begin(&[], sessions.len());
            let end = run.watch(&mut progress, || true);
            let load = meter.load();
            sessions.iter().for_each(|s| s.close());
            ear.end();
            reading.join().map_err(|_| anyhow!("a reading thread panicked"))??;
            end?;
            Ok(PhaseResult {
                name: phase.name,
                measured: phase.measured,
                routes: phase.routes,
                news: phase.expectation.news.count(),
                messages: 0,
                octets: 0,
                begin: progress.begin,
                sent: Some(Duration::ZERO),
                received: ear.receivers().map(|(s, tally)| received(s, &tally)).collect(),
                load,
                target_peak: meter.target_peak(),
                delays: Vec::new(),
                progress: progress.points,
            })
        })
    }

    /// Watches until the messages are sent and received, or no more messages can arrive, or the time is over.
    fn watch(&self, progress: &mut Progress<'_>, is_sent: impl Fn() -> bool) -> Result<()> {
        let mut alive = Instant::now();
        let mut sent_at = None;
        loop {
            std::thread::sleep(GLANCE);
            let of_returned = || self.returned.get().and_then(|returned| returned.ear.failure());
            if let Some(reason) = self.ear.failure().or_else(of_returned) {
                bail!(reason);
            }
            let now = Instant::now();
            if is_sent() {
                sent_at.get_or_insert(now);
            }
            let (mut complete, mut received, mut last) = (true, 0, None);
            for (_, tally) in self.ear.receivers() {
                complete &= tally.is_complete();
                received += tally.counts.announced + tally.counts.withdrawn;
                last = last.max(tally.counts.last);
            }
            progress.point(now, received);
            let silent = now.saturating_duration_since(last.max(sent_at).unwrap_or(progress.begin));
            let nobody_listens = self.setup.peers.len() == self.senders.len();
            match sent_at {
                Some(_) if complete && (nobody_listens || silent >= self.setup.settle) => {
                    return Ok(());
                }
                Some(_) if silent >= self.setup.patience => return Ok(()),
                _ if now >= self.deadline => return Ok(()),
                _ => {}
            }
            keep_alive(self.sessions, &mut alive);
        }
    }
}

/// Sends KEEPALIVEs if a third of the shortest hold time has passed since `last`.
pub(crate) fn keep_alive(sessions: &[Arc<Session>], last: &mut Instant) {
    let agreed = sessions.iter().map(|s| s.hold_time).filter(|t| *t > 0).min();
    if agreed.is_some_and(|t| last.elapsed().as_secs() >= u64::from(t) / 3) {
        sessions.iter().filter(|s| s.hold_time > 0).for_each(|s| s.keepalive());
        *last = Instant::now();
    }
}

pub(crate) fn received(session: &Session, tally: &Tally) -> Received {
    Received {
        peer: session.peer.clone(),
        counts: tally.counts.clone(),
        complete: tally.is_complete(),
        missing: tally.missing(),
        surplus: tally.surplus(),
    }
}

struct Progress<'a> {
    begin: Instant,
    senders: &'a [Arc<Session>],
    sent_before: u64,
    receivers: usize,
    /// Glances between two points.
    stride: usize,
    glances: usize,
    points: Vec<(f64, f64, f64)>,
}

impl<'a> Progress<'a> {
    fn begin(senders: &'a [Arc<Session>], receivers: usize) -> Self {
        let mut progress = Progress {
            begin: Instant::now(),
            senders,
            sent_before: 0,
            receivers,
            stride: 1,
            glances: 0,
            points: Vec::new(),
        };
        progress.sent_before = progress.sent();
        progress
    }

    fn sent(&self) -> u64 {
        self.senders.iter().map(|s| s.prefixes_sent.load(Ordering::Relaxed)).sum()
    }

    fn point(&mut self, now: Instant, received: u64) {
        self.glances += 1;
        if !self.glances.is_multiple_of(self.stride) {
            return;
        }
        if self.points.len() >= POINTS {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.stride *= 2;
        }
        let seconds = now.saturating_duration_since(self.begin).as_secs_f64();
        self.points.push((
            seconds,
            (self.sent() - self.sent_before) as f64,
            received as f64 / self.receivers.max(1) as f64,
        ));
    }
}
