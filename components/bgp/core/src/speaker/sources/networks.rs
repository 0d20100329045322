//! Networks, originated always or while the RIB has a route.

use super::originator::Parts;
use crate::policy::vocabulary;
use crate::shard::{OwnRoute, PeerIndex};
use crate::speaker::questions::Presences;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, IpPrefix};

/// The configured networks, and the networks originated by tables.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    /// The networks that are always originated.
    pub always: BTreeSet<AnyPrefix>,
    /// The networks originated while the RIB has a route to the prefix.
    pub while_present: BTreeSet<IpPrefix>,
    /// The names of the policies for the networks.
    pub policy: Vec<String>,
    originated: BTreeSet<AnyPrefix>,
}

impl Networks {
    /// Gives the tables the policies for the networks.
    pub fn bind(&self, parts: &mut Parts<'_>) {
        parts.bind(PeerIndex::LOCAL, vocabulary::NETWORK_PROTOCOL, &self.policy);
    }

    /// Binds the policies again that ask for facts.
    pub fn bind_again(&self, parts: &mut Parts<'_>) {
        if parts.asks_for_facts(&self.policy) {
            self.bind(parts);
        }
    }

    /// Originates the networks whose condition holds, and withdraws the others.
    pub fn originate(&mut self, presences: &Presences, parts: &mut Parts<'_>) {
        let conditional = self.while_present.iter().filter(|prefix| presences.has_other_route(**prefix));
        let conditional = conditional.map(|prefix| AnyPrefix::from(*prefix));
        let wanted: BTreeSet<AnyPrefix> = self.always.iter().copied().chain(conditional).collect();
        for prefix in self.originated.symmetric_difference(&wanted) {
            let route = wanted.contains(prefix).then_some(OwnRoute::NETWORK);
            parts.originate(PeerIndex::LOCAL, *prefix, route);
        }
        self.originated = wanted;
    }
}
