//! Refusals of components, with the place of the statement.
//!
//! A component gives the reason for a refused configuration as a text. If the text begins with the path of a statement and a colon, such as
//! `neighbor 10.0.0.2 import: there is no policy`, the refusal gets the place of the statement. The path starts in the component's
//! container, or is the name of a shared subtree and goes on from there.

use crate::error::ConfigError;
use crate::error::Fault;
use crate::schema::Schema;
use crate::schema::index::{Id, Kind};
use crate::text::secrets::Secrets;
use crate::tree::Tree;
use std::sync::Arc;

/// The text of a configuration, for places of errors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigText {
    /// The name of the file, or another name for people.
    pub file: String,
    /// The text.
    pub text: String,
}

impl Schema {
    /// Returns a component's refusal of a configuration as an error with the place in the configuration's text, as far as the
    /// refusal names a statement; else with the place of the component.
    pub fn refusal(&self, component: &str, written: &ConfigText, reason: &str) -> ConfigError {
        let path = self.refused_path(component, reason).unwrap_or_else(|| self.path_of(component));
        let fault = Fault { path, message: format!("{component}: {reason}"), expected: None };
        self.placed(&written.file, &written.text, fault)
    }

    /// Returns the text of a configuration without a file, for errors. Secrets are hidden.
    pub fn written(&self, name: &str, tree: &Tree) -> ConfigText {
        ConfigText { file: name.into(), text: self.text(tree, &[], Secrets::Hidden).unwrap_or_default() }
    }

    /// Returns the path of a component's container.
    fn path_of(&self, component: &str) -> Vec<Arc<str>> {
        let Some((instance, id)) = self.place(component) else { return Vec::new() };
        let mut at = crate::schema::index::ROOT;
        let mut path = Vec::new();
        for name in self.index[id].path.split('/') {
            path.push(Arc::from(name));
            let Some(child) = self.index[at].child(name) else { break };
            at = child;
            if !self.index[at].keys().is_empty() {
                path.extend(instance.map(Arc::from));
            }
        }
        path
    }

    /// Returns the path at the beginning of a refusal, with a value that the refusal quotes first.
    fn refused_path(&self, component: &str, reason: &str) -> Option<Vec<Arc<str>>> {
        let (path, rest) = reason.split_once(": ")?;
        let words: Vec<Arc<str>> = path.split_whitespace().map(Arc::from).collect();
        let (_, container) = self.place(component)?;
        let shared = self.index[container].uses.iter().find(|(name, _)| Some(name) == words.first());
        let (mut found, id, words) = match shared.and_then(|(name, _)| self.index.shared.get(name)) {
            Some(id) => (self.index[*id].path.split('/').map(Arc::from).collect(), *id, &words[1..]),
            None => (self.path_of(component), container, &words[..]),
        };
        let leads_to_values = self.leads(id, words)?;
        found.extend(words.iter().cloned());
        if leads_to_values {
            found.extend(rest.split('`').nth(1).map(Arc::from));
        }
        Some(found)
    }

    /// Returns true if a path leads to a leaf-list; `None` if the path leads nowhere.
    fn leads(&self, mut id: Id, mut words: &[Arc<str>]) -> Option<bool> {
        while let Some((name, rest)) = words.split_first() {
            id = self.index[id].child(name)?;
            words = rest.get(self.index[id].keys().len()..)?;
        }
        Some(matches!(self.index[id].kind, Kind::Values { .. }))
    }
}
