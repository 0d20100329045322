//! Selects the configuration for the start: the file if valid, else the last committed configuration, and a report in
//! every status.

use crate::configure::builtin::ConfigSource;
use crate::configure::model::Model;
use crate::revisions::{New, Revisions, Via, now_unix_ms};
use crate::start_error::StartError;
use sluice_config::Tree;
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use tracing::{error, info, warn};

/// The configuration that the router starts with.
pub struct Start {
    /// The configuration.
    pub tree: Tree,
    /// The revision; if the configuration could not be stored, an older revision or 0.
    pub revision: u64,
    /// True if the revision holds the running configuration.
    pub is_stored: bool,
    /// True if the configuration file is a copy of an older one.
    pub is_behind: bool,
    /// The reason why the configuration differs from the file's, if so.
    pub trouble: Option<String>,
    /// The revision that ran before the file was edited, if the start takes the edited file.
    pub before: Option<u64>,
}

/// Selects the configuration. Fails only without any valid configuration.
pub fn choose(source: &ConfigSource, model: &Model, revisions: &mut Revisions) -> Result<Start, StartError> {
    for refused in &model.refused {
        warn!(
            event = "package.refused",
            package = refused.name,
            "package `{}` is refused, the router runs without it: {}",
            refused.name,
            refused.reason
        );
    }
    let file = std::fs::read_to_string(&source.file);
    let copy_of = file.as_ref().ok().and_then(|text| revisions.copy_of(text));
    let start = of_file_or_newest(source, file, copy_of, model, revisions)?;
    let mut start = roll_back_unconfirmed(start, model, revisions);
    start.is_behind = copy_of.is_some_and(|revision| revision != start.revision);
    match &start.trouble {
        Some(trouble) => {
            error!(
                event = "config.trouble",
                revision = start.revision,
                "{trouble}; revision {} runs",
                start.revision
            );
        }
        None => info!(event = "config.start", revision = start.revision, "revision {} runs", start.revision),
    }
    Ok(start)
}

/// Selects the configuration file or the newest revision. `copy_of` is the revision of which the file is a copy, if any.
fn of_file_or_newest(
    source: &ConfigSource,
    file: std::io::Result<String>,
    copy_of: Option<u64>,
    model: &Model,
    revisions: &mut Revisions,
) -> Result<Start, StartError> {
    let path = source.file.display().to_string();
    let newest = newest(model, revisions);
    let is_copy_of_newest = copy_of.is_some() && copy_of == revisions.numbers().first().copied();
    let waits = revisions.unconfirmed().map(|open| open.revision);
    Ok(match (file, newest) {
        (Ok(text), Some(start)) if revisions.is_as_written(&text) => {
            revisions.has_read(&text);
            match start.trouble {
                // The newest revision, or one on which it stands, is damaged; what it said is in the file.
                Some(trouble) if is_copy_of_newest => instead_of_damaged(
                    &path,
                    &text,
                    Start { trouble: Some(trouble), ..start },
                    revisions,
                    model,
                ),
                _ => start,
            }
        }
        (Ok(text), newest) => match (model.read(&path, &text), newest) {
            (Ok(tree), Some(start)) if start.tree.is_emptied_by(&tree) => start.in_trouble(format!(
                "the configuration file {path} has no statements; to run without any, delete them and commit, or use \
                 `sluice reload allow-empty`"
            )),
            // The file would hold for good what waits for its confirmation.
            (Ok(tree), Some(start)) if waits.is_some() && start.tree != tree => start.in_trouble(format!(
                "the configuration file {path} was changed while revision {} waits for its confirmation; `sluice reload` reads it after \
                 that",
                waits.unwrap_or_default()
            )),
            (Ok(tree), newest) => of_file(tree, &text, newest, revisions, model),
            (Err(error), Some(start)) => {
                let packages: Vec<&str> = model.refused.iter().map(|r| r.name.as_str()).collect();
                let without = match packages.is_empty() {
                    true => String::new(),
                    false => format!(" (refused packages: {})", packages.join(", ")),
                };
                start.in_trouble(format!(
                    "the configuration file is not valid{without}: {}",
                    error.without_lines()
                ))
            }
            (Err(error), None) => return Err(model.explain(error)),
        },
        (Err(error), Some(start)) => {
            start.in_trouble(format!("cannot read the configuration {path}: {error}"))
        }
        (Err(source), None) => return Err(StartError::Read { path, source }),
    })
}

/// Replaces a commit whose confirmation is overdue by the revision before it.
fn roll_back_unconfirmed(mut start: Start, model: &Model, revisions: &mut Revisions) -> Start {
    if let Some(back) = overdue(revisions)
        && let Ok((_, text)) = revisions.read(back)
        && let Ok(tree) = model.schema.read("revision", &text)
    {
        let comment = "not confirmed in time";
        start = match write(revisions, model, &tree, comment, Via::Rollback) {
            Ok(revision) => Start {
                revision,
                tree,
                is_stored: true,
                is_behind: false,
                trouble: start.trouble,
                before: None,
            },
            Err(trouble) => Start { tree, is_stored: false, ..start }.in_trouble(trouble.to_string()),
        };
        warn!(
            event = "config.rollback",
            revision = start.revision,
            back,
            "a commit was not confirmed in time: rolled back"
        );
    }
    start
}

impl Start {
    fn in_trouble(mut self, trouble: String) -> Self {
        self.trouble = Some(match self.trouble {
            Some(before) => format!("{trouble}; {before}"),
            None => trouble,
        });
        self
    }
}

/// Returns the newest usable revision; unusable revisions are named in `trouble`.
fn newest(model: &Model, revisions: &mut Revisions) -> Option<Start> {
    let mut trouble: Vec<String> = Vec::new();
    for number in revisions.numbers() {
        let read = revisions.read_to_run(number).map_err(|e| e.to_string());
        match read.and_then(|text| {
            model.schema.read(&format!("revision {number}"), &text).map_err(|e| e.without_line().to_string())
        }) {
            Ok(tree) => {
                let trouble = (!trouble.is_empty()).then(|| trouble.join("; "));
                return Some(Start {
                    tree,
                    revision: number,
                    is_stored: true,
                    is_behind: false,
                    trouble,
                    before: None,
                });
            }
            Err(reason) => trouble.push(reason),
        }
    }
    None
}

/// Handles a file edited by hand since the last look: makes a revision of the file, unless the text equals the newest
/// revision.
fn of_file(tree: Tree, text: &str, newest: Option<Start>, revisions: &mut Revisions, model: &Model) -> Start {
    let newest = match newest {
        Some(start) if start.tree == tree && start.trouble.is_none() => {
            let _ = revisions.is_copy(text, start.revision); // it is only read again next time
            return start;
        }
        other => other,
    };
    let comment = match newest {
        None => "the configuration file, at the first start",
        Some(_) => "the configuration file was changed by hand",
    };
    let before = newest.map(|start| start.revision);
    let start = stored_from(tree, text, comment, before.unwrap_or(0), revisions, model);
    Start { before: before.filter(|_| start.is_stored), ..start }
}

/// Handles an unusable newest revision whose copy is the file: makes a revision of the file, and reports the damage.
fn instead_of_damaged(
    path: &str,
    text: &str,
    older: Start,
    revisions: &mut Revisions,
    model: &Model,
) -> Start {
    let Ok(tree) = model.schema.read(path, text) else { return older };
    let comment = "the configuration file, a copy of the newest revision, which is damaged";
    let start = stored_from(tree, text, comment, older.revision, revisions, model);
    match older.trouble {
        Some(trouble) => start.in_trouble(trouble),
        None => start,
    }
}

/// Makes the contents of the file a revision.
fn stored_from(
    tree: Tree,
    text: &str,
    comment: &str,
    older: u64,
    revisions: &mut Revisions,
    model: &Model,
) -> Start {
    match write(revisions, model, &tree, comment, Via::File) {
        Ok(revision) => {
            let _ = revisions.is_copy(text, revision);
            Start { tree, revision, is_stored: true, is_behind: false, trouble: None, before: None }
        }
        // A router without space for what was committed is better than none: the file is the same at the next start.
        Err(trouble) => {
            revisions.has_read(text);
            Start {
                tree,
                revision: older,
                is_stored: false,
                is_behind: false,
                trouble: Some(trouble.to_string()),
                before: None,
            }
        }
    }
}

/// The revision to go back to, if the time to confirm the newest one is over.
fn overdue(revisions: &Revisions) -> Option<u64> {
    revisions.unconfirmed().filter(|u| u.until_unix_ms <= now_unix_ms()).map(|u| u.back_to)
}

/// No revision could be written at the start.
#[derive(Debug, Error)]
#[error(
    "no revision can be written in {}: {error}; free some space there, or name another folder with --state-dir",
    folder.display()
)]
struct NotStored {
    folder: PathBuf,
    error: io::Error,
}

fn write(
    revisions: &mut Revisions,
    model: &Model,
    tree: &Tree,
    comment: &str,
    via: Via,
) -> Result<u64, NotStored> {
    let (renderer, tree) = (model.schema.renderer(), tree.clone());
    let new =
        New { user: "sluice", comment, via, steps: None, whole: Box::new(move || renderer.text(&tree)) };
    let written = revisions.write(new, None);
    let _ = revisions.write_schema(model.schema_json()); // only a check before an upgrade asks for it
    written.map_err(|error| NotStored { folder: revisions.folder().into(), error })
}
