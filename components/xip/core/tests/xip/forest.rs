//! The forest against routing in its simplest words: whatever changes, each cached answer is the result of a look-up without cache, and
//! exactly the answers that looked at a change are dropped.

use crate::naive::{Decision, Naive, Op, named};
use crate::world::{World, inside, of};
use proptest::prelude::*;
use sluice_base::{Prefix, Rng, Xid, XidPrefix, XidType};
use sluice_xip::anchor::{Anchor, Touch};
use sluice_xip::answer::NeighborId;
use sluice_xip::forest::{CacheEntryId, Forest, ForestFull};
use sluice_xip::principals::catalog::CATALOG;
use sluice_xip::principals::u4id;
use sluice_xip::route::Route;
use sluice_xip::router::Limits;
use sluice_xip::row::{Edge, Row};
use std::collections::{BTreeMap, BTreeSet};

/// The second version of hosts.
const HIDV2: XidType = XidType(0x53);
const KINDS: [XidType; 10] = [
    XidType::AD,
    XidType::HID,
    XidType::LPM,
    XidType::U4ID,
    XidType::UNI4ID,
    XidType::ZF,
    XidType::XDP,
    XidType::ETHER,
    HIDV2,
    XidType(0x999),
];

/// Returns an XID out of few, so that rows and routes meet.
fn small_xid(kind: XidType, n: u8) -> Xid {
    let mut id = [0; 20];
    match kind {
        XidType::U4ID => id = u4id::id_of([10, 0, 0, n].into(), u16::from(n > 0) * 13781),
        XidType::UNI4ID => {
            id[..10].copy_from_slice(&[0x45, 0, 0, 0, 0, u8::from(n > 0), 0, 0, 0xfa, 0xfa]);
            id[16..].copy_from_slice(&[10, 0, 0, n]);
        }
        XidType::ZF => id[0] = n,
        XidType::LPM => (id[0], id[19]) = (n << 5, n >> 1),
        _ => id = [n; 20],
    }
    Xid { kind, id }
}

/// A router with its cache, and the same in simplest words.
struct Pair {
    world: World,
    naive: Naive,
    decisions: BTreeMap<Row, Decision>,
    wanted: u8,
}

impl Pair {
    fn new(consultations: u8, wanted: u8) -> Self {
        let limits = Limits { consultations, ..Limits::default() };
        let naive = Naive { consultations: usize::from(consultations), ..Naive::default() };
        Pair { world: World::empty(limits), naive, decisions: BTreeMap::new(), wanted }
    }

    /// Decides on a row through the cache.
    fn ask(&mut self, row: &Row) {
        let answer = self.world.answer(row).unwrap();
        let decision = self.decisions.entry(row.clone()).or_insert_with(|| self.naive.decide(row));
        assert_eq!(named(&answer, self.world.router.ports()), decision.chosen, "{row:?}");
    }

    /// Changes the routing state. The answers dropped must be those that looked at the change.
    fn apply(&mut self, op: Op) {
        let touched = match op {
            Op::Route(prefix, route) => match self.world.router.change(prefix, route) {
                Ok(touched) => touched,
                Err(_) => return, // neither changes
            },
            Op::Register(kind) => {
                let name = CATALOG.iter().find(|row| row.number == kind).map_or("hid", |row| row.name);
                self.world.router.register(inside(name, kind)).unwrap()
            }
            Op::Unregister(kind) => self.world.router.unregister(kind),
            Op::Neighbor(neighbor, is_usable) => self.world.router.set_neighbor(neighbor, is_usable),
        };
        self.world.flush(&touched);
        let naive = &self.naive;
        self.decisions.retain(|_, decision| !naive.reaches(op, decision));
        self.naive.apply(op);
        let cached: BTreeSet<&Row> = self.world.cache.keys().collect();
        assert_eq!(cached, self.decisions.keys().collect(), "{op:?}");
    }

    /// Compares each cached answer with a look-up in simplest words.
    fn check(&self) {
        for (row, (_, answer)) in &self.world.cache {
            assert_eq!(named(answer, self.world.router.ports()), self.naive.decide(row).chosen, "{row:?}");
        }
    }

    fn finish(mut self) {
        self.check();
        for kind in KINDS {
            self.apply(Op::Unregister(kind));
        }
        let rows: Vec<Row> = self.world.cache.keys().cloned().collect();
        for row in rows {
            let (entry, answer) = self.world.cache[&row];
            self.world.forest.detach(entry);
            self.world.router.release(&answer);
        }
        let size = self.world.forest.size();
        assert_eq!((size.anchors, size.links), (0, 0), "anchors without dependents are gone");
        assert_eq!(self.world.router.ports().counts(), (0, 0));
    }

    fn op(&self, rng: &mut Rng) -> Op {
        let wanted = u64::from(self.wanted);
        let mut kind = || KINDS[rng.below(KINDS.len() as u64) as usize];
        let (kind, other) = (kind(), kind());
        match rng.below(20) {
            0 if kind != XidType(0x999) => Op::Register(kind),
            1 if rng.below(3) == 0 => Op::Unregister(kind),
            2 => Op::Neighbor(NeighborId(rng.below(4) as u32), rng.below(3) > 0),
            _ => {
                let xid = small_xid(kind, rng.below(wanted) as u8);
                let bits = [0, 1, 2, 3, 8, 159, 160][rng.below(7) as usize];
                let bits = if kind == XidType::LPM { bits } else { 160 };
                let route = match rng.below(7) {
                    0 | 1 => None,
                    2 => Some(Route::Local),
                    3 => Some(Route::Tunnel { no_check: rng.below(2) == 0 }),
                    4 => Some(Route::Neighbor(NeighborId(rng.below(4) as u32))),
                    _ => Some(Route::Redirect(small_xid(other, rng.below(wanted) as u8))),
                };
                Op::Route(XidPrefix::of_type(kind, xid.id, bits).unwrap(), route)
            }
        }
    }

    fn row(&self, rng: &mut Rng) -> Row {
        let mut edge = |_| {
            let kind = KINDS[rng.below(KINDS.len() as u64) as usize];
            let xid = small_xid(kind, rng.below(u64::from(self.wanted)) as u8);
            Edge { xid, is_sink: rng.below(2) == 0 }
        };
        let edges: Vec<Edge> = (0..4).map(&mut edge).collect();
        let count = 1 + rng.below(4) as usize;
        Row { edges: edges[..count].iter().copied().collect(), is_input: rng.below(2) == 0 }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn after_any_changes_cached_answers_are_true_and_the_rest_is_untouched(
        seed in any::<u64>(), consultations in 1..5_u8, with_all in any::<bool>(),
    ) {
        let mut rng = Rng::from_seed(seed);
        let mut pair = Pair::new(consultations, 8);
        for row in CATALOG {
            if with_all || rng.below(2) == 0 {
                pair.apply(Op::Register(row.number));
            }
        }
        for _ in 0..250 {
            for _ in 0..4 {
                let row = pair.row(&mut rng);
                pair.ask(&row);
            }
            let op = pair.op(&mut rng);
            pair.apply(op);
        }
        pair.finish();
    }
}

#[test]
fn thousands_of_rows_stay_true_while_everything_changes() {
    let mut rng = Rng::from_seed(4);
    let mut pair = Pair::new(3, 40);
    for row in CATALOG {
        pair.apply(Op::Register(row.number));
    }
    for _ in 0..300 {
        let op = pair.op(&mut rng);
        pair.apply(op);
    }
    for round in 0..600 {
        while pair.world.cache.len() < 4_000 {
            let row = pair.row(&mut rng);
            pair.ask(&row);
        }
        let op = pair.op(&mut rng);
        pair.apply(op);
        if round % 100 == 0 {
            pair.check();
        }
    }
    assert!(pair.world.flushed > 4_000, "{} answers were dropped", pair.world.flushed);
    pair.finish();
}

#[test]
fn a_forest_is_bounded_and_repeated_anchors_count_once() {
    let mut forest = Forest::new(1, 5);
    let anchors = [Anchor::Entry(of(XidType::AD, 1)), Anchor::Principal(XidType::AD)];
    let twice: Vec<Anchor> = anchors.iter().chain(&anchors).copied().collect();
    forest.attach(CacheEntryId(7), &twice).unwrap();
    assert_eq!((forest.size().links, forest.size().anchors), (2, 2));
    forest.attach(CacheEntryId(7), &anchors).unwrap();
    forest.attach(CacheEntryId(8), &anchors).unwrap();
    assert_eq!(forest.attach(CacheEntryId(9), &anchors), Err(ForestFull));
    let touched: Vec<_> = forest.touched(&Touch::principal(XidType::AD)).collect();
    assert_eq!(touched, [CacheEntryId(8), CacheEntryId(7)]);
    forest.detach(CacheEntryId(8));
    let mut dropped = Vec::new();
    forest.flush(&Touch::entry(of(XidType::AD, 1)), |entry| dropped.push(entry));
    assert_eq!((dropped, forest.size().links, forest.size().anchors), (vec![CacheEntryId(7)], 0, 0));
}

/// Linux XIA's rules as a yardstick, on one trace: packets of the paper's experiment with fallbacks, and sockets, prefixes and neighbors
/// that come and go. All rows are decided again after each change.
#[test]
fn a_change_reaches_fewer_decisions_than_by_the_rules_of_linux_xia() {
    let mut rng = Rng::from_seed(9);
    let mut naive = Naive { consultations: 2, ..Naive::default() };
    for row in CATALOG {
        naive.apply(Op::Register(row.number));
    }
    let numbered = |kind, n: u64| {
        let mut id = [0; 20];
        id[..8].copy_from_slice(&n.to_be_bytes());
        Xid { kind, id }
    };
    let (ads, hids, sockets) = (1_000, 16, 200);
    let hid = |n| numbered(XidType::HID, n);
    let host = |xid| XidPrefix::host(xid);
    let lpm = |n: u64, bits| XidPrefix::of_type(XidType::LPM, [n as u8; 20], bits).unwrap();
    for n in 0..hids {
        naive.apply(Op::Route(host(hid(n)), Some(Route::Neighbor(NeighborId(n as u32)))));
        naive.apply(Op::Route(lpm(n, 8), Some(Route::Redirect(hid(n)))));
    }
    for n in 0..ads {
        naive.apply(Op::Route(host(numbered(XidType::AD, n)), Some(Route::Redirect(hid(rng.below(hids))))));
    }
    let edge = |xid| Edge { xid, is_sink: false };
    let mut rows: Vec<Row> = Vec::new();
    for n in 0..3_000_u64 {
        let ad = edge(numbered(XidType::AD, n % ads));
        let edges: Vec<Edge> = match n % 3 {
            0 => vec![edge(of(XidType::AD, 0xee)), edge(numbered(XidType::AD, 5_000 + n)), ad], // fallback
            1 => vec![edge(numbered(XidType::XDP, n % sockets)), edge(of(XidType(0x999), 1)), ad], // refinement
            _ => vec![edge(Xid { kind: XidType::LPM, id: [(n % 32) as u8; 20] }), ad],
        };
        rows.push(Row { edges: edges.into_iter().collect(), is_input: true });
    }
    let mut decisions: Vec<Decision> = rows.iter().map(|row| naive.decide(row)).collect();
    let mut totals: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for _ in 0..600 {
        let (name, op) = match rng.below(6) {
            0 | 1 => {
                let ad = host(numbered(XidType::AD, rng.below(ads)));
                ("redirect changed", Op::Route(ad, Some(Route::Redirect(hid(rng.below(hids))))))
            }
            2 => {
                let socket = host(numbered(XidType::XDP, rng.below(sockets)));
                let is_bound = naive.routes.contains_key(&socket);
                let name = if is_bound { "socket closed" } else { "socket bound" };
                (name, Op::Route(socket, (!is_bound).then_some(Route::Local)))
            }
            3 => {
                let ad = host(numbered(XidType::AD, 5_000 + rng.below(3_000)));
                let is_there = naive.routes.contains_key(&ad);
                let name = if is_there { "domain removed" } else { "domain added" };
                (name, Op::Route(ad, (!is_there).then_some(Route::Redirect(hid(1)))))
            }
            4 => {
                let prefix = lpm(rng.below(32), [6, 10][rng.below(2) as usize]);
                let is_there = naive.routes.contains_key(&prefix);
                let name = if is_there { "prefix removed" } else { "prefix added" };
                (name, Op::Route(prefix, (!is_there).then_some(Route::Redirect(hid(2)))))
            }
            _ => {
                let kind = XidType(0x900 + rng.below(200) as u32);
                ("principal registered", Op::Register(kind))
            }
        };
        let ours = decisions.iter().filter(|decision| naive.reaches(op, decision)).count();
        let kernel = decisions.iter().filter(|decision| naive.kernel_flushes(op, decision)).count();
        let total = totals.entry(name).or_default();
        *total = [total[0] + 1, total[1] + ours, total[2] + kernel];
        let touched: Vec<bool> = decisions.iter().map(|decision| naive.reaches(op, decision)).collect();
        naive.apply(op);
        for ((row, decision), touched) in rows.iter().zip(&mut decisions).zip(touched) {
            if touched {
                *decision = naive.decide(row);
            }
        }
    }
    for (row, decision) in rows.iter().zip(&decisions) {
        assert_eq!(*decision, naive.decide(row), "changes reach too few");
    }
    let mut sum = [0, 0, 0];
    for (name, [ops, ours, kernel]) in &totals {
        println!("{name:22} {ops:4} changes: {ours:6} decisions here, {kernel:7} by the rules of Linux XIA");
        sum = [sum[0] + ops, sum[1] + ours, sum[2] + kernel];
    }
    println!(
        "{:22} {:4} changes: {:6} decisions here, {:7} by the rules of Linux XIA",
        "all", sum[0], sum[1], sum[2]
    );
    assert!(sum[1] * 10 < sum[2], "{sum:?}");
}
