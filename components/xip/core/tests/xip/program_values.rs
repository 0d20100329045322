//! The values that cached answers name in the program's memory: far ends of tunnels and sets of neighbors, under random changes of routes,
//! whose numbers are given out again.

use sluice_base::{Instant, InterfaceIndex, Rng, Xid, XidPrefix, XidType};
use sluice_xip::answer::{NeighborId, PortSetId, TunnelId};
use sluice_xip::answers::{Answers, action};
use sluice_xip::cache::{AnswerWord, Cache, HashKey, Lines};
use sluice_xip::ports::WayOut;
use sluice_xip::principals::{Treatment, catalog::CATALOG};
use sluice_xip::registry::Registered;
use sluice_xip::route::Route;
use sluice_xip::router::{Limits, Router, Verdict};
use sluice_xip::wire::udp;
use sluice_xip::{Edge, Row};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::rc::Rc;

/// Sets that the memory has room for.
const SETS: u32 = 6;
const NEIGHBORS: u32 = 6;

#[derive(Default)]
struct Values {
    words: Vec<u64>,
    tunnels: BTreeMap<u32, SocketAddrV4>,
    sets: BTreeMap<u32, Vec<(InterfaceIndex, NeighborId)>>,
}

#[derive(Clone)]
struct Memory(Rc<RefCell<Values>>);

impl Lines for Memory {
    fn load(&self, word: usize) -> u64 {
        self.0.borrow().words[word]
    }

    fn store(&mut self, word: usize, value: u64) {
        let mut values = self.0.borrow_mut();
        values.words[word] = value;
        // Answers are the odd words; the value that an answer names is there before.
        let (is_answer, number) = (word % 2 == 1, (value >> 32) as u32);
        match value as u8 {
            action::TUNNEL if is_answer => assert!(values.tunnels.contains_key(&number)),
            action::COPY if is_answer => assert!(values.sets.contains_key(&number)),
            _ => {}
        }
    }

    fn lines(&self) -> usize {
        self.0.borrow().words.len() / 8
    }

    fn set_tunnel(&mut self, number: TunnelId, end: SocketAddrV4) -> bool {
        self.0.borrow_mut().tunnels.insert(number.0, end);
        true
    }

    fn set_copies(&mut self, number: PortSetId, copies: &[(InterfaceIndex, NeighborId)]) -> bool {
        let has_room = number.0 < SETS;
        if has_room {
            self.0.borrow_mut().sets.insert(number.0, copies.to_vec());
        }
        has_room
    }
}

fn xid(kind: XidType, octet: u8) -> Xid {
    Xid { kind, id: [octet; 20] }
}

fn exact(xid: Xid) -> XidPrefix {
    XidPrefix::of_type(xid.kind, xid.id, 160).unwrap()
}

fn end(number: u8) -> SocketAddrV4 {
    SocketAddrV4::new([10, 0, 0, number].into(), 13781)
}

/// Neighbors 0 and 1 are on one interface.
fn interface(neighbor: u32) -> InterfaceIndex {
    InterfaceIndex::new(neighbor.max(1) + 1).unwrap()
}

/// The ways of a word, or `None` if the packets come to the process.
fn ways(word: AnswerWord, values: &Values) -> Option<BTreeSet<WayOut>> {
    let number = (word.0 >> 32) as u32;
    match word.0 as u8 {
        action::FORWARD => Some([WayOut::Neighbor(NeighborId(number))].into()),
        action::TUNNEL => Some([WayOut::Tunnel(udp::u4id(values.tunnels[&number]))].into()),
        action::COPY => {
            let copies = &values.sets[&number];
            assert!(copies.iter().all(|(at, neighbor)| *at == interface(neighbor.0)));
            assert_eq!(copies.iter().map(|(at, _)| at).collect::<BTreeSet<_>>().len(), copies.len());
            Some(copies.iter().map(|(_, neighbor)| WayOut::Neighbor(*neighbor)).collect())
        }
        _ => None,
    }
}

/// The ways of a decision, and true if the program can take them all.
fn decided(verdict: &Verdict) -> Option<(BTreeSet<WayOut>, bool)> {
    match verdict {
        Verdict::Treat(Treatment::Forward(neighbor)) => Some(([WayOut::Neighbor(*neighbor)].into(), true)),
        Verdict::Treat(Treatment::Tunnel(far)) => Some(([WayOut::Tunnel(*far)].into(), true)),
        Verdict::Treat(_) => None,
        Verdict::Copies { ways, local } => {
            let ways: BTreeSet<WayOut> = ways.iter().copied().collect();
            let has_tunnel = ways.iter().any(|way| matches!(way, WayOut::Tunnel(_)));
            let shares = [0, 1].iter().all(|n| ways.contains(&WayOut::Neighbor(NeighborId(*n))));
            let fits = ways.len() == 1 || !(has_tunnel || shares);
            Some((ways, fits && !local))
        }
    }
}

fn check(answers: &Answers<Memory>, values: &Values, seen: &mut BTreeMap<u8, u64>) {
    let cache = answers.cache().unwrap();
    for id in cache.ids_from(0) {
        let (row, word) = (cache.row(id).unwrap(), cache.answer(id).unwrap());
        let found = answers.router().lookup(&row, &mut sluice_xip::anchor::Deps::default());
        *seen.entry(word.0 as u8).or_default() += 1;
        match found.chosen.as_ref().and_then(|(_, verdict)| decided(verdict)) {
            None => assert_eq!(ways(word, values), None, "{row:?}"),
            Some((expected, true)) => {
                // A set without room in the memory is the process's.
                let is_up = expected.len() > 1 && word.0 as u8 == action::UP;
                assert!(is_up || ways(word, values) == Some(expected), "{row:?} {word:?}");
            }
            Some((_, false)) => assert_eq!(ways(word, values), None, "{row:?}"),
        }
    }
}

#[test]
fn answers_name_what_was_decided() {
    let mut seen = BTreeMap::new();
    for seed in 0..20 {
        let mut rng = Rng::from_seed(seed);
        let mut router = Router::new(Limits::default(), seed);
        for name in ["ad", "hid", "zf", "u4id"] {
            let row = CATALOG.iter().find(|row| row.name == name).unwrap();
            router.register(Registered::Inside((row.make)(row.number, seed))).unwrap();
        }
        let values = Rc::new(RefCell::new(Values { words: vec![0; 8 << 6], ..Values::default() }));
        let mut answers = Answers::new(router, 1 << 16, seed);
        let key = HashKey::draw(|| rng.next_u64());
        answers.set_cache(Some(Cache::new(Memory(Rc::clone(&values)), 6, key)));
        (0..NEIGHBORS).for_each(|n| answers.set_interface(NeighborId(n), interface(n)));
        let now = Instant::ZERO;
        let own = udp::u4id(end(200));
        for _ in 0..600 {
            let pick = |rng: &mut Rng, most: u64| rng.below(most) as u8;
            let gateway = match rng.below(3) {
                0 => udp::u4id(end(1 + pick(&mut rng, 4))),
                _ => xid(XidType::HID, pick(&mut rng, 8)),
            };
            let redirect = (rng.below(4) != 0).then_some(Route::Redirect(gateway));
            let neighbor = NeighborId(rng.below(NEIGHBORS.into()) as u32);
            let change = match rng.below(10) {
                0 | 1 => (xid(XidType::AD, pick(&mut rng, 5)), redirect),
                2 | 3 => {
                    let mut link = xid(XidType::ZF, 0);
                    link.id[0] = 1 << rng.below(8);
                    (link, redirect.map(|route| if rng.below(8) == 0 { Route::Local } else { route }))
                }
                4 => (xid(XidType::HID, pick(&mut rng, 8)), Some(Route::Neighbor(neighbor))),
                5 => (own, (rng.below(4) != 0).then_some(Route::Tunnel { no_check: false })),
                6 => {
                    let is_usable = rng.below(3) != 0;
                    answers.change(now, |router| ((), router.set_neighbor(neighbor, is_usable)));
                    check(&answers, &values.borrow(), &mut seen);
                    continue;
                }
                _ => {
                    let mut filter = xid(XidType::ZF, 0);
                    filter.id[0] = rng.next_u64() as u8;
                    let ad = xid(XidType::AD, pick(&mut rng, 5));
                    let edges = [(filter, ad), (ad, filter)][rng.below(2) as usize];
                    let edge = |xid, is_sink| Edge { xid, is_sink };
                    let edges = [edge(edges.0, rng.below(2) == 0), edge(edges.1, true)];
                    answers.answer(now, &Row { edges: edges.into_iter().collect(), is_input: true });
                    check(&answers, &values.borrow(), &mut seen);
                    continue;
                }
            };
            answers.change(now, |router| ((), router.change(exact(change.0), change.1).unwrap_or_default()));
            check(&answers, &values.borrow(), &mut seen);
        }
        // Numbers of nothing are given out again.
        answers.clear();
        answers.answer(now, &Row { edges: [].into_iter().collect(), is_input: false });
        assert_eq!(answers.router().ports().counts(), (0, 0));
    }
    let kinds = [action::UP, action::FORWARD, action::TUNNEL, action::COPY];
    assert!(kinds.iter().all(|kind| seen.get(kind).is_some_and(|count| *count > 500)), "{seen:?}");
}
