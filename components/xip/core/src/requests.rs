//! Requests about types that processes outside decide for: registration, answers, tokens taken back.

use crate::anchor::{Token, Touched};
use crate::cache::Lines;
use crate::io::Output;
use crate::machine::Xip;
use crate::outside::{AnswerError, OutsideAnswer, OutsideLimits, OutsidePrincipal};
use crate::outsiders::{MOST_TYPES, OutsideReason, Outsider, Outsiders, RegisterError, Registration};
use crate::principals::catalog;
use crate::registry::Registered;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sluice_base::{Instant, Xid, XidType};
use sluice_machine::{Outbox, Request};

/// The most XIDs of a batch of questions.
pub const BATCH: usize = 256;

/// Registers a process for a type. The process is present from then on.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// The type.
    pub kind: XidType,
}

/// The end of a registration.
#[derive(Clone, Copy, Debug)]
pub struct Unregister {
    /// The type.
    pub kind: XidType,
    /// The registration. The end of an earlier one changes nothing.
    pub registration: Registration,
    /// True if the process died: the type is shown as absent until a process registers again.
    pub has_died: bool,
}

/// An answer about an XID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statement {
    /// The XID.
    pub xid: Xid,
    /// The token by which the answer can be taken back.
    pub token: Token,
    /// The answer.
    pub answer: OutsideAnswer,
}

/// Answers of a process, in order.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The type.
    pub kind: XidType,
    /// The registration of the process.
    pub registration: Registration,
    /// The answers.
    pub answers: Vec<Statement>,
}

/// The end of all answers with one of these tokens.
#[derive(Clone, Debug)]
pub struct TakeBack {
    /// The type.
    pub kind: XidType,
    /// The registration of the process.
    pub registration: Registration,
    /// The tokens.
    pub tokens: Vec<Token>,
}

/// A batch of questions left the queue of the process.
#[derive(Clone, Debug)]
pub struct BatchDone {
    /// The type.
    pub kind: XidType,
    /// The registration of the process.
    pub registration: Registration,
    /// The questions, if the process did not take them.
    pub failed: Vec<Xid>,
}

impl<L: Lines> Request<Xip<L>> for Register {
    type Answer = Result<Registration, RegisterError>;

    fn make(self, xip: &mut Xip<L>, now: Instant, out: &mut Outbox<Output>) -> Self::Answer {
        let kind = self.kind;
        let is_inside = xip.answers.router().registry().get(kind).is_some()
            && xip.answers.router().registry().outside(kind).is_none();
        if kind == XidType::NAT {
            return Err(RegisterError::NotAType);
        } else if is_inside || catalog::CATALOG.iter().any(|row| row.number == kind) {
            return Err(RegisterError::BuiltIn);
        }
        match xip.outsiders.get(kind) {
            Some(outsider) if outsider.is_present => return Err(RegisterError::Taken),
            None if xip.outsiders.by_type.len() >= MOST_TYPES => {
                // A type whose process died makes room.
                let absent = xip.outsiders.iter().find(|(_, outsider)| !outsider.is_present);
                let absent = absent.map(|(kind, _)| kind).ok_or(RegisterError::Full)?;
                xip.outsiders.by_type.remove(&absent);
                xip.answers.change(now, |router| ((), router.unregister(absent)));
                xip.fill(now, absent, out);
            }
            _ => {}
        }
        xip.outsiders.last += 1;
        let registration = Registration(xip.outsiders.last);
        let counts = xip.outsiders.get(kind).map_or([0; OutsideReason::ALL.len()], |before| before.counts);
        let outsider = Outsider { registration, is_present: true, is_asking: false, second: (0, 0), counts };
        xip.outsiders.by_type.insert(kind, outsider);
        let mut principal = OutsidePrincipal::new(kind, OutsideLimits::default(), xip.seed);
        let _ = principal.set_present(true);
        let principal = Registered::Outside(Box::new(principal));
        // The registry has room for `MOST_TYPES` beside all principals that can be configured.
        xip.answers.change(now, |router| ((), router.register(principal).unwrap_or_default()));
        xip.fill(now, kind, out);
        Ok(registration)
    }
}

impl<L: Lines> Request<Xip<L>> for Unregister {
    type Answer = ();

    fn make(self, xip: &mut Xip<L>, now: Instant, out: &mut Outbox<Output>) {
        let Some(outsider) = xip.outsiders.holder(self.kind, self.registration) else { return };
        if self.has_died {
            outsider.is_present = false;
            outsider.count(OutsideReason::Died, 1);
            xip.change_outside(now, self.kind, |principal| principal.set_present(false));
        } else {
            xip.outsiders.by_type.remove(&self.kind);
            xip.answers.change(now, |router| ((), router.unregister(self.kind)));
            xip.fill(now, self.kind, out);
        }
        xip.release_waiting(now, out);
    }
}

impl<L: Lines> Request<Xip<L>> for Answers {
    /// The number of refused answers, with the reason of the first one.
    type Answer = (u32, Option<OutsideReason>);

    fn make(self, xip: &mut Xip<L>, now: Instant, out: &mut Outbox<Output>) -> Self::Answer {
        let (mut refused, mut first) = (0, None);
        for Statement { xid, token, answer } in self.answers {
            let Some(outsider) = xip.outsiders.holder(self.kind, self.registration) else { break };
            let is_allowed = outsider.may_say(now);
            let registry = xip.answers.router().registry();
            let is_late = registry.outside(self.kind).is_some_and(|principal| principal.is_late(xid));
            let mut result = Ok(());
            if is_allowed {
                xip.change_outside(now, self.kind, |principal| {
                    principal.answer(xid, token, answer).unwrap_or_else(|error| {
                        result = Err(error);
                        Touched::new()
                    })
                });
            }
            let reason = match result {
                _ if !is_allowed => OutsideReason::TooMany,
                Ok(()) if is_late => OutsideReason::Late,
                Ok(()) => OutsideReason::Answered,
                Err(AnswerError::WrongType) => OutsideReason::WrongType,
                Err(AnswerError::SameTypeRedirect) => OutsideReason::SameTypeRedirect,
                Err(AnswerError::NotAsked | AnswerError::Absent) => OutsideReason::NotAsked,
            };
            if !is_allowed || result.is_err() {
                refused += 1;
                first.get_or_insert(reason);
            }
            xip.count_outside(self.kind, reason, 1);
        }
        xip.release_waiting(now, out);
        xip.ask(out);
        (refused, first)
    }
}

impl<L: Lines> Request<Xip<L>> for TakeBack {
    /// The number of refused tokens.
    type Answer = u32;

    fn make(self, xip: &mut Xip<L>, now: Instant, out: &mut Outbox<Output>) -> u32 {
        let mut refused = 0;
        for token in self.tokens {
            let Some(outsider) = xip.outsiders.holder(self.kind, self.registration) else { break };
            if outsider.may_say(now) {
                outsider.count(OutsideReason::TakenBack, 1);
                xip.change_outside(now, self.kind, |principal| principal.take_back(token));
            } else {
                outsider.count(OutsideReason::TooMany, 1);
                refused += 1;
            }
        }
        xip.ask(out);
        refused
    }
}

impl<L: Lines> Request<Xip<L>> for BatchDone {
    type Answer = ();

    fn make(self, xip: &mut Xip<L>, now: Instant, out: &mut Outbox<Output>) {
        let Some(outsider) = xip.outsiders.holder(self.kind, self.registration) else { return };
        outsider.is_asking = false;
        outsider.count(OutsideReason::NotTaken, self.failed.len() as u64);
        let given_up = |principal: &mut OutsidePrincipal| principal.give_up(&self.failed).into();
        xip.change_outside(now, self.kind, given_up);
        xip.release_waiting(now, out);
        xip.ask(out);
    }
}

impl<L: Lines> Xip<L> {
    /// Returns the types that processes outside decide for.
    pub fn outsiders(&self) -> &Outsiders {
        &self.outsiders
    }

    fn change_outside(
        &mut self,
        now: Instant,
        kind: XidType,
        change: impl FnOnce(&mut OutsidePrincipal) -> Touched,
    ) {
        self.answers.change(now, |router| {
            let touched = router.registry_mut().outside_mut(kind).map(change);
            ((), touched.unwrap_or_default())
        });
    }

    fn count_outside(&mut self, kind: XidType, reason: OutsideReason, more: u64) {
        if let Some(outsider) = self.outsiders.by_type.get_mut(&kind) {
            outsider.count(reason, more);
        }
    }

    /// Returns the moment at which the first question becomes late.
    pub(crate) fn outside_deadline(&self) -> Option<Instant> {
        let registry = self.answers.router().registry();
        let of_type = |kind: &XidType| registry.outside(*kind)?.next_deadline();
        self.outsiders.by_type.keys().filter_map(of_type).min()
    }

    /// Makes questions late whose time is over: their packets take the next edge.
    pub(crate) fn outside_late(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.outside_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let kinds: Vec<XidType> = self.outsiders.by_type.keys().copied().collect();
        for kind in kinds {
            let mut late = 0;
            self.change_outside(now, kind, |principal| {
                let before = principal.counts().0;
                let touched = principal.on_deadline(now);
                late = before - principal.counts().0;
                touched.into()
            });
            self.count_outside(kind, OutsideReason::Unanswered, late as u64);
        }
        self.release_waiting(now, out);
    }

    /// Sends each process that has taken its last batch the next one.
    pub(crate) fn ask(&mut self, out: &mut Outbox<Output>) {
        for (kind, outsider) in &mut self.outsiders.by_type {
            if outsider.is_asking || !outsider.is_present {
                continue;
            }
            let principal = self.answers.router_mut().registry_mut().outside_mut(*kind);
            let xids = principal.map(|principal| principal.take_questions(BATCH)).unwrap_or_default();
            if !xids.is_empty() {
                outsider.is_asking = true;
                outsider.count(OutsideReason::Asked, xids.len() as u64);
                out.push(Output::Ask { kind: *kind, registration: outsider.registration, xids });
            }
        }
    }
}
