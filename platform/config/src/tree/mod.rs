//! The operator's configuration, as a tree. Trees share common parts: a copy costs nothing, and parts untouched by a
//! change are the same piece of memory before and after.

pub mod entries;
pub mod key;
pub mod marks;
pub mod sorted;

use crate::tree::entries::Entries;
use crate::tree::key::Key;
use crate::tree::marks::Marks;
use std::sync::Arc;

/// A configuration as written, without defaults, values in canonical form.
#[derive(Clone, Default, Debug)]
pub struct Tree {
    pub(crate) root: Arc<Block>,
    /// Inactive statements and annotations.
    pub(crate) marks: Arc<Marks>,
}

impl Tree {
    /// Returns an empty configuration.
    pub fn empty() -> Self {
        Tree::default()
    }

    /// Returns true for an empty configuration.
    pub fn is_empty(&self) -> bool {
        self.root.items.is_empty() && self.marks.is_empty()
    }

    /// Returns true if this configuration has statements and `after` has none. A file that leads there is damaged more
    /// often than meant: a full disk and a misplaced `>` both leave an empty file.
    pub fn is_emptied_by(&self, after: &Tree) -> bool {
        after.is_empty() && !self.is_empty()
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        same_block(&self.root, &other.root)
            && (Arc::ptr_eq(&self.marks, &other.marks) || self.marks == other.marks)
    }
}

/// The items between braces, by name.
#[derive(Clone, Default, Debug)]
pub(crate) struct Block {
    items: Vec<(Arc<str>, Item)>,
}

/// The item of a name.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Leaf(Leaf),
    Values(Entries<Form>),
    Container(Arc<Block>),
    List(Entries<Arc<Block>>),
}

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub text: Key,
    pub form: Form,
}

/// The JSON form of a value (RFC 7951, section 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Text,
    /// An integer of up to 32 bits.
    Number,
    Boolean,
    Empty,
}

pub(crate) fn same_block(a: &Arc<Block>, b: &Arc<Block>) -> bool {
    Arc::ptr_eq(a, b) || a.items == b.items
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Item::Leaf(a), Item::Leaf(b)) => a == b,
            (Item::Values(a), Item::Values(b)) => a == b,
            (Item::Container(a), Item::Container(b)) => same_block(a, b),
            (Item::List(a), Item::List(b)) => a == b,
            _ => false,
        }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl Block {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.items.binary_search_by(|(n, _)| (**n).cmp(name))
    }

    pub fn get(&self, name: &str) -> Option<&Item> {
        self.find(name).ok().map(|at| &self.items[at].1)
    }

    /// The item of a name, made first if there is none.
    pub fn item(&mut self, name: &Arc<str>, make: impl FnOnce() -> Item) -> &mut Item {
        let at = match self.find(name) {
            Ok(at) => at,
            Err(at) => {
                self.items.insert(at, (name.clone(), make()));
                at
            }
        };
        &mut self.items[at].1
    }

    /// Puts an item under a name, in the place of any that is there.
    pub fn put(&mut self, name: &Arc<str>, item: Item) {
        match self.find(name) {
            Ok(at) => self.items[at].1 = item,
            Err(at) => self.items.insert(at, (name.clone(), item)),
        }
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Item> {
        self.find(name).ok().map(|at| &mut self.items[at].1)
    }

    /// Takes an item out; whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        match self.find(name) {
            Ok(at) => {
                self.items.remove(at);
                true
            }
            Err(_) => false,
        }
    }

    /// Iterates over names and their items, by name.
    pub fn items(&self) -> impl Iterator<Item = (&Arc<str>, &Item)> {
        self.items.iter().map(|(name, item)| (name, item))
    }

    /// A leaf's text.
    pub fn leaf(&self, name: &str) -> Option<&Leaf> {
        match self.get(name)? {
            Item::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }
}

// With this, what two `Arc`s share is equal without a look at it.
impl Eq for Block {}
