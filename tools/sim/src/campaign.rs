//! Fault campaigns: many small random networks, random faults and changes, and what must hold when each has come to rest.

use crate::check;
use crate::fabric::WHOLE_WINDOW;
use crate::host::{Host, ProcessId};
use crate::network::{self, Link, Network, Node};
use crate::policy::{Action, Direction, Rule};
use crate::rewrite::Rewrite;
use crate::scenario::{Scenario, Step, What, bulk};
use crate::shrink;
use crate::world::{MILLISECOND, SECOND, Settings, World};
use sluice_base::{IpPrefix, Rng};
use sluice_bgp::relationship::Relationship;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest virtual time until a network converges after the last step: hold times, retries with growing intervals,
/// and the grace times of dead processes.
const PATIENCE: u64 = 900 * SECOND;
/// The timeout of a network with contradicting policies, which may never converge.
const LITTLE_PATIENCE: u64 = 200 * SECOND;
/// The time within which every router is switched on.
const BOOT: u64 = 2000;

/// Every prefix that any router of a scenario originates.
pub fn prefixes(scenario: &Scenario) -> Vec<IpPrefix> {
    let fixed = scenario.network.nodes.iter().flat_map(|n| n.networks.iter().copied());
    let announced = scenario.phases.iter().flatten().filter_map(|step| match step.what {
        What::Announce { prefix, .. } => Some(prefix),
        _ => None,
    });
    let large = scenario.phases.iter().flatten().filter_map(|step| match step.what {
        What::Bulk { count, .. } => Some(count),
        _ => None,
    });
    let large = (0..large.max().unwrap_or(0)).map(bulk);
    let mut all: Vec<IpPrefix> = fixed.chain(announced).chain(large).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The result of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The broken conditions; empty if the scenario passed.
    pub wrong: Vec<String>,
    /// Events delivered.
    pub events: u64,
    /// Virtual seconds.
    pub virtual_seconds: u64,
    /// The fingerprint of the history.
    pub history: u64,
}

/// Runs a scenario, phase by phase, and checks each.
pub fn run(scenario: &Scenario, log: Option<crate::fabric::history::Log>) -> Outcome {
    let settings = Settings {
        slice: scenario.slice,
        tables: scenario.tables,
        reaction: scenario.reaction,
        fill: scenario.fill,
        hold_time: scenario.hold_time,
        window: scenario.window,
        ipv6: scenario.ipv6,
        check: true,
        ..Settings::full()
    };
    if let Some(fault) = scenario.fault() {
        return Outcome { wrong: vec![fault], ..Outcome::default() };
    }
    let mut world = World::new(scenario.network.clone(), settings, scenario.seed);
    if let Some(log) = log {
        world.fabric.history.log_to(log);
    }
    let prefixes = prefixes(scenario);
    let mut wrong = Vec::new();
    for (number, phase) in scenario.phases.iter().enumerate() {
        let start = world.fabric.now;
        let mut last = start;
        for step in phase {
            let at = start / MILLISECOND + step.at_ms;
            last = last.max(at * MILLISECOND);
            world.schedule(Step { at_ms: at, what: step.what.clone() });
        }
        world.run_until(last + 1);
        let expected = check::expected_sessions(&world);
        let is_last = number + 1 == scenario.phases.len();
        let decided = check::is_decided(&world, &prefixes);
        let patience = if decided { PATIENCE } else { LITTLE_PATIENCE };
        let rested = world.run_to_rest(last + patience, |world| check::is_at_rest(world, &expected));
        if !rested && !decided {
            break;
        }
        let stays = !(rested && is_last) || stays_at_rest(&mut world, &expected, scenario.hold_time);
        wrong = check::check(&mut world, &prefixes);
        if !stays {
            wrong.push("sessions came up again although nothing was done".into());
        }
        if !rested {
            wrong.insert(0, format!("not at rest {} s after the last step", PATIENCE / SECOND));
        }
        if !wrong.is_empty() {
            wrong.iter_mut().for_each(|w| *w = format!("phase {number}: {w}"));
            break;
        }
    }
    Outcome {
        wrong,
        events: world.fabric.history.events,
        virtual_seconds: world.fabric.now / SECOND,
        history: world.fabric.history.hash(),
    }
}

/// Returns true if KEEPALIVEs keep up the sessions of a network at rest.
fn stays_at_rest(world: &mut World, expected: &[usize], hold_time: u16) -> bool {
    let hold_time = SECOND * u64::from(hold_time + 3);
    // A session over a link that was mended just now may be about to end: its time to do so is given first.
    world.run_until(world.fabric.now + hold_time);
    let rested = world.run_to_rest(world.fabric.now + PATIENCE, |world| check::is_at_rest(world, expected));
    let before = ups(world);
    world.run_until(world.fabric.now + hold_time);
    rested && ups(world) == before
}

/// The number of times that a session came up.
fn ups(world: &World) -> u64 {
    world.hosts.iter().filter_map(Host::bgp).map(|b| b.flaps.0).sum()
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::from_seed(seed ^ 0x5ce0_a21b);
    let ipv6 = rng.below(4) == 0;
    let network = random_network(&mut rng, ipv6);
    // At one moment, so that neighbors connect to each other at the same time, or one after the other.
    let spread = if rng.below(3) == 0 { 1 } else { BOOT };
    let boots = (0..network.nodes.len() as u32)
        .map(|node| Step { at_ms: rng.below(spread), what: What::Boot { node } });
    let mut phases = vec![boots.collect::<Vec<_>>()];
    for number in 0..1 + rng.below(3) {
        if number > 0 {
            phases.push(Vec::new());
        }
        let phase = phases.last_mut().expect("the first phase is there");
        for _ in 0..rng.below(7) {
            fault(&network, &mut rng, phase, ipv6);
        }
        phase.sort_by_key(|step| step.at_ms);
    }
    let pick = |rng: &mut Rng, of: &[u64]| of[rng.below(of.len() as u64) as usize];
    let window = pick(&mut rng, &[WHOLE_WINDOW as u64, WHOLE_WINDOW as u64, 2_000, 100]) as usize;
    if rng.below(3) == 0 {
        phases.push(vec![Step { at_ms: rng.below(2), what: What::Drain }]);
    }
    let mut scenario = Scenario {
        seed,
        ipv6,
        tables: pick(&mut rng, &[1, 1, 2, 3]) as u16,
        slice: pick(&mut rng, &[1, 2, 5, 1024]) as u32,
        reaction: pick(&mut rng, &[10_000, 100_000, 2_000_000, 20_000_000]),
        fill: pick(&mut rng, &[1, 100, 1000, 65_536]) as usize,
        hold_time: pick(&mut rng, &[9, 30, 90]) as u16,
        window,
        network,
        phases,
    };
    match rng.below(16) {
        0 => large_table(&mut scenario, &mut rng),
        1 => many_changes(&mut scenario, &mut rng),
        _ => {}
    }
    scenario
}

/// The least bandwidth of a link over which a large table goes: its UPDATEs must not hold up KEEPALIVEs for a hold time.
const LEAST_BANDWIDTH: u64 = 50_000;

/// A link of a router, or a random different link.
fn a_link_near(scenario: &Scenario, rng: &mut Rng, node: u32) -> u32 {
    let links: Vec<u32> = scenario.network.links_of(node).map(|(link, _)| link).collect();
    if rng.below(3) == 0 { rng.below(scenario.network.links.len() as u64) as u32 } else { any(rng, &links) }
}

/// A table of more than one block is announced, withdrawn, and announced again, while a link accepts no octets for a
/// while or a session is lost.
fn large_table(scenario: &mut Scenario, rng: &mut Rng) {
    scenario.slice = scenario.slice.max(5);
    scenario.reaction = scenario.reaction.min(2_000_000);
    for link in scenario.network.links.iter_mut().filter(|l| l.bandwidth > 0) {
        link.bandwidth = link.bandwidth.max(LEAST_BANDWIDTH);
    }
    let node = rng.below(scenario.network.nodes.len() as u64) as u32;
    let link = a_link_near(scenario, rng, node);
    let step = |at_ms, what| Step { at_ms, what };
    let mut steps = vec![step(BOOT, What::Bulk { node, count: 2_300 + rng.below(300) as u32 })];
    match rng.below(3) {
        0 => {
            // The queue of changes is squeezed while somebody has yet to read them, first of all some that stand.
            scenario.window = 100;
            let nearest = scenario.network.links_of(node).next().map_or(link, |(link, _)| link);
            steps.push(step(20_000, What::Cut { link: nearest }));
            let single =
                |n: u64| step(20_050 + 150 * n, What::Announce { node, prefix: prefix(40 + n, false) });
            steps.extend((0..4).map(single));
            let toggle = |n: u64| step(20_700 + 700 * n, What::Bulk { node, count: 2_500 * (n % 2) as u32 });
            steps.extend((0..8).map(toggle));
            steps.push(step(26_500 + rng.below(1_500), What::Heal { link: nearest }));
        }
        1 => {
            let side = rng.below(2) as u8;
            steps.push(step(20_000, What::Reset { link, side }));
            steps.push(step(20_000 + rng.below(3_000), What::Bulk { node, count: 1_000 }));
        }
        _ => {
            steps.push(step(20_000, What::CrashNode { node }));
            steps.push(step(20_050 + rng.below(5_000), What::Boot { node }));
        }
    }
    add(scenario, rng, steps);
}

/// Many small changes while a link accepts no octets: a neighbor falls far behind its update group.
fn many_changes(scenario: &mut Scenario, rng: &mut Rng) {
    scenario.window = 100;
    let node = rng.below(scenario.network.nodes.len() as u64) as u32;
    let link = a_link_near(scenario, rng, node);
    let step = |at_ms, what| Step { at_ms, what };
    let mut steps = vec![step(20_000, What::Cut { link })];
    let gap = 60 + rng.below(100);
    for n in 0..100 {
        let prefix = prefix(40 + rng.below(30), false);
        let what = match rng.below(3) {
            0 => What::Withdraw { node, prefix },
            _ => What::Announce { node, prefix },
        };
        steps.push(step(20_100 + n * gap, what));
    }
    let until = 20_100 + 100 * gap;
    steps.push(step(until.saturating_sub(rng.below(2_000)), What::Heal { link }));
    add(scenario, rng, steps);
}

/// Adds steps to the first phase, or to a phase of their own behind it, which begins at rest.
fn add(scenario: &mut Scenario, rng: &mut Rng, steps: Vec<Step>) {
    match rng.below(2) {
        0 => scenario.phases.insert(1, steps),
        _ => scenario.phases[0].extend(steps),
    }
    scenario.phases.iter_mut().for_each(|phase| phase.sort_by_key(|step| step.at_ms));
}

fn prefix(number: u64, ipv6: bool) -> IpPrefix {
    let text = if ipv6 && number % 2 == 1 {
        format!("2001:db8:{number}::/48")
    } else {
        format!("198.18.{number}.0/24")
    };
    text.parse().expect("a prefix")
}

/// Prefixes that a campaign's routers originate: few, so that several routers have the same one.
const POOL: u64 = 10;

/// A prefix for a router to originate. In networks with ranks, each AS has its own prefixes: if several ASes originate
/// a prefix, each may prefer the route of a different AS.
fn a_prefix(rng: &mut Rng, ranked: bool, asn: u32, ipv6: bool) -> IpPrefix {
    match ranked {
        true => prefix(POOL + 2 * u64::from(asn % 100) + rng.below(2), ipv6),
        false => prefix(rng.below(POOL), ipv6),
    }
}

/// An AS that does not exist.
const ELSEWHERE: u32 = 64_999;

/// Prefixes of a router that has many.
const BULK: u64 = 40;

/// ASes of one to three routers. The routers of an AS are fully meshed, and the ASes are joined at random.
fn random_network(rng: &mut Rng, ipv6: bool) -> Network {
    let mut network = Network::default();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    // All or none: half a hierarchy is none, and routes may go round in it.
    let ranked = rng.below(5) < 2;
    let salt = rng.next_u64();
    let most = if rng.below(10) == 0 { 20 } else { 8 };
    let wanted = 4 + rng.below(most - 3);
    while (network.nodes.len() as u64) < wanted {
        let asn = 65001 + groups.len() as u32;
        let size = [1, 1, 1, 2, 3, 3][rng.below(6) as usize];
        let (sets_self, routes) = [(true, false), (false, true), (false, true), (true, true), (false, false)]
            [rng.below(5) as usize];
        let first = network.nodes.len() as u32;
        for _ in 0..size {
            let mut node = Node::new(asn);
            node.next_hop_self = sets_self;
            node.static_routes = routes && size > 1;
            node.networks = (0..rng.below(3)).map(|_| a_prefix(rng, ranked, asn, ipv6)).collect();
            node.networks.sort_unstable();
            node.networks.dedup();
            if rng.below(3) == 0 {
                node.clock_offset = rng.below(1_000_000) * SECOND;
                node.clock_ppm = rng.below(401) as i32 - 200;
            }
            network.nodes.push(node);
        }
        let group: Vec<u32> = (first..first + size).collect();
        for (n, a) in group.iter().enumerate() {
            for b in &group[n + 1..] {
                network.links.push(link(rng, *a, *b, true));
            }
        }
        if let Some(other) = groups.len().checked_sub(1).map(|last| rng.below(last as u64 + 1) as usize) {
            let (a, b) = (any(rng, &groups[other]), any(rng, &group));
            network.links.push(link(rng, a, b, false));
        }
        groups.push(group);
    }
    for _ in 0..rng.below(network.nodes.len() as u64 + 2) {
        let (one, other) = (rng.below(groups.len() as u64) as usize, rng.below(groups.len() as u64) as usize);
        if one != other {
            let (a, b) = (any(rng, &groups[one]), any(rng, &groups[other]));
            network.links.push(link(rng, a, b, false));
        }
    }
    if ranked {
        rank(&mut network, salt);
    }
    mislead(&mut network, rng);
    if rng.below(6) == 0 {
        // A table that takes a while to delete and to announce.
        let node = rng.below(network.nodes.len() as u64) as usize;
        network.nodes[node].networks.extend((100..100 + BULK).map(|n| prefix(n, false)));
    }
    network
}

/// Some neighbors announce a next hop that is not on their link but behind a different router of the AS (RFC 4271,
/// section 6.3 b). No router may use such a next hop, even with a route to it.
fn mislead(network: &mut Network, rng: &mut Rng) {
    for link in 0..network.links.len() as u32 {
        if network.is_internal(link) || rng.below(6) > 0 {
            continue;
        }
        let side = rng.below(2) as usize;
        let node = network.links[link as usize].end(1 - side);
        let mates = network.links_of(node).filter(|(inner, _)| network.is_internal(*inner));
        let mates = mates.map(|(inner, own)| network.links[inner as usize].end(1 - own));
        let behind = mates.flat_map(|mate| network.links_of(mate).map(|(outer, own)| (outer, 1 - own)));
        let far: Vec<(u32, usize)> = behind.filter(|(outer, _)| !network.is_internal(*outer)).collect();
        if !far.is_empty() {
            let (outer, end) = far[rng.below(far.len() as u64) as usize];
            network.links[link as usize].rewrites[side].next_hop = Some(network::ipv4(outer, end));
        }
    }
}

/// Draws the relationships: an AS sells transit to ASes with higher numbers, or two ASes are peers. The links between
/// two ASes have the same relationship.
fn rank(network: &mut Network, salt: u64) {
    for link in 0..network.links.len() {
        let (a, b) = (network.links[link].a as usize, network.links[link].b as usize);
        let (one, other) = (network.nodes[a].asn, network.nodes[b].asn);
        if one == other {
            continue;
        }
        let pair = u64::from(one.min(other)) << 32 | u64::from(one.max(other));
        let peers = Rng::from_seed(salt ^ pair).below(3) == 0;
        network.links[link].relationship = Some(match (peers, one < other) {
            (true, _) => Relationship::Peer,
            (false, true) => Relationship::Customer,
            (false, false) => Relationship::Provider,
        });
    }
}

fn any(rng: &mut Rng, of: &[u32]) -> u32 {
    of[rng.below(of.len() as u64) as usize]
}

fn link(rng: &mut Rng, a: u32, b: u32, internal: bool) -> Link {
    let mut link = Link::new(a, b, 50_000 + rng.below(30 * MILLISECOND));
    if rng.below(5) == 0 {
        link.bandwidth = 1000 + rng.below(100_000);
    }
    if internal {
        link.cost = rng.below(4) as u32;
    }
    for rewrite in &mut link.rewrites {
        if !internal && rng.below(3) == 0 {
            *rewrite = Rewrite {
                origin: (rng.below(3) == 0).then(|| rng.below(3) as u8),
                med: (rng.below(2) == 0).then(|| rng.below(3) as u32),
                prepend: (rng.below(4) == 0).into(),
                no_export: rng.below(8) == 0,
                next_hop: None,
                omits: (rng.below(12) == 0).then(|| 1 + rng.below(3) as u8),
                only_to_customer: (rng.below(8) == 0).then(|| [0, 0, ELSEWHERE][rng.below(3) as usize]),
            };
        }
    }
    link
}

/// Adds a fault or a change, and usually its end.
fn fault(network: &Network, rng: &mut Rng, phase: &mut Vec<Step>, ipv6: bool) {
    let at = rng.below(30_000);
    let longest = [300, 5_000, 60_000][rng.below(3) as usize];
    let until = at + 10 + rng.below(longest);
    let node = rng.below(network.nodes.len() as u64) as u32;
    let link = rng.below(network.links.len() as u64) as u32;
    let side = rng.below(2) as u8;
    let process = rng.below(ProcessId::CLASSES as u64) as usize;
    let process = ProcessId::single().nth(process).unwrap_or(ProcessId::FEA);
    let ranked = network.links.iter().any(|l| l.relationship.is_some());
    let number = a_prefix(rng, ranked, network.nodes[node as usize].asn, ipv6);
    let (what, end) = match rng.below(16) {
        0 => (What::Cut { link }, Some(What::Heal { link })),
        1 => (What::CarrierDown { link }, Some(What::CarrierUp { link })),
        2 => (What::CrashNode { node }, Some(What::Boot { node })),
        3 | 4 => (What::Kill { node, process }, Some(What::Start { node, process })),
        5 => (What::Announce { node, prefix: number }, Some(What::Withdraw { node, prefix: number })),
        6 => (What::Withdraw { node, prefix: number }, Some(What::Announce { node, prefix: number })),
        7 => (What::RemoveNeighbor { link, side }, Some(What::AddNeighbor { link, side })),
        8 => (What::Enable { link, side, enabled: false }, Some(What::Enable { link, side, enabled: true })),
        9 => (What::Reset { link, side }, None),
        10 => (What::Refresh { link, side }, None),
        11 => (What::NextHopSelf { link, side, on: rng.below(2) == 0 }, None),
        // Policies between the routers of an AS would let them use different exits, and packets would loop.
        12..=14 if !network.is_internal(link) => policies(rng, link, side, ranked, ipv6),
        _ => {
            let (loss, reorder) = (rng.below(300_000) as u32, rng.below(300_000) as u32);
            (What::Degrade { link, loss, reorder, delay: rng.below(200 * MILLISECOND) }, None)
        }
    };
    let must_end = matches!(what, What::Kill { .. });
    phase.push(Step { at_ms: at, what });
    if let Some(end) = end.filter(|_| must_end || rng.below(10) < 7) {
        phase.push(Step { at_ms: until, what: end });
    }
}

/// An import or export policy for the neighbor over a link, and the policy that follows.
fn policies(rng: &mut Rng, link: u32, side: u8, ranked: bool, ipv6: bool) -> (What, Option<What>) {
    let direction = if rng.below(2) == 0 { Direction::Import } else { Direction::Export };
    let mut policy = |most| {
        let rules = (0..rng.below(most)).map(|_| rule(rng, ranked, ipv6)).collect();
        What::Policy { link, side, direction, rules }
    };
    (policy(4), Some(policy(3)))
}

/// A rule for some prefixes of a campaign, or for all. In networks with ranks, LOCAL_PREF follows the relationship.
fn rule(rng: &mut Rng, ranked: bool, ipv6: bool) -> Rule {
    let number = |rng: &mut Rng| prefix(rng.below(3 * POOL), ipv6);
    let mut prefixes: Vec<IpPrefix> = (0..rng.below(6)).map(|_| number(rng)).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    let then = match rng.below(6) {
        0 | 1 => Action::Reject,
        2 if !ranked => Action::LocalPref(90 + 5 * rng.below(5) as u32),
        2 | 3 => Action::Prepend(ELSEWHERE),
        4 => Action::NoExport,
        _ => Action::Med(rng.below(4) as u32),
    };
    Rule { prefixes, then }
}

/// A campaign's budget.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The first seed.
    pub first: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// The timeout of the campaign.
    pub time: Option<Duration>,
    /// Threads; each runs whole scenarios.
    pub jobs: usize,
    /// True if a failing scenario is reduced.
    pub shrink: bool,
}

/// The result of a campaign.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of seeds that were run.
    pub seeds: u64,
    /// Events delivered.
    pub events: u64,
    /// Virtual seconds.
    pub virtual_seconds: u64,
    /// Real time.
    pub seconds: f64,
    /// The first failing seed, reduced, and its broken conditions.
    pub failure: Option<(Scenario, Vec<String>)>,
}

/// Runs a campaign until a seed fails, and reduces the failing scenario.
pub fn campaign(budget: &Budget) -> Report {
    let start = Instant::now();
    let (next, events, time, count) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let failed: Mutex<Option<u64>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..budget.jobs.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && budget.time.is_none_or(|t| start.elapsed() < t) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= budget.seeds {
                        return;
                    }
                    let outcome = run(&scenario(budget.first + number), None);
                    events.fetch_add(outcome.events, Ordering::Relaxed);
                    time.fetch_add(outcome.virtual_seconds, Ordering::Relaxed);
                    count.fetch_add(1, Ordering::Relaxed);
                    if !outcome.wrong.is_empty() {
                        stop.store(true, Ordering::Relaxed);
                        let mut failed = failed.lock().expect("no thread panics with it");
                        *failed =
                            Some(failed.map_or(budget.first + number, |f| f.min(budget.first + number)));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no thread panics with it");
    let failure = failed.map(|seed| {
        let small = match budget.shrink {
            true => shrink::shrink(scenario(seed), |s| !run(s, None).wrong.is_empty()),
            false => scenario(seed),
        };
        let wrong = run(&small, None).wrong;
        (small, wrong)
    });
    Report {
        seeds: count.into_inner(),
        events: events.into_inner(),
        virtual_seconds: time.into_inner(),
        seconds: start.elapsed().as_secs_f64(),
        failure,
    }
}
