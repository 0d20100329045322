//! Requested commits, and their results.

use super::editors::CandidateId;
use crate::revisions::Unconfirmed;
use crate::revisions::Via;
use sluice_config::ConfigText;
use sluice_config::Tree;
use sluice_xrl::idl::common::v1::Effect;
use sluice_xrl::idl::manager::v1 as pb;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The origin of a configuration to commit. The configuration itself is read only by the holder of the turn to commit:
/// a commit that waited builds on the commits before.
#[derive(Clone, Debug)]
pub enum Source {
    /// The candidate of an editor.
    Editor(u64),
    /// The configuration file.
    File {
        /// True if a file without statements may replace a configuration with statements.
        allow_empty: bool,
    },
    /// A revision.
    Revision(u64),
    /// The revision to run again because a newer revision was not confirmed in time.
    Unconfirmed(Unconfirmed),
    /// The shared part that was decided for all elements, beside the local part of this one.
    Shared(SharedText),
}

/// A requested commit.
pub struct CommitRequest {
    /// The origin of the configuration.
    pub source: Source,
    /// The purpose, as the log of revisions shows it.
    pub comment: String,
    /// The time within which the commit must be confirmed; absent: no confirmation is needed.
    pub confirm_within: Option<Duration>,
    /// True if the commit confirms the commit that waits for its confirmation.
    pub confirms: bool,
}

/// A configuration that is to run. Lives no longer than the turn to commit.
pub struct Request {
    /// The configuration.
    pub after: Tree,
    /// The author.
    pub user: String,
    /// The comment.
    pub comment: String,
    /// The origin of the commit.
    pub via: Via,
    /// The time within which the commit must be confirmed; absent: no confirmation is needed.
    pub confirm_within: Option<Duration>,
    /// True if the commit confirms the commit that waits for its confirmation.
    pub confirms: bool,
    /// The configuration file's text, if the configuration comes from the file.
    pub of_file: Option<String>,
    /// The text that the configuration was read from, for the places of errors; absent if the configuration was edited.
    pub written: Option<Rc<ConfigText>>,
    /// The number of the candidate.
    pub candidate: Option<CandidateId>,
}

/// The result of a commit, or of its check.
#[derive(Debug)]
pub struct Done {
    /// The revision that runs.
    pub revision: u64,
    /// The effects by component.
    pub effects: BTreeMap<String, Vec<Effect>>,
    /// The number of statements that differ.
    pub changes: usize,
    /// The duration.
    pub took: Duration,
    /// The answers of the other elements.
    pub others: Others,
    /// The number of the configuration of all elements that was confirmed.
    pub confirmed: Option<u64>,
}

/// The shared part that was decided for all elements.
#[derive(Clone, Debug)]
pub struct SharedText {
    /// The text.
    pub text: String,
    /// The author.
    pub user: String,
}

/// The answers of the other elements to an offer.
#[derive(Clone, Default, Debug)]
pub struct Others {
    /// The elements without a part in the commit, and the reasons.
    pub absent: Vec<String>,
    /// The effects on the others, as foreseen by them.
    pub effects: Vec<pb::ElementEffects>,
}
