//! The configuration file follows the running configuration in the background: neither the author of a commit nor the
//! manager waits for a copy. While a copy is written the next copy waits, and a newer copy takes the place of a waiting
//! copy.

use crate::ManagerProcess;
use crate::revisions::Copied;
use sluice_config::Tree;
use std::cell::{Cell, RefCell};
use std::io;
use tokio::sync::Notify;
use tracing::warn;

/// Copies on their way to the file.
#[derive(Default)]
pub struct Copies {
    waiting: RefCell<Option<Copy>>,
    is_writing: Cell<bool>,
    written: Notify,
}

/// The wanted contents of the file.
struct Copy {
    tree: Tree,
    revision: u64,
}

impl Copies {
    /// Returns true while a copy is being written.
    pub fn is_writing(&self) -> bool {
        self.is_writing.get()
    }

    /// Waits until no copy is being written.
    pub async fn settled(&self) {
        loop {
            let written = self.written.notified();
            if !self.is_writing.get() {
                return;
            }
            written.await;
        }
    }
}

impl ManagerProcess {
    /// Has the configuration file say what runs, soon.
    pub(crate) fn copy_later(&self) {
        let Some(me) = self.me.upgrade() else { return };
        let copy = {
            let running = self.running.borrow();
            Copy { tree: running.tree.clone(), revision: running.revision }
        };
        self.copies.waiting.replace(Some(copy));
        if self.copies.is_writing.replace(true) {
            return;
        }
        tokio::task::spawn_local(async move {
            while let Some(copy) = me.copies.waiting.take() {
                me.write_copy(copy).await;
            }
            me.copies.is_writing.set(false);
            me.copies.written.notify_waiters();
        });
    }

    async fn write_copy(&self, Copy { tree, revision }: Copy) {
        let path = &self.options.source.file;
        let file = self.revisions.borrow().configuration_file(path);
        let renderer = self.model().schema.renderer();
        let write = move || {
            let mut kept = file.kept_comments();
            let copied = file.write(|before| renderer.text_like(&tree, before, &mut kept), revision)?;
            if copied == Copied::Written {
                file.keep_comments(&kept)?;
            }
            Ok(copied)
        };
        let copied = tokio::task::spawn_blocking(write).await.map_err(io::Error::other).flatten();
        let shown = path.display();
        match copied {
            Ok(Copied::Written) => self.revisions.borrow_mut().is_copied(),
            Ok(Copied::ByHand) => warn!(
                event = "config.changed-by-hand",
                revision,
                "{shown} was changed by hand and not read since: it stays so, and does not say what runs. Revision {revision} runs; \
                 a start or a SIGHUP takes the contents of the file instead, and without the file the next commit writes it anew"
            ),
            Err(error) => warn!(
                event = "config.copy", %error,
                "cannot write {shown}; revision {revision} runs, and will run after a start"
            ),
        }
    }
}
