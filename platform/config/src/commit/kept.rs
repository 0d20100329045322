//! The part of a configuration at and below some paths, for readers who may not see the rest.

use crate::schema::Schema;
use crate::schema::index::{Id, Index, ROOT};
use crate::tree::entries::Entries;
use crate::tree::key::Key;
use crate::tree::key::key_words;
use crate::tree::{Block, Form, Item, Tree};
use std::sync::Arc;

/// The words of a path that are still to match. `*` stands for any one word.
type Rest<'p> = &'p [String];

impl Schema {
    /// Returns the statements at and below any of `paths`, and the blocks and keys around them. Inactive statements and annotations are kept if they stand at or below one of `paths`.
    pub fn kept(&self, tree: &Tree, paths: &[Vec<String>]) -> Tree {
        let rests: Vec<Rest<'_>> = paths.iter().map(Vec::as_slice).filter(|path| !path.is_empty()).collect();
        let is_within = |marked: &[Arc<str>]| {
            let matches = |rest: &Rest<'_>| {
                marked.len() >= rest.len()
                    && rest.iter().zip(marked).all(|(pattern, word)| fits(pattern, word))
            };
            rests.iter().any(matches)
        };
        let mut marks = (*tree.marks).clone();
        marks.inactive.retain(|path, _| is_within(path));
        marks.notes.retain(|path, _| is_within(path));
        Tree { root: Arc::new(kept_of_block(&self.index, ROOT, &tree.root, &rests)), marks: Arc::new(marks) }
    }
}

fn fits(pattern: &str, word: &str) -> bool {
    pattern == "*" || pattern == word
}

/// Returns the rests behind `words` of those that match.
fn behind<'w, 'p>(rests: &[Rest<'p>], words: impl Iterator<Item = &'w str> + Clone) -> Vec<Rest<'p>> {
    let advance = |rest: &Rest<'p>| {
        let mut rest = *rest;
        for word in words.clone() {
            match rest.split_first() {
                Some((pattern, behind)) if fits(pattern, word) => rest = behind,
                Some(_) => return None,
                None => break,
            }
        }
        Some(rest)
    };
    rests.iter().filter_map(advance).collect()
}

/// Returns true if a path ends here: everything below is kept.
fn is_whole(rests: &[Rest<'_>]) -> bool {
    rests.iter().any(|rest| rest.is_empty())
}

fn kept_of_block(index: &Index, id: Id, block: &Block, rests: &[Rest<'_>]) -> Block {
    let mut kept = Block::default();
    for (child, name) in index[id].children.iter().map(|child| (*child, &index[*child].name)) {
        let rests = behind(rests, std::iter::once(&**name));
        let Some(item) = block.get(name).filter(|_| !rests.is_empty()) else { continue };
        let item = match item {
            item if is_whole(&rests) => Some(item.clone()),
            Item::Leaf(_) => None,
            Item::Values(values) => {
                let of_value =
                    |value: &Form, rests: &[Rest<'_>]| if is_whole(rests) { Some(*value) } else { None };
                kept_of_entries(values, &rests, of_value).map(Item::Values)
            }
            Item::Container(inner) => {
                let inner = kept_of_block(index, child, inner, &rests);
                (!inner.is_empty()).then(|| Item::Container(Arc::new(inner)))
            }
            Item::List(entries) => {
                let of_entry = |entry: &Arc<Block>, rests: &[Rest<'_>]| match is_whole(rests) {
                    true => Some(entry.clone()),
                    false => kept_of_entry(index, child, entry, rests),
                };
                kept_of_entries(entries, &rests, of_entry).map(Item::List)
            }
        };
        if let Some(item) = item {
            kept.put(name, item);
        }
    }
    kept
}

/// Returns the kept statements of a list's entry with the keys of the entry, if anything but the keys is kept.
fn kept_of_entry(index: &Index, list: Id, entry: &Block, rests: &[Rest<'_>]) -> Option<Arc<Block>> {
    let mut kept = kept_of_block(index, list, entry, rests);
    if kept.is_empty() {
        return None;
    }
    for key in index[list].keys() {
        if let Some(leaf) = entry.get(key) {
            kept.put(key, leaf.clone());
        }
    }
    Some(Arc::new(kept))
}

fn kept_of_entries<V: Clone>(
    entries: &Entries<V>,
    rests: &[Rest<'_>],
    kept_of: impl Fn(&V, &[Rest<'_>]) -> Option<V>,
) -> Option<Entries<V>> {
    let mut kept = Entries::new(entries.is_listed());
    let of_entry = |key: &Key, value: &V| {
        let rests = behind(rests, key_words(key));
        if rests.is_empty() { None } else { kept_of(value, &rests) }
    };
    for (key, value) in entries.iter() {
        if let Some(value) = of_entry(key, value) {
            kept.entry(key, || value);
        }
    }
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;
    use crate::text::secrets::Secrets;

    const MODULES: [Module; 2] = [
        Module { name: "sluice-static", text: include_str!("../../../../components/static/static.yang") },
        Module { name: "sluice-bgp", text: include_str!("../../../../components/bgp/bgp.yang") },
    ];

    fn check(statements: &[&str], paths: &[&str], expected: &[&str]) {
        let schema = Schema::of(&MODULES).expect("modules");
        let tree = statements.iter().fold(Tree::empty(), |tree, line| schema.edit(&tree, line).expect(line));
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.split_whitespace().map(Into::into).collect()).collect();
        let lines = schema.set_lines(&schema.kept(&tree, &paths), &[], Secrets::Hidden).expect("the root");
        assert_eq!(lines, expected, "{paths:?}");
    }

    const STATEMENTS: [&str; 6] = [
        "set system host-name edge",
        "set protocols static route 192.0.2.0/24 discard",
        "set protocols static route 198.51.100.0/24 discard",
        "set protocols bgp local-as 65001",
        "set protocols bgp neighbor 192.0.2.1 peer-as 65002",
        "set protocols bgp network 203.0.113.0/24",
    ];

    #[test]
    fn statements_at_and_below_a_path_are_kept() {
        check(&STATEMENTS, &["system host-name"], &STATEMENTS[..1]);
        check(&STATEMENTS, &["protocols static route 192.0.2.0/24"], &STATEMENTS[1..2]);
        check(&STATEMENTS, &["protocols static", "system"], &STATEMENTS[..3]);
        check(&STATEMENTS, &["protocols * neighbor * peer-as"], &STATEMENTS[4..5]);
        check(&STATEMENTS, &["protocols bgp network 203.0.113.0/24"], &STATEMENTS[5..]);
    }

    #[test]
    fn nothing_else_is_kept() {
        check(&STATEMENTS, &[], &[]);
        check(&STATEMENTS, &[""], &[]);
        check(&STATEMENTS, &["protocols bgp local-as 65001", "protocols static route 10.0.0.0/8", "x"], &[]);
        let marked = [&STATEMENTS[1..3], &["annotate protocols static route 192.0.2.0/24 \"mine\""]].concat();
        check(&marked, &["protocols static route 198.51.100.0/24"], &STATEMENTS[2..3]);
        let inactive = [&STATEMENTS[1..3], &["deactivate protocols static route 192.0.2.0/24"]].concat();
        check(&inactive, &["protocols static route 198.51.100.0/24"], &STATEMENTS[2..3]);
    }
}
