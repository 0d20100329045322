//! What differs between two configurations, and what that costs.

use crate::{Impact, Schema};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

impl Schema {
    /// The leaves (schema paths: names joined with `/`, keys left out) whose values differ between two states of the part of
    /// the tree at `path`. The order of a list's entries is no difference.
    pub fn differences(
        &self,
        path: &[String],
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.compare(&path.join("/"), before, after, &mut found);
        found
    }

    /// What going from one state of a part to another costs: the dearest of its differences; `None` if there is none.
    pub fn cost(&self, path: &[String], before: Option<&Value>, after: Option<&Value>) -> Option<Impact> {
        self.differences(path, before, after).iter().filter_map(|leaf| self.impact(leaf)).max()
    }

    fn compare<'v>(
        &self,
        path: &str,
        before: Option<&'v Value>,
        after: Option<&'v Value>,
        found: &mut BTreeSet<String>,
    ) {
        if before == after {
            return;
        }
        match (before, after) {
            (Some(Value::Object(_)), _) | (_, Some(Value::Object(_))) => {
                let (before, after) = (members(before), members(after));
                let names: BTreeSet<&String> = before.into_iter().chain(after).flat_map(Map::keys).collect();
                for name in names {
                    let value = |m: Option<&'v Map<String, Value>>| m.and_then(|m| m.get(name));
                    self.compare(&format!("{path}/{name}"), value(before), value(after), found);
                }
            }
            _ if self.keys.contains_key(path) => {
                let (before, after) = (self.entries(path, before), self.entries(path, after));
                let keys: BTreeSet<&Vec<String>> = before.keys().chain(after.keys()).collect();
                for key in keys {
                    self.compare(path, before.get(key).copied(), after.get(key).copied(), found);
                }
            }
            _ => {
                found.insert(path.to_owned());
            }
        }
    }

    /// A list's entries by their keys.
    fn entries<'v>(&self, path: &str, list: Option<&'v Value>) -> BTreeMap<Vec<String>, &'v Value> {
        let keys = self.keys.get(path).map(Vec::as_slice).unwrap_or_default();
        let name = |entry: &Value| keys.iter().map(|k| entry[k.as_str()].to_string()).collect();
        list.and_then(Value::as_array).into_iter().flatten().map(|entry| (name(entry), entry)).collect()
    }
}

fn members(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}
