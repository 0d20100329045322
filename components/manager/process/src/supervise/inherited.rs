//! Descriptors of the process: the inherited descriptors, and the limit.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::os::fd::RawFd;

/// Raises the limit of descriptors to the host's limit: connections of strangers leave enough for components and operators. A
/// shell's limit of 1,024 is for programs with `select`.
pub fn permit_descriptors() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With the limit as it was the router runs too.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

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
