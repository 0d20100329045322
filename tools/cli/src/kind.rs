//! What an argument takes.

use serde::Deserialize;
use sluice_base::IpPrefix;
use std::net::IpAddr;

/// Where values come from that only a running router knows: a call, and a path in its reply.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// `TARGET/INTERFACE/METHOD`.
    pub call: String,
    /// Names of fields with dots between them, as `neighbors.address`; what is repeated gives many values.
    pub path: String,
}

impl Live {
    /// Values of a call's reply.
    pub fn new(call: &str, path: &str) -> Self {
        Live { call: call.into(), path: path.into() }
    }
}

/// What an argument takes.
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
    /// How many commits ago.
    Revision,
    /// One of these, each with help.
    Words(Vec<(String, String)>),
    /// All that follows: a path of the configuration, with a value at its end where one may stand.
    Statement,
    /// All that follows: a path of the configuration.
    Path,
    /// All that follows: a command of the operational mode.
    Command,
    /// All that follows, as it is.
    Rest,
}

impl Kind {
    /// Whether it takes all that follows.
    pub fn takes_rest(&self) -> bool {
        matches!(self, Kind::Statement | Kind::Path | Kind::Command | Kind::Rest)
    }

    /// What is wrong with a word for it, as `an address`, if something is.
    pub fn wants(&self, word: &str) -> Option<String> {
        let right = match self {
            Kind::Number | Kind::Revision => word.parse::<u64>().is_ok(),
            Kind::Addr => word.parse::<IpAddr>().is_ok(),
            Kind::Net => word.parse::<IpPrefix>().is_ok(),
            Kind::Place => word.parse::<IpAddr>().is_ok() || word.parse::<IpPrefix>().is_ok(),
            Kind::Words(words) => words.iter().any(|(w, _)| w == word),
            _ => true,
        };
        (!right).then(|| match self {
            Kind::Number => "a number".into(),
            Kind::Revision => "a number of commits to go back".into(),
            Kind::Addr => "an IP address".into(),
            Kind::Net => "a prefix, as 192.0.2.0/24".into(),
            Kind::Place => "an address or a prefix".into(),
            Kind::Words(words) => {
                let words: Vec<&str> = words.iter().map(|(w, _)| w.as_str()).collect();
                format!("one of {}", words.join(", "))
            }
            _ => "a word".into(),
        })
    }
}
