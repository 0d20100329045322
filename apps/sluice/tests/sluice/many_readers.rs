//! Many neighbors of one table: one that reads nothing among others that read, and one that loses its session again and again
//! (requirements X14 and X16). The long tests take the release executable, the Internet's table and 51 neighbors.

use sluice_base::{Asn, Ipv4Prefix};
use sluice_bgpsim::wire::{MessageType, WirePrefix};
use sluice_load::RoutingTable;
use sluice_router_lab::speaker::{Speaker, announcement, base, message, usual};
use sluice_router_lab::table::{internet_table, small_subject};
use sluice_router_lab::{RouterLab, alone, possible, share};
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

/// The router's address, and the one of the neighbor with the table. Readers have the addresses behind.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const FEED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const FEED_AS: u32 = 64601;
/// Routes of the short form.
const FEW: (usize, usize) = (30_000, 0);
/// Neighbors that read, in the short form and in the long one.
const READERS: usize = 8;
const MANY_READERS: usize = 50;
/// Rounds in which each route is announced with another path, while a neighbor reads nothing, and an AS for each round.
const ROUNDS: u32 = 8;
const FIRST_ROUND_AS: u32 = 64_901;
/// The route behind the last round, which no table has.
const LAST: &str = "198.51.100.0/24";
/// Ends of a session, each as soon as the router has routes of it.
const FLAPS: u32 = 10;
/// Runs of which one has to show that there is no copy.
const ATTEMPTS: u32 = 3;
/// Memory that a measurement may differ by, in octets: pages that the allocator keeps.
const SLACK: f64 = 8e6;

fn reader(number: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(FEED.to_bits() + 1 + number as u32)
}

fn reader_as(number: usize) -> u32 {
    FEED_AS + 1 + number as u32
}

fn topology(readers: usize) -> String {
    let neighbors: String = (0..readers)
        .map(|n| format!("neighbor {} {{ peer-as {}; passive; }}\n", reader(n), reader_as(n)))
        .collect();
    let addresses: Vec<String> = std::iter::once(FEED)
        .chain((0..readers).map(reader))
        .map(|address| format!("'{address}/16'"))
        .collect();
    format!(
        "[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''protocols {{ bgp {{ local-as 64500; router-id 10.0.0.1; \
         default-policy accept; neighbor {FEED} {{ peer-as {FEED_AS}; passive; }}\n{neighbors} }} }}\n'''\n\
         [nodes.peers]\n[[links]]\na = 'sluice:eth0'\nb = 'peers:eth0'\na_addresses = ['{ROUTER}/16']\n\
         b_addresses = [{}]\n",
        addresses.join(", ")
    )
}

fn up(readers: usize, program: &Path) -> RouterLab {
    let lab = RouterLab::up(&topology(readers).parse().unwrap(), program);
    lab.until("the router is ready", RouterLab::ready);
    lab
}

fn connect(lab: &RouterLab, local: Ipv4Addr, asn: u32) -> Speaker {
    Speaker::connect(lab, "peers", local, ROUTER, &usual(asn))
}

/// Returns the IPv4 routes of a table as messages, routes of one path together. Another round gives each route another path.
fn messages(table: &RoutingTable, round: u32) -> Vec<u8> {
    let mut by_path: BTreeMap<&[Asn], Vec<Ipv4Prefix>> = BTreeMap::new();
    for route in &table.v4 {
        by_path.entry(&route.path).or_default().push(route.prefix.try_into().unwrap());
    }
    let mut octets = Vec::new();
    for (path, prefixes) in by_path {
        let path: Vec<u32> =
            [FEED_AS, FIRST_ROUND_AS + round].into_iter().chain(path.iter().map(|asn| asn.0)).collect();
        prefixes.chunks(200).for_each(|some| octets.extend(update(&path, some)));
    }
    octets
}

/// Returns an UPDATE that announces prefixes.
fn update(path: &[u32], prefixes: &[Ipv4Prefix]) -> Vec<u8> {
    let mut nlri = Vec::new();
    prefixes.iter().for_each(|prefix| WirePrefix::put(*prefix, &mut nlri));
    message(MessageType::Update, &announcement(&base(path, FEED), &nlri))
}

/// The result of a run: the time until all readers that read have all routes, and the most memory of BGP.
struct Outcome {
    time: Duration,
    memory: f64,
}

/// Plays rounds of the table to readers, of which one more reads as well, or reads nothing.
fn advertise(
    program: &Path,
    rounds: &[Vec<u8>],
    (routes, count): (usize, usize),
    is_blocked: bool,
) -> Outcome {
    let lab = up(count + 1, program);
    let mut all: Vec<Speaker> = (0..=count).map(|n| connect(&lab, reader(n), reader_as(n))).collect();
    let blocked = is_blocked.then(|| all.pop());
    let mut feed = connect(&lab, FEED, FEED_AS);
    let begun = Instant::now();
    std::thread::scope(|threads| {
        for speaker in &mut all {
            // The route behind the last round is one more.
            threads.spawn(|| speaker.count_until(routes + 1));
        }
        rounds.iter().for_each(|octets| feed.send(octets));
        feed.send(&update(&[FEED_AS], &[LAST.parse().unwrap()]));
    });
    let outcome = Outcome { time: begun.elapsed(), memory: most_memory(&lab) };
    drop(blocked);
    outcome
}

/// Returns the most memory that BGP had, in octets.
fn most_memory(lab: &RouterLab) -> f64 {
    let status = read_to_string(format!("/proc/{}/status", lab.pid("bgp").unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
}

#[test]
fn a_neighbor_that_reads_nothing_costs_the_others_nothing() {
    let _share = share();
    if possible() {
        let (program, table) = small_subject(FEW);
        block_one(&program, &table, READERS);
    }
}

#[test]
fn a_neighbor_that_reads_nothing_costs_50_others_nothing() {
    let program = sluice_testkit::long!("many readers");
    let _alone = alone();
    if possible()
        && let Some(table) = internet_table()
    {
        block_one(&program, &table, MANY_READERS);
    }
}

/// Compares readers of a table with readers beside a neighbor that reads nothing.
fn block_one(program: &Path, table: &RoutingTable, readers: usize) {
    let rounds: Vec<Vec<u8>> = (0..ROUNDS).map(|round| messages(table, round)).collect();
    let size = (table.v4.len(), readers);
    // A copy for each neighbor, as its queue would hold it.
    let copy = rounds.iter().map(Vec::len).sum::<usize>() as f64;
    // The most memory of a run depends on how fast the machine is at that moment. A copy would be there in each run.
    let has_copy = (0..ATTEMPTS).all(|_| {
        let [free, blocked] = [false, true].map(|is_blocked| advertise(program, &rounds, size, is_blocked));
        report(table, readers, &free, &blocked, copy);
        blocked.memory - free.memory >= copy / 2.0
    });
    assert!(!has_copy, "the neighbor that reads nothing has a copy");
}

/// Prints what readers of a table take, and what they take beside a neighbor that reads nothing.
fn report(table: &RoutingTable, readers: usize, free: &Outcome, blocked: &Outcome, copy: f64) {
    println!(
        "{} routes to {} readers: {:.1} s and {:.1} MB; with one more that reads nothing: {:.1} s and {:.1} MB; a copy: {:.1} MB",
        table.v4.len(),
        readers,
        free.time.as_secs_f64(),
        free.memory / 1e6,
        blocked.time.as_secs_f64(),
        blocked.memory / 1e6,
        copy / 1e6
    );
}

#[test]
fn a_session_that_ends_again_and_again_leaves_no_route_and_no_memory_behind() {
    let _share = share();
    if possible() {
        let (program, table) = small_subject(FEW);
        flap(&program, &table);
    }
}

#[test]
fn a_session_with_the_internets_table_ends_again_and_again() {
    let program = sluice_testkit::long!("many readers");
    let _alone = alone();
    if possible()
        && let Some(table) = internet_table()
    {
        flap(&program, &table);
    }
}

/// Ends a session again and again, and compares the routes and the memory with those of a single session.
fn flap(program: &Path, table: &RoutingTable) {
    let (octets, routes) = (messages(table, 0), table.v4.len());
    let received = |lab: &RouterLab, count: usize| {
        lab.until_within(Duration::from_secs(120), "BGP has the routes", |lab| {
            let (rib, is_idle) = lab.rib("bgp");
            rib.v4 == count && is_idle
        });
    };

    let lab = up(1, program);
    let mut feed = connect(&lab, FEED, FEED_AS);
    feed.send(&octets);
    received(&lab, routes);
    let once = most_memory(&lab);
    connect(&lab, reader(0), reader_as(0)).count_until(routes);

    let begun = Instant::now();
    for _ in 0..FLAPS {
        drop(feed);
        feed = connect(&lab, FEED, FEED_AS);
        feed.send(&octets);
        lab.until("routes of the session are there", |lab| lab.received(&FEED.to_string()).v4 > 0);
    }
    println!("{FLAPS} sessions with {routes} routes each in {:.1} s", begun.elapsed().as_secs_f64());
    feed.send(&octets);
    received(&lab, routes);
    lab.until("the last session has all routes", |lab| lab.received(&FEED.to_string()).v4 == routes);
    let flapped = most_memory(&lab);
    println!("one table: {:.1} MB; after the flaps at most {:.1} MB", once / 1e6, flapped / 1e6);
    assert!(flapped < once * 1.2 + SLACK);

    // A new reader receives what was announced.
    let mut after = connect(&lab, reader(0), reader_as(0));
    after.count_until(routes);
    drop(feed);
    received(&lab, 0);
}
