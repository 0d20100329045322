//! Comments of a text, carried over to a similar text.
//!
//! A comment belongs to the following statement, or to the preceding statement on the comment's line. Comments before
//! the first blank line of a text are its head. In the new text each comment moves to the line of its statement: a
//! statement with equal words, or, after a change of the value, with equal words except the last; the values of a list do not count.
//! Comments behind the last statement of a block, or of the text, stay there. Comments of removed statements are kept apart, for the time when
//! the statements come back.

use super::words::INACTIVE;
use crate::text::{parse, quoted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Comments of a statement.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Comments {
    /// Lines above the statement.
    above: Vec<String>,
    /// The comment behind the statement.
    behind: Option<String>,
    /// Lines before the end of the statement's block.
    end: Vec<String>,
}

impl Comments {
    /// Returns true if the lines are comments and nothing else.
    fn are_comments(&self) -> bool {
        let behind: Vec<String> = self.behind.iter().cloned().collect();
        [&self.above, &behind, &self.end].into_iter().all(|lines| {
            let text = lines.join("\n");
            // What would not end goes on into the next line.
            let is_ended = parse("comments", &text).is_ok_and(|statements| statements.is_empty());
            is_ended && pieces(&text).iter().all(|piece| matches!(piece, Piece::Comment(_) | Piece::Lines(_)))
        })
    }

    fn octets(&self) -> usize {
        self.above.iter().chain(&self.end).chain(&self.behind).map(String::len).sum()
    }
}

/// Comments of statements that were removed, by statement.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeptComments(BTreeMap<String, Comments>);

impl KeptComments {
    /// Reads what [`KeptComments::text`] wrote. Of a damaged text nothing is kept, and nothing that is more than a comment.
    pub fn parse(text: &str) -> Self {
        let mut kept: KeptComments = serde_json::from_str(text).unwrap_or_default();
        kept.0.retain(|_, comments| comments.are_comments());
        kept
    }

    /// Returns the comments as a text.
    pub fn text(&self) -> String {
        // Maps of texts always have one.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Keeps the comments of statements that are in no text now: as many as there is room for.
    fn keep(&mut self, left: HashMap<String, Comments>) {
        let mut octets = 0;
        let left: BTreeMap<String, Comments> = left.into_iter().collect();
        let has_room = |(path, comments): &(String, Comments)| {
            octets += path.len() + comments.octets();
            octets <= MOST
        };
        self.0 = left.into_iter().filter(has_room).collect();
    }
}

/// The comments of a text.
#[derive(Default)]
struct Collected {
    /// Lines above the first statement, with a blank line behind them.
    head: Vec<String>,
    /// Lines behind the last statement.
    tail: Vec<String>,
    /// Comments by statement.
    comments: HashMap<String, Comments>,
    /// The statements of the text.
    statements: HashSet<String>,
}

/// The most octets of comments carried over.
const MOST: usize = 1 << 20;

/// A piece of a text.
enum Piece<'t> {
    Word(&'t str),
    Open,
    Close,
    /// The values of a list follow.
    List,
    End,
    Comment(&'t str),
    /// Ends of lines between other pieces: how many.
    Lines(usize),
}

/// Returns `new`, as it is rendered, with the comments of `old`, and with those of `kept` for statements that come back.
pub fn carry(old: &str, new: &str, kept: &mut KeptComments) -> String {
    if kept.0.is_empty() && !["#", "//", "/*"].iter().any(|sign| old.contains(sign)) {
        return new.to_owned();
    }
    let mut collected = collect(old);
    // By the words but the last, for values that are others now.
    let mut by_name: HashMap<String, String> = HashMap::new();
    for path in collected.comments.keys() {
        if let Some((name, _)) = path.rsplit_once(' ') {
            by_name.insert(name.to_owned(), path.clone());
        }
    }
    // The comments of the text on a statement count, also if there are none.
    for (path, comments) in std::mem::take(&mut kept.0) {
        if !collected.statements.contains(&path) {
            collected.comments.entry(path).or_insert(comments);
        }
    }
    let text = insert(&mut collected, &by_name, new);
    kept.keep(collected.comments);
    text
}

/// Splits a text. The rest of a malformed text is ignored.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (piece, length) = match c {
            '{' => (Some(Piece::Open), 1),
            '}' => (Some(Piece::Close), 1),
            ';' => (Some(Piece::End), 1),
            '[' => (Some(Piece::List), 1),
            ']' => (None, 1),
            '"' => {
                let mut escaped = false;
                let end = rest[1..].find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                });
                let length = end.map_or(rest.len(), |end| end + 2);
                (Some(Piece::Word(&rest[..length])), length)
            }
            '#' => comment(rest, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("//") => comment(rest, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => comment(rest, rest.find("*/").map_or(rest.len(), |end| end + 2)),
            c if c.is_whitespace() => {
                let length = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
                let lines = rest[..length].matches('\n').count();
                ((lines > 0).then_some(Piece::Lines(lines)), length)
            }
            _ => {
                let ends =
                    |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '[' | ']' | '"' | '#');
                let length = rest.find(ends).unwrap_or(rest.len());
                (Some(Piece::Word(&rest[..length])), length)
            }
        };
        found.extend(piece);
        rest = &rest[length..];
    }
    found
}

fn comment(rest: &str, length: usize) -> (Option<Piece<'_>>, usize) {
    (Some(Piece::Comment(rest[..length].trim_end())), length)
}

/// A word as rendered texts have it.
fn plain(word: &str) -> String {
    let Some(inner) = word.strip_prefix('"').map(|inner| inner.strip_suffix('"').unwrap_or(inner)) else {
        return word.to_owned();
    };
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(c) => c,
                None => break,
            },
            c => c,
        });
    }
    quoted(&text).into_owned()
}

/// A statement's words from the top, as one text.
fn path(blocks: &[Vec<String>], words: &[String]) -> String {
    let all = blocks.iter().flatten().chain(words).map(String::as_str);
    // A statement keeps its comments when it is deactivated.
    let all: Vec<&str> = all.filter(|word| *word != INACTIVE).collect();
    all.join(" ")
}

/// Returns true for a text of statements, a line each (`set PATH VALUE`).
fn is_set_form(text: &str) -> bool {
    let is_statement = |piece: &Piece<'_>| !matches!(piece, Piece::Comment(_) | Piece::Lines(_));
    let first = text
        .lines()
        .map(str::trim_start)
        .find(|line| !line.trim_end().is_empty() && !line.starts_with(['#', '/']));
    pieces(text).iter().any(is_statement) && first.is_some_and(|line| line.starts_with("set "))
}

/// Returns the comments of a text.
fn collect(text: &str) -> Collected {
    let mut found = Collected::default();
    let (mut octets, mut is_listed) = (0, false);
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut above: Vec<String> = Vec::new();
    let mut last: Option<String> = None;
    let (mut is_start, mut is_new_line) = (true, true);
    let is_lines = is_set_form(text);
    for piece in pieces(text) {
        match piece {
            Piece::Comment(said) => {
                octets += said.len();
                if octets > MOST {
                    break;
                }
                if is_lines && !words.is_empty() {
                    is_listed = false;
                    found.ended(&blocks, &mut words, &mut above, &mut last);
                }
                match &last {
                    Some(path) if !is_new_line && words.is_empty() => found.behind(path, said),
                    _ => above.extend(said.lines().map(|line| line.trim().to_owned())),
                }
                continue;
            }
            Piece::Lines(count) => {
                is_new_line = true;
                if is_start && count > 1 && words.is_empty() && !above.is_empty() {
                    found.head.append(&mut above);
                    is_start = false;
                }
                if !is_lines || words.is_empty() {
                    continue;
                }
                is_listed = false;
                found.ended(&blocks, &mut words, &mut above, &mut last);
                continue;
            }
            Piece::Word(_) if is_listed => {}
            Piece::Word(word) => words.push(plain(word)),
            Piece::List => is_listed = true,
            Piece::Open => {
                found.ended(&blocks, &mut words.clone(), &mut above, &mut last);
                blocks.push(std::mem::take(&mut words));
            }
            Piece::End => {
                is_listed = false;
                found.ended(&blocks, &mut words, &mut above, &mut last);
            }
            Piece::Close => {
                is_listed = false;
                // Comments at the end of a block have no statement to stand by, and stay with the block.
                if let Some(block) = blocks.pop()
                    && !above.is_empty()
                {
                    found.comments.entry(path(&blocks, &block)).or_default().end.append(&mut above);
                }
                words.clear();
                last = None;
            }
        }
        (is_start, is_new_line) = (false, false);
    }
    let rest = if found.statements.is_empty() { &mut found.head } else { &mut found.tail };
    rest.append(&mut above);
    found
}

impl Collected {
    /// Notes a comment behind a statement, on the same line.
    fn behind(&mut self, path: &str, said: &str) {
        let comments = self.comments.entry(path.to_owned()).or_default();
        comments.behind.get_or_insert(said.to_owned());
    }

    /// Gives the waiting comments to an ended statement.
    fn ended(
        &mut self,
        blocks: &[Vec<String>],
        words: &mut Vec<String>,
        above: &mut Vec<String>,
        last: &mut Option<String>,
    ) {
        if words.first().is_some_and(|word| word == "set") && blocks.is_empty() {
            words.remove(0);
        }
        let path = path(blocks, words);
        if !above.is_empty() {
            self.comments.entry(path.clone()).or_default().above.append(above);
        }
        self.statements.insert(path.clone());
        *last = Some(path);
        words.clear();
    }

    /// Takes the comments of a statement, or of the statement with another value.
    fn take(&mut self, by_name: &HashMap<String, String>, own: &str, opens: bool) -> Comments {
        let found = self.comments.remove(own).or_else(|| {
            let name = if opens { return None } else { own.rsplit_once(' ').map_or(own, |(name, _)| name) };
            // A flag may be written without its value, and one value without a list.
            let flag = self.comments.remove(name);
            flag.or_else(|| self.comments.remove(by_name.get(own).or_else(|| by_name.get(name))?))
        });
        found.unwrap_or_default()
    }
}

/// Puts comments into a rendered text, in which each statement begins on a line of its own.
fn insert(collected: &mut Collected, by_name: &HashMap<String, String>, text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4096);
    let put = |out: &mut String, indent: &str, lines: &[String]| {
        lines.iter().for_each(|line| out.extend([indent, line, "\n"]));
    };
    put(&mut out, "", &collected.head);
    if !collected.head.is_empty() {
        out.push('\n');
    }
    let mut blocks: Vec<Vec<String>> = Vec::new();
    // The comments at the ends of the blocks.
    let mut ends: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let (mut words, mut opens, mut closes, mut is_listed) = (Vec::new(), false, false, false);
        for piece in pieces(line) {
            match piece {
                Piece::Word(_) if is_listed => {}
                Piece::List => is_listed = true,
                Piece::Word(word) => words.push(plain(word)),
                Piece::Open => opens = true,
                Piece::Close => closes = true,
                Piece::End | Piece::Comment(_) | Piece::Lines(_) => {}
            }
        }
        let found = match words.is_empty() {
            true => Comments::default(),
            false => collected.take(by_name, &path(&blocks, &words), opens),
        };
        let Comments { above, behind, end } = found;
        put(&mut out, indent, &above);
        if opens {
            ends.push(end);
        } else if closes {
            put(&mut out, &format!("{indent}    "), &ends.pop().unwrap_or_default());
        } else {
            put(&mut out, indent, &end);
        }
        out.push_str(line);
        if let Some(behind) = behind {
            out.push(' ');
            out.push_str(&behind);
        }
        out.push('\n');
        if opens {
            blocks.push(words);
        } else if closes {
            blocks.pop();
        }
    }
    put(&mut out, "", &collected.tail);
    out
}

#[cfg(test)]
mod tests;
