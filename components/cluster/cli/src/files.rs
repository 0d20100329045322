//! The files of a cluster's credentials in the state folder of a router.

use sluice_cluster_process::credentials::{AUTHORITIES, CERTIFICATE, Credentials, KEY};
use sluice_console::Failure;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The authority's key, in the authority's folder.
pub(crate) const AUTHORITY_KEY: &str = "ca.key";

/// The texts of an element's credentials.
pub struct Texts {
    /// The authorities' certificates.
    pub authorities: String,
    /// The element's certificate.
    pub certificate: String,
    /// The element's key.
    pub key: String,
}

/// Returns the folder of the authority. No component reads the folder.
pub fn authority(state_dir: &Path) -> PathBuf {
    state_dir.join("cluster-ca")
}

/// Returns the folder of the element's own credentials, for the component `cluster`.
pub fn credentials(state_dir: &Path) -> PathBuf {
    sluice_manager_process::credentials_folder(state_dir, "cluster")
}

/// Returns the failure of an access to a file.
pub fn failed(path: &Path, error: &io::Error) -> Failure {
    let hint = if error.kind() == io::ErrorKind::PermissionDenied { " (run it as root)" } else { "" };
    Failure { message: format!("{}: {error}{hint}", path.display()), ..Failure::io("", error) }
}

/// Makes a folder of mode 0700, and the folders above.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = folder.parent().map_or(Ok(()), std::fs::create_dir_all);
    let made = made.and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(folder));
    made.map_err(|error| failed(folder, &error))
}

/// Writes a file of mode 0600: the whole text in place of an older file, or nothing.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = || {
        // The mode holds for new files only.
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    written().map_err(|error| failed(path, &error))
}

/// Reads a text; `None` without the file.
pub fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

impl Texts {
    /// Returns the credentials, if valid now.
    pub fn check(&self) -> Result<Credentials, Failure> {
        Credentials::parse(self.authorities.as_bytes(), self.certificate.as_bytes(), self.key.as_bytes())
            .map_err(|error| Failure::failed(error.to_string()))
    }

    /// Writes the credentials to the folder of the element's own credentials, and returns the folder. A reader refuses the certificate of
    /// one call beside the key of another call.
    pub fn install(&self, state_dir: &Path) -> Result<PathBuf, Failure> {
        let folder = credentials(state_dir);
        make_folder(&folder)?;
        write_secret(&folder.join(AUTHORITIES), &self.authorities)?;
        write_secret(&folder.join(CERTIFICATE), &self.certificate)?;
        write_secret(&folder.join(KEY), &self.key)?;
        Ok(folder)
    }
}
