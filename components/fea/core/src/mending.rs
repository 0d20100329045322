//! Engines beside the authority are compared with the core, and mended where different.
//!
//! The driver gives the core the engines' digests about once a second, while no work is left. A differing digest of routes is first counted
//! again by the core. If the difference stays, the engine gets the members and groups again, and the routes of the family range by
//! range, each range as a whole: missing routes are written, and surplus routes are removed. A mending without success (an engine has
//! limits of its own) is repeated less and less often.

use crate::engine::{BesideId, EngineDigests, EngineOp, Objects, ReplayStep, of_group, of_member};
use crate::output::Output;
use crate::replay::Held;
use crate::table::Table;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::ControlFlow;
use sluice_base::{Digest, DigestKey, Family, IpPrefix, TableId};
use sluice_machine::{Budget, Outbox, Progress};

/// The largest number of routes visited for a range.
const RANGE: usize = 1024;

/// The largest number of comparisons left out after a mending without success, as a power of two: about a minute.
const MOST_PATIENCE: u32 = 6;

/// A table of one family.
type Section = (TableId, Family);

/// The suspicion against an engine.
#[derive(Clone, Copy, Debug, Default)]
struct Suspicion {
    /// True if the core has recounted the digests since the first difference.
    was_recounted: bool,
    /// The mendings since the engine was last equal.
    mendings: u32,
    /// Comparisons to leave out.
    pause: u32,
}

/// The consequence of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Fine,
    Recount,
    Mend,
}

impl Suspicion {
    /// Judges a differing engine; with `by_routes`, the routes differ.
    fn judge(&mut self, by_routes: bool) -> Verdict {
        if self.pause > 0 {
            self.pause -= 1;
            return Verdict::Fine;
        }
        if by_routes && !core::mem::replace(&mut self.was_recounted, true) {
            return Verdict::Recount;
        }
        self.was_recounted = false;
        self.pause = (1 << self.mendings.min(MOST_PATIENCE)) - 1;
        self.mendings += 1;
        Verdict::Mend
    }
}

/// The place of a mending.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// From the member with this number in the pool on.
    Members(u32),
    /// From the group with this number in the section on.
    Groups(Section, u32),
    /// Surplus objects are removed.
    Surplus,
    /// After this prefix of the section that is the first one left.
    Routes(Option<IpPrefix>),
}

/// A mending of an engine.
#[derive(Clone, Debug)]
struct Mending {
    engine: BesideId,
    place: Place,
    /// The tables and families whose routes differ.
    sections: VecDeque<Section>,
}

/// The suspicions, and the mendings under way. One engine is served after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mendings {
    suspicions: BTreeMap<BesideId, Suspicion>,
    queue: VecDeque<Mending>,
}

impl Mendings {
    /// Returns true if no mending is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns true if an engine is to be compared soon: the core has counted its digests again.
    pub(crate) fn is_urgent(&self) -> bool {
        self.suspicions.values().any(|suspicion| suspicion.was_recounted)
    }

    /// Forgets an engine at a new start.
    pub(crate) fn forget(&mut self, engine: BesideId) {
        self.suspicions.remove(&engine);
        self.queue.retain(|mending| mending.engine != engine);
    }

    /// Compares an engine's digests with the core's. Returns the tables and families whose digests are to be counted again.
    pub(crate) fn compare(
        &mut self,
        engine: BesideId,
        found: &EngineDigests,
        key: DigestKey,
        held: &Held<'_>,
    ) -> Vec<Section> {
        let wanted = |(id, family): Section| {
            held.tables.get(&id).map_or(Digest::default(), |table| table.side_ref(family).held())
        };
        let routes = found.routes.iter().map(|(table, family, digest)| ((*table, *family), *digest));
        let sections: Vec<Section> = routes
            .filter(|(section, digest)| wanted(*section) != *digest)
            .map(|(section, _)| section)
            .collect();
        if sections.is_empty() && objects(key, held) == found.objects {
            self.suspicions.remove(&engine);
            return Vec::new();
        }
        match self.suspicions.entry(engine).or_default().judge(!sections.is_empty()) {
            Verdict::Fine => {}
            Verdict::Recount => return sections,
            Verdict::Mend => {
                let sections = sections.into();
                self.queue.push_back(Mending { engine, place: Place::Members(0), sections });
            }
        }
        Vec::new()
    }

    /// Goes on with the mendings. No operation may be under way.
    pub(crate) fn run(&mut self, held: &Held<'_>, budget: &mut Budget, out: &mut Outbox<Output>) -> Progress {
        while let Some(mending) = self.queue.front_mut() {
            if mending.run(held, budget, out) == Progress::More {
                return Progress::More;
            }
            out.push(Output::Replay(mending.engine, ReplayStep::Mended));
            self.queue.pop_front();
        }
        Progress::Done
    }
}

impl Mending {
    fn run(&mut self, held: &Held<'_>, budget: &mut Budget, out: &mut Outbox<Output>) -> Progress {
        loop {
            let engine = self.engine;
            let mut apply = |op: EngineOp| out.push(Output::Replay(engine, ReplayStep::Apply(op)));
            match self.place {
                Place::Members(from) => {
                    if let ControlFlow::Break(n) = held.pool.replay(from, budget, &mut apply) {
                        self.place = Place::Members(n);
                        return Progress::More;
                    }
                    self.place = held.section_after(None).map_or(Place::Surplus, |s| Place::Groups(s, 0));
                }
                Place::Groups(section, from) => {
                    if let Some(table) = held.tables.get(&section.0) {
                        let side = table.side_ref(section.1);
                        if let ControlFlow::Break(n) = side.replay_groups(from, held.pool, budget, &mut apply)
                        {
                            self.place = Place::Groups(section, n);
                            return Progress::More;
                        }
                    }
                    let next = held.section_after(Some(section));
                    self.place = next.map_or(Place::Surplus, |section| Place::Groups(section, 0));
                }
                Place::Surplus => {
                    out.push(Output::Replay(engine, ReplayStep::Keep(all_objects(held))));
                    self.place = Place::Routes(None);
                }
                Place::Routes(after) => {
                    let Some((id, family)) = self.sections.front().copied() else { return Progress::Done };
                    let Some(table) = held.tables.get(&id) else {
                        self.sections.pop_front();
                        continue;
                    };
                    let part = table.side_ref(family).held_part(after, RANGE);
                    match part.until {
                        Some(until) => self.place = Place::Routes(Some(until)),
                        None => {
                            self.sections.pop_front();
                            self.place = Place::Routes(None);
                        }
                    }
                    let work = u32::try_from(part.routes.len()).unwrap_or(u32::MAX).max(1);
                    out.push(Output::Replay(engine, ReplayStep::Mend(part)));
                    if !budget.spend(work) {
                        return Progress::More;
                    }
                }
            }
        }
    }
}

/// Passes each member and group wanted in the engines to `each`, as operations to write.
fn each_object(held: &Held<'_>, each: &mut dyn FnMut(EngineOp)) {
    let mut unlimited = Budget(u32::MAX);
    // The budget is never used up.
    let _ = held.pool.replay(0, &mut unlimited, each);
    for side in
        held.tables.values().flat_map(|table: &Table| Family::ALL.map(|family| table.side_ref(family)))
    {
        let _ = side.replay_groups(0, held.pool, &mut unlimited, each);
    }
}

fn all_objects(held: &Held<'_>) -> Objects {
    let mut objects = Objects::new();
    each_object(held, &mut |op| {
        if let EngineOp::SetMember { id, .. } | EngineOp::SetGroup { id, .. } = op {
            objects.insert(id);
        }
    });
    objects
}

/// Returns the digest of the wanted members and groups.
fn objects(key: DigestKey, held: &Held<'_>) -> Digest {
    let mut digest = Digest::default();
    each_object(held, &mut |op| match op {
        EngineOp::SetMember { id, member } => digest.replace(None, Some(of_member(key, id, member))),
        EngineOp::SetGroup { id, members, .. } => digest.replace(None, Some(of_group(key, id, &members))),
        _ => {}
    });
    digest
}
