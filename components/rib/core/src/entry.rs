//! What is kept of a prefix: 16 octets while it has one path and the engine was told nothing but that path's group, which is
//! so for nearly all prefixes of the Internet's table; a box for the others, and for each prefix while it changes groups.

use crate::origin::OriginId;
use crate::set::{SetId, Sets};
use alloc::boxed::Box;
use core::num::NonZeroU8;
use core::slice;
use sluice_base::{GroupId, Provenance};
use smallvec::{SmallVec, smallvec};

/// An alternative of a prefix: one origin's route.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The event that brought it.
    pub provenance: Provenance,
    /// What was announced.
    pub set: SetId,
    /// Whose it is.
    pub origin: OriginId,
    /// Of which life of the origin's process.
    pub generation: u8,
    flags: Flags,
}

/// What was decided of a path; and where the path is all that its entry has, what is to be known of the entry.
///
/// Never 0, so that an entry needs no octet more to tell its two forms apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flags(NonZeroU8);

impl Flags {
    const NONE: Flags = Flags(NonZeroU8::MIN);
    /// Ext-int picked it.
    const SELECTED: u8 = 1 << 1;
    /// Merge picked it among internal ones.
    const INTERNAL: u8 = 1 << 2;
    /// The prefix waits to be told to the engine.
    const QUEUED: u8 = 1 << 3;
    /// The prefix is in the batch that is being made.
    const IN_BATCH: u8 = 1 << 4;
    /// The engine was told the path's group for the prefix.
    const TOLD: u8 = 1 << 5;
    /// Those that are the path's own.
    const OF_PATH: u8 = Self::SELECTED | Self::INTERNAL;

    const fn has(self, flag: u8) -> bool {
        self.0.get() & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        let others = NonZeroU8::MIN | (self.0.get() & !flag);
        self.0 = if on { others | flag } else { others };
    }
}

impl Path {
    /// A path of which nothing is decided.
    pub(crate) const fn new(origin: OriginId, set: SetId, provenance: Provenance, generation: u8) -> Self {
        Path { provenance, set, origin, generation, flags: Flags::NONE }
    }
}

/// All that is known of a prefix.
#[derive(Clone, Debug)]
pub struct Entry(Form);

#[derive(Clone, Debug)]
enum Form {
    One(Path),
    Other(Box<Other>),
}

/// No path or several, or an engine that was told another group.
#[derive(Clone, Debug)]
struct Other {
    paths: SmallVec<[Path; 1]>,
    /// The group that the engine was told for this prefix.
    told: Option<GroupId>,
    queued: bool,
    in_batch: bool,
}

const _: () = assert!(size_of::<Entry>() == 16, "an entry is as large as its only path");

impl Entry {
    /// An entry with its first path.
    pub(crate) const fn new(path: Path) -> Self {
        Entry(Form::One(path))
    }

    /// All alternatives.
    pub fn paths(&self) -> &[Path] {
        match &self.0 {
            Form::One(path) => slice::from_ref(path),
            Form::Other(other) => &other.paths,
        }
    }

    fn paths_mut(&mut self) -> &mut [Path] {
        match &mut self.0 {
            Form::One(path) => slice::from_mut(path),
            Form::Other(other) => &mut other.paths,
        }
    }

    /// The one that is used for forwarding.
    pub fn selected(&self) -> Option<&Path> {
        self.paths().iter().find(|p| p.flags.has(Flags::SELECTED))
    }

    /// The internal one that next hops are resolved by.
    pub fn internal(&self) -> Option<&Path> {
        self.paths().iter().find(|p| p.flags.has(Flags::INTERNAL))
    }

    /// Notes which paths were picked.
    pub(crate) fn pick(&mut self, picked: Picked) {
        for (n, path) in self.paths_mut().iter_mut().enumerate() {
            path.flags.set(Flags::SELECTED, picked.selected == Some(n));
            path.flags.set(Flags::INTERNAL, picked.internal == Some(n));
        }
    }

    /// Whether exactly these paths are picked.
    pub(crate) fn has_picked(&self, picked: Picked) -> bool {
        let as_picked = |(n, path): (usize, &Path)| {
            path.flags.has(Flags::SELECTED) == (picked.selected == Some(n))
                && path.flags.has(Flags::INTERNAL) == (picked.internal == Some(n))
        };
        self.paths().iter().enumerate().all(as_picked)
    }

    /// Whether the prefix waits to be told to the engine.
    pub(crate) fn is_queued(&self) -> bool {
        match &self.0 {
            Form::One(path) => path.flags.has(Flags::QUEUED),
            Form::Other(other) => other.queued,
        }
    }

    pub(crate) fn set_queued(&mut self, queued: bool) {
        match &mut self.0 {
            Form::One(path) => path.flags.set(Flags::QUEUED, queued),
            Form::Other(other) => other.queued = queued,
        }
    }

    /// Whether the prefix is in the batch that is being made.
    pub(crate) fn is_in_batch(&self) -> bool {
        match &self.0 {
            Form::One(path) => path.flags.has(Flags::IN_BATCH),
            Form::Other(other) => other.in_batch,
        }
    }

    pub(crate) fn set_in_batch(&mut self, in_batch: bool) {
        match &mut self.0 {
            Form::One(path) => path.flags.set(Flags::IN_BATCH, in_batch),
            Form::Other(other) => other.in_batch = in_batch,
        }
    }

    /// The group that the engine was told for this prefix.
    pub(crate) fn told(&self, sets: &Sets) -> Option<GroupId> {
        match &self.0 {
            Form::One(path) => path.flags.has(Flags::TOLD).then(|| sets.slot(path.set).group),
            Form::Other(other) => other.told,
        }
    }

    /// Notes which group the engine was told.
    pub(crate) fn set_told(&mut self, told: Option<GroupId>, sets: &Sets) {
        let other = match &mut self.0 {
            Form::One(path) if told.is_none_or(|group| group == sets.slot(path.set).group) => {
                return path.flags.set(Flags::TOLD, told.is_some());
            }
            _ => self.widen(sets),
        };
        other.told = told;
        self.narrow(sets);
    }

    /// Whether nothing is left to be known of the prefix.
    pub(crate) fn is_over(&self) -> bool {
        match &self.0 {
            Form::One(_) => false,
            Form::Other(other) => other.paths.is_empty() && other.told.is_none() && !other.queued,
        }
    }

    /// Adds a path of an origin that has none here.
    pub(crate) fn add(&mut self, path: Path, sets: &Sets) {
        self.widen(sets).paths.push(path);
        self.narrow(sets);
    }

    /// Puts a path in the place of another; returns that.
    pub(crate) fn replace(&mut self, place: usize, path: Path, sets: &Sets) -> Path {
        if let Form::One(old) = &mut self.0
            && (!old.flags.has(Flags::TOLD) || sets.slot(old.set).group == sets.slot(path.set).group)
        {
            return core::mem::replace(old, Path { flags: old.flags, ..path });
        }
        let old = core::mem::replace(&mut self.widen(sets).paths[place], path);
        self.narrow(sets);
        old
    }

    /// Takes a path away.
    pub(crate) fn remove(&mut self, place: usize, sets: &Sets) -> Path {
        let path = self.widen(sets).paths.remove(place);
        self.narrow(sets);
        path
    }

    /// The long form.
    fn widen(&mut self, sets: &Sets) -> &mut Other {
        if let Form::One(path) = &self.0 {
            let (told, flags) = (self.told(sets), path.flags);
            let mut path = *path;
            path.flags.set(!Flags::OF_PATH, false);
            let (queued, in_batch) = (flags.has(Flags::QUEUED), flags.has(Flags::IN_BATCH));
            self.0 = Form::Other(Box::new(Other { paths: smallvec![path], told, queued, in_batch }));
        }
        match &mut self.0 {
            Form::Other(other) => other,
            Form::One(_) => unreachable!("it was given the other form above"),
        }
    }

    /// The short form, where it says everything.
    fn narrow(&mut self, sets: &Sets) {
        if let Form::Other(other) = &self.0
            && let [path] = other.paths[..]
            && other.told.is_none_or(|group| group == sets.slot(path.set).group)
        {
            let mut path = path;
            path.flags.set(Flags::QUEUED, other.queued);
            path.flags.set(Flags::IN_BATCH, other.in_batch);
            path.flags.set(Flags::TOLD, other.told.is_some());
            self.0 = Form::One(path);
        }
    }
}

/// The paths of an entry that were picked, by their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Picked {
    /// Ext-int's.
    pub(crate) selected: Option<usize>,
    /// Merge's among internal ones.
    pub(crate) internal: Option<usize>,
}
