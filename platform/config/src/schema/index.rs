//! The schema, taken out of libyang once: what the tree is built by, checked by and written by.

use super::yang::Yang;
use crate::tree::{Block, Leaf};
use crate::{Impact, Role};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which definition.
pub(crate) type Id = usize;

/// The definition of the root, which holds the top-level definitions.
pub(crate) const ROOT: Id = 0;

/// A node that an operator may write.
pub(crate) struct Def {
    pub name: Arc<str>,
    pub module: Arc<str>,
    /// The names from the top, `/` between them.
    pub path: Arc<str>,
    pub kind: Kind,
    /// The children, in the module's order.
    pub children: Vec<Id>,
    pub names: BTreeMap<Arc<str>, Id>,
    /// The same, with its choices.
    pub body: Case,
    pub class: Option<Arc<str>>,
    /// The shared subtrees used by the component, with the impact of their change on the component.
    pub uses: Vec<(Arc<str>, Impact)>,
    /// True for the leaf with the routing table of the instances beside the leaf.
    pub is_table: bool,
    /// The meaning for the platform.
    pub role: Option<Role>,
    /// The impact of a change; of a container without leaves, the impact of its creation and deletion.
    pub impact: Impact,
    pub is_secret: bool,
    /// True for a container that each element of a cluster keeps for itself.
    pub is_local: bool,
    /// True for a node of such a container that is one for all elements after all.
    pub is_common: bool,
    /// True for a statement that names an interface, and for blocks with such a statement inside.
    pub names_interfaces: bool,
    /// The value by which a leaf keeps the behavior of versions that did not have the leaf.
    pub as_before: Option<Arc<str>>,
    /// The list beside this list whose entries have statements for entries of this list.
    pub inherits_from: Option<Arc<str>>,
    /// True for lists with inheritance and everything inside: defaults are the component's to fill in, after inheritance.
    pub inherits: bool,
    /// The leaf that a name without a value sets.
    pub flag: Option<Leaf>,
    pub is_mandatory: bool,
    pub defaults: Vec<Leaf>,
    /// The expected values, for errors.
    pub expects: String,
    /// True if a constraint depends on the definition beyond the tree's shape; `watched_inside` is true if a constraint
    /// depends so on a definition inside; `watched_unwritten` is true if the constraint may hold although nothing inside
    /// is written. A list without entries has nothing that a constraint could be about.
    pub is_watched: bool,
    pub watched_inside: bool,
    pub watched_unwritten: bool,
    /// True if it is there only under a condition, or something inside is.
    pub conditional_inside: bool,
}

pub(crate) enum Kind {
    Container { presence: bool },
    List { keys: Vec<Arc<str>>, is_listed: bool, min: usize, max: usize },
    Leaf,
    Values { is_listed: bool, min: usize, max: usize },
}

/// An alternative of a choice; also the contents of a block.
#[derive(Default)]
pub(crate) struct Case {
    pub members: Vec<Id>,
    pub choices: Vec<Choice>,
}

pub(crate) struct Choice {
    pub name: String,
    pub is_mandatory: bool,
    pub default: Option<usize>,
    pub cases: Vec<Case>,
}

/// The containers of a class.
#[derive(Clone, Copy, Default)]
pub(crate) struct Places {
    /// The container of the component that runs without an instance.
    pub single: Option<Id>,
    /// The container below a list: an instance for each entry.
    pub listed: Option<Id>,
}

impl Places {
    /// The container of a component, by its instance.
    pub fn of(self, instance: Option<&str>) -> Option<Id> {
        if instance.is_none() { self.single } else { self.listed }
    }

    /// The containers that there are.
    pub fn both(self) -> impl Iterator<Item = Id> {
        self.single.into_iter().chain(self.listed)
    }
}

/// The definitions of a schema.
pub(crate) struct Index {
    pub(crate) defs: Vec<Def>,
    pub classes: BTreeMap<Arc<str>, Places>,
    /// The subtrees that several components may take, by name.
    pub shared: BTreeMap<Arc<str>, Id>,
    /// True if libyang cannot determine the dependencies of a constraint.
    pub is_opaque: bool,
}

impl std::ops::Index<Id> for Index {
    type Output = Def;

    fn index(&self, id: Id) -> &Def {
        &self.defs[id]
    }
}

impl Index {
    /// Gives the defaults the form that written values have.
    pub(crate) fn settle_defaults(&mut self, yang: &Yang) {
        for (id, def) in self.defs.iter_mut().enumerate() {
            for leaf in &mut def.defaults {
                if let Ok((text, form)) = yang.canonical(id, &leaf.text) {
                    *leaf = Leaf { text: text.into(), form };
                }
            }
        }
    }
}

impl Def {
    pub fn child(&self, name: &str) -> Option<Id> {
        self.names.get(name).copied()
    }

    /// Returns the names of the children.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    pub fn keys(&self) -> &[Arc<str>] {
        match &self.kind {
            Kind::List { keys, .. } => keys,
            _ => &[],
        }
    }

    /// Returns true if the container exists in the tree only because of its content.
    pub(crate) fn is_plain_container(&self) -> bool {
        matches!(self.kind, Kind::Container { presence: false })
    }

    /// Returns true if the operator's order of its entries or values counts.
    pub fn is_listed(&self) -> bool {
        matches!(self.kind, Kind::List { is_listed: true, .. } | Kind::Values { is_listed: true, .. })
    }
}

impl Case {
    /// Returns true if anything of it is written.
    pub fn is_present(&self, index: &Index, block: &Block) -> bool {
        self.members.iter().any(|id| block.get(&index[*id].name).is_some())
            || self.choices.iter().flat_map(|c| &c.cases).any(|case| case.is_present(index, block))
    }

    fn contains(&self, id: Id) -> bool {
        self.members.contains(&id) || self.choices.iter().flat_map(|c| &c.cases).any(|case| case.contains(id))
    }

    /// Returns the definitions of the alternative.
    pub fn everything(&self) -> Vec<Id> {
        let mut found = Vec::new();
        self.all(&mut found);
        found
    }

    /// Returns the definitions of the alternative that a block has.
    pub fn written(&self, index: &Index, block: &Block) -> Vec<Id> {
        let mut found = self.everything();
        found.retain(|id| block.get(&index[*id].name).is_some());
        found
    }

    fn all(&self, found: &mut Vec<Id>) {
        found.extend(&self.members);
        self.choices.iter().flat_map(|c| &c.cases).for_each(|case| case.all(found));
    }

    /// Returns the definitions that exclude `id`.
    pub fn rivals(&self, id: Id) -> Vec<Id> {
        let mut found = Vec::new();
        for choice in &self.choices {
            let Some(own) = choice.cases.iter().position(|case| case.contains(id)) else { continue };
            for (at, case) in choice.cases.iter().enumerate() {
                if at == own { found.extend(case.rivals(id)) } else { case.all(&mut found) }
            }
        }
        found
    }
}

impl Choice {
    /// Returns the written alternative, or else the default alternative; with true if written.
    pub fn active(&self, index: &Index, block: &Block) -> Option<&Case> {
        let written = self.cases.iter().find(|case| case.is_present(index, block));
        written.or_else(|| self.cases.get(self.default?))
    }
}

impl Index {
    /// Returns the definitions that may have a value in a block: every definition except the alternatives not chosen.
    pub(crate) fn effective(&self, id: Id, block: &Block) -> Vec<Id> {
        let mut found = Vec::new();
        self.effective_case(&self[id].body, block, &mut found);
        found
    }

    fn effective_case(&self, case: &Case, block: &Block, found: &mut Vec<Id>) {
        found.extend(&case.members);
        for choice in &case.choices {
            if let Some(active) = choice.active(self, block) {
                self.effective_case(active, block, found);
            }
        }
    }
}
