//! Commits that have to be confirmed: the confirmation, and the way back without one.

use crate::ManagerProcess;
use crate::commit::transaction::{CommitRequest, Source};
use crate::configure::editors::EditError;
use crate::revisions::{Unconfirmed, now_unix_ms};
use std::rc::Rc;
use std::time::Duration;
use tracing::{error, info, warn};

/// The pause before a failed rollback is tried again.
const AGAIN: Duration = Duration::from_secs(10);

impl ManagerProcess {
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
    pub fn confirm_until(&self, revision: u64, until_unix_ms: u64) {
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
