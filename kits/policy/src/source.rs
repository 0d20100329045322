//! Policies as configured: the shared subtree `policy` (`policy.yang`) in the form of the configuration tree.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The whole subtree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Policies {
    /// Named prefix lists.
    pub prefix_list: Vec<PrefixList>,
    /// Named AS-path expressions.
    pub as_path: Vec<AsPath>,
    /// Named sets of communities.
    pub community: Vec<Community>,
    /// Named parameters of flap damping.
    pub damping: Vec<Damping>,
    /// Policies, by name.
    pub policy_statement: Vec<Statement>,
}

/// A prefix list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixList {
    /// The name.
    pub name: String,
    /// Entries such as `10.0.0.0/8 orlonger` ([`crate::prefix_list::PrefixRange`]).
    #[serde(default)]
    pub prefix: Vec<String>,
}

/// An AS-path expression.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AsPath {
    /// The name.
    pub name: String,
    /// The expression ([`crate::as_path`]).
    pub expression: String,
}

/// A set of communities.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Community {
    /// The name.
    pub name: String,
    /// Members such as `65000:100` ([`crate::community::Pattern`]).
    #[serde(default)]
    pub member: Vec<String>,
}

/// The name that stands for no flap damping, in the place of the name of parameters.
pub const NO_DAMPING: &str = "none";

/// Parameters of flap damping (RFC 2439); the defaults are those of RFC 7196.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Damping {
    /// The name.
    pub name: String,
    /// The minutes in which a penalty decays by half.
    pub half_life: u8,
    /// The penalty up to which a suppressed route is used again.
    pub reuse: u32,
    /// The penalty above which a route is suppressed.
    pub suppress: u32,
    /// The most minutes for which a route without further flaps stays suppressed.
    pub max_suppress_time: u8,
}

impl Default for Damping {
    fn default() -> Self {
        Damping { name: String::new(), half_life: 15, reuse: 750, suppress: 6000, max_suppress_time: 60 }
    }
}

/// A policy: terms in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The name.
    pub name: String,
    /// Names of parameters. A call gives each a value; `$NAME` in a condition or an action stands for the value.
    #[serde(default)]
    pub parameter: Vec<String>,
    /// The terms.
    #[serde(default)]
    pub term: Vec<Term>,
}

/// A term: actions for routes under conditions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The name.
    pub name: String,
    /// Conditions, all required. Any value of a condition suffices.
    #[serde(default)]
    pub from: Named,
    /// Conditions, all forbidden.
    #[serde(default)]
    pub except: Named,
    /// The actions.
    #[serde(default)]
    pub then: Named,
}

/// Conditions or actions with their values, by name.
pub type Named = BTreeMap<String, Values>;

/// The values of a leaf or a leaf-list, as texts. An empty leaf has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Values(pub Vec<String>);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Formats without names for their types have what `serialize` writes.
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(ValuesVisitor)
        } else {
            Vec::deserialize(deserializer).map(Values)
        }
    }
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Values, E> {
        Ok(Values([value.to_string()].into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Values, E> {
        Ok(Values([value.to_string()].into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Values, E> {
        Ok(Values([value.to_string()].into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Values, E> {
        Ok(Values([value.into()].into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Values, E> {
        Ok(Values::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Values, A::Error> {
        let mut all = Vec::new();
        while let Some(Values(mut values)) = seq.next_element()? {
            all.append(&mut values);
        }
        Ok(Values(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Values, A::Error> {
        Err(A::Error::custom("a condition or an action has no statements inside"))
    }
}
