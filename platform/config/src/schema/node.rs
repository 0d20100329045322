//! The schema for the configuration's users: names, types, words of help. Completion, help and documents are made from
//! here, so that a dropped-in module is known everywhere.

use crate::Impact;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A node of the schema that an operator may write.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The description, in a few sentences.
    pub description: String,
    /// Its shape.
    pub kind: NodeKind,
    /// The component of the configuration here and below, at the root of the component's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The meaning for the platform, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The children, in the module's order, a list's keys among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// The shape of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// A block.
    Container {
        /// True if the presence of the block has a meaning.
        presence: bool,
    },
    /// Blocks, each with keys.
    List {
        /// The leaves that name an entry, in order.
        keys: Vec<String>,
    },
    /// A single value.
    Leaf(Value),
    /// Any number of values.
    LeafList(Value),
}

/// The values of a leaf.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Value {
    /// The type's YANG name, or the typedef's name: `uint16`, `inet:ip-address`, `boolean`.
    pub type_name: String,
    /// The range in words: `1..65535`, `up to 255 characters`; empty if the type's name is enough.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub range: String,
    /// The words of an enumeration, of a boolean too, with what each means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<(String, String)>,
    /// The value if none is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The unit, as in the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<String>,
    /// True if it has to be written.
    pub mandatory: bool,
    /// True if the name alone is enough: an empty leaf, or a boolean's `true`.
    pub flag: bool,
    /// True if the value is a secret, never to be shown.
    pub secret: bool,
    /// The impact of a change on a running router.
    pub impact: Impact,
}

impl Value {
    /// Returns the expected values, for errors.
    pub(crate) fn expects(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|(word, _)| word.as_str()).collect();
        match (self.type_name.as_str(), words.as_slice()) {
            ("boolean", _) => "true or false".into(),
            ("empty", _) => "nothing after it".into(),
            ("union", _) => self.range.clone(),
            (_, words) if !words.is_empty() && self.range.is_empty() => {
                format!("one of {}", words.join(", "))
            }
            (name, _) if self.range.is_empty() => format!("a value of type {name}"),
            (name, _) => format!("a value of type {name}, {}", self.range),
        }
    }
}

impl Node {
    /// The child of a name.
    pub fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|c| c.name == name)
    }
}

/// A meaning of a node for the platform, whatever component the node belongs to: `sluice:role` in YANG.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A boolean: true makes neighbors use other ways while sessions stay up.
    Drain,
    /// A list of routes of the main table, by prefix.
    Route,
    /// A list of sessions that carry routes, by the neighbor's address.
    Session,
    /// A list by the name of an origin of routes at the RIB, which must exist.
    Origin,
    /// A list by the name of an origin of routes at the RIB, which need not be one of a package.
    NamedOrigin,
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "drain" => Ok(Role::Drain),
            "route" => Ok(Role::Route),
            "session" => Ok(Role::Session),
            "origin" => Ok(Role::Origin),
            "named-origin" => Ok(Role::NamedOrigin),
            _ => Err(()),
        }
    }
}
