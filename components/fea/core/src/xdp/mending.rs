//! The digests of the forwarder's own objects, and the mending of what differs from the core's.
//!
//! The digests are of the objects as requested, not of the words: the audit compares the words with the objects.

use super::forwarder::Forwarder;
use super::tables::Target;
use super::tables::Words;
use crate::engine::{EngineDigests, Mended, NextHopId, Objects, RoutePart, of_group, of_member};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Bound;
use sluice_base::{Digest, DigestKey, Family, IpPrefix, TableId};

impl<W: Words> Forwarder<W> {
    /// Begins to keep digests by `key`. The forwarder has no route yet.
    pub fn keep_digests(&mut self, key: DigestKey) {
        self.digests.key = Some(key);
    }

    /// Returns the digests of the objects as requested.
    pub fn digests(&self) -> EngineDigests {
        let key = self.digests.key.unwrap_or(DigestKey(0));
        let mut objects = Digest::default();
        for (id, held) in &self.members {
            objects.replace(None, Some(of_member(key, *id, held.member)));
        }
        for (id, held) in &self.groups {
            objects.replace(None, Some(of_group(key, *id, &held.members)));
        }
        let sum = |family: Family| (TableId::MAIN, family, self.digests.sums[family as usize]);
        EngineDigests { objects, routes: Family::ALL.map(sum).into() }
    }

    /// Makes the routes those of `part` in the range of `part`. Returns what differed.
    pub fn mend_routes(&mut self, part: &RoutePart) -> Mended {
        let mut mended = Mended::default();
        if part.table != TableId::MAIN {
            return mended;
        }
        let is_inside = |prefix: &IpPrefix| part.until.is_none_or(|until| *prefix <= until);
        let own = self.tables.routes_after(part.family, part.after).map(|(prefix, _)| prefix);
        let mut own: Vec<IpPrefix> = own.take_while(is_inside).collect();
        // Prefixes whose foreign routes precede are in the tables too: only Sluice's own routes count.
        own.retain(|prefix| self.own_route(*prefix, self.foreign.precedence(*prefix)).is_some());
        let from = part.after.map_or(Bound::Unbounded, Bound::Excluded);
        let shadowed = self.shadowed.range((from, Bound::Unbounded)).map(|(prefix, _)| *prefix);
        own.extend(shadowed.filter(|prefix| prefix.family() == part.family).take_while(is_inside));
        let wanted: BTreeSet<IpPrefix> = part.routes.iter().map(|(prefix, _)| *prefix).collect();
        let surplus: BTreeSet<IpPrefix> = own.into_iter().filter(|prefix| !wanted.contains(prefix)).collect();
        for prefix in surplus {
            self.mend_route(prefix, None, &mut mended);
        }
        for (prefix, target) in &part.routes {
            self.mend_route(*prefix, Some(self.target(*target)), &mut mended);
        }
        mended
    }

    fn mend_route(&mut self, prefix: IpPrefix, wanted: Option<Target>, mended: &mut Mended) {
        let found = self.own_route(prefix, self.foreign.precedence(prefix));
        if found != wanted {
            let value = |target: Option<Target>| target.map(|target| self.digests.value(target));
            mended.route(prefix, value(found), value(wanted));
            self.set_route(prefix, wanted);
        }
    }

    /// Removes members and groups that are not among `wanted`. Returns what was surplus.
    pub fn mend_objects(&mut self, wanted: &Objects) -> Mended {
        let mut mended = Mended::default();
        let all = self.groups.keys().chain(self.members.keys());
        let surplus: Vec<NextHopId> = all.filter(|id| !wanted.contains(id)).copied().collect();
        for id in surplus {
            mended.object(id);
            self.delete_next_hop(id);
        }
        mended
    }
}
