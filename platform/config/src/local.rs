//! The local part of a configuration: the statements that each element of a cluster keeps for itself. All else can be shared by elements.
//!
//! A container at the top with `sluice:local` is local as a whole, with its inactive statements and annotations. Top-level containers do
//! not contain each other, so that a configuration is its local part and its shared part side by side.

use crate::error::SchemaError;
use crate::index::{Def, Kind, ROOT};
use crate::schema::Schema;
use crate::tree::Tree;
use std::sync::Arc;

/// Marks a definition as local.
///
/// # Errors
/// The definition is no container at the top.
pub(crate) fn mark(def: &mut Def) -> Result<(), SchemaError> {
    def.is_local = matches!(def.kind, Kind::Container { .. }) && !def.path.contains('/');
    let reason = || format!("`{}` is local, so it has to be a container at the top", def.path);
    let refused = || SchemaError::Module { name: def.module.to_string(), reason: reason() };
    def.is_local.then_some(()).ok_or_else(refused)
}

impl Schema {
    fn is_local(&self, name: &str) -> bool {
        self.index[ROOT].child(name).is_some_and(|id| self.index[id].is_local)
    }

    fn with_names(tree: &Tree, is_kept: impl Fn(&str) -> bool) -> Tree {
        let mut kept = tree.clone();
        let gone: Vec<Arc<str>> =
            tree.root.items().map(|(name, _)| name.clone()).filter(|name| !is_kept(name)).collect();
        if !gone.is_empty() {
            let root = Arc::make_mut(&mut kept.root);
            for name in &gone {
                root.remove(name);
            }
        }
        if !tree.marks.is_empty() {
            let marks = Arc::make_mut(&mut kept.marks);
            let stays = |path: &[Arc<str>]| path.first().is_some_and(|name| is_kept(name));
            marks.inactive.retain(|path, _| stays(path));
            marks.notes.retain(|path, _| stays(path));
        }
        kept
    }

    /// Returns the statements that an element keeps for itself.
    pub fn local_part(&self, tree: &Tree) -> Tree {
        Self::with_names(tree, |name| self.is_local(name))
    }

    /// Returns the statements that elements can share.
    pub fn shared_part(&self, tree: &Tree) -> Tree {
        Self::with_names(tree, |name| !self.is_local(name))
    }

    /// Returns the shared part of one configuration with the local part of another one. [`Schema::validate`] checks the whole.
    pub fn joined(&self, shared: &Tree, local: &Tree) -> Tree {
        let (mut whole, local) = (self.shared_part(shared), self.local_part(local));
        let root = Arc::make_mut(&mut whole.root);
        local.root.items().for_each(|(name, item)| root.put(name, item.clone()));
        if !local.marks.is_empty() {
            let marks = Arc::make_mut(&mut whole.marks);
            marks.inactive.extend(local.marks.inactive.clone());
            marks.notes.extend(local.marks.notes.clone());
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;
    use crate::write::Secrets;

    const MODULES: [Module; 2] = [
        Module { name: "sluice-static", text: include_str!("../../../components/static/static.yang") },
        Module { name: "sluice-cluster", text: include_str!("../../../components/cluster/cluster.yang") },
    ];

    const LOCAL: [&str; 3] = [
        "set cluster element 1",
        "annotate cluster element \"the first\"",
        "set cluster inactive: member 2 role router",
    ];
    const SHARED: [&str; 4] = [
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
    fn only_containers_at_the_top_are_local() {
        let text = "module m { namespace \"urn:m\"; prefix m; import sluice-extensions { prefix sluice; }
             container m { description \"d\"; container n { presence p; description \"d\"; sluice:local; } } }";
        let refused = Schema::of(&[Module { name: "m", text }]).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|refused| refused.contains("`m/n`")));
    }
}
