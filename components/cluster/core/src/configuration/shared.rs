//! The value in the store: the text of the shared part, the author, and the text to go back to without a confirmation.

use crate::inventory::ElementId;
use crate::stream::wire::{self, DecodeError};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The most octets of a text. A value has two texts at most, and the store accepts 1.5 MB.
pub const MOST_TEXT: usize = 512 << 10;
/// The most octets of a user's name or a comment; the rest is cut off.
pub const MOST_WORDS: usize = 1024;
/// The number of remembered decisions in a value. A writer without an answer looks for its decision there.
pub const REMEMBERED: usize = 16;

/// The unique name of a decision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct DecisionId {
    /// The deciding element.
    pub element: ElementId,
    /// The start of the element's process, in milliseconds since 1970.
    pub epoch: u64,
    /// The number of the decision since the start.
    pub count: u64,
}

/// The author of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Author {
    /// The user, on the element of the decision.
    pub user: String,
    /// The comment.
    pub comment: String,
    /// The time at the element, in milliseconds since 1970.
    pub time_ms: u64,
}

/// The return from an unconfirmed configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Return {
    /// The wait for a confirmation, in seconds.
    pub within_s: u32,
    /// The text to go back to.
    pub text: String,
    /// The number of the configuration with the text.
    pub number: u64,
}

/// A configuration of all elements.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shared {
    /// The number, from 1, larger by 1 with each decision.
    pub number: u64,
    /// The text of the shared part.
    pub text: String,
    /// The author.
    pub author: Author,
    /// The return, if the configuration has to be confirmed.
    pub back: Option<Return>,
    /// The last decisions, the newest at the end.
    decisions: Vec<DecisionId>,
}

/// The successor of a configuration, before the decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// The decision.
    pub id: DecisionId,
    /// The text of the shared part.
    pub text: String,
    /// The author.
    pub author: Author,
    /// The wait for a confirmation, in seconds; `None`: no confirmation is needed.
    pub within_s: Option<u32>,
    /// True if the configuration before, which waits for its confirmation, is confirmed too.
    pub confirms: bool,
}

/// The reason why a configuration cannot be shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedError {
    /// The text has so many octets.
    Long(usize),
    /// The configuration with this number waits for its confirmation.
    Unconfirmed(u64),
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharedError::Long(octets) => {
                write!(f, "the configuration has {octets} octets, and elements share {MOST_TEXT} at most")
            }
            SharedError::Unconfirmed(number) => write!(
                f,
                "configuration {number} of all elements waits for its confirmation; `commit confirm` confirms it together with your \
                 changes, and `commit confirmed MINUTES` lets both wait"
            ),
        }
    }
}

impl core::error::Error for SharedError {}

/// Cuts a text at a character.
fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MOST_WORDS)).unwrap_or_default().to_string()
}

impl Shared {
    /// Returns the configuration that follows `before`, or the first configuration.
    ///
    /// # Errors
    /// The text is too long, or changes a configuration that waits for its confirmation and does not confirm it.
    pub fn following(before: Option<&Shared>, proposal: Proposal) -> Result<Self, SharedError> {
        let Proposal { id, text, author, within_s, confirms } = proposal;
        if text.len() > MOST_TEXT {
            return Err(SharedError::Long(text.len()));
        }
        if within_s.is_none()
            && !confirms
            && let Some(before) = before
            && before.back.as_ref().is_some_and(|back| text != before.text && text != back.text)
        {
            return Err(SharedError::Unconfirmed(before.number));
        }
        let mut decisions: Vec<DecisionId> =
            before.map(|before| before.decisions.clone()).unwrap_or_default();
        decisions.push(id);
        let surplus = decisions.len().saturating_sub(REMEMBERED);
        decisions.drain(..surplus);
        // Two in a row go back to the configuration that held for good.
        let back = within_s.zip(before).map(|(within_s, before)| match &before.back {
            Some(back) => Return { within_s, ..back.clone() },
            None => Return { within_s, text: before.text.clone(), number: before.number },
        });
        Ok(Shared {
            number: before.map_or(0, |before| before.number).saturating_add(1),
            text,
            author: Author { user: cut(&author.user), comment: cut(&author.comment), ..author },
            back,
            decisions,
        })
    }

    /// Returns the configuration that follows without a confirmation; `None` if no confirmation is needed.
    pub fn reverted(&self, id: DecisionId, time_ms: u64) -> Option<Self> {
        let back = self.back.as_ref()?;
        let comment = alloc::format!("not confirmed in time: back to configuration {}", back.number);
        let author = Author { user: "sluice".into(), comment, time_ms };
        let proposal = Proposal { id, text: back.text.clone(), author, within_s: None, confirms: false };
        Self::following(Some(self), proposal).ok()
    }

    /// Returns the decision behind the configuration.
    pub fn decision(&self) -> Option<DecisionId> {
        self.decisions.last().copied()
    }

    /// Returns true if a decision is among the remembered decisions.
    pub fn follows(&self, id: DecisionId) -> bool {
        self.decisions.contains(&id)
    }

    /// Returns the element with the editor.
    pub fn element(&self) -> Option<ElementId> {
        self.decision().map(|id| id.element)
    }

    /// Writes the value.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The value is of another version, malformed, or larger than allowed.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let shared: Shared = wire::decode(octets)?;
        let is_short = shared.text.len() <= MOST_TEXT
            && shared.back.as_ref().is_none_or(|back| back.text.len() <= MOST_TEXT)
            && shared.author.user.len() <= MOST_WORDS
            && shared.author.comment.len() <= MOST_WORDS
            && shared.decisions.len() <= REMEMBERED;
        if is_short { Ok(shared) } else { Err(DecodeError::Malformed) }
    }
}
