//! `sluice bgpsim`.

use crate::message::Voice;
use crate::order::{Mix, Order};
use crate::peers::relay::Relay;
use crate::peers::sender::Speed;
use crate::peers::session::{Features, Peer, Restart, Role};
use crate::report::{self, Title};
use crate::run::{self, PhaseResult, Setup};
use crate::scenario::Scenario;
use crate::source::{Content, Source};
use crate::stay::{Kept, Stay};
use crate::workload::{ANY_NUMBER, Cast, Families, Spread, Workload};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;
use sluice_base::{Asn, Family};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Address families of the peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FamilyArg {
    /// IPv4 only.
    Ipv4,
    /// IPv6 only.
    Ipv6,
    /// Both over the same sessions.
    Both,
}

/// The arguments.
#[derive(Args, Clone, Debug)]
pub struct BgpsimArgs {
    /// The router under test.
    #[arg(long, required_unless_present = "floor", conflicts_with = "floor")]
    pub target: Option<IpAddr>,
    /// AS of the target.
    #[arg(long, default_value_t = 64500)]
    pub target_as: u32,
    /// Port of the target's listener.
    #[arg(long, default_value_t = 179)]
    pub port: u16,
    /// Replace the router by a relay that only copies octets: the client's own limit.
    #[arg(long)]
    pub floor: bool,
    /// Do the same with the relay first, to show how much of the time is the client's own.
    #[arg(long, conflicts_with = "floor")]
    pub beside_floor: bool,

    /// Peers that announce; if absent, the peers of the trace, or 1.
    #[arg(long)]
    pub senders: Option<usize>,
    /// Peers that only receive.
    #[arg(long, default_value_t = 1)]
    pub receivers: usize,
    /// Receivers that connect late, with `--scenario late`; addresses and ASes follow the receivers'.
    #[arg(long, default_value_t = 1)]
    pub late: usize,
    /// The AS of the first sender; the next has the next, and after the senders come the receivers. The target's own: all senders are
    /// internal peers.
    #[arg(long, default_value_t = 65001)]
    pub sender_as: u32,
    /// The AS of the first receiver, if it does not follow the senders'.
    #[arg(long)]
    pub receiver_as: Option<u32>,
    /// The first sender's address on this machine; the next has the next, and after the senders come the receivers.
    #[arg(long)]
    pub local: Option<IpAddr>,
    /// The first receiver's address, if it does not follow the senders'.
    #[arg(long)]
    pub receiver_local: Option<IpAddr>,
    /// The first sender's next hop of IPv4 routes; the sender's address if absent.
    #[arg(long)]
    pub next_hop: Option<Ipv4Addr>,
    /// The first sender's next hop of IPv6 routes; the sender's address if absent.
    #[arg(long)]
    pub next_hop6: Option<Ipv6Addr>,
    /// Wait for the router to connect, at the given port of each peer's address.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "179")]
    pub listen: Option<u16>,
    /// The hold time that peers propose, in seconds; 0 disables KEEPALIVEs too.
    #[arg(long, default_value_t = 0)]
    pub hold_time: u16,

    /// Workload: table (a real table), table:FILE (prefixes, a line each, or an MRT dump), mrt:FILE (an MRT trace),
    /// synthetic, or synthetic:SCENARIO.
    #[arg(long, default_value = "table")]
    pub workload: Source,
    /// Measured scenario of a table: announce, lost (every sender), lost-best (the first sender, which has the best
    /// paths), restart (the same sender, which comes back: graceful restart), latency (single routes at full table), late (a receiver that connects after the announcements), or a
    /// number of the eight scenarios of Wu and colleagues, 1 to 8.
    #[arg(long)]
    pub scenario: Option<Scenario>,
    /// Routes of a table.
    #[arg(long, default_value_t = 1_000_000)]
    pub routes: usize,
    /// Families; if absent, the target's. Of both, a fifth of the routes is IPv6.
    #[arg(long)]
    pub family: Option<FamilyArg>,
    /// Prefixes of a synthetic table with the same attributes.
    #[arg(long)]
    pub sharing: Option<usize>,
    /// Paths of each prefix (ADD-PATH, RFC 7911): a sender announces so many, and receivers wait for all. Not with a trace, nor in
    /// scenarios in which several senders announce a prefix.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub paths: u32,
    /// Prefixes in an UPDATE at most, where the scenario does not say.
    #[arg(long)]
    pub per_message: Option<usize>,
    /// Give each sender a part of the table (split) or the whole table (same).
    #[arg(long, value_enum, default_value_t = Spread::Split)]
    pub spread: Spread,
    /// Traffic mix of the thesis: best (every peer, a message at a time), 1 (every peer, in a realistic order), 2
    /// (four at a time), 3 (two), worst (a single peer).
    #[arg(long, value_enum, default_value_t = Mix::One)]
    pub mix: Mix,
    /// Variant: trace, round-robin:K (K messages of each peer in turn) or threads (one for each peer). If absent: round-robin:1 with
    /// the mix `best`, trace for a trace, threads otherwise.
    #[arg(long)]
    pub order: Option<Order>,
    /// full, original (with the trace's pauses) or so many times as fast, as in 10x.
    #[arg(long, default_value = "full")]
    pub speed: Speed,
    /// For whatever is left to chance: the same number, the same run.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// A process of the router, to count its processor time and memory; may be repeated.
    #[arg(long = "pid", value_name = "PID")]
    pub pids: Vec<u32>,
    /// Seconds that the whole run may take.
    #[arg(long, default_value_t = 300)]
    pub timeout: u64,
    /// Seconds of silence after which receivers give up.
    #[arg(long, default_value_t = 20)]
    pub patience: u64,
    /// Milliseconds of silence at the end of a phase; messages within the silence belong to the phase.
    #[arg(long, default_value_t = 300)]
    pub settle: u64,
    /// Number of reading threads.
    #[arg(long)]
    pub reading_threads: Option<usize>,
    /// Keep the sessions up after the run, until Ctrl-C or for this many seconds.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, conflicts_with = "floor")]
    pub stay: Option<Option<Stay>>,
    /// Print one JSON document instead of a table.
    #[arg(long, short = 'j')]
    pub json: bool,
    /// Write a plot of the measured phase (SVG).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// Most peers of a kind: their numbers must stay in the blocks of the end marks of phases.
const MOST_PEERS: usize = 10_000;

/// Runs the command. The exit status is 0 if the receivers received the senders' whole output. `document` prints a
/// JSON document.
pub fn run(args: &BgpsimArgs, document: impl Fn(&Value)) -> Result<ExitCode> {
    let mut stayed = Ok(());
    let done = simulate_and(args, |done, kept| {
        print(args, done, &document)?;
        if let (Some(stay), Some(kept)) = (args.stay, kept) {
            stayed = keep(stay.unwrap_or(Stay::UntilStopped), kept);
        }
        Ok(())
    })?;
    // The report is out: what went wrong after it is not put into another document.
    if let Err(error) = &stayed {
        sluice_print::errln!("sluice bgpsim: {error:#}");
    }
    let success = stayed.is_ok() && report::verified(&done.phases);
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Keeps the sessions of a run, and prints that.
fn keep(stay: Stay, kept: &Kept<'_>) -> Result<()> {
    match kept.count() {
        0 => {
            sluice_print::errln!("sluice bgpsim: no session stays up: the scenario has ended all of them");
            Ok(())
        }
        count => {
            sluice_print::errln!("sluice bgpsim: sessions that stay up {stay}: {count}");
            kept.wait(stay)
        }
    }
}

/// Prints the measurements of a run, and draws them on request.
fn print(
    args: &BgpsimArgs,
    Simulated { title, phases, floor }: &Simulated,
    document: &impl Fn(&Value),
) -> Result<()> {
    if args.json {
        let mut value = report::value(title, phases);
        value["floor"] = floor.as_ref().map_or(Value::Null, |f| report::value(title, f)["phases"].clone());
        document(&value);
    } else {
        sluice_print::out!(
            "{}{}",
            report::text(title, phases),
            report::beside_floor(phases, floor.as_deref())
        );
    }
    if let Some(path) = &args.plot {
        let written = std::fs::write(path, report::plot(title, phases).svg());
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A run and its results.
pub struct Simulated {
    /// The properties of the run.
    pub title: Title,
    /// The results of the phases.
    pub phases: Vec<PhaseResult>,
    /// The results of the phases with the relay in the target's place, if requested.
    pub floor: Option<Vec<PhaseResult>>,
}

/// Plans and runs the workload of the arguments.
pub fn simulate(args: &BgpsimArgs) -> Result<Simulated> {
    simulate_and(args, |_, _| Ok(()))
}

/// Plans and runs the workload of the arguments, and calls `before_end` with the results and the sessions, which are
/// still up. With a relay in the target's place, no sessions are left.
fn simulate_and(
    args: &BgpsimArgs,
    before_end: impl FnOnce(&Simulated, Option<&Kept<'_>>) -> Result<()>,
) -> Result<Simulated> {
    let families = args.families();
    let scenario = args.scenario()?;
    let sharing = args.sharing.or(scenario.sharing()).unwrap_or(3);
    let content = args.workload.load(args.routes, families, sharing, args.seed)?;
    let trace = content.trace()?;
    let senders = args.senders.unwrap_or_else(|| trace.as_ref().map_or(1, |t| t.peers.len()));
    ensure!((1..=MOST_PEERS).contains(&senders), "there have to be 1 to {MOST_PEERS} senders");
    ensure!(args.receivers <= MOST_PEERS, "there can be at most {MOST_PEERS} receivers");
    let order = args.order(trace.is_some())?;
    let cast = Cast {
        voices: args.voices(senders, families)?,
        families,
        target_as: Asn(args.target_as),
        order,
        mix: args.mix,
        seed: args.seed,
    };
    let workload: Workload = match (&trace, &content) {
        (Some(trace), _) => cast.trace(trace)?,
        (None, Content::Table(table)) => {
            cast.table(table, scenario, args.spread, args.per_message.unwrap_or(ANY_NUMBER).max(1))?
        }
        (None, Content::Trace(_)) => bail!("a trace is no table"),
    };
    drop(trace);
    let shown = args.workload.to_string();
    drop(content);
    let late = if scenario == Scenario::Late { args.late } else { 0 };
    let mut peers = args.peers(senders, args.receivers + late, families)?;
    let late = peers.split_off(senders + args.receivers);
    let title = Title {
        target: args.target.map_or_else(|| "floor".to_owned(), |t| t.to_string()),
        workload: if scenario == Scenario::Announce {
            shown
        } else {
            format!("{shown}, scenario {scenario}")
        },
        order: order.to_string(),
        mix: args.mix.name(),
        speed: args.speed.to_string(),
        senders,
        receivers: args.receivers,
        skipped: workload.skipped,
    };
    let floor = args.beside_floor.then(|| args.at_relay(&peers, &workload)).transpose()?;
    let mut done = Simulated { title, phases: Vec::new(), floor };
    let Some(target) = args.target else {
        done.phases = args.at_relay(&peers, &workload)?;
        before_end(&done, None)?;
        return Ok(done);
    };
    let setup = args.setup(SocketAddr::new(target, args.port), peers, late);
    run::run_and_keep(&setup, &workload, |phases, kept| {
        done.phases = phases.to_vec();
        before_end(&done, Some(kept))
    })?;
    Ok(done)
}

impl BgpsimArgs {
    /// With a relay in the target's place.
    fn at_relay(&self, peers: &[Peer], workload: &Workload) -> Result<Vec<PhaseResult>> {
        let receivers = peers.iter().filter(|p| p.role == Role::Receiver).map(|p| p.asn).collect();
        let relay = Relay::start(Asn(self.target_as), peers.len(), receivers)?;
        let peers = peers.iter().map(|p| Peer { local: None, ..p.clone() }).collect();
        let alone = BgpsimArgs { floor: true, listen: None, pids: Vec::new(), ..self.clone() };
        let results = run::run(&alone.setup(relay.address, peers, Vec::new()), workload)?;
        relay.join()?;
        Ok(results)
    }

    fn setup(&self, target: SocketAddr, peers: Vec<Peer>, late: Vec<Peer>) -> Setup {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // A relay knows of no best path.
        let several = peers.iter().filter(|p| p.role == Role::Sender).count() > 1;
        Setup {
            target,
            target_as: Asn(self.target_as),
            peers,
            late,
            listen: self.listen,
            only_count: self.floor && several && matches!(self.workload, Source::Trace(_)),
            speed: self.speed,
            reading_threads: self.reading_threads.unwrap_or(cores.min(self.receivers.max(1))),
            target_processes: self.pids.clone(),
            timeout: Duration::from_secs(self.timeout),
            patience: Duration::from_secs(self.patience),
            settle: Duration::from_millis(self.settle),
        }
    }

    fn families(&self) -> Families {
        let of_target = match self.target.as_ref().map(Family::of) {
            Some(Family::Ipv6) => FamilyArg::Ipv6,
            _ => FamilyArg::Ipv4,
        };
        let family = self.family.unwrap_or(of_target);
        Families { v4: family != FamilyArg::Ipv6, v6: family != FamilyArg::Ipv4 }
    }

    fn scenario(&self) -> Result<Scenario> {
        let scenario = match (self.scenario, self.workload.scenario()) {
            (Some(a), Some(b)) if a != b => bail!("--workload is of scenario {b}, --scenario is {a}"),
            (a, b) => a.or(b).unwrap_or(Scenario::Announce),
        };
        if matches!(self.workload, Source::Trace(_)) {
            ensure!(
                scenario == Scenario::Announce,
                "a trace is what it is: scenario {scenario} needs a table"
            );
        }
        ensure!(
            !self.floor
                || !matches!(
                    scenario,
                    Scenario::Lost | Scenario::LostBest | Scenario::Restart | Scenario::Late
                ),
            "a relay does not withdraw the routes of a lost sender, and does not repeat what it has sent before"
        );
        Ok(scenario)
    }

    fn order(&self, is_trace: bool) -> Result<Order> {
        let order = self.order.unwrap_or(match self.mix {
            Mix::Best => Order::RoundRobin(1),
            _ if is_trace => Order::Trace,
            _ => Order::Threads,
        });
        if self.speed != Speed::Full {
            ensure!(is_trace, "only a trace has pauses: --speed {} needs --workload mrt:FILE", self.speed);
            ensure!(
                !matches!(order, Order::RoundRobin(_)) && self.mix == Mix::One,
                "--speed {} keeps the trace's time, so that its order has to be trace or threads, and the mix 1",
                self.speed
            );
        }
        Ok(order)
    }

    fn voices(&self, senders: usize, families: Families) -> Result<Vec<Voice>> {
        let internal = self.sender_as == self.target_as;
        let (v4, v6) = match self.local {
            Some(IpAddr::V4(a)) => (Some(a), None),
            Some(IpAddr::V6(a)) => (None, Some(a)),
            None => (None, None),
        };
        // A relay does not look; and without --local there is one peer, whose route the target resolves by other means, if at all.
        let anything = self
            .floor
            .then_some((Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)));
        let first_v4 = self.next_hop.or(v4).or(anything.map(|a| a.0));
        let first_v6 = self.next_hop6.or(v6).or(anything.map(|a| a.1));
        ensure!(
            !families.v4 || first_v4.is_some(),
            "IPv4 routes need a next hop: --next-hop, or an IPv4 address as --local"
        );
        ensure!(
            !families.v6 || first_v6.is_some(),
            "IPv6 routes need a next hop: --next-hop6, or an IPv6 address as --local"
        );
        let voice = |number: usize| {
            Ok(Voice {
                asn: self.asn(Role::Sender, number, senders)?,
                internal,
                next_hop_v4: first_v4.map_or(Ok(Ipv4Addr::UNSPECIFIED), |a| nth_v4(a, number))?,
                next_hop_v6: first_v6.map_or(Ipv6Addr::UNSPECIFIED, |a| nth_v6(a, number)),
                per_message: ANY_NUMBER,
                paths: self.paths,
            })
        };
        (0..senders).map(voice).collect()
    }

    fn asn(&self, role: Role, number: usize, senders: usize) -> Result<Asn> {
        let internal = self.sender_as == self.target_as;
        let first = match role {
            Role::Sender => self.sender_as,
            Role::Receiver if internal => self.receiver_as.unwrap_or(65001),
            Role::Receiver => self.receiver_as.unwrap_or(self.sender_as.saturating_add(senders as u32)),
        };
        let same = first == self.target_as;
        let asn = if same { Some(first) } else { first.checked_add(number as u32) };
        asn.filter(|n| (1..u32::MAX).contains(n)).map(Asn).context("there are not so many ASes")
    }

    fn peers(&self, senders: usize, receivers: usize, families: Families) -> Result<Vec<Peer>> {
        let count = senders + receivers;
        ensure!(
            self.floor || self.local.is_some() || count == 1 && self.listen.is_none(),
            "each of the {count} peers needs an address: --local is the first of them"
        );
        let all = (0..senders).map(|n| (Role::Sender, n)).chain((0..receivers).map(|n| (Role::Receiver, n)));
        let peer = |(role, number): (Role, usize)| {
            let (first, at) = match (role, self.receiver_local) {
                (Role::Sender, _) => (self.local, number),
                (Role::Receiver, Some(first)) => (Some(first), number),
                (Role::Receiver, None) => (self.local, senders + number),
            };
            let local = match first.filter(|_| !self.floor) {
                None => None,
                Some(IpAddr::V4(a)) => Some(IpAddr::V4(nth_v4(a, at)?)),
                Some(IpAddr::V6(a)) => Some(IpAddr::V6(nth_v6(a, at))),
            };
            let asn = self.asn(role, number, senders)?;
            let restarts = role == Role::Sender && self.scenario()?.restarts();
            let restart = if restarts { Restart::Possible } else { Restart::No };
            let features = Features { paths: self.paths > 1, restart };
            Ok(Peer { role, number, asn, local, families, hold_time: self.hold_time, features })
        };
        all.map(peer).collect()
    }
}

fn nth_v4(first: Ipv4Addr, number: usize) -> Result<Ipv4Addr> {
    let bits = first.to_bits().checked_add(number as u32).context("there are not so many addresses")?;
    Ok(Ipv4Addr::from_bits(bits))
}

fn nth_v6(first: Ipv6Addr, number: usize) -> Ipv6Addr {
    Ipv6Addr::from_bits(first.to_bits().wrapping_add(number as u128))
}
