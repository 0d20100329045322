//! The schema, taken out of libyang once: what the tree is built by, checked by and written by.

use crate::error::SchemaError;
use crate::local;
use crate::places::{self, Places};
use crate::ports::INTERFACE_NAME;
use crate::tree::{Block, Form, Leaf};
use crate::yang::{self, Handle, Yang};
use crate::{Impact, Node, NodeKind, Role, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use yang5::context::Context;
use yang5::schema::{DataValueType, SchemaLeafType, SchemaNode, SchemaNodeKind};

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
    names: BTreeMap<Arc<str>, Id>,
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
    /// Checks conditions that need the whole schema: lists above components can name the components, and shared
    /// subtrees exist. `nodes` are the definitions for users, with the types of keys.
    fn check_components(&self, nodes: &[Node]) -> Result<(), SchemaError> {
        let wrong = |id: Id, reason| SchemaError::Module { name: self[id].module.to_string(), reason };
        for places in self.classes.values() {
            if let Some(id) = places.listed {
                places::check_lists(self, nodes, id)?;
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

    /// Gives the defaults the form that written values have.
    pub fn settle_defaults(&mut self, yang: &Yang) {
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
    pub fn is_plain_container(&self) -> bool {
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
            def.defaults = defaults(node);
            let found = self.value(&def, node, kind);
            def.flag = flag(kind);
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
        let description = words(node.description().unwrap_or_default());
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
                mark @ ("local" | "common") => local::mark(def, mark)?,
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

    fn value(&self, def: &Def, node: &SchemaNode<'a>, kind: &SchemaLeafType<'a>) -> Value {
        let mut words = yang::words(kind);
        if kind.base_type() == DataValueType::Bool {
            words = vec![("true".into(), "Yes.".into()), ("false".into(), "No.".into())];
        }
        let members = yang::members(self.context, kind);
        words.extend(members.iter().flat_map(yang::words));
        words.iter_mut().for_each(|(_, help)| *help = self::words(help));
        let range = match members.as_slice() {
            [] => range_words(kind),
            _ if kind.typedef_name().is_some_and(|name| !name.is_empty()) => String::new(),
            members => {
                let one = |m: &SchemaLeafType<'_>| match yang::words(m).as_slice() {
                    [] => [type_name(m), range_words(m)].join(" ").trim_end().to_owned(),
                    words => words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" | "),
                };
                members.iter().map(one).collect::<Vec<_>>().join(" | ")
            }
        };
        let join = |all: &[Leaf]| all.iter().map(|d| &*d.text).collect::<Vec<_>>().join(" ");
        Value {
            type_name: type_name(kind),
            range,
            words,
            default: (!def.defaults.is_empty()).then(|| join(&def.defaults)),
            units: node.units().map(Into::into),
            mandatory: def.is_mandatory,
            flag: matches!(kind.base_type(), DataValueType::Bool | DataValueType::Empty),
            secret: def.is_secret,
            impact: def.impact,
        }
    }
}

fn bounds(node: &SchemaNode<'_>) -> (usize, usize) {
    let max = node.max_elements().filter(|max| *max > 0).map_or(usize::MAX, |max| max as usize);
    (node.min_elements().unwrap_or(0) as usize, max)
}

/// A description in one line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn defaults(node: &SchemaNode<'_>) -> Vec<Leaf> {
    let single = node.default_value_canonical().ok().flatten().filter(|_| node.has_default());
    let all = single.into_iter().chain(yang::default_values(node));
    all.map(|text| Leaf { text: text.into(), form: Form::Text }).collect()
}

fn flag(kind: &SchemaLeafType<'_>) -> Option<Leaf> {
    match kind.base_type() {
        DataValueType::Bool => Some(Leaf { text: "true".into(), form: Form::Boolean }),
        DataValueType::Empty => Some(Leaf { text: "".into(), form: Form::Empty }),
        _ => None,
    }
}

fn type_name(kind: &SchemaLeafType<'_>) -> String {
    use DataValueType as T;
    match (kind.typedef_name(), kind.base_type()) {
        (Some(name), _) if !name.is_empty() => name,
        (_, T::Bool) => "boolean".into(),
        (_, T::Enum) => "enumeration".into(),
        (_, T::Dec64) => "decimal64".into(),
        (_, T::IdentityRef) => "identityref".into(),
        (_, T::InstanceId) => "instance-identifier".into(),
        (_, base) => format!("{base:?}").to_lowercase(),
    }
}

fn range_words(kind: &SchemaLeafType<'_>) -> String {
    let digits = yang::fraction_digits(kind);
    let number = |n: i128| match digits {
        0 => n.to_string(),
        _ => format!("{}", n as f64 / 10f64.powi(digits as i32)),
    };
    let part = |(low, high): &(i128, i128)| match low == high {
        true => number(*low),
        false if *high == u64::MAX.into() => format!("{} or more", number(*low)),
        false => format!("{}..{}", number(*low), number(*high)),
    };
    let parts: Vec<String> = yang::range(kind).iter().map(part).collect();
    let unit = match kind.base_type() {
        DataValueType::String if !parts.is_empty() => " characters",
        DataValueType::Binary if !parts.is_empty() => " octets",
        _ => "",
    };
    format!("{}{unit}", parts.join(" | "))
}
