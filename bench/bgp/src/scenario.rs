//! The compared scenarios: senders, receivers and messages.

use anyhow::Result;
use sluice_base::{Asn, IpPrefix};
use sluice_bgpsim::message::Voice;
use sluice_bgpsim::order::{Mix, Order};
use sluice_bgpsim::scenario::Scenario as Plan;
use sluice_bgpsim::session::{Features, Peer, Restart, Role};
use sluice_bgpsim::table::{Size, Table};
use sluice_bgpsim::trace::Trace;
use sluice_bgpsim::workload::{ANY_NUMBER, Cast, Families, Spread, Workload};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What differs from the scenarios as they are otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    /// The number of additional neighbors without routes: announced routes are IPv4, and silent neighbors speak IPv6 alone.
    pub silent: Option<usize>,
    /// Paths of each prefix (ADD-PATH, RFC 7911).
    pub paths: u32,
    /// The lost feed restarts gracefully (RFC 4724).
    pub restarts: bool,
}

impl Default for Variant {
    fn default() -> Self {
        Variant { silent: None, paths: 1, restarts: false }
    }
}

impl Variant {
    /// Returns the name of the variant's report.
    pub fn name(self) -> String {
        match self {
            Variant { silent: Some(count), .. } => format!("bgp-silent-{count}"),
            Variant { paths: 2.., .. } => format!("bgp-paths-{}", self.paths),
            Variant { restarts: true, .. } => "bgp-restart".to_owned(),
            _ => "bgp".to_owned(),
        }
    }

    /// Returns true if a scenario has this variant. With several paths, one sender announces all paths of a prefix.
    pub const fn has(self, scenario: Scenario) -> bool {
        use Scenario::{S1, S2, S4, S5, S7, S8};
        (self.paths == 1 || matches!(scenario, S1 | S2 | S4 | S7 | S8))
            && (!self.restarts || matches!(scenario, S5))
    }
}

/// Routes of the scenarios with the same routes from many, or to many.
const HALF_MILLION: usize = 500_000;

const IPV4: Families = Families { v4: true, v6: false };
const IPV6: Families = Families { v4: false, v6: true };

/// The first peer's AS; the next has the next.
const FIRST_AS: u32 = 65001;

/// The compared scenarios.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Scenario {
    /// A feed of the whole table to a single receiver.
    S1,
    /// Ten feeds with a tenth of the table each, announced to the senders and to a single receiver.
    S2,
    /// Ten feeds of the same 500,000 prefixes with different paths.
    S3,
    /// A feed of 500,000 prefixes to 30 receivers.
    S4,
    /// Two feeds of the same 500,000 prefixes; the feed with the best paths is lost.
    S5,
    /// Single routes at full table, each followed to the receiver.
    S6,
    /// S1 with the kernel's table: until receiver and kernel have everything.
    S7,
    /// A feed of the whole table; then a second receiver connects and receives the whole table.
    S8,
}

impl Scenario {
    /// The scenario's name in tables and bars.
    pub const fn name(self) -> &'static str {
        match self {
            Scenario::S1 => "S1",
            Scenario::S2 => "S2",
            Scenario::S3 => "S3",
            Scenario::S4 => "S4",
            Scenario::S5 => "S5",
            Scenario::S6 => "S6",
            Scenario::S7 => "S7",
            Scenario::S8 => "S8",
        }
    }

    /// The scenario's description, for people.
    pub const fn title(self) -> &'static str {
        match self {
            Scenario::S1 => "one feed to one receiver",
            Scenario::S2 => "ten feeds of a tenth each",
            Scenario::S3 => "ten feeds of the same prefixes",
            Scenario::S4 => "one feed to 30 receivers",
            Scenario::S5 => "the best of two feeds is lost",
            Scenario::S6 => "single routes at full table",
            Scenario::S7 => "one feed to one receiver and the kernel",
            Scenario::S8 => "a late receiver",
        }
    }

    /// Returns true if the scenario includes the kernel's table.
    pub const fn installs(self) -> bool {
        matches!(self, Scenario::S7)
    }

    /// Returns true if the scenario measures the delay of single routes.
    pub const fn is_latency(self) -> bool {
        matches!(self, Scenario::S6)
    }

    /// Returns true if the number of threads matters.
    pub const fn has_threads(self) -> bool {
        matches!(self, Scenario::S2 | Scenario::S3 | Scenario::S6)
    }

    /// Returns true if the stages can predict the scenario with more threads: the senders send without pauses.
    pub const fn has_model(self) -> bool {
        matches!(self, Scenario::S1 | Scenario::S2 | Scenario::S3 | Scenario::S4)
    }

    /// Returns true if a relay can stand in for the router.
    pub const fn has_floor(self) -> bool {
        !matches!(self, Scenario::S5 | Scenario::S8)
    }

    const fn plan(self) -> Plan {
        match self {
            Scenario::S5 => Plan::LostBest,
            Scenario::S6 => Plan::Latency,
            Scenario::S8 => Plan::Late,
            _ => Plan::Announce,
        }
    }

    const fn senders(self) -> usize {
        match self {
            Scenario::S2 | Scenario::S3 => 10,
            Scenario::S5 | Scenario::S6 => 2,
            _ => 1,
        }
    }

    const fn receivers(self) -> usize {
        if matches!(self, Scenario::S4) { 30 } else { 1 }
    }

    const fn late(self) -> usize {
        matches!(self, Scenario::S8) as usize
    }

    /// Returns true if the scenario uses the whole table, rather than half a million of its IPv4 prefixes.
    const fn is_whole(self) -> bool {
        !matches!(self, Scenario::S3 | Scenario::S4 | Scenario::S5)
    }
}

/// A scenario, ready to be performed with any router.
pub struct Play {
    /// Which.
    pub scenario: Scenario,
    /// The messages of senders and the expectation of receivers.
    pub workload: Workload,
    /// The peers: senders first, silent ones last.
    pub peers: Vec<Peer>,
    /// Receivers that connect late.
    pub late: Vec<Peer>,
    /// Routes that the router should have at the end, of IPv4 and of IPv6, including end marks of feeds. Known only if
    /// routes go into the kernel.
    pub routes: (usize, usize),
    /// True for a trace: senders withdraw prefixes that other senders still announce, which a relay cannot know.
    pub is_trace: bool,
    /// True if a sender restarts gracefully in the measured phase: the router announces nothing of the routes that stay.
    pub restarts: bool,
}

impl Play {
    /// Plans a variant of a scenario with a share of the table.
    pub fn plan(scenario: Scenario, table: &Table, scale: f64, variant: Variant) -> Result<Self> {
        let silent = variant.silent;
        let scaled = |n: usize| ((n as f64 * scale) as usize).max(100).min(n);
        let v4 = table.prefixes().filter(|p| matches!(p, IpPrefix::V4(_))).count();
        let v6 = table.prefixes().count() - v4;
        let size = match scenario.is_whole() {
            true => Size { v4: scaled(v4), v6: if silent.is_some() { 0 } else { scaled(v6) } },
            false => Size { v4: scaled(HALF_MILLION.min(v4)), v6: 0 },
        };
        let table = table.clone().thinned(size);
        let families = Families { v4: true, v6: size.v6 > 0 };
        let senders = scenario.senders();
        let spread = if scenario == Scenario::S3 { Spread::Same } else { Spread::Split };
        let mut cast = cast(senders, families, Order::Threads, Mix::One);
        cast.voices.iter_mut().for_each(|voice| voice.paths = variant.paths);
        let plan = if variant.restarts { Plan::Restart } else { scenario.plan() };
        let workload = cast.table(&table, plan, spread, ANY_NUMBER)?;
        let features = |role: Role| Features {
            paths: variant.paths > 1,
            restart: if variant.restarts && role == Role::Sender { Restart::Possible } else { Restart::No },
        };
        let peer = |n: usize, families: Families| {
            let peer = peer(n, senders, families);
            Peer { features: features(peer.role), ..peer }
        };
        let together = senders + scenario.receivers();
        let all = together + scenario.late();
        // To the client they are senders behind those that have something to say.
        let silent = (all..all + silent.unwrap_or(0)).zip(senders..).map(|(n, number)| {
            let speaker = peer(n, IPV6);
            Peer { role: Role::Sender, number, ..speaker }
        });
        Ok(Play {
            scenario,
            workload,
            peers: (0..together).map(|n| peer(n, families)).chain(silent).collect(),
            late: (together..all).map(|n| peer(n, families)).collect(),
            routes: (size.v4 + senders, size.v6 + if size.v6 > 0 { senders } else { 0 }),
            is_trace: false,
            restarts: variant.restarts,
        })
    }

    /// So many feeds with a part of a table each, and one receiver, in an order and mix of the multicore BGP thesis.
    pub fn feeds(table: &Table, senders: usize, order: Order, mix: Mix) -> Result<Self> {
        let workload =
            cast(senders, IPV4, order, mix).table(table, Plan::Announce, Spread::Split, ANY_NUMBER)?;
        Ok(Play::made_up(workload, senders, table.prefixes().count() + senders))
    }

    /// A scenario of the thesis's table 2.1, with the given number of routes.
    pub fn numbered(number: u8, routes: usize) -> Result<Self> {
        let plan = Plan::Numbered(number);
        let senders = if plan.needs_two() { 2 } else { 1 };
        let table = Table::synthetic(Size { v4: routes, v6: 0 }, plan.sharing().unwrap_or(3), 1)?;
        let cast = cast(senders, IPV4, Order::Trace, Mix::One);
        Ok(Play::made_up(cast.table(&table, plan, Spread::Split, ANY_NUMBER)?, senders, routes + senders))
    }

    /// Generated feeds of IPv4 routes, and a single receiver.
    fn made_up(workload: Workload, senders: usize, routes: usize) -> Self {
        Play {
            scenario: Scenario::S2,
            workload,
            peers: (0..=senders).map(|n| peer(n, senders, IPV4)).collect(),
            late: Vec::new(),
            routes: (routes, 0),
            is_trace: false,
            restarts: false,
        }
    }

    /// The feeds of a trace, distributed over the senders, and a single receiver.
    pub fn trace(trace: &Trace<'_>, senders: usize, order: Order, mix: Mix) -> Result<Self> {
        let workload = cast(senders, IPV4, order, mix).trace(trace)?;
        Ok(Play { is_trace: true, ..Play::made_up(workload, senders, 0) })
    }

    /// Every participant, by address and AS.
    pub fn neighbors(&self) -> impl Iterator<Item = (String, u32)> {
        (0..self.peers.len() + self.late.len()).map(|n| (address(n).to_string(), asn(n).0))
    }
}

/// The participating peers.
fn cast(senders: usize, families: Families, order: Order, mix: Mix) -> Cast {
    let voices = (0..senders).map(|n| Voice {
        asn: asn(n),
        internal: false,
        next_hop_v4: address(n),
        next_hop_v6: address_v6(n),
        per_message: ANY_NUMBER,
        paths: 1,
    });
    let target_as = Asn(bench_lab::LOCAL_AS);
    Cast { voices: voices.collect(), families, target_as, order, mix, seed: 1 }
}

/// The peer of a number; senders come first.
fn peer(n: usize, senders: usize, families: Families) -> Peer {
    let (role, number) = if n < senders { (Role::Sender, n) } else { (Role::Receiver, n - senders) };
    let features = Features::default();
    Peer { role, number, asn: asn(n), local: Some(IpAddr::V4(address(n))), families, hold_time: 0, features }
}

const fn asn(peer: usize) -> Asn {
    Asn(FIRST_AS + peer as u32)
}

/// The address of a peer; the router is 10.1.0.1.
pub fn address(peer: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 1, 0, 2).to_bits() + peer as u32)
}

/// The IPv6 address of a peer.
pub fn address_v6(peer: usize) -> Ipv6Addr {
    Ipv6Addr::from_bits("2001:db8:1::2".parse::<Ipv6Addr>().map_or(0, Ipv6Addr::to_bits) + peer as u128)
}
