//! Commits that have to be confirmed: the confirmation, and the way back without one.

use super::editing::EditError;
use crate::ManagerProcess;
use crate::commit::refused::{NOTHING_WAITS, Refusal};
use crate::commit::request::{CommitRequest, Request, Source};
use crate::revisions::{Unconfirmed, Via, now_unix_ms};
use sluice_config::Tree;
use sluice_manager::confirmation::{Effect, Next, Origin};
use std::rc::Rc;
use std::time::Duration;
use tracing::{error, info, warn};

/// The pause before a failed rollback is tried again.
const AGAIN: Duration = Duration::from_secs(10);

impl ManagerProcess {
    /// Returns the effect of a commit on the waiting commit; `None` if no commit waits here.
    pub(super) fn effect_on_waiting(
        &self,
        request: &Request,
        changes: bool,
    ) -> Result<Option<Effect>, Refusal> {
        let Some(open) = self.revisions.borrow().unconfirmed() else {
            let is_alone = self.model().sharing(&self.running_tree()).is_none();
            return match request.confirms && changes && is_alone {
                true => Err(Refusal::Failed(NOTHING_WAITS.into())),
                false => Ok(None),
            };
        };
        let origin = match request.via {
            Via::Commit => Origin::Person,
            Via::File => Origin::File,
            Via::Rollback | Via::Shared => Origin::Router,
        };
        let next = Next {
            origin,
            changes,
            confirms: request.confirms,
            is_trial: request.confirm_within.is_some(),
            undoes: changes && self.is_revision(open.back_to, &request.after),
        };
        match next.effect() {
            Effect::Refused => Err(Refusal::Unconfirmed(self.waiting_in_words(&open))),
            effect => Ok(Some(effect)),
        }
    }

    /// Returns the reason why a commit of `after` would be refused that neither confirms the waiting commit nor waits with it; `None` if it
    /// would not be.
    pub(super) fn refusal_while_waiting(&self, after: &Tree, changes: bool) -> Option<String> {
        let open = self.revisions.borrow().unconfirmed()?;
        let undoes = changes && self.is_revision(open.back_to, after);
        let next = Next { origin: Origin::Person, changes, confirms: false, is_trial: false, undoes };
        (next.effect() == Effect::Refused).then(|| self.waiting_in_words(&open))
    }

    /// Returns true if a configuration equals a revision.
    fn is_revision(&self, number: u64, tree: &Tree) -> bool {
        let read = self.revisions.borrow().read(number);
        read.is_ok_and(|(_, text)| {
            self.model().schema.read("revision", &text).is_ok_and(|revision| revision == *tree)
        })
    }

    fn waiting_in_words(&self, open: &Unconfirmed) -> String {
        let user = self.revisions.borrow().about(open.revision).map(|about| about.user).unwrap_or_default();
        format!(
            "revision {} of {user} waits for its confirmation, {} s more; `commit confirm` confirms it together with your changes, \
             `commit confirmed MINUTES` lets both wait, and without a confirmation revision {} runs again",
            open.revision,
            open.until_unix_ms.saturating_sub(now_unix_ms()).div_ceil(1000),
            open.back_to
        )
    }

    /// Returns the time of the rollback of the waiting commit, in milliseconds of Unix time; 0 without a waiting commit.
    pub fn unconfirmed_until(&self) -> u64 {
        self.revisions.borrow().unconfirmed().map_or(0, |open| open.until_unix_ms)
    }

    /// The newest commit holds for good, if that was still open.
    pub(super) fn confirm(&self) {
        let revisions = self.revisions.borrow();
        let Some(unconfirmed) = revisions.unconfirmed() else { return };
        match revisions.confirm() {
            Ok(()) => info!(event = "config.confirmed", revision = unconfirmed.revision, "commit confirmed"),
            Err(error) => {
                error!(%error, "the commit cannot be confirmed, and is rolled back when its time is over")
            }
        }
    }

    /// Rolls back at the deadline, unless the commit is confirmed or a further commit arrives.
    pub(crate) fn confirm_until(&self, revision: u64, until_unix_ms: u64) {
        let Some(me) = self.me.upgrade() else { return };
        tokio::task::spawn_local(async move {
            loop {
                // By the clock on the wall, which may be set meanwhile; looked at often enough for that.
                let left = Duration::from_millis(until_unix_ms.saturating_sub(now_unix_ms()));
                let open = me.revisions.borrow().unconfirmed().filter(|u| u.revision == revision);
                let Some(open) = open else { return };
                if !left.is_zero() {
                    tokio::time::sleep(left.min(AGAIN)).await;
                    continue;
                }
                match me.take_back(open).await {
                    Ok(()) => return,
                    Err(_) if !me.is_unconfirmed(revision) => return, // somebody was quicker
                    Err(refusal) => {
                        let reason = refusal.to_string();
                        error!(
                            event = "config.rollback-failed",
                            revision, reason, "a commit was not confirmed in time and cannot be rolled back"
                        );
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        });
    }

    pub(super) fn is_unconfirmed(&self, revision: u64) -> bool {
        self.revisions.borrow().unconfirmed().is_some_and(|open| open.revision == revision)
    }

    async fn take_back(self: &Rc<Self>, open: Unconfirmed) -> Result<(), EditError> {
        let back = open.back_to;
        let request = CommitRequest {
            source: Source::Unconfirmed(open),
            comment: format!("not confirmed in time: back to revision {back}"),
            confirm_within: None,
            confirms: false,
        };
        let done = self.commit(request).await?;
        warn!(
            event = "config.rollback",
            revision = done.revision,
            back,
            "a commit was not confirmed in time: rolled back"
        );
        Ok(())
    }
}
