//! The places of components in the configuration: a class has a container at the top of the tree, or a container in the
//! entries of a list whose key names the instance, or both.

use super::index::{Id, Index, Kind, ROOT};
use super::node::{Node, NodeKind};
use crate::error::SchemaError;
use crate::schema::Schema;
use crate::tree::{Block, Item, Tree};
use sluice_base::{TableId, class_of, component_name, instance_of};
use std::sync::Arc;

/// The required type of the key of a list with components, so that every instance can be named.
const KEY_TYPE: &str = "instance-name";

/// The lists above a container, outermost first.
fn lists_above(index: &Index, path: &str) -> Vec<Id> {
    let mut at = ROOT;
    let mut found = Vec::new();
    for name in path.split('/') {
        let Some(child) = index[at].child(name) else { break };
        at = child;
        if matches!(index[at].kind, Kind::List { .. }) {
            found.push(at);
        }
    }
    found
}

impl Index {
    /// Checks conditions that need the whole schema: lists above components can name the components, and shared
    /// subtrees exist. `nodes` are the definitions for users, with the types of keys.
    pub(crate) fn check_components(&self, nodes: &[Node]) -> Result<(), SchemaError> {
        let wrong = |id: Id, reason| SchemaError::Module { name: self[id].module.to_string(), reason };
        for places in self.classes.values() {
            if let Some(id) = places.listed {
                check_lists(self, nodes, id)?;
            }
            for id in places.both() {
                if let Some((name, _)) = self[id].uses.iter().find(|(name, _)| self[id].child(name).is_some())
                {
                    let reason =
                        format!("`{}` has a `{name}` of its own beside the shared one", self[id].path);
                    return Err(wrong(id, reason));
                }
                let unknown = self[id].uses.iter().find(|(name, _)| !self.shared.contains_key(name));
                if let Some((name, _)) = unknown {
                    let known: Vec<&str> = self.shared.keys().map(|name| &**name).collect();
                    let reason = format!(
                        "`{}` uses the shared subtree `{name}`, which no module has; there are: {}",
                        self[id].path,
                        known.join(", ")
                    );
                    return Err(wrong(id, reason));
                }
            }
        }
        Ok(())
    }
}

/// Checks that the list above a component's container can name the component's instances.
fn check_lists(index: &Index, nodes: &[Node], id: Id) -> Result<(), SchemaError> {
    let path = &index[id].path;
    let wrong = |reason| Err(SchemaError::Module { name: index[id].module.to_string(), reason });
    let lists = lists_above(index, path);
    let [list] = *lists else {
        return wrong(format!(
            "`{path}` is a component's and below {} lists; it can have one name only",
            lists.len()
        ));
    };
    let mut node: Option<&Node> = None;
    for name in index[list].path.split('/') {
        let children = node.map_or(nodes, |node| node.children.as_slice());
        node = children.iter().find(|child| child.name == name);
    }
    let is_name = |key: &Arc<str>| match node.and_then(|node| node.child(key)).map(|leaf| &leaf.kind) {
        Some(NodeKind::Leaf(value)) => value.type_name == KEY_TYPE,
        _ => false,
    };
    match index[list].keys() {
        [key] if is_name(key) => Ok(()),
        _ => wrong(format!(
            "`{}` holds the component of `{path}`, so its only key has to be of type sluice:{KEY_TYPE}",
            index[list].path
        )),
    }
}

impl Schema {
    /// The names of the components that have configuration in a tree: classes, and instances of classes (`bgp@red`).
    pub fn configured(&self, tree: &Tree) -> Vec<String> {
        let mut found = Vec::new();
        for (class, places) in &self.index.classes {
            if places.single.is_some_and(|id| self.block(tree, id, None).is_some()) {
                found.push(class.to_string());
            }
            let Some(id) = places.listed else { continue };
            for instance in self.instances(tree, id) {
                if self.block(tree, id, Some(&instance)).is_some() {
                    found.push(component_name(class, Some(&instance)));
                }
            }
        }
        found
    }

    /// Returns the routing table of an instance: the value of the leaf marked `sluice:table` beside its container; the
    /// main table without a value.
    pub fn table(&self, component: &str, tree: &Tree) -> TableId {
        let found = || {
            let leaf = self.table_leaf(component)?;
            let (list, _) = self.index[leaf].path.rsplit_once('/')?;
            match self.block_at(tree, list, instance_of(component))?.get(&self.index[leaf].name)? {
                Item::Leaf(leaf) => leaf.text.parse().ok().map(TableId),
                _ => None,
            }
        };
        found().unwrap_or(TableId::MAIN)
    }

    /// The leaf that names the table of an instance.
    pub(crate) fn table_leaf(&self, component: &str) -> Option<Id> {
        let (_, id) = self.place(component)?;
        let list = *lists_above(&self.index, &self.index[id].path).first()?;
        self.index[list].children.iter().copied().find(|child| self.index[*child].is_table)
    }

    /// Returns a component's instance and the definition of its container; `None` for a component unknown to the
    /// schema.
    pub(crate) fn place<'n>(&self, component: &'n str) -> Option<(Option<&'n str>, Id)> {
        let instance = instance_of(component);
        let id = self.index.classes.get(class_of(component))?.of(instance)?;
        Some((instance, id))
    }

    /// Returns the block of a container; below a list, the block of an instance.
    pub(crate) fn block<'t>(&self, tree: &'t Tree, id: Id, instance: Option<&str>) -> Option<&'t Arc<Block>> {
        self.block_at(tree, &self.index[id].path, instance)
    }

    /// The same by the path of the definition.
    fn block_at<'t>(&self, tree: &'t Tree, path: &str, instance: Option<&str>) -> Option<&'t Arc<Block>> {
        let mut block = &tree.root;
        for name in path.split('/') {
            block = match block.get(name)? {
                Item::Container(inner) => inner,
                Item::List(entries) => entries.get(instance?)?,
                _ => return None,
            };
        }
        Some(block)
    }

    /// The keys of the list above a container.
    fn instances(&self, tree: &Tree, id: Id) -> Vec<String> {
        let mut block = &tree.root;
        for name in self.index[id].path.split('/') {
            match block.get(name) {
                Some(Item::Container(inner)) => block = inner,
                Some(Item::List(entries)) => return entries.iter().map(|(key, _)| key.to_string()).collect(),
                _ => return Vec::new(),
            }
        }
        Vec::new()
    }
}
