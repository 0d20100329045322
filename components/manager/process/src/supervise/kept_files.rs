//! Folders in which components keep files (`[files]` in `rights.toml`): one for each component, with a quota.

use crate::ManagerProcess;
use nix::unistd::{Gid, Uid, chown, geteuid};
use sluice_manager::Input;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use thiserror::Error;
use tracing::error;

/// The time between two measurements. A component can exceed its quota for so long.
const EVERY: Duration = Duration::from_secs(1);
/// The most files and folders of a component: measuring them must stay short.
const MOST_FILES: u32 = 4096;

/// Returns the folder of a component.
pub fn folder(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join("files").join(name)
}

/// Makes the folder of a component for its user.
///
/// # Errors
///
/// If the folder cannot be made or given to the user.
pub fn make(folder: &Path, user: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    let group = user.map(Gid::from_raw);
    Ok(chown(folder, Some(user.map_or_else(geteuid, Uid::from_raw)), group)?)
}

/// The content of a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Content {
    /// Occupied octets of the disk.
    octets: u64,
    /// Files and folders.
    files: u32,
}

impl Content {
    /// Measures a folder, and stops beyond the quota. A file that disappears meanwhile counts as empty.
    fn of(folder: &Path, quota: u64) -> Self {
        let mut content = Content::default();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let Ok(about) = entry.metadata() else { continue };
                content.octets += about.blocks() * 512;
                content.files += 1;
                if content.excess(quota).is_some() {
                    return content;
                }
                if about.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        content
    }

    /// Returns the exceeded bound in words.
    fn excess(&self, quota: u64) -> Option<String> {
        if self.octets > quota {
            Some(format!("its files have more than {} MiB", quota >> 20))
        } else if self.files > MOST_FILES {
            Some(format!("it has more than {MOST_FILES} files"))
        } else {
            None
        }
    }
}

/// Files beyond the quota of a component.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{excess}; it is started when some are removed from {}", folder.display())]
pub struct OverQuota {
    excess: String,
    folder: PathBuf,
}

impl ManagerProcess {
    /// Returns the excess of a component's files over the quota.
    pub(crate) fn over_quota(&self, name: &str) -> Option<OverQuota> {
        let quota = self.model().rights(name).files?.quota();
        let folder = folder(&self.options.source.state_dir, name);
        let excess = Content::of(&folder, quota).excess(quota)?;
        Some(OverQuota { excess, folder })
    }
}

/// Ends components whose files exceed their quota, for as long as the manager lives. The files stay, so that nothing of value is
/// lost, and a package's component is not started while they exceed the quota: each life would write further ones.
pub async fn watch(me: Rc<ManagerProcess>) {
    let mut times = tokio::time::interval(EVERY);
    times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        let running = me.driver.read(|manager| {
            // Also those that are not ready: a component that never gets so far writes too.
            let with_process = manager.components().filter(|component| component.phase.has_process());
            with_process.map(|component| component.spec.name.clone()).collect::<Vec<_>>()
        });
        for name in running {
            if let Some(OverQuota { excess: reason, .. }) = me.over_quota(&name) {
                error!(event = "files.quota", component = name, reason, "{reason}: it is ended");
                me.driver.input(Input::Killed(name.clone(), reason));
                me.processes.kill(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_measured_up_to_their_quota() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).expect("a folder");
        fs::write(inner.join("c"), vec![1; 300_000]).expect("a file");
        let content = Content::of(folder.path(), 1 << 20);
        assert_eq!(content.files, 3);
        assert!((300_000..400_000).contains(&content.octets), "{content:?}");
        assert_eq!(content.excess(1 << 20), None);
        fs::write(folder.path().join("d"), vec![1; 1 << 20]).expect("a file");
        let excess = Content::of(folder.path(), 1 << 20).excess(1 << 20);
        assert_eq!(excess.as_deref(), Some("its files have more than 1 MiB"));
        // A link is no way out of the folder.
        let other = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(folder.path(), other.path().join("link")).expect("a link");
        assert_eq!(Content::of(other.path(), 1 << 20).files, 1);
    }
}
