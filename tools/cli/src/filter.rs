//! The filters behind `|`: lines are filtered as they arrive, so that a table of any length needs no memory.

use crate::grammar::Candidate;
use crate::line::Word;
use crate::render;
use regex::{Regex, RegexBuilder};
use std::collections::VecDeque;

/// The reason why filters were not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// There is no such filter.
    #[error("unknown filter `{0}`; expected one of {names}", names = NAMES.map(|(n, _)| n).join(", "))]
    Unknown(String),
    /// Several filters begin like this.
    #[error("`{0}` is ambiguous")]
    Ambiguous(String),
    /// The filter is one of foreign routers, and has another name here.
    #[error("`{0}`; here: {1}")]
    Elsewhere(String, &'static str),
    /// The bar is the last character.
    #[error("a filter is expected behind `|`")]
    Missing,
    /// The filter needs a value.
    #[error("`{0}` needs {1}")]
    NoValue(&'static str, &'static str),
    /// The value is wrong.
    #[error("`{0}`: {1}")]
    BadValue(&'static str, String),
}

const NAMES: [(&str, &str); 9] = [
    ("match", "only lines with this regular expression, in capitals or not"),
    ("except", "only lines without this regular expression"),
    ("begin", "only lines from the first one with this regular expression on"),
    ("count", "how many lines there are"),
    ("first", "only so many lines at the beginning"),
    ("last", "only so many lines at the end"),
    ("json", "one JSON document"),
    ("set", "a configuration as statements"),
    ("no-more", "all at once, without a pager"),
];

/// Names used by foreign routers, with the names here.
const ALSO: [(&str, &str); 4] =
    [("include", "match"), ("exclude", "except"), ("grep", "match"), ("find", "begin")];

/// The word before a form of the output, as in `display json`.
const DISPLAY: &str = "display";

/// Filters of foreign routers without a name here, with what to type instead.
const ELSEWHERE: [(&str, &str); 6] = [
    ("section", "`match RE`, or `begin RE`"),
    ("save", "`sluice COMMAND > FILE` in a shell"),
    ("redirect", "`sluice COMMAND > FILE` in a shell"),
    ("tee", "`sluice COMMAND '|' tee FILE` in a shell"),
    ("compare", "the command `compare`"),
    ("xml", "`json`"),
];

/// At most this many lines are kept for `last`.
const MAX_LAST: usize = 100_000;

#[derive(Debug)]
enum Step {
    Match(Regex),
    Except(Regex),
    Begin { re: Regex, begun: bool },
    First(u64),
    Last { keep: usize, lines: VecDeque<String> },
    Count(u64),
}

/// The filters of a line, in order.
#[derive(Debug, Default)]
pub struct Filters {
    steps: Vec<Step>,
    /// `json` was among them.
    pub json: bool,
    /// `set` was among them.
    pub set: bool,
    /// `no-more` was among them.
    pub no_more: bool,
}

impl Filters {
    /// Reads what stands behind the bars.
    pub fn read(filters: &[Vec<Word>]) -> Result<Self, FilterError> {
        let mut all = Filters::default();
        for words in filters {
            all.add(words)?;
        }
        Ok(all)
    }

    fn add(&mut self, words: &[Word]) -> Result<(), FilterError> {
        let mut texts = words.iter().map(|w| w.text.as_str()).peekable();
        texts.next_if_eq(&DISPLAY);
        let name = resolve(texts.next().ok_or(FilterError::Missing)?)?;
        // A pattern is all that follows; quotes are needed only to keep blanks at its ends.
        let value = texts.collect::<Vec<_>>().join(" ");
        match name {
            "match" => self.steps.push(Step::Match(pattern("match", &value)?)),
            "except" => self.steps.push(Step::Except(pattern("except", &value)?)),
            "begin" => self.steps.push(Step::Begin { re: pattern("begin", &value)?, begun: false }),
            "first" => self.steps.push(Step::First(number("first", &value)? as u64)),
            "last" => {
                let keep = number("last", &value)?;
                self.steps.push(Step::Last { keep, lines: VecDeque::new() });
            }
            "count" => self.steps.push(Step::Count(0)),
            "json" => self.json = true,
            "set" => self.set = true,
            _ => self.no_more = true,
        }
        Ok(())
    }

    /// Returns true if lines pass unchanged.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Filters a line and passes the rest to `out`. Returns false if no further line can change anything.
    pub fn line(&mut self, line: &str, out: &mut dyn FnMut(&str)) -> bool {
        let (goes_on, passes) = pass(&mut self.steps, line);
        if passes {
            out(line);
        }
        goes_on
    }

    /// There are no more lines.
    pub fn end(&mut self, out: &mut dyn FnMut(&str)) {
        for index in 0..self.steps.len() {
            let (done, rest) = self.steps.split_at_mut(index + 1);
            let held: Vec<String> = match done.last_mut() {
                Some(Step::Last { lines, .. }) => std::mem::take(lines).into(),
                Some(Step::Count(n)) => vec![render::counted(*n, "line", "lines")],
                _ => continue,
            };
            for line in held {
                if pass(rest, &line).1 {
                    out(&line);
                }
            }
        }
    }
}

/// Returns two flags: if further lines may matter, and if `line` passes every step.
fn pass(steps: &mut [Step], line: &str) -> (bool, bool) {
    for step in steps {
        match step {
            Step::Match(re) if !re.is_match(line) => return (true, false),
            Step::Except(re) if re.is_match(line) => return (true, false),
            Step::Begin { re, begun } => {
                *begun = *begun || re.is_match(line);
                if !*begun {
                    return (true, false);
                }
            }
            Step::First(0) => return (false, false),
            Step::First(n) => *n -= 1,
            Step::Last { keep, lines } => {
                if lines.len() == *keep {
                    lines.pop_front();
                }
                if *keep > 0 {
                    lines.push_back(line.to_string());
                }
                return (true, false);
            }
            Step::Count(n) => {
                *n += 1;
                return (true, false);
            }
            _ => {}
        }
    }
    (true, true)
}

fn resolve(word: &str) -> Result<&'static str, FilterError> {
    let names: Vec<&'static str> = NAMES.iter().map(|(n, _)| *n).filter(|n| n.starts_with(word)).collect();
    match names.as_slice() {
        [one] => Ok(one),
        [] => {
            let also = ALSO.iter().find(|(name, _)| name.starts_with(word));
            let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == word);
            also.map(|(_, name)| *name).ok_or_else(|| match elsewhere {
                Some((_, here)) => FilterError::Elsewhere(word.into(), here),
                None => FilterError::Unknown(word.into()),
            })
        }
        _ => Err(FilterError::Ambiguous(word.into())),
    }
}

fn pattern(name: &'static str, text: &str) -> Result<Regex, FilterError> {
    if text.is_empty() {
        return Err(FilterError::NoValue(name, "a regular expression"));
    }
    // A pattern cannot take more than this however it is written.
    let built = RegexBuilder::new(text).case_insensitive(true).size_limit(1 << 20).build();
    built.map_err(|e| FilterError::BadValue(name, e.to_string()))
}

fn number(name: &'static str, text: &str) -> Result<usize, FilterError> {
    match text.parse::<usize>() {
        Ok(n) if n <= MAX_LAST => Ok(n),
        Ok(_) => Err(FilterError::BadValue(name, format!("at most {MAX_LAST} lines"))),
        Err(_) => Err(FilterError::NoValue(name, "a number of lines")),
    }
}

/// Returns the candidates after a bar and the words `before`.
pub fn filters_offer(before: &[Word]) -> Vec<Candidate> {
    match before {
        [] => NAMES.iter().map(|(name, help)| Candidate::new(*name, *help)).collect(),
        [one] => match resolve(&one.text) {
            Ok("match" | "except" | "begin") => vec![Candidate::new("<pattern>", "a regular expression")],
            Ok("first" | "last") => vec![Candidate::new("<lines>", "a number of lines")],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split;

    fn filtered(line: &str, input: &[&str]) -> Vec<String> {
        let mut filters = Filters::read(&split(line).filters).expect(line);
        let mut lines = Vec::new();
        for text in input {
            if !filters.line(text, &mut |l| lines.push(l.to_string())) {
                break;
            }
        }
        filters.end(&mut |l| lines.push(l.to_string()));
        lines
    }

    #[test]
    fn lines_pass_in_order() {
        let input = ["one", "two", "three", "Four"];
        for (line, expected) in [
            ("x | match o", vec!["one", "two", "Four"]),
            ("x | except o | count", vec!["1 line"]),
            ("x | first 2", vec!["one", "two"]),
            ("x | last 2 | match four", vec!["Four"]),
            ("x | last 0", vec![]),
            ("x | m ^t | f 1", vec!["two"]),
            ("x | include o", vec!["one", "two", "Four"]),
            ("x | inc ^f | count", vec!["1 line"]),
            ("x | exclude o", vec!["three"]),
            ("x | find ^t", vec!["two", "three", "Four"]),
            ("x | begin ^t", vec!["two", "three", "Four"]),
            ("x | b three | match o", vec!["Four"]),
            ("x | no-more", vec!["one", "two", "three", "Four"]),
        ] {
            assert_eq!(filtered(line, &input), expected, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for line in ["x |", "x | frob", "x | match", "x | match (", "x | first many", "x | last 999999999"] {
            assert!(Filters::read(&split(line).filters).is_err(), "{line}");
        }
        for line in ["x | json", "x | display json"] {
            assert!(Filters::read(&split(line).filters).expect("valid").json, "{line}");
        }
        assert!(Filters::read(&split("x | display set").filters).expect("valid").set);
        for (word, here) in ELSEWHERE {
            let error = Filters::read(&split(&format!("x | {word} y")).filters).expect_err(word).to_string();
            assert_eq!(error, format!("`{word}`; here: {here}"));
        }
        assert!(Filters::read(&split("x | display").filters).is_err());
    }
}
