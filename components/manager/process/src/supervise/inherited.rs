//! Descriptors inherited by the process.

use std::os::fd::RawFd;

/// Closes every inherited descriptor except standard input, output and error: the router needs no further descriptor,
/// and components would inherit leftovers too. Call before the process opens anything of its own.
pub fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // The one by which the folder was read is closed already.
        let _ = nix::unistd::close(fd);
    }
}
