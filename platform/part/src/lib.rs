//! A component's part of the configuration, and changes of that part. A change names the differences and nothing else,
//! so that an additional line in a configuration of 100,000 lines costs the price of a line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A change of a component's part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// True if the whole part is cleared first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clear: bool,
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

impl Change {
    /// Appends another change.
    pub fn followed_by(mut self, more: Change) -> Self {
        if more.clear {
            return more;
        }
        self.edits.extend(more.edits);
        self
    }

    /// Returns the change in pieces of about so many octets of JSON, at least one.
    pub fn in_pieces(&self, octets: usize) -> Vec<String> {
        let head = if self.clear { "{\"clear\":true,\"edits\":[" } else { "{\"edits\":[" };
        let mut pieces = Vec::new();
        let mut piece = String::from(head);
        for edit in &self.edits {
            if piece.len() > octets {
                pieces.push(std::mem::replace(&mut piece, "{\"edits\":[".into()) + "]}");
            }
            if !piece.ends_with('[') {
                piece.push(',');
            }
            piece += &serde_json::json!(edit).to_string();
        }
        pieces.push(piece + "]}");
        pieces
    }
}

/// A change of a single object directly in a part or in a shared subtree: a leaf, a container with its content, or an
/// entry of a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The shared subtree of the edit; absent: the component's own part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtree: Option<String>,
    /// The name of the member, or of the list.
    pub name: String,
    /// The values of the keys, for an entry of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Vec<String>>,
    /// The new value (RFC 7951, without module names; the members of an entry contain the keys); `None`: deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A component's present part.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Part {
    own: Subtree,
    /// The shared subtrees that the component uses, by name.
    shared: BTreeMap<String, Subtree>,
}

/// The content below a container.
#[derive(Clone, PartialEq, Debug, Default)]
struct Subtree {
    members: Map<String, Value>,
    lists: BTreeMap<String, BTreeMap<Vec<String>, Value>>,
}

impl Subtree {
    fn apply(&mut self, Edit { name, key, value, .. }: Edit) {
        match (key, value) {
            (Some(key), Some(value)) => {
                self.lists.entry(name).or_default().insert(key, value);
            }
            (Some(key), None) => {
                if let Some(list) = self.lists.get_mut(&name) {
                    list.remove(&key);
                }
            }
            (None, Some(value)) => {
                self.members.insert(name, value);
            }
            (None, None) => {
                self.members.remove(&name);
            }
        }
    }

    /// Returns the edits leading from an empty subtree to the present subtree.
    fn edits<'a>(&'a self, subtree: Option<&'a str>) -> impl Iterator<Item = Edit> {
        let subtree = subtree.map(String::from);
        let edit = move |name: &String, key: Option<&Vec<String>>, value: &Value| Edit {
            subtree: subtree.clone(),
            name: name.clone(),
            key: key.cloned(),
            value: Some(value.clone()),
        };
        let leaves = self.members.iter().map(|(name, value)| (name, None, value));
        let lists = self.lists.iter();
        let entries =
            lists.flat_map(|(name, all)| all.iter().map(move |(key, value)| (name, Some(key), value)));
        leaves.chain(entries).map(move |(name, key, value)| edit(name, key, value))
    }

    fn whole(&self) -> Map<String, Value> {
        let mut whole = self.members.clone();
        for (name, entries) in self.lists.iter().filter(|(_, entries)| !entries.is_empty()) {
            whole.insert(name.clone(), entries.values().cloned().collect());
        }
        whole
    }
}

impl Part {
    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        if change.clear {
            *self = Part::default();
        }
        for edit in change.edits {
            match edit.subtree.clone() {
                None => self.own.apply(edit),
                Some(name) => self.shared.entry(name).or_default().apply(edit),
            }
        }
    }

    /// Returns the change leading from an empty part to the present part.
    pub fn as_change(&self) -> Change {
        let shared = self.shared.iter().flat_map(|(name, subtree)| subtree.edits(Some(name)));
        Change { clear: true, edits: self.own.edits(None).chain(shared).collect() }
    }

    /// Returns the part as a JSON object, lists ordered by their keys; a shared subtree is a member under its own name.
    pub fn whole(&self) -> Value {
        let mut whole = self.own.whole();
        for (name, subtree) in &self.shared {
            let subtree = subtree.whole();
            if !subtree.is_empty() {
                whole.insert(name.clone(), Value::Object(subtree));
            }
        }
        Value::Object(whole)
    }
}

/// A planned change: the component's part as it is, and the change.
pub struct Planned<'a> {
    /// The present part.
    pub part: &'a Part,
    /// The change.
    pub change: &'a Change,
}

impl Planned<'_> {
    /// Returns the whole part after the change.
    pub fn whole(&self) -> Value {
        let mut part = if self.change.clear { Part::default() } else { self.part.clone() };
        part.apply(self.change.clone());
        part.whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_name_what_differs() {
        let change = |value: Value| -> Change { serde_json::from_value(value).expect("a change") };
        let mut part = Part::default();
        part.apply(change(json!({"clear": true, "edits": [
            {"name": "local-as", "value": 1},
            {"name": "neighbor", "key": ["10.0.0.2"], "value": {"address": "10.0.0.2", "peer-as": 2}},
            {"name": "neighbor", "key": ["10.0.0.1"], "value": {"address": "10.0.0.1", "peer-as": 1}},
            {"subtree": "policy", "name": "list", "key": ["a"], "value": {"name": "a"}},
            {"subtree": "policy", "name": "local-as", "value": 3},
        ]})));
        let less = change(
            json!({"edits": [{"name": "neighbor", "key": ["10.0.0.2"]}, {"name": "local-as", "value": 7},
                {"subtree": "policy", "name": "local-as"}]}),
        );
        let expected = json!({"local-as": 7, "neighbor": [{"address": "10.0.0.1", "peer-as": 1}],
            "policy": {"list": [{"name": "a"}]}});
        assert_eq!(Planned { part: &part, change: &less }.whole(), expected);
        part.apply(less);
        assert_eq!(part.whole(), expected);
        let mut copy = Part::default();
        copy.apply(part.as_change());
        assert_eq!(copy, part);
        part.apply(change(json!({"edits": [{"name": "neighbor", "key": ["10.0.0.1"]},
            {"subtree": "policy", "name": "list", "key": ["a"]}]})));
        assert_eq!(part.whole(), json!({"local-as": 7}));
        assert!(serde_json::from_value::<Change>(json!({"edits": [{"nam": "x"}]})).is_err());
    }

    #[test]
    fn pieces_make_the_whole() {
        let edit = |n: usize| Edit {
            subtree: None,
            name: "list".into(),
            key: Some(vec![n.to_string()]),
            value: Some(json!({"n": n})),
        };
        for (clear, count) in [(true, 0), (false, 0), (true, 1), (false, 100), (true, 100)] {
            let change = Change { clear, edits: (0..count).map(edit).collect() };
            for octets in [0, 40, 1000, 100_000] {
                let pieces = change.in_pieces(octets);
                assert!(pieces.iter().all(|piece| piece.len() < octets + 80));
                let read = pieces.iter().map(|p| serde_json::from_str::<Change>(p).expect("a change"));
                assert_eq!(read.reduce(Change::followed_by), Some(change.clone()));
            }
        }
    }
}
