//! Presence: a watcher names prefixes, and is told whether there is a route to exactly each of them, and when that changes.
//!
//! A watcher may leave the routes of one origin out of account, so that what the watcher announces does not depend on itself. No absence
//! is told before every origin had the time to announce its routes: a RIB that was restarted would otherwise report routes as gone that
//! are only not there yet.

use crate::family::{FamilyRib, Shared};
use crate::interest::WatcherId;
use crate::machine::Rib;
use crate::table::Table;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, IpPrefix, Ipv4Prefix, Ipv6Prefix, TableId};
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
    told: Option<bool>,
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

    /// Returns the number of a watcher's watches.
    pub(crate) fn count(&self, watcher: WatcherId) -> usize {
        self.watches.values().flatten().filter(|watch| watch.watcher == watcher).count()
    }

    /// Returns true if a watcher has the watch.
    fn has(&self, watcher: WatcherId, prefix: P, except: Option<&str>) -> bool {
        self.watches.get(&prefix).is_some_and(|all| all.iter().any(|watch| watch.is(watcher, except)))
    }

    /// Adds a watch of a watcher that knows the state `told`; replaces the watcher's former one.
    fn watch(&mut self, watcher: WatcherId, prefix: P, except: Option<&str>, told: Option<bool>) {
        let watches = self.watches.entry(prefix).or_default();
        watches.retain(|watch| !watch.is(watcher, except));
        watches.push(Watch { watcher, except: except.map(String::from), told });
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
}

impl<P: TableKey> FamilyRib<P> {
    /// Returns true if there is a route to a prefix. With an origin to leave out of account: a usable one of another origin, whether
    /// selected or not.
    fn is_present(&self, shared: &Shared, prefix: P, except: Option<&str>) -> bool {
        let Some(entry) = self.entries.get(prefix) else { return false };
        match except {
            None => entry.selected().is_some(),
            Some(name) => entry
                .paths()
                .iter()
                .any(|path| shared.origin(path.origin).name != name && shared.is_usable(path)),
        }
    }

    /// Takes the changes of presence, by watcher; absences only if `are_origins_known`.
    pub(crate) fn take_presences(
        &mut self,
        shared: &Shared,
        are_origins_known: bool,
        changes: &mut BTreeMap<WatcherId, Vec<Presence>>,
    ) {
        if self.presences.changed.is_empty() {
            return;
        }
        let mut changed = core::mem::take(&mut self.presences.changed);
        changed.sort_unstable();
        changed.dedup();
        let mut watches = core::mem::take(&mut self.presences.watches);
        for prefix in changed {
            for watch in watches.get_mut(&prefix).into_iter().flatten() {
                let is_present = self.is_present(shared, prefix, watch.except.as_deref());
                if watch.told == Some(is_present) || !(is_present || are_origins_known) {
                    continue;
                }
                watch.told = Some(is_present);
                let presence =
                    Presence { prefix: AnyPrefix::of(prefix), except: watch.except.clone(), is_present };
                changes.entry(watch.watcher).or_default().push(presence);
            }
        }
        self.presences.watches = watches;
    }
}

impl Rib {
    /// Watches prefixes; see [`crate::request::WatchPresence`].
    ///
    /// # Errors
    /// The watcher would have more than [`MAX_WATCHES`] watches. None is added.
    pub(crate) fn watch_presence(
        &mut self,
        table: TableId,
        watcher: WatcherId,
        prefixes: &[IpPrefix],
        except: Option<&str>,
    ) -> Result<Vec<Option<bool>>, TooManyWatches> {
        let watches = |table: &Table| -> usize {
            table.all_families().map(|family| family.presence_watches(watcher)).sum()
        };
        let known: usize = self.tables().map(watches).sum();
        let table_of = self.table_mut(table);
        let mut is_new = |prefix: &IpPrefix| match *prefix {
            IpPrefix::V4(p) => !table_of.split::<Ipv4Prefix>().0.presences.has(watcher, p, except),
            IpPrefix::V6(p) => !table_of.split::<Ipv6Prefix>().0.presences.has(watcher, p, except),
        };
        if known + prefixes.iter().filter(|prefix| is_new(prefix)).count() > MAX_WATCHES {
            return Err(TooManyWatches);
        }
        let are_origins_known = self.are_origins_known;
        let table = self.table_mut(table);
        let add = |prefix: &IpPrefix| match *prefix {
            IpPrefix::V4(prefix) => watch(table, watcher, prefix, except, are_origins_known),
            IpPrefix::V6(prefix) => watch(table, watcher, prefix, except, are_origins_known),
        };
        Ok(prefixes.iter().map(add).collect())
    }
}

/// Adds a watch, and returns the present state; `None` for an absence that may end when origins announce their routes.
fn watch<P: TableKey>(
    table: &mut Table,
    watcher: WatcherId,
    prefix: P,
    except: Option<&str>,
    are_origins_known: bool,
) -> Option<bool> {
    let (family, shared) = table.split::<P>();
    let is_present = family.is_present(shared, prefix, except);
    let told = (is_present || are_origins_known).then_some(is_present);
    family.presences.watch(watcher, prefix, except, told);
    told
}
