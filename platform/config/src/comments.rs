//! Comments of a text, carried over to a similar text.
//!
//! A comment belongs to the following statement, or to the preceding statement on the comment's line. Comments before
//! the first blank line of a text are its head. In the new text each comment moves to the line of its statement: a
//! statement with equal words, or, after a change of the value, with equal words except the last. Comments of removed
//! statements are removed too.

use crate::marks::INACTIVE;
use crate::text::quoted;
use std::collections::HashMap;

/// Comments of a statement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Comments {
    /// Lines above the statement.
    above: Vec<String>,
    /// The comment behind the statement.
    behind: Option<String>,
}

/// The most octets of comments carried over.
const MOST: usize = 1 << 20;

/// A piece of a text.
enum Piece<'t> {
    Word(&'t str),
    Open,
    Close,
    End,
    Comment(&'t str),
    /// Ends of lines between other pieces: how many.
    Lines(usize),
}

/// Returns `new`, as it is rendered, with the comments of `old`.
pub fn carry(old: &str, new: &str) -> String {
    if !["#", "//", "/*"].iter().any(|sign| old.contains(sign)) {
        return new.to_owned();
    }
    let (head, comments) = collect(old);
    if head.is_empty() && comments.is_empty() {
        return new.to_owned();
    }
    insert(&head, comments, new)
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
            '[' | ']' => (None, 1),
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

/// The head of a text, and its comments by statement.
fn collect(text: &str) -> (Vec<String>, HashMap<String, Comments>) {
    let (mut head, mut comments): (Vec<String>, HashMap<String, Comments>) = Default::default();
    let mut octets = 0;
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut above: Vec<String> = Vec::new();
    let mut last: Option<String> = None;
    let (mut is_start, mut is_new_line) = (true, true);
    let is_lines = pieces(text).iter().any(|piece| !matches!(piece, Piece::Comment(_) | Piece::Lines(_)))
        && text
            .lines()
            .find(|line| !line.trim().is_empty() && !line.trim_start().starts_with(['#', '/']))
            .is_some_and(|line| line.trim_start().starts_with("set "));
    for piece in pieces(text) {
        match piece {
            Piece::Comment(said) => {
                octets += said.len();
                if octets > MOST {
                    break;
                }
                if is_lines && !words.is_empty() {
                    ended(&blocks, &mut words, &mut above, &mut comments, &mut last);
                }
                match &last {
                    Some(path) if !is_new_line && words.is_empty() => {
                        comments.entry(path.clone()).or_default().behind.get_or_insert(said.to_owned());
                    }
                    _ => above.extend(said.lines().map(|line| line.trim().to_owned())),
                }
                continue;
            }
            Piece::Lines(count) => {
                is_new_line = true;
                if is_start && count > 1 && words.is_empty() && !above.is_empty() {
                    head.append(&mut above);
                    is_start = false;
                }
                if !is_lines || words.is_empty() {
                    continue;
                }
                ended(&blocks, &mut words, &mut above, &mut comments, &mut last);
                continue;
            }
            Piece::Word(word) => words.push(plain(word)),
            Piece::Open => {
                ended(&blocks, &mut words.clone(), &mut above, &mut comments, &mut last);
                blocks.push(std::mem::take(&mut words));
            }
            Piece::End => ended(&blocks, &mut words, &mut above, &mut comments, &mut last),
            Piece::Close => {
                // Comments at the end of a block have no statement to stand by, and stay with the block.
                if let Some(block) = blocks.pop()
                    && !above.is_empty()
                {
                    comments.entry(path(&blocks, &block)).or_default().above.append(&mut above);
                }
                words.clear();
                last = None;
            }
        }
        (is_start, is_new_line) = (false, false);
    }
    head.append(&mut above);
    (head, comments)
}

/// Gives the waiting comments to an ended statement.
fn ended(
    blocks: &[Vec<String>],
    words: &mut Vec<String>,
    above: &mut Vec<String>,
    comments: &mut HashMap<String, Comments>,
    last: &mut Option<String>,
) {
    if words.first().is_some_and(|word| word == "set") && blocks.is_empty() {
        words.remove(0);
    }
    let path = path(blocks, words);
    if !above.is_empty() {
        comments.entry(path.clone()).or_default().above.append(above);
    }
    *last = Some(path);
    words.clear();
}

/// Puts comments into a rendered text, in which each statement begins on a line of its own.
fn insert(head: &[String], mut comments: HashMap<String, Comments>, text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4096);
    for line in head {
        out.push_str(line);
        out.push('\n');
    }
    if !head.is_empty() {
        out.push('\n');
    }
    // By the words but the last, for values that are others now.
    let mut by_name: HashMap<String, String> = HashMap::new();
    for path in comments.keys() {
        if let Some((name, _)) = path.rsplit_once(' ') {
            by_name.insert(name.to_owned(), path.clone());
        }
    }
    let mut blocks: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let (mut words, mut opens, mut closes) = (Vec::new(), false, false);
        for piece in pieces(line) {
            match piece {
                Piece::Word(word) => words.push(plain(word)),
                Piece::Open => opens = true,
                Piece::Close => closes = true,
                Piece::End | Piece::Comment(_) | Piece::Lines(_) => {}
            }
        }
        let own = path(&blocks, &words);
        let found = match words.is_empty() {
            true => None,
            false => comments.remove(&own).or_else(|| {
                let name = own.rsplit_once(' ').filter(|_| !opens)?.0;
                // A flag may be written without its value.
                comments.remove(name).or_else(|| comments.remove(by_name.get(name)?))
            }),
        };
        let Comments { above, behind } = found.unwrap_or_default();
        for comment in above {
            out.push_str(indent);
            out.push_str(&comment);
            out.push('\n');
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
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;
    use proptest::prelude::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(carry(old, new), expected);
    }

    const NEW: &str = "a {\n    b 2;\n    c \"x y\" {\n        d true;\n    }\n}\n";

    #[test]
    fn comments_stay_with_their_statements() {
        check("a { b 1; }\n", NEW, NEW);
        check(
            "# The head,\n# of two lines.\n\n# Before a.\na {\n  # Two\n  // lines.\n  b 1; # behind b\n  # gone\n  gone 1;\n  /* c */ c \"x y\" { # behind c\n    d; }\n  # last\n}\n",
            NEW,
            "# The head,\n# of two lines.\n\n# Before a.\n# last\na {\n    # Two\n    // lines.\n    b 2; # behind b\n    /* c */\n    c \"x y\" { # behind c\n        d true;\n    }\n}\n",
        );
        check(
            "# of b\nset a b 1\nset a c \"x y\" d true # behind d\n",
            NEW,
            "a {\n    # of b\n    b 2;\n    c \"x y\" {\n        d true; # behind d\n    }\n}\n",
        );
    }

    proptest! {
        #[test]
        fn comments_change_nothing(
            old in "([a-c]( [a-c\"])?( \\{|;|\\}| #x|//y|/\\*z\\*/)?[ \n]{0,2}){0,20}",
            names in prop::collection::vec("[a-c]", 1..4),
        ) {
            let new: String = names.iter().map(|name| format!("{name} {{\n    b {name};\n    a;\n}}\n")).collect();
            let carried = carry(&old, &new);
            let words = |text: &str| -> Vec<String> {
                fn all(statements: &[crate::text::Statement], found: &mut Vec<String>) {
                    for statement in statements {
                        found.extend(statement.words.iter().map(|word| word.text.clone()));
                        all(statement.block.as_deref().unwrap_or_default(), found);
                    }
                }
                let mut found = Vec::new();
                all(&parse("f", text).unwrap(), &mut found);
                found
            };
            prop_assert_eq!(words(&carried), words(&new));
        }
    }
}
