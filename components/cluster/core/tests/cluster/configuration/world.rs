//! A model of elements that share a configuration: each has a disk, a keeper and perhaps a commit under way; the store is linearizable, and
//! its answers may be lost.

use sluice_base::Instant;
use sluice_cluster::configuration::decision::{Decision, Outcome, Step as DecisionStep, Written};
use sluice_cluster::configuration::keeper::{Keeper, Step};
use sluice_cluster::configuration::offer::{self, Answer, Offer};
use sluice_cluster::configuration::shared::{Author, DecisionId, Proposal, Shared};
use sluice_cluster::inventory::ElementId;
use std::collections::BTreeSet;
use std::time::Duration;

/// The number of elements.
pub const ELEMENTS: usize = 3;
/// The time for a confirmation.
const WITHIN_S: u32 = 30;

/// An event.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// An element begins a commit, with or without a confirmation.
    Commit(usize, bool),
    /// An element takes a step.
    Step(usize),
    /// An element dies, with all but its disk.
    Kill(usize),
    /// A dead element starts.
    Start(usize),
    /// The next write has no answer: the first, the third and so on are done, the rest is on the way.
    LoseAnswers,
    /// Delayed writes arrive.
    Deliver,
    /// An element refuses the next configuration, once.
    Refuses(usize),
    /// Seconds pass.
    Pass(u64),
}

/// A commit under way on an element.
enum Committing {
    Offering(Proposal),
    Deciding(Decision, String),
    Storing(DecisionId, String),
}

#[derive(Default)]
struct Element {
    is_dead: bool,
    /// The running shared part, on the disk.
    own: String,
    keeper: Keeper,
    committing: Option<(DecisionId, Committing)>,
    refuses: bool,
    starts: u64,
    decisions: u64,
}

#[derive(Default)]
struct Store {
    value: Option<Shared>,
    revision: u64,
    on_their_way: Vec<(Shared, u64)>,
    loses: bool,
    lost: usize,
    history: Vec<Shared>,
}

impl Store {
    fn write(&mut self, shared: &Shared, base: u64) -> Written {
        if std::mem::take(&mut self.loses) {
            self.lost += 1;
            match self.lost % 2 {
                0 => self.on_their_way.push((shared.clone(), base)),
                _ => drop(self.replace(shared, base)),
            }
            return Written::Unknown;
        }
        if self.replace(shared, base) { Written::Done } else { Written::Conflict }
    }

    fn replace(&mut self, shared: &Shared, base: u64) -> bool {
        let is_base = self.value.as_ref().map_or(0, |_| self.revision) == base;
        if is_base {
            self.revision += 1;
            self.value = Some(shared.clone());
            self.history.push(shared.clone());
        }
        is_base
    }

    /// Reads the value and the revision of its last change; `None` without an answer.
    fn read(&mut self) -> Option<(Option<Shared>, u64)> {
        let is_lost = std::mem::take(&mut self.loses);
        (!is_lost).then(|| (self.value.clone(), self.value.as_ref().map_or(0, |_| self.revision)))
    }

    fn deliver(&mut self) {
        for (shared, base) in std::mem::take(&mut self.on_their_way) {
            self.replace(&shared, base);
        }
    }

    fn has_decided(&self, id: DecisionId) -> bool {
        self.history.iter().any(|value| value.decision() == Some(id))
    }
}

/// The elements and their store.
#[derive(Default)]
pub struct World {
    now: u64,
    store: Store,
    elements: [Element; ELEMENTS],
    texts: usize,
    done: BTreeSet<DecisionId>,
    refused: BTreeSet<DecisionId>,
}

impl World {
    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_secs(self.now)
    }

    fn next_id(&mut self, who: usize) -> DecisionId {
        let element = &mut self.elements[who];
        element.decisions += 1;
        let number = ElementId::new(who as u16 + 1).unwrap();
        DecisionId { element: number, epoch: element.starts, count: element.decisions }
    }

    /// Lets something happen.
    pub fn happens(&mut self, event: Event) {
        match event {
            Event::Commit(who, is_confirmed) => self.begin(who, is_confirmed),
            Event::Step(who) if self.elements[who].is_dead => {}
            Event::Step(who) => match self.elements[who].committing.take() {
                Some((id, committing)) => self.commit(who, id, committing),
                None => self.keep(who),
            },
            Event::Kill(who) => {
                let Element { own, starts, .. } = std::mem::take(&mut self.elements[who]);
                self.elements[who] = Element { is_dead: true, own, starts: starts + 1, ..Element::default() };
            }
            Event::Start(who) => self.elements[who].is_dead = false,
            Event::LoseAnswers => self.store.loses = true,
            Event::Deliver => self.store.deliver(),
            Event::Refuses(who) => self.elements[who].refuses = true,
            Event::Pass(seconds) => self.now += seconds,
        }
    }

    fn begin(&mut self, who: usize, is_confirmed: bool) {
        if self.elements[who].is_dead || self.elements[who].committing.is_some() {
            return;
        }
        self.texts += 1;
        let id = self.next_id(who);
        let author = Author { user: "ann".into(), comment: String::new(), time_ms: self.now };
        let within_s = is_confirmed.then_some(WITHIN_S);
        let proposal =
            Proposal { id, text: format!("text {}", self.texts), author, within_s, confirms: false };
        self.elements[who].committing = Some((id, Committing::Offering(proposal)));
    }

    fn commit(&mut self, who: usize, id: DecisionId, committing: Committing) {
        let next = match committing {
            Committing::Offering(proposal) => self.offer(who, proposal),
            Committing::Deciding(mut decision, text) => match decision.step() {
                DecisionStep::Write(shared, base) => {
                    decision.written(self.store.write(&shared, base));
                    Some(Committing::Deciding(decision, text))
                }
                DecisionStep::Read => {
                    let found = self.store.read();
                    decision.found(found.as_ref().map(|(value, revision)| (value.as_ref(), *revision)));
                    Some(Committing::Deciding(decision, text))
                }
                DecisionStep::Over(Outcome::Decided) => Some(Committing::Storing(id, text)),
                DecisionStep::Over(Outcome::Overtaken) => {
                    self.refused.insert(id);
                    None
                }
                DecisionStep::Over(Outcome::Unknown) => None,
            },
            Committing::Storing(id, text) => {
                assert!(self.store.has_decided(id), "an element runs what is not decided");
                self.elements[who].own = text;
                self.done.insert(id);
                None
            }
        };
        if next.is_none() {
            self.elements[who].keeper.recheck();
        }
        self.elements[who].committing = next.map(|next| (id, next));
    }

    fn offer(&mut self, who: usize, proposal: Proposal) -> Option<Committing> {
        let (id, text) = (proposal.id, proposal.text.clone());
        let before = self.store.read().and_then(|(value, revision)| Some((value?, revision)));
        let before = before.filter(|(value, _)| value.text == self.elements[who].own);
        let number = |who: usize| ElementId::new(who as u16 + 1).unwrap();
        let mut offer = Offer::new((0..ELEMENTS).filter(|other| *other != who).map(number));
        for other in (0..ELEMENTS).filter(|other| *other != who) {
            let element = &mut self.elements[other];
            let answer = match () {
                () if element.is_dead => Answer::Away("dead".into()),
                () if std::mem::take(&mut element.refuses) => Answer::Refused("no".into()),
                () => Answer::Prepared,
            };
            offer.answered(number(other), answer);
        }
        match (before, offer.outcome()) {
            (Some((before, base)), Some(offer::Outcome::Accepted(_))) => {
                // A change beside a configuration that waits for its confirmation is refused.
                let Ok(after) = Shared::following(Some(&before), proposal) else {
                    self.refused.insert(id);
                    return None;
                };
                Some(Committing::Deciding(Decision::new(id, base, after), text))
            }
            _ => {
                self.refused.insert(id);
                None
            }
        }
    }

    fn keep(&mut self, who: usize) {
        let Some((value, revision)) = self.store.read() else { return };
        let (now, id) = (self.now(), self.next_id(who));
        self.elements[who].keeper.seen(now, value, revision);
        match self.elements[who].keeper.step(now, who == 0, id, self.now) {
            Step::Seed => {
                let author = Author { user: "sluice".into(), comment: String::new(), time_ms: self.now };
                let text = self.elements[who].own.clone();
                let first = Proposal { id, text, author, within_s: None, confirms: false };
                let first = Shared::following(None, first).unwrap();
                let _seen_later = self.store.write(&first, 0);
            }
            Step::Take(shared) => {
                let element = &mut self.elements[who];
                let failure = std::mem::take(&mut element.refuses).then(|| "no".into());
                if failure.is_none() {
                    element.own = shared.text.clone();
                }
                element.keeper.took(now, shared.number, failure);
            }
            Step::Revert(shared, base) => drop(self.store.write(&shared, base)),
            Step::Wait(_) => {}
        }
    }

    /// Lets all elements return, and all commits end.
    pub fn settle(&mut self) {
        self.store.deliver();
        for round in 0..40 {
            (0..ELEMENTS).for_each(|who| self.happens(Event::Start(who)));
            (0..ELEMENTS).for_each(|who| self.happens(Event::Step(who)));
            if round > 20 {
                self.happens(Event::Pass(60));
            }
        }
    }

    /// Checks the configurations of all elements against the store, and the reports.
    pub fn check(&self) {
        let value = self.store.value.as_ref().expect("the first element wrote a configuration");
        for (who, element) in self.elements.iter().enumerate() {
            assert!(element.committing.is_none(), "a commit of {who} goes on");
            assert_eq!(element.own, value.text, "element {who}");
            assert_eq!(element.keeper.taken(), Some(value.number), "element {who}");
        }
        assert!(value.back.is_none(), "nobody has confirmed");
        assert!(self.done.iter().all(|id| self.store.has_decided(*id)), "reported, and not decided");
        assert!(self.refused.iter().all(|id| !self.store.has_decided(*id)), "refused, and decided");
    }
}
