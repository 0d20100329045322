//! Principals decided for by a process outside of the router: questions go out in batches, answers come back with tokens.
//!
//! The router never waits. A question without an answer makes the decision pending; after the limit the router falls to the next
//! edge, and a late answer touches the decisions that did. Questions and answers are bounded: packets with unknown XIDs make
//! questions, and anybody can send such packets.

use crate::anchor::{Anchor, Deps, Token, Touch, Touched, hash_id};
use crate::principals::{Actions, Consult, Principal};
use crate::route::{ChangeError, Entry, Route};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sluice_base::{Duration, Instant, Xid, XidPrefix, XidType};

/// The bounds of a principal decided for from outside.
#[derive(Clone, Copy, Debug)]
pub struct OutsideLimits {
    /// The most waiting XIDs, and the most late XIDs.
    pub questions: usize,
    /// The most kept answers.
    pub answers: usize,
    /// The time after which the router falls to the next edge.
    pub patience: Duration,
}

impl Default for OutsideLimits {
    /// Returns 1,024 questions, 65,536 answers, 50 ms.
    fn default() -> Self {
        OutsideLimits { questions: 1_024, answers: 65_536, patience: Duration::from_millis(50) }
    }
}

/// An answer from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutsideAnswer {
    /// The XID is routed.
    Forward(Actions),
    /// An XID of a different type is looked up instead.
    Redirect(Xid),
    /// The principal cannot help with the XID.
    NextEdge,
}

/// The reason why an answer from outside is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerError {
    /// The XID was not asked for, or the question has been given up.
    NotAsked,
    /// The process is absent.
    Absent,
    /// The XID is not of the principal's type.
    WrongType,
    /// The XID is redirected to an XID of its own type.
    SameTypeRedirect,
}

/// An ID as a key of hash tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Id([u8; 20]);

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_id(&self.0, 0, state);
    }
}

#[derive(Clone, Copy)]
enum Held {
    /// Asked at a moment.
    Waiting,
    /// Asked, and not answered in time.
    Late,
    /// Answered.
    Answered { token: Token, answer: OutsideAnswer },
}

/// Returns true if an answer is of use.
const fn is_open(held: Option<&Held>) -> bool {
    matches!(held, Some(Held::Waiting | Held::Late))
}

/// A principal decided for from outside.
pub struct OutsidePrincipal {
    kind: XidType,
    limits: OutsideLimits,
    is_present: bool,
    held: HashMap<Id, Held, FixedState>,
    /// Waiting XIDs with the moment of the question, the oldest first. XIDs answered since are skipped.
    waiting: VecDeque<(Instant, Id)>,
    /// Late XIDs, the oldest first. XIDs answered since are skipped.
    late: VecDeque<Id>,
    /// Answered XIDs, the oldest first. XIDs taken back since are skipped.
    answered: VecDeque<(Token, Id)>,
    by_token: BTreeSet<(Token, Id)>,
    /// Questions not yet taken.
    questions: VecDeque<Id>,
    waiting_count: usize,
    late_count: usize,
}

impl OutsidePrincipal {
    /// Makes a principal whose process is absent. XIDs come from packets: a secret `seed` keeps their authors from choosing IDs that collide.
    pub fn new(kind: XidType, limits: OutsideLimits, seed: u64) -> Self {
        OutsidePrincipal {
            kind,
            limits,
            is_present: false,
            held: HashMap::with_hasher(FixedState::with_seed(seed)),
            waiting: VecDeque::new(),
            late: VecDeque::new(),
            answered: VecDeque::new(),
            by_token: BTreeSet::new(),
            questions: VecDeque::new(),
            waiting_count: 0,
            late_count: 0,
        }
    }

    const fn xid(&self, id: Id) -> Xid {
        Xid { kind: self.kind, id: id.0 }
    }

    /// Records that the process is present or absent. An absent process makes the router fall to the next edge at once; its answers are
    /// forgotten.
    pub fn set_present(&mut self, is_present: bool) -> Touched {
        if self.is_present == is_present {
            return Touched::new();
        }
        self.is_present = is_present;
        self.held.clear();
        self.waiting.clear();
        self.late.clear();
        self.answered.clear();
        self.by_token.clear();
        self.questions.clear();
        (self.waiting_count, self.late_count) = (0, 0);
        core::iter::once(Touch::principal(self.kind)).collect()
    }

    /// Asks about an XID whose decision is pending. Asking again is harmless.
    pub fn ask(&mut self, now: Instant, xid: Xid) {
        let id = Id(xid.id);
        if self.is_present && self.waiting_count < self.limits.questions && !self.held.contains_key(&id) {
            self.held.insert(id, Held::Waiting);
            self.waiting.push_back((now, id));
            if self.questions.len() >= 2 * self.limits.questions {
                // A process that takes no questions leaves those that were given up meanwhile.
                let held = &self.held;
                self.questions.retain(|id| is_open(held.get(id)));
            }
            self.questions.push_back(id);
            self.waiting_count += 1;
        }
    }

    /// Returns up to `most` questions not taken before, without those that need no answer any more.
    pub fn take_questions(&mut self, most: usize) -> Vec<Xid> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let Some(id) = self.questions.pop_front() else { break };
            if is_open(self.held.get(&id)) {
                taken.push(self.xid(id));
            }
        }
        taken
    }

    /// Gives up questions that did not reach the process: the next packet asks again.
    pub(crate) fn give_up(&mut self, xids: &[Xid]) -> Vec<Touch> {
        let mut touched = Vec::new();
        for xid in xids {
            let id = Id(xid.id);
            match self.held.get(&id) {
                Some(Held::Waiting) => self.waiting_count -= 1,
                Some(Held::Late) => self.late_count -= 1,
                Some(Held::Answered { .. }) | None => continue,
            }
            self.held.remove(&id);
            touched.push(Touch::entry(self.xid(id)));
        }
        touched
    }

    /// Returns true if the process is present.
    pub fn is_present(&self) -> bool {
        self.is_present
    }

    /// Returns true if decisions wait for the answer about an XID.
    pub fn is_waiting(&self, xid: Xid) -> bool {
        xid.kind == self.kind && matches!(self.held.get(&Id(xid.id)), Some(Held::Waiting))
    }

    /// Returns true if the answer about an XID would come after the limit.
    pub fn is_late(&self, xid: Xid) -> bool {
        xid.kind == self.kind && matches!(self.held.get(&Id(xid.id)), Some(Held::Late))
    }

    /// Takes an answer to a question, in time or late, or in place of an earlier answer.
    ///
    /// # Errors
    /// The process is absent, the XID is of another type or was not asked for (such answers would fill the table), or is redirected
    /// to its own type.
    pub fn answer(&mut self, xid: Xid, token: Token, answer: OutsideAnswer) -> Result<Touched, AnswerError> {
        if !self.is_present {
            return Err(AnswerError::Absent);
        }
        if xid.kind != self.kind {
            return Err(AnswerError::WrongType);
        }
        if matches!(answer, OutsideAnswer::Redirect(target) if target.kind == self.kind) {
            return Err(AnswerError::SameTypeRedirect);
        }
        let id = Id(xid.id);
        let held = self.held.get_mut(&id).ok_or(AnswerError::NotAsked)?;
        if matches!(held, Held::Answered { token: before, answer: same } if *before == token && *same == answer)
        {
            return Ok(Touched::new());
        }
        match core::mem::replace(held, Held::Answered { token, answer }) {
            Held::Waiting => self.waiting_count -= 1,
            Held::Late => self.late_count -= 1,
            Held::Answered { token, .. } => {
                self.by_token.remove(&(token, id));
            }
        }
        self.by_token.insert((token, id));
        self.answered.push_back((token, id));
        let mut touched: Touched = core::iter::once(Touch::entry(xid)).collect();
        while self.by_token.len() > self.limits.answers {
            let Some((token, id)) = self.answered.pop_front() else { break };
            if self.by_token.remove(&(token, id)) {
                self.held.remove(&id);
                touched.push(Touch::entry(self.xid(id)));
            }
        }
        if self.answered.len() > 2 * self.limits.answers.max(self.by_token.len()) {
            let by_token = &self.by_token;
            self.answered.retain(|answered| by_token.contains(answered));
        }
        Ok(touched)
    }

    /// Takes back all answers with a token: decisions on such answers must be made anew.
    pub fn take_back(&mut self, token: Token) -> Touched {
        let of_token = (token, Id([0; 20]))..=(token, Id([0xff; 20]));
        let ids: Vec<Id> = self.by_token.range(of_token).map(|(_, id)| *id).collect();
        for id in &ids {
            self.by_token.remove(&(token, *id));
            self.held.remove(id);
        }
        let touch = Touch::Anchor(Anchor::Answer { kind: self.kind, token });
        (!ids.is_empty()).then_some(touch).into_iter().collect()
    }

    /// Returns the moment at which the oldest question becomes late.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|(asked, _)| *asked + self.limits.patience)
    }

    /// Makes old questions late: the router falls to the next edge for their XIDs. A touch for each XID that became late, and for each
    /// late XID that was given up, so that packets and decisions that wait for the XID are decided anew.
    pub fn on_deadline(&mut self, now: Instant) -> Vec<Touch> {
        let mut touched = Vec::new();
        while let Some((asked, id)) = self.waiting.front().copied() {
            if asked + self.limits.patience > now {
                break;
            }
            self.waiting.pop_front();
            if let Some(held @ Held::Waiting) = self.held.get_mut(&id) {
                *held = Held::Late;
                self.waiting_count -= 1;
                self.late_count += 1;
                self.late.push_back(id);
                touched.push(Touch::entry(self.xid(id)));
            }
        }
        while self.late.len() > self.limits.questions {
            let Some(id) = self.late.pop_front() else { break };
            if matches!(self.held.get(&id), Some(Held::Late)) {
                self.held.remove(&id);
                self.late_count -= 1;
                touched.push(Touch::entry(self.xid(id)));
            }
        }
        touched
    }

    /// Returns the numbers of waiting XIDs, of late XIDs, and of answered XIDs.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.waiting_count, self.late_count, self.by_token.len())
    }
}

impl Principal for OutsidePrincipal {
    fn kind(&self) -> XidType {
        self.kind
    }

    fn consult(&self, xid: Xid, deps: &mut Deps) -> Consult {
        if !self.is_present {
            return Consult::NextEdge;
        }
        deps.push(Anchor::Entry(xid));
        match self.held.get(&Id(xid.id)) {
            Some(Held::Answered { token, answer }) => {
                deps.push(Anchor::Answer { kind: self.kind, token: *token });
                match *answer {
                    OutsideAnswer::Forward(actions) => Consult::Forward(actions),
                    OutsideAnswer::Redirect(target) => Consult::Redirect(target),
                    OutsideAnswer::NextEdge => Consult::NextEdge,
                }
            }
            Some(Held::Late) => Consult::NextEdge,
            Some(Held::Waiting) => Consult::Pending,
            None if self.waiting_count < self.limits.questions => Consult::Pending,
            None => {
                deps.set_temporary(); // no anchor shows when there is room for a question again
                Consult::NextEdge
            }
        }
    }

    fn change(&mut self, _prefix: XidPrefix, _route: Option<Route>) -> Result<Touched, ChangeError> {
        Err(ChangeError::NoTable)
    }

    fn view(&self, _after: Option<XidPrefix>, _most: usize) -> Vec<Entry> {
        Vec::new()
    }

    fn entry_count(&self) -> usize {
        self.by_token.len()
    }
}
