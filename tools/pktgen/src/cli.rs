//! `sluice pktgen`: the command line.

use crate::destinations::{self, first_bits, first_hosts, in_turn, random_hosts, zipf};
use crate::replay::{Pace, Replay, Replayed};
use crate::signals::Signals;
use crate::spec::{Content, MOST_FLOWS, MOST_THREADS, Spec, Udp};
use crate::{DEFAULT_WINDOW, Generator, PktgenError, Sink, XipFormat, capture, raw, report};
use clap::{Args, Subcommand};
use serde_json::Value;
use sluice_base::{IpPrefix, Rng};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// The time between two looks at the number of packets that arrived; the kernel reports no arrival.
const LOOK: Duration = Duration::from_millis(20);

/// Packets for tests and measurements: sent, counted, replayed.
#[derive(Clone, Debug, Subcommand)]
pub enum PktgenCommand {
    /// Send numbered UDP packets, or XIP packets, as fast as the kernel can, or at a rate.
    Send(Box<SendArgs>),
    /// Count the packets of a stream: losses, duplicates, reordering. Ends by Ctrl-C or SIGTERM.
    Count(CountArgs),
    /// Send the frames of a capture in its own timing.
    Replay(ReplayArgs),
}

/// The arguments of `send`.
#[derive(Args, Clone, Debug)]
pub struct SendArgs {
    /// The interface to send from.
    #[arg(long, value_name = "IF")]
    interface: String,
    /// The Ethernet address of the next router or host.
    #[arg(long, value_name = "MAC", value_parser = ethernet, required_unless_present = "raw")]
    to: Option<[u8; 6]>,
    /// The source address.
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["raw", "xip"])]
    source: Option<IpAddr>,
    /// A destination: an address, or a prefix for its first host; may be repeated.
    #[arg(long = "destination", value_name = "ADDRESS", value_parser = prefix)]
    destination: Vec<IpPrefix>,
    /// A file of destinations, an address or a prefix a line; `#` begins a remark.
    #[arg(long, value_name = "FILE")]
    destinations: Option<PathBuf>,
    /// Draw so many addresses at random from the destinations: each prefix with the same probability.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=destinations::MOST as i64))]
    random: Option<u32>,
    /// Draw destinations from Zipf's distribution with this exponent: the first is the most frequent. If absent,
    /// destinations are used in turn.
    #[arg(long, value_name = "EXPONENT", value_parser = exponent)]
    zipf: Option<f64>,
    /// For whatever is drawn: the same number, the same packets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Source ports used in turn, from 1024 on.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)))]
    flows: u32,
    /// Packets in a row with the same destination and source port.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    flow_length: u32,
    /// XIP packets whose destination address has this form, in place of UDP packets. Each destination is an autonomous domain made of
    /// an IPv4 prefix: the first bit after the prefix is set. `count` does not count such frames.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["source", "random", "flows", "flow_length"])]
    xip: Option<XipFormat>,
    /// A frame of fixed octets as hexadecimal digits, in place of UDP packets. If --size leaves 16 octets for it, each
    /// frame ends with the sequence number; `count` does not count such frames.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "source", "destination", "destinations", "random", "zipf", "xip"])]
    raw: Option<PathBuf>,
    /// Octets of each frame without its check sequence, 60 to 1514; 78 at least for IPv6, 22 and 28 for each row of XIP. If absent, the least possible.
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(60..=1514))]
    size: Option<u16>,
    /// Packets a second; as fast as possible if absent.
    #[arg(long, value_name = "PACKETS")]
    rate: Option<NonZeroU64>,
    /// Packets to send; until Ctrl-C or SIGTERM if absent.
    #[arg(long, value_name = "NUMBER")]
    count: Option<NonZeroU64>,
    /// Seconds to send.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// Threads that send, each on a processor that the kernel chooses.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = threads)]
    threads: NonZeroU32,
    /// The number of the stream, by which `count` knows the packets.
    #[arg(long, default_value_t = 0)]
    stream: u32,
    #[command(flatten)]
    common: Common,
}

/// The arguments of `count`.
#[derive(Args, Clone, Debug)]
pub struct CountArgs {
    /// The interface at which the packets arrive.
    #[arg(long, value_name = "IF")]
    interface: String,
    /// The number of the stream.
    #[arg(long, default_value_t = 0)]
    stream: u32,
    /// Seconds to count; until Ctrl-C or SIGTERM if absent.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// End when so many packets arrived.
    #[arg(long, value_name = "NUMBER")]
    count: Option<NonZeroU64>,
    /// Sequence numbers that are remembered, rounded up to a power of two; older packets count as late.
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_WINDOW)]
    window: u64,
    /// Print one JSON document instead of text.
    #[arg(long, short = 'j')]
    json: bool,
}

/// The arguments of `replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The interface to send from.
    #[arg(long, value_name = "IF")]
    interface: String,
    /// The capture, pcap or pcapng, of Ethernet frames.
    file: PathBuf,
    /// So many times as fast as the capture; 0.5 is half as fast.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, conflicts_with = "full_speed")]
    speed: f64,
    /// Without pauses.
    #[arg(long)]
    full_speed: bool,
    /// Times that the capture is sent; 0: until Ctrl-C or SIGTERM.
    #[arg(long, default_value_t = 1)]
    loops: u32,
    #[command(flatten)]
    common: Common,
}

/// Arguments of all commands that send.
#[derive(Args, Clone, Debug)]
struct Common {
    /// The interface again, to send outside of labs: from the host's own namespace, or from an interface that is no veth.
    #[arg(long, value_name = "IF")]
    yes_send_on: Option<String>,
    /// Print one JSON document instead of text.
    #[arg(long, short = 'j')]
    json: bool,
}

fn ethernet(text: &str) -> Result<[u8; 6], &'static str> {
    let mut address = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut address {
        let part = parts.next().filter(|part| part.len() == 2 && !part.starts_with('+'));
        *octet = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or(NO_ETHERNET)?;
    }
    if parts.next().is_none() { Ok(address) } else { Err(NO_ETHERNET) }
}

const NO_ETHERNET: &str = "expected six octets such as 02:00:00:00:00:01";

fn prefix(text: &str) -> Result<IpPrefix, &'static str> {
    destinations::parse(text).ok_or("expected an address or a prefix such as 10.1.0.0/16")
}

fn threads(text: &str) -> Result<NonZeroU32, &'static str> {
    let threads = text.parse().ok().filter(|threads: &NonZeroU32| threads.get() <= MOST_THREADS);
    threads.ok_or("expected a number from 1 to 64")
}

fn exponent(text: &str) -> Result<f64, &'static str> {
    let exponent = text.parse().ok().filter(|exponent| (0.0..=10.0).contains(exponent));
    exponent.ok_or("expected a number from 0 to 10")
}

fn factor(text: &str) -> Result<f64, &'static str> {
    let factor = text.parse().ok().filter(|factor| (1e-6..=1e6).contains(factor));
    factor.ok_or("expected a number from 0.000001 to 1000000")
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=1e9).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("expected a number of seconds from 0.001 to 1000000000")
}

impl PktgenCommand {
    /// Returns true if the command prints JSON, errors too.
    pub fn is_json(&self) -> bool {
        match self {
            PktgenCommand::Send(args) => args.common.json,
            PktgenCommand::Count(args) => args.json,
            PktgenCommand::Replay(args) => args.common.json,
        }
    }
}

/// Carries a command out. `document` prints a JSON document under the name of its schema.
///
/// # Errors
///
/// If the arguments have no meaning, sending is not permitted, or the kernel lacks something or refuses.
pub fn run(command: &PktgenCommand, document: impl Fn(&str, &Value)) -> Result<(), PktgenError> {
    // Before any thread: threads inherit what is blocked.
    let signals = Signals::block()?;
    match command {
        PktgenCommand::Send(args) => {
            let sent = send(args, &signals)?;
            if args.common.json {
                document("pktgen-send", &report::sent_json(&args.interface, args.stream, &sent));
            } else {
                sluice_print::outln!("{}", report::sent_text(&sent));
            }
        }
        PktgenCommand::Count(args) => {
            let sink = count(args, &signals)?;
            let tally = sink.tally();
            if args.json {
                let hook = sink.mode().to_string();
                document("pktgen-count", &report::counted_json(&args.interface, &hook, args.stream, &tally));
            } else {
                sluice_print::outln!("{}", report::counted_text(&tally));
            }
        }
        PktgenCommand::Replay(args) => {
            let frames = capture::read(&args.file)?;
            let replay = Replay {
                interface: args.interface.clone(),
                frames,
                pace: if args.full_speed { Pace::Full } else { Pace::Factor(args.speed) },
                loops: (args.loops > 0).then_some(args.loops),
                named_again: args.common.yes_send_on.clone(),
            };
            let counts = run_replay(&replay, &signals)?;
            if args.common.json {
                let value = report::replayed_json(&args.interface, &args.file, &replay.frames, &counts);
                document("pktgen-replay", &value);
            } else {
                sluice_print::outln!("{}", report::replayed_text(&replay.frames, &counts));
            }
        }
    }
    Ok(())
}

/// Lines of progress on standard error, if it is a terminal.
struct Progress {
    begin: Instant,
    lines: u32,
    is_shown: bool,
}

impl Progress {
    fn begin() -> Self {
        Progress { begin: Instant::now(), lines: 0, is_shown: std::io::stderr().is_terminal() }
    }

    /// Returns the time until the next line.
    fn pause(&self) -> Duration {
        (self.begin + PROGRESS * (self.lines + 1)).saturating_duration_since(Instant::now())
    }

    /// Prints a line if it is time.
    fn show(&mut self, text: impl FnOnce() -> String) {
        if self.pause().is_zero() {
            self.lines = (self.begin.elapsed().as_secs_f64() / PROGRESS.as_secs_f64()) as u32;
            if self.is_shown {
                sluice_print::errln!("{} s: {}", self.lines, text());
            }
        }
    }
}

fn send(args: &SendArgs, signals: &Signals) -> Result<crate::Sent, PktgenError> {
    let running = Generator::new(args.spec()?).start()?;
    let end = args.time.and_then(|time| Instant::now().checked_add(time));
    let mut progress = Progress::begin();
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let pause = left.map_or(progress.pause(), |left| left.min(progress.pause()));
        if signals.wait(Some(running.done()), pause)? || running.wait(Some(Duration::ZERO)) {
            break;
        }
        progress.show(|| format!("{} packets sent", running.sent()));
    }
    running.stop()
}

fn count(args: &CountArgs, signals: &Signals) -> Result<Sink, PktgenError> {
    let sink = Sink::attach_with_window(&args.interface, args.stream, args.window)?;
    let end = args.time.and_then(|time| Instant::now().checked_add(time));
    let mut progress = Progress::begin();
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let longest = if args.count.is_some() { LOOK } else { progress.pause() };
        let is_enough = args.count.is_some_and(|count| sink.tally().received >= u64::from(count));
        if is_enough || signals.wait(None, left.map_or(longest, |left| left.min(longest)))? {
            break;
        }
        progress.show(|| {
            let tally = sink.tally();
            format!("{} packets received, {} lost", tally.received, crate::lost(&tally))
        });
    }
    Ok(sink)
}

fn run_replay(replay: &Replay, signals: &Signals) -> Result<Replayed, PktgenError> {
    let mut progress = Progress::begin();
    replay.run(|pause, counts| {
        progress.show(|| format!("{} frames sent", counts.frames));
        signals.wait(None, pause.min(progress.pause()))
    })
}

impl SendArgs {
    /// Returns the packets that the arguments describe.
    fn spec(&self) -> Result<Spec, PktgenError> {
        let mut spec = match (&self.raw, self.to, self.source, self.xip) {
            (Some(file), ..) => Spec::raw(&self.interface, raw::read(file)?),
            (None, Some(to), _, Some(format)) => Spec::xip(&self.interface, to, format, self.ring()?),
            (None, Some(to), Some(source), None) => {
                let destinations = self.ring()?;
                let mut spec = Spec::udp(&self.interface, to, source, destinations);
                if let Content::Udp(Udp { flows, flow_length, .. }) = &mut spec.content {
                    (*flows, *flow_length) = (self.flows, self.flow_length);
                }
                spec
            }
            _ => {
                return Err(PktgenError::Usage(
                    "UDP packets need --to and --source, XIP packets --to".into(),
                ));
            }
        };
        spec.size = self.size.map(usize::from);
        // A raw frame has the length of its template, or that of the shortest Ethernet frame.
        if let (Content::Raw(frame), None) = (&spec.content, spec.size) {
            spec.size = Some(frame.len().max(crate::spec::LEAST_OCTETS));
        }
        spec.rate = self.rate;
        spec.limit = self.count;
        spec.threads = self.threads;
        spec.stream = self.stream;
        spec.named_again = self.common.yes_send_on.clone();
        Ok(spec)
    }

    /// Returns the destinations in the order in which the program uses them.
    fn ring(&self) -> Result<Vec<IpAddr>, PktgenError> {
        let mut prefixes = self.destination.clone();
        if let Some(file) = &self.destinations {
            prefixes.extend(lines(file)?);
        }
        let mut random = Rng::from_seed(self.seed);
        let list = match self.random {
            None if self.xip.is_some() => first_bits(&prefixes),
            Some(count) => random_hosts(&prefixes, count as usize, &mut random),
            None => first_hosts(&prefixes),
        };
        if list.len() > destinations::MOST {
            let most = destinations::MOST;
            return Err(PktgenError::Usage(format!(
                "{} destinations are too many; draw up to {most} of them by `--random {most}`",
                list.len()
            )));
        }
        Ok(match self.zipf {
            Some(exponent) => zipf(&list, exponent, &mut random),
            None => in_turn(&list),
        })
    }
}

/// Reads a file of destinations.
fn lines(path: &Path) -> Result<Vec<IpPrefix>, PktgenError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| PktgenError::File { path: path.into(), source })?;
    let mut prefixes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = || PktgenError::Destination { path: path.into(), line: number + 1, text: line.into() };
        prefixes.push(destinations::parse(line).ok_or_else(wrong)?);
    }
    Ok(prefixes)
}
