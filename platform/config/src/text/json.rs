//! A tree as JSON (RFC 7951).

use super::secrets::{HIDDEN, Secrets};
use crate::schema::index::{Id, Index, Kind};
use crate::tree::{Block, Form, Item, Leaf};
use serde_json::{Map, Value};

/// Makes JSON.
pub(crate) struct Json<'a> {
    pub index: &'a Index,
    pub secrets: Secrets,
    /// True if defaults are filled in.
    pub fills: bool,
    /// True if names are qualified with their modules, for libyang.
    pub qualifies: bool,
}

impl Json<'_> {
    /// A block as an object.
    pub fn block(&self, id: Id, block: &Block) -> Value {
        let mut members = Map::new();
        let mut add = |child: Id, value: Value| {
            let def = &self.index[child];
            let name = match self.qualifies && def.module != self.index[id].module {
                true => format!("{}:{}", def.module, def.name),
                false => def.name.to_string(),
            };
            members.insert(name, value);
        };
        for child in &self.index[id].children {
            if let Some(item) = block.get(&self.index[*child].name) {
                add(*child, self.item(*child, item));
            }
        }
        if self.fills {
            for child in self.index.effective(id, block) {
                if block.get(&self.index[child].name).is_none()
                    && let Some(value) = self.default(child)
                {
                    add(child, value);
                }
            }
        }
        Value::Object(members)
    }

    /// Returns the item of a name.
    pub fn item(&self, id: Id, item: &Item) -> Value {
        match item {
            Item::Leaf(leaf) => self.value(id, leaf),
            Item::Values(values) => values
                .iter()
                .map(|(text, form)| self.value(id, &Leaf { text: text.clone(), form: *form }))
                .collect(),
            Item::Container(block) => self.block(id, block),
            Item::List(entries) => entries.iter().map(|(_, block)| self.block(id, block)).collect(),
        }
    }

    /// Returns the default of a member; `None` for a member that may be inherited.
    pub fn default(&self, id: Id) -> Option<Value> {
        let def = &self.index[id];
        if def.inherits {
            return None;
        }
        if def.is_plain_container() {
            let filled = self.block(id, &Block::default());
            return filled.as_object().is_some_and(|members| !members.is_empty()).then_some(filled);
        }
        match (def.defaults.as_slice(), matches!(def.kind, Kind::Leaf)) {
            ([], _) => None,
            ([one, ..], true) => Some(self.value(id, one)),
            (all, false) => Some(all.iter().map(|leaf| self.value(id, leaf)).collect()),
        }
    }

    fn value(&self, id: Id, leaf: &Leaf) -> Value {
        if self.index[id].is_secret && self.secrets == Secrets::Hidden {
            return Value::from(HIDDEN);
        }
        match leaf.form {
            Form::Text => Value::from(&*leaf.text),
            Form::Number => leaf.text.parse::<i64>().map_or_else(|_| Value::from(&*leaf.text), Value::from),
            Form::Boolean => Value::from(&*leaf.text == "true"),
            Form::Empty => Value::Array(vec![Value::Null]),
        }
    }
}
