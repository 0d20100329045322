//! A map shared by many trees: a copy costs nothing, a change copies the path to the changed entry, and parts shared by
//! two maps are skipped in comparisons.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// The key of a list's entry, or a value of a leaf-list: the values of the keys in order, [`SEPARATOR`] between them.
pub(crate) type Key = Arc<str>;

/// Stands between the values of a key. No value holds a control character.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// A node has at most so many entries.
const FULL: usize = 32;

#[derive(Clone, Debug)]
enum Node<V> {
    Leaf(Vec<(Key, V)>),
    /// Each with the first key in it.
    Branch(Vec<(Key, Arc<Node<V>>)>),
}

/// Entries by key: in the order of their keys, or in the operator's.
#[derive(Clone, Debug)]
pub(crate) enum Entries<V> {
    /// In the order of [`natural`].
    Sorted(Sorted<V>),
    /// As the operator put them.
    Listed(Arc<Listed<V>>),
}

/// Entries in a row. A change costs as much as the row is long, because operators order few entries.
#[derive(Clone, Debug)]
pub(crate) struct Listed<V> {
    row: Vec<(Key, V)>,
    places: HashMap<Key, usize>,
}

impl<V> Listed<V> {
    fn remove(&mut self, key: &str) {
        let Some(at) = self.places.remove(key) else { return };
        self.row.remove(at);
        self.number(at);
    }

    fn move_beside(&mut self, key: &str, there: &str, is_after: bool) {
        let (Some(from), Some(to)) = (self.places.get(key).copied(), self.places.get(there).copied()) else {
            return;
        };
        let entry = self.row.remove(from);
        let to = to - usize::from(from < to) + usize::from(is_after);
        self.row.insert(to, entry);
        self.number(from.min(to));
    }

    /// Notes the places of the entries from `first` on.
    fn number(&mut self, first: usize) {
        for (place, (key, _)) in self.row.iter().enumerate().skip(first) {
            self.places.insert(key.clone(), place);
        }
    }
}

/// A B+ tree.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<V> {
    root: Arc<Node<V>>,
    len: usize,
}

/// Compares keys in natural order: numbers by size, further text letter by letter.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (x, y) = (a.as_bytes(), b.as_bytes());
    let shared = x.iter().zip(y).take_while(|(a, b)| a == b).count();
    let is_digit = |t: &[u8], i: usize| t.get(i).is_some_and(u8::is_ascii_digit);
    if is_digit(x, shared) || is_digit(y, shared) {
        // The number in which they differ begins where their common digits do.
        let start = (0..shared).rev().take_while(|i| x[*i].is_ascii_digit()).last().unwrap_or(shared);
        let number = |t: &[u8]| t[start..].iter().take_while(|c| c.is_ascii_digit()).count();
        let (m, n) = (number(x), number(y));
        // Without leading zeros, the longer number is the larger one.
        if m > 0 && n > 0 && m != n && x[start] != b'0' && y[start] != b'0' {
            return m.cmp(&n);
        }
    }
    x[shared..].cmp(&y[shared..])
}

impl<V: Clone> Node<V> {
    fn first(&self) -> Option<&Key> {
        match self {
            Node::Leaf(entries) => entries.first().map(|(key, _)| key),
            Node::Branch(nodes) => nodes.first().map(|(key, _)| key),
        }
    }

    fn height(&self) -> usize {
        match self {
            Node::Leaf(_) => 0,
            Node::Branch(nodes) => 1 + nodes.first().map_or(0, |(_, node)| node.height()),
        }
    }

    /// Splits off the upper half of a node that got too large.
    fn overflow(&mut self) -> Option<Node<V>> {
        match self {
            Node::Leaf(entries) if entries.len() > FULL => {
                Some(Node::Leaf(entries.split_off(split_at(entries.len()))))
            }
            Node::Branch(nodes) if nodes.len() > FULL => {
                Some(Node::Branch(nodes.split_off(split_at(nodes.len()))))
            }
            _ => None,
        }
    }

    /// Puts a new entry in; the upper half of the node if that had to be split.
    fn insert(&mut self, key: &Key, value: V) -> Option<Node<V>> {
        match self {
            Node::Leaf(entries) => {
                let at = entries.partition_point(|(k, _)| natural(k, key).is_lt());
                entries.insert(at, (key.clone(), value));
            }
            Node::Branch(nodes) => {
                let at = child_at(nodes, key);
                let (first, node) = &mut nodes[at];
                let upper = Arc::make_mut(node).insert(key, value);
                if natural(key, first).is_lt() {
                    *first = key.clone();
                }
                if let Some(upper) = upper
                    && let Some(first) = upper.first().cloned()
                {
                    nodes.insert(at + 1, (first, Arc::new(upper)));
                }
            }
        }
        self.overflow()
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        match self {
            Node::Leaf(entries) => {
                let at = entries.binary_search_by(|(k, _)| natural(k, key)).ok()?;
                Some(&mut entries[at].1)
            }
            Node::Branch(nodes) => {
                let at = child_at(nodes, key);
                Arc::make_mut(&mut nodes[at].1).get_mut(key)
            }
        }
    }

    /// Removes an existing entry. Emptied nodes are removed too.
    fn remove(&mut self, key: &str) {
        match self {
            Node::Leaf(entries) => {
                if let Ok(at) = entries.binary_search_by(|(k, _)| natural(k, key)) {
                    entries.remove(at);
                }
            }
            Node::Branch(nodes) => {
                let at = child_at(nodes, key);
                let node = Arc::make_mut(&mut nodes[at].1);
                node.remove(key);
                match node.first().cloned() {
                    Some(first) => nodes[at].0 = first,
                    None => {
                        nodes.remove(at);
                    }
                }
            }
        }
    }
}

/// Most insertions come in order, so the lower part of what is split stays nearly full.
fn split_at(len: usize) -> usize {
    len - len / 4
}

fn child_at<V>(nodes: &[(Key, Arc<Node<V>>)], key: &str) -> usize {
    nodes.partition_point(|(first, _)| natural(first, key).is_le()).saturating_sub(1)
}

impl<V: Clone> Sorted<V> {
    fn get(&self, key: &str) -> Option<&V> {
        let mut node = &self.root;
        loop {
            match &**node {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(k, _)| natural(k, key)).ok()?;
                    return Some(&entries[at].1);
                }
                Node::Branch(nodes) => node = &nodes[child_at(nodes, key)].1,
            }
        }
    }

    fn insert(&mut self, key: &Key, value: V) {
        self.len += 1;
        if let Some(upper) = Arc::make_mut(&mut self.root).insert(key, value) {
            let lower = self.root.clone();
            let parts = [lower, Arc::new(upper)];
            let nodes = parts.into_iter().filter_map(|n| Some((n.first()?.clone(), n))).collect();
            self.root = Arc::new(Node::Branch(nodes));
        }
    }

    fn remove(&mut self, key: &str) {
        self.len -= 1;
        let root = Arc::make_mut(&mut self.root);
        root.remove(key);
        if root.first().is_none() {
            *root = Node::Leaf(Vec::new());
        }
        while let Node::Branch(nodes) = &*self.root
            && let [(_, only)] = nodes.as_slice()
        {
            self.root = only.clone();
        }
    }
}

impl<V: Clone> Entries<V> {
    pub fn new(is_listed: bool) -> Self {
        match is_listed {
            true => Entries::Listed(Arc::new(Listed { row: Vec::new(), places: HashMap::new() })),
            false => Entries::Sorted(Sorted { root: Arc::new(Node::Leaf(Vec::new())), len: 0 }),
        }
    }

    pub fn is_listed(&self) -> bool {
        matches!(self, Entries::Listed(_))
    }

    pub fn len(&self) -> usize {
        match self {
            Entries::Sorted(map) => map.len,
            Entries::Listed(all) => all.row.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, key: &str) -> Option<&V> {
        match self {
            Entries::Sorted(map) => map.get(key),
            Entries::Listed(all) => all.places.get(key).map(|at| &all.row[*at].1),
        }
    }

    /// The value of a key, made first if there is none.
    pub fn entry(&mut self, key: &Key, make: impl FnOnce() -> V) -> Option<&mut V> {
        let is_there = self.get(key).is_some();
        match self {
            Entries::Sorted(map) => {
                if !is_there {
                    map.insert(key, make());
                }
                Arc::make_mut(&mut map.root).get_mut(key)
            }
            Entries::Listed(all) => {
                let all = Arc::make_mut(all);
                if !is_there {
                    all.places.insert(key.clone(), all.row.len());
                    all.row.push((key.clone(), make()));
                }
                let at = *all.places.get(key)?;
                Some(&mut all.row[at].1)
            }
        }
    }

    /// Takes an entry out; whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let is_there = self.get(key).is_some();
        match self {
            Entries::Sorted(map) if is_there => map.remove(key),
            Entries::Listed(all) if is_there => Arc::make_mut(all).remove(key),
            _ => {}
        }
        is_there
    }

    /// Moves an entry before or behind another one. Returns false, and changes nothing, if there is no such entry, or the
    /// operator's order has no meaning.
    pub fn move_beside(&mut self, key: &str, there: &str, is_after: bool) -> bool {
        let is_possible = key != there && self.get(key).is_some() && self.get(there).is_some();
        match self {
            Entries::Listed(all) if is_possible => {
                Arc::make_mut(all).move_beside(key, there, is_after);
                true
            }
            _ => false,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.walk().filter_map(|step| match step {
            Step::Entry(key, value) => Some((key, value)),
            Step::Node(_) => None,
        })
    }

    fn walk(&self) -> Walk<'_, V> {
        match self {
            Entries::Sorted(map) => Walk { pending: vec![Step::Node(&map.root)] },
            Entries::Listed(all) => {
                Walk { pending: all.row.iter().rev().map(|(k, v)| Step::Entry(k, v)).collect() }
            }
        }
    }

    /// Returns true if both are the same piece of memory.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Entries::Sorted(a), Entries::Sorted(b)) => Arc::ptr_eq(&a.root, &b.root),
            (Entries::Listed(a), Entries::Listed(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Returns keys with the values before and after, without keys in parts shared by both maps. Yielded values may
    /// still be equal. The operator's order is ignored.
    pub fn differences<'a>(&'a self, after: &'a Self) -> Vec<Difference<'a, V>> {
        let mut found = Vec::new();
        if self.is_same(after) {
            return found;
        }
        if self.is_listed() || after.is_listed() {
            found.extend(self.iter().map(|(k, v)| (k, Some(v), after.get(k))));
            found
                .extend(after.iter().filter(|(k, _)| self.get(k).is_none()).map(|(k, v)| (k, None, Some(v))));
            return found;
        }
        let (mut a, mut b) = (self.walk(), after.walk());
        loop {
            match (a.pending.last(), b.pending.last()) {
                (None, None) => return found,
                (Some(Step::Node(x)), Some(Step::Node(y))) => {
                    let (m, n) = (x.height(), y.height());
                    if Arc::ptr_eq(x, y) {
                        a.pending.pop();
                        b.pending.pop();
                        continue;
                    }
                    if m >= n {
                        a.open();
                    }
                    if n >= m {
                        b.open();
                    }
                }
                (Some(Step::Node(_)), _) => a.open(),
                (_, Some(Step::Node(_))) => b.open(),
                (Some(Step::Entry(k, v)), None) => {
                    found.push((*k, Some(*v), None));
                    a.pending.pop();
                }
                (None, Some(Step::Entry(k, v))) => {
                    found.push((*k, None, Some(*v)));
                    b.pending.pop();
                }
                (Some(Step::Entry(k, v)), Some(Step::Entry(l, w))) => match natural(k, l) {
                    Ordering::Less => {
                        found.push((*k, Some(*v), None));
                        a.pending.pop();
                    }
                    Ordering::Greater => {
                        found.push((*l, None, Some(*w)));
                        b.pending.pop();
                    }
                    Ordering::Equal => {
                        found.push((*k, Some(*v), Some(*w)));
                        a.pending.pop();
                        b.pending.pop();
                    }
                },
            }
        }
    }
}

/// A key with its values before and after.
pub(crate) type Difference<'a, V> = (&'a Key, Option<&'a V>, Option<&'a V>);

enum Step<'a, V> {
    Node(&'a Arc<Node<V>>),
    Entry(&'a Key, &'a V),
}

/// The nodes still to visit, the next one last.
struct Walk<'a, V> {
    pending: Vec<Step<'a, V>>,
}

impl<V> Walk<'_, V> {
    /// Replaces the next node with its content.
    fn open(&mut self) {
        if let Some(Step::Node(node)) = self.pending.pop() {
            match &**node {
                Node::Leaf(entries) => {
                    self.pending.extend(entries.iter().rev().map(|(k, v)| Step::Entry(k, v)));
                }
                Node::Branch(nodes) => self.pending.extend(nodes.iter().rev().map(|(_, n)| Step::Node(n))),
            }
        }
    }
}

impl<'a, V> Iterator for Walk<'a, V> {
    type Item = Step<'a, V>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(Step::Node(_)) = self.pending.last() {
            self.open();
        }
        self.pending.pop()
    }
}

impl<V: Clone + PartialEq> PartialEq for Entries<V> {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match (self, other) {
            (Entries::Listed(a), Entries::Listed(b)) => Arc::ptr_eq(a, b) || a.row == b.row,
            _ => self.differences(other).iter().all(|(_, a, b)| a == b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn numbers_sort_by_size() {
        let mut words =
            ["10.0.0.10", "10.0.0.9", "9.0.0.0/8", "eth10", "eth9", "eth", "10.0.0.0/8", "a1b", "a12"];
        words.sort_by(|a, b| natural(a, b));
        assert_eq!(
            words,
            ["9.0.0.0/8", "10.0.0.0/8", "10.0.0.9", "10.0.0.10", "a1b", "a12", "eth", "eth9", "eth10"]
        );
    }

    proptest! {
        #[test]
        fn the_order_is_one(words in prop::collection::vec("[a0-3.]{0,5}", 3)) {
            let [a, b, c] = &words[..] else { unreachable!("three words") };
            prop_assert_eq!(natural(a, b), natural(b, a).reverse());
            prop_assert_eq!(natural(a, b).is_eq(), a == b);
            if natural(a, b).is_le() && natural(b, c).is_le() {
                prop_assert!(natural(a, c).is_le(), "{:?}", words);
            }
        }

        #[test]
        fn a_row_keeps_its_order(steps in prop::collection::vec((0u8..9, any::<bool>()), 0..40)) {
            let (mut row, mut model) = (Entries::new(true), Vec::new());
            for (key, comes) in steps {
                let word: Key = key.to_string().into();
                if comes && !model.contains(&word) {
                    model.push(word.clone());
                }
                if comes {
                    row.entry(&word, || key);
                } else {
                    row.remove(&word);
                    model.retain(|k| *k != word);
                }
                prop_assert!(row.iter().map(|(k, _)| k).eq(&model));
                prop_assert!(model.iter().all(|k| row.get(k).is_some()));
            }
        }

        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u32..400, any::<bool>(), any::<u8>()), 0..600), cut in 0usize..600) {
            let (mut map, mut model) = (Entries::new(false), BTreeMap::new());
            let mut before = (map.clone(), model.clone());
            for (at, (key, comes, value)) in steps.into_iter().enumerate() {
                let key: Key = key.to_string().into();
                if comes {
                    *map.entry(&key, || value).expect("it was made") = value;
                    model.insert(key.to_string(), value);
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&*key).is_some());
                }
                if at == cut {
                    before = (map.clone(), model.clone());
                }
            }
            prop_assert_eq!(map.len(), model.len());
            let all: BTreeMap<String, u8> = map.iter().map(|(k, v)| (k.to_string(), *v)).collect();
            prop_assert_eq!(&all, &model);
            let keys: Vec<&Key> = map.iter().map(|(k, _)| k).collect();
            prop_assert!(keys.is_sorted_by(|a, b| natural(a, b).is_lt()));
            let (old, old_model) = before;
            prop_assert_eq!(old == map, old_model == model);
            for (key, a, b) in old.differences(&map) {
                prop_assert_eq!(a, old_model.get(&**key));
                prop_assert_eq!(b, model.get(&**key));
            }
            let differ = |k: &&String| old_model.get(*k) != model.get(*k);
            let expected = old_model.keys().chain(model.keys()).filter(differ).collect::<std::collections::BTreeSet<_>>();
            let differences = old.differences(&map);
            let found = differences.iter().filter(|(_, a, b)| a != b).count();
            prop_assert_eq!(found, expected.len());
        }
    }
}
