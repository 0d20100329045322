//! The look-ups of the fast path beside the kernel's own: a router with real prefixes in the kernel and in the tables of XDP is asked
//! for random addresses and for the addresses at the boundaries of every prefix, before and after recorded churn, and with default
//! routes. One program reads both, an address a run: the tables as the program `ip` does, the kernel by `bpf_fib_lookup`.

mod oracle;

use bench_forward::router::{Engines, Router, mount_pins};
use bench_forward::{is_forwarded, network};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use oracle::Oracle;
use sluice_base::{IpPrefix, Rng};
use sluice_bpf::probe::{Feature, require};
use sluice_lab::Lab;
use sluice_load::source;
use sluice_pktgen::destinations::random_hosts;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

/// The last numbers of the gateways' addresses. 2 is the node at the end of the way.
const HOSTS: std::ops::Range<u8> = 2..34;
/// The ends of routes: gateways, an end that drops, an end that answers.
const ENDS: usize = 32 + 2;
/// Changes between two comparisons.
const CHANGES: usize = 100_000;

/// The amount of work.
struct Scale {
    /// Prefixes of each family at most.
    prefixes: usize,
    /// Random addresses of all comparisons together.
    random: usize,
    /// Recorded changes of each family.
    changes: usize,
}

#[test]
fn look_ups_equal_the_kernels() {
    compare_look_ups(&Scale { prefixes: 20_000, random: 100_000, changes: 20_000 });
}

#[test]
fn look_ups_in_the_internets_tables_equal_the_kernels() {
    sluice_testkit::long!("lookups");
    compare_look_ups(&Scale { prefixes: usize::MAX, random: 10_000_000, changes: usize::MAX });
}

fn compare_look_ups(scale: &Scale) {
    if !nix::unistd::geteuid().is_root() {
        return sluice_testkit::skipped("not root");
    }
    if let Err(error) = require(Feature::NativeXdp) {
        return sluice_testkit::skipped(error);
    }
    let lab = network::up().unwrap();
    lab.inside("r", || compare(&lab, scale)).unwrap();
    lab.down().unwrap();
}

/// Gives the thread mounts of its own, which end with the thread.
fn private_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount::<str, str, str, str>(None, "/", None, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None).unwrap();
}

fn compare(lab: &Lab, scale: &Scale) {
    private_mounts();
    let folder = tempfile::tempdir().unwrap();
    mount_pins(folder.path()).unwrap();
    add_gateways(lab);
    let table = source::find(None).unwrap().0.thinned(scale.prefixes, scale.prefixes);
    let all: Vec<IpPrefix> =
        table.v4.iter().chain(&table.v6).map(|a| a.prefix).filter(is_forwarded).collect();

    let mut router = Router::start(lab, Engines::Xdp, folder.path()).unwrap();
    router.set_ends(HOSTS);
    let mut routes: BTreeMap<IpPrefix, usize> = BTreeMap::new();
    announce(&mut router, &mut routes, all.iter().enumerate().map(|(n, prefix)| (*prefix, n * 7)));
    router.settle().unwrap();
    let fast = router.fast_path().unwrap();
    let incoming = network::interface(lab, "r", network::IN).unwrap().0;
    let oracle = Oracle::new(fast.program(), &folder.path().join("lookups"), incoming);

    let mut random = Rng::from_seed(11);
    let churn = churn(scale.changes);
    let comparisons = churn.chunks(CHANGES).len() + 2;
    let mut check = |what: &str, routes: &BTreeMap<IpPrefix, usize>, around: &[IpPrefix]| {
        let begin = Instant::now();
        let drawn = addresses(routes, scale.random.div_ceil(comparisons), &mut random);
        let boundaries: Vec<IpAddr> = around.iter().flat_map(|prefix| boundaries(*prefix)).collect();
        let verdicts = oracle.compare(drawn.iter().chain(&boundaries));
        println!(
            "{what}: {} routes, {} random addresses, {} at boundaries, {:.1} s: {verdicts:?}",
            routes.len(),
            drawn.len(),
            boundaries.len(),
            begin.elapsed().as_secs_f64()
        );
        assert!(verdicts.forwarded > 0 && verdicts.dropped > 0 && verdicts.to_kernel > 0);
    };
    check("the table", &routes, &all);
    for changes in churn.chunks(CHANGES) {
        let touched: Vec<IpPrefix> = changes.iter().map(|(prefix, _)| *prefix).collect();
        change(&mut router, &mut routes, changes);
        check("after churn", &routes, &touched);
    }
    let defaults = ["0.0.0.0/0", "::/0"].map(|prefix| prefix.parse().unwrap());
    announce(&mut router, &mut routes, defaults.into_iter().map(|prefix| (prefix, 5)));
    router.settle().unwrap();
    check("with default routes", &routes, &[]);
}

/// Adds gateways at the ends of both ways, each with a link-layer address of its own.
fn add_gateways(lab: &Lab) {
    for (way, (node, interface)) in network::SINKS.into_iter().enumerate() {
        // An interface answers for its own addresses only.
        lab.exec(node, "sysctl", ["-qw", "net.ipv4.conf.all.arp_ignore=1"]).unwrap();
        let mut batch = String::new();
        for host in HOSTS.skip(1).filter(|host| usize::from(*host) % network::SINKS.len() == way) {
            let mac = format!("02:00:00:00:{:02x}:{host:02x}", way + 1);
            writeln!(batch, "link add link {interface} name g{host} address {mac} type macvlan").unwrap();
            writeln!(batch, "address add 10.0.{}.{host}/24 dev g{host}", way + 1).unwrap();
            writeln!(batch, "address add fd00:{}::{host:x}/64 dev g{host} nodad", way + 1).unwrap();
            writeln!(batch, "link set g{host} up").unwrap();
        }
        let file = lab.dir(node).join("gateways");
        std::fs::write(&file, batch).unwrap();
        lab.exec(node, "ip", ["-batch", file.to_str().unwrap()]).unwrap();
    }
}

/// Announces prefixes, each with the number of its end.
fn announce(
    router: &mut Router,
    routes: &mut BTreeMap<IpPrefix, usize>,
    new: impl IntoIterator<Item = (IpPrefix, usize)>,
) {
    let mut by_end = vec![Vec::new(); ENDS];
    for (prefix, n) in new {
        by_end[n % ENDS].push(prefix);
        routes.insert(prefix, n % ENDS);
    }
    for (end, prefixes) in (0..).zip(by_end) {
        router.announce_by(&prefixes, end);
    }
}

/// Plays changes: the last one of a prefix counts.
fn change(
    router: &mut Router,
    routes: &mut BTreeMap<IpPrefix, usize>,
    changes: &[(IpPrefix, Option<usize>)],
) {
    let last: BTreeMap<IpPrefix, Option<usize>> = changes.iter().copied().collect();
    let gone: Vec<IpPrefix> =
        last.iter().filter(|(_, end)| end.is_none()).map(|(prefix, _)| *prefix).collect();
    router.change(&gone, false);
    routes.retain(|prefix, _| last.get(prefix) != Some(&None));
    announce(router, routes, last.into_iter().filter_map(|(prefix, end)| Some((prefix, end?))));
    router.settle().unwrap();
}

/// Returns the recorded changes of both families, each with the number of the new route's end.
fn churn(most: usize) -> Vec<(IpPrefix, Option<usize>)> {
    let mut changes = Vec::new();
    for family in ["ipv4", "ipv6"] {
        let file = format!("data/bgp/updates/ris-as3333-20260511-{family}-churn-part1.txt.zst");
        let Some(octets) = sluice_testkit::read(&file) else { continue };
        let text = String::from_utf8(octets).unwrap();
        let of_line = |(n, line): (usize, &str)| {
            let (kind, prefix) = line.split_once(' ')?;
            let prefix = prefix.parse().ok().filter(is_forwarded)?;
            Some((prefix, (kind == "A").then_some(n * 11)))
        };
        changes.extend(text.lines().enumerate().filter_map(of_line).take(most));
    }
    changes
}

/// Draws addresses: a quarter from all IPv4 addresses, a quarter from the unicast IPv6 addresses in use (2000::/3), the others inside
/// of prefixes.
fn addresses(routes: &BTreeMap<IpPrefix, usize>, count: usize, random: &mut Rng) -> Vec<IpAddr> {
    let (ipv4, ipv6): (Vec<IpPrefix>, Vec<IpPrefix>) =
        routes.keys().filter(|prefix| prefix.len() > 0).partition(|prefix| prefix.addr().is_ipv4());
    let quarter = count / 4;
    let mut all = random_hosts(&ipv4, quarter, random);
    all.extend(random_hosts(&ipv6, quarter, random));
    for _ in 0..quarter {
        all.push(Ipv4Addr::from_bits(random.next_u64() as u32).into());
        let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        all.push(Ipv6Addr::from_bits(bits >> 3 | 1 << 125).into());
    }
    all
}

/// Returns the first and the last address of a prefix, and those before and after.
fn boundaries(prefix: IpPrefix) -> [IpAddr; 4] {
    match prefix.addr() {
        IpAddr::V4(first) => {
            let first = first.to_bits();
            let last = first | u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
                .map(|bits| Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(first) => {
            let first = first.to_bits();
            let last = first | u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
                .map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    }
}
