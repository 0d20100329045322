//! Descriptors that this process was started with.

use std::os::fd::RawFd;

/// Closes every descriptor that this process was started with but standard input, output and error: nothing in a router wants any, and
/// components would have them too. To be called before the process opens anything of its own.
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
