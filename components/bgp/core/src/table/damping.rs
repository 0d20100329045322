//! Flap damping (RFC 2439) in a table: the time, and the turns of histories.
//!
//! A table has no clock. Its driver sets the time before each batch while [`Table::damps`], and control orders turns
//! ([`DampingOrder::Turn`]) at the times that the table asks for ([`TableEvent::TurnDue`]).

use super::{DampingOrder, Sharded, Table, TableEvent};
use crate::family::FamilyIndex;
use crate::shard::DampingCounts;
use sluice_base::Instant;
use sluice_machine::Outbox;

impl Table {
    pub(super) fn order_damping(&mut self, order: DampingOrder) {
        match order {
            DampingOrder::SetRules(rules, tables) => self.each(|_, shard| shard.set_damping(rules, tables)),
            DampingOrder::Turn(now) => {
                self.turn_asked = None;
                self.each(|_, shard| shard.set_now(now));
            }
            DampingOrder::Clear(prefix) => self.each(|_, shard| shard.clear_damping(prefix)),
        }
    }

    /// Returns true if flaps are counted, so that [`Table::set_now`] is needed.
    #[inline]
    pub fn damps(&self) -> bool {
        self.damps
    }

    /// Sets the present time, which flap damping needs.
    pub fn set_now(&mut self, now: Instant) {
        if self.damps {
            self.each(|_, shard| shard.set_now(now));
        }
    }

    /// Asks for the next turn of a history, unless an earlier one was asked for.
    #[cold]
    pub(super) fn ask_for_turn(&mut self, out: &mut Outbox<TableEvent>) {
        let next = self.shards.values().filter_map(|shard| shard.next_turn()).min();
        let Some(next) = next.filter(|next| self.turn_asked.is_none_or(|asked| *next < asked)) else {
            return;
        };
        self.turn_asked = Some(next);
        out.push(TableEvent::TurnDue(next));
    }

    /// Returns the counts of flap damping of a family.
    pub fn damping_counts(&self, family: FamilyIndex) -> DampingCounts {
        self.shards[family].damping_counts()
    }

    /// Restores a history of the old process, before the history's path.
    pub(super) fn restore_history<P: Sharded>(&mut self, history: &crate::shard::HistoryState<P>) {
        self.shard_mut::<P>().0.restore_history(history);
    }
}
