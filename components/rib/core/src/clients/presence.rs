//! Presence: a watcher names prefixes, and is notified whether there is a route to exactly each of them, and when that changes.
//!
//! A watcher may leave the routes of one origin out of account, so that what the watcher announces does not depend on itself. No absence
//! is reported before every origin had the time to announce its routes: a RIB that was restarted would otherwise report routes as gone that
//! are only not there yet.

use super::interest::WatcherId;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::AnyPrefix;
use sluice_stage::TableKey;
use smallvec::SmallVec;

/// The most watches of a watcher.
pub const MAX_WATCHES: usize = 4096;

/// The present state of a watched prefix.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Presence {
    /// The prefix.
    pub prefix: AnyPrefix,
    /// The origin whose routes do not count.
    pub except: Option<String>,
    /// True if there is a route.
    pub is_present: bool,
}

/// The refusal of a watcher's further watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyWatches;

impl fmt::Display for TooManyWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {MAX_WATCHES} watched prefixes; name fewer prefixes in conditions")
    }
}

impl core::error::Error for TooManyWatches {}

/// A watch of a prefix.
#[derive(Debug)]
struct Watch {
    watcher: WatcherId,
    except: Option<String>,
    /// The state that the watcher knows; `None` if it knows none.
    known: Option<bool>,
}

impl Watch {
    fn is(&self, watcher: WatcherId, except: Option<&str>) -> bool {
        self.watcher == watcher && self.except.as_deref() == except
    }
}

/// The watches of a family, by prefix.
pub(crate) struct Presences<P> {
    watches: BTreeMap<P, SmallVec<[Watch; 1]>>,
    /// Watched prefixes whose routes changed.
    changed: Vec<P>,
}

impl<P> Default for Presences<P> {
    fn default() -> Self {
        Presences { watches: BTreeMap::new(), changed: Vec::new() }
    }
}

impl<P: TableKey> Presences<P> {
    /// Notes that the routes of a prefix may have changed.
    #[inline]
    pub(crate) fn note(&mut self, prefix: P) {
        if !self.watches.is_empty() && self.watches.contains_key(&prefix) {
            self.changed.push(prefix);
        }
    }

    /// Notes that the state of every prefix may have changed.
    pub(crate) fn note_all(&mut self) {
        self.changed = self.watches.keys().copied().collect();
    }

    /// Returns true if nothing has changed since the changes were taken.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.changed.is_empty()
    }

    /// Returns the number of a watcher's watches.
    pub(crate) fn count(&self, watcher: WatcherId) -> usize {
        self.watches.values().flatten().filter(|watch| watch.watcher == watcher).count()
    }

    /// Returns true if a watcher has the watch.
    pub(crate) fn has(&self, watcher: WatcherId, prefix: P, except: Option<&str>) -> bool {
        self.watches.get(&prefix).is_some_and(|all| all.iter().any(|watch| watch.is(watcher, except)))
    }

    /// Adds a watch of a watcher that knows the state `known`; replaces the watcher's former one.
    pub(crate) fn watch(&mut self, watcher: WatcherId, prefix: P, except: Option<&str>, known: Option<bool>) {
        let watches = self.watches.entry(prefix).or_default();
        watches.retain(|watch| !watch.is(watcher, except));
        watches.push(Watch { watcher, except: except.map(String::from), known });
    }

    /// Removes a watch.
    pub(crate) fn unwatch(&mut self, watcher: WatcherId, prefix: P, except: Option<&str>) {
        if let Some(watches) = self.watches.get_mut(&prefix) {
            watches.retain(|watch| !watch.is(watcher, except));
            if watches.is_empty() {
                self.watches.remove(&prefix);
            }
        }
    }

    /// Removes all watches of a watcher.
    pub(crate) fn forget(&mut self, watcher: WatcherId) {
        self.watches.retain(|_, watches| {
            watches.retain(|watch| watch.watcher != watcher);
            !watches.is_empty()
        });
    }

    /// Takes the changes since the last call, by watcher; absences only if `are_origins_known`. `is_present` returns whether there is a route
    /// to a prefix, apart from those of an origin.
    pub(crate) fn take(
        &mut self,
        are_origins_known: bool,
        is_present: impl Fn(P, Option<&str>) -> bool,
        changes: &mut BTreeMap<WatcherId, Vec<Presence>>,
    ) {
        self.changed.sort_unstable();
        self.changed.dedup();
        for prefix in self.changed.drain(..) {
            for watch in self.watches.get_mut(&prefix).into_iter().flatten() {
                let is_present = is_present(prefix, watch.except.as_deref());
                if watch.known == Some(is_present) || !(is_present || are_origins_known) {
                    continue;
                }
                watch.known = Some(is_present);
                let presence =
                    Presence { prefix: AnyPrefix::of(prefix), except: watch.except.clone(), is_present };
                changes.entry(watch.watcher).or_default().push(presence);
            }
        }
    }
}
