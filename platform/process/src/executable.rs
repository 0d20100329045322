//! The path of this process's executable.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What the kernel appends to the path of an executable whose file was removed or replaced (proc_pid_exe(5)).
const GONE: &[u8] = b" (deleted)";

/// Returns the path of this process's executable. After an update of the package another file has the path: that of the new version.
///
/// # Errors
/// The kernel does not name the path.
pub fn own_executable() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(if path.exists() { path } else { before_removal(path) })
}

/// Returns a path as it was before the file was removed.
fn before_removal(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(GONE) {
        Some(kept) => OsStr::from_bytes(kept).into(),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_keeps_its_path() {
        let path = |text: &str| PathBuf::from(text);
        assert_eq!(before_removal(path("/usr/bin/sluice (deleted)")), path("/usr/bin/sluice"));
        assert_eq!(before_removal(path("/usr/bin/sluice")), path("/usr/bin/sluice"));
        assert!(own_executable().is_ok_and(|own| own.exists()));
    }
}
