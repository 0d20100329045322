//! Limits on the arguments of calls: `[[limit]]` in `rights.toml`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A limit on the calls of a method.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// The method as `target/interface/method`, without patterns.
    pub call: String,
    /// The most calls in a time; without, any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Permitted values by argument; names with dots lead into messages, and every entry of a list is checked.
    #[serde(flatten)]
    pub arguments: BTreeMap<String, Permitted>,
}

/// The permitted values of an argument.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Permitted {
    /// Any text up to a length in octets.
    Longest {
        /// The length.
        longest: u64,
    },
    /// A list: the argument is in one of the ranges, or has one of the values.
    OneOf(Vec<Plain>),
    /// A single range or value.
    Only(Plain),
}

/// A permitted value, or a range of values: a prefix contains addresses and longer prefixes, `1-100` contains numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Plain {
    /// A truth value.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A text, a word of an enumeration, an address, a prefix, a range of numbers.
    Text(String),
}

/// The most calls in a time, written as `5/s` or `100/m`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// The calls, at least 1.
    pub calls: u32,
    /// The time in milliseconds.
    pub within_ms: u32,
}

/// The reason for which a text is no rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateError;

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate is a number of calls in a second or a minute, as `5/s` or `100/m`")
    }
}

impl core::error::Error for RateError {}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (calls, unit) = text.split_once('/').ok_or(RateError)?;
        let within_ms = match unit {
            "s" => 1000,
            "m" => 60_000,
            _ => return Err(RateError),
        };
        let calls = calls.parse().ok().filter(|calls| *calls > 0).ok_or(RateError)?;
        Ok(Rate { calls, within_ms })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.calls, if self.within_ms == 1000 { "s" } else { "m" })
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plain::Flag(flag) => flag.fmt(f),
            Plain::Number(number) => number.fmt(f),
            Plain::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Display for Permitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Permitted::Longest { longest } => write!(f, "at most {longest} octets"),
            Permitted::Only(plain) => plain.fmt(f),
            Permitted::OneOf(all) => {
                let all: Vec<String> = all.iter().map(Plain::to_string).collect();
                write!(f, "one of {}", all.join(", "))
            }
        }
    }
}

impl Limit {
    /// Returns target, interface and method; `None` for a text of another form, or with a pattern.
    pub fn parts(&self) -> Option<(&str, &str, &str)> {
        let (target, rest) = self.call.split_once('/')?;
        let (interface, method) = rest.split_once('/')?;
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['*', '/', '@']);
        [target, interface, method].into_iter().all(is_plain).then_some((target, interface, method))
    }

    /// Returns the limit in words that go on behind the call.
    pub fn in_words(&self) -> String {
        let arguments = self.arguments.iter().map(|(name, permitted)| format!("{name}: {permitted}"));
        let rate = self.rate.map(|rate| format!("at most {rate}"));
        arguments.chain(rate).collect::<Vec<_>>().join("; ")
    }
}
