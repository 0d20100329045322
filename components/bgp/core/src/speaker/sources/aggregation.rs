//! Originated aggregates: control's part.
//!
//! Tables add up their contributors ([`crate::shard::Aggregate`]) and report changed sums. [`REST`] after the first change
//! control asks the tables, and after the last answer originates aggregates by the total. Changes within this time are a single
//! change of the aggregate, so flapping contributors cost neighbors at most one UPDATE in this time.

use super::originator::Parts;
use crate::aggregate::{AggregateAttributes, Contributors};
use crate::policy::vocabulary;
use crate::shard::{OwnRoute, PeerIndex};
use crate::speaker::config::AggregateConfig;
use crate::speaker::messages::Output;
use crate::table::{AggregateRule, Order, TableContributors};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, Duration, Instant};
use sluice_machine::Outbox;

/// The time between the first change of contributors and the change of the aggregate.
pub const REST: Duration = Duration::from_secs(1);

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
pub(crate) struct Aggregation {
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

    /// Returns the contributors of an aggregate in all tables.
    fn contributors(&self, prefix: AnyPrefix) -> Option<Contributors> {
        let all = self.contributors.range((prefix, 0)..=(prefix, usize::MAX));
        all.map(|(_, contributors)| contributors.clone()).reduce(Contributors::merged)
    }
}

impl Aggregation {
    /// Configures aggregates, and withdraws removed aggregates.
    pub fn configure(&mut self, config: Vec<AggregateConfig>, policy: Vec<String>, parts: &mut Parts<'_>) {
        let is_new = self.config.is_empty() && !config.is_empty();
        if is_new || self.policy != policy || !policy.is_empty() {
            self.policy = policy;
            self.bind_policy(parts);
        }
        let is_kept =
            |prefix: &AnyPrefix| config.iter().any(|entry| AnyPrefix::from(entry.prefix) == *prefix);
        let gone: Vec<AnyPrefix> =
            self.originated.keys().filter(|prefix| !is_kept(prefix)).copied().collect();
        for prefix in gone {
            self.originate(prefix, None, parts);
        }
        self.contributors.retain(|(prefix, _), _| is_kept(prefix));
        self.changes.retain(|prefix, _| is_kept(prefix));
        let has_any = !config.is_empty() || !self.config.is_empty();
        self.config = config;
        if has_any {
            self.bind(parts);
        }
    }

    /// Gives the tables the policies for the aggregates themselves.
    fn bind_policy(&self, parts: &mut Parts<'_>) {
        parts.bind(PeerIndex::AGGREGATE, vocabulary::AGGREGATE_PROTOCOL, &self.policy);
    }

    /// Gives the tables the aggregates, with the policies that select contributors.
    fn bind(&self, parts: &mut Parts<'_>) {
        let rule = |entry: &AggregateConfig| AggregateRule {
            prefix: entry.prefix.into(),
            summary_only: entry.summary_only,
            as_set: entry.as_set,
            policies: parts.bound(&entry.contributors),
        };
        let rules: Arc<[AggregateRule]> = self.config.iter().map(rule).collect();
        parts.out.push(Output::Order(None, Order::SetAggregates(rules)));
    }

    /// Binds the policies of aggregates again that ask for facts.
    pub fn bind_again(&self, parts: &mut Parts<'_>) {
        if parts.asks_for_facts(&self.policy) {
            self.bind_policy(parts);
        }
        if self.config.iter().any(|aggregate| parts.asks_for_facts(&aggregate.contributors)) {
            self.bind(parts);
        }
    }

    /// Notes that contributors changed in a table.
    pub fn note(&mut self, now: Instant) {
        self.ask_at.get_or_insert(now + REST);
    }

    /// Asks the tables for changed contributors, when due.
    pub fn ask_for_contributors(&mut self, now: Instant, tables: usize, out: &mut Outbox<Output>) {
        if self.ask_at.take_if(|at| *at <= now).is_some() {
            self.unanswered = tables;
            out.push(Output::Order(None, Order::ReportContributors));
        }
    }

    /// Takes the answer of a table. After the last one aggregates whose attributes changed are originated.
    pub fn take_contributors(
        &mut self,
        table: usize,
        answers: Vec<TableContributors>,
        parts: &mut Parts<'_>,
    ) {
        for (prefix, contributors) in answers {
            if !self.config.iter().any(|entry| AnyPrefix::from(entry.prefix) == prefix) {
                continue;
            }
            match contributors {
                Some(contributors) => drop(self.contributors.insert((prefix, table), contributors)),
                None => drop(self.contributors.remove(&(prefix, table))),
            }
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered > 0 {
            return;
        }
        let prefixes: Vec<AnyPrefix> = self.config.iter().map(|entry| entry.prefix.into()).collect();
        for prefix in prefixes {
            let attributes = self.contributors(prefix).map(|all| all.attributes());
            if self.originated.get(&prefix) != attributes.as_ref() {
                self.originate(prefix, attributes, parts);
            }
        }
    }

    fn originate(
        &mut self,
        prefix: AnyPrefix,
        attributes: Option<AggregateAttributes>,
        parts: &mut Parts<'_>,
    ) {
        *self.changes.entry(prefix).or_default() += 1;
        match attributes.clone() {
            Some(attributes) => drop(self.originated.insert(prefix, attributes)),
            None => drop(self.originated.remove(&prefix)),
        }
        parts.originate(PeerIndex::AGGREGATE, prefix, attributes.map(OwnRoute::aggregate));
    }

    /// Originates the old process's aggregates, until the tables have added up contributors.
    pub fn import(&mut self, originated: Vec<(AnyPrefix, AggregateAttributes)>, parts: &mut Parts<'_>) {
        for (prefix, attributes) in originated {
            self.originate(prefix, Some(attributes), parts);
        }
    }

    /// Returns the aggregates, in the order of the configuration.
    pub fn views(&self) -> Vec<AggregateView> {
        let view = |config: &AggregateConfig| {
            let prefix = AnyPrefix::from(config.prefix);
            AggregateView {
                config: config.clone(),
                contributors: self.contributors(prefix).map_or(0, |all| all.count),
                originated: self.originated.get(&prefix).cloned(),
                changes: self.changes.get(&prefix).copied().unwrap_or(0),
            }
        };
        self.config.iter().map(view).collect()
    }
}
