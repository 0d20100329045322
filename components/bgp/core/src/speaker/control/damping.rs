//! Flap damping (RFC 2439): control's timers of the tables' histories, and the parameters.

use crate::shard::DampingRules;
use crate::speaker::messages::Output;
use crate::table::{DampingOrder, Order};
use alloc::collections::BTreeMap;
use sluice_base::{AnyPrefix, Instant};
use sluice_machine::Outbox;

/// The parameters, and the times at which tables asked for a turn.
#[derive(Debug, Default)]
pub(crate) struct Damping {
    pub rules: DampingRules,
    turns: BTreeMap<usize, Instant>,
}

impl Damping {
    /// Gives the tables, `tables` in number, new parameters.
    pub fn configure(&mut self, rules: DampingRules, tables: usize, out: &mut Outbox<Output>) {
        self.rules = rules;
        out.push(Output::Order(None, Order::Damping(DampingOrder::SetRules(rules, tables))));
    }

    /// Notes the time of a table's next due histories.
    pub fn note(&mut self, table: usize, at: Instant) {
        self.turns.insert(table, at);
    }

    /// Returns the next time at which a table has something due.
    pub fn next(&self) -> Option<Instant> {
        self.turns.values().min().copied()
    }

    /// Gives tables their turns.
    pub fn turn(&mut self, now: Instant, out: &mut Outbox<Output>) {
        for (table, _) in self.turns.extract_if(.., |_, at| *at <= now) {
            out.push(Output::Order(Some(table), Order::Damping(DampingOrder::Turn(now))));
        }
    }

    /// Has the tables forget the history of a prefix, or every history.
    pub fn clear(prefix: Option<AnyPrefix>, out: &mut Outbox<Output>) {
        out.push(Output::Order(None, Order::Damping(DampingOrder::Clear(prefix))));
    }
}
