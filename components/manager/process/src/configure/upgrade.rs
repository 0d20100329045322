//! The meaning of the last committed configuration for the current executable, which may differ from the executable
//! that wrote the revision.

use crate::configure::builtin::ConfigSource;
use crate::configure::model::Model;
use crate::revisions::Revisions;
use crate::start_error::StartError;
use crate::start_error::cannot;
use sluice_config::upgrade::{self, Notice};
use sluice_config::{ConfigError, Node};
use thiserror::Error;

/// The result of the check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpgradeCheck {
    /// The newest revision, which was looked at.
    pub revision: u64,
    /// The differences. Without any, the router does the same as before.
    pub notices: Vec<Notice>,
}

/// The reason why nothing can be said.
#[derive(Debug, Error)]
pub enum UpgradeError {
    /// The executable's own schema, or the folder.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Nothing was ever committed there.
    #[error(
        "nothing was committed in {folder} yet; name the folder with --state-dir, or the router's with --run-dir"
    )]
    Nothing {
        /// The folder.
        folder: String,
    },
    /// The schema by which the revision was written is not there, or not one.
    #[error(
        "the schema of revision {revision} ({file}) cannot be read: {reason}; any commit writes it again"
    )]
    Schema {
        /// The revision.
        revision: u64,
        /// The file.
        file: String,
        /// The error.
        reason: String,
    },
    /// The revision's text cannot be used.
    #[error("{0}")]
    Damaged(String),
    /// The revision is no text of a configuration.
    #[error("{0}")]
    Text(#[from] Box<ConfigError>),
}

/// Compares the newest revision in the state folder under the schema of its writer with the revision under the current
/// executable's schema. Needs no router, and changes nothing.
pub fn upgrade_check(source: &ConfigSource) -> Result<UpgradeCheck, UpgradeError> {
    let folder = source.state_dir.join("revisions");
    let nothing = || UpgradeError::Nothing { folder: source.state_dir.display().to_string() };
    if !folder.try_exists().map_err(cannot("read", &folder))? {
        return Err(nothing());
    }
    std::fs::read_dir(&folder).map_err(cannot("read", &folder))?;
    let revisions = Revisions::of(&source.state_dir);
    let revision = *revisions.numbers().first().ok_or_else(nothing)?;
    let (_, text) = revisions.read(revision).map_err(|e| UpgradeError::Damaged(e.to_string()))?;
    let old = stored(&revisions, revision)?;
    let model = Model::load(source)?;
    let tree = upgrade::read(&old, &format!("revision {revision}"), &text).map_err(Box::new)?;
    Ok(UpgradeCheck { revision, notices: upgrade::check(&old, &model.schema, &tree) })
}

fn stored(revisions: &Revisions, revision: u64) -> Result<Vec<Node>, UpgradeError> {
    let refused = |reason: String| UpgradeError::Schema {
        revision,
        file: revisions.folder().join("schema.json").display().to_string(),
        reason,
    };
    let json = revisions.schema().ok_or_else(|| refused("there is none".into()))?;
    serde_json::from_str(&json).map_err(|e| refused(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configure::builtin::Builtin;
    use crate::revisions::{New, Via};
    use std::path::Path;

    const MODULE: &str = include_str!("../../../../static/static.yang");
    const RIGHTS: &str = include_str!("../../../../static/rights.toml");
    const STATIC: &[Builtin] = &[Builtin {
        class: "static",
        rights: RIGHTS,
        module: Some(("sluice-static", MODULE)),
        commands: None,
        metrics: None,
        help: "Static routes",
        check: None,
        sharing: None,
        ports: None,
    }];

    fn source(state_dir: &Path) -> ConfigSource {
        let none = state_dir.join("none");
        ConfigSource {
            file: none.clone(),
            builtins: STATIC,
            packages_dir: none.clone(),
            trust_dir: none,
            state_dir: state_dir.to_path_buf(),
            trial: None,
        }
    }

    fn commit(state_dir: &Path, text: &str, schema: &str) {
        let mut revisions = Revisions::open(state_dir, schema).unwrap();
        let text = text.to_string();
        let whole = Box::new(move || text);
        let new = New { user: "ann", comment: "", via: Via::Commit, steps: None, whole };
        revisions.write(new, None).unwrap();
        revisions.write_schema(schema).unwrap();
    }

    #[test]
    fn what_is_not_as_it_was_is_said_of_what_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let source = source(dir.path());
        assert!(matches!(upgrade_check(&source), Err(UpgradeError::Nothing { .. })));
        assert!(!dir.path().join("revisions").exists(), "a check writes nothing");
        let schema = Model::load(&source).unwrap().schema_json().to_string();
        let text = "protocols static route 192.0.2.0/24 next-hop 10.0.0.1;\n";
        commit(dir.path(), text, &schema);
        assert_eq!(upgrade_check(&source).unwrap(), UpgradeCheck { revision: 1, notices: vec![] });
        // The version before had another default.
        let before = schema.replace(r#""default":"1""#, r#""default":"7""#);
        assert_ne!(before, schema);
        commit(dir.path(), text, &before);
        let found = upgrade_check(&source).unwrap();
        let said: Vec<String> = found.notices.iter().map(ToString::to_string).collect();
        assert_eq!(found.revision, 2);
        assert!(said.iter().any(|s| s.contains("weight: ") && s.contains("`1` instead of `7`")), "{said:?}");
        assert!(said.iter().all(|s| s.starts_with("protocols static route 192.0.2.0/24 ")), "{said:?}");
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let source = source(dir.path());
        commit(dir.path(), "protocols static;\n", "no JSON");
        let error = upgrade_check(&source).unwrap_err().to_string();
        assert!(error.contains("schema.json") && error.contains("revision 1"), "{error}");
        let file = dir.path().join("revisions/00000001.conf");
        std::fs::write(&file, "torn").unwrap();
        assert!(matches!(upgrade_check(&source), Err(UpgradeError::Damaged(_))));
    }
}
