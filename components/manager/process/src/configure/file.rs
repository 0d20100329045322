//! Configuration files, read without a router.

use crate::configure::builtin::ConfigSource;
use crate::configure::model::Model;
use crate::start_error::StartError;
use sluice_config::{Secrets, Tree};

/// Checks a configuration file. Returns the refused packages, without which the file is valid all the same.
///
/// # Errors
///
/// The file, the lines and their errors; and the refused packages, whose statements are unknown then.
pub fn check(source: &ConfigSource) -> Result<Vec<sluice_config::package::Refused>, StartError> {
    let model = Model::load(source)?;
    read_file(source, &model)?;
    Ok(model.refused)
}

/// Reads and checks a configuration file. Returns the configuration in JSON, without secrets.
///
/// # Errors
///
/// As of [`check`].
pub fn read_configuration(source: &ConfigSource) -> Result<serde_json::Value, StartError> {
    let model = Model::load(source)?;
    let tree = read_file(source, &model)?;
    let json = model.schema.json(&tree, &[], Secrets::Hidden);
    json.map_err(|error| model.explain(error.into()))
}

/// Reads and checks the configuration file of a start.
///
/// # Errors
///
/// As of [`check`].
pub fn read_file(source: &ConfigSource, model: &Model) -> Result<Tree, StartError> {
    let path = source.file.display().to_string();
    let text = std::fs::read_to_string(&source.file)
        .map_err(|source| StartError::Read { path: path.clone(), source })?;
    model.read(&path, &text).map_err(|e| model.explain(e))
}
