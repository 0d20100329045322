//! A run in which the client does not compete with the target: all messages of the senders are in the target's sockets
//! before the target may read, and the client reads the target's messages only after the target is idle. Therefore the
//! measured time is the target's own, even if the target shares its processors with the client.

use crate::ffi;
use crate::meter::{self, Load, Meter};
use crate::order::Schedule;
use crate::peers::brake::{Brake, Standstill};
use crate::peers::reader::{Ear, Waste};
use crate::peers::sender::{Senders, Speed};
use crate::peers::session::{Role, Session};
use crate::run::{self, PhaseResult, Setup};
use crate::stream::Stream;
use crate::tally::Tally;
use crate::workload::{Action, Phase, Workload};
use anyhow::{Context, Result, anyhow, bail, ensure};
use bench_report::number;
use rustix::io::ioctl_fionread;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval at which the client checks for new octets and discards the senders' input.
const PEEK: Duration = Duration::from_millis(1);
/// The interval at which everything else is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Runs a workload with a single phase, in which senders send messages. The target stands still until its system has
/// received every message. The phase begins with the target's release and ends when the receivers' sockets no longer
/// fill. Only then do the receivers read and compare their input with the expectation.
///
/// The target's system has to hold the senders' whole output, and the client's system the whole input of a receiver.
/// The middle value of `net.ipv4.tcp_rmem` (or the largest of both families) in their network namespaces bounds this
/// for each connection. `setup.patience` also bounds the transfer to the target's system. `before_end` is called while
/// the sessions are still up.
///
/// # Errors
/// As [`run::run_and`]; if not everything is taken over in time, or held; if a hold time is agreed on, since nobody keeps sessions alive.
pub fn run_and(
    setup: &Setup,
    workload: &Workload,
    brake: &dyn Brake,
    before_end: impl FnOnce(),
) -> Result<Vec<PhaseResult>> {
    let [phase] = &workload.phases[..] else { bail!("there is more than one phase") };
    let Action::Send { streams, schedule } = &phase.action else { bail!("nothing is sent") };
    let deadline = Instant::now() + setup.timeout;
    let sessions = run::connect(setup, deadline)?;
    ensure!(sessions.iter().all(|s| s.hold_time == 0), "who stands still sends no KEEPALIVE: no hold time");
    let of = |role| sessions.iter().filter(|s| s.peer.role == role).cloned().collect::<Vec<_>>();
    let (senders, receivers) = (of(Role::Sender), of(Role::Receiver));
    ensure!(!receivers.is_empty(), "nobody listens");
    let ear = Ear::new(sessions.clone(), &Tally::new(workload.index.clone(), workload.paths));
    let aloof = Aloof { setup, ear: &ear, senders: &senders, receivers: &receivers, deadline };
    let result = aloof
        .phase(phase, streams, schedule, brake)
        .with_context(|| format!("phase `{}`, with the client out of the way", phase.name));
    if result.is_ok() {
        before_end();
    }
    sessions.iter().for_each(|s| s.close());
    Ok(vec![result?])
}

struct Aloof<'a> {
    setup: &'a Setup,
    ear: &'a Ear,
    senders: &'a [Arc<Session>],
    receivers: &'a [Arc<Session>],
    deadline: Instant,
}

/// The octets in a receiver's socket.
#[derive(Clone, Copy)]
struct Heap {
    octets: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Heap {
    fn grows(&mut self, octets: u64, at: Instant) -> bool {
        let grows = octets > self.octets;
        if grows {
            self.octets = octets;
            self.first.get_or_insert(at);
            self.last = Some(at);
        }
        grows
    }
}

impl Aloof<'_> {
    fn phase(
        &self,
        phase: &Phase,
        streams: &[Stream],
        schedule: &Schedule,
        brake: &dyn Brake,
    ) -> Result<PhaseResult> {
        self.ear.receivers().for_each(|(_, mut tally)| tally.begin(phase.expectation.clone()));
        self.await_rest()?;
        self.receivers_are_readable_from(c_int::MAX)?;
        let standstill = Standstill::of(brake)?;
        self.hand_over(streams, schedule)?;
        let mut heaps = self.heaps()?;
        let meter = Meter::start(&self.setup.target_processes);
        let (begin, own_begin) = (Instant::now(), meter::own());
        drop(standstill);
        let own = self.keep_away(begin, &mut heaps)?.saturating_sub(own_begin);
        let load = Load { own_s: own.as_secs_f64(), ..meter.load() };
        let target_peak = meter.target_peak();
        self.receivers_are_readable_from(1)?;
        self.read(heaps.iter().map(|h| h.octets).sum())?;
        let received = self.ear.receivers().zip(&heaps).map(|((session, tally), heap)| {
            let mut received = run::received(session, &tally);
            // Read was later; what counts is when it was there.
            (received.counts.first, received.counts.last) = (heap.first, heap.last);
            received.counts.complete = heap.last.filter(|_| received.complete);
            received
        });
        Ok(PhaseResult {
            name: phase.name,
            measured: phase.measured,
            routes: phase.routes,
            news: phase.expectation.news.count(),
            messages: streams.iter().map(Stream::len).sum(),
            octets: streams.iter().map(|s| s.octets(0..s.len()).len()).sum(),
            begin,
            sent: Some(Duration::ZERO),
            received: received.collect(),
            load,
            target_peak,
            delays: Vec::new(),
            progress: Vec::new(),
        })
    }

    /// With a bound that is never reached, a receiver's system acknowledges input at once. Without the bound, an
    /// unread socket acknowledges 40 ms late, and the target waits.
    fn receivers_are_readable_from(&self, octets: c_int) -> Result<()> {
        Ok(self.receivers.iter().try_for_each(|s| ffi::set_low_water(&s.socket, octets))?)
    }

    fn heaps(&self) -> Result<Vec<Heap>> {
        let octets = self.receivers.iter().map(|s| Ok(ioctl_fionread(&s.socket)?));
        octets.map(|octets| octets.map(|octets| Heap { octets, first: None, last: None })).collect()
    }

    /// Waits until the target sends no more messages of its own accord.
    fn await_rest(&self) -> Result<()> {
        let unread = || -> Result<u64> {
            let all = self.senders.iter().chain(self.receivers);
            all.map(|s| Ok(ioctl_fionread(&s.socket)?)).sum()
        };
        let begin = Instant::now();
        let (mut before, mut since) = (unread()?, begin);
        while since.elapsed() < self.setup.settle {
            ensure!(begin.elapsed() < self.setup.patience, "the target does not come to rest");
            std::thread::sleep(GLANCE);
            let now = unread()?;
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Sends the whole workload, and waits until the target's system has received the last octet.
    fn hand_over(&self, streams: &[Stream], schedule: &Schedule) -> Result<()> {
        let begin = Instant::now();
        let over = AtomicBool::new(false);
        let senders = Senders { sessions: self.senders, streams, speed: Speed::Full, begin, over: &over };
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| senders.run(schedule));
            let taken = loop {
                std::thread::sleep(GLANCE);
                let is_sent = sending.is_finished();
                match self.not_taken() {
                    Ok(0) if is_sent => break Ok(()),
                    Ok(_) if begin.elapsed() < self.setup.patience => {}
                    Ok(_) => break Err(self.held_up(streams)),
                    Err(e) => break Err(e.into()),
                }
            };
            let is_sent = sending.is_finished();
            if taken.is_err() {
                over.store(true, Ordering::Relaxed);
                // A sender that waits for the target's system is woken.
                self.senders.iter().for_each(|s| s.hang_up());
            }
            let sent = sending.join().map_err(|_| anyhow!("the sender panicked"))?;
            // What went wrong with those that were hung up on is no news.
            if is_sent {
                sent?;
            }
            taken
        })
    }

    /// Returns the octets that were written and not yet received by the target's system.
    fn not_taken(&self) -> rustix::io::Result<u64> {
        self.senders.iter().map(|s| ffi::unacknowledged(&s.socket)).sum()
    }

    fn held_up(&self, streams: &[Stream]) -> anyhow::Error {
        let sizes = streams.iter().map(|s| s.octets(0..s.len()).len());
        anyhow!(
            "the target's sockets did not take {} MB of {} connections within {} s while it stood still, the longest {} MB: there has \
             to be room for them (net.ipv4.tcp_rmem, its middle and last value, in the target's network namespace; \
             net.ipv4.tcp_mem), or less to be sent",
            number(sizes.clone().sum::<usize>() as f64 / 1e6),
            sizes.len(),
            self.setup.patience.as_secs_f64(),
            number(sizes.max().unwrap_or(0) as f64 / 1e6),
        )
    }

    /// Sleeps until no more octets arrive; returns the processor time of this process at the last arrival.
    fn keep_away(&self, begin: Instant, heaps: &mut [Heap]) -> Result<Duration> {
        let mut waste = Waste::default();
        let (mut last, mut own) = (None, Duration::ZERO);
        loop {
            std::thread::sleep(PEEK);
            for session in self.senders {
                // That a connection broke is found out where it is read.
                let _ = session.throw_away(&mut waste);
            }
            let now = Instant::now();
            let mut any = false;
            for (heap, session) in heaps.iter_mut().zip(self.receivers) {
                any |= heap.grows(ioctl_fionread(&session.socket)?, now);
            }
            if any {
                (last, own) = (Some(now), meter::own());
            }
            let silent = now.saturating_duration_since(last.unwrap_or(begin));
            let enough = if last.is_some() { self.setup.settle } else { self.setup.patience };
            if silent >= enough || now >= self.deadline {
                return Ok(own);
            }
        }
    }

    /// Reads `octets` octets from the receivers, and checks for leftovers.
    fn read(&self, octets: u64) -> Result<()> {
        let threads = self.setup.reading_threads.clamp(1, self.receivers.len());
        let ear = self.ear;
        std::thread::scope(|scope| {
            let reading: Vec<_> =
                (0..threads).map(|first| scope.spawn(move || ear.listen(first, threads))).collect();
            let end = self.await_read(octets);
            ear.let_senders_end();
            ear.end();
            for thread in reading {
                thread.join().map_err(|_| anyhow!("a reading thread panicked"))??;
            }
            end
        })
    }

    fn await_read(&self, octets: u64) -> Result<()> {
        let (mut before, mut since) = (0, Instant::now());
        loop {
            std::thread::sleep(GLANCE);
            if let Some(reason) = self.ear.failure() {
                bail!(reason);
            }
            let read: u64 = self.ear.receivers().map(|(_, tally)| tally.counts.octets).sum();
            ensure!(
                read <= octets,
                "the target went on when receivers began to read, after {} MB: either their sockets did not hold everything \
                 (net.ipv4.tcp_rmem, its middle and last value, in the client's network namespace), or it paused for more than {} s",
                number(octets as f64 / 1e6),
                self.setup.settle.as_secs_f64()
            );
            if read != before {
                (before, since) = (read, Instant::now());
            }
            let silent = since.elapsed();
            if read == octets && silent >= self.setup.settle {
                return Ok(());
            }
            ensure!(silent < self.setup.patience, "what lies in the receivers' sockets cannot be read");
        }
    }
}
