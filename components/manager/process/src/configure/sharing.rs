//! One configuration of several machines: the shared part is decided by a component, and each machine keeps its local part.

use crate::configure::builtin::Sharing;
use crate::configure::model::Model;
use sluice_config::{ConfigError, Secrets, Tree};

/// The name of a shared text in errors.
const SHOWN: &str = "the shared configuration";

/// A change of the shared part.
pub struct SharedChange {
    /// The class of the component that decides.
    pub class: &'static str,
    /// The text of the shared part before.
    pub before: String,
    /// The text of the shared part after.
    pub after: String,
}

impl Model {
    /// Returns the class of the component that shares the configuration with other elements, and this element's place among them. `None`
    /// if this machine keeps a configuration of its own.
    pub fn sharing(&self, tree: &Tree) -> Option<(&'static str, Sharing)> {
        let (class, rule) = self.sharing?;
        Some((class, rule(self.schema.part(class, tree)?)?))
    }

    /// Returns the text of the shared part of a configuration.
    ///
    /// # Errors
    /// The configuration cannot be written as a text.
    pub(crate) fn shared_text(&self, tree: &Tree) -> Result<String, ConfigError> {
        self.schema.text(&self.schema.shared_part(tree), &[], Secrets::Shown)
    }

    /// Returns a configuration with the shared part of a text. The local part stays.
    ///
    /// # Errors
    /// The text is malformed, or has statements that this machine does not know.
    pub(crate) fn with_shared_text(&self, tree: &Tree, text: &str) -> Result<Tree, ConfigError> {
        let shared = self.schema.merge(&Tree::empty(), SHOWN, text)?;
        Ok(self.schema.joined(&shared, tree))
    }

    /// Returns the change of the shared part from one configuration to another, if both are of an element that shares its configuration.
    ///
    /// # Errors
    /// A configuration cannot be written as a text.
    pub fn shared_change(&self, before: &Tree, after: &Tree) -> Result<Option<SharedChange>, ConfigError> {
        let Some((class, _)) = self.sharing(after).filter(|_| self.sharing(before).is_some()) else {
            return Ok(None);
        };
        if self.schema.shared_part(before) == self.schema.shared_part(after) {
            return Ok(None);
        }
        let (before, after) = (self.shared_text(before)?, self.shared_text(after)?);
        Ok(Some(SharedChange { class, before, after }))
    }
}
