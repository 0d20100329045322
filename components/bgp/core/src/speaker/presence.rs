//! Routes that the RIB has or not: the answer to `route-present` in policies, and the condition for networks.
//!
//! The RIB is asked about every prefix that a policy in use or a statement names, and reports changes. What it has not answered yet is
//! absent. A RIB that ends leaves the last known answers: what neighbors are told does not change because the RIB died.

use super::config::{Config, NeighborConfig};
use super::control::{Control, Output};
use crate::policy::{Policies, vocabulary};
use crate::shard::{OwnRoute, PeerIndex};
use crate::table::Order;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, IpPrefix};
use sluice_machine::Outbox;
use sluice_policy::program::Fact;

/// The routes that count for a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum PresenceScope {
    /// The route that the RIB selects.
    All,
    /// A route that is not BGP's: what BGP announces because of it does not depend on itself.
    Others,
}

/// A question to the RIB: is there a route to exactly this prefix?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PresenceQuestion {
    /// The routes that count.
    pub scope: PresenceScope,
    /// The prefix.
    pub prefix: IpPrefix,
}

/// The questions that wait for answers or hold, and the prefixes with routes.
#[derive(Debug, Default)]
pub(super) struct Presences {
    asked: BTreeSet<PresenceQuestion>,
    present: BTreeSet<PresenceQuestion>,
}

impl Presences {
    /// Asks these questions and no others. Returns the questions to ask, and those to take back.
    fn ask(&mut self, wanted: BTreeSet<PresenceQuestion>) -> (Vec<PresenceQuestion>, Vec<PresenceQuestion>) {
        let new = wanted.difference(&self.asked).copied().collect();
        let gone = self.asked.difference(&wanted).copied().collect();
        self.asked = wanted;
        self.present.retain(|question| self.asked.contains(question));
        (new, gone)
    }

    /// Takes answers. Returns true if one is another than before.
    fn learn(&mut self, answers: Vec<(PresenceQuestion, bool)>) -> bool {
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

    /// Returns the facts that hold.
    fn facts(&self) -> BTreeSet<Fact> {
        let all = self.present.iter().filter(|question| question.scope == PresenceScope::All);
        all.map(|question| Fact::RoutePresent(question.prefix)).collect()
    }

    /// Returns the prefixes with routes, for another process.
    pub(super) fn export(&self) -> Vec<PresenceQuestion> {
        self.present.iter().copied().collect()
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

impl Control {
    /// Iterates over the prefixes to which the RIB has routes, of those that policies ask for.
    pub fn present(&self) -> impl Iterator<Item = IpPrefix> + '_ {
        let all = self.presences.present.iter().filter(|question| question.scope == PresenceScope::All);
        all.map(|question| question.prefix)
    }

    /// Asks the RIB what a configuration needs, and nothing else. To be called before policies are bound.
    pub(super) fn ask_presence(&mut self, config: &Config, out: &mut Outbox<Output>) {
        let (new, gone) = self.presences.ask(config.presence_questions());
        self.peers.bindings.facts = self.presences.facts();
        if !gone.is_empty() {
            out.push(Output::UnwatchPresence(gone));
        }
        if !new.is_empty() {
            out.push(Output::WatchPresence(new));
        }
    }

    /// Asks a RIB that knows no question.
    pub(super) fn ask_presence_again(&self, out: &mut Outbox<Output>) {
        if !self.presences.asked.is_empty() {
            out.push(Output::WatchPresence(self.presences.asked.iter().copied().collect()));
        }
    }

    /// Takes the answers that another process had. The configuration with the questions follows.
    pub(super) fn import_presence(&mut self, present: Vec<PresenceQuestion>) {
        self.presences.asked = present.iter().copied().collect();
        self.presences.present = present.into_iter().collect();
        self.peers.bindings.facts = self.presences.facts();
    }

    /// Takes answers of the RIB: policies that ask for a changed fact are bound again.
    pub(super) fn presence(&mut self, answers: Vec<(PresenceQuestion, bool)>, out: &mut Outbox<Output>) {
        if !self.presences.learn(answers) {
            return;
        }
        let facts = self.presences.facts();
        if self.peers.bindings.facts != facts {
            self.peers.bindings.facts = facts;
            self.peers.set_policies(out);
            self.bind_sources(out);
            self.bind_aggregates_again(out);
        }
        self.originate_networks(out);
    }

    /// Gives the tables the policies of the router's own sources that ask for facts.
    fn bind_sources(&mut self, out: &mut Outbox<Output>) {
        let networks =
            (PeerIndex::LOCAL, Arc::from(vocabulary::NETWORK_PROTOCOL), self.network_policy.clone());
        let others = self.redistributed.redistribute.iter().filter_map(|entry| {
            let source = self.redistributed.source_of(&entry.origin)?;
            Some((source, Arc::from(&*entry.origin), entry.policy.clone()))
        });
        let all: Vec<(PeerIndex, Arc<str>, Vec<String>)> = core::iter::once(networks).chain(others).collect();
        for (source, name, policy) in all {
            if self.peers.bindings.policies.facts(&policy).next().is_some() {
                let import = self.peers.bindings.source(&policy, self.peers.identity.local_as);
                out.push(Output::Order(None, Order::SetSource(source, name, import)));
            }
        }
    }

    /// Originates the networks without a condition and those whose condition holds, and no others.
    pub(super) fn originate_networks(&mut self, out: &mut Outbox<Output>) {
        let is_present = |prefix: &&IpPrefix| {
            let question = PresenceQuestion { scope: PresenceScope::Others, prefix: **prefix };
            self.presences.present.contains(&question)
        };
        let conditional = self.networks_while_present.iter().filter(is_present);
        let conditional = conditional.map(|prefix| AnyPrefix::from(*prefix));
        let wanted: BTreeSet<AnyPrefix> = self.networks.iter().copied().chain(conditional).collect();
        let changed: Vec<AnyPrefix> = self.originated.symmetric_difference(&wanted).copied().collect();
        for prefix in changed {
            let route = wanted.contains(&prefix).then_some(OwnRoute::NETWORK);
            self.originate(PeerIndex::LOCAL, prefix, route, out);
        }
        self.originated = wanted;
    }
}
