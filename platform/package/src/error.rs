//! The reasons for which a package's files are refused.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason for which a package's files are refused, or cannot be read or written.
#[derive(Debug, Error)]
pub enum PackageFileError {
    /// A file or a folder cannot be read or written.
    #[error("cannot {act} {}: {source}", path.display())]
    Io {
        /// The action.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Neither folder nor archive.
    #[error("{} is neither a folder nor an archive whose name ends in .tar.zst", .0.display())]
    Neither(PathBuf),
    /// The archive is damaged or cut off.
    #[error("the archive cannot be read: {0}")]
    Archive(String),
    /// An archive has more than one folder at its top.
    #[error("the archive has `{0}` beside the folder `{1}`; an archive has one folder, the package's")]
    TwoFolders(String, String),
    /// An archive without a file.
    #[error("there is no package.toml in it")]
    NoManifest,
    /// The manifest is not valid.
    #[error("{0}")]
    Manifest(String),
    /// A name leading out of the package, or a name without use in a package.
    #[error("`{0}` is no name of a file in a package")]
    Path(String),
    /// A link, a device, a socket.
    #[error("`{0}` is neither a file nor a folder; packages have no links and no special files")]
    Kind(String),
    /// Twice the same file.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// More files than a package may have.
    #[error("it has more than {0} files")]
    ManyFiles(usize),
    /// More octets than a package may have.
    #[error("it has more than {0} MiB")]
    Large(u64),
    /// A program for a different host.
    #[error("the program {program} cannot run here: {reason}")]
    Program {
        /// The program's path in the package.
        program: String,
        /// The cause.
        reason: String,
    },
    /// The signature is not of these files by the named key.
    #[error("the signature does not fit: {0}")]
    Signature(String),
    /// A key cannot be used.
    #[error("{}: {reason}", path.display())]
    Key {
        /// The key's file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The package is not there.
    #[error("there is no package `{name}` in {}", folder.display())]
    Unknown {
        /// The name asked for.
        name: String,
        /// The folder of packages.
        folder: PathBuf,
    },
}

impl PackageFileError {
    /// Returns a function that makes the error of an action on a file.
    pub fn cannot(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| PackageFileError::Io { act, path, source }
    }
}
