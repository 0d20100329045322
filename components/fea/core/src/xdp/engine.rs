//! The forwarder as an engine beside the authority.

use super::forwarder::Forwarder;
use super::tables::Words;
use crate::engine::{
    Capability, Engine, EngineDigests, EngineOp, Mended, Notice, Objects, Refused, RoutePart, RouteReader,
};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use sluice_base::DigestKey;

/// The engine. The forwarder is shared with the driver, who has the facts of the host. No operation is refused: packets beyond
/// the tables go to the kernel.
#[derive(Debug)]
pub struct XdpEngine<W>(Rc<RefCell<Forwarder<W>>>);

impl<W: Words> XdpEngine<W> {
    /// Makes the engine of a forwarder.
    pub fn new(forwarder: Rc<RefCell<Forwarder<W>>>) -> Self {
        XdpEngine(forwarder)
    }
}

impl<W: Words> Engine for XdpEngine<W> {
    fn name(&self) -> &str {
        "xdp"
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::Unicast]
    }

    fn apply(&mut self, ops: &[EngineOp], _refused: &mut Vec<Refused>) {
        let mut forwarder = self.0.borrow_mut();
        ops.iter().for_each(|op| forwarder.apply(op));
    }

    fn poll(&mut self, _notices: &mut Vec<Notice>) -> bool {
        false
    }

    fn request_snapshot(&mut self) {}

    fn reader(&self) -> Option<Box<dyn RouteReader>> {
        None
    }

    fn replayed(&mut self) {
        self.0.borrow_mut().replayed();
    }

    fn keep_digests(&mut self, key: DigestKey) {
        self.0.borrow_mut().keep_digests(key);
    }

    fn digests(&self) -> Option<EngineDigests> {
        Some(self.0.borrow().digests())
    }

    fn mend_routes(&mut self, part: &RoutePart) -> Mended {
        self.0.borrow_mut().mend_routes(part)
    }

    fn mend_objects(&mut self, wanted: &Objects) -> Mended {
        self.0.borrow_mut().mend_objects(wanted)
    }
}
