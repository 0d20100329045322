//! Several engines, driven together.

use super::{
    Capability, Engine, EngineDigests, EngineOp, Mended, Notice, Objects, Refusal, RefusalKind, Refused,
    RoutePart, RouteReader, Scope,
};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Digest, DigestKey};

/// A set of engines. One engine is the *authority*, with every capability used by the core: the authority's refusals, notices and
/// routes are the set's. Engines *beside* the authority get each operation within their capabilities after the authority has carried the
/// operation out. An operation on a route may be for the authority only, or for the engines beside only ([`Scope`]).
///
/// A packet that an engine beside the authority cannot forward falls through to the authority. Such an engine may therefore refuse
/// an operation, and must then forget the former state of the same prefix, member or group.
///
/// An engine that joins beside the authority is empty. The core replays the authority's objects to the engine
/// ([`EngineSet::replay`]); meanwhile the engine's [`Stage`] decides on the operations that reach the engine.
pub struct EngineSet {
    authority: Box<dyn Engine>,
    beside: BTreeMap<BesideId, Beside>,
    /// The number of the next engine to join.
    next: BesideId,
    notices: Vec<Notice>,
    /// The joined engines that the core does not know yet.
    joined: Vec<BesideId>,
}

/// The number of an engine beside the authority, in the order of joining.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BesideId(pub u32);

/// The stage of the replay to an engine that joined. An operation on an object of a later stage does not reach the engine: the later stage
/// replays the object's state of that time. An operation on an object of the current or an earlier stage reaches the engine, whether or not
/// the object has been replayed yet: the objects needed are of earlier stages, and writing an object again does no harm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Stage {
    /// The host's settings, and then the members, are replayed.
    Members,
    /// The groups are replayed.
    Groups,
    /// The routes are replayed.
    Routes,
    /// The replay is complete.
    Complete,
}

impl Stage {
    /// Returns the form of an operation on the set in which the operation reaches an engine at this stage; `None` if not at
    /// all.
    fn admit(self, op: &EngineOp) -> Option<EngineOp> {
        let is_later = match op {
            EngineOp::SetGroup { .. } => self < Stage::Groups,
            EngineOp::SetRoute { .. } => self < Stage::Routes,
            _ => false,
        };
        if is_later {
            return None;
        }
        let mut op = op.clone();
        match &mut op {
            // The group may not have been replayed yet.
            EngineOp::SetGroup { create, .. } => *create |= self < Stage::Complete,
            // The engine may have had the route before the authority.
            EngineOp::SetRoute { replace, .. } => *replace = true,
            _ => {}
        }
        Some(op)
    }
}

/// A step of the replay to a joined engine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ReplayStep {
    /// The engine carries out an operation that gives it an object of the authority.
    Apply(EngineOp),
    /// The replay enters a stage.
    Enter(Stage),
    /// A mending: an engine with a complete replay gets the right routes of a range.
    Mend(RoutePart),
    /// A mending: an engine with a complete replay keeps these objects only.
    Keep(Objects),
    /// The mending is complete.
    Mended,
}

/// An engine beside the authority.
pub struct Beside {
    engine: Box<dyn Engine>,
    stage: Stage,
    /// True if the engine was informed of the complete replay.
    was_completed: bool,
    refused: BTreeMap<RefusalKind, u64>,
    /// The first refusal, until [`EngineSet::take_first_refusals`].
    first: Option<(EngineOp, Refusal)>,
    ops: Vec<EngineOp>,
    refusals: Vec<Refused>,
    /// The differences of the running mending.
    mending: Mended,
    /// The digest of the objects before the mending.
    objects_before: Option<Digest>,
    /// The differences of the last mendings, until [`EngineSet::take_mended`].
    mended: Mended,
}

impl Beside {
    fn new(engine: Box<dyn Engine>) -> Self {
        let (refused, ops, refusals) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (mending, mended) = Default::default();
        Beside {
            engine,
            stage: Stage::Members,
            was_completed: false,
            refused,
            first: None,
            ops,
            refusals,
            mending,
            objects_before: None,
            mended,
        }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Returns the stage of the replay to the engine.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the number of operations refused by the engine and left to the authority.
    pub fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    fn apply<'a>(&mut self, ops: impl Iterator<Item = &'a EngineOp>) {
        let (stage, capabilities) = (self.stage, self.engine.capabilities());
        let ops = ops.filter(|op| capabilities.contains(&op.capability()));
        self.ops.extend(ops.filter_map(|op| stage.admit(op)));
        self.carry_out();
    }

    fn carry_out(&mut self) {
        if self.ops.is_empty() {
            return;
        }
        self.engine.apply(&self.ops, &mut self.refusals);
        for Refused { index, refusal } in self.refusals.drain(..) {
            let op = &self.ops[index];
            if op.is_satisfied_despite(&refusal) {
                continue;
            }
            let is_first = self.refused.is_empty();
            *self.refused.entry(refusal.kind).or_default() += 1;
            if is_first {
                self.first = Some((op.clone(), refusal));
            }
        }
        self.ops.clear();
    }

    /// Ends a mending, and keeps the differences. Objects are written again without a comparison: the digest shows a difference.
    fn finish_mending(&mut self) {
        self.carry_out();
        let before = self.objects_before.take();
        if self.mending.objects == 0
            && before.is_some_and(|before| self.engine.digests().is_some_and(|d| d.objects != before))
        {
            self.mending.objects = 1;
            self.mending.first.get_or_insert_with(|| "a member or a group differed".into());
        }
        self.mended.add(core::mem::take(&mut self.mending));
    }

    fn replay(&mut self, step: ReplayStep) {
        match step {
            ReplayStep::Apply(op) => {
                if self.stage == Stage::Complete && self.objects_before.is_none() {
                    self.objects_before = self.engine.digests().map(|digests| digests.objects);
                }
                self.ops.push(op);
            }
            ReplayStep::Enter(stage) => self.stage = stage,
            ReplayStep::Mend(part) => {
                self.carry_out();
                let mended = self.engine.mend_routes(&part);
                self.mending.add(mended);
            }
            ReplayStep::Keep(objects) => {
                self.carry_out();
                let mended = self.engine.mend_objects(&objects);
                self.mending.add(mended);
            }
            ReplayStep::Mended => self.finish_mending(),
        }
    }

    /// Carries the replayed operations out. Informs the engine at the end.
    fn finish_replay_step(&mut self) {
        self.carry_out();
        if self.stage == Stage::Complete && !core::mem::replace(&mut self.was_completed, true) {
            self.engine.replayed();
        }
    }
}

impl EngineSet {
    /// Makes a set of the authority alone.
    pub fn new(authority: Box<dyn Engine>) -> Self {
        let (beside, next) = (BTreeMap::new(), BesideId(0));
        EngineSet { authority, beside, next, notices: Vec::new(), joined: Vec::new() }
    }

    /// Adds an engine beside the authority; see [`EngineSet::join`].
    #[must_use]
    pub fn with(mut self, engine: Box<dyn Engine>) -> Self {
        self.join(engine);
        self
    }

    /// Adds an engine beside the authority, and returns its number. The engine is empty, apart from foreign routes, members and groups,
    /// and the host's own settings. The driver of the set learns of the engine by [`EngineSet::take_joined`], and has
    /// the core replay the authority's objects.
    pub fn join(&mut self, engine: Box<dyn Engine>) -> BesideId {
        let id = self.next;
        self.next = BesideId(id.0 + 1);
        self.beside.insert(id, Beside::new(engine));
        self.joined.push(id);
        id
    }

    /// Removes an engine beside the authority, and returns the engine; `None` if no engine has the number. Operations no longer reach
    /// the engine. Its number is not used again.
    pub fn leave(&mut self, id: BesideId) -> Option<Box<dyn Engine>> {
        self.joined.retain(|joined| *joined != id);
        Some(self.beside.remove(&id)?.engine)
    }

    /// Returns the names of the engines, the authority's first.
    pub fn names(&self) -> Vec<&str> {
        let beside = self.beside.values().map(|beside| beside.engine.name());
        core::iter::once(self.authority.name()).chain(beside).collect()
    }

    /// Returns the digests of the engines with digests and a complete replay.
    pub fn digests(&self) -> Vec<(BesideId, EngineDigests)> {
        let complete = self.beside.iter().filter(|(_, beside)| beside.stage == Stage::Complete);
        complete.filter_map(|(id, beside)| Some((*id, beside.engine.digests()?))).collect()
    }

    /// Takes the differences mended since the last call, with the engines' names. Mendings without a difference are left out.
    pub fn take_mended(&mut self) -> Vec<(String, Mended)> {
        let differed = self.beside.values_mut().filter(|beside| !beside.mended.is_empty());
        differed.map(|beside| (beside.engine.name().into(), core::mem::take(&mut beside.mended))).collect()
    }

    /// Takes the engines that joined since the last call, with the capabilities. The engines keep digests by `key`.
    pub fn take_joined(&mut self, key: DigestKey) -> Vec<(BesideId, Vec<Capability>)> {
        let joined = core::mem::take(&mut self.joined);
        let mut capabilities = |id: BesideId| {
            let engine = &mut self.beside.get_mut(&id)?.engine;
            engine.keep_digests(key);
            Some(engine.capabilities().to_vec())
        };
        joined.into_iter().filter_map(|id| Some((id, capabilities(id)?))).collect()
    }

    /// Carries out steps of replays, in order. Steps of an engine outside the set are dropped.
    pub fn replay(&mut self, steps: impl IntoIterator<Item = (BesideId, ReplayStep)>) {
        for (id, step) in steps {
            if let Some(beside) = self.beside.get_mut(&id) {
                beside.replay(step);
            }
        }
        self.beside.values_mut().for_each(Beside::finish_replay_step);
    }

    /// Takes the first refusal of each engine beside the authority with a first refusal since the last call:
    /// the engine's name, the operation and the refusal.
    pub(crate) fn take_first_refusals(&mut self) -> Vec<(String, EngineOp, Refusal)> {
        let first = |beside: &mut Beside| {
            let (op, refusal) = beside.first.take()?;
            Some((beside.engine.name().into(), op, refusal))
        };
        self.beside.values_mut().filter_map(first).collect()
    }

    /// Returns the numbers of operations refused by engines beside the authority, by name and kind. Engines of one name count as one.
    pub fn refused_beside(&self) -> BTreeMap<(&str, RefusalKind), u64> {
        let mut refused = BTreeMap::new();
        for beside in self.beside.values() {
            for (kind, count) in &beside.refused {
                *refused.entry((beside.engine.name(), *kind)).or_default() += count;
            }
        }
        refused
    }

    /// Has the authority carry out the authority's operations.
    fn apply_to_authority(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>) {
        let is_beside = |op: &EngineOp| op.scope() == Scope::Beside;
        if !ops.iter().any(is_beside) {
            return self.authority.apply(ops, refused);
        }
        let before = refused.len();
        let (places, ops): (Vec<usize>, Vec<EngineOp>) =
            ops.iter().cloned().enumerate().filter(|(_, op)| !is_beside(op)).unzip();
        if !ops.is_empty() {
            self.authority.apply(&ops, refused);
        }
        for refused in &mut refused[before..] {
            refused.index = places[refused.index];
        }
    }

    /// Returns the engines beside the authority.
    pub fn beside(&self) -> impl Iterator<Item = &Beside> {
        self.beside.values()
    }
}

impl Engine for EngineSet {
    fn name(&self) -> &str {
        self.authority.name()
    }

    fn capabilities(&self) -> &[Capability] {
        self.authority.capabilities()
    }

    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>) {
        let before = refused.len();
        self.apply_to_authority(ops, refused);
        let refused = &refused[before..];
        // An object that the authority lost without a word is to go from the others too.
        let is_done = |index: usize, op: &EngineOp| {
            if op.scope() == Scope::Authority {
                return false;
            }
            let refusal = refused.binary_search_by_key(&index, |r| r.index).map(|n| &refused[n].refusal);
            refusal.map_or(true, |refusal| op.is_satisfied_despite(refusal))
        };
        for beside in self.beside.values_mut() {
            beside.apply(ops.iter().enumerate().filter(|(index, op)| is_done(*index, op)).map(|(_, op)| op));
        }
    }

    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool {
        let mut more = self.authority.poll(notices);
        for beside in self.beside.values_mut() {
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

    fn as_set(&mut self) -> Option<&mut EngineSet> {
        Some(self)
    }
}
