//! A map shared by many trees: a copy costs nothing, a change copies the path to the changed entry, and parts shared by
//! two maps are skipped in comparisons.

use super::sorted::{Node, Sorted, Step, Walk};
use crate::tree::key::{Key, natural};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

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
    pub(crate) fn move_beside(&mut self, key: &str, there: &str, is_after: bool) -> bool {
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
