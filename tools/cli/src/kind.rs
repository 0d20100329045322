//! What an argument takes.

use serde::Deserialize;
use sluice_base::{IpPrefix, XidPrefix};
use std::net::IpAddr;

/// The source of values that only a running router knows: a call, and a path in the reply.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// `TARGET/INTERFACE/METHOD`.
    pub call: String,
    /// Names of fields with dots between them, as `neighbors.address`; a repeated field yields many values.
    pub path: String,
    /// The separator of a word of several parts: a value completes the part behind the last separator.
    #[serde(default)]
    pub after: Option<char>,
}

impl Live {
    /// Values of a call's reply.
    pub fn new(call: &str, path: &str) -> Self {
        Live { call: call.into(), path: path.into(), after: None }
    }

    /// Returns the same values for each part of a word whose parts `separator` joins.
    #[must_use]
    pub fn for_parts(self, separator: char) -> Self {
        Live { after: Some(separator), ..self }
    }

    /// Returns the word that a value makes of the word `partial`, whose last part the value takes the place of.
    pub fn word(&self, partial: &str, value: &str) -> String {
        let before = self
            .after
            .and_then(|separator| Some(partial.rsplit_once(separator)?.0.len() + separator.len_utf8()));
        format!("{}{value}", partial.get(..before.unwrap_or_default()).unwrap_or_default())
    }
}

/// The kind of an argument's values.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Any word.
    Text,
    /// A whole number, 0 or more.
    Number,
    /// An IP address.
    Addr,
    /// A prefix.
    Net,
    /// An address or a prefix.
    Place,
    /// The name of a file.
    File,
    /// The age of a revision, in commits.
    Revision,
    /// The name of a policy of the configuration.
    Policy,
    /// A word from a list, each with help.
    Words(Vec<(String, String)>),
    /// The rest of the line: a path of the configuration, with a value at its end where a value is allowed.
    Statement,
    /// The rest of the line: a path of the configuration.
    Path,
    /// The rest of the line: a command of the operational mode.
    Command,
    /// The rest of the line, unchanged.
    Rest,
}

impl Kind {
    /// Returns true if the kind takes the rest of the line.
    pub fn takes_rest(&self) -> bool {
        matches!(self, Kind::Statement | Kind::Path | Kind::Command | Kind::Rest)
    }

    /// Returns the expected value, such as `an address`, if a word is not one.
    pub fn wants(&self, word: &str) -> Option<String> {
        let right = match self {
            Kind::Number | Kind::Revision => word.parse::<u64>().is_ok(),
            Kind::Addr => word.parse::<IpAddr>().is_ok(),
            Kind::Net => word.parse::<IpPrefix>().is_ok(),
            Kind::Place => {
                let is_ip = word.parse::<IpAddr>().is_ok() || word.parse::<IpPrefix>().is_ok();
                is_ip || word.parse::<XidPrefix>().is_ok()
            }
            Kind::Words(words) => words.iter().any(|(w, _)| w == word),
            _ => true,
        };
        (!right).then(|| match self {
            Kind::Number => "a number".into(),
            Kind::Revision => "a number of commits to go back".into(),
            Kind::Addr => "an IP address".into(),
            Kind::Net => "a prefix, as 192.0.2.0/24".into(),
            Kind::Place => "an address, a prefix or an XID".into(),
            Kind::Words(words) => {
                let words: Vec<&str> = words.iter().map(|(w, _)| w.as_str()).collect();
                format!("one of {}", words.join(", "))
            }
            _ => "a word".into(),
        })
    }
}
