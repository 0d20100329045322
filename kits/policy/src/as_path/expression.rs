//! The text of an expression, taken apart.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The longest expression in octets.
const LONGEST: usize = 4096;
/// The deepest nesting of parentheses.
const DEEPEST: usize = 32;
/// The largest number of a repetition.
const MOST_REPEATS: u32 = 255;

/// A regular expression over AS numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    /// The empty path.
    Empty,
    /// An AS.
    One(Asns),
    /// A sequence.
    Sequence(Vec<Expression>),
    /// An alternative.
    Either(Vec<Expression>),
    /// A repetition.
    Repeated(Box<Expression>, Repeat),
}

/// A set of AS numbers: ranges, from the first to the last number, or all numbers outside the ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asns {
    /// The ranges, in the order of the text.
    pub ranges: Vec<(u32, u32)>,
    /// True for all numbers outside the ranges.
    pub is_inverted: bool,
}

impl Asns {
    /// The set of every AS number.
    pub const ANY: Asns = Asns { ranges: Vec::new(), is_inverted: true };

    /// Returns true if the set has an AS number.
    pub fn contains(&self, asn: u32) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&asn)) != self.is_inverted
    }
}

/// A number of repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeat {
    /// The fewest.
    pub least: u32,
    /// The most; `None` for any number.
    pub most: Option<u32>,
}

/// The place in an expression where something else was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionError {
    /// The offset in octets.
    pub offset: usize,
    /// The expected text.
    pub expected: &'static str,
    /// The form here of an expression of another router over the text of a path; `None` if the text is none, or has no such form.
    pub written_here: Option<String>,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: expected {}", self.offset + 1, self.expected)?;
        self.written_here.iter().try_for_each(|form| write!(f, "; here it is written `{form}`"))
    }
}

impl core::error::Error for ExpressionError {}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let mut reader = Reader { text: text.as_bytes(), offset: 0, depth: 0 };
        if text.len() > LONGEST {
            return Err(reader.at(LONGEST, "at most 4096 characters"));
        }
        let read = reader.either().and_then(|expression| match reader.peek() {
            None => Ok(expression),
            Some(_) => Err(reader.expected("an AS number, `.`, `[`, `(`, `|` or the end")),
        });
        read.map_err(|error| ExpressionError { written_here: of_text(text), ..error })
    }
}

/// Returns the form here of an expression over the text of a path, as other routers have them: AS numbers between `_`, `^` at the
/// beginning of the path, `$` at the end. `None` for other texts.
fn of_text(text: &str) -> Option<String> {
    let begins = text.strip_prefix('^');
    let inner = begins.unwrap_or(text);
    let ends = inner.strip_suffix('$');
    let inner = ends.unwrap_or(inner);
    let parts: Vec<&str> = inner.split('_').filter(|part| !part.is_empty()).collect();
    let is_known = |part: &&str| *part == ".*" || part.bytes().all(|digit| digit.is_ascii_digit());
    if text.len() == inner.len() && !inner.contains('_') || !parts.iter().all(is_known) {
        return None;
    }
    let before = begins.is_none().then_some(".*");
    let behind = ends.is_none().then_some(".*");
    let mut all: Vec<&str> = before.into_iter().chain(parts).chain(behind).collect();
    all.dedup_by(|a, b| *a == ".*" && *b == ".*");
    let form = if all.is_empty() { "()".into() } else { all.join(" ") };
    form.parse::<Expression>().is_ok().then_some(form)
}

struct Reader<'t> {
    text: &'t [u8],
    offset: usize,
    depth: usize,
}

impl Reader<'_> {
    fn expected(&self, expected: &'static str) -> ExpressionError {
        self.at(self.offset, expected)
    }

    fn at(&self, offset: usize, expected: &'static str) -> ExpressionError {
        ExpressionError { offset, expected, written_here: None }
    }

    /// Returns the next character behind spaces.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.offset).is_some_and(u8::is_ascii_whitespace) {
            self.offset += 1;
        }
        self.text.get(self.offset).copied()
    }

    /// Takes the next character if equal.
    fn take(&mut self, character: u8) -> bool {
        let is_next = self.peek() == Some(character);
        self.offset += usize::from(is_next);
        is_next
    }

    fn either(&mut self) -> Result<Expression, ExpressionError> {
        let mut all = Vec::from([self.sequence()?]);
        while self.take(b'|') {
            all.push(self.sequence()?);
        }
        Ok(single(all, Expression::Either))
    }

    fn sequence(&mut self) -> Result<Expression, ExpressionError> {
        let mut all = Vec::new();
        while let Some(b'0'..=b'9' | b'.' | b'[' | b'(') = self.peek() {
            let mut term = self.term()?;
            while let Some(repeat) = self.repeat()? {
                term = Expression::Repeated(Box::new(term), repeat);
            }
            all.push(term);
        }
        Ok(if all.is_empty() { Expression::Empty } else { single(all, Expression::Sequence) })
    }

    fn term(&mut self) -> Result<Expression, ExpressionError> {
        if self.take(b'.') {
            return Ok(Expression::One(Asns::ANY));
        }
        if self.take(b'(') {
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(self.expected("at most 32 parentheses inside each other"));
            }
            let inner = self.either()?;
            self.depth -= 1;
            return if self.take(b')') { Ok(inner) } else { Err(self.expected("`)`")) };
        }
        if !self.take(b'[') {
            let ranges = Vec::from([self.range()?]);
            return Ok(Expression::One(Asns { ranges, is_inverted: false }));
        }
        let is_inverted = self.take(b'^');
        let mut ranges = Vec::new();
        while !self.take(b']') {
            ranges.push(self.range()?);
        }
        if ranges.is_empty() {
            return Err(self.expected("an AS number between `[` and `]`"));
        }
        Ok(Expression::One(Asns { ranges, is_inverted }))
    }

    /// Reads `65001` or `64512-65534`.
    fn range(&mut self) -> Result<(u32, u32), ExpressionError> {
        let first = self.number("an AS number")?;
        if self.text.get(self.offset) != Some(&b'-') {
            return Ok((first, first));
        }
        self.offset += 1;
        let start = self.offset;
        let last = self.number("the last AS number of the range")?;
        if last < first {
            return Err(self.at(start, "a number that is not below the first"));
        }
        Ok((first, last))
    }

    fn number(&mut self, expected: &'static str) -> Result<u32, ExpressionError> {
        self.peek();
        let digits = self.text[self.offset..].iter().take_while(|c| c.is_ascii_digit()).count();
        let text = core::str::from_utf8(&self.text[self.offset..self.offset + digits]).unwrap_or_default();
        let number = text.parse().map_err(|_| self.expected(expected))?;
        self.offset += digits;
        Ok(number)
    }

    fn repeat(&mut self) -> Result<Option<Repeat>, ExpressionError> {
        let simple = [(b'?', 0, Some(1)), (b'*', 0, None), (b'+', 1, None)];
        for (character, least, most) in simple {
            if self.take(character) {
                return Ok(Some(Repeat { least, most }));
            }
        }
        if !self.take(b'{') {
            return Ok(None);
        }
        let least = self.count()?;
        let most = if !self.take(b',') {
            Some(least)
        } else if self.peek() == Some(b'}') {
            None
        } else {
            Some(self.count()?)
        };
        if most.is_some_and(|most| most < least) {
            return Err(self.expected("a number that is not below the first"));
        }
        if self.take(b'}') { Ok(Some(Repeat { least, most })) } else { Err(self.expected("`,` or `}`")) }
    }

    fn count(&mut self) -> Result<u32, ExpressionError> {
        let count = self.number("a number of repetitions")?;
        if count > MOST_REPEATS { Err(self.expected("at most 255 repetitions")) } else { Ok(count) }
    }
}

/// Returns the only element of a vector, or all elements together.
fn single(mut all: Vec<Expression>, together: fn(Vec<Expression>) -> Expression) -> Expression {
    if all.len() == 1 { all.remove(0) } else { together(all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn terms_are_taken_apart() {
        let one = |asn| Expression::One(Asns { ranges: [(asn, asn)].into(), is_inverted: false });
        let read = |text: &str| text.parse::<Expression>().expect(text);
        assert_eq!(read(""), Expression::Empty);
        assert_eq!(read("()"), Expression::Empty);
        assert_eq!(read(" 65001 "), one(65001));
        assert_eq!(read("1 2"), Expression::Sequence([one(1), one(2)].into()));
        assert_eq!(read("1|2 3"), Expression::Either([one(1), read("2 3")].into()));
        let any = Box::new(Expression::One(Asns::ANY));
        assert_eq!(read(".*"), Expression::Repeated(any, Repeat { least: 0, most: None }));
        let repeated = Expression::Repeated(Box::new(one(7)), Repeat { least: 2, most: Some(5) });
        assert_eq!(read("7{2,5}"), repeated);
        let asns = Asns { ranges: [(1, 1), (5, 9)].into(), is_inverted: true };
        assert_eq!(read("[^1 5-9]"), Expression::One(asns.clone()));
        assert!(asns.contains(2) && !asns.contains(5) && !asns.contains(9) && asns.contains(10));
    }

    #[test]
    fn errors_name_the_place() {
        for (text, expected) in [
            ("65001 _ 2", "at character 7: expected an AS number, `.`, `[`, `(`, `|` or the end"),
            ("^65001", "at character 1"),
            ("(1", "at character 3: expected `)`"),
            ("1)", "at character 2"),
            ("[]", "at character 3"),
            ("[1", "at character 3: expected an AS number"),
            ("5-4", "at character 3: expected a number that is not below the first"),
            ("1{2", "at character 4: expected `,` or `}`"),
            ("1{3,2}", "not below"),
            ("1{256}", "255"),
            ("4294967296", "at character 1: expected an AS number"),
            ("*", "at character 1"),
        ] {
            let error = text.parse::<Expression>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        for (text, form) in [
            ("_65000_", Some(".* 65000 .*")),
            ("^65000_", Some("65000 .*")),
            ("^65000", Some("65000 .*")),
            ("_65000$", Some(".* 65000")),
            ("^65000$", Some("65000")),
            ("^65000_65010_", Some("65000 65010 .*")),
            ("_65000_.*_65010$", Some(".* 65000 .* 65010")),
            ("^$", Some("()")),
            ("_99999999999_", None),
            ("_6500[0-9]_", None),
            ("1)", None),
        ] {
            let error = text.parse::<Expression>().expect_err(text);
            assert_eq!(error.written_here.as_deref(), form, "{text}");
            let said = error.to_string();
            assert_eq!(said.contains("; here it is written `"), form.is_some(), "{said}");
        }
        let deep = "(".repeat(100);
        assert!(deep.parse::<Expression>().expect_err("too deep").to_string().contains("32 parentheses"));
        assert!("1 ".repeat(4096).parse::<Expression>().is_err());
    }
}
