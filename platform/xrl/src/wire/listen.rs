//! Unix listening sockets at a path.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tokio::net::UnixListener;

/// Listens at `path`; the socket of an earlier life is replaced.
///
/// Every user may connect: components run as users of their own, and access is controlled by the secret or the key.
pub(crate) fn unix(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}
