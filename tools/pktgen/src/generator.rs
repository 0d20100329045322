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
use std::sync::atomic::{AtomicBool, Ordering};
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
        let program = load(&spec, octets, &frame)?;
        frame.resize(octets, 0);
        ffi::prepare_interrupts().map_err(PktgenError::call("setting a signal's handler"))?;
        let done = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| PktgenError::call("making an event")(error.into()))?;
        let shared = Arc::new(Shared {
            position: MappedArray::new(program.map("generators")?)?,
            stop: AtomicBool::new(false),
            done,
        });
        let limit = spec.limit.map(u64::from);
        let work = Work { program, frame, interface, limit, is_paced: spec.rate.is_some(), shared };
        let shared = work.shared.clone();
        let no_thread = || PktgenError::call("starting a thread");
        let sender = Builder::new().name("pktgen".into()).spawn(move || work.run()).map_err(no_thread())?;
        let mut running = Running { shared, octets, sender: Some(Arc::new(sender)), watcher: None };
        // A paced program has idle rounds, so that no number of rounds ends the run at the limit.
        if let (Some(limit), true, Some(sender)) = (limit, spec.rate.is_some(), running.sender.clone()) {
            let shared = running.shared.clone();
            let watch = move || shared.stop_at(limit, &sender);
            running.watcher =
                Some(Builder::new().name("pktgen-watch".into()).spawn(watch).map_err(no_thread())?);
        }
        Ok(running)
    }
}

/// Loads the generator's program for frames of `octets` octets. `template` has the octets of frames other than UDP.
fn load(spec: &Spec, octets: usize, template: &[u8]) -> Result<Loaded, PktgenError> {
    let mut loader = Loader::new(Embedded::Pktgen)
        .constant_u32("stream", spec.stream)
        .constant_u64("limit", spec.limit.map_or(0, u64::from))
        .constant_u64("omitted", spec.omitted.map_or(0, |sequence| sequence.saturating_add(1)))
        // Nanoseconds between packets in 1/1024.
        .constant_u64("gap", spec.rate.map_or(0, |rate| (1_024_000_000_000 / u64::from(rate)).max(1)));
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
    /// The map `generators`, which the program writes.
    position: MappedArray,
    /// True if the sender is to end.
    stop: AtomicBool,
    /// Readable after the sender's end.
    done: EventFd,
}

impl Shared {
    fn word(&self, word: usize) -> u64 {
        self.position.load64(0, word).unwrap_or(0)
    }

    /// Waits for the sender's end, at most for `longest`, or without a limit. Returns true if the sender has ended.
    fn is_done(&self, longest: Option<Duration>) -> bool {
        let timeout = longest
            .map_or(PollTimeout::NONE, |longest| PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX));
        let mut events = [PollFd::new(self.done.as_fd(), PollFlags::POLLIN)];
        poll(&mut events, timeout).is_ok_and(|readable| readable > 0)
    }

    /// Ends the sender. A signal that comes before the system call has begun is lost; therefore it is repeated.
    fn end(&self, sender: &JoinHandle<Result<Duration, PktgenError>>) {
        self.stop.store(true, Ordering::Release);
        loop {
            ffi::interrupt(sender);
            if self.is_done(Some(LOOK)) {
                return;
            }
        }
    }

    /// Ends the sender as soon as `limit` packets are sent.
    fn stop_at(&self, limit: u64, sender: &JoinHandle<Result<Duration, PktgenError>>) {
        while !self.is_done(Some(LOOK)) {
            if self.word(SENT) >= limit {
                return self.end(sender);
            }
        }
    }
}

/// Marks the sender's end, also after a panic.
struct Done(Arc<Shared>);

impl Drop for Done {
    fn drop(&mut self) {
        // Fails only if the event's number is at its maximum; the event is then readable already.
        let _ = self.0.done.write(1);
    }
}

/// The state that the sending thread owns.
struct Work {
    program: Loaded,
    frame: Vec<u8>,
    interface: u32,
    limit: Option<u64>,
    is_paced: bool,
    shared: Arc<Shared>,
}

impl Work {
    /// Sends until the limit is reached or the run is stopped. Returns the processor time of this thread.
    fn run(self) -> Result<Duration, PktgenError> {
        let _done = Done(self.shared.clone());
        let mut before = 0;
        while !self.shared.stop.load(Ordering::Acquire) {
            let sent = self.shared.word(SENT);
            let missing = self.limit.map(|limit| limit.saturating_sub(sent));
            if missing == Some(0) {
                break;
            }
            // Without pauses each round sends one packet, and the kernel ends the run at the limit.
            let rounds = missing
                .filter(|_| !self.is_paced)
                .map_or(MOST_ROUNDS, |missing| u32::try_from(missing).unwrap_or(u32::MAX).min(MOST_ROUNDS));
            let ended = run_live(self.program.program(), &self.frame, self.interface, rounds)?;
            let moved = self.shared.word(SENT) + self.shared.word(IDLE);
            if ended == Ended::Completed && moved == before {
                return Err(PktgenError::Stalled { sent });
            }
            before = moved;
        }
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
    sender: Option<Arc<JoinHandle<Result<Duration, PktgenError>>>>,
    watcher: Option<JoinHandle<()>>,
}

impl Running {
    /// Returns the packets sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.word(SENT)
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
        let (first, last) = (self.shared.word(FIRST), self.shared.word(LAST));
        let packets = self.sent();
        Ok(Sent {
            packets,
            octets: packets * self.octets as u64,
            duration: Duration::from_nanos(last.saturating_sub(first)),
            cpu,
            idle: self.shared.word(IDLE),
        })
    }

    fn end(&mut self) -> Result<Duration, PktgenError> {
        let Some(sender) = self.sender.take() else { return Ok(Duration::ZERO) };
        self.shared.end(&sender);
        // The watcher uses the sender's handle: its end comes first.
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        match Arc::try_unwrap(sender).map(JoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // No thread is left that holds the handle.
            Err(_) => Ok(Duration::ZERO),
        }
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
    /// The processor time of the sending thread, in which the kernel may also carry the packets on.
    pub cpu: Duration,
    /// Rounds in which no packet was due.
    pub idle: u64,
}
