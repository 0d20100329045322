//! Which configuration the router starts with: the file, unless it is not valid; then what was committed last, and everybody is told.

use crate::configuration::{ConfigSource, Model, StartError};
use crate::revisions::{New, Revisions, Via, now_unix_ms};
use sluice_config::Tree;
use tracing::{error, info, warn};

/// What the router starts with.
pub struct Start {
    /// The configuration.
    pub tree: Tree,
    /// Its revision.
    pub revision: u64,
    /// Why it is not the one that the file says, if it is not.
    pub trouble: Option<String>,
}

/// Chooses. Fails only where there is nothing valid at all.
pub fn choose(source: &ConfigSource, model: &Model, revisions: &mut Revisions) -> Result<Start, StartError> {
    let path = source.file.display().to_string();
    let newest = newest(model, revisions);
    let file = std::fs::read_to_string(&source.file);
    let mut start = match (file, newest) {
        (Ok(text), Some(start)) if revisions.is_as_written(&text) => start,
        (Ok(text), newest) => match (model.schema.read(&path, &text), newest) {
            (Ok(tree), newest) => of_file(tree, &text, newest, revisions, model),
            (Err(error), Some(start)) => {
                start.in_trouble(format!("the configuration file is not valid: {}", error.without_line()))
            }
            (Err(error), None) => return Err(StartError::Config(Box::new(error))),
        },
        (Err(error), Some(start)) => {
            start.in_trouble(format!("cannot read the configuration {path}: {error}"))
        }
        (Err(source), None) => return Err(StartError::Read { path, source }),
    };
    if let Some(back) = overdue(revisions)
        && let Ok((_, text)) = revisions.read(back)
        && let Ok(tree) = model.schema.read("revision", &text)
    {
        let new = New { user: "sluice", comment: "not confirmed in time", via: Via::Rollback, text: &text };
        start = match write(revisions, model, new) {
            Ok(revision) => Start { revision, tree, trouble: start.trouble },
            Err(trouble) => Start { tree, ..start }.in_trouble(trouble),
        };
        warn!(
            event = "config.rollback",
            revision = start.revision,
            back,
            "a commit was not confirmed in time: rolled back"
        );
    }
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

impl Start {
    fn in_trouble(mut self, trouble: String) -> Self {
        self.trouble = Some(match self.trouble {
            Some(before) => format!("{trouble}; {before}"),
            None => trouble,
        });
        self
    }
}

/// The newest revision that can be used; those that cannot are the trouble.
fn newest(model: &Model, revisions: &Revisions) -> Option<Start> {
    let mut trouble: Vec<String> = Vec::new();
    for number in revisions.numbers() {
        let read = revisions.read(number).map_err(|e| e.to_string());
        match read.and_then(|(_, text)| {
            model.schema.read(&format!("revision {number}"), &text).map_err(|e| e.without_line().to_string())
        }) {
            Ok(tree) => {
                let trouble = (!trouble.is_empty()).then(|| trouble.join("; "));
                return Some(Start { tree, revision: number, trouble });
            }
            Err(reason) => trouble.push(reason),
        }
    }
    None
}

/// The file was written by hand since it was last looked at: it is a revision of its own, unless it says the same.
fn of_file(tree: Tree, text: &str, newest: Option<Start>, revisions: &mut Revisions, model: &Model) -> Start {
    let newest = match newest {
        Some(start) if start.tree == tree && start.trouble.is_none() => {
            let _ = revisions.is_copy(text); // it is only read again next time
            return start;
        }
        other => other,
    };
    let rendered = model.render(&tree);
    let comment = match newest {
        None => "the configuration file, at the first start",
        Some(_) => "the configuration file was changed by hand",
    };
    let new = New { user: "sluice", comment, via: Via::File, text: &rendered };
    match write(revisions, model, new) {
        Ok(revision) => {
            let _ = revisions.is_copy(text);
            Start { tree, revision, trouble: None }
        }
        // A router without space for what was committed is better than none: the file says the same at the next start.
        Err(trouble) => {
            Start { tree, revision: newest.map_or(0, |start| start.revision), trouble: Some(trouble) }
        }
    }
}

/// The revision to go back to, if the time to confirm the newest one is over.
fn overdue(revisions: &Revisions) -> Option<u64> {
    revisions.unconfirmed().filter(|u| u.until_unix_ms <= now_unix_ms()).map(|u| u.back_to)
}

fn write(revisions: &mut Revisions, model: &Model, new: New<'_>) -> Result<u64, String> {
    let written = revisions.write(new, None);
    let _ = revisions.write_schema(&model.schema_json()); // only a check before an upgrade asks for it
    written.map(|revision| revision.number).map_err(|error| {
        let folder = revisions.folder().display();
        format!("no revision can be written in {folder}: {error}; free some space there, or name another folder with --state-dir")
    })
}
