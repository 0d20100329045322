//! Files written whole or not at all, also after a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces or creates the file at `path` with `octets`; the old file stays if writing fails. On return the file is on
/// the disk, with the permissions `mode` whatever the old permissions. A link stays a link: the target of the link is
/// replaced.
pub fn replace(path: &Path, octets: &[u8], mode: u32) -> io::Result<()> {
    replace_if(path, octets, mode, || true).map(drop)
}

/// Replaces the file like [`replace`] if `is_wanted` returns true just before the rename. Returns true if the file was
/// replaced.
pub(crate) fn replace_if(
    path: &Path,
    octets: &[u8],
    mode: u32,
    is_wanted: impl FnOnce() -> bool,
) -> io::Result<bool> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let new = Path::new(&new);
    let _leftover_of_a_crash = fs::remove_file(new);
    let written = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(new)
        .and_then(|mut file| file.write_all(octets).and_then(|()| file.sync_all()))
        .and_then(|()| if is_wanted() { fs::rename(new, &path).map(|()| true) } else { Ok(false) });
    if !matches!(written, Ok(true)) {
        // What there is of it takes space that is short.
        let _ = fs::remove_file(new);
        return written;
    }
    sync_folder_of(&path).map(|()| true)
}

/// Removes a file; none is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder_of(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
