//! The RIB's answers about the presence of routes: for `route-present` in policies, and for networks on condition.
//!
//! The RIB is asked about every prefix named by a policy in use or by a statement, and reports changes. A prefix without an
//! answer counts as absent. After the RIB's end the last known answers stay in force, so the RIB's end changes no advertisement.

use crate::policy::Policies;
use crate::speaker::config::{Config, NeighborConfig};
use crate::speaker::messages::Output;
use crate::speaker::rib::{PresenceQuestion, PresenceScope};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::IpPrefix;
use sluice_machine::Outbox;
use sluice_policy::program::Fact;

/// The questions that wait for answers or hold, and the prefixes with routes.
#[derive(Debug, Default)]
pub(crate) struct Presences {
    asked: BTreeSet<PresenceQuestion>,
    present: BTreeSet<PresenceQuestion>,
}

impl Presences {
    /// Asks the RIB about exactly the prefixes needed by a configuration. To be called before policies are bound.
    pub fn configure(&mut self, config: &Config, out: &mut Outbox<Output>) {
        let wanted = config.presence_questions();
        let new: Vec<PresenceQuestion> = wanted.difference(&self.asked).copied().collect();
        let gone: Vec<PresenceQuestion> = self.asked.difference(&wanted).copied().collect();
        self.asked = wanted;
        self.present.retain(|question| self.asked.contains(question));
        if !gone.is_empty() {
            out.push(Output::UnwatchPresence(gone));
        }
        if !new.is_empty() {
            out.push(Output::WatchPresence(new));
        }
    }

    /// Asks a RIB that knows no question.
    pub fn ask_again(&self, out: &mut Outbox<Output>) {
        if !self.asked.is_empty() {
            out.push(Output::WatchPresence(self.asked.iter().copied().collect()));
        }
    }

    /// Takes answers. Returns true if an answer changed.
    pub fn learn(&mut self, answers: Vec<(PresenceQuestion, bool)>) -> bool {
        let before = self.present.clone();
        for (question, is_present) in answers {
            // An answer that crossed with the end of the question has no effect.
            if is_present && self.asked.contains(&question) {
                self.present.insert(question);
            } else {
                self.present.remove(&question);
            }
        }
        self.present != before
    }

    /// Iterates over the prefixes in conditions of policies to which the RIB has routes.
    pub fn prefixes(&self) -> impl Iterator<Item = IpPrefix> + '_ {
        let all = self.present.iter().filter(|question| question.scope == PresenceScope::All);
        all.map(|question| question.prefix)
    }

    /// Returns true if the RIB has a route that is not BGP's.
    pub fn has_other_route(&self, prefix: IpPrefix) -> bool {
        self.present.contains(&PresenceQuestion { scope: PresenceScope::Others, prefix })
    }

    /// Returns the facts that hold.
    pub fn facts(&self) -> BTreeSet<Fact> {
        self.prefixes().map(Fact::RoutePresent).collect()
    }

    /// Returns the prefixes with routes, for another process.
    pub fn export(&self) -> Vec<PresenceQuestion> {
        self.present.iter().copied().collect()
    }

    /// Takes over the prefixes with routes of another process.
    pub fn import(&mut self, present: Vec<PresenceQuestion>) {
        self.asked = present.iter().copied().collect();
        self.present = present.into_iter().collect();
    }
}

/// Returns the facts that policies ask for.
fn facts_of<'a>(policies: &'a Policies, names: &'a [String]) -> impl Iterator<Item = PresenceQuestion> + 'a {
    policies
        .facts(names)
        .map(|Fact::RoutePresent(prefix)| PresenceQuestion { scope: PresenceScope::All, prefix: *prefix })
}

impl Config {
    /// Returns the questions to the RIB that policies in use and conditions of networks need.
    fn presence_questions(&self) -> BTreeSet<PresenceQuestion> {
        let of_neighbors = self.neighbors.iter().flat_map(NeighborConfig::policy_names);
        let of_sources = self.redistribute.iter().map(|entry| &entry.policy).chain([&self.network_policy]);
        let of_aggregates = self.aggregates.iter().map(|aggregate| &aggregate.contributors);
        let of_sources = of_sources.chain(of_aggregates).chain([&self.aggregate_policy]);
        let facts = of_neighbors.chain(of_sources).flat_map(|names| facts_of(&self.policies, names));
        let networks = self.networks_while_present.iter();
        let networks =
            networks.map(|prefix| PresenceQuestion { scope: PresenceScope::Others, prefix: *prefix });
        let defaults = self.neighbors.iter().filter_map(|neighbor| neighbor.default_originate.as_ref());
        let defaults = defaults.filter_map(|originate| originate.while_present);
        let defaults = defaults.map(|prefix| PresenceQuestion { scope: PresenceScope::All, prefix });
        facts.chain(networks).chain(defaults).collect()
    }
}
