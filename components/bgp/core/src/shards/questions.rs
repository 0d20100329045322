//! What tables ask of the RIB, together.
//!
//! Each table asks about the next hops of its own paths and lets go of answers that it has no use for. The RIB hears a question once,
//! and that an answer is of no use when the last table has let it go; a table that asks what another knows has the answer at once.

use super::{Sharded, Table};
use crate::shard::{Interest, Shard};
use alloc::collections::{BTreeMap, BTreeSet};
use sluice_base::Provenance;
use sluice_base::interest::InterestAnswer;
use sluice_base::prefix::Prefix;
use sluice_machine::Outbox;

struct Held<P: Prefix> {
    answer: InterestAnswer<P>,
    /// Tables that have use for it.
    tables: u16,
}

/// Questions that wait for answers, and answers that hold.
pub struct Questions<P: Prefix> {
    asked: BTreeSet<P::Addr>,
    held: BTreeMap<P, Held<P>>,
    /// What one table asks, to be used again.
    asking: Outbox<Interest<P>>,
}

impl<P: Prefix> Default for Questions<P> {
    fn default() -> Self {
        Questions { asked: BTreeSet::new(), held: BTreeMap::new(), asking: Outbox::new() }
    }
}

impl<P: Sharded> Questions<P> {
    /// Has a table do something, and passes on to `out` what it asks and nobody asked before.
    pub(super) fn ask<R>(
        &mut self,
        tables: &mut [Table],
        number: usize,
        out: &mut Outbox<Interest<P>>,
        act: impl FnOnce(&mut Shard<P>, &mut Outbox<Interest<P>>) -> R,
    ) -> R {
        let mut asking = core::mem::take(&mut self.asking);
        let shard = P::shard_mut(&mut tables[number]);
        let result = act(shard, &mut asking);
        while !asking.is_empty() {
            let mut more = Outbox::new();
            for interest in asking.drain() {
                match interest {
                    Interest::Register(addr) => self.register(addr, shard, out, &mut more),
                    Interest::Deregister(valid) => self.deregister(valid, out),
                }
            }
            // Only an answer that a table has no use for after all adds to this, once.
            asking = more;
        }
        self.asking = asking;
        result
    }

    fn register(
        &mut self,
        addr: P::Addr,
        shard: &mut Shard<P>,
        out: &mut Outbox<Interest<P>>,
        more: &mut Outbox<Interest<P>>,
    ) {
        let around = self.held.range_mut(..=P::host(addr)).next_back();
        match around.filter(|(valid, _)| valid.contains(addr)) {
            Some((_, held)) => {
                held.tables += 1;
                shard.answer(&held.answer, Provenance::NONE, more);
            }
            None => {
                if self.asked.insert(addr) {
                    out.push(Interest::Register(addr));
                }
            }
        }
    }

    fn deregister(&mut self, valid: P, out: &mut Outbox<Interest<P>>) {
        let Some(held) = self.held.get_mut(&valid) else { return };
        held.tables -= 1;
        if held.tables == 0 {
            self.held.remove(&valid);
            out.push(Interest::Deregister(valid));
        }
    }

    /// The RIB's answer goes to every table.
    pub(super) fn answer(
        &mut self,
        tables: &mut [Table],
        answer: &InterestAnswer<P>,
        provenance: Provenance,
        out: &mut Outbox<Interest<P>>,
    ) {
        let valid = answer.valid;
        self.asked.retain(|addr| !valid.contains(*addr));
        // Answers that hold never overlap.
        self.held.retain(|v, _| !v.covers(valid) && !valid.covers(*v));
        self.held.insert(valid, Held { answer: answer.clone(), tables: tables.len() as u16 });
        for number in 0..tables.len() {
            self.ask(tables, number, out, |shard, out| shard.answer(answer, provenance, out));
        }
    }

    /// The RIB takes its answers inside or around `prefix` back; the tables ask again themselves.
    pub(super) fn invalid(&mut self, prefix: P) {
        self.held.retain(|valid, _| !valid.covers(prefix) && !prefix.covers(*valid));
    }

    /// The RIB has forgotten everything.
    pub(super) fn forget(&mut self) {
        self.asked.clear();
        self.held.clear();
    }
}
