//! Several engines, driven as one.

use super::{Capability, Engine, EngineOp, Notice, Refused, RouteReader};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A set of engines. One engine is the *authority*: it has every capability that the core uses, and its refusals, notices and routes
/// are the set's. Engines *beside* the authority get each operation that they have the capability for, after the authority has
/// carried the operation out.
///
/// A packet that an engine beside the authority cannot forward falls through to the authority. Such an engine may therefore refuse
/// an operation, and must then forget what it held for the same prefix, member or group.
pub struct EngineSet {
    authority: Box<dyn Engine>,
    beside: Vec<Beside>,
    name: String,
    notices: Vec<Notice>,
}

/// An engine beside the authority.
pub struct Beside {
    engine: Box<dyn Engine>,
    refused: u64,
    ops: Vec<EngineOp>,
    refusals: Vec<Refused>,
}

impl Beside {
    /// Returns the engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Returns the number of operations that the engine refused and left to the authority.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn apply<'a>(&mut self, ops: impl Iterator<Item = &'a EngineOp>) {
        let capabilities = self.engine.capabilities();
        self.ops.extend(ops.filter(|op| capabilities.contains(&op.capability())).cloned());
        if !self.ops.is_empty() {
            self.engine.apply(&self.ops, &mut self.refusals);
            self.refused += self.refusals.len() as u64;
            self.refusals.clear();
            self.ops.clear();
        }
    }
}

impl EngineSet {
    /// Makes a set of the authority alone.
    pub fn new(authority: Box<dyn Engine>) -> Self {
        let name = authority.name().into();
        EngineSet { authority, beside: Vec::new(), name, notices: Vec::new() }
    }

    /// Adds an engine beside the authority. The engine gets the operations that follow, and nothing of what was there before.
    #[must_use]
    pub fn with(mut self, engine: Box<dyn Engine>) -> Self {
        self.name.push_str(", ");
        self.name.push_str(engine.name());
        self.beside.push(Beside { engine, refused: 0, ops: Vec::new(), refusals: Vec::new() });
        self
    }

    /// Returns the engines beside the authority.
    pub fn beside(&self) -> &[Beside] {
        &self.beside
    }
}

impl Engine for EngineSet {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &[Capability] {
        self.authority.capabilities()
    }

    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>) {
        let before = refused.len();
        self.authority.apply(ops, refused);
        let refused = &refused[before..];
        let is_done = |index: usize| refused.binary_search_by_key(&index, |r| r.index).is_err();
        for beside in &mut self.beside {
            beside.apply(ops.iter().enumerate().filter(|(index, _)| is_done(*index)).map(|(_, op)| op));
        }
    }

    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool {
        let mut more = self.authority.poll(notices);
        for beside in &mut self.beside {
            more |= beside.engine.poll(&mut self.notices);
            self.notices.clear();
        }
        more
    }

    fn request_snapshot(&mut self) {
        self.authority.request_snapshot();
    }

    fn reader(&self) -> Option<Box<dyn RouteReader>> {
        self.authority.reader()
    }
}
