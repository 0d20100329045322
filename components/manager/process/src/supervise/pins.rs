//! The bpffs on which the FEA pins XDP programs, maps and links. Mounting needs CAP_SYS_ADMIN, which the FEA lacks.

use crate::supervise::kept_files;
use sluice_bpf::{BpfError, Pins};
use sluice_process::pins_mount;
use std::io;
use std::path::Path;

/// The component that owns the bpffs.
pub(crate) const OWNER: &str = "fea";

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

/// Mounts the bpffs unless it is mounted, and gives it to the FEA's user.
///
/// # Errors
///
/// If the kernel refuses the mount, as without CAP_SYS_ADMIN.
pub fn mount(run_dir: &Path, user: Option<u32>) -> Result<(), PinsError> {
    let mount_point = pins_mount(run_dir);
    Pins::mount(&mount_point)?;
    Ok(kept_files::make(&mount_point, user)?)
}

/// Unmounts the bpffs of a stopped router if nothing is pinned there. Pinned programs go on forwarding.
pub(crate) fn unmount_if_empty(run_dir: &Path) {
    let mount_point = pins_mount(run_dir);
    // The kernel puts files into each bpffs; pins are in folders.
    let is_folder = |entry: io::Result<std::fs::DirEntry>| entry.is_ok_and(|entry| entry.path().is_dir());
    let is_empty = std::fs::read_dir(&mount_point).is_ok_and(|mut entries| !entries.any(is_folder));
    if is_empty {
        // Without a mount, or while another process uses it, the folder stays as it is.
        let _ = nix::mount::umount2(&mount_point, nix::mount::MntFlags::UMOUNT_NOFOLLOW);
    }
}
