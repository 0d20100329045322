//! The watchers of a family: the answers about addresses that hold, and the presence of routes to watched prefixes.

use crate::clients::interest::{Interests, Scope, WatcherId};
use crate::clients::presence::{MAX_WATCHES, Presence, TooManyWatches};
use crate::decide::family::FamilyRib;
use crate::decide::table::Table;
use crate::entry::routes::Shared;
use crate::machine::Rib;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{GroupId, IpPrefix, Ipv4Prefix, Ipv6Prefix, TableId};
use sluice_stage::TableKey;

impl<P: TableKey> FamilyRib<P> {
    /// Drops every answer with the resolution of a group.
    pub(crate) fn forget_group_answers(&mut self, group: GroupId) {
        self.interests_next_hop.invalidate_group(group, &mut self.invalidated);
        self.interests_all.invalidate_group(group, &mut self.invalidated);
    }

    /// The valid answers in a scope.
    pub(crate) fn interests(&mut self, scope: Scope) -> &mut Interests<P> {
        match scope {
            Scope::NextHop => &mut self.interests_next_hop,
            Scope::All => &mut self.interests_all,
        }
    }

    /// The valid answers in a scope, for reading.
    pub(crate) fn interests_in(&self, scope: Scope) -> &Interests<P> {
        match scope {
            Scope::NextHop => &self.interests_next_hop,
            Scope::All => &self.interests_all,
        }
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
                .any(|path| shared.origin(path.origin).name != name && shared.is_usable(prefix, path)),
        }
    }

    /// Takes the changes of presence, by watcher; absences only if `are_origins_known`.
    pub(crate) fn take_presences(
        &mut self,
        shared: &Shared,
        are_origins_known: bool,
        changes: &mut BTreeMap<WatcherId, Vec<Presence>>,
    ) {
        if self.presences.is_at_rest() {
            return;
        }
        let mut presences = core::mem::take(&mut self.presences);
        let is_present = |prefix, except: Option<&str>| self.is_present(shared, prefix, except);
        presences.take(are_origins_known, is_present, changes);
        self.presences = presences;
    }
}

impl Rib {
    /// Watches prefixes; see [`super::request::WatchPresence`].
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
    let known = (is_present || are_origins_known).then_some(is_present);
    family.presences.watch(watcher, prefix, except, known);
    known
}
