//! The steps from one configuration to another, as text: the output of [`Comparison::text`](crate::Comparison::text)
//! with secrets shown.
//!
//! ```text
//! [edit protocols static]
//! -  route 192.0.2.0/24 {
//! -      discard;
//! -  }
//! +  route 198.51.100.0/24 {
//! +      discard;
//! +  }
//! ```
//!
//! [`Schema::step`] applies steps to a tree, at a cost that follows the size of the steps. [`Outline`] applies steps to
//! a text and knows no schema: text written by a different version, with words perhaps unknown today, is brought up to
//! date all the same.

use crate::error::ConfigError;
use crate::schema::Schema;
use crate::schema::index::ROOT;
use crate::text::bind::Binder;
use crate::text::words::{ANNOTATE, INACTIVE};
use crate::text::{self, MAX_DEPTH, Statement, Word, quoted};
use crate::tree::Tree;
use crate::tree::key::SEPARATOR;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// The file name in errors about steps.
const FILE: &str = "steps";

/// The reason why steps cannot be taken.
#[derive(Debug, Error)]
pub enum StepError {
    /// The text has not the form of steps.
    #[error("{0}")]
    Text(Box<ConfigError>),
    /// A line other than a place, an addition or a removal.
    #[error("`{0}` is no step")]
    Line(String),
    /// There is no such block in the text, or the block is too deep.
    #[error("there is no `{0}` in it")]
    NoPlace(String),
    /// A statement to remove does not exist.
    #[error("there is no `{0}` that could go")]
    Absent(String),
    /// A statement to add exists already.
    #[error("there is a `{0}` already")]
    Present(String),
}

impl From<ConfigError> for StepError {
    fn from(error: ConfigError) -> Self {
        StepError::Text(Box::new(error))
    }
}

/// The statements to remove and to add at a place.
struct Section {
    place: Vec<Word>,
    goes: bool,
    statements: Vec<Statement>,
}

fn sections(steps: &str) -> Result<Vec<Section>, StepError> {
    let mut found = Vec::new();
    let mut place: Option<Vec<Word>> = None;
    let mut lines = steps.split_terminator('\n').peekable();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let words = text::words(FILE, words)?;
            let (edit, rest) = words.split_first().ok_or_else(|| StepError::Line(line.into()))?;
            if edit.text != "edit" {
                return Err(StepError::Line(line.into()));
            }
            place = Some(rest.to_vec());
            continue;
        }
        let (margin, goes) = match line.get(..3) {
            Some(margin @ "-  ") => (margin, true),
            Some(margin @ "+  ") => (margin, false),
            _ => return Err(StepError::Line(line.into())),
        };
        let place = place.clone().ok_or_else(|| StepError::Line(line.into()))?;
        // All that goes or comes together is one text.
        let mut whole = String::from(&line[margin.len()..]);
        while let Some(line) = lines.peek().and_then(|line| line.strip_prefix(margin)) {
            whole.push('\n');
            whole.push_str(line);
            lines.next();
        }
        found.push(Section { place, goes, statements: text::parse(FILE, &whole)? });
    }
    Ok(found)
}

impl Schema {
    /// Returns a tree after steps. Values are checked; [`Schema::validate`] checks the whole tree. The cost follows the
    /// size of the steps.
    pub fn step(&self, tree: &Tree, steps: &str) -> Result<Tree, StepError> {
        let mut tree = tree.clone();
        for Section { place, goes, statements } in sections(steps)? {
            for Statement { words, block } in statements {
                let words = [place.as_slice(), &words].concat();
                let mut binder = Binder::new(self, FILE, "");
                if binder.step_mark(&mut tree, &words, block.as_deref(), goes)? {
                    continue;
                }
                let root = Arc::make_mut(&mut tree.root);
                match goes {
                    true => binder.delete(&words, ROOT, root)?,
                    false => binder.statement(&words, block.as_deref(), ROOT, root)?,
                }
            }
        }
        Ok(tree)
    }
}

/// A text written by [`Schema::text`], as its statements. Printed, the text reads back to an equal tree.
pub struct Outline(Level);

/// The statements between braces.
#[derive(Default)]
struct Level {
    /// The rows in the order of their arrival; a removed row leaves a gap.
    rows: Vec<Option<Row>>,
    /// The places of statements by their words. Made when first needed: most levels never change.
    places: Option<HashMap<String, usize>>,
}

struct Row {
    words: Vec<String>,
    inner: Option<Level>,
}

impl Outline {
    /// Takes a text apart; `file` is the name used in errors.
    pub fn read(file: &str, text: &str) -> Result<Self, ConfigError> {
        let mut top = Level::of(text::parse(file, text)?);
        let mut marks = Vec::new();
        for row in top.rows.iter_mut().flatten() {
            if let Some(inner) = &mut row.inner {
                inner.take_marks(&row.words, &mut marks);
            }
        }
        top.rows.extend(marks.into_iter().map(Some));
        Ok(Outline(top))
    }

    /// Applies steps. After a failure some steps may have been applied.
    pub fn step(&mut self, steps: &str) -> Result<(), StepError> {
        for Section { place, goes, statements } in sections(steps)? {
            let place: Vec<String> = place.into_iter().map(|word| word.text).collect();
            let level = self.0.at(&place, 0).ok_or_else(|| StepError::NoPlace(place.join(" ")))?;
            for statement in statements {
                let row = Row::of(statement);
                match goes {
                    true => level.take(&row.words)?,
                    false => level.put(row)?,
                }
            }
        }
        Ok(())
    }
}

/// Returns true if a statement is inactive: a statement follows the word `inactive`.
fn is_marked(words: &[String]) -> bool {
    words.split_last().is_some_and(|(_, before)| before.iter().any(|word| word == INACTIVE))
}

fn joined(words: &[String]) -> String {
    words.join(&SEPARATOR.to_string())
}

impl Row {
    fn of(statement: Statement) -> Self {
        let words = statement.words.into_iter().map(|word| word.text).collect();
        Row { words, inner: statement.block.map(Level::of) }
    }
}

impl Level {
    fn of(statements: Vec<Statement>) -> Self {
        Level { rows: statements.into_iter().map(|s| Some(Row::of(s))).collect(), places: None }
    }

    /// Removes inactive statements and annotations, with their full paths: steps name marks by the whole path.
    fn take_marks(&mut self, path: &[String], marks: &mut Vec<Row>) {
        for slot in &mut self.rows {
            let Some(row) = slot else { continue };
            let is_note = row.words[0] == ANNOTATE && row.inner.is_none();
            let (verb, rest) = row.words.split_at(usize::from(is_note));
            if is_note || is_marked(&row.words) {
                let words = [verb, path, rest].concat();
                marks.push(Row { words, inner: row.inner.take() });
                *slot = None;
            } else if let Some(inner) = &mut row.inner {
                inner.take_marks(&[path, &row.words].concat(), marks);
            }
        }
    }

    /// The level to which a path of names and keys leads.
    fn at(&mut self, path: &[String], depth: usize) -> Option<&mut Level> {
        if path.is_empty() {
            return Some(self);
        }
        if depth >= MAX_DEPTH {
            return None;
        }
        // No name is a container's and a list's.
        let (row, length) = (1..=path.len()).find_map(|n| Some((self.find(&path[..n])?, n)))?;
        let inner = self.rows[row].as_mut()?.inner.get_or_insert_default();
        inner.at(&path[length..], depth + 1)
    }

    fn find(&mut self, words: &[String]) -> Option<usize> {
        let rows = &self.rows;
        let places = self.places.get_or_insert_with(|| {
            rows.iter().enumerate().filter_map(|(at, row)| Some((joined(&row.as_ref()?.words), at))).collect()
        });
        places.get(&joined(words)).copied()
    }

    fn put(&mut self, row: Row) -> Result<(), StepError> {
        if self.find(&row.words).is_some() {
            return Err(StepError::Present(row.words.join(" ")));
        }
        if let Some(places) = &mut self.places {
            places.insert(joined(&row.words), self.rows.len());
        }
        self.rows.push(Some(row));
        Ok(())
    }

    fn take(&mut self, words: &[String]) -> Result<(), StepError> {
        let absent = || StepError::Absent(words.join(" "));
        if self.find(words).is_none()
            && let [name, value] = words
        {
            self.spread(name, value)?;
        }
        let at = self.find(words).ok_or_else(absent)?;
        self.rows[at] = None;
        if let Some(places) = &mut self.places {
            places.remove(&joined(words));
        }
        Ok(())
    }

    /// Splits a statement of several values, if `value` is among them, into a statement for each value.
    fn spread(&mut self, name: &str, value: &str) -> Result<(), StepError> {
        let has = |row: &Row| {
            row.inner.is_none()
                && row.words.len() > 2
                && row.words[0] == name
                && row.words[1..].iter().any(|word| word == value)
        };
        let Some(at) = self.rows.iter().position(|row| row.as_ref().is_some_and(has)) else { return Ok(()) };
        let Some(row) = self.rows[at].take() else { return Ok(()) };
        if let Some(places) = &mut self.places {
            places.remove(&joined(&row.words));
        }
        let mut words = row.words.into_iter();
        let name = words.next().unwrap_or_default();
        words.try_for_each(|value| self.put(Row { words: vec![name.clone(), value], inner: None }))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, margin: usize) -> fmt::Result {
        for row in self.rows.iter().flatten() {
            write!(f, "{:margin$}", "")?;
            for (at, word) in row.words.iter().enumerate() {
                write!(f, "{}{}", if at == 0 { "" } else { " " }, quoted(word))?;
            }
            match &row.inner {
                None => writeln!(f, ";")?,
                Some(inner) => {
                    writeln!(f, " {{")?;
                    inner.write(f, margin + 4)?;
                    writeln!(f, "{:margin$}}}", "")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, steps: &str, expected: &str) {
        let mut outline = Outline::read("before", text).unwrap();
        let got = match outline.step(steps) {
            Ok(()) => outline.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{steps}");
    }

    #[test]
    fn statements_go_and_come() {
        check("a { b 1; }", "[edit a]\n-  b 1;\n+  b 2;\n", "a { b 2; }");
        check("a;", "[edit a]\n+  b 1;\n", "a { b 1; }");
        check("a { b; c 1 { d; } }", "[edit a]\n-  c 1 {\n-      d;\n-  }\n", "a { b; }");
        check(
            "a { r 1 { x; } r 2; }",
            "[edit a r 1]\n-  x;\n[edit a]\n-  r 2;\n+  r 3;\n",
            "a { r 1 { } r 3; }",
        );
        check("", "[edit]\n+  a {\n+      b \"x y\";\n+  }\n", "a { b \"x y\"; }");
        check("r \"]\" { a 1; }", "[edit r \"]\"]\n-  a 1;\n+  a \"[edit]\";\n", "r \"]\" { a \"[edit]\"; }");
        check("a 1;", "", "a 1;");
    }

    #[test]
    fn values_stand_together_or_apart() {
        check("v [ a b c ];", "[edit]\n-  v b;\n+  v d;\n", "v a; v c; v d;");
        check("v [ a b ];", "[edit]\n-  v a;\n-  v b;\n", "");
        check("v a;", "[edit]\n-  v a;\n+  v b;\n", "v b;");
        check("v [ a b ];", "[edit]\n-  v c;\n", "there is no `v c` that could go");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        check("a { b 1; }", "[edit a]\n-  b 2;\n", "there is no `b 2` that could go");
        check("a { b 1; }", "[edit c]\n-  b 1;\n", "there is no `c` in it");
        check("a { b 1; }", "[edit a]\n+  b 1;\n", "there is a `b 1` already");
        check("a 1;", "-  a 1;\n", "`-  a 1;` is no step");
        check("a 1;", "[edit]\n*  a 1;\n", "`*  a 1;` is no step");
        check("a 1;", "[look]\n", "`[look]` is no step");
        check("a 1;", "[]\n", "`[]` is no step");
        let deep = format!("[edit]\n+  {}{}\n", "a {".repeat(20), "}".repeat(20));
        let deeper = format!("[edit {}]\n+  {}{}\n", "a ".repeat(20), "b {".repeat(20), "}".repeat(20));
        let deepest = format!("[edit {} {}]\n+  c;\n", "a ".repeat(20).trim(), "b ".repeat(20).trim());
        let error = format!("there is no `{} {}` in it", "a ".repeat(20).trim(), "b ".repeat(20).trim());
        check("", &format!("{deep}{deeper}{deepest}"), &error);
    }
}
