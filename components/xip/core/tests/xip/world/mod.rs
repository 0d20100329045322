//! Addresses as texts, a router with the catalog's principals, and a cache of answers that the forest keeps true.

use sluice_base::{Instant, Xid, XidPrefix, XidType};
use sluice_xip::anchor::{Deps, Touch, Touched};
use sluice_xip::answer::{Action, Answer, NeighborId};
use sluice_xip::forest::{CacheEntryId, Forest};
use sluice_xip::ports::Port;
use sluice_xip::principals::catalog::{CATALOG, row};
use sluice_xip::registry::Registered;
use sluice_xip::route::Route;
use sluice_xip::router::{Limits, Outcome, Router};
use sluice_xip::row::{Edge, Row};
use sluice_xip::walk::{PacketFacts, Routed, RowError, Rows, follow};
use std::collections::HashMap;

/// An address with the mark of the packet's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dag {
    pub rows: Vec<(Xid, [u8; 4])>,
    pub last_node: u8,
    pub marks: Vec<(u8, u8)>,
}

impl Dag {
    const ENTRY: u8 = 0x7e;
    const EMPTY: u8 = 0x7f;

    /// Reads nodes `TYPE-ID-EDGES`, joined by colons.
    pub fn new(text: &str) -> Self {
        let row = |node: &str| {
            let mut parts = node.trim().splitn(3, '-');
            let xid = format!("{}-{}", parts.next().unwrap(), parts.next().unwrap());
            let mut edges = [Self::EMPTY; 4];
            for (edge, c) in edges.iter_mut().zip(parts.next().unwrap_or_default().chars()) {
                *edge = c.to_digit(36).unwrap() as u8;
            }
            (xid.parse().unwrap(), edges)
        };
        Dag { rows: text.split(':').map(row).collect(), last_node: Self::ENTRY, marks: Vec::new() }
    }

    fn edges(&self) -> [u8; 4] {
        let place =
            if self.last_node == Self::ENTRY { self.rows.len() - 1 } else { usize::from(self.last_node) };
        self.rows[place].1
    }
}

impl Rows for Dag {
    fn row(&self, is_input: bool) -> Result<Row, RowError> {
        let last = self.rows.len() - 1;
        if self.last_node != Self::ENTRY && usize::from(self.last_node) == last {
            return Err(RowError::AtSink);
        }
        let edges = self.edges();
        if edges[0] == Self::EMPTY {
            return Err(RowError::AtSink);
        }
        let edge = |edge: &u8| {
            let row = usize::from(*edge);
            Edge { xid: self.rows[row].0, is_sink: row == last || self.rows[row].1[0] == Self::EMPTY }
        };
        Ok(Row { edges: edges.iter().take_while(|edge| **edge != Self::EMPTY).map(edge).collect(), is_input })
    }

    fn select(&mut self, edge: u8) {
        self.marks.push((self.last_node, edge));
        self.last_node = self.edges()[usize::from(edge)];
    }

    fn row_count(&self) -> usize {
        self.rows.len()
    }
}

pub fn xid(text: &str) -> Xid {
    text.parse().unwrap()
}

/// An XID whose ID repeats an octet.
pub fn of(kind: XidType, octet: u8) -> Xid {
    Xid { kind, id: [octet; 20] }
}

pub fn exact(xid: Xid) -> XidPrefix {
    XidPrefix::of_type(xid.kind, xid.id, 160).unwrap()
}

pub fn row_of(xids: &[Xid]) -> Row {
    Row { edges: xids.iter().map(|xid| Edge { xid: *xid, is_sink: false }).collect(), is_input: true }
}

pub fn inside(name: &str, kind: XidType) -> Registered {
    Registered::Inside((row(name).unwrap().make)(kind, 5))
}

/// A router with a cache of answers.
pub struct World {
    pub router: Router,
    pub forest: Forest,
    pub cache: HashMap<Row, (CacheEntryId, Answer)>,
    pub rows: HashMap<CacheEntryId, Row>,
    free: Vec<CacheEntryId>,
    pub flushed: usize,
    pub now: Instant,
}

impl World {
    pub fn empty(limits: Limits) -> Self {
        World {
            router: Router::new(limits, 3),
            forest: Forest::new(3, 10_000_000),
            cache: HashMap::new(),
            rows: HashMap::new(),
            free: Vec::new(),
            flushed: 0,
            now: Instant::ZERO,
        }
    }

    /// A world with all principals of the catalog, without routes.
    pub fn new(limits: Limits) -> Self {
        let mut world = Self::empty(limits);
        for row in CATALOG {
            world.register(inside(row.name, row.number));
        }
        world
    }

    pub fn register(&mut self, principal: Registered) {
        let touched = self.router.register(principal).unwrap();
        self.flush(&touched);
    }

    pub fn unregister(&mut self, kind: XidType) {
        let touched = self.router.unregister(kind);
        self.flush(&touched);
    }

    pub fn route(&mut self, xid: Xid, route: Route) {
        self.change(exact(xid), Some(route));
    }

    pub fn change(&mut self, prefix: XidPrefix, route: Option<Route>) -> Touched {
        let touched = self.router.change(prefix, route).unwrap();
        self.flush(&touched);
        touched
    }

    pub fn set_neighbor(&mut self, neighbor: NeighborId, is_usable: bool) {
        let touched = self.router.set_neighbor(neighbor, is_usable);
        self.flush(&touched);
    }

    pub fn flush(&mut self, touched: &[Touch]) {
        let World { router, forest, cache, rows, free, flushed, .. } = self;
        for touch in touched {
            forest.flush(touch, |entry| {
                let row = rows.remove(&entry).unwrap();
                let (_, answer) = cache.remove(&row).unwrap();
                router.release(&answer);
                free.push(entry);
                *flushed += 1;
            });
        }
    }

    /// Returns the answer for a row, from the cache if it is there. `None` if the answer is pending or failed.
    pub fn answer(&mut self, row: &Row) -> Option<Answer> {
        if let Some((_, answer)) = self.cache.get(row) {
            return Some(*answer);
        }
        let mut deps = Deps::default();
        match self.router.decide(self.now, row, &mut deps) {
            Outcome::Decided { answer, is_cacheable: true, .. } => {
                let entry = self.free.pop().unwrap_or(CacheEntryId(self.rows.len() as u32));
                self.forest.attach(entry, deps.anchors()).unwrap();
                self.rows.insert(entry, row.clone());
                self.cache.insert(row.clone(), (entry, answer));
                Some(answer)
            }
            Outcome::Decided { answer, .. } => {
                self.router.release(&answer);
                Some(answer)
            }
            Outcome::Pending(_) | Outcome::Failed(_) => None,
        }
    }

    pub fn uncached(&mut self, row: &Row) -> Outcome {
        self.router.decide(self.now, row, &mut Deps::default())
    }

    /// Routes a packet from a device with a hop limit of 128 and 100 octets.
    pub fn packet(&mut self, dag: &mut Dag) -> Routed {
        let facts = PacketFacts { is_input: true, hop_limit: 128, octets: 100 };
        follow(dag, facts, |row| self.answer(row), |_| 1_500)
    }

    /// Compares each cached answer with a look-up without cache.
    pub fn check(&mut self) {
        let rows: Vec<Row> = self.cache.keys().cloned().collect();
        for row in rows {
            let cached = self.cache[&row].1;
            match self.uncached(&row) {
                Outcome::Decided { answer, .. } => {
                    assert_eq!(answer, cached, "{row:?}");
                    self.router.release(&answer);
                }
                other => panic!("{cached:?} is cached, and {other:?} is true for {row:?}"),
            }
        }
    }
}

pub fn sent(neighbor: u32) -> Routed {
    Routed::Send { port: Port::Neighbor(NeighborId(neighbor)), hop_limit: 127 }
}

pub fn forward(edge: u8, neighbor: u32) -> Answer {
    Answer::Chosen { edge, action: Action::Forward(NeighborId(neighbor)) }
}
