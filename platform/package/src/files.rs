//! The files of a package.

use crate::error::PackageFileError;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

/// The most files of a package.
pub const MOST_FILES: usize = 4096;
/// The most octets of a package, unpacked.
pub const MOST_OCTETS: u64 = 256 << 20;
/// The longest path in a package, in octets.
const LONGEST_PATH: usize = 255;
/// The most folders in each other.
const DEEPEST: usize = 8;
/// Folders made by tools beside a package's files.
const MADE_BY_TOOLS: [&str; 2] = ["target", "__pycache__"];

/// A file of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// The octets.
    pub octets: Vec<u8>,
    /// True if the file may be executed.
    pub is_program: bool,
}

/// The files of a package, sorted by path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    files: BTreeMap<String, File>,
    octets: u64,
}

impl Contents {
    /// Reads a package's folder. Hidden files, and the folders of compilers and interpreters (`target`, `__pycache__`), are
    /// not part of a package.
    ///
    /// # Errors
    /// A link or a special file, too many or too large files, a file that cannot be read.
    pub fn of_folder(folder: &Path) -> Result<Self, PackageFileError> {
        let mut contents = Contents::default();
        contents.read_below(folder, "")?;
        Ok(contents)
    }

    fn read_below(&mut self, folder: &Path, prefix: &str) -> Result<(), PackageFileError> {
        let entries = fs::read_dir(folder).map_err(PackageFileError::cannot("read", folder))?;
        for entry in entries {
            let entry = entry.map_err(PackageFileError::cannot("read", folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || MADE_BY_TOOLS.contains(&name.as_str()) {
                continue;
            }
            let (path, inside) = (entry.path(), format!("{prefix}{name}"));
            // Not followed: a link leads who knows where.
            let found = fs::symlink_metadata(&path).map_err(PackageFileError::cannot("read", &path))?;
            if found.is_dir() {
                check_path(&inside)?;
                self.read_below(&path, &format!("{inside}/"))?;
            } else if found.is_file() {
                self.has_room(found.len())?;
                let octets = fs::read(&path).map_err(PackageFileError::cannot("read", &path))?;
                let is_program = found.permissions().mode() & 0o111 != 0;
                self.add(inside, File { octets, is_program })?;
            } else {
                return Err(PackageFileError::Kind(inside));
            }
        }
        Ok(())
    }

    /// Returns an error if a further file of some octets would be too much.
    pub fn has_room(&self, octets: u64) -> Result<(), PackageFileError> {
        if self.files.len() >= MOST_FILES {
            return Err(PackageFileError::ManyFiles(MOST_FILES));
        }
        match self.octets.saturating_add(octets) > MOST_OCTETS {
            true => Err(PackageFileError::Large(MOST_OCTETS >> 20)),
            false => Ok(()),
        }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// The path leads out of the package or is there already, or there are too many or too large files.
    pub fn add(&mut self, path: String, file: File) -> Result<(), PackageFileError> {
        check_path(&path)?;
        let octets = file.octets.len() as u64;
        self.has_room(octets)?;
        if self.files.contains_key(&path) {
            return Err(PackageFileError::Twice(path));
        }
        self.octets += octets;
        self.files.insert(path, file);
        Ok(())
    }

    /// Returns a file.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// Returns a file's text; empty without the file.
    pub fn text(&self, path: &str) -> String {
        self.get(path).map(|file| String::from_utf8_lossy(&file.octets).into_owned()).unwrap_or_default()
    }

    /// Iterates over the files in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Takes a file out.
    pub fn remove(&mut self, path: &str) -> Option<File> {
        let file = self.files.remove(path)?;
        self.octets -= file.octets.len() as u64;
        Some(file)
    }

    /// Writes the files into a new folder. Programs get the mode 755, further files 644.
    pub fn write(&self, folder: &Path) -> Result<(), PackageFileError> {
        make(folder)?;
        for (inside, file) in self.iter() {
            let path = folder.join(inside);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(PackageFileError::cannot("make", parent))?;
            }
            fs::write(&path, &file.octets).map_err(PackageFileError::cannot("write", &path))?;
            let mode = fs::Permissions::from_mode(if file.is_program { 0o755 } else { 0o644 });
            fs::set_permissions(&path, mode).map_err(PackageFileError::cannot("write", &path))?;
            let written = fs::File::open(&path).and_then(|file| file.sync_all());
            written.map_err(PackageFileError::cannot("write", &path))?;
        }
        Ok(())
    }

    /// Returns the signed text: a line for each file with the hash, `x` for a program, and the path.
    pub fn sums(&self) -> String {
        let mut text = String::from("sluice package 1\n");
        for (path, file) in self.iter() {
            let hash = Sha256::digest(&file.octets);
            let hash: String = hash.iter().map(|octet| format!("{octet:02x}")).collect();
            let kind = if file.is_program { 'x' } else { '-' };
            text.push_str(&format!("{hash} {kind} {path}\n"));
        }
        text
    }
}

fn make(folder: &Path) -> Result<(), PackageFileError> {
    fs::create_dir_all(folder).map_err(PackageFileError::cannot("make", folder))?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder, mode).map_err(PackageFileError::cannot("make", folder))
}

/// Returns an error for a path leading out of a package, or left out when a folder is read.
pub(crate) fn check_path(path: &str) -> Result<(), PackageFileError> {
    let refused = || PackageFileError::Path(path.chars().take(LONGEST_PATH).collect());
    let components: Vec<_> = Path::new(path).components().collect();
    let is_plain = components.iter().all(|part| match part {
        Component::Normal(name) => name.to_str().is_some_and(|name| {
            !name.starts_with('.') && !MADE_BY_TOOLS.contains(&name) && !name.contains(char::is_control)
        }),
        _ => false,
    });
    // `a//b` and `a/` are read as `a/b` and `a`.
    let is_canonical =
        components.iter().map(|part| part.as_os_str().len() + 1).sum::<usize>() == path.len() + 1;
    let fits = !components.is_empty() && components.len() <= DEEPEST && path.len() <= LONGEST_PATH;
    if is_plain && is_canonical && fits { Ok(()) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_package() {
        for fine in ["package.toml", "lib/x.py", "a/b/c"] {
            assert!(check_path(fine).is_ok(), "{fine}");
        }
        let deep = "a/".repeat(9) + "b";
        let long = "a".repeat(256);
        for wrong in [
            "",
            "/etc/passwd",
            "../x",
            "a/../x",
            "./a",
            "a//b",
            "a/",
            ".hidden",
            "a\nb",
            "target/x",
            &deep,
            &long,
        ] {
            assert!(check_path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut contents = Contents::default();
        let file = |text: &str, is_program| File { octets: text.into(), is_program };
        contents.add("package.toml".into(), file("name = \"x\"", false)).expect("a file");
        contents.add("bin/x".into(), file("#!/bin/sh", true)).expect("a file");
        assert!(matches!(contents.add("bin/x".into(), file("", true)), Err(PackageFileError::Twice(_))));
        let path = folder.path().join("x");
        contents.write(&path).expect("written");
        fs::write(path.join(".hidden"), "").expect("written");
        let again = Contents::of_folder(&path).expect("read");
        assert_eq!(again, contents);
        assert_eq!(again.sums().lines().count(), 3);
        std::os::unix::fs::symlink("/etc/passwd", path.join("link")).expect("a link");
        assert!(matches!(Contents::of_folder(&path), Err(PackageFileError::Kind(_))));
    }

    #[test]
    fn a_package_has_bounds() {
        let mut contents = Contents::default();
        assert!(matches!(contents.has_room(MOST_OCTETS + 1), Err(PackageFileError::Large(_))));
        for number in 0..MOST_FILES {
            contents
                .add(format!("f{number}"), File { octets: Vec::new(), is_program: false })
                .expect("a file");
        }
        let more = contents.add("more".into(), File { octets: Vec::new(), is_program: false });
        assert!(matches!(more, Err(PackageFileError::ManyFiles(_))));
    }
}
