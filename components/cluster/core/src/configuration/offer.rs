//! The offer of a configuration to all other elements: each element checks whether the configuration can run there, and nothing changes.

use crate::inventory::ElementId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

/// The answer of an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The configuration can run there.
    Prepared,
    /// The configuration cannot run there, for a reason.
    Refused(String),
    /// The element does not answer, for a reason: the element takes the newest configuration after its return.
    Away(String),
    /// The element keeps a configuration of its own.
    Apart,
}

/// The absence of an element from a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Absence {
    /// The element does not answer, for a reason.
    Away(String),
    /// The element keeps a configuration of its own.
    Apart,
}

/// The end of an offer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// No element refuses the configuration. The named elements have no part in the commit.
    Accepted(BTreeMap<ElementId, Absence>),
    /// An element refuses the configuration, for a reason.
    Refused(ElementId, String),
}

/// An offer under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    waiting: BTreeSet<ElementId>,
    absent: BTreeMap<ElementId, Absence>,
    refused: Option<(ElementId, String)>,
}

impl Offer {
    /// Begins with the elements to ask.
    pub fn new(elements: impl IntoIterator<Item = ElementId>) -> Self {
        Offer { waiting: elements.into_iter().collect(), absent: BTreeMap::new(), refused: None }
    }

    /// Notes an answer. Late and unexpected answers are ignored.
    pub fn answered(&mut self, element: ElementId, answer: Answer) {
        if !self.waiting.remove(&element) {
            return;
        }
        match answer {
            Answer::Prepared => {}
            Answer::Refused(reason) => drop(self.refused.get_or_insert((element, reason))),
            Answer::Away(reason) => drop(self.absent.insert(element, Absence::Away(reason))),
            Answer::Apart => drop(self.absent.insert(element, Absence::Apart)),
        }
    }

    /// Returns the end: when an element refuses, or when all have answered. `None` before.
    pub fn outcome(&self) -> Option<Outcome> {
        match &self.refused {
            Some((element, reason)) => Some(Outcome::Refused(*element, reason.clone())),
            None => self.waiting.is_empty().then(|| Outcome::Accepted(self.absent.clone())),
        }
    }
}
