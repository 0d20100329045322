//! The Internet's tables: each boundary address of each prefix, and churn.

use super::{boundaries, group_of, way};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
use sluice_fea::xdp::{GroupSlot, Memory, Tables, Target, layout};
use sluice_stage::{PrefixTable, TableKey};
use std::net::IpAddr;

/// Groups over which the prefixes are spread.
const GROUPS: usize = 48;

struct Router<P: TableKey> {
    tables: Tables<Memory>,
    groups: Vec<GroupSlot>,
    model: PrefixTable<P, u32>,
}

impl<P: TableKey + Into<IpPrefix>> Router<P> {
    fn new() -> Self {
        let mut tables = Tables::new(Memory::default());
        let groups = (0..GROUPS as u32).map(|seed| {
            let member = tables.add_member(way(seed)).unwrap();
            tables.add_group(&[(member, 1)]).unwrap()
        });
        Router { groups: groups.collect(), tables, model: PrefixTable::new() }
    }

    fn set(&mut self, prefix: P, n: usize) {
        let group = self.groups[n % GROUPS];
        self.tables.set_route(prefix.into(), Target::Group(group)).unwrap();
        self.model.insert(prefix, group.number());
    }

    fn remove(&mut self, prefix: P) {
        self.tables.remove_route(prefix.into());
        self.model.remove(prefix);
    }

    /// Compares the answers at the boundaries of each of `prefixes`.
    fn check(&self, prefixes: &[P])
    where
        P::Addr: TryFrom<IpAddr>,
    {
        let default = if P::WIDTH == 32 { layout::IPV4_DEFAULT } else { layout::IPV6_DEFAULT };
        for prefix in prefixes {
            for address in boundaries((*prefix).into()) {
                let Ok(key) = P::Addr::try_from(address) else { unreachable!("a boundary is of the family") };
                let expected = self.model.longest_match_addr(key).map_or(default, |(_, group)| *group);
                assert_eq!(group_of(self.tables.words(), address), expected, "{address} beside {prefix}");
            }
        }
    }
}

fn lines<P: Prefix>(text: &[u8]) -> Vec<P> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

/// Loads a table whole, plays the changes of a day over it, and empties it.
fn check<P: TableKey + Into<IpPrefix>>(table: &str, churn: &str, least: usize)
where
    P::Addr: TryFrom<IpAddr>,
{
    let Some(text) = sluice_testkit::read(&format!("data/bgp/prefixes/{table}")) else { return };
    let prefixes: Vec<P> = lines(&text);
    assert!(prefixes.len() > least);
    let mut router = Router::new();
    for (n, prefix) in prefixes.iter().enumerate() {
        router.set(*prefix, n * 7);
    }
    router.check(&prefixes);
    assert_eq!(router.tables.routes().count(), prefixes.len());
    if let Some(text) = sluice_testkit::read(&format!("data/bgp/updates/{churn}")) {
        let text = String::from_utf8_lossy(&text);
        let mut changed = Vec::new();
        for (n, line) in text.lines().take(CHANGES).enumerate() {
            let Some((kind, prefix)) = line.split_once(' ') else { continue };
            let Ok(prefix) = prefix.parse::<P>() else { continue };
            if kind == "A" {
                router.set(prefix, n * 11)
            } else {
                router.remove(prefix)
            }
            changed.push(prefix);
            if let Some(grace) = router.tables.begin_grace() {
                router.tables.end_grace(grace);
            }
        }
        assert!(changed.len() > CHANGES / 2);
        router.check(&changed);
    }
    let left: Vec<IpPrefix> = router.tables.routes().map(|(prefix, _)| prefix).collect();
    left.into_iter().for_each(|prefix| router.tables.remove_route(prefix));
    router.model = PrefixTable::new();
    router.check(&prefixes);
    let usage = router.tables.usage();
    assert_eq!((usage.ipv4_nodes.used, usage.ipv6_nodes.used), (0, 0));
}

/// Changes that are played.
const CHANGES: usize = 200_000;

#[test]
fn the_internets_ipv4_table() {
    let churn = "ris-as3333-20260511-ipv4-churn-part1.txt.zst";
    check::<Ipv4Prefix>("ris-as3333-20260511-ipv4.txt.zst", churn, 1_000_000);
}

#[test]
fn the_internets_ipv6_table() {
    let churn = "ris-as3333-20260511-ipv6-churn-part1.txt.zst";
    check::<Ipv6Prefix>("ris-as3333-20260511-ipv6.txt.zst", churn, 200_000);
}
