//! A commit is stored: its revision is written on a thread that may block, as steps from the running configuration if
//! steps are shorter.

use crate::ManagerProcess;
use crate::commit::request::Request;
use crate::revisions::{New, Via, now_unix_ms};
use sluice_config::{Comparison, Secrets, Tree};
use std::io;
use thiserror::Error;
use tokio::task::JoinError;
use tracing::warn;

/// The fewest octets of steps for a single difference.
const SHORTEST_STEP: usize = 8;

/// The reason why a revision is not stored.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder or the file cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The thread that writes has ended.
    #[error(transparent)]
    Thread(#[from] JoinError),
    /// The running configuration has no revision, and still gets none.
    #[error(
        "what runs could not be stored at the start, and cannot be now, so that nothing could go back to it: {error}; free \
         some space in {folder}"
    )]
    Running {
        /// The folder of revisions.
        folder: String,
        /// The reason.
        error: Box<StoreError>,
    },
}

/// The revision to store when all components have prepared.
pub struct ToStore<'a> {
    /// The configuration, and the author of the commit.
    pub request: &'a Request,
    /// The differences from the running configuration.
    pub comparison: &'a Comparison,
    /// True if the change is decided for all elements: the confirmation, if one is needed, is the elements' too.
    pub is_shared: bool,
}

impl ManagerProcess {
    /// Writes the revision. The revision runs once written, and the configuration file follows.
    pub async fn store(&self, to_store: &ToStore<'_>) -> Result<(), StoreError> {
        let ToStore { request, comparison, is_shared } = to_store;
        let steps = self.steps_to(&request.after, comparison);
        let until = request.confirm_within.filter(|_| !is_shared).map(|within| {
            let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
            // Two in a row both go back to what was there for good.
            let open = self.revisions.borrow().unconfirmed();
            let back = open.map_or_else(|| self.running.borrow().revision, |open| open.back_to);
            (back, now_unix_ms().saturating_add(within))
        });
        let until = until.or_else(|| self.own_open(request));
        let new = New {
            user: &request.user,
            comment: &request.comment,
            via: request.via,
            steps,
            whole: self.whole(&request.after),
        };
        let revision = self.write_revision(new, until).await?;
        if until.is_none()
            && let Err(error) = self.revisions.borrow().confirm()
        {
            // It names a revision that is not the newest any more, and so means nothing.
            warn!(%error, "cannot remove the note of a commit that had to be confirmed");
        }
        {
            let mut running = self.running.borrow_mut();
            running.tree = request.after.clone();
            running.revision = revision;
            running.is_stored = true;
        }
        if let Some(candidate) = request.candidate {
            self.editing.committed(candidate, &request.after);
        }
        self.people.configure(&self.model(), &request.after);
        self.finder.review_people();
        self.degraded.committed();
        match request.of_file {
            // It is what was written by hand, and stays so.
            Some(_) => self.note_file(request, revision).await,
            None => self.copy_later(),
        }
        if let Some((_, until)) = until {
            self.confirm_until(revision, until);
        }
        Ok(())
    }

    /// Notes that the configuration file, if the request came from there, was read and equals a revision.
    pub(crate) async fn note_file(&self, request: &Request, revision: u64) {
        if let Some(text) = &request.of_file {
            // A copy that began before must not be written over it.
            self.copies.settled().await;
            let _ = self.revisions.borrow_mut().is_copy(text, revision); // it is only read again next time
        }
    }

    /// Writes a revision of the running configuration if the disk had no space for one at the start. Without the
    /// revision an unconfirmed commit would roll back to a different configuration.
    pub(crate) async fn store_what_runs(&self) -> Result<(), StoreError> {
        if self.running.borrow().is_stored {
            return Ok(());
        }
        let tree = self.running.borrow().tree.clone();
        let new = New {
            user: "sluice",
            comment: "what runs since the start, when it could not be stored",
            via: Via::File,
            steps: None,
            whole: self.whole(&tree),
        };
        let written = self.write_revision(new, None).await.map_err(|error| {
            let folder = self.revisions.borrow().folder().display().to_string();
            StoreError::Running { folder, error: Box::new(error) }
        });
        let revision = written?;
        let mut running = self.running.borrow_mut();
        running.revision = revision;
        running.is_stored = true;
        self.degraded.trouble.take();
        Ok(())
    }

    /// Returns the steps from the running configuration, if steps are short enough and lead to `after`.
    fn steps_to(&self, after: &Tree, comparison: &Comparison) -> Option<String> {
        let running = self.running.borrow();
        let room = self.revisions.borrow().room_for_steps(running.revision);
        if !running.is_stored || comparison.len().saturating_mul(SHORTEST_STEP) > room {
            return None;
        }
        let steps = comparison.text(Secrets::Shown);
        let leads_there = || self.model().schema.step(&running.tree, &steps).is_ok_and(|tree| tree == *after);
        (steps.len() <= room && leads_there()).then_some(steps)
    }

    fn whole(&self, tree: &Tree) -> Box<dyn FnOnce() -> String + Send> {
        let (renderer, tree) = (self.model().schema.renderer(), tree.clone());
        Box::new(move || renderer.text(&tree))
    }

    async fn write_revision(&self, new: New<'_>, until: Option<(u64, u64)>) -> Result<u64, StoreError> {
        let draft = self.revisions.borrow().draft(new, until);
        let written = tokio::task::spawn_blocking(move || draft.write()).await?;
        let mut revisions = self.revisions.borrow_mut();
        let number = revisions.written(written?);
        let _ = revisions.write_schema(self.model().schema_json()); // only a check before an upgrade asks for it
        Ok(number)
    }
}
