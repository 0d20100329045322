//! A branch: stages in a row, plugged in and out while routes flow.

use crate::change::{Batch, Table};
use crate::stage::{Source, Stage, Upstream};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::mem::swap;
use sluice_machine::{Budget, Progress};

/// A stage's number within its branch, never reused after the stage is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StageId(u32);

impl StageId {
    /// Returns the stage's number as an operator names it.
    pub const fn from_number(number: u32) -> Self {
        StageId(number)
    }

    /// Returns the number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// An ordered row of stages below a source.
///
/// The branch does not own its source: the driver passes it in, because the head of a branch (a table, a junction of
/// branches) is usually shared.
pub struct Branch<T: Table> {
    stages: Vec<Box<dyn Stage<T>>>,
    ids: Vec<StageId>,
    next_id: u32,
    scratch: Batch<T>,
}

impl<T: Table> Default for Branch<T> {
    fn default() -> Self {
        Branch { stages: Vec::new(), ids: Vec::new(), next_id: 0, scratch: Batch::new() }
    }
}

impl<T: Table> Branch<T> {
    /// A branch without stages: the output is the input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plugs `stage` in at `position` from the top (beyond the end: at the bottom). No batch may be in flight.
    pub fn plumb(&mut self, position: usize, stage: Box<dyn Stage<T>>) -> StageId {
        let id = StageId(self.next_id);
        self.next_id += 1;
        let position = position.min(self.stages.len());
        self.stages.insert(position, stage);
        self.ids.insert(position, id);
        id
    }

    /// Plugs `stage` in at the bottom.
    pub fn plumb_last(&mut self, stage: Box<dyn Stage<T>>) -> StageId {
        self.plumb(usize::MAX, stage)
    }

    /// Removes a stage, which must have passed its held-back changes on before: [`Stage::is_finished`].
    pub fn unplumb(&mut self, id: StageId) -> Option<Box<dyn Stage<T>>> {
        let index = self.index(id)?;
        self.ids.remove(index);
        Some(self.stages.remove(index))
    }

    /// The position of a stage from the top.
    pub fn index(&self, id: StageId) -> Option<usize> {
        self.ids.iter().position(|i| *i == id)
    }

    /// Returns a stage with its concrete type.
    pub fn stage<S: Stage<T>>(&self, id: StageId) -> Option<&S> {
        let stage: &dyn Any = &**self.stages.get(self.index(id)?)?;
        stage.downcast_ref()
    }

    /// Returns a stage with its concrete type, for changing.
    pub fn stage_mut<S: Stage<T>>(&mut self, id: StageId) -> Option<&mut S> {
        let index = self.index(id)?;
        let stage: &mut dyn Any = &mut **self.stages.get_mut(index)?;
        stage.downcast_mut()
    }

    /// The stages' names from the top, for the operator.
    pub fn names(&self) -> impl Iterator<Item = (StageId, &'static str)> {
        self.ids.iter().copied().zip(self.stages.iter().map(|s| s.name()))
    }

    /// The number of stages.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Returns true if the branch has no stages.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Sends `batch` through the stages; `batch` has the output of the last stage afterwards.
    pub fn push(&mut self, source: &dyn Source<T>, batch: &mut Batch<T>) {
        self.push_from(0, source, batch);
    }

    fn push_from(&mut self, first: usize, source: &dyn Source<T>, batch: &mut Batch<T>) {
        for index in first..self.stages.len() {
            if batch.is_empty() {
                return;
            }
            let (above, rest) = self.stages.split_at_mut(index);
            rest[0].process(batch, Upstream::new(source, above), &mut self.scratch);
            debug_assert!(batch.is_empty(), "stage {} left input behind", rest[0].name());
            swap(batch, &mut self.scratch);
        }
    }

    /// Returns the route that the branch has sent downstream for `key`.
    pub fn lookup(&self, source: &dyn Source<T>, key: T::Key) -> Option<T::Route> {
        self.upstream(source).lookup(key)
    }

    /// Returns the upstream of a stage below the branch.
    pub fn upstream<'a>(&'a self, source: &'a dyn Source<T>) -> Upstream<'a, T> {
        Upstream::new(source, &self.stages)
    }

    /// Lets the stages do background work within `budget`. `out` receives the work of a single stage at a time: the
    /// caller passes it on and calls again while there is more. Finished stages are unplugged.
    pub fn run_slice(&mut self, source: &dyn Source<T>, budget: &mut Budget, out: &mut Batch<T>) -> Progress {
        debug_assert!(out.is_empty(), "a slice's output is passed on before the next slice");
        let mut index = 0;
        while index < self.stages.len() {
            let (above, rest) = self.stages.split_at_mut(index);
            let progress = rest[0].run_slice(budget, Upstream::new(source, above), out);
            let finished = rest[0].is_finished();
            let more = progress == Progress::More;
            if !out.is_empty() || more {
                self.push_from(index + 1, source, out);
            }
            if finished {
                self.ids.remove(index);
                self.stages.remove(index);
            } else {
                index += 1;
            }
            if !out.is_empty() || more {
                return Progress::More;
            }
        }
        Progress::Done
    }
}
