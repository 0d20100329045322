//! The local part of a configuration: the statements that each element of a cluster keeps for itself. All else can be shared by elements.
//!
//! A container at the top with `sluice:local` is local, with its inactive statements and annotations, but for the nodes right inside with
//! `sluice:common`. Top-level containers do not contain each other, so that a configuration is its local part and its shared part side by
//! side.

use crate::schema::Schema;
use crate::schema::index::ROOT;
use crate::tree::{Block, Item, Tree};
use std::sync::Arc;

/// The part of a configuration to keep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Local,
    Shared,
}

impl Schema {
    fn is_local(&self, name: &str) -> bool {
        self.index[ROOT].child(name).is_some_and(|id| self.index[id].is_local)
    }

    /// Returns the part of a node right inside a container, or of the container.
    fn part_of(&self, container: &str, node: Option<&str>) -> Part {
        let Some(id) = self.index[ROOT].child(container).filter(|id| self.index[*id].is_local) else {
            return Part::Shared;
        };
        let node = node.and_then(|node| self.index[id].child(node));
        if node.is_some_and(|node| self.index[node].is_common) { Part::Shared } else { Part::Local }
    }

    fn part_of_path(&self, path: &[Arc<str>]) -> Part {
        path.first().map_or(Part::Shared, |name| self.part_of(name, path.get(1).map(|node| &**node)))
    }

    /// Returns the nodes of a block of a local container that belong to a part; `None` if none is left.
    fn block_of(&self, container: &str, block: &Arc<Block>, part: Part) -> Option<Arc<Block>> {
        let is_other = |name: &Arc<str>| self.part_of(container, Some(name)) != part;
        let gone: Vec<Arc<str>> =
            block.items().map(|(name, _)| name.clone()).filter(|name| is_other(name)).collect();
        if gone.is_empty() && (part == Part::Local || !block.is_empty()) {
            return Some(Arc::clone(block));
        }
        let mut kept = Arc::clone(block);
        for name in &gone {
            Arc::make_mut(&mut kept).remove(name);
        }
        (!kept.is_empty()).then_some(kept)
    }

    fn only(&self, tree: &Tree, part: Part) -> Tree {
        let mut kept = tree.clone();
        for (name, item) in tree.root.items() {
            let item = match item {
                Item::Container(block) if self.is_local(name) => {
                    self.block_of(name, block, part).map(Item::Container)
                }
                item if self.part_of(name, None) == part => Some(item.clone()),
                _ => None,
            };
            let root = Arc::make_mut(&mut kept.root);
            match item {
                Some(item) => root.put(name, item),
                None => {
                    root.remove(name);
                }
            }
        }
        if !tree.marks.is_empty() {
            let marks = Arc::make_mut(&mut kept.marks);
            marks.inactive.retain(|path, _| self.part_of_path(path) == part);
            marks.notes.retain(|path, _| self.part_of_path(path) == part);
        }
        kept
    }

    /// Returns the statements that an element keeps for itself.
    pub fn local_part(&self, tree: &Tree) -> Tree {
        self.only(tree, Part::Local)
    }

    /// Returns the statements that elements can share.
    pub fn shared_part(&self, tree: &Tree) -> Tree {
        self.only(tree, Part::Shared)
    }

    /// Returns the shared part of one configuration with the local part of another one. Common nodes of a local container stay those of the
    /// local one if the shared part has none: elements of earlier versions share none. [`Schema::validate`] checks the whole.
    pub fn joined(&self, shared: &Tree, local: &Tree) -> Tree {
        let mut whole = self.shared_part(shared);
        // The common nodes of containers that have some in the shared part.
        let has_common = |container: &str| {
            let is_inside = |path: &Vec<Arc<str>>| path.first().is_some_and(|name| **name == *container);
            whole.root.get(container).is_some() || whole.marks.inactive.keys().any(is_inside)
        };
        let containers: Vec<Arc<str>> = local.root.items().map(|(name, _)| name.clone()).collect();
        let shares: Vec<Arc<str>> =
            containers.into_iter().filter(|name| self.is_local(name) && has_common(name)).collect();
        let stays = |path: &[Arc<str>]| match self.part_of_path(path) {
            Part::Local => true,
            Part::Shared => path.first().is_some_and(|name| self.is_local(name) && !shares.contains(name)),
        };
        let root = Arc::make_mut(&mut whole.root);
        for (name, item) in local.root.items().filter(|(name, _)| self.is_local(name)) {
            let Item::Container(own) = item else { continue };
            let mut block = Arc::clone(own);
            if let Some(Item::Container(common)) = root.get(name) {
                let own = self.block_of(name, own, Part::Local).unwrap_or_default();
                block = Arc::clone(common);
                own.items().for_each(|(name, item)| Arc::make_mut(&mut block).put(name, item.clone()));
            } else if shares.contains(name) {
                block = self.block_of(name, own, Part::Local).unwrap_or_default();
            }
            root.put(name, Item::Container(block));
        }
        if !local.marks.is_empty() {
            let marks = Arc::make_mut(&mut whole.marks);
            let of = |path: &&Vec<Arc<str>>| stays(path);
            let inactive = local.marks.inactive.iter().filter(|(path, _)| of(path));
            marks.inactive.extend(inactive.map(|(path, block)| (path.clone(), block.clone())));
            let notes = local.marks.notes.iter().filter(|(path, _)| of(path));
            marks.notes.extend(notes.map(|(path, text)| (path.clone(), text.clone())));
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;
    use crate::text::secrets::Secrets;

    const MODULES: [Module; 3] = [
        Module { name: "sluice-static", text: include_str!("../../../../components/static/static.yang") },
        Module { name: "sluice-fea", text: include_str!("../../../../components/fea/fea.yang") },
        Module { name: "sluice-cluster", text: include_str!("../../../../components/cluster/cluster.yang") },
    ];

    const LOCAL: [&str; 3] = [
        "set cluster element 1",
        "annotate cluster element \"the first\"",
        "set cluster inactive: store member 2",
    ];
    const SHARED: [&str; 7] = [
        "set cluster member 1 role router",
        "annotate cluster member 1 \"the router\"",
        "set cluster inactive: member 2 role router",
        "set system host-name edge",
        "annotate system host-name \"the name\"",
        "set protocols static route 192.0.2.0/24 discard",
        "set protocols static inactive: route 198.51.100.0/24 discard",
    ];

    fn tree(schema: &Schema, lines: &[&str]) -> Tree {
        lines.iter().fold(Tree::empty(), |tree, line| schema.edit(&tree, line).expect(line))
    }

    #[test]
    fn a_configuration_is_its_local_part_beside_its_shared_part() {
        let schema = Schema::of(&MODULES).expect("modules");
        let (local, shared) = (tree(&schema, &LOCAL), tree(&schema, &SHARED));
        let whole = tree(&schema, &[&LOCAL[..], &SHARED[..]].concat());
        assert!(schema.local_part(&whole) == local && schema.shared_part(&whole) == shared);
        assert!(schema.joined(&shared, &local) == whole && schema.joined(&whole, &whole) == whole);
        assert!(schema.shared_part(&local).is_empty() && schema.local_part(&shared).is_empty());
        // The text of the shared part is read as the same part elsewhere.
        let text = schema.text(&shared, &[], Secrets::Shown).expect("the root");
        assert!(schema.merge(&Tree::empty(), "shared", &text).expect(&text) == shared, "{text}");
        // Statements that are local are nobody else's.
        let other = tree(&schema, &["set cluster element 7", "set system host-name core"]);
        let joined = schema.joined(&other, &whole);
        let lines = schema.set_lines(&joined, &["system".into()], Secrets::Hidden).expect("a path");
        assert_eq!(lines, ["set system host-name core"]);
        assert!(schema.local_part(&joined) == local);
    }

    #[test]
    fn common_statements_of_a_local_container_are_of_all_unless_the_shared_part_has_none() {
        let schema = Schema::of(&MODULES).expect("modules");
        let lines = |tree: &Tree| schema.set_lines(tree, &[], Secrets::Hidden).expect("the root");
        let own = [
            "set cluster element 1",
            "set cluster member 1 role router",
            "set cluster inactive: mode weighted",
        ];
        let own = tree(&schema, &own);
        // Earlier versions share nothing of the container.
        let early = tree(&schema, &["set system host-name edge"]);
        let joined = schema.joined(&early, &own);
        assert_eq!(schema.local_part(&joined), schema.local_part(&own));
        assert_eq!(lines(&joined).len(), 4, "{:?}", lines(&joined));
        let other = tree(&schema, &["set cluster element 7", "set cluster member 7 role control"]);
        let joined = lines(&schema.joined(&other, &own));
        assert_eq!(joined, ["set cluster element 1", "set cluster member 7 role control"]);
    }

    #[test]
    fn only_containers_at_the_top_are_local() {
        let text = "module m { namespace \"urn:m\"; prefix m; import sluice-extensions { prefix sluice; }
             container m { description \"d\"; container n { presence p; description \"d\"; sluice:local; } } }";
        let refused = Schema::of(&[Module { name: "m", text }]).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|refused| refused.contains("`m/n`")));
    }
}
