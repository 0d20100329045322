//! Credentials of components: keys and certificates that an operator installs in the state folder. Only root reads the folder; the
//! manager hands the files to the component that they are for, and to its helpers.

use nix::unistd::{Gid, Uid, chown};
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most octets of a file.
const LONGEST: u64 = 1 << 20;

/// Returns the folder with the credentials of a component.
pub fn folder(state_dir: &Path, component: &str) -> PathBuf {
    state_dir.join("credentials").join(component)
}

/// The reason why a file of credentials is not handed out.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The name is no file's in the folder.
    #[error("`{0}` is no name of a file")]
    Name(String),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be handed to a helper.
    #[error("a copy of {name}: {source}")]
    Copy {
        /// The file.
        name: String,
        /// The reason.
        source: io::Error,
    },
}

/// Reads a file of a component's credentials.
///
/// # Errors
/// The file does not exist, or is longer than 1 MiB.
pub fn read(state_dir: &Path, component: &str, name: &str) -> Result<Vec<u8>, CredentialError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(CredentialError::Name(name.into()));
    }
    let path = folder(state_dir, component).join(name);
    let length = fs::metadata(&path).map(|about| about.len());
    let text = length.and_then(|length| match length {
        0..=LONGEST => fs::read(&path),
        _ => Err(io::Error::other("it is longer than 1 MiB")),
    });
    text.map_err(|source| CredentialError::Read { path, source })
}

/// Copies a component's credentials into a folder, for a user who alone reads the copies.
///
/// # Errors
/// A file does not exist, or a copy cannot be made.
pub fn copy(
    (state_dir, component): (&Path, &str),
    names: &[String],
    into: &Path,
    user: Option<u32>,
) -> Result<(), CredentialError> {
    for name in names {
        let text = read(state_dir, component, name)?;
        let placed = place(into, name, &text, user);
        placed.map_err(|source| CredentialError::Copy { name: name.clone(), source })?;
    }
    Ok(())
}

/// Puts a file into a folder, for a user who alone reads the file. A reader finds the file before or the new one, as a whole.
///
/// # Errors
/// The file cannot be written.
pub fn place(folder: &Path, name: &str, text: &[u8], user: Option<u32>) -> io::Result<()> {
    let new = folder.join(format!(".{name}.new"));
    // The folder is the user's: nothing that the user put there is followed or written.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o400).open(&new)?;
    io::Write::write_all(&mut file, text)?;
    if let Some(user) = user {
        std::os::unix::fs::fchown(&file, Some(user), Some(user))?;
    }
    fs::rename(&new, folder.join(name))
}

/// Makes a folder for a user who alone enters it, below a folder that the router's user owns.
///
/// # Errors
/// If the folder cannot be made or given to the user.
pub fn give(folder: &Path, user: Option<u32>) -> io::Result<()> {
    let (uid, gid) = (user.map(Uid::from_raw), user.map(Gid::from_raw));
    Ok(chown(folder, uid, gid)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_files_of_the_folder_are_handed_out() {
        let state = tempfile::tempdir().expect("a folder");
        let own = folder(state.path(), "cluster");
        fs::create_dir_all(&own).expect("a folder");
        fs::write(own.join("element.key"), "secret").expect("a file");
        fs::write(state.path().join("other"), "not for components").expect("a file");
        assert_eq!(read(state.path(), "cluster", "element.key").expect("read"), b"secret");
        for wrong in ["", ".", "..", "../../other", "/etc/shadow", "a/b", "missing", ".hidden"] {
            assert!(read(state.path(), "cluster", wrong).is_err(), "{wrong}");
        }
        fs::write(own.join("long"), vec![0; 1 + LONGEST as usize]).expect("a file");
        assert!(read(state.path(), "cluster", "long").is_err());
    }

    #[test]
    fn copies_replace_links_and_are_their_users_alone() {
        let state = tempfile::tempdir().expect("a folder");
        let own = folder(state.path(), "cluster");
        fs::create_dir_all(&own).expect("a folder");
        fs::write(own.join("element.key"), "secret").expect("a file");
        let into = state.path().join("helper");
        fs::create_dir(&into).expect("a folder");
        let victim = state.path().join("victim");
        fs::write(&victim, "as it was").expect("a file");
        std::os::unix::fs::symlink(&victim, into.join("element.key")).expect("a link");
        for _ in 0..2 {
            copy((state.path(), "cluster"), &["element.key".into()], &into, None).expect("copied");
        }
        assert_eq!(fs::read_to_string(&victim).expect("read"), "as it was");
        let about = fs::symlink_metadata(into.join("element.key")).expect("a file");
        assert!(about.is_file() && about.permissions().mode() & 0o777 == 0o400);
        let error =
            copy((state.path(), "cluster"), &["element.crt".into()], &into, None).expect_err("missing");
        assert!(error.to_string().contains("element.crt"), "{error}");
    }
}
