//! Marks of a text, before their statements are in the tree.

use super::words::{ANNOTATE, DEACTIVATE, INACTIVE};
use crate::schema::index::{Id, Index};
use crate::text::{Statement, Word};
use std::sync::Arc;

/// A mark in a text, to be put into the tree when the statements are in it.
pub(crate) enum Pending {
    /// An inactive statement, or a part of an inactive statement: the words from the top, and the number of words
    /// before the statement.
    Inactive { words: Vec<Word>, before: usize, inner: Option<Vec<Statement>> },
    /// A statement that was set before, and is inactive.
    Deactivated { words: Vec<Word> },
    /// A text about a statement.
    Note { words: Vec<Word>, text: Word },
}

impl Pending {
    /// Reads a mark, in a block of a definition and a path; `None` if the statement is no mark.
    pub fn read(
        index: &Index,
        def: Id,
        trail: &[Arc<str>],
        words: &[Word],
        inner: Option<&[Statement]>,
    ) -> Option<Self> {
        let (verb, rest) = words.split_first()?;
        let above = || trail.iter().map(|word| Word { text: word.to_string(), place: verb.place });
        if index[def].child(&verb.text).is_none() {
            match (verb.text.as_str(), rest) {
                (DEACTIVATE, rest) => {
                    return Some(Pending::Deactivated {
                        words: above().chain(rest.iter().cloned()).collect(),
                    });
                }
                (ANNOTATE, [rest @ .., text]) => {
                    let words = above().chain(rest.iter().cloned()).collect();
                    return Some(Pending::Note { words, text: text.clone() });
                }
                _ => {}
            }
        }
        let at = marker(index, def, words)?;
        let all = words[..at].iter().chain(&words[at + 1..]).cloned();
        Some(Pending::Inactive {
            words: above().chain(all).collect(),
            before: trail.len() + at,
            inner: inner.map(<[Statement]>::to_vec),
        })
    }
}

/// The number of words before [`INACTIVE`], where it stands in the place of a name.
fn marker(index: &Index, def: Id, words: &[Word]) -> Option<usize> {
    if words.iter().all(|word| word.text != INACTIVE) {
        return None;
    }
    let (mut id, mut at) = (def, 0);
    while let Some(word) = words.get(at) {
        match index[id].child(&word.text) {
            None => return (word.text == INACTIVE).then_some(at),
            Some(child) => id = child,
        }
        at += 1 + index[id].keys().len();
    }
    None
}
