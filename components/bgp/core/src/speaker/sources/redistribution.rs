//! Redistribution into BGP: the origination of the RIB's selected routes of further origins.
//!
//! Each origin is a source of the router's own, with policies of its own. The RIB selects a single route for a prefix, so at most
//! one origin has a prefix here. BGP's own routes never arrive: their origin cannot be configured. Routes that BGP gave to
//! another protocol can come back under that protocol's name; such routes carry [`EXTERNAL_TAG`] and are not originated, because
//! BGP would otherwise announce neighbors' routes as its own.

use super::originator::Parts;
use crate::shard::{OwnRoute, PeerIndex};
use crate::speaker::config::Redistribute;
use crate::speaker::rib::{Redistributed, RedistributedRoute};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::AnyPrefix;

/// The redistributed routes, by prefix, and the numbers of their origins among the sources of the router's own.
#[derive(Debug, Default)]
pub(crate) struct RedistributedRoutes {
    routes: BTreeMap<AnyPrefix, RedistributedRoute>,
    sources: BTreeMap<String, PeerIndex>,
    /// The configuration.
    pub redistribute: Vec<Redistribute>,
}

impl RedistributedRoutes {
    /// Returns the source of a route that BGP may originate.
    fn source(&self, route: &RedistributedRoute) -> Option<PeerIndex> {
        self.sources.get(&route.origin).copied().filter(|_| route.may_be_originated())
    }

    /// Returns the source of an origin.
    fn source_of(&self, origin: &str) -> Option<PeerIndex> {
        self.sources.get(origin).copied()
    }

    /// Returns the lowest free number of a source; `None` with too many origins.
    fn free_source(&self) -> Option<PeerIndex> {
        let mut numbers = (1..PeerIndex::DEFAULT.0).map(PeerIndex);
        numbers.find(|number| !self.sources.values().any(|used| used == number))
    }

    /// Returns the routes as changes from none.
    pub(crate) fn export(&self) -> Vec<Redistributed> {
        let all = self.routes.iter();
        all.map(|(prefix, route)| Redistributed { prefix: *prefix, route: Some(route.clone()) }).collect()
    }
}

impl RedistributedRoutes {
    /// Iterates over the prefixes of redistributed origins with a route.
    pub fn prefixes(&self) -> impl Iterator<Item = AnyPrefix> {
        self.routes.keys().copied()
    }

    /// Configures redistribution, and withdraws the routes of removed origins.
    pub fn configure(&mut self, config: Vec<Redistribute>, parts: &mut Parts<'_>) {
        let is_configured = |origin: &String| config.iter().any(|entry| entry.origin == *origin);
        let known: Vec<String> = self.sources.keys().cloned().collect();
        for origin in known.into_iter().filter(|origin| !is_configured(origin)) {
            for (prefix, source, _) in self.routes_of(&origin) {
                parts.originate(source, prefix, None);
            }
            self.sources.remove(&origin);
        }
        for entry in &config {
            let known = self.source_of(&entry.origin);
            let Some(source) = known.or_else(|| self.free_source()) else { continue };
            self.sources.insert(entry.origin.clone(), source);
            parts.bind(source, &entry.origin, &entry.policy);
            if known.is_none() {
                for (prefix, source, route) in self.routes_of(&entry.origin) {
                    parts.originate(source, prefix, Some(route));
                }
            }
        }
        self.redistribute = config;
    }

    /// Binds the policies again that ask for facts.
    pub fn bind_again(&self, parts: &mut Parts<'_>) {
        for entry in &self.redistribute {
            if let Some(source) = self.source_of(&entry.origin)
                && parts.asks_for_facts(&entry.policy)
            {
                parts.bind(source, &entry.origin, &entry.policy);
            }
        }
    }

    fn routes_of(&self, origin: &str) -> Vec<(AnyPrefix, PeerIndex, OwnRoute)> {
        let all = self.routes.iter().filter(|(_, route)| route.origin == origin);
        all.filter_map(|(prefix, route)| Some((*prefix, self.source(route)?, route.own()))).collect()
    }

    /// Takes changes of the RIB's selected routes.
    pub fn take(&mut self, changes: Vec<Redistributed>, parts: &mut Parts<'_>) {
        for Redistributed { prefix, route } in changes {
            let before = match route.clone() {
                Some(route) => self.routes.insert(prefix, route),
                None => self.routes.remove(&prefix),
            };
            let old = before.as_ref().and_then(|route| self.source(route));
            let new = route.as_ref().and_then(|route| Some((self.source(route)?, route.own())));
            if let Some(old) = old.filter(|old| new.as_ref().is_none_or(|(new, _)| new != old)) {
                parts.originate(old, prefix, None);
            }
            if let Some((source, route)) = new {
                parts.originate(source, prefix, Some(route));
            }
        }
    }
}
