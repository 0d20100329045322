//! The platform's knowledge of a component's configuration: nodes with a role, by which `sluice drain` and the guard
//! against locking oneself out work for protocols unknown to them.

use super::node::Role;
use crate::{Node, NodeKind};

/// A node with a role.
#[derive(Clone, PartialEq, Debug)]
pub struct RolePlace<'n> {
    /// The names of the nodes down to the node.
    pub path: Vec<&'n str>,
    /// The places in `path` of the lists above the node: an entry's key follows each.
    pub lists: Vec<usize>,
    /// The component whose configuration the node is part of.
    pub component: Option<&'n str>,
    /// The node.
    pub node: &'n Node,
}

/// Returns the nodes with a role outside of lists, in the order of the schema.
pub fn with_role(nodes: &[Node], role: Role) -> Vec<RolePlace<'_>> {
    let mut found = with_role_anywhere(nodes, role);
    found.retain(|place| place.lists.is_empty());
    found
}

/// Returns the nodes with a role, those of routing instances among them, in the order of the schema.
pub fn with_role_anywhere(nodes: &[Node], role: Role) -> Vec<RolePlace<'_>> {
    let mut found = Vec::new();
    nodes.iter().for_each(|node| find(node, role, &Above::default(), &mut found));
    found
}

/// The nodes above a node.
#[derive(Clone, Default)]
struct Above<'n> {
    path: Vec<&'n str>,
    lists: Vec<usize>,
    component: Option<&'n str>,
}

fn find<'n>(node: &'n Node, role: Role, above: &Above<'n>, found: &mut Vec<RolePlace<'n>>) {
    let mut here = above.clone();
    here.path.push(&node.name);
    here.component = node.component.as_deref().or(above.component);
    if node.role == Some(role) {
        let Above { path, lists, component } = here.clone();
        found.push(RolePlace { path, lists, component, node });
    }
    if matches!(node.kind, NodeKind::List { .. }) {
        here.lists.push(above.path.len());
    }
    node.children.iter().for_each(|child| find(child, role, &here, found));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Module, Schema};

    #[test]
    fn nodes_with_roles_are_found() {
        let text = |role: &str| {
            format!(
                "module m {{ namespace \"urn:m\"; prefix m; import sluice-extensions {{ prefix sluice; }}
                 container m {{ presence p; sluice:component \"m\"; description \"d\";
                   leaf away {{ type boolean; description \"d\"; sluice:impact \"soft\"; sluice:role \"{role}\"; }}
                   list way {{ key \"to\"; description \"d\"; sluice:role \"route\";
                     leaf to {{ type string; description \"d\"; sluice:impact \"soft\"; }} }} }} }}"
            )
        };
        let schema = |text: String| Schema::of(&[Module { name: "m", text: text.leak() }]);
        let known = schema(text("drain")).unwrap();
        let found = with_role(known.nodes(), Role::Route);
        assert_eq!(
            (found.len(), found[0].path.clone(), found[0].component),
            (1, vec!["m", "way"], Some("m"))
        );
        assert_eq!(with_role(known.nodes(), Role::Drain)[0].path, ["m", "away"]);
        assert!(with_role(known.nodes(), Role::Session).is_empty());
        for wrong in ["route", "hero"] {
            let refused = schema(text(wrong)).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refused.contains("`m/away`"), "{refused}");
        }
    }
}
