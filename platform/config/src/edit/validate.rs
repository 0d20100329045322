//! The validation of a tree.
//!
//! Values were checked when written. Mandatory and mutually exclusive statements of a block are checked here, in the
//! changed blocks. Conditions across blocks (`must`, `when`, references, `unique`) are checked by libyang, over the
//! whole tree, if a change touches a node of a condition.

use crate::error::Fault;
use crate::error::{ConfigError, Place, translated};
use crate::schema::index::{Case, Id, Index, Kind, ROOT};
use crate::schema::yang::is_filled_in;
use crate::schema::{Schema, words_of};
use crate::text::json::Json;
use crate::text::secrets::Secrets;
use crate::tree::entries::Entries;
use crate::tree::key::key_words;
use crate::tree::{Block, Form, Item, Leaf, Tree};
use std::sync::Arc;
use yang5::data::{DataFormat, DataParserFlags, DataTree, DataValidationFlags};

impl Schema {
    /// Returns an error unless `after` is valid, given a valid `before`. The cost follows the size of the difference,
    /// unless the change touches a node of a condition (`must`, `when`, a reference, `unique`).
    pub fn validate(&self, before: Option<&Tree>, after: &Tree) -> Result<(), ConfigError> {
        self.check(before, after).map_err(|fault| {
            let path = fault.path.join(" ");
            let place = Place { line: 1, column: 1, length: path.chars().count() as u32 };
            let error = ConfigError::new("configuration", &path, place, fault.message);
            match fault.expected {
                Some(expected) => error.expecting(expected),
                None => error,
            }
        })
    }

    pub(crate) fn check(&self, before: Option<&Tree>, after: &Tree) -> Result<(), Fault> {
        let index = &*self.index;
        let is_watched = before.is_none() && index[ROOT].watched_unwritten;
        let mut checker = Checker { index, trail: Vec::new(), is_watched };
        if before.is_none() || before.is_some_and(|tree| !Arc::ptr_eq(&tree.root, &after.root)) {
            checker.block(ROOT, before.map(|tree| &tree.root), &after.root)?;
            if checker.is_watched || index.is_opaque {
                self.check_by_libyang(after)?;
            }
            self.check_origins(after)?;
        }
        Ok(())
    }

    /// The whole tree as libyang sees it.
    pub(crate) fn check_by_libyang(&self, tree: &Tree) -> Result<(), Fault> {
        self.libyang_tree(tree).map(|_| ())
    }

    pub(crate) fn libyang_tree(&self, tree: &Tree) -> Result<DataTree<'_>, Fault> {
        let json = Json { index: &self.index, secrets: Secrets::Shown, fills: false, qualifies: true };
        let text = json.block(ROOT, &tree.root).to_string();
        let flags = DataValidationFlags::NO_STATE | DataValidationFlags::PRESENT;
        DataTree::parse_string(self.yang.context(), text, DataFormat::JSON, DataParserFlags::STRICT, flags)
            .map_err(|error| Fault {
                path: data_path(error.path.as_deref().unwrap_or_default()),
                message: in_words(&words_of(&error)),
                expected: None,
            })
    }

    /// Returns the tree with every default filled in by libyang.
    pub(crate) fn with_defaults(&self, tree: &Tree) -> Result<Tree, ConfigError> {
        let data = self.libyang_tree(tree).map_err(|fault| {
            ConfigError::new("configuration", "", Place { line: 1, column: 1, length: 1 }, fault.message)
        })?;
        let mut root = Block::default();
        if let Some(first) = data.reference() {
            for node in first.inclusive_siblings() {
                self.take(ROOT, &node, &mut root);
            }
        }
        Ok(Tree { root: Arc::new(root), marks: Arc::default() })
    }

    fn take(&self, def: Id, node: &yang5::data::DataNodeRef<'_>, block: &mut Block) {
        let Some(id) = self.index[def].child(node.schema().name()) else { return };
        let own = &self.index[id];
        if own.inherits && is_filled_in(node) {
            return;
        }
        let value = || {
            let text = node.value_canonical().unwrap_or_default();
            let (text, form) = self.yang.canonical(id, &text).unwrap_or((text.into(), Form::Text));
            Leaf { text: text.into(), form }
        };
        let inner = || {
            let mut inner = Block::default();
            node.children().for_each(|child| self.take(id, &child, &mut inner));
            inner
        };
        match own.kind {
            Kind::Leaf => {
                block.item(&own.name, || Item::Leaf(value()));
            }
            Kind::Values { is_listed, .. } => {
                if let Item::Values(values) = block.item(&own.name, || Item::Values(Entries::new(is_listed)))
                {
                    let leaf = value();
                    values.entry(&leaf.text, || leaf.form);
                }
            }
            Kind::Container { presence } => {
                let inner = inner();
                if presence || !inner.is_empty() {
                    block.item(&own.name, || Item::Container(Arc::new(inner)));
                }
            }
            Kind::List { is_listed, .. } => {
                let inner = inner();
                let texts = own.keys().iter().filter_map(|key| inner.leaf(key)).map(|leaf| &*leaf.text);
                let key = crate::tree::key::join_key(texts);
                if let Item::List(entries) = block.item(&own.name, || Item::List(Entries::new(is_listed))) {
                    entries.entry(&key, || Arc::new(inner));
                }
            }
        }
    }
}

/// Returns a fault of libyang's in the house's words.
fn in_words(reason: &str) -> String {
    translated(reason).unwrap_or_else(|| "the value is not valid here".into())
}

/// The names and keys of one of libyang's data paths, such as `/m:a/b[k='1']/c`.
fn data_path(path: &str) -> Vec<Arc<str>> {
    let mut words = Vec::new();
    let mut rest = path;
    while let Some(at) = rest.find(|c| c != '/') {
        rest = &rest[at..];
        let end = rest.find(['/', '[']).unwrap_or(rest.len());
        let name = &rest[..end];
        words.push(name.rsplit(':').next().unwrap_or(name).into());
        rest = &rest[end..];
        while let Some(predicate) = rest.strip_prefix('[') {
            let Some(start) = predicate.find(['\'', '"']) else { return words };
            let quote = predicate.as_bytes()[start] as char;
            let value = &predicate[start + 1..];
            let Some(end) = value.find(quote) else { return words };
            words.push(value[..end].into());
            rest = value[end + 1..].strip_prefix(']').unwrap_or_default();
        }
    }
    words
}

struct Checker<'a> {
    index: &'a Index,
    trail: Vec<Arc<str>>,
    /// True if something changed that a condition looks at.
    is_watched: bool,
}

impl Checker<'_> {
    fn fault(&self, message: String, expected: Option<String>) -> Fault {
        Fault { path: self.trail.clone(), message, expected }
    }

    /// Returns the name of the present block.
    fn here(&self) -> String {
        match self.trail.as_slice() {
            [] => "the configuration".into(),
            trail => format!("`{}`", trail.join(" ")),
        }
    }

    fn block(&mut self, id: Id, before: Option<&Arc<Block>>, after: &Arc<Block>) -> Result<(), Fault> {
        if before.is_some_and(|before| Arc::ptr_eq(before, after)) {
            return Ok(());
        }
        let index = self.index;
        let def = &index[id];
        if before.is_none() {
            self.is_watched |= def.is_watched || def.watched_unwritten;
        }
        self.case(&def.body, after)?;
        let nothing = Block::default();
        let old = before.map_or(&nothing, |block| &**block);
        for (name, _) in old.items().filter(|(name, _)| after.get(name).is_none()) {
            self.touch(def.child(name), true);
        }
        for (name, item) in after.items() {
            let Some(child) = def.child(name) else {
                return Err(self.fault(format!("`{name}` is unknown in {}", self.here()), None));
            };
            let depth = self.trail.len();
            self.trail.push(name.clone());
            self.item(child, old.get(name), item)?;
            self.trail.truncate(depth);
        }
        Ok(())
    }

    /// Notes an added, removed or changed node.
    fn touch(&mut self, id: Option<Id>, is_whole: bool) {
        if let Some(id) = id {
            self.is_watched |= self.index[id].is_watched || is_whole && self.index[id].watched_inside;
        }
    }

    fn item(&mut self, id: Id, before: Option<&Item>, after: &Item) -> Result<(), Fault> {
        match (before, after) {
            (Some(Item::Container(a)), Item::Container(b)) => self.block(id, Some(a), b),
            (_, Item::Container(b)) => {
                self.touch(Some(id), true);
                self.block(id, None, b)
            }
            (before, Item::List(b)) => {
                let old = match before {
                    Some(Item::List(a)) => a.clone(),
                    _ => Entries::new(b.is_listed()),
                };
                self.entries(id, &old, b)
            }
            (before, Item::Values(values)) => {
                if before != Some(after) {
                    self.touch(Some(id), true);
                    self.count(id, values.len())?;
                }
                Ok(())
            }
            (before, Item::Leaf(_)) => {
                if before != Some(after) {
                    self.touch(Some(id), true);
                }
                Ok(())
            }
        }
    }

    fn entries(
        &mut self,
        id: Id,
        before: &Entries<Arc<Block>>,
        after: &Entries<Arc<Block>>,
    ) -> Result<(), Fault> {
        if before.is_same(after) {
            return Ok(());
        }
        self.count(id, after.len())?;
        if after.is_listed() {
            // Where an entry stands may be what a condition looks at.
            self.touch(Some(id), true);
        }
        for (key, a, b) in before.differences(after) {
            if a.is_none() || b.is_none() {
                self.touch(Some(id), true);
            }
            if let Some(b) = b {
                let depth = self.trail.len();
                self.trail.extend(key_words(key).map(Arc::from));
                self.block(id, a, b)?;
                self.trail.truncate(depth);
            }
        }
        Ok(())
    }

    fn count(&self, id: Id, len: usize) -> Result<(), Fault> {
        let (Kind::List { min, max, .. } | Kind::Values { min, max, .. }) = &self.index[id].kind else {
            return Ok(());
        };
        if len < *min {
            return Err(self.fault(format!("{} has {len}, and needs {min} at least", self.here()), None));
        }
        if len > *max {
            return Err(self.fault(format!("{} has {len}, and may have {max} at most", self.here()), None));
        }
        Ok(())
    }

    /// Checks the mandatory and the exclusive statements of a block.
    fn case(&mut self, case: &Case, block: &Block) -> Result<(), Fault> {
        let index = self.index;
        for member in &case.members {
            let def = &index[*member];
            if block.get(&def.name).is_some() {
                continue;
            }
            match def.kind {
                Kind::Leaf if def.is_mandatory => {
                    let message = format!("{} needs `{}`", self.here(), def.name);
                    return Err(self.fault(message, Some(format!("`{} {};`", def.name, def.expects))));
                }
                Kind::List { min, .. } | Kind::Values { min, .. } if min > 0 => {
                    let message = format!("{} needs {min} `{}` at least", self.here(), def.name);
                    return Err(self.fault(message, None));
                }
                Kind::Container { presence: false } => {
                    // It is there even if nothing is written in it.
                    self.trail.push(def.name.clone());
                    self.case(&def.body, &Block::default())?;
                    self.trail.pop();
                }
                _ => {}
            }
        }
        for choice in &case.choices {
            let written: Vec<&Case> = choice.cases.iter().filter(|c| c.is_present(index, block)).collect();
            match written.as_slice() {
                [] if choice.is_mandatory => {
                    let message = format!("{} needs its {}", self.here(), choice.name);
                    return Err(self.fault(message, Some(alternatives(index, &choice.cases))));
                }
                [] => {}
                [one] => self.case(one, block)?,
                [one, other, ..] => {
                    let name = |case: &Case| {
                        let all = case.written(index, block);
                        all.first().map_or_else(String::new, |id| format!("`{}`", index[*id].name))
                    };
                    let message = format!(
                        "{} has {} and {}, which exclude each other",
                        self.here(),
                        name(one),
                        name(other)
                    );
                    return Err(self.fault(message, Some("one of them".into())));
                }
            }
        }
        Ok(())
    }
}

fn alternatives(index: &Index, cases: &[Case]) -> String {
    let names: Vec<String> =
        cases.iter().flat_map(Case::everything).map(|id| format!("`{}`", index[id].name)).collect();
    match names.as_slice() {
        [one] => one.clone(),
        all => format!("one of {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::Schema;
    use crate::schema::index::ROOT;

    /// A large configuration without routing instances is not given to libyang for the sake of their conditions.
    #[test]
    fn conditions_of_a_list_wait_for_its_entries() {
        let schema = Schema::of(&[]).unwrap();
        let root = &schema.index[ROOT];
        assert_eq!((root.watched_inside, root.watched_unwritten), (true, false));
    }
}
