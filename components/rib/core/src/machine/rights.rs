//! Who may own an origin, and which routes it may announce. Everybody else is refused, whatever the Finder lets through.

use crate::clients::registrations::{OriginKey, Registrations};
use crate::decide::table::Table;
use crate::entry::origin::OriginId;
use crate::machine::Rib;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, Distance, RouteAction, RouteBatch, TableId, class_of};
use sluice_clients::GrantedRoutes;
use sluice_stage::TableKey;

/// The principal of the router itself, which may announce anything.
const MANAGER: &str = "manager";
/// The beginning of the principals of people: the Finder lets only administrators call the methods that change routes.
const PERSON: &str = "user:";
/// The origin of the interfaces' own subnets, which nobody may register.
const RESERVED: &str = "connected";

/// The rights of every component, by the name of its principal at the Finder.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoutePolicy(BTreeMap<String, GrantedRoutes>);

/// The reason why a principal may not do something with an origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The name of the origin is not among the principal's.
    Name,
    /// The table is another one than the principal's.
    Table(TableId),
    /// The distance is lower than the lowest of the principal.
    Distance(Distance, Distance),
    /// The prefix is in none of the principal's ranges.
    Prefix(AnyPrefix),
    /// The origin would have more routes than the principal may announce.
    TooMany(u64),
    /// The origin belongs to another principal.
    Owned(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Name => f.write_str("its rights name no such origin"),
            Refusal::Table(own) => write!(f, "its routes belong to table {}", own.0),
            Refusal::Distance(wanted, lowest) => {
                write!(f, "distance {} is lower than {}, the lowest of its rights", wanted.0, lowest.0)
            }
            Refusal::Prefix(prefix) => write!(f, "{prefix} is in none of the ranges of its rights"),
            Refusal::TooMany(most) => write!(f, "its rights are for {most} routes at most"),
            Refusal::Owned(owner) => write!(f, "the origin belongs to {owner}"),
        }
    }
}

impl RoutePolicy {
    /// Makes a policy of the rights of principals.
    pub fn new(granted: impl IntoIterator<Item = (String, GrantedRoutes)>) -> Self {
        RoutePolicy(granted.into_iter().collect())
    }

    /// Returns the rights of a principal; `None` for a principal that may announce anything.
    fn of(&self, principal: &str) -> Result<Option<&GrantedRoutes>, Refusal> {
        if principal == MANAGER || principal.starts_with(PERSON) {
            return Ok(None);
        }
        self.0.get(principal).map(Some).ok_or(Refusal::Name)
    }

    /// Returns an error unless a principal may use an origin, which no other principal owns.
    pub fn check_origin<C: PartialEq>(
        &self,
        principal: &str,
        origin: &OriginKey,
        registrations: &Registrations<C>,
    ) -> Result<(), Refusal> {
        match registrations.owner(origin) {
            // It was allowed at the registration; what moves to another table still tidies up the old one.
            Some(owner) if owner == principal => return Ok(()),
            Some(owner) => return Err(Refusal::Owned(owner.to_string())),
            None => {}
        }
        let (table, name) = origin;
        if name == RESERVED {
            return Err(Refusal::Name);
        }
        let Some(GrantedRoutes { table: own, rights }) = self.of(principal)? else { return Ok(()) };
        let is_named = match rights.origins.is_empty() {
            true => name == class_of(principal),
            false => rights.origins.contains(name),
        };
        if !is_named {
            return Err(Refusal::Name);
        }
        if own != table {
            return Err(Refusal::Table(*own));
        }
        Ok(())
    }

    /// Returns an error if an origin of a principal may not have this distance.
    pub fn check_distance(&self, principal: &str, distance: Distance) -> Result<(), Refusal> {
        match self.of(principal)? {
            Some(GrantedRoutes { rights, .. }) if distance < rights.lowest_distance => {
                Err(Refusal::Distance(distance, rights.lowest_distance))
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if a principal may not announce a batch of an origin's routes.
    pub fn check_batch<P: TableKey>(
        &self,
        principal: &str,
        (table, origin): &OriginKey,
        batch: &RouteBatch<P>,
        rib: &Rib,
    ) -> Result<(), Refusal> {
        let Some(GrantedRoutes { rights, .. }) = self.of(principal)? else { return Ok(()) };
        for distance in batch.sets.iter().filter_map(|set| set.distance) {
            self.check_distance(principal, distance)?;
        }
        if !rights.prefixes.is_empty() {
            for update in batch.updates.iter().filter(|update| update.action != RouteAction::Delete) {
                let prefix = AnyPrefix::of(update.prefix);
                if !prefix.ip().is_some_and(|ip| rights.prefixes.iter().any(|range| range.covers(ip))) {
                    return Err(Refusal::Prefix(prefix));
                }
            }
        }
        let Some(table) = rib.table(*table) else { return Ok(()) };
        let Some(id) = table.origin_id(origin) else { return Ok(()) };
        let before = table.shared.origin(id).routes;
        let may_exceed = before.saturating_add(batch.updates.len() as u64) > rights.most;
        if may_exceed && routes_after(table, id, batch) > rights.most {
            return Err(Refusal::TooMany(rights.most));
        }
        Ok(())
    }
}

/// Returns the number of an origin's routes, of every family, after a batch.
fn routes_after<P: TableKey>(table: &Table, id: OriginId, batch: &RouteBatch<P>) -> u64 {
    let has_route = |prefix: P| {
        let entry = table.family::<P>().and_then(|family| family.entries().get(prefix));
        entry.is_some_and(|entry| entry.paths().iter().any(|path| path.origin == id))
    };
    let last: BTreeMap<P, bool> =
        batch.updates.iter().map(|update| (update.prefix, update.action != RouteAction::Delete)).collect();
    let mut routes = table.shared.origin(id).routes;
    for (prefix, stays) in last {
        match (has_route(prefix), stays) {
            (false, true) => routes += 1,
            (true, false) => routes = routes.saturating_sub(1),
            _ => {}
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::origin::OriginSettings;
    use crate::machine::messages::Input;
    use crate::machine::request::UpdateRoutes;
    use alloc::format;
    use alloc::vec;
    use alloc::vec::Vec;
    use sluice_base::{Duration, Forwarding, Instant, Ipv4Prefix, Provenance, RouteSet, RouteUpdate};
    use sluice_clients::RouteRights;
    use sluice_machine::{Machine, Outbox, Request};

    fn policy() -> RoutePolicy {
        let rights = RouteRights {
            origins: Vec::new(),
            lowest_distance: Distance(100),
            prefixes: vec!["10.0.0.0/8".parse().unwrap()],
            most: 3,
        };
        let names = RouteRights { origins: vec!["one".into(), "two".into()], ..rights.clone() };
        RoutePolicy::new([
            ("radar".into(), GrantedRoutes { table: TableId::MAIN, rights: rights.clone() }),
            ("radar@red".into(), GrantedRoutes { table: TableId(100), rights }),
            ("twins".into(), GrantedRoutes { table: TableId::MAIN, rights: names }),
        ])
    }

    fn key(table: TableId, name: &str) -> OriginKey {
        (table, name.into())
    }

    #[test]
    fn an_origin_belongs_to_one_principal() {
        let mut registrations = Registrations::<u32>::default();
        registrations.register(key(TableId::MAIN, "radar"), None, "radar");
        registrations.register(key(TableId::MAIN, "two"), None, "user:root");
        let check = |principal, table, name, expected| {
            let checked = policy().check_origin(principal, &key(table, name), &registrations);
            assert_eq!(checked, expected, "{principal} {name}");
        };
        check("radar", TableId::MAIN, "radar", Ok(()));
        check("radar@red", TableId(100), "radar", Ok(()));
        check("radar@red", TableId::MAIN, "radar", Err(Refusal::Owned("radar".into())));
        check("radar@red", TableId(7), "radar", Err(Refusal::Table(TableId(100))));
        check("radar", TableId(7), "radar", Err(Refusal::Table(TableId::MAIN)));
        check("radar", TableId::MAIN, "bgp", Err(Refusal::Name));
        check("twins", TableId::MAIN, "twins", Err(Refusal::Name));
        check("twins", TableId::MAIN, "one", Ok(()));
        check("twins", TableId::MAIN, "two", Err(Refusal::Owned("user:root".into())));
        check("unknown", TableId::MAIN, "unknown", Err(Refusal::Name));
        check("user:root", TableId(7), "anything", Ok(()));
        check("user:root", TableId::MAIN, "radar", Err(Refusal::Owned("radar".into())));
        for principal in ["user:root", "radar"] {
            check(principal, TableId::MAIN, "connected", Err(Refusal::Name));
        }
        // What was allowed at the registration stays the owner's, although the owner's table is another one now.
        registrations.register(key(TableId(100), "radar"), None, "radar");
        let moved = key(TableId(100), "radar");
        assert_eq!(policy().check_origin("radar", &moved, &registrations), Ok(()));
        let owned = Err(Refusal::Owned("radar".into()));
        assert_eq!(policy().check_origin("radar@red", &moved, &registrations), owned);
    }

    #[test]
    fn limits_hold_to_the_last_route() {
        let mut rib = Rib::new(1, 1);
        let mut out = Outbox::default();
        let settings = OriginSettings {
            name: "radar".into(),
            distance: Distance(100),
            external: false,
            grace: Duration::ZERO,
            kinds: Vec::new(),
        };
        rib.handle(Instant::ZERO, Input::RegisterOrigin(TableId::MAIN, settings), &mut out);
        let origin = key(TableId::MAIN, "radar");
        let batch = |changes: &[(&str, bool)], distance| {
            let set = RouteSet { distance, ..RouteSet::plain(Forwarding::Discard) };
            let update = |(prefix, is_added): &(&str, bool)| RouteUpdate {
                prefix: prefix.parse::<Ipv4Prefix>().unwrap(),
                action: if *is_added { RouteAction::Set(0) } else { RouteAction::Delete },
                provenance: Provenance::NONE,
            };
            RouteBatch { sets: vec![set], updates: changes.iter().map(update).collect() }
        };
        let check =
            |rib: &Rib, batch: &RouteBatch<Ipv4Prefix>| policy().check_batch("radar", &origin, batch, rib);
        let three = batch(&[("10.0.0.0/8", true), ("10.1.0.0/16", true), ("10.2.0.0/16", true)], None);
        assert_eq!(check(&rib, &three), Ok(()));
        UpdateRoutes { table: TableId::MAIN, origin: "radar".into(), batch: three.clone() }.make(
            &mut rib,
            Instant::ZERO,
            &mut out,
        );
        assert_eq!(check(&rib, &three), Ok(()), "the same routes again");
        assert_eq!(check(&rib, &batch(&[("10.3.0.0/16", true)], None)), Err(Refusal::TooMany(3)));
        assert_eq!(check(&rib, &batch(&[("10.3.0.0/16", true), ("10.2.0.0/16", false)], None)), Ok(()));
        let outside = check(&rib, &batch(&[("11.0.0.0/8", true)], None));
        assert_eq!(format!("{}", outside.unwrap_err()), "11.0.0.0/8 is in none of the ranges of its rights");
        assert_eq!(check(&rib, &batch(&[("11.0.0.0/8", false)], None)), Ok(()), "nothing is announced");
        for (distance, is_fine) in [(99, false), (100, true)] {
            let checked = check(&rib, &batch(&[("10.2.0.0/16", true)], Some(Distance(distance))));
            assert_eq!(checked.is_ok(), is_fine);
            assert_eq!(policy().check_distance("radar", Distance(distance)).is_ok(), is_fine);
        }
        assert_eq!(
            policy().check_batch("user:root", &origin, &batch(&[("0.0.0.0/1", true)], None), &rib),
            Ok(())
        );
    }
}
