//! Several paths of a prefix between this router and a neighbor (ADD-PATH, RFC 7911).

use crate::family::{Families, FamilyIndex};
use crate::session::AddPathFamilies;
use crate::shard::SentPaths;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The number of paths for a neighbor with `send best` and without `paths`.
const DEFAULT_PATHS: u8 = 2;

/// The statement `add-path` of a neighbor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AddPath {
    /// True if the neighbor may send several paths of a prefix.
    pub receive: bool,
    /// The paths for the neighbor; `None` for the best path only.
    pub send: Option<SendPaths>,
    /// The number of paths with [`SendPaths::Best`], from 1 on; `None` for the default.
    pub paths: Option<u8>,
    /// The names of the policies for the choice of paths beside the best path, in order: an undecided path is not sent. Without
    /// names every path is chosen.
    pub policy: Vec<String>,
}

/// The paths of each prefix that a neighbor is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendPaths {
    /// Every usable path.
    All,
    /// The best paths.
    Best,
}

impl AddPath {
    /// A single path of each prefix in both directions.
    pub const NONE: AddPath = AddPath { receive: false, send: None, paths: None, policy: Vec::new() };

    /// Returns the families of which several paths are offered: those of IP prefixes.
    pub(crate) fn offered(&self) -> AddPathFamilies {
        let if_wanted = |is_wanted: bool| {
            Families::of(|family| is_wanted && [FamilyIndex::IPV4, FamilyIndex::IPV6].contains(&family))
        };
        AddPathFamilies { receive: if_wanted(self.receive), send: if_wanted(self.send.is_some()) }
    }

    /// Returns the paths of each prefix for the neighbor; `None` for the best path only.
    pub(crate) fn sent(&self) -> Option<SentPaths> {
        self.send.map(|send| match send {
            SendPaths::All => SentPaths::All,
            SendPaths::Best => SentPaths::Best(self.paths.unwrap_or(DEFAULT_PATHS)),
        })
    }

    /// Returns the statement with the choice of paths of a second statement: a change without the end of a session.
    pub(crate) fn with_choice_of(&self, other: &AddPath) -> AddPath {
        AddPath { paths: other.paths, policy: other.policy.clone(), ..*self }
    }
}

/// The statement `add-path`, as written.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AddPathStatements {
    receive: Option<bool>,
    send: Option<SendPaths>,
    paths: Option<u8>,
    pub policy: Option<Vec<String>>,
}

impl AddPathStatements {
    /// Returns the statements, with absent statements from `from`.
    pub fn inherit(self, from: &AddPathStatements) -> AddPathStatements {
        AddPathStatements {
            receive: self.receive.or(from.receive),
            send: self.send.or(from.send),
            paths: self.paths.or(from.paths),
            policy: self.policy.or_else(|| from.policy.clone()),
        }
    }

    /// Returns the configuration, with defaults where no statement is.
    pub fn or_default(self) -> AddPath {
        AddPath {
            receive: self.receive.unwrap_or(false),
            send: self.send,
            paths: self.paths,
            policy: self.policy.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn statements_of_a_group_hold_where_a_neighbor_has_none() {
        let own = AddPathStatements { send: Some(SendPaths::Best), ..AddPathStatements::default() };
        let policy = Vec::from(["backups".to_string()]);
        let of_group = AddPathStatements {
            receive: Some(true),
            send: Some(SendPaths::All),
            paths: Some(3),
            policy: Some(policy.clone()),
        };
        let joined = own.clone().inherit(&of_group).or_default();
        assert_eq!(joined, AddPath { receive: true, send: Some(SendPaths::Best), paths: Some(3), policy });
        assert_eq!(joined.sent(), Some(SentPaths::Best(3)));
        assert_eq!(own.or_default().sent(), Some(SentPaths::Best(DEFAULT_PATHS)));
        assert_eq!(AddPathStatements::default().or_default(), AddPath::NONE);
    }

    #[test]
    fn several_paths_are_offered_of_ip_prefixes_only() {
        let offered = AddPath { receive: true, ..AddPath::NONE }.offered();
        assert!(offered.receive.has(FamilyIndex::IPV6) && !offered.receive.has(FamilyIndex::XID));
        assert!(offered.send.is_empty());
    }
}
