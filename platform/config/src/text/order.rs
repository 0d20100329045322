//! The order of the statements of a text, carried over to a similar rendered text.
//!
//! In each block, statements of both texts keep the order of the old text. New statements come after their siblings of
//! the same name, or, without siblings, after the preceding statement of the rendered text.

use super::words::{ANNOTATE, INACTIVE};
use crate::schema::index::{Id, Index, Kind, ROOT};
use crate::text::{self, Statement};
use std::collections::HashMap;

/// A statement of a rendered text: its lines, including preceding annotations.
struct Row<'t> {
    words: Vec<String>,
    /// The lines before those of the statements inside.
    head: Vec<&'t str>,
    inner: Vec<Row<'t>>,
    /// The lines after those of the statements inside.
    tail: Vec<&'t str>,
}

/// Returns the rendered text `new` with the statements in the order of `old`. Entries of a list whose order has a
/// meaning keep the rendered order.
pub(crate) fn arrange(index: &Index, old: &str, new: &str) -> String {
    // A text that is not valid has no order.
    let Ok(statements) = text::parse("old", old) else { return new.to_owned() };
    if statements.is_empty() {
        return new.to_owned();
    }
    let mut known = Known::default();
    for Statement { words, block } in statements {
        let words = words.into_iter().map(|word| word.text).collect();
        known.add(index, Some(ROOT), words, block);
    }
    let mut lines = new.lines().peekable();
    let mut rows = rows(&mut lines);
    sort(index, Some(ROOT), &known, &mut rows);
    let mut out = String::with_capacity(new.len());
    write(&rows, &mut out);
    out
}

/// The statements of a block of the old text. A statement with a whole path counts as the blocks of the path.
#[derive(Default)]
struct Known {
    statements: Vec<(Vec<String>, Known)>,
    places: HashMap<Vec<String>, usize>,
}

impl Known {
    fn add(&mut self, index: &Index, def: Option<Id>, mut words: Vec<String>, block: Option<Vec<Statement>>) {
        words.retain(|word| word != INACTIVE);
        let child = words.first().and_then(|name| index[def?].child(name));
        let is_block = |id: &Id| matches!(index[*id].kind, Kind::Container { .. } | Kind::List { .. });
        let own = child.filter(is_block).map_or(words.len(), |id| 1 + index[id].keys().len());
        let rest = words.split_off(own.min(words.len()));
        let at = *self.places.entry(words.clone()).or_insert_with(|| {
            self.statements.push((words, Known::default()));
            self.statements.len() - 1
        });
        let inner = &mut self.statements[at].1;
        if !rest.is_empty() {
            return inner.add(index, child, rest, block);
        }
        for Statement { words, block } in block.into_iter().flatten() {
            inner.add(index, child, words.into_iter().map(|word| word.text).collect(), block);
        }
    }
}

/// Takes the statements of a block, up to its closing brace.
fn rows<'t>(lines: &mut std::iter::Peekable<std::str::Lines<'t>>) -> Vec<Row<'t>> {
    let mut found = Vec::new();
    let mut notes = Vec::new();
    while let Some(line) = lines.next_if(|line| line.trim() != "}") {
        let said = line.trim_start();
        if said.strip_prefix(ANNOTATE).is_some_and(|rest| rest.starts_with(' ')) {
            notes.push(line);
            continue;
        }
        let mut row =
            Row { words: words(said), head: std::mem::take(&mut notes), inner: Vec::new(), tail: Vec::new() };
        row.head.push(line);
        if said.ends_with(" {") {
            row.inner = rows(lines);
            row.tail.extend(lines.next());
        } else if said.ends_with(" [") {
            for line in lines.by_ref() {
                row.head.push(line);
                if line.trim() == "];" {
                    break;
                }
            }
        }
        found.push(row);
    }
    if !notes.is_empty() {
        found.push(Row { words: Vec::new(), head: notes, inner: Vec::new(), tail: Vec::new() });
    }
    found
}

/// The words of a rendered line.
fn words(line: &str) -> Vec<String> {
    let said = line.trim_end_matches(['{', '[', ';', ' ']);
    let read = text::words("line", said).unwrap_or_default();
    read.into_iter().map(|word| word.text).filter(|word| word != INACTIVE).collect()
}

/// The order of a statement: the place in the old text, whether the statement is there or behind, and the place in the new text.
type Rank = (usize, u8, usize);

fn sort(index: &Index, def: Option<Id>, old: &Known, rows: &mut Vec<Row<'_>>) {
    let mut named: HashMap<&str, usize> = HashMap::new();
    for (at, (words, _)) in old.statements.iter().enumerate() {
        if let Some(name) = words.first() {
            // Places begin with 1: before all of them is what has no statement before it.
            named.entry(name).or_insert(at + 1);
        }
    }
    let exact = |row: &Row<'_>| old.places.get(&row.words).map(|at| at + 1);
    let mut count: HashMap<String, usize> = HashMap::new();
    for name in rows.iter().filter_map(|row| row.words.first()) {
        *count.entry(name.clone()).or_default() += 1;
    }
    let child = |row: &Row<'_>| index[def?].child(row.words.first()?);
    let place = |row: &Row<'_>| {
        if child(row).is_some_and(|child| index[child].is_listed()) {
            return named.get(row.words.first()?.as_str()).copied();
        }
        // With another value or key, the only statement of a name takes the place of the one before.
        let is_only = row.words.first().is_some_and(|name| count.get(name) == Some(&1));
        exact(row).or_else(|| named.get(row.words.first()?.as_str()).copied().filter(|_| is_only))
    };
    let mut last: HashMap<&str, usize> = HashMap::new();
    for row in rows.iter() {
        if let (Some(name), Some(at)) = (row.words.first(), place(row)) {
            let known = last.entry(name).or_insert(at);
            *known = (*known).max(at);
        }
    }
    let mut before = 0;
    let mut ranks: Vec<Rank> = Vec::with_capacity(rows.len());
    for (number, row) in rows.iter().enumerate() {
        let sibling = row.words.first().and_then(|name| last.get(name.as_str()));
        let rank = match (place(row), sibling) {
            (Some(at), _) => (at, 0, number),
            (None, Some(at)) => (*at, 1, number),
            (None, None) => (before, 2, number),
        };
        before = rank.0;
        ranks.push(rank);
    }
    for row in rows.iter_mut().filter(|row| !row.inner.is_empty()) {
        if let Some(at) = exact(row) {
            let child = def.and_then(|def| innermost(index, def, &row.words));
            sort(index, child, &old.statements[at - 1].1, &mut row.inner);
        }
    }
    let mut ranked: Vec<(Rank, Row<'_>)> = ranks.into_iter().zip(rows.drain(..)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    rows.extend(ranked.into_iter().map(|(_, row)| row));
}

/// The definition of the block that a statement's words open.
fn innermost(index: &Index, def: Id, words: &[String]) -> Option<Id> {
    let (mut id, mut at) = (def, 0);
    while let Some(name) = words.get(at) {
        id = index[id].child(name)?;
        at += 1 + index[id].keys().len();
    }
    Some(id)
}

fn write(rows: &[Row<'_>], out: &mut String) {
    for row in rows {
        row.head.iter().for_each(|line| push(out, line));
        write(&row.inner, out);
        row.tail.iter().for_each(|line| push(out, line));
    }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::EXAMPLE;
    use crate::{Module, Schema};
    use proptest::prelude::*;

    const NEW: &str = "a {\n    one 1;\n    two [\n        x\n        y\n    ];\n    entry 1;\n    entry 2 {\n        p q;\n        r s;\n    }\n    \
        annotate entry 3 \"text\";\n    inactive: entry 3;\n}\nb;\nc {\n    d;\n}\n";

    #[track_caller]
    fn check(old: &str, expected: &str) {
        let schema = Schema::of(&[]).unwrap();
        let arranged = arrange(&schema.index, old, NEW);
        let short: Vec<&str> = arranged.split_whitespace().collect();
        assert_eq!(short.join(" "), expected, "{old}");
    }

    #[test]
    fn statements_stay_where_they_were() {
        let same = "a { one 1; two [ x y ]; entry 1; entry 2 { p q; r s; } annotate entry 3 \"text\"; inactive: entry 3; } b; c { d; }";
        check("", same);
        check("not valid", same);
        check(
            "c { d; } gone; a { entry 3; entry 2 { r s; p other; } two x; one 7; } ",
            "c { d; } a { annotate entry 3 \"text\"; inactive: entry 3; entry 2 { r s; p q; } entry 1; two [ x y ]; one 1; } b;",
        );
        // What is new comes after its siblings.
        check(
            "b; a { entry 2 { r s; p q; } one 1; entry 1; }",
            "b; c { d; } a { entry 2 { r s; p q; } one 1; two [ x y ]; entry 1; annotate entry 3 \"text\"; inactive: entry 3; }",
        );
    }

    #[test]
    fn an_order_that_has_a_meaning_stays() {
        let schema = Schema::of(&[Module { name: "example", text: EXAMPLE }]).unwrap();
        let new = "protocols {\n    example {\n        area b 1;\n        area a 1;\n        local-as 1;\n    }\n}\n";
        let arranged =
            arrange(&schema.index, "protocols { example { local-as 2; area a 1; area b 1; } }", new);
        assert!(arranged.contains("local-as 1;\n        area b 1;\n        area a 1;\n"), "{arranged}");
    }

    proptest! {
        #[test]
        fn nothing_is_lost(old in "([a-c]( [a-c1-3])?( \\{|;|\\}){1,2} ?){0,12}") {
            let mut lines: Vec<&str> = NEW.lines().collect();
            let schema = Schema::of(&[]).unwrap();
            let arranged = arrange(&schema.index, &old, NEW);
            let mut got: Vec<&str> = arranged.lines().collect();
            lines.sort_unstable();
            got.sort_unstable();
            prop_assert_eq!(got, lines);
        }
    }
}
