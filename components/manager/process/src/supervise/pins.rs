//! The bpffs on which the FEA pins XDP programs, maps and links. Mounting needs CAP_SYS_ADMIN, which the FEA lacks.
//!
//! The bpffs is mounted below a folder of the FEA's, and not on that folder: Landlock (landlock(7)) finds a right to a
//! mounted file in the folders above the mount point only.

use crate::supervise::kept_files;
use sluice_bpf::{BpfError, Pins};
use std::io;
use std::path::{Path, PathBuf};

/// The component that owns the bpffs.
pub const OWNER: &str = "fea";

/// The reason why the FEA has no bpffs.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// The kernel mounts no bpffs here.
    #[error(transparent)]
    Mount(#[from] BpfError),
    /// The bpffs cannot be given to the FEA's user.
    #[error("the bpffs cannot be given to the user of the FEA: {0}")]
    Owner(#[from] io::Error),
}

/// Returns the folder of the FEA's pins in a router's run-time folder.
pub fn folder(run_dir: &Path) -> PathBuf {
    run_dir.join("forwarding")
}

fn mount_point(run_dir: &Path) -> PathBuf {
    folder(run_dir).join("bpf")
}

/// Mounts the bpffs unless it is mounted, gives it to the FEA's user, and returns its folder.
///
/// # Errors
///
/// If the kernel refuses the mount, as without CAP_SYS_ADMIN.
pub fn mount(run_dir: &Path, user: Option<u32>) -> Result<PathBuf, PinsError> {
    let mount_point = mount_point(run_dir);
    Pins::mount(&mount_point)?;
    kept_files::make(&mount_point, user)?;
    Ok(mount_point)
}

/// Unmounts the bpffs of a stopped router if nothing is pinned there. Pinned programs go on forwarding.
pub fn unmount_if_empty(run_dir: &Path) {
    let mount_point = mount_point(run_dir);
    let is_empty = std::fs::read_dir(&mount_point).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        // Without a mount, or while another process uses it, the folder stays as it is.
        let _ = nix::mount::umount2(&mount_point, nix::mount::MntFlags::UMOUNT_NOFOLLOW);
    }
}
