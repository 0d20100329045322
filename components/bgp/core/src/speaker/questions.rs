//! What tables ask of the RIB, together.
//!
//! Each table asks about the next hops of its own paths and lets go of answers that it has no use for. The RIB hears a question once,
//! and that an answer is of no use when the last table has let it go; a table that asks what another knows has the answer at once.
//!
//! Tables may be on other threads, and what they say may cross with what they are told. So answers are numbered, and a table says
//! with each question which it had seen: what it said before it saw an answer is not about that answer.

use crate::shard::Interest;
use crate::table::{Sharded, Versioned};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use sluice_base::interest::InterestAnswer;
use sluice_base::prefix::Prefix;

struct Held<P: Prefix> {
    answer: InterestAnswer<P>,
    /// By table: the number with which it was told; 0 if it has no use for it.
    told: Vec<u64>,
}

/// The consequence of a table's question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply<P: Sharded> {
    /// The RIB is to be asked, or told.
    Rib(Interest<P>),
    /// The table is to be told.
    Table(Versioned<P>),
}

/// Questions that wait for answers, and answers that hold.
pub(super) struct Questions<P: Prefix> {
    asked: BTreeSet<P::Addr>,
    held: BTreeMap<P, Held<P>>,
    /// The newest answer's.
    number: u64,
}

impl<P: Prefix> Default for Questions<P> {
    fn default() -> Self {
        Questions { asked: BTreeSet::new(), held: BTreeMap::new(), number: 0 }
    }
}

impl<P: Sharded> Questions<P> {
    /// The table of this number asks, or lets an answer go, having seen answers up to number `seen`.
    pub fn interest(&mut self, table: usize, interest: Interest<P>, seen: u64) -> Option<Reply<P>> {
        match interest {
            Interest::Register(addr) => self.register(table, addr, seen),
            Interest::Deregister(valid) => self.deregister(table, valid, seen).map(Reply::Rib),
        }
    }

    fn register(&mut self, table: usize, addr: P::Addr, seen: u64) -> Option<Reply<P>> {
        let around = self.held.range_mut(..=P::host(addr)).next_back();
        let Some((_, held)) = around.filter(|(valid, _)| valid.contains(addr)) else {
            return self.asked.insert(addr).then_some(Reply::Rib(Interest::Register(addr)));
        };
        let told = held.told.get_mut(table)?;
        if *told > seen {
            // The answer is on its way.
            return None;
        }
        self.number += 1;
        *told = self.number;
        Some(Reply::Table(Versioned { number: self.number, answer: held.answer.clone() }))
    }

    fn deregister(&mut self, table: usize, valid: P, seen: u64) -> Option<Interest<P>> {
        let held = self.held.get_mut(&valid)?;
        let told = held.told.get_mut(table)?;
        if *told > seen {
            // It let an older answer go.
            return None;
        }
        *told = 0;
        if held.told.iter().any(|told| *told > 0) {
            return None;
        }
        self.held.remove(&valid);
        Some(Interest::Deregister(valid))
    }

    /// The RIB's answer, numbered, for each of so many tables.
    pub fn answer(&mut self, answer: InterestAnswer<P>, tables: usize) -> Versioned<P> {
        let valid = answer.valid;
        self.asked.retain(|addr| !valid.contains(*addr));
        // Answers that hold never overlap.
        self.held.retain(|v, _| !v.covers(valid) && !valid.covers(*v));
        self.number += 1;
        let told = core::iter::repeat_n(self.number, tables).collect();
        self.held.insert(valid, Held { answer: answer.clone(), told });
        Versioned { number: self.number, answer }
    }

    /// The RIB takes its answers inside or around `prefix` back; the tables ask again themselves.
    pub fn invalid(&mut self, prefix: P) {
        self.held.retain(|valid, _| !valid.covers(prefix) && !prefix.covers(*valid));
    }

    /// The RIB has forgotten everything.
    pub fn forget(&mut self) {
        self.asked.clear();
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Ipv4Prefix;

    const ADDR: <Ipv4Prefix as Prefix>::Addr = sluice_base::ip::V4Addr(core::net::Ipv4Addr::new(10, 0, 0, 1));

    fn valid() -> Ipv4Prefix {
        "10.0.0.0/24".parse().unwrap()
    }

    fn unreachable() -> InterestAnswer<Ipv4Prefix> {
        InterestAnswer { valid: valid(), route: None }
    }

    #[test]
    fn the_rib_hears_a_question_once_and_that_the_last_table_let_go() {
        let mut questions = Questions::default();
        let ask = Some(Reply::Rib(Interest::Register(ADDR)));
        assert_eq!(questions.interest(0, Interest::Register(ADDR), 0), ask);
        assert_eq!(questions.interest(1, Interest::Register(ADDR), 0), None);
        assert_eq!(questions.answer(unreachable(), 2).number, 1);
        assert_eq!(questions.interest(0, Interest::Deregister(valid()), 1), None);
        // One that asks what another knows has the answer at once, and is counted again.
        let told = Some(Reply::Table(Versioned { number: 2, answer: unreachable() }));
        assert_eq!(questions.interest(0, Interest::Register(ADDR), 1), told);
        assert_eq!(questions.interest(1, Interest::Deregister(valid()), 1), None);
        let last = Some(Reply::Rib(Interest::Deregister(valid())));
        assert_eq!(questions.interest(0, Interest::Deregister(valid()), 2), last);
    }

    #[test]
    fn what_crosses_with_an_answer_is_not_about_it() {
        let mut questions = Questions::default();
        questions.interest(0, Interest::Register(ADDR), 0);
        questions.answer(unreachable(), 2);
        // Table 1 asks, and table 0 lets an answer of before go, while this one is on its way to both.
        assert_eq!(questions.interest(1, Interest::Register(ADDR), 0), None);
        assert_eq!(questions.interest(0, Interest::Deregister(valid()), 0), None);
        assert_eq!(questions.interest(0, Interest::Deregister(valid()), 1), None);
        let last = Some(Reply::Rib(Interest::Deregister(valid())));
        assert_eq!(questions.interest(1, Interest::Deregister(valid()), 1), last);
    }
}
