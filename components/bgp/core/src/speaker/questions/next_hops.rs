//! The shards' questions to the RIB about next hops of a family.
//!
//! Each shard asks about the next hops of its own paths and releases answers without use. A shard is a family's part of a table;
//! several families may have next hops of the same family. The RIB receives a question once, and the release of an answer when
//! the last shard has released it. A shard that asks about a known address gets the answer at once.
//!
//! Tables may run on further threads, so questions and answers may cross. Answers are therefore numbered, and each question
//! carries the number of the newest answer seen by the shard: an older question is not about the answer.

use crate::family::{ByFamily, FamilyIndex};
use crate::shard::Interest;
use crate::speaker::messages::Output;
use crate::table::{Order, Versioned};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use sluice_base::Provenance;
use sluice_base::interest::InterestAnswer;
use sluice_base::prefix::Prefix;
use sluice_machine::Outbox;

struct Held<P: Prefix> {
    answer: InterestAnswer<P>,
    /// By table and family: the number with which the shard was sent; 0 if the shard has no use for the answer.
    sent: Vec<ByFamily<u64>>,
}

/// A shard: the number of the table, and the family.
pub(crate) type Asker = (usize, FamilyIndex);

/// The consequence of a shard's question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply<P: Prefix> {
    /// The RIB is to be sent a question or a release.
    Rib(Interest<P>),
    /// The table is to be sent.
    Table(Versioned<P>),
}

/// Open questions, and valid answers.
pub(crate) struct Questions<P: Prefix> {
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

impl<P: Prefix> Questions<P> {
    /// Takes a question or a release of a shard, which has seen answers up to number `seen`.
    pub fn interest(&mut self, shard: Asker, interest: Interest<P>, seen: u64) -> Option<Reply<P>> {
        match interest {
            Interest::Register(addr) => self.register(shard, addr, seen),
            Interest::Deregister(valid) => self.deregister(shard, valid, seen).map(Reply::Rib),
        }
    }

    fn register(&mut self, (table, family): Asker, addr: P::Addr, seen: u64) -> Option<Reply<P>> {
        let around = self.held.range_mut(..=P::host(addr)).next_back();
        let Some((_, held)) = around.filter(|(valid, _)| valid.contains(addr)) else {
            return self.asked.insert(addr).then_some(Reply::Rib(Interest::Register(addr)));
        };
        let sent = &mut held.sent.get_mut(table)?[family];
        if *sent > seen {
            // The answer is on its way.
            return None;
        }
        self.number += 1;
        *sent = self.number;
        Some(Reply::Table(Versioned { number: self.number, answer: held.answer.clone() }))
    }

    fn deregister(&mut self, (table, family): Asker, valid: P, seen: u64) -> Option<Interest<P>> {
        let held = self.held.get_mut(&valid)?;
        let sent = &mut held.sent.get_mut(table)?[family];
        if *sent > seen {
            // It let an older answer go.
            return None;
        }
        *sent = 0;
        if held.sent.iter().any(|sent| sent.iter().any(|(_, number)| *number > 0)) {
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
        // Families with next hops of another family do not ask here.
        let asks = |number| ByFamily::from_fn(|family| if family.row().hops == P::ID { number } else { 0 });
        let sent = core::iter::repeat_n(asks(self.number), tables).collect();
        self.held.insert(valid, Held { answer: answer.clone(), sent });
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

/// The outputs by which a question of a family is passed on: to the RIB, or as an answer to the table.
type Asking<P> = (fn(Interest<P>) -> Output, fn(Versioned<P>, Provenance) -> Order);

/// Passes a shard's question on to the RIB, or answers it by an earlier answer of the RIB. The shard has seen answers up to a number.
pub(crate) fn ask<P: Prefix>(
    questions: &mut Questions<P>,
    shard: Asker,
    (interest, seen): (Interest<P>, u64),
    (to_rib, to_table): Asking<P>,
    out: &mut Outbox<Output>,
) {
    match questions.interest(shard, interest, seen) {
        None => {}
        Some(Reply::Rib(interest)) => out.push(to_rib(interest)),
        Some(Reply::Table(answer)) => {
            out.push(Output::Order(Some(shard.0), to_table(answer, Provenance::NONE)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use sluice_base::Ipv6Prefix;
    use sluice_base::ip::V6Addr;

    const ADDR: V6Addr = V6Addr(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

    fn valid() -> Ipv6Prefix {
        "2001:db8::/64".parse().unwrap()
    }

    fn unreachable() -> InterestAnswer<Ipv6Prefix> {
        InterestAnswer { valid: valid(), route: None }
    }

    #[test]
    fn the_rib_receives_a_question_once_and_the_release_of_the_last_table() {
        let mut questions = Questions::default();
        let ask = Some(Reply::Rib(Interest::Register(ADDR)));
        assert_eq!(questions.interest((0, FamilyIndex::IPV6), Interest::Register(ADDR), 0), ask);
        assert_eq!(questions.interest((1, FamilyIndex::IPV6), Interest::Register(ADDR), 0), None);
        assert_eq!(questions.answer(unreachable(), 2).number, 1);
        assert_eq!(questions.interest((0, FamilyIndex::IPV6), Interest::Deregister(valid()), 1), None);
        // One that asks what another knows has the answer at once, and is counted again.
        let sent = Some(Reply::Table(Versioned { number: 2, answer: unreachable() }));
        assert_eq!(questions.interest((0, FamilyIndex::IPV6), Interest::Register(ADDR), 1), sent);
        assert_eq!(questions.interest((1, FamilyIndex::IPV6), Interest::Deregister(valid()), 1), None);
        let last = Some(Reply::Rib(Interest::Deregister(valid())));
        assert_eq!(questions.interest((0, FamilyIndex::IPV6), Interest::Deregister(valid()), 2), last);
    }

    #[test]
    fn what_crosses_with_an_answer_is_not_about_it() {
        let mut questions = Questions::default();
        questions.interest((0, FamilyIndex::IPV6), Interest::Register(ADDR), 0);
        questions.answer(unreachable(), 2);
        // Table 1 asks, and table 0 lets an answer of before go, while this one is on its way to both.
        assert_eq!(questions.interest((1, FamilyIndex::IPV6), Interest::Register(ADDR), 0), None);
        assert_eq!(questions.interest((0, FamilyIndex::IPV6), Interest::Deregister(valid()), 0), None);
        assert_eq!(questions.interest((0, FamilyIndex::IPV6), Interest::Deregister(valid()), 1), None);
        let last = Some(Reply::Rib(Interest::Deregister(valid())));
        assert_eq!(questions.interest((1, FamilyIndex::IPV6), Interest::Deregister(valid()), 1), last);
    }
}
