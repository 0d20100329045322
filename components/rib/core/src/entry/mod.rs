//! The state of a prefix: 16 octets with at most one path, as for nearly all prefixes of the Internet's table; a box
//! with more paths.
//!
//! The entry records the group sent to the engine only while that group is the path's own. While the engine has still
//! to receive a different group for a prefix, the prefix waits in a queue together with the old group.

pub(crate) mod gateways;
pub mod group;
pub mod looked_up;
pub mod origin;
pub(crate) mod queue;
pub(crate) mod routes;
pub mod set;

use crate::entry::origin::OriginId;
use crate::entry::set::{SetId, Sets};
use alloc::boxed::Box;
use core::num::NonZeroU8;
use core::slice;
use sluice_base::{GroupId, Provenance};
use smallvec::SmallVec;

/// An alternative of a prefix: a route of a single origin.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The event that created the path.
    pub provenance: Provenance,
    /// The announced set.
    pub set: SetId,
    /// The path's origin.
    pub origin: OriginId,
    /// The life of the origin's process that announced the path.
    pub generation: u8,
    flags: Flags,
}

/// A route as it was sent to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SentRoute {
    /// The group.
    pub(crate) group: GroupId,
    /// True for a route of an external origin.
    pub(crate) is_external: bool,
}

/// The decision on a path; for an entry with a single path, the entry's own flags too.
///
/// Never 0, so that an entry needs no extra octet to distinguish its two forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flags(NonZeroU8);

impl Flags {
    const NONE: Flags = Flags(NonZeroU8::MIN);
    /// The decision selected the path.
    const SELECTED: u8 = 1 << 1;
    /// The prefix is queued for the engine.
    const QUEUED: u8 = 1 << 2;
    /// The prefix is in the batch under construction.
    const IN_BATCH: u8 = 1 << 3;
    /// The engine was sent the path's group for the prefix.
    const SENT: u8 = 1 << 4;
    /// The entry has no path; the entry waits for the engine.
    const GONE: u8 = 1 << 5;
    /// With `SENT`: the engine was sent the route as one of an external origin.
    const SENT_EXTERNAL: u8 = 1 << 6;
    /// The flags of the entry.
    const OF_ENTRY: u8 = Self::QUEUED | Self::IN_BATCH | Self::SENT | Self::GONE | Self::SENT_EXTERNAL;

    const fn has(self, flag: u8) -> bool {
        self.0.get() & flag != 0
    }

    fn set(&mut self, flag: u8, on: bool) {
        let others = NonZeroU8::MIN | (self.0.get() & !flag);
        self.0 = if on { others | flag } else { others };
    }
}

impl Path {
    /// A path without a decision.
    pub(crate) const fn new(origin: OriginId, set: SetId, provenance: Provenance, generation: u8) -> Self {
        Path { provenance, set, origin, generation, flags: Flags::NONE }
    }
}

/// A prefix's paths and flags.
#[derive(Clone, Debug)]
pub struct Entry(Form);

#[derive(Clone, Debug)]
enum Form {
    /// A single path, or a removed path.
    One(Path),
    Other(Box<Other>),
}

/// Several paths, or an engine with a group other than the path's.
#[derive(Clone, Debug)]
struct Other {
    paths: SmallVec<[Path; 1]>,
    /// The route sent to the engine for the prefix.
    sent: Option<SentRoute>,
    queued: bool,
    in_batch: bool,
}

const _: () = assert!(size_of::<Entry>() == 16, "an entry is as large as its only path");

impl Entry {
    /// An entry with its first path.
    pub(crate) const fn new(path: Path) -> Self {
        Entry(Form::One(path))
    }

    /// Returns the paths.
    pub fn paths(&self) -> &[Path] {
        match &self.0 {
            Form::One(path) if path.flags.has(Flags::GONE) => &[],
            Form::One(path) => slice::from_ref(path),
            Form::Other(other) => &other.paths,
        }
    }

    fn paths_mut(&mut self) -> &mut [Path] {
        match &mut self.0 {
            Form::One(path) if path.flags.has(Flags::GONE) => &mut [],
            Form::One(path) => slice::from_mut(path),
            Form::Other(other) => &mut other.paths,
        }
    }

    /// The path used for forwarding.
    pub fn selected(&self) -> Option<&Path> {
        self.paths().iter().find(|p| p.flags.has(Flags::SELECTED))
    }

    /// Selects the path at a place, or none.
    pub(crate) fn select(&mut self, place: Option<usize>) {
        for (n, path) in self.paths_mut().iter_mut().enumerate() {
            path.flags.set(Flags::SELECTED, place == Some(n));
        }
    }

    /// Returns the place of the selected path.
    pub(crate) fn selected_place(&self) -> Option<usize> {
        self.paths().iter().position(|p| p.flags.has(Flags::SELECTED))
    }

    /// Returns true if the prefix is queued for the engine.
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

    /// Returns true if the prefix is in the present batch.
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

    /// Takes the record of the route sent to the engine out.
    pub(crate) fn take_sent(&mut self, sets: &Sets) -> Option<SentRoute> {
        match &mut self.0 {
            Form::One(path) if path.flags.has(Flags::SENT) => {
                let is_external = path.flags.has(Flags::SENT_EXTERNAL);
                path.flags.set(Flags::SENT | Flags::SENT_EXTERNAL, false);
                Some(SentRoute { group: sets.slot(path.set).group, is_external })
            }
            Form::One(_) => None,
            Form::Other(other) => {
                let sent = other.sent.take();
                self.narrow();
                sent
            }
        }
    }

    /// Records the route sent to the engine, if none is recorded.
    pub(crate) fn set_sent(&mut self, sent: SentRoute, sets: &Sets) {
        match &mut self.0 {
            Form::One(path) if !path.flags.has(Flags::GONE) && sets.slot(path.set).group == sent.group => {
                path.flags.set(Flags::SENT, true);
                path.flags.set(Flags::SENT_EXTERNAL, sent.is_external);
            }
            _ => self.widen().sent = Some(sent),
        }
    }

    /// Returns true if the entry can be removed.
    pub(crate) fn is_over(&self) -> bool {
        match &self.0 {
            Form::One(path) => {
                path.flags.has(Flags::GONE) && !path.flags.has(Flags::QUEUED | Flags::IN_BATCH)
            }
            Form::Other(other) => {
                other.paths.is_empty() && other.sent.is_none() && !other.queued && !other.in_batch
            }
        }
    }

    /// Adds a path of an origin without a path in the entry.
    pub(crate) fn add(&mut self, path: Path) {
        if let Form::One(gone) = &mut self.0
            && gone.flags.has(Flags::GONE)
        {
            let mut flags = gone.flags;
            flags.set(!(Flags::QUEUED | Flags::IN_BATCH), false);
            *gone = Path { flags, ..path };
            return;
        }
        self.widen().paths.push(path);
        self.narrow();
    }

    /// Replaces a path; returns the old path. The engine must not be recorded as sent.
    pub(crate) fn replace(&mut self, place: usize, path: Path) -> Option<Path> {
        let old = self.paths_mut().get_mut(place)?;
        let flags = old.flags;
        Some(core::mem::replace(old, Path { flags, ..path }))
    }

    /// Takes a path away. The engine must not be noted as sent.
    pub(crate) fn remove(&mut self, place: usize) -> Option<Path> {
        let path = *self.paths().get(place)?;
        match &mut self.0 {
            Form::One(path) => path.flags.set(Flags::GONE, true),
            Form::Other(other) => {
                other.paths.remove(place);
                self.narrow();
            }
        }
        Some(path)
    }

    /// The long form. The engine must not be recorded as sent in the short form.
    fn widen(&mut self) -> &mut Other {
        if let Form::One(path) = self.0 {
            let mut paths = SmallVec::new();
            if !path.flags.has(Flags::GONE) {
                let mut path = path;
                path.flags.set(Flags::OF_ENTRY, false);
                paths.push(path);
            }
            let (queued, in_batch) = (path.flags.has(Flags::QUEUED), path.flags.has(Flags::IN_BATCH));
            self.0 = Form::Other(Box::new(Other { paths, sent: None, queued, in_batch }));
        }
        match &mut self.0 {
            Form::Other(other) => other,
            Form::One(_) => unreachable!("it was given the other form above"),
        }
    }

    /// The short form, if it can represent the entry.
    fn narrow(&mut self) {
        if let Form::Other(other) = &self.0
            && let [path] = other.paths[..]
            && other.sent.is_none()
        {
            let mut path = path;
            path.flags.set(Flags::QUEUED, other.queued);
            path.flags.set(Flags::IN_BATCH, other.in_batch);
            self.0 = Form::One(path);
        }
    }
}
