//! Mounts below a lab's folder: a router that forwards by XDP leaves a bpffs with pinned programs there.

use nix::mount::{MntFlags, umount2};
use std::fs;
use std::path::{Path, PathBuf};

/// Unmounts all below `folder`. What cannot be unmounted stays; removing the folder reports it.
pub(crate) fn unmount_below(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut points: Vec<PathBuf> = mounts.lines().filter_map(mount_point).collect();
    points.retain(|point| point.starts_with(folder));
    // Inner mounts come later in the list.
    for point in points.iter().rev() {
        let _ = umount2(point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
    }
}

/// Returns the mount point of a line (proc_pid_mountinfo(5)): the fifth word, with octal escapes for spaces and others.
fn mount_point(line: &str) -> Option<PathBuf> {
    let word = line.split(' ').nth(4)?;
    let mut parts = word.split('\\');
    let mut path = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(3)?;
        path.push(char::from(u8::from_str_radix(digits, 8).ok()?));
        path.push_str(rest);
    }
    Some(path.into())
}

#[cfg(test)]
mod tests {
    use super::mount_point;
    use std::path::PathBuf;

    #[test]
    fn escaped_names() {
        let line = "36 35 98:0 / /run/a\\040b rw,noatime master:1 - bpf bpf rw";
        assert_eq!(mount_point(line), Some(PathBuf::from("/run/a b")));
        assert_eq!(mount_point("36 35 98:0 /"), None);
        assert_eq!(mount_point("36 35 98:0 / /run/a\\04"), None);
    }
}
