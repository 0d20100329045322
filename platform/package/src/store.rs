//! The folder of a host in which packages are installed, each in a folder of the same name. A package comes, goes and is replaced
//! by a single rename: whenever the process ends, the package is there or not, never in part.

use crate::archive::{SUFFIX, unpack};
use crate::error::PackageFileError;
use crate::files::Contents;
use crate::program;
use crate::signature::{Signed, Trust};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use sha2::{Digest, Sha256};
use sluice_config::package::Manifest;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The folder in which a package waits before it is installed, and the replaced or removed one after that.
const ASIDE: &str = ".aside";
/// The longest archive, in octets.
const LONGEST_ARCHIVE: u64 = crate::files::MOST_OCTETS;

/// The folder of installed packages.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A package that waits to be installed.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The manifest.
    pub manifest: Manifest,
    /// The folder in which the package waits.
    pub folder: PathBuf,
    /// The meaning of the signature.
    pub signed: Signed,
    /// The hash of the files, in hexadecimal digits: consent is to a package with these files.
    pub digest: String,
}

/// Reads a package from a folder or an archive, without changing anything.
///
/// # Errors
/// The files are not those of a package; the reasons are those of [`PackageFileError`].
pub fn read(source: &Path, trust: &Trust) -> Result<(Manifest, Contents, Signed), PackageFileError> {
    let found = fs::metadata(source).map_err(PackageFileError::cannot("read", source))?;
    let (folder, contents) = if found.is_dir() {
        (None, Contents::of_folder(source)?)
    } else if source.to_string_lossy().ends_with(SUFFIX) {
        let file = fs::File::open(source).map_err(PackageFileError::cannot("read", source))?;
        let mut octets = Vec::new();
        let read = file.take(LONGEST_ARCHIVE).read_to_end(&mut octets);
        read.map_err(PackageFileError::cannot("read", source))?;
        let (folder, contents) = unpack(&octets)?;
        (Some(folder), contents)
    } else {
        return Err(PackageFileError::Neither(source.into()));
    };
    if contents.get("package.toml").is_none() {
        return Err(PackageFileError::NoManifest);
    }
    let manifest = Manifest::parse(&contents.text("package.toml"))
        .map_err(|error| PackageFileError::Manifest(error.to_string()))?;
    let is_plain = |name: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        name.chars().all(fits) && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() <= 64
    };
    if !is_plain(&manifest.name) {
        let text =
            "package.toml: a name has small letters, digits, - and _, at most 64, and begins with a letter";
        return Err(PackageFileError::Manifest(text.into()));
    }
    if let Some(folder) = folder.filter(|folder| *folder != manifest.name) {
        let text =
            format!("package.toml: its name is `{}`, the archive's folder is `{folder}`", manifest.name);
        return Err(PackageFileError::Manifest(text));
    }
    if let Some(path) = &manifest.executable {
        program::check(&contents, &path.to_string_lossy())?;
    }
    let signed = trust.check(&contents)?;
    Ok((manifest, contents, signed))
}

impl Store {
    /// Returns the store of a folder.
    pub fn new(folder: &Path) -> Self {
        Store { folder: folder.into() }
    }

    /// Returns the folder of an installed package.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.folder.join(ASIDE).join(name)
    }

    /// Removes packages left aside by an interrupted or a finished change.
    pub fn clean(&self) -> Result<(), PackageFileError> {
        let aside = self.folder.join(ASIDE);
        match fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PackageFileError::cannot("remove", &aside)(error))
            }
            _ => Ok(()),
        }
    }

    /// Reads a package from a folder or an archive and lays the package aside, to be installed.
    pub fn stage(&self, source: &Path, trust: &Trust) -> Result<Staged, PackageFileError> {
        let (manifest, contents, signed) = read(source, trust)?;
        self.clean()?;
        let folder = self.aside(&manifest.name);
        contents.write(&folder)?;
        let digest = Sha256::digest(contents.sums().as_bytes());
        let digest = digest.iter().map(|octet| format!("{octet:02x}")).collect();
        Ok(Staged { manifest, folder, signed, digest })
    }

    /// Installs a package laid aside. An installed package of the same name is laid aside in turn.
    pub fn put(&self, name: &str) -> Result<(), PackageFileError> {
        let (aside, path) = (self.aside(name), self.path(name));
        let flags = match path.exists() {
            true => RenameFlags::RENAME_EXCHANGE,
            false => RenameFlags::RENAME_NOREPLACE,
        };
        self.rename(&aside, &path, flags)
    }

    /// Lays an installed package aside.
    pub fn take(&self, name: &str) -> Result<(), PackageFileError> {
        let path = self.path(name);
        if name.starts_with('.') || name.contains('/') || !path.is_dir() {
            return Err(PackageFileError::Unknown { name: name.into(), folder: self.folder.clone() });
        }
        self.clean()?;
        let folder = self.folder.join(ASIDE);
        fs::create_dir_all(&folder).map_err(PackageFileError::cannot("make", &folder))?;
        self.rename(&path, &self.aside(name), RenameFlags::RENAME_NOREPLACE)
    }

    fn rename(&self, from: &Path, to: &Path, flags: RenameFlags) -> Result<(), PackageFileError> {
        let renamed = renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
        renamed.map_err(|error| PackageFileError::cannot("install", to)(error.into()))?;
        // The names are on the disk before any notification.
        let folder = fs::File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(PackageFileError::cannot("write", &self.folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::SecretKey;

    fn source(folder: &Path, version: &str) -> PathBuf {
        let path = folder.join("source");
        fs::create_dir_all(&path).expect("a folder");
        let manifest = format!("name = \"x\"\nversion = \"{version}\"\ndescription = \"X\"\n");
        fs::write(path.join("package.toml"), manifest).expect("written");
        path
    }

    fn version(store: &Store) -> Option<String> {
        let text = fs::read_to_string(store.path("x").join("package.toml")).ok()?;
        Some(Manifest::parse(&text).expect("valid").version)
    }

    #[test]
    fn a_package_comes_is_replaced_and_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::new(&folder.path().join("packages"));
        let trust = Trust::default();
        let first = store.stage(&source(folder.path(), "1"), &trust).expect("staged");
        assert_eq!((first.manifest.name.as_str(), version(&store)), ("x", None));
        assert_eq!(first.signed, Signed::Not);
        store.put("x").expect("installed");
        assert_eq!(version(&store).as_deref(), Some("1"));
        let second = store.stage(&source(folder.path(), "2"), &trust).expect("staged");
        assert_ne!(second.digest, first.digest);
        store.put("x").expect("replaced");
        assert_eq!(version(&store).as_deref(), Some("2"));
        // The one before is aside until nobody needs it: put again, it is back.
        store.put("x").expect("put back");
        assert_eq!(version(&store).as_deref(), Some("1"));
        store.clean().expect("cleaned");
        assert!(store.put("x").is_err(), "there is nothing aside");
        assert_eq!(version(&store).as_deref(), Some("1"));
        store.take("x").expect("removed");
        assert_eq!(version(&store), None);
        assert!(matches!(store.take("x"), Err(PackageFileError::Unknown { .. })));
        for name in ["..", ".aside", "a/b"] {
            assert!(store.take(name).is_err(), "{name}");
        }
    }

    #[test]
    fn archives_are_read_like_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = source(folder.path(), "1");
        let mut contents = Contents::of_folder(&path).expect("valid");
        SecretKey::new().expect("a key").sign(&mut contents).expect("signed");
        let archive = folder.path().join("x-1.tar.zst");
        fs::write(&archive, crate::archive::pack("x", &contents).expect("packed")).expect("written");
        let (manifest, again, signed) = read(&archive, &Trust::default()).expect("valid");
        assert_eq!((manifest.version.as_str(), again), ("1", contents.clone()));
        assert!(matches!(signed, Signed::ByStranger(_)));
        fs::write(&archive, crate::archive::pack("y", &contents).expect("packed")).expect("written");
        assert!(read(&archive, &Trust::default()).expect_err("another name").to_string().contains("`y`"));
        let other = folder.path().join("x.zip");
        fs::write(&other, "").expect("written");
        assert!(matches!(read(&other, &Trust::default()), Err(PackageFileError::Neither(_))));
        fs::write(path.join("package.toml"), "name = \"../x\"\nversion = \"1\"\ndescription = \"X\"\n")
            .expect("written");
        assert!(matches!(read(&path, &Trust::default()), Err(PackageFileError::Manifest(_))));
    }
}
