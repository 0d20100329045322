//! The clients of the RIB: which instance owns which origin, and which origins have announced everything.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::TableId;

/// An origin of a table, by name.
pub type OriginKey = (TableId, String);

/// The registered origins and the clients that own them.
///
/// `C` identifies a client: an instance at the Finder in a process, a process and its life in the simulator. An origin
/// that registers again belongs to its newest registration; the end of an earlier registration has no effect.
#[derive(Clone, Debug)]
pub struct Registrations<C> {
    origins: BTreeMap<OriginKey, Registration<C>>,
    /// The origins that have announced a whole table to this RIB, in this registration or an earlier one.
    known: BTreeSet<OriginKey>,
    newest: u64,
}

#[derive(Clone, Debug)]
struct Registration<C> {
    number: u64,
    client: Option<C>,
    /// The principal that registered the origin.
    owner: String,
    is_refreshed: bool,
}

impl<C> Default for Registrations<C> {
    fn default() -> Self {
        Registrations { origins: BTreeMap::new(), known: BTreeSet::new(), newest: 0 }
    }
}

impl<C: PartialEq> Registrations<C> {
    /// Registers an origin of `client`, or of an unnamed program, for the principal `owner`. Returns the registration's number for
    /// [`Registrations::registration_ended`].
    pub fn register(&mut self, origin: OriginKey, client: Option<C>, owner: &str) -> u64 {
        self.newest += 1;
        let registration =
            Registration { number: self.newest, client, owner: owner.into(), is_refreshed: false };
        self.origins.insert(origin, registration);
        self.newest
    }

    /// Returns the client that owns an origin.
    pub fn client(&self, origin: &OriginKey) -> Option<&C> {
        self.origins.get(origin)?.client.as_ref()
    }

    /// Returns the principal that registered an origin, while its program lives.
    pub fn owner(&self, origin: &OriginKey) -> Option<&str> {
        self.origins.get(origin).map(|registration| registration.owner.as_str())
    }

    /// Records that an origin has announced its whole table.
    pub fn refreshed(&mut self, origin: &OriginKey) {
        if let Some(registration) = self.origins.get_mut(origin) {
            registration.is_refreshed = true;
            self.known.insert(origin.clone());
        }
    }

    /// Returns true if at least one origin is registered and every origin has announced its whole table.
    pub fn are_all_refreshed(&self) -> bool {
        !self.origins.is_empty() && self.origins.values().all(|registration| registration.is_refreshed)
    }

    /// Returns true if no origin of a table that is registered under one of the names (none: any name) has still to announce its whole
    /// table for the first time. The RIB keeps the routes of an origin that registers again, or has withdrawn them: what the RIB has of it
    /// is complete.
    pub fn are_known_of(&self, table: TableId, names: &[String]) -> bool {
        let is_named = |key: &OriginKey| key.0 == table && (names.is_empty() || names.contains(&key.1));
        self.origins.keys().filter(|key| is_named(key)).all(|key| self.known.contains(key))
    }

    /// Removes the origins of a dead client, and returns them: their routes are stale.
    pub fn client_died(&mut self, client: &C) -> Vec<OriginKey> {
        self.origins
            .extract_if(.., |_, registration| registration.client.as_ref() == Some(client))
            .map(|(key, _)| key)
            .collect()
    }

    /// Removes an origin if `number` is its newest registration. Returns true if the origin was removed: its routes
    /// are stale.
    pub fn registration_ended(&mut self, origin: &OriginKey, number: u64) -> bool {
        let is_newest = self.origins.get(origin).is_some_and(|registration| registration.number == number);
        if is_newest {
            self.origins.remove(origin);
        }
        is_newest
    }

    /// Removes an origin that has ended permanently.
    pub fn unregister(&mut self, origin: &OriginKey) {
        self.origins.remove(origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str) -> OriginKey {
        (TableId::MAIN, name.into())
    }

    #[test]
    fn origins_belong_to_their_newest_registration() {
        let mut registrations = Registrations::default();
        let first = registrations.register(origin("bgp"), Some("bgp-1"), "bgp");
        let second = registrations.register(origin("bgp"), Some("bgp-2"), "bgp");
        registrations.register(origin("static"), Some("static-1"), "static");
        assert!(registrations.client_died(&"bgp-1").is_empty());
        assert!(!registrations.registration_ended(&origin("bgp"), first));
        assert_eq!(registrations.client(&origin("bgp")), Some(&"bgp-2"));
        assert!(registrations.registration_ended(&origin("bgp"), second));
        assert_eq!(registrations.client_died(&"static-1"), [origin("static")]);
    }

    #[test]
    fn all_are_refreshed_when_each_registered_origin_is() {
        let mut registrations = Registrations::default();
        assert!(!registrations.are_all_refreshed(), "nobody has registered yet");
        registrations.register(origin("bgp"), Some(1), "bgp");
        registrations.register(origin("mine"), None, "mine");
        registrations.refreshed(&origin("bgp"));
        assert!(!registrations.are_all_refreshed());
        let of = |registrations: &Registrations<i32>, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| String::from(*name)).collect();
            registrations.are_known_of(TableId::MAIN, &names)
        };
        assert!(of(&registrations, &["bgp"]) && of(&registrations, &["other"]));
        assert!(!of(&registrations, &["bgp", "mine"]) && !of(&registrations, &[]));
        assert!(registrations.are_known_of(TableId(7), &[]), "nobody has registered there");
        registrations.refreshed(&origin("mine"));
        assert!(registrations.are_all_refreshed());
        registrations.register(origin("bgp"), Some(2), "bgp");
        assert!(!registrations.are_all_refreshed(), "a new life announces everything again");
        assert!(of(&registrations, &["bgp"]), "the RIB has the routes of the life before");
        registrations.unregister(&origin("bgp"));
        assert!(registrations.are_all_refreshed());
    }
}
