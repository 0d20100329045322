//! A B+ tree whose copies share nodes.

use crate::tree::key::{Key, natural};
use std::sync::Arc;

/// A node has at most so many entries.
const FULL: usize = 32;

#[derive(Clone, Debug)]
pub(crate) enum Node<V> {
    Leaf(Vec<(Key, V)>),
    /// Each with the first key in it.
    Branch(Vec<(Key, Arc<Node<V>>)>),
}

/// A B+ tree.
#[derive(Clone, Debug)]
pub(crate) struct Sorted<V> {
    pub root: Arc<Node<V>>,
    pub len: usize,
}

impl<V: Clone> Node<V> {
    fn first(&self) -> Option<&Key> {
        match self {
            Node::Leaf(entries) => entries.first().map(|(key, _)| key),
            Node::Branch(nodes) => nodes.first().map(|(key, _)| key),
        }
    }

    pub fn height(&self) -> usize {
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

    pub fn get_mut(&mut self, key: &str) -> Option<&mut V> {
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
    pub fn get(&self, key: &str) -> Option<&V> {
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

    pub fn insert(&mut self, key: &Key, value: V) {
        self.len += 1;
        if let Some(upper) = Arc::make_mut(&mut self.root).insert(key, value) {
            let lower = self.root.clone();
            let parts = [lower, Arc::new(upper)];
            let nodes = parts.into_iter().filter_map(|n| Some((n.first()?.clone(), n))).collect();
            self.root = Arc::new(Node::Branch(nodes));
        }
    }

    pub fn remove(&mut self, key: &str) {
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

pub(crate) enum Step<'a, V> {
    Node(&'a Arc<Node<V>>),
    Entry(&'a Key, &'a V),
}

/// The nodes still to visit, the next one last.
pub(crate) struct Walk<'a, V> {
    pub pending: Vec<Step<'a, V>>,
}

impl<V> Walk<'_, V> {
    /// Replaces the next node with its content.
    pub fn open(&mut self) {
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
