//! Refusals of components, and their place in the text of the configuration.

use crate::ManagerProcess;
use sluice_config::{ConfigError, ConfigText, Schema, Tree};
use sluice_manager::Reason;
use sluice_xrl::XrlError;

/// The reason why nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The configuration as a whole is not valid.
    #[error("{0}")]
    Invalid(Box<ConfigError>),
    /// A component refused the change or failed to start, or the revision could not be stored.
    #[error("{0}; nothing changed")]
    Failed(String),
    /// An earlier commit waits for its confirmation.
    #[error("{0}; nothing changed")]
    Unconfirmed(String),
    /// The store of a shared configuration does not say whether the change is decided.
    #[error("{0}")]
    Open(String),
}

/// A component that refuses its share, and the component's own words.
pub struct ComponentRefusal {
    /// The component.
    pub component: String,
    /// The reason.
    pub reason: Reason,
}

/// The reason why a transaction changed nothing.
pub struct Refused {
    /// The reason.
    pub reason: Reason,
    /// The component that refused its share, if the reason is that.
    pub by: Option<ComponentRefusal>,
    /// True if the store of a shared configuration does not say whether the change is decided.
    pub is_open: bool,
}

impl ManagerProcess {
    /// Returns a component's refusal, with its place in the text that the configuration was read from, or else in the text as shown.
    pub fn placed(&self, refused: Refused, after: &Tree, written: Option<&ConfigText>) -> Refusal {
        match refused.by {
            Some(ComponentRefusal { component, reason }) => {
                let model = self.model();
                let written = written_or_shown(&model.schema, after, written);
                Refusal::Invalid(Box::new(model.schema.refusal(&component, &written, &reason)))
            }
            None if refused.is_open => Refusal::Open(refused.reason),
            None => Refusal::Failed(refused.reason),
        }
    }
}

/// Returns the text that a configuration was read from, or else the text of the candidate as shown.
pub(crate) fn written_or_shown(schema: &Schema, tree: &Tree, written: Option<&ConfigText>) -> ConfigText {
    written.cloned().unwrap_or_else(|| schema.written("candidate", tree))
}

/// The refusal of a confirmation without a waiting commit.
pub(super) const NOTHING_WAITS: &str = "nothing waits for a confirmation: it was confirmed already, or what ran before runs again (`show revisions`)";

/// Returns a component's message, without the transport's words.
pub(super) fn words(error: &XrlError) -> String {
    match error {
        XrlError::Application { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
