//! A simulated engine that the test can still reach when it is in a set.

use sluice_base::*;
use sluice_fea::engine::{Capability, Link, RouteReader};
use sluice_fea::sim::SimEngine;
use sluice_fea::{Engine, EngineOp, Notice, Refused};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

pub const ALL: &[Capability] = &[Capability::Unicast, Capability::Host];
pub const UNICAST: &[Capability] = &[Capability::Unicast];

/// The routes that an engine has forgotten.
pub type Forgotten = Rc<RefCell<BTreeSet<(TableId, IpPrefix)>>>;

#[derive(Clone)]
pub struct Shared {
    pub engine: Rc<RefCell<SimEngine>>,
    pub capabilities: &'static [Capability],
    /// The engine forgets what an operation that it refuses was about, as engines beside the authority must. What it has forgotten is
    /// here until it is written again.
    pub forgotten: Option<Forgotten>,
}

pub fn index(n: u32) -> InterfaceIndex {
    InterfaceIndex::new(n).unwrap()
}

impl Shared {
    /// An engine with two interfaces; interface `n` has the address 10.0.(n - 1).1/24.
    pub fn new(capabilities: &'static [Capability]) -> Self {
        let mut engine = SimEngine::new();
        for n in [1, 2] {
            engine.set_link(Link {
                index: index(n),
                name: format!("eth{n}"),
                admin_up: true,
                running: true,
                loopback: false,
                point_to_point: false,
                multicast: true,
                mtu: 1500,
                mac: vec![2, 0, 0, 0, 0, n as u8],
            });
            let addr = [10, 0, n as u8 - 1, 1].into();
            engine.add_address(index(n), InterfaceAddress { addr, prefix_len: 24, peer: None });
        }
        Shared { engine: Rc::new(RefCell::new(engine)), capabilities, forgotten: None }
    }

    fn forget(&self, op: &EngineOp, is_refused: bool) {
        let Some(forgotten) = &self.forgotten else { return };
        let (mut engine, mut forgotten) = (self.engine.borrow_mut(), forgotten.borrow_mut());
        match (op, is_refused) {
            (EngineOp::SetRoute { table, prefix, .. }, true) => {
                engine.outsider_deletes(*table, *prefix);
                forgotten.insert((*table, *prefix));
            }
            (EngineOp::SetRoute { table, prefix, .. }, false) => drop(forgotten.remove(&(*table, *prefix))),
            (EngineOp::SetGroup { id, .. } | EngineOp::SetMember { id, .. }, true) => {
                let before: BTreeSet<_> = engine.routes.keys().copied().collect();
                engine.outsider_deletes_next_hop(*id);
                forgotten.extend(before.into_iter().filter(|key| !engine.routes.contains_key(key)));
            }
            _ => {}
        }
    }
}

impl Engine for Shared {
    fn name(&self) -> &str {
        "sim"
    }

    fn capabilities(&self) -> &[Capability] {
        self.capabilities
    }

    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>) {
        assert!(ops.iter().all(|op| self.capabilities.contains(&op.capability())));
        for (index, op) in ops.iter().enumerate() {
            let mut one = Vec::new();
            self.engine.borrow_mut().apply(std::slice::from_ref(op), &mut one);
            self.forget(op, !one.is_empty());
            refused.extend(one.into_iter().map(|r| Refused { index, ..r }));
        }
    }

    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool {
        self.engine.borrow_mut().poll(notices)
    }

    fn request_snapshot(&mut self) {
        self.engine.borrow_mut().request_snapshot();
    }

    fn reader(&self) -> Option<Box<dyn RouteReader>> {
        self.engine.borrow().reader()
    }
}
