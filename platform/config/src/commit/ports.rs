//! Names of the ports of a router of many machines, in statements for all of its machines.
//!
//! A port is an interface of one machine, and a link on the others. Statements name the link (`port1`); people read the machine and its
//! interface (`b1:eth0`). Statements that each machine keeps for itself are not checked: they name the machine's own interfaces.

use super::refusal::ConfigText;
use crate::error::Fault;
use crate::error::{ConfigError, ConfigErrors};
use crate::schema::Schema;
use crate::schema::index::{Id, Index, ROOT};
use crate::schema::values::INTERFACE_NAME;
use crate::tree::entries::Entries;
use crate::tree::key::key_words;
use crate::tree::{Block, Item, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The ports of a router of many machines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ports {
    /// The names for people (`b1:eth0`), by the number in the name of the link (`port1`).
    names: BTreeMap<u16, String>,
}

impl Ports {
    /// Makes ports of names for people, by the numbers of the ports.
    pub fn new(names: BTreeMap<u16, String>) -> Self {
        Ports { names }
    }

    /// Returns the number in the name of a port's link; `None` for the name of another interface.
    fn number(interface: &str) -> Option<u16> {
        let digits = interface.strip_prefix("port")?;
        digits.parse().ok().filter(|number: &u16| *number > 0 && number.to_string() == digits)
    }

    /// Returns true for the name of a link that no port has.
    fn lacks(&self, interface: &str) -> bool {
        Self::number(interface).is_some_and(|number| !self.names.contains_key(&number))
    }

    /// Names all ports, for errors.
    fn all(&self) -> String {
        let named = |(number, name): (&u16, &String)| format!("port{number} ({name})");
        match self.names.iter().map(named).collect::<Vec<_>>().as_slice() {
            [] => "another interface: the router has no ports".into(),
            [one] => one.clone(),
            many => format!("one of {}", many.join(", ")),
        }
    }

    /// Returns an error with the ports, if the error is about a port's name for people.
    pub fn explain(&self, error: ConfigError) -> ConfigError {
        let is_name = error.expected.as_deref().is_some_and(|expected| expected.contains(INTERFACE_NAME));
        let refused = error.message.split('`').nth(1).filter(|word| is_name && word.contains(':'));
        let Some(refused) = refused.map(str::to_owned) else { return error };
        match self.names.iter().find(|(_, name)| **name == refused) {
            Some((number, _)) => {
                error.expecting(format!("`port{number}`, by which statements name this port"))
            }
            None => {
                let message = format!("the router has no port `{refused}`");
                ConfigError { message, ..error }.expecting(self.all())
            }
        }
    }

    /// Does the same for all errors of a text.
    pub fn explain_all(&self, errors: ConfigErrors) -> ConfigErrors {
        ConfigErrors::new(errors.all().iter().map(|error| self.explain(error.clone())).collect())
    }
}

impl Schema {
    /// Returns an error for a statement with the name of a port that the router does not have. The cost follows the size of the difference
    /// from `before`, a configuration that was checked with the same ports.
    ///
    /// # Errors
    /// The first such statement, with its place in the text.
    pub fn check_ports(
        &self,
        before: Option<&Tree>,
        after: &Tree,
        ports: &Ports,
        written: impl FnOnce() -> ConfigText,
    ) -> Result<(), ConfigError> {
        let mut search = Search { index: &self.index, ports, trail: Vec::new() };
        let Some(name) = search.block(ROOT, before.map(|tree| &tree.root), &after.root) else {
            return Ok(());
        };
        let message = format!("the router has no port `{name}`");
        let fault = Fault { path: search.trail, message, expected: Some(ports.all()) };
        let written = written();
        Err(self.placed(&written.file, &written.text, fault))
    }
}

/// A search for the name of a port that the router does not have.
struct Search<'a> {
    index: &'a Index,
    ports: &'a Ports,
    /// The names and keys from the top to the statement, also after the search.
    trail: Vec<Arc<str>>,
}

impl Search<'_> {
    /// Searches a block, and returns the name.
    fn block(&mut self, id: Id, before: Option<&Arc<Block>>, after: &Arc<Block>) -> Option<Arc<str>> {
        if !self.index[id].names_interfaces || before.is_some_and(|before| Arc::ptr_eq(before, after)) {
            return None;
        }
        for (name, item) in after.items() {
            let Some(child) = self.index[id].child(name) else { continue };
            let def = &self.index[child];
            if !def.names_interfaces || def.is_local {
                continue;
            }
            self.trail.push(name.clone());
            let old = before.and_then(|block| block.get(name));
            let found = self.item(child, old, item);
            if found.is_some() {
                return found;
            }
            self.trail.pop();
        }
        None
    }

    fn item(&mut self, id: Id, before: Option<&Item>, after: &Item) -> Option<Arc<str>> {
        match (before, after) {
            (Some(Item::Container(before)), Item::Container(after)) => self.block(id, Some(before), after),
            (_, Item::Container(after)) => self.block(id, None, after),
            (_, Item::Leaf(leaf)) => Some(leaf.text.clone()).filter(|name| self.ports.lacks(name)),
            (_, Item::Values(values)) => {
                let found = values.iter().map(|(name, _)| name).find(|name| self.ports.lacks(name))?.clone();
                self.trail.push(found.clone());
                Some(found)
            }
            (before, Item::List(after)) => {
                let old = match before {
                    Some(Item::List(before)) => before.clone(),
                    _ => Entries::new(after.is_listed()),
                };
                for (key, before, after) in old.differences(after) {
                    let Some(after) = after else { continue };
                    let depth = self.trail.len();
                    self.trail.extend(key_words(key).map(Arc::from));
                    let found = self.block(id, before, after);
                    if found.is_some() {
                        return found;
                    }
                    self.trail.truncate(depth);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;

    const MODULES: [Module; 3] = [
        Module { name: "sluice-static", text: include_str!("../../../../components/static/static.yang") },
        Module { name: "sluice-fea", text: include_str!("../../../../components/fea/fea.yang") },
        Module { name: "sluice-cluster", text: include_str!("../../../../components/cluster/cluster.yang") },
    ];

    fn ports() -> Ports {
        Ports::new([(1, "b1:eth0".to_owned()), (2, "b2:eth0".to_owned())].into())
    }

    fn refused(schema: &Schema, before: Option<&Tree>, text: &str) -> Option<String> {
        let tree = schema.merge(&Tree::empty(), "file", text).expect(text);
        let written = || ConfigText { file: "file".into(), text: text.into() };
        schema.check_ports(before, &tree, &ports(), written).err().map(|error| error.to_string())
    }

    #[test]
    fn a_port_that_no_machine_has_is_refused_with_the_ports_there_are() {
        let schema = Schema::of(&MODULES).expect("modules");
        for name in ["port1", "port2", "eth9", "port", "port03", "port0", "port70000", "portal1"] {
            let text = format!("protocols static route 192.0.2.0/24 next-hop 10.0.0.2 interface {name};");
            assert_eq!(refused(&schema, None, &text), None, "{name}");
        }
        let text = "protocols {\n  static {\n    route 192.0.2.0/24 {\n      next-hop 10.0.0.2 interface port3;\n    }\n  }\n}\n";
        let said = refused(&schema, None, text).expect("refused");
        let expected =
            "file:4:25: the router has no port `port3`; expected one of port1 (b1:eth0), port2 (b2:eth0)";
        assert!(said.starts_with(expected), "{said}");
        // A value of a list of values, and statements of policies.
        let policy = "policy policy-statement p term t {\n from interface [ eth0 port1 port9 ];\n}\n";
        let said = refused(&schema, None, policy).expect("refused");
        assert!(said.starts_with("file:2:30: the router has no port `port9`"), "{said}");
        // The machine's own statements name its own interfaces.
        assert_eq!(refused(&schema, None, "cluster port 1 { balancer 1; interface port7; }"), None);
    }

    #[test]
    fn unchanged_statements_are_not_checked_again() {
        let schema = Schema::of(&MODULES).expect("modules");
        let route = |prefix: &str, name: &str| {
            format!("set protocols static route {prefix} next-hop 10.0.0.2 interface {name}")
        };
        let before = schema.edit(&Tree::empty(), &route("192.0.2.0/24", "port3")).expect("valid");
        let after = schema.edit(&before, &route("198.51.100.0/24", "port4")).expect("valid");
        let check = |before: Option<&Tree>, after: &Tree| {
            let written = || schema.written("candidate", after);
            schema.check_ports(before, after, &ports(), written).err().map(|error| error.message)
        };
        assert_eq!(check(Some(&before), &before), None);
        assert_eq!(check(Some(&before), &after).as_deref(), Some("the router has no port `port4`"));
        assert_eq!(check(None, &after).as_deref(), Some("the router has no port `port3`"));
    }

    #[test]
    fn names_for_people_are_explained() {
        let schema = Schema::of(&MODULES).expect("modules");
        let explained = |name: &str| {
            let line = format!("set protocols static route 192.0.2.0/24 next-hop 10.0.0.2 interface {name}");
            let error = schema.edit(&Tree::empty(), &line).expect_err("a name with a colon");
            let error = ports().explain(error);
            (error.message, error.expected.unwrap_or_default())
        };
        let (message, expected) = explained("b1:eth0");
        assert!(
            message.contains("`b1:eth0` is not valid") && expected.starts_with("`port1`"),
            "{message} {expected}"
        );
        let (message, expected) = explained("b3:eth0");
        assert_eq!(message, "the router has no port `b3:eth0`");
        assert_eq!(expected, "one of port1 (b1:eth0), port2 (b2:eth0)");
        let (_, expected) = explained("a/b");
        assert!(expected.contains(INTERFACE_NAME), "{expected}");
        // A text is read past its errors, so that the ports are those of the text.
        let text =
            "cluster element 1; protocols static route 192.0.2.0/24 next-hop 10.0.0.2 interface b3:eth0;";
        assert_eq!(schema.part_of_text("cluster", text).expect("a part")["element"], 1);
    }
}
