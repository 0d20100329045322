//! The RIB's export to the replacing process: origins and their routes, as if every origin had just died. The origins
//! register with the next process and announce their routes again; meanwhile the next process answers as the old one
//! did.

use super::messages::{Input, Output};
pub use super::messages::{State, StatePart};
use crate::decide::table::Table;
use crate::entry::origin::OriginSettings;
use crate::machine::Rib;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, FamilyId, Instant, InterfaceEvent, TableId};
use sluice_machine::{Machine, Outbox};

impl Rib {
    /// Interfaces and origins, which are imported first.
    pub fn export_head(&self) -> Vec<StatePart> {
        let mut head: Vec<StatePart> = self.interfaces().all().cloned().map(StatePart::Interface).collect();
        for table in self.tables() {
            let origins = table.shared.origins.iter().filter(|o| !o.connected);
            head.extend(origins.map(|o| {
                let settings = OriginSettings {
                    name: o.name.clone(),
                    distance: o.distance,
                    external: o.external,
                    grace: o.grace,
                    kinds: o.kinds.clone(),
                };
                StatePart::Origin(table.id, settings)
            }));
            let noted = table.shared.origins.iter().filter(|o| !o.note.is_empty());
            head.extend(noted.map(|o| StatePart::Note(table.id, o.name.clone(), o.note.clone())));
        }
        head
    }

    /// Routes of a table and family behind a prefix, and the last prefix among them; `None` if there are no more.
    pub fn export_routes(
        &self,
        table: TableId,
        family: FamilyId,
        after: Option<AnyPrefix>,
    ) -> Option<(Vec<StatePart>, AnyPrefix)> {
        let table = self.table(table)?;
        let (parts, last) = table.any_family(family)?.export(&table.shared, after)?;
        let part =
            |(origin, batch)| StatePart::Routes(table.id, table.origin_name(origin).into(), family, batch);
        Some((parts.into_iter().map(part).collect(), last))
    }

    /// The families of a table that have routes to export.
    pub fn exported_families(&self, table: TableId) -> Vec<FamilyId> {
        self.table(table).map(|t| t.all_families().map(|family| family.id()).collect()).unwrap_or_default()
    }

    /// Takes a part in.
    pub(crate) fn import_part(&mut self, now: Instant, part: StatePart, out: &mut Outbox<Output>) {
        let input = match part {
            StatePart::Interface(interface) => Input::Interface(InterfaceEvent::Changed(interface)),
            StatePart::Origin(table, settings) => Input::RegisterOrigin(table, settings),
            StatePart::Note(table, origin, note) => Input::OriginNote(table, origin, note),
            StatePart::Routes(table, origin, family, batch) => {
                return self.import_routes(table, origin, family, batch, out);
            }
        };
        self.handle(now, input, out);
    }

    /// Ends the import: origins have their grace time to register.
    pub(crate) fn imported(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let origins = |t: &Table| -> Vec<(TableId, String)> {
            let named = t.shared.origins.iter().filter(|o| !o.connected);
            named.map(|o| (t.id, o.name.clone())).collect()
        };
        let all: Vec<(TableId, String)> = self.tables().flat_map(origins).collect();
        for (table, origin) in all {
            self.handle(now, Input::OriginDied(table, origin), out);
        }
    }

    /// Counts the routes of each origin, by table and family.
    pub fn counts(&self) -> Vec<(TableId, FamilyId, String, u64)> {
        let of = |s: crate::decide::view::Summary| {
            let (table, family) = (s.table, s.family);
            s.origins.into_iter().map(move |(name, _, routes, _)| (table, family, name, routes))
        };
        let mut counts: Vec<_> = self.summary().into_iter().flat_map(of).collect();
        counts.sort_unstable();
        counts
    }

    pub(crate) fn export_state(&self) -> State {
        let mut parts = self.export_head();
        for table in self.tables() {
            for family in self.exported_families(table.id) {
                let mut after = None;
                while let Some((more, last)) = self.export_routes(table.id, family, after) {
                    parts.extend(more);
                    after = Some(last);
                }
            }
        }
        State { parts }
    }

    pub(crate) fn import_state(&mut self, now: Instant, state: State, out: &mut Outbox<Output>) {
        for part in state.parts {
            self.import_part(now, part, out);
        }
        self.imported(now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::machine::request::UpdateRoutes;
    use alloc::format;
    use alloc::vec;
    use sluice_base::{
        Address, Distance, Duration, Forwarding, Ipv4Prefix, Metric, NextHop, Provenance, RouteSet,
    };
    use sluice_base::{RouteAction, RouteBatch, RouteUpdate};
    use sluice_machine::Request;

    fn rib() -> Rib {
        let mut rib = Rib::new(7, 1);
        let mut out = Outbox::new();
        for (name, external) in [("static", false), ("bgp", true)] {
            let settings = OriginSettings {
                name: name.into(),
                distance: Distance(if external { 20 } else { 1 }),
                external,
                grace: Duration::from_secs(60),
                kinds: Vec::new(),
            };
            rib.handle(Instant::ZERO, Input::RegisterOrigin(TableId::MAIN, settings), &mut out);
        }
        let set = |hop: &str| RouteSet {
            metric: Metric(3),
            ..RouteSet::plain(Forwarding::one(NextHop::via(Address::Ip(hop.parse().unwrap()))))
        };
        let update = |prefix: Ipv4Prefix, set| RouteUpdate {
            prefix,
            action: RouteAction::Set(set),
            provenance: Provenance::NONE,
        };
        let updates = (0..10_000_u32)
            .map(|n| update(format!("100.{}.{}.0/24", n / 256, n % 256).parse().unwrap(), n % 2));
        let bgp = RouteBatch { sets: vec![set("10.0.0.1"), set("10.0.0.2")], updates: updates.collect() };
        let updates =
            vec![update("10.0.0.0/8".parse().unwrap(), 0), update("100.0.1.0/24".parse().unwrap(), 0)];
        let fixed = RouteBatch { sets: vec![set("10.0.0.3")], updates };
        for (origin, batch) in [("bgp", bgp), ("static", fixed)] {
            let update = UpdateRoutes { table: TableId::MAIN, origin: origin.into(), batch };
            update.make(&mut rib, Instant::ZERO, &mut out);
        }
        rib
    }

    #[test]
    fn another_process_has_the_same_routes_until_origins_register() {
        let before = rib();
        let state = before.export();
        assert!(state.parts.len() > 5, "in parts");
        let mut after = Rib::new(8, 2);
        let mut out = Outbox::new();
        after.import(Instant::ZERO, state, &mut out);
        assert_eq!(before.counts(), after.counts());
        let is_stale = |o: &Output| matches!(o, Output::Event(Event::OriginStale { .. }));
        assert_eq!(out.drain().filter(is_stale).count(), 2);
        for address in ["10.1.1.1", "100.0.1.1", "100.1.1.1", "101.1.1.1"] {
            let look = |rib: &Rib| {
                let found = rib.lookup(TableId::MAIN, Address::Ip(address.parse().unwrap()));
                found.map(|r| (r.prefix, r.origin, r.announced, r.resolved))
            };
            assert_eq!(look(&before), look(&after), "{address}");
        }
    }
}
