//! Replays of the authority's objects to engines that join beside the authority: settings of the host, members, groups and routes.
//!
//! A replay walks over the core's own state, a slice at a time, and only while no operation is under way: the core's state is then the
//! authority's. The joining engine's [`Stage`] decides on the operations between two slices that reach the engine. Each object is thus
//! written to the engine after the objects that it needs, and its last state is written either by the walk or by the operation that changed
//! it.

use crate::engine::{BesideId, Capability, ReplayStep, Stage};
use crate::interface::Interfaces;
use crate::members::Pool;
use crate::output::Output;
use crate::table::Table;
use alloc::collections::{BTreeMap, VecDeque};
use core::ops::{Bound, ControlFlow};
use sluice_base::{Family, InterfaceIndex, IpPrefix, TableId};
use sluice_machine::{Budget, Outbox, Progress};

/// The core's knowledge of the authority's objects.
pub(crate) struct Held<'a> {
    pub(crate) interfaces: &'a Interfaces,
    pub(crate) pool: &'a Pool,
    pub(crate) tables: &'a BTreeMap<TableId, Table>,
}

impl Held<'_> {
    /// Returns the table and family after `section`, or the first section.
    pub(crate) fn section_after(&self, section: Option<Section>) -> Option<Section> {
        match section {
            Some((table, Family::Ipv4)) => Some((table, Family::Ipv6)),
            Some((table, Family::Ipv6)) => {
                let mut later = self.tables.range((Bound::Excluded(table), Bound::Unbounded));
                later.next().map(|(id, _)| (*id, Family::Ipv4))
            }
            None => self.tables.keys().next().map(|id| (*id, Family::Ipv4)),
        }
    }
}

/// A table of one family.
type Section = (TableId, Family);

/// The place of a replay in the core's state.
#[derive(Clone, Copy, Debug)]
enum Place {
    Switches,
    /// After this interface.
    Interfaces(Option<InterfaceIndex>),
    /// From the member with this number in the pool on.
    Members(u32),
    /// From the group with this number in the section on.
    Groups(Section, u32),
    /// After this prefix of the section.
    Routes(Section, Option<IpPrefix>),
}

/// A replay to an engine.
#[derive(Clone, Debug)]
struct Replay {
    engine: BesideId,
    takes_unicast: bool,
    /// `None` at the end.
    place: Option<Place>,
}

/// The running replays, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replays(VecDeque<Replay>);

impl Replays {
    pub(crate) fn start(&mut self, engine: BesideId, capabilities: &[Capability]) {
        self.0.retain(|replay| replay.engine != engine);
        let takes_unicast = capabilities.contains(&Capability::Unicast);
        let place = match capabilities.contains(&Capability::Host) {
            true => Place::Switches,
            false => Place::Members(0),
        };
        self.0.push_back(Replay { engine, takes_unicast, place: Some(place) });
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_empty()
    }

    /// Goes on with the replays. No operation may be under way.
    pub(crate) fn run(&mut self, held: &Held<'_>, budget: &mut Budget, out: &mut Outbox<Output>) -> Progress {
        while let Some(replay) = self.0.front_mut() {
            if replay.run(held, budget, out) == Progress::More {
                return Progress::More;
            }
            self.0.pop_front();
        }
        Progress::Done
    }
}

impl Replay {
    fn run(&mut self, held: &Held<'_>, budget: &mut Budget, out: &mut Outbox<Output>) -> Progress {
        while let Some(place) = self.place {
            match self.go_on(place, held, budget, out) {
                ControlFlow::Continue(next) => self.place = next,
                ControlFlow::Break(next) => {
                    self.place = Some(next);
                    return Progress::More;
                }
            }
        }
        Progress::Done
    }

    /// Replays from `place` on to the end of the part. Returns the place of the next part, or breaks with the place at which the budget
    /// was used up.
    fn go_on(
        &self,
        place: Place,
        held: &Held<'_>,
        budget: &mut Budget,
        out: &mut Outbox<Output>,
    ) -> ControlFlow<Place, Option<Place>> {
        let mut apply = |op| out.push(Output::Replay(self.engine, ReplayStep::Apply(op)));
        let next = match place {
            Place::Switches => {
                held.interfaces.replay_switches(&mut apply);
                Some(Place::Interfaces(None))
            }
            Place::Interfaces(after) => {
                let walk = held.interfaces.replay_interfaces(after, budget, &mut apply);
                walk.map_break(|index| Place::Interfaces(Some(index)))?;
                Some(Place::Members(0))
            }
            Place::Members(from) if self.takes_unicast => {
                held.pool.replay(from, budget, &mut apply).map_break(Place::Members)?;
                self.enter(Stage::Groups, out);
                let first = held.section_after(None).map(|section| Place::Groups(section, 0));
                first.or_else(|| self.begin_routes(held, out))
            }
            Place::Members(_) => {
                self.enter(Stage::Complete, out);
                None
            }
            Place::Groups(section, from) => {
                if let Some(table) = held.tables.get(&section.0) {
                    let walk = table.side_ref(section.1).replay_groups(from, held.pool, budget, &mut apply);
                    walk.map_break(|n| Place::Groups(section, n))?;
                }
                let next = held.section_after(Some(section)).map(|section| Place::Groups(section, 0));
                next.or_else(|| self.begin_routes(held, out))
            }
            Place::Routes(section, after) => {
                if let Some(table) = held.tables.get(&section.0) {
                    let walk = table.side_ref(section.1).replay_routes(after, budget, &mut apply);
                    walk.map_break(|prefix| Place::Routes(section, Some(prefix)))?;
                }
                let next = held.section_after(Some(section)).map(|section| Place::Routes(section, None));
                if next.is_none() {
                    self.enter(Stage::Complete, out);
                }
                next
            }
        };
        ControlFlow::Continue(next)
    }

    fn begin_routes(&self, held: &Held<'_>, out: &mut Outbox<Output>) -> Option<Place> {
        self.enter(Stage::Routes, out);
        let first = held.section_after(None).map(|section| Place::Routes(section, None));
        if first.is_none() {
            self.enter(Stage::Complete, out);
        }
        first
    }

    fn enter(&self, stage: Stage, out: &mut Outbox<Output>) {
        out.push(Output::Replay(self.engine, ReplayStep::Enter(stage)));
    }
}
