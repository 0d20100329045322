//! The generator: its program, and the thread that runs the program on live frames.

use crate::spec::{Content, STAMP, Spec};
use crate::{PktgenError, ffi, headers, permit, xip};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::time::{ClockId, clock_gettime};
use sluice_bpf::array::MappedArray;
use sluice_bpf::attach::interface_index;
use sluice_bpf::run::{Ended, run_live};
use sluice_bpf::{BpfError, Embedded, Loaded, Loader};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The most rounds of one call: those beyond are run by the next call. The kernel counts rounds in 32 bits and adds a
/// batch before it compares.
const MOST_ROUNDS: u32 = u32::MAX - 0xffff;

/// The octets of the program's constant for raw frames (`RAW_WORDS` in `bpf/pktgen.bpf.c`).
const RAW_OCTETS: usize = 190 * 8;

/// The octets of the program's constant for headers.
const HEADER_OCTETS: usize = 64;

/// The time between two looks at the generator's position, and between two signals to a thread that has not ended yet.
const LOOK: Duration = Duration::from_millis(5);

/// The words of `struct generator`.
const SENT: usize = 0;
const IDLE: usize = 1;
const FIRST: usize = 2;
const LAST: usize = 3;

/// A generator that has not begun.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: Spec,
}

impl Generator {
    /// Describes a generator.
    pub fn new(spec: Spec) -> Self {
        Generator { spec }
    }

    /// Loads the program and begins to send, on a thread of its own in this thread's network namespace.
    ///
    /// # Errors
    ///
    /// If sending from the interface is not permitted ([`permit`]), the description has no meaning, or the kernel or
    /// this build lacks something.
    pub fn start(self) -> Result<Running, PktgenError> {
        let spec = self.spec;
        let octets = spec.octets()?;
        let interface = interface_index(&spec.interface)?;
        permit::check(&spec.interface, spec.named_again.as_deref())?;
        let mut frame = match &spec.content {
            Content::Udp(_) => Vec::new(),
            Content::Xip(xip) => xip::frame(hardware_address(&spec.interface)?, xip.to, xip.format, octets),
            Content::Raw(frame) => frame.clone(),
        };
        let threads = spec.threads.get();
        let programs: Vec<Loaded> =
            (0..threads).map(|number| load(&spec, octets, &frame, number)).collect::<Result<_, _>>()?;
        frame.resize(octets, 0);
        ffi::prepare_interrupts().map_err(PktgenError::call("setting a signal's handler"))?;
        let done = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| PktgenError::call("making an event")(error.into()))?;
        let position = |program: &Loaded| MappedArray::new(program.map("generators")?);
        let positions: Vec<MappedArray> = programs.iter().map(position).collect::<Result<_, _>>()?;
        let (stop, under_way) = (AtomicBool::new(false), AtomicU32::new(threads));
        let shared = Arc::new(Shared { positions, stop, under_way, done });
        let no_thread = || PktgenError::call("starting a thread");
        let mut senders = Vec::new();
        for (number, program) in programs.into_iter().enumerate() {
            let work = Work {
                program,
                frame: frame.clone(),
                interface,
                limit: limit_of(&spec, number as u64),
                is_paced: spec.rate.is_some(),
                number,
                shared: shared.clone(),
            };
            let sender = Builder::new().name("pktgen".into()).spawn(move || work.run());
            match sender {
                Ok(sender) => senders.push(sender),
                Err(error) => {
                    shared.end(&senders);
                    return Err(no_thread()(error));
                }
            }
        }
        let mut running = Running { shared, octets, senders: Some(Arc::new(senders)), watcher: None };
        // A paced program has idle rounds, so that no number of rounds ends the run at the limit.
        let limit = spec.limit.map(u64::from);
        if let (Some(limit), true, Some(senders)) = (limit, spec.rate.is_some(), running.senders.clone()) {
            let shared = running.shared.clone();
            let watch = move || shared.stop_at(limit, &senders);
            running.watcher =
                Some(Builder::new().name("pktgen-watch".into()).spawn(watch).map_err(no_thread())?);
        }
        Ok(running)
    }
}

/// Returns the packets of a thread; `None` without a limit.
fn limit_of(spec: &Spec, number: u64) -> Option<u64> {
    let threads = u64::from(spec.threads.get());
    spec.limit.map(|limit| u64::from(limit) / threads + u64::from(number < u64::from(limit) % threads))
}

/// Loads the program of a thread for frames of `octets` octets. `template` has the octets of frames other than UDP.
fn load(spec: &Spec, octets: usize, template: &[u8], number: u32) -> Result<Loaded, PktgenError> {
    let threads = u64::from(spec.threads.get());
    let mut loader = Loader::new(Embedded::Pktgen)
        .constant_u32("stream", spec.stream)
        // A thread without packets of its own never runs its program.
        .constant_u64("limit", limit_of(spec, number.into()).unwrap_or(0))
        .constant_u64("offset", number.into())
        .constant_u64("stride", threads)
        .constant_u64("omitted", spec.omitted.map_or(0, |sequence| sequence.saturating_add(1)))
        // Nanoseconds between packets in 1/1024.
        .constant_u64(
            "gap",
            spec.rate.map_or(0, |rate| (1_024_000_000_000 * threads / u64::from(rate)).max(1)),
        );
    let mut ring: &[IpAddr] = &[];
    let template = |loader: Loader, rewritten: usize| {
        let mut constant = template.to_vec();
        constant.resize(RAW_OCTETS, 0);
        loader
            .constant_u32("family", 0)
            .constant("raw", &constant)
            .constant_u32("raw_octets", rewritten as u32)
    };
    match &spec.content {
        Content::Udp(udp) => {
            let from = hardware_address(&spec.interface)?;
            let headers = headers::make(from, udp.to, udp.source, octets, spec.stream);
            let mut constant = headers.octets;
            constant.resize(HEADER_OCTETS, 0);
            loader = loader
                .constant_u32("family", if udp.source.is_ipv4() { 4 } else { 6 })
                .constant("headers", &constant)
                .constant_u32("ip_sum", headers.ip_sum)
                .constant_u32("udp_sum", headers.udp_sum)
                .constant_u32("flow_length", udp.flow_length)
                .constant_u32("flows", udp.flows);
            ring = &udp.destinations;
        }
        Content::Xip(xip) => {
            // No router changes the payload, which the kernel's frames keep.
            loader = template(loader, xip.format.header_octets())
                .constant_u32("raw_destination", xip.format.destination_offset() as u32);
            ring = &xip.destinations;
        }
        Content::Raw(frame) => {
            let has_stamp = octets - frame.len() >= STAMP;
            loader = template(loader, octets)
                .constant_u32("raw_stamp", if has_stamp { (octets - STAMP) as u32 } else { 0 });
        }
    }
    let entries = ring.len().max(1) as u32;
    let program =
        loader.constant_u32("destination_mask", entries - 1).entries("destinations", entries).load()?;
    store_destinations(&program, ring)?;
    Ok(program)
}

fn store_destinations(program: &Loaded, ring: &[IpAddr]) -> Result<(), BpfError> {
    let map = MappedArray::new(program.map("destinations")?)?;
    for (entry, address) in ring.iter().enumerate() {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => octets = address.octets(),
        }
        for (word, octets) in octets.as_chunks::<8>().0.iter().enumerate() {
            map.store64(entry, word, u64::from_ne_bytes(*octets));
        }
    }
    Ok(())
}

/// Returns the Ethernet address of an interface of this thread's network namespace.
fn hardware_address(interface: &str) -> Result<[u8; 6], PktgenError> {
    let all =
        nix::ifaddrs::getifaddrs().map_err(|error| PktgenError::call("listing interfaces")(error.into()))?;
    let mut own = all.filter(|entry| entry.interface_name == interface).filter_map(|entry| entry.address);
    let address = own.find_map(|address| address.as_link_addr().and_then(|link| link.addr()));
    address.ok_or_else(|| PktgenError::NoInterface { interface: interface.into() })
}

/// State of a run that all its threads know.
#[derive(Debug)]
struct Shared {
    /// The maps `generators` of the threads, which their programs write.
    positions: Vec<MappedArray>,
    /// True if the senders are to end.
    stop: AtomicBool,
    /// The senders that have not ended.
    under_way: AtomicU32,
    /// Readable after the end of all senders, or of one that failed.
    done: EventFd,
}

impl Shared {
    fn word(&self, thread: usize, word: usize) -> u64 {
        self.positions.get(thread).and_then(|position| position.load64(0, word)).unwrap_or(0)
    }

    /// Returns the words of all threads.
    fn words(&self, word: usize) -> impl Iterator<Item = u64> {
        (0..self.positions.len()).map(move |thread| self.word(thread, word))
    }

    /// Waits for the senders' end, at most for `longest`, or without a limit. Returns true if they have ended, or one has failed.
    fn is_done(&self, longest: Option<Duration>) -> bool {
        let timeout = longest
            .map_or(PollTimeout::NONE, |longest| PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX));
        let mut events = [PollFd::new(self.done.as_fd(), PollFlags::POLLIN)];
        poll(&mut events, timeout).is_ok_and(|readable| readable > 0)
    }

    /// Ends the senders. A signal that comes before the system call has begun is lost; therefore it is repeated.
    fn end(&self, senders: &[Sender]) {
        self.stop.store(true, Ordering::Release);
        loop {
            let mut left = senders.iter().filter(|sender| !sender.is_finished()).peekable();
            if left.peek().is_none() {
                return;
            }
            left.for_each(ffi::interrupt);
            std::thread::sleep(LOOK);
        }
    }

    /// Ends the senders as soon as `limit` packets are sent.
    fn stop_at(&self, limit: u64, senders: &[Sender]) {
        while !self.is_done(Some(LOOK)) {
            if self.words(SENT).sum::<u64>() >= limit {
                return self.end(senders);
            }
        }
    }
}

/// A thread that sends. Its result is its processor time.
type Sender = JoinHandle<Result<Duration, PktgenError>>;

/// Marks a sender's end, also after a panic.
struct Done {
    shared: Arc<Shared>,
    /// True if the sender has sent all that it is to send, or was stopped.
    is_orderly: bool,
}

impl Drop for Done {
    fn drop(&mut self) {
        let is_last = self.shared.under_way.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last || !self.is_orderly {
            // Fails only if the event's number is at its maximum; the event is then readable already.
            let _ = self.shared.done.write(1);
        }
    }
}

/// The state that a sending thread owns.
struct Work {
    program: Loaded,
    frame: Vec<u8>,
    interface: u32,
    limit: Option<u64>,
    is_paced: bool,
    /// The thread's number.
    number: usize,
    shared: Arc<Shared>,
}

impl Work {
    /// Sends until the limit is reached or the run is stopped. Returns the processor time of this thread.
    fn run(self) -> Result<Duration, PktgenError> {
        let mut done = Done { shared: self.shared.clone(), is_orderly: false };
        let mut before = 0;
        while !self.shared.stop.load(Ordering::Acquire) {
            let sent = self.shared.word(self.number, SENT);
            let missing = self.limit.map(|limit| limit.saturating_sub(sent));
            if missing == Some(0) {
                break;
            }
            // Without pauses each round sends one packet, and the kernel ends the run at the limit.
            let rounds = missing
                .filter(|_| !self.is_paced)
                .map_or(MOST_ROUNDS, |missing| u32::try_from(missing).unwrap_or(u32::MAX).min(MOST_ROUNDS));
            let ended = run_live(self.program.program(), &self.frame, self.interface, rounds)?;
            let moved = self.shared.word(self.number, SENT) + self.shared.word(self.number, IDLE);
            if ended == Ended::Completed && moved == before {
                return Err(PktgenError::Stalled { sent });
            }
            before = moved;
        }
        done.is_orderly = true;
        let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
            .map_err(|error| PktgenError::call("reading the processor time")(error.into()))?;
        Ok(now.into())
    }
}

/// A generator that sends. Dropping it ends the sending.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    octets: usize,
    senders: Option<Arc<Vec<Sender>>>,
    watcher: Option<JoinHandle<()>>,
}

impl Running {
    /// Returns the packets sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.words(SENT).sum()
    }

    /// Returns the descriptor that is readable when the limit is reached or sending has failed.
    pub fn done(&self) -> BorrowedFd<'_> {
        self.shared.done.as_fd()
    }

    /// Waits until the limit is reached or sending has failed, at most for `longest`. Returns true if so.
    pub fn wait(&self, longest: Option<Duration>) -> bool {
        let deadline = longest.and_then(|longest| Instant::now().checked_add(longest));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if self.shared.is_done(left) {
                return true;
            }
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
        }
    }

    /// Ends the sending and returns the counts.
    ///
    /// # Errors
    ///
    /// If the kernel refused to send.
    pub fn stop(mut self) -> Result<Sent, PktgenError> {
        let cpu = self.end()?;
        let first = self.shared.words(FIRST).filter(|first| *first > 0).min().unwrap_or(0);
        let last = self.shared.words(LAST).max().unwrap_or(0);
        let packets = self.sent();
        Ok(Sent {
            packets,
            octets: packets * self.octets as u64,
            duration: Duration::from_nanos(last.saturating_sub(first)),
            cpu,
            idle: self.shared.words(IDLE).sum(),
        })
    }

    fn end(&mut self) -> Result<Duration, PktgenError> {
        let Some(senders) = self.senders.take() else { return Ok(Duration::ZERO) };
        self.shared.end(&senders);
        // The watcher uses the senders' handles: its end comes first.
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        // No other thread is left that holds the handles.
        let senders = Arc::try_unwrap(senders).unwrap_or_default();
        let times = senders.into_iter().map(|sender| match sender.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        times.collect::<Vec<_>>().into_iter().sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The caller does not want to know.
        let _ = self.end();
    }
}

/// The counts of a generator that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Packets handed to the interface.
    pub packets: u64,
    /// Octets of their frames, without check sequences.
    pub octets: u64,
    /// The time from the first to the last packet.
    pub duration: Duration,
    /// The processor time of the sending threads, in which the kernel may also carry the packets on.
    pub cpu: Duration,
    /// Rounds in which no packet was due.
    pub idle: u64,
}
