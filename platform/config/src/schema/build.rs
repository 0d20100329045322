//! The index of a schema, taken out of libyang.
use super::impact::Impact;
use super::index::{Case, Choice, Def, Id, Index, Kind, Places, ROOT};
use super::node::{Node, NodeKind, Role};
use super::values::{self, INTERFACE_NAME};
use super::yang::{self, Handle};
use crate::error::SchemaError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use yang5::context::Context;
use yang5::schema::{SchemaNode, SchemaNodeKind};

/// Takes the schema out of a context. Each definition's handle is at its place in `handles`.
pub(crate) fn build(context: &Context, handles: &mut Vec<Handle>) -> Result<(Index, Vec<Node>), SchemaError> {
    let top: Vec<SchemaNode<'_>> = context.modules(true).flat_map(|m| m.data().collect::<Vec<_>>()).collect();
    let mut walk = Walk {
        context,
        handles,
        defs: Vec::new(),
        classes: BTreeMap::new(),
        shared: BTreeMap::new(),
        watched: BTreeSet::new(),
        is_opaque: false,
        lists: 0,
    };
    // The root has no node of its own; any handle keeps its place, and it is never asked for a value.
    if let Some(first) = top.first() {
        walk.handles.push(Handle::new(first));
    }
    walk.defs.push(walk.root());
    let mut nodes = Vec::new();
    let (body, conditional) = walk.inside(ROOT, top, &mut nodes)?;
    walk.defs[ROOT].body = body;
    walk.defs[ROOT].conditional_inside = conditional;
    let Walk { mut defs, classes, shared, watched, is_opaque, handles, .. } = walk;
    let numbers: BTreeMap<usize, Id> =
        handles.iter().enumerate().skip(1).map(|(id, h)| (h.number(), id)).collect();
    for id in watched.iter().filter_map(|number| numbers.get(number)) {
        defs[*id].is_watched = true;
    }
    for id in (0..defs.len()).rev() {
        let inside = |c: &Id| defs[*c].is_watched || defs[*c].watched_inside;
        defs[id].watched_inside = defs[id].children.iter().any(inside);
        defs[id].names_interfaces |= defs[id].children.iter().any(|c| defs[*c].names_interfaces);
        let unwritten = |c: &Id| {
            let is_list = matches!(defs[*c].kind, Kind::List { .. });
            !is_list && (defs[*c].is_watched || defs[*c].watched_unwritten)
        };
        defs[id].watched_unwritten = defs[id].children.iter().any(unwritten);
    }
    let mut index = Index { defs, classes, shared, is_opaque };
    index.spread_inheritance()?;
    index.check_components(&nodes)?;
    Ok((index, nodes))
}

struct Walk<'a, 'h> {
    context: &'a Context,
    handles: &'h mut Vec<Handle>,
    defs: Vec<Def>,
    classes: BTreeMap<Arc<str>, Places>,
    shared: BTreeMap<Arc<str>, Id>,
    watched: BTreeSet<usize>,
    is_opaque: bool,
    /// How many lists are around the node that is being taken.
    lists: usize,
}

impl<'a> Walk<'a, '_> {
    fn root(&self) -> Def {
        Def {
            name: "".into(),
            module: "".into(),
            path: "".into(),
            kind: Kind::Container { presence: false },
            children: Vec::new(),
            names: BTreeMap::new(),
            body: Case::default(),
            class: None,
            uses: Vec::new(),
            is_table: false,
            role: None,
            impact: Impact::Soft,
            is_secret: false,
            is_local: false,
            is_common: false,
            names_interfaces: false,
            as_before: None,
            inherits_from: None,
            inherits: false,
            flag: None,
            is_mandatory: false,
            defaults: Vec::new(),
            expects: String::new(),
            is_watched: false,
            watched_inside: false,
            watched_unwritten: false,
            conditional_inside: false,
        }
    }

    /// Takes the children of `parent`, or of a case of `parent`.
    fn inside(
        &mut self,
        parent: Id,
        children: impl IntoIterator<Item = SchemaNode<'a>>,
        nodes: &mut Vec<Node>,
    ) -> Result<(Case, bool), SchemaError> {
        let (mut body, mut conditional) = (Case::default(), false);
        for child in children {
            conditional |= yang::is_conditional(&child);
            match child.kind() {
                SchemaNodeKind::Choice => {
                    self.watch(&child);
                    let default = child.default_case().map(|case| Handle::new(&case).number());
                    let is_mandatory = child.is_mandatory();
                    let mut choice =
                        Choice { name: child.name().into(), is_mandatory, default: None, cases: Vec::new() };
                    for case in child.children() {
                        self.watch(&case);
                        conditional |= yang::is_conditional(&case);
                        if default == Some(Handle::new(&case).number()) {
                            choice.default = Some(choice.cases.len());
                        }
                        let (case, inner) = self.inside(parent, case.children(), nodes)?;
                        conditional |= inner;
                        choice.cases.push(case);
                    }
                    if choice.cases.iter().any(|case| !case.members.is_empty() || !case.choices.is_empty()) {
                        body.choices.push(choice);
                    }
                }
                SchemaNodeKind::Container
                | SchemaNodeKind::List
                | SchemaNodeKind::Leaf
                | SchemaNodeKind::LeafList
                    if child.is_config() =>
                {
                    let (id, node) = self.node(parent, &child)?;
                    conditional |= self.defs[id].conditional_inside;
                    body.members.push(id);
                    nodes.push(node);
                }
                _ => {}
            }
        }
        Ok((body, conditional))
    }

    fn watch(&mut self, node: &SchemaNode<'a>) {
        match yang::dependencies(node) {
            Some(found) => self.watched.extend(found),
            None => self.is_opaque = true,
        }
    }

    fn node(&mut self, parent: Id, node: &SchemaNode<'a>) -> Result<(Id, Node), SchemaError> {
        let id = self.defs.len();
        self.handles.push(Handle::new(node));
        self.watch(node);
        let mut def = self.root();
        def.name = node.name().into();
        def.module = node.module().name().into();
        let above = &self.defs[parent].path;
        def.path = if above.is_empty() { def.name.clone() } else { format!("{above}/{}", def.name).into() };
        let (min, max) = bounds(node);
        let is_listed = node.is_user_ordered();
        def.kind = match node.kind() {
            SchemaNodeKind::Container => Kind::Container { presence: !node.is_np_container() },
            SchemaNodeKind::List => {
                Kind::List { keys: node.list_keys().map(|k| k.name().into()).collect(), is_listed, min, max }
            }
            SchemaNodeKind::Leaf => Kind::Leaf,
            _ => Kind::Values { is_listed, min, max },
        };
        let kind = node.leaf_type();
        def.is_mandatory =
            kind.is_some() && node.is_mandatory() && matches!(def.kind, Kind::Leaf) && !node.is_list_key();
        self.mark(&mut def, id, node)?;
        let mut value = None;
        if let Some(kind) = &kind {
            def.defaults = values::defaults(node);
            let found = values::value(self.context, &def, node, kind);
            def.flag = values::flag(kind);
            def.expects = found.expects();
            def.names_interfaces = def.expects.contains(INTERFACE_NAME);
            value = Some(found);
        }
        let class = def.class.as_ref().map(|c| c.to_string());
        let node_kind = match (&def.kind, value) {
            (Kind::Container { presence }, _) => NodeKind::Container { presence: *presence },
            (Kind::Values { .. }, Some(value)) => NodeKind::LeafList(value),
            (Kind::Leaf, Some(value)) => NodeKind::Leaf(value),
            _ => NodeKind::List { keys: def.keys().iter().map(|k| k.to_string()).collect() },
        };
        let (name, module, role) = (def.name.clone(), def.module.clone(), def.role);
        self.defs.push(def);
        let taken = self.defs[parent].names.insert(name.clone(), id);
        if let Some(other) = taken {
            let reason =
                format!("`{}` is there already, from module {}", self.defs[id].path, self.defs[other].module);
            return Err(SchemaError::Module { name: module.to_string(), reason });
        }
        self.defs[parent].children.push(id);
        let mut children = Vec::new();
        let is_list = matches!(self.defs[id].kind, Kind::List { .. });
        self.lists += usize::from(is_list);
        let (body, inner) = self.inside(id, node.children(), &mut children)?;
        self.lists -= usize::from(is_list);
        self.defs[id].body = body;
        self.defs[id].conditional_inside = inner || yang::is_conditional(node);
        let description = values::words(node.description().unwrap_or_default());
        let name = name.to_string();
        Ok((id, Node { name, description, kind: node_kind, component: class, role, children }))
    }

    fn mark(&mut self, def: &mut Def, id: Id, node: &SchemaNode<'a>) -> Result<(), SchemaError> {
        let mut impact = None;
        for (name, argument) in yang::marks(node) {
            match name.as_str() {
                "impact" => impact = argument.parse().ok(),
                "secret" => def.is_secret = true,
                "as-before" => def.as_before = Some(argument.as_str().into()),
                "inherits" => def.inherits_from = Some(argument.as_str().into()),
                "component" => {
                    let class: Arc<str> = argument.as_str().into();
                    let wrong = |reason| Err(SchemaError::Module { name: def.module.to_string(), reason });
                    if !matches!(def.kind, Kind::Container { presence: true }) {
                        return wrong(format!(
                            "`{}` is a component's, so it has to be a presence container",
                            def.path
                        ));
                    }
                    let places = self.classes.entry(class.clone()).or_default();
                    let place = match self.lists > 0 {
                        true => &mut places.listed,
                        false => &mut places.single,
                    };
                    if let Some(other) = place.replace(id) {
                        let other = &self.defs[other].path;
                        return wrong(format!("the component `{class}` has `{other}` already"));
                    }
                    def.class = Some(class);
                }
                "uses" => {
                    let (name, impact) = argument.split_once(' ').unwrap_or((&argument, "soft"));
                    let impact = impact.parse().map_err(|()| SchemaError::Module {
                        name: def.module.to_string(),
                        reason: format!(
                            "`sluice:uses \"{argument}\"` names no impact; expected `NAME IMPACT`"
                        ),
                    })?;
                    def.uses.push((name.into(), impact));
                }
                "shared" => drop(self.shared.insert(argument.as_str().into(), id)),
                "table" => def.is_table = true,
                mark @ ("local" | "common") => mark_side(def, mark)?,
                "role" => {
                    let role = argument.parse().ok().filter(|role| match role {
                        Role::Drain => matches!(def.kind, Kind::Leaf),
                        Role::Route | Role::Session | Role::Origin | Role::NamedOrigin => {
                            def.keys().len() == 1
                        }
                    });
                    let reason = || {
                        format!(
                            "`sluice:role \"{argument}\"` at `{}` is unknown, or of another kind of node",
                            def.path
                        )
                    };
                    let wrong = || SchemaError::Module { name: def.module.to_string(), reason: reason() };
                    def.role = Some(role.ok_or_else(wrong)?);
                }
                _ => {}
            }
        }
        match (impact, &def.kind) {
            (Some(impact), _) => def.impact = impact,
            (None, Kind::Leaf | Kind::Values { .. }) => {
                let (module, path) = (def.module.to_string(), def.path.to_string());
                return Err(SchemaError::NoImpact { module, path });
            }
            _ => {}
        }
        Ok(())
    }
}

fn bounds(node: &SchemaNode<'_>) -> (usize, usize) {
    let max = node.max_elements().filter(|max| *max > 0).map_or(usize::MAX, |max| max as usize);
    (node.min_elements().unwrap_or(0) as usize, max)
}

/// Marks a definition as local (`local`), or as one for all elements in a local container (`common`).
///
/// # Errors
/// The definition is no container at the top, or not right inside a container at the top.
fn mark_side(def: &mut Def, mark: &str) -> Result<(), SchemaError> {
    let is_container = matches!(def.kind, Kind::Container { .. });
    let (is_fit, place) = match mark {
        "common" => (def.path.matches('/').count() == 1, "right inside a container at the top"),
        _ => (is_container && !def.path.contains('/'), "a container at the top"),
    };
    let reason = || format!("`{}` is {mark}, so it has to be {place}", def.path);
    if !is_fit {
        return Err(SchemaError::Module { name: def.module.to_string(), reason: reason() });
    }
    let marked = if mark == "common" { &mut def.is_common } else { &mut def.is_local };
    *marked = true;
    Ok(())
}
