//! Aggregates that this router originates: control's part.
//!
//! Tables add up the contributors that they have ([`crate::shard::Aggregate`]) and report that a sum changed. [`REST`] after the first
//! change control asks all tables, and when all have answered originates what the sums of all tables amount to. Changes within that time
//! are one change of the aggregate, so that contributors that come and go cost neighbors at most one UPDATE in that time.

use super::control::{Control, Output};
use crate::aggregate::{AggregateAttributes, Contributors};
use crate::policy::vocabulary;
use crate::shard::{OwnRoute, PeerIndex};
use crate::table::{AggregateRule, Order, TableContributors};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sluice_base::{AnyPrefix, Duration, Instant, IpPrefix};
use sluice_machine::Outbox;

/// The time between the first change of contributors and the change of the aggregate.
pub const REST: Duration = Duration::from_secs(1);

/// The statement `aggregate`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AggregateConfig {
    /// The prefix.
    #[serde(deserialize_with = "subnet")]
    pub prefix: IpPrefix,
    /// True if contributors are not announced.
    #[serde(default)]
    pub summary_only: bool,
    /// True if the AS_PATH has the ASes of the contributors, in an AS_SET where their paths differ.
    #[serde(default)]
    pub as_set: bool,
    /// The names of the policies that select contributors, in order.
    #[serde(default)]
    pub contributors: Vec<String>,
}

/// Reads a prefix; clears the host bits of one that the operator wrote.
pub(super) fn subnet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpPrefix, D::Error> {
    if !deserializer.is_human_readable() {
        return IpPrefix::deserialize(deserializer);
    }
    let text = String::deserialize(deserializer)?;
    IpPrefix::parse_subnet(&text)
        .map_err(|error| D::Error::custom(format_args!("`{text}` is not a prefix: {error}")))
}

/// An aggregate, as an operator sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AggregateView {
    /// The statement.
    pub config: AggregateConfig,
    /// The number of contributors when the tables were last asked.
    pub contributors: u32,
    /// The attributes by which the aggregate is originated; `None` without contributors.
    pub originated: Option<AggregateAttributes>,
    /// The number of changes of the originated route, withdrawals included.
    pub changes: u64,
}

/// The aggregates of the router.
#[derive(Debug, Default)]
pub(super) struct Aggregation {
    pub config: Vec<AggregateConfig>,
    /// The names of the policies for the aggregates themselves.
    pub policy: Vec<String>,
    /// The contributors by table.
    contributors: BTreeMap<(AnyPrefix, usize), Contributors>,
    originated: BTreeMap<AnyPrefix, AggregateAttributes>,
    changes: BTreeMap<AnyPrefix, u64>,
    /// The time at which the tables are asked for contributors that changed.
    pub ask_at: Option<Instant>,
    /// The number of tables that have not answered yet.
    unanswered: usize,
}

impl Aggregation {
    /// Returns the originated aggregates, for another process.
    pub fn export(&self) -> Vec<(AnyPrefix, AggregateAttributes)> {
        self.originated.iter().map(|(prefix, attributes)| (*prefix, attributes.clone())).collect()
    }

    /// Iterates over the lists of policies of the aggregates.
    pub fn policy_names(&self) -> impl Iterator<Item = &Vec<String>> {
        self.config.iter().map(|aggregate| &aggregate.contributors)
    }

    /// Returns the contributors of an aggregate in all tables.
    fn contributors(&self, prefix: AnyPrefix) -> Option<Contributors> {
        let all = self.contributors.range((prefix, 0)..=(prefix, usize::MAX));
        all.map(|(_, contributors)| contributors.clone()).reduce(Contributors::merged)
    }
}

impl Control {
    /// Configures aggregates: those that are not configured any more are withdrawn.
    pub(super) fn configure_aggregates(
        &mut self,
        config: Vec<AggregateConfig>,
        policy: Vec<String>,
        out: &mut Outbox<Output>,
    ) {
        let is_new = self.aggregation.config.is_empty() && !config.is_empty();
        if is_new || self.aggregation.policy != policy || !policy.is_empty() {
            self.aggregation.policy = policy;
            self.bind_aggregate_policy(out);
        }
        let is_kept =
            |prefix: &AnyPrefix| config.iter().any(|entry| AnyPrefix::from(entry.prefix) == *prefix);
        let gone: Vec<AnyPrefix> =
            self.aggregation.originated.keys().filter(|prefix| !is_kept(prefix)).copied().collect();
        for prefix in gone {
            self.originate_aggregate(prefix, None, out);
        }
        self.aggregation.contributors.retain(|(prefix, _), _| is_kept(prefix));
        self.aggregation.changes.retain(|prefix, _| is_kept(prefix));
        let has_any = !config.is_empty() || !self.aggregation.config.is_empty();
        self.aggregation.config = config;
        if has_any {
            self.bind_aggregates(out);
        }
    }

    /// Gives the tables the policies for the aggregates themselves.
    fn bind_aggregate_policy(&mut self, out: &mut Outbox<Output>) {
        let import = self.peers.bindings.source(&self.aggregation.policy, self.peers.identity.local_as);
        let name = Arc::from(vocabulary::AGGREGATE_PROTOCOL);
        out.push(Output::Order(None, Order::SetSource(PeerIndex::AGGREGATE, name, import)));
    }

    /// Gives the tables the aggregates, with the policies that select contributors.
    fn bind_aggregates(&mut self, out: &mut Outbox<Output>) {
        let (bindings, local_as) = (&mut self.peers.bindings, self.peers.identity.local_as);
        let rule = |entry: &AggregateConfig| AggregateRule {
            prefix: entry.prefix.into(),
            summary_only: entry.summary_only,
            as_set: entry.as_set,
            policies: bindings.source(&entry.contributors, local_as),
        };
        let rules: Arc<[AggregateRule]> = self.aggregation.config.iter().map(rule).collect();
        out.push(Output::Order(None, Order::SetAggregates(rules)));
    }

    /// Binds the policies of aggregates again that ask for facts.
    pub(super) fn bind_aggregates_again(&mut self, out: &mut Outbox<Output>) {
        let policies = &self.peers.bindings.policies;
        let asks = |names: &Vec<String>| policies.facts(names).next().is_some();
        let (of_contributors, of_aggregates) =
            (self.aggregation.policy_names().any(asks), asks(&self.aggregation.policy));
        if of_aggregates {
            self.bind_aggregate_policy(out);
        }
        if of_contributors {
            self.bind_aggregates(out);
        }
    }

    /// Notes that contributors changed in a table.
    pub(super) fn aggregates_due(&mut self, now: Instant) {
        self.aggregation.ask_at.get_or_insert(now + REST);
    }

    /// Asks the tables for contributors that changed, if it is time.
    pub(super) fn ask_for_contributors(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.aggregation.ask_at.take_if(|at| *at <= now).is_some() {
            self.aggregation.unanswered = self.spread().tables();
            out.push(Output::Order(None, Order::ReportContributors));
        }
    }

    /// Takes the answer of a table. After the last one aggregates whose attributes changed are originated.
    pub(super) fn take_contributors(
        &mut self,
        table: usize,
        answers: Vec<TableContributors>,
        out: &mut Outbox<Output>,
    ) {
        let aggregation = &mut self.aggregation;
        let is_configured = |prefix: AnyPrefix| {
            aggregation.config.iter().any(|entry| AnyPrefix::from(entry.prefix) == prefix)
        };
        let answers: Vec<_> = answers.into_iter().filter(|(prefix, _)| is_configured(*prefix)).collect();
        for (prefix, contributors) in answers {
            match contributors {
                Some(contributors) => drop(aggregation.contributors.insert((prefix, table), contributors)),
                None => drop(aggregation.contributors.remove(&(prefix, table))),
            }
        }
        aggregation.unanswered = aggregation.unanswered.saturating_sub(1);
        if aggregation.unanswered > 0 {
            return;
        }
        let prefixes: Vec<AnyPrefix> = aggregation.config.iter().map(|entry| entry.prefix.into()).collect();
        for prefix in prefixes {
            let attributes = self.aggregation.contributors(prefix).map(|all| all.attributes());
            if self.aggregation.originated.get(&prefix) != attributes.as_ref() {
                self.originate_aggregate(prefix, attributes, out);
            }
        }
    }

    fn originate_aggregate(
        &mut self,
        prefix: AnyPrefix,
        attributes: Option<AggregateAttributes>,
        out: &mut Outbox<Output>,
    ) {
        *self.aggregation.changes.entry(prefix).or_default() += 1;
        match attributes.clone() {
            Some(attributes) => drop(self.aggregation.originated.insert(prefix, attributes)),
            None => drop(self.aggregation.originated.remove(&prefix)),
        }
        self.originate(PeerIndex::AGGREGATE, prefix, attributes.map(OwnRoute::aggregate), out);
    }

    /// Originates what another process originated, until the tables of this one have added up contributors.
    pub(super) fn import_aggregates(
        &mut self,
        originated: Vec<(AnyPrefix, AggregateAttributes)>,
        out: &mut Outbox<Output>,
    ) {
        for (prefix, attributes) in originated {
            self.originate_aggregate(prefix, Some(attributes), out);
        }
    }

    /// Returns the aggregates, in the order of the configuration.
    pub fn aggregates(&self) -> Vec<AggregateView> {
        let view = |config: &AggregateConfig| {
            let prefix = AnyPrefix::from(config.prefix);
            AggregateView {
                config: config.clone(),
                contributors: self.aggregation.contributors(prefix).map_or(0, |all| all.count),
                originated: self.aggregation.originated.get(&prefix).cloned(),
                changes: self.aggregation.changes.get(&prefix).copied().unwrap_or(0),
            }
        };
        self.aggregation.config.iter().map(view).collect()
    }
}
