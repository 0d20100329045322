//! Text to statements. Knows braces, semicolons, quotes and comments, but not the meaning of words.

pub(crate) mod bind;
pub(crate) mod braces;
pub(crate) mod comments;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod locate;
pub(crate) mod order;
pub(crate) mod pending_marks;
pub(crate) mod secrets;
pub(crate) mod words;
pub(crate) mod write;

use crate::error::{ConfigError, Place};
use crate::text::words::{ANNOTATE, DEACTIVATE};
use std::borrow::Cow;

/// A word and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// The word, quotes taken off.
    pub text: String,
    /// The place.
    pub place: Place,
}

/// Words up to a semicolon, or up to a block. A bracketed list counts as its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// At least one.
    pub words: Vec<Word>,
    /// The statements between the braces; `None` if the statement ends in a semicolon.
    pub block: Option<Vec<Statement>>,
}

/// Blocks nest at most this deep.
pub(crate) const MAX_DEPTH: usize = 32;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
    ListOpen,
    ListClose,
}

struct Lexer<'a> {
    file: &'a str,
    text: &'a str,
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    line: u32,
    column: u32,
}

impl Lexer<'_> {
    fn bump(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    fn place(&self) -> Place {
        Place { line: self.line, column: self.column, length: 1 }
    }

    fn error(&self, place: Place, message: impl Into<String>) -> ConfigError {
        ConfigError::new(self.file, self.text, place, message)
    }

    fn skip_space_and_comments(&mut self) -> Result<(), ConfigError> {
        loop {
            match self.chars.peek() {
                Some(c) if c.is_whitespace() => {
                    self.bump();
                }
                Some('#') => self.skip_line(),
                Some('/') => {
                    let place = self.place();
                    self.bump();
                    match self.chars.peek() {
                        Some('/') => self.skip_line(),
                        Some('*') => self.skip_block_comment(place)?,
                        _ => {
                            return Err(self.error(place, "a word cannot begin with `/`").expecting(
                                "a comment (`// ...`, `/* ... */`, `# ...`) or a quoted word (`\"/...\"`)",
                            ));
                        }
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        while self.chars.peek().is_some_and(|c| *c != '\n') {
            self.bump();
        }
    }

    fn skip_block_comment(&mut self, place: Place) -> Result<(), ConfigError> {
        self.bump();
        let mut star = false;
        while let Some(c) = self.bump() {
            if star && c == '/' {
                return Ok(());
            }
            star = c == '*';
        }
        Err(self.error(place, "this comment never ends").expecting("`*/`"))
    }

    fn quoted(&mut self, place: Place) -> Result<String, ConfigError> {
        self.bump();
        let mut word = String::new();
        while let Some(c) = self.bump() {
            match c {
                '"' => return Ok(word),
                '\\' => match self.bump() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some(c) => word.push(c),
                    None => break,
                },
                c => word.push(c),
            }
        }
        Err(self.error(place, "this quoted word never ends").expecting("`\"`"))
    }

    fn next(&mut self) -> Result<Option<(Token, Place)>, ConfigError> {
        self.skip_space_and_comments()?;
        let mut place = self.place();
        let Some(c) = self.chars.peek().copied() else { return Ok(None) };
        let token = match c {
            '{' => Token::Open,
            '}' => Token::Close,
            ';' => Token::End,
            '[' => Token::ListOpen,
            ']' => Token::ListClose,
            '"' => {
                let word = self.quoted(place)?;
                place.length = self.column.saturating_sub(place.column).max(1);
                return Ok(Some((Token::Word(word), place)));
            }
            _ => {
                let mut word = String::new();
                while let Some(c) = self.chars.peek()
                    && !c.is_whitespace()
                    && !matches!(c, '{' | '}' | ';' | '[' | ']' | '"' | '#')
                {
                    word.push(*c);
                    self.bump();
                }
                place.length = word.chars().count() as u32;
                return Ok(Some((Token::Word(word), place)));
            }
        };
        self.bump();
        Ok(Some((token, place)))
    }
}

/// Parses a whole text, in braces or as `set` statements, a line each. A quoted "set" at the beginning is a name and no verb. `file` is the name used
/// in errors.
pub fn parse(file: &str, text: &str) -> Result<Vec<Statement>, ConfigError> {
    let lexer = || Lexer { file, text, chars: text.chars().peekable(), line: 1, column: 1 };
    refuse_controls(lexer())?;
    let mut first = lexer();
    first.skip_space_and_comments()?;
    let is_bare = first.chars.peek() != Some(&'"');
    match first.next()? {
        Some((Token::Word(first), _)) if is_bare && first == SET => set_lines(&mut lexer()),
        _ => block(&mut lexer(), None, 0),
    }
}

/// The word that begins a statement outside of braces.
const SET: &str = "set";

/// `set` statements up to the end of the text. Each ends with its line, or with a semicolon.
fn set_lines(lexer: &mut Lexer<'_>) -> Result<Vec<Statement>, ConfigError> {
    let mut statements = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let mut list: Option<Place> = None;
    let mut line = 0;
    loop {
        let next = lexer.next()?;
        let is_ended = next.as_ref().is_none_or(|(token, place)| *token == Token::End || place.line > line);
        match (is_ended, list) {
            (true, Some(opened)) => return Err(lexer.error(opened, "this list never ends").expecting("`]`")),
            (true, None) if !words.is_empty() => statements.push(set(lexer, std::mem::take(&mut words))?),
            _ => {}
        }
        let Some((token, place)) = next else { return Ok(statements) };
        line = lexer.line;
        match token {
            Token::Word(text) => words.push(Word { text, place }),
            Token::End => {}
            Token::ListOpen if list.is_none() && words.len() > 1 => list = Some(place),
            Token::ListClose if list.is_some() => list = None,
            Token::ListOpen | Token::ListClose => {
                return Err(lexer.error(place, "a bracket does not belong here"));
            }
            Token::Open | Token::Close => {
                let wrong = lexer.error(place, "a text of `set` statements has no blocks");
                return Err(wrong.expecting("`set` statements only, or none of them"));
            }
        }
    }
}

/// Takes the first word off a `set` statement.
fn set(lexer: &Lexer<'_>, mut words: Vec<Word>) -> Result<Statement, ConfigError> {
    let verb = words.remove(0);
    match verb.text.as_str() {
        SET if words.is_empty() => Err(lexer.error(verb.place, "`set` needs a path")),
        SET => Ok(Statement { words, block: None }),
        ANNOTATE | DEACTIVATE if !words.is_empty() => {
            words.insert(0, verb);
            Ok(Statement { words, block: None })
        }
        other => Err(lexer
            .error(verb.place, format!("`{other}` does not belong into a text of `set` statements"))
            .expecting("`set` before each statement")),
    }
}

/// Returns the words of a single statement, without a final semicolon.
pub(crate) fn words(file: &str, text: &str) -> Result<Vec<Word>, ConfigError> {
    let lexer = || Lexer { file, text, chars: text.chars().peekable(), line: 1, column: 1 };
    refuse_controls(lexer())?;
    let mut lexer = lexer();
    let (mut words, mut is_list, mut is_ended) = (Vec::new(), false, false);
    while let Some((token, place)) = lexer.next()? {
        match token {
            _ if is_ended => return Err(lexer.error(place, "there is more than one statement")),
            Token::Word(text) => words.push(Word { text, place }),
            Token::ListOpen if !is_list && !words.is_empty() => is_list = true,
            Token::ListClose if is_list => is_list = false,
            Token::End if !words.is_empty() && !is_list => is_ended = true,
            _ => return Err(lexer.error(place, "this does not belong into a single statement")),
        }
    }
    if is_list {
        return Err(lexer.error(lexer.place(), "the list never ends").expecting("`]`"));
    }
    Ok(words)
}

/// A word as it has to be written to be read as itself.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_special = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ';' | '[' | ']' | '"' | '#');
    if !matches!(word, "" | SET) && !word.starts_with('/') && !word.contains(is_special) {
        return Cow::Borrowed(word);
    }
    let mut quoted = String::from('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// Refuses control characters: no string of YANG holds a control character other than tab and the ends of lines (RFC
/// 7950, section 9.4), and strings in C end at the octet 0.
fn refuse_controls(mut lexer: Lexer<'_>) -> Result<(), ConfigError> {
    let mut place = lexer.place();
    while let Some(c) = lexer.bump() {
        if c < ' ' && !matches!(c, '\t' | '\n' | '\r') {
            return Err(lexer.error(place, format!("a configuration cannot hold the character {c:?}")));
        }
        place = lexer.place();
    }
    Ok(())
}

/// Statements up to the closing brace of the block that was opened at `opened`, or to the end of the text.
fn block(lexer: &mut Lexer<'_>, opened: Option<Place>, depth: usize) -> Result<Vec<Statement>, ConfigError> {
    if depth > MAX_DEPTH {
        let place = opened.unwrap_or_default();
        return Err(lexer.error(place, "blocks nest too deep"));
    }
    let mut statements = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let mut list: Option<Place> = None;
    loop {
        let Some((token, place)) = lexer.next()? else {
            return match (words.last(), opened) {
                (Some(_), _) if let Some(opened) = list => {
                    Err(lexer.error(opened, "this list never ends").expecting("`]`"))
                }
                (Some(word), _) => {
                    Err(lexer.error(word.place, "this statement never ends").expecting("`;` or `{`"))
                }
                (None, Some(opened)) => Err(lexer
                    .error(opened, "this block never ends")
                    .expecting("`}` before the end of the file")),
                (None, None) => Ok(statements),
            };
        };
        match token {
            Token::Word(text) => words.push(Word { text, place }),
            Token::ListOpen if list.is_none() && !words.is_empty() => list = Some(place),
            Token::ListClose if list.is_some() => list = None,
            Token::ListOpen | Token::ListClose => {
                return Err(lexer.error(place, "a bracket does not belong here"));
            }
            Token::End if words.is_empty() => {
                return Err(lexer.error(place, "there is nothing before this `;`").expecting("a statement"));
            }
            Token::Open if words.is_empty() => {
                return Err(lexer.error(place, "this block has no name").expecting("a statement before `{`"));
            }
            Token::Close if !words.is_empty() && list.is_none() => {
                let last = words.last().map_or(place, |w| w.place);
                return Err(lexer.error(last, "this statement is not ended").expecting("`;` after it"));
            }
            Token::End if list.is_none() => {
                statements.push(Statement { words: std::mem::take(&mut words), block: None });
            }
            Token::Open if list.is_none() => {
                let inner = block(lexer, Some(place), depth + 1)?;
                statements.push(Statement { words: std::mem::take(&mut words), block: Some(inner) });
            }
            Token::Close if list.is_none() && opened.is_some() => return Ok(statements),
            Token::Close if list.is_none() => return Err(lexer.error(place, "this `}` closes nothing")),
            Token::End | Token::Open | Token::Close => {
                let opened = list.unwrap_or(place).line;
                let wrong = format!("the list that begins in line {opened} has not ended");
                return Err(lexer.error(place, wrong).expecting("a value or `]`"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &str) {
        fn show(statements: &[Statement]) -> String {
            let one = |s: &Statement| {
                let words: Vec<&str> = s.words.iter().map(|w| w.text.as_str()).collect();
                match &s.block {
                    Some(block) => format!("{}{{{}}}", words.join(" "), show(block)),
                    None => format!("{};", words.join(" ")),
                }
            };
            statements.iter().map(one).collect()
        }
        let got = match parse("f", text) {
            Ok(statements) => show(&statements),
            Err(e) => e.to_string().lines().next().unwrap_or_default().to_string(),
        };
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn statements() {
        check("a b; c { d; }", "a b;c{d;}");
        check("a [ b c ]; # x\n/* y\n */ d \"e f\"; // z", "a b c;d e f;");
        check("", "");
        check("\"set\" a { b; }", "set a{b;}");
        check("a", "f:1:1: this statement never ends; expected `;` or `{`");
        check("a {\n b;", "f:1:3: this block never ends; expected `}` before the end of the file");
        check("a }", "f:1:1: this statement is not ended; expected `;` after it");
        check("}", "f:1:1: this `}` closes nothing");
        check("a [ b;", "f:1:6: the list that begins in line 1 has not ended; expected a value or `]`");
        check("a [ b", "f:1:3: this list never ends; expected `]`");
        let long: String = (0..60).map(|n| format!("  v{n}{}\n", if n == 40 { ";" } else { "" })).collect();
        check(
            &format!("a [\n{long}];"),
            "f:42:6: the list that begins in line 1 has not ended; expected a value or `]`",
        );
        check("a { b [ c }", "f:1:11: the list that begins in line 1 has not ended; expected a value or `]`");
        check("\n  ;", "f:2:3: there is nothing before this `;`; expected a statement");
        check("a \"b", "f:1:3: this quoted word never ends; expected `\"`");
        check("/* a", "f:1:1: this comment never ends; expected `*/`");
        check("a \"b\nc\0d\";", "f:2:2: a configuration cannot hold the character '\\0'");
        check(&"a{".repeat(40), "f:1:66: blocks nest too deep");
    }

    #[test]
    fn statements_in_lines() {
        check("# x\nset a b\nset c \"d\ne\" [ f g ]\n\nset h; set i", "a b;c d\ne f g;h;i;");
        check(
            "set a b\nc d",
            "f:2:1: `c` does not belong into a text of `set` statements; expected `set` before each statement",
        );
        check("set a\nset", "f:2:1: `set` needs a path");
        check("set a [ b\nset c", "f:1:7: this list never ends; expected `]`");
        check(
            "set a {\n",
            "f:1:7: a text of `set` statements has no blocks; expected `set` statements only, or none of them",
        );
        check("set a ]", "f:1:7: a bracket does not belong here");
    }

    proptest! {
        #[test]
        fn any_lines_are_parsed_or_refused(text in "(set [a-c{};\\[\\]\"# \n]{0,20}\n){0,4}") {
            let _ = parse("f", &text);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-c{};\\[\\]\"/*# \n\\\\]{0,60}") {
            let _ = parse("f", &text);
        }
    }
}
