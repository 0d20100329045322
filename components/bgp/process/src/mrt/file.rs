//! A file of a trace. Calls may wait for the disk, so the event loop makes the calls on a thread for blocking work
//! ([`wait_for`]).

use sluice_bgp::mrt::{FileName, FileSettings, MrtFailure, StoredFile, TraceKind, surplus};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Returns the result of `work`, which may wait for the disk; the event loop goes on meanwhile.
///
/// # Errors
/// The error of `work`.
pub async fn wait_for<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, MrtFailure> + Send + 'static,
) -> Result<R, MrtFailure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(MrtFailure::Write(error.to_string())))
}

/// Returns the folder of a kind of trace, within the folder of the component's files.
pub fn folder(files: &Path, kind: TraceKind) -> PathBuf {
    files.join(kind.name())
}

/// An unfinished file.
pub struct TraceFile {
    folder: PathBuf,
    name: FileName,
    settings: FileSettings,
    file: File,
    octets: u64,
}

impl TraceFile {
    /// Makes a file, and the folder if missing.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(folder: PathBuf, name: FileName, settings: FileSettings) -> Result<Self, MrtFailure> {
        fs::create_dir_all(&folder).map_err(|error| MrtFailure::Folder(error.to_string()))?;
        let path = folder.join(name.part().to_string());
        let file = File::create(path).map_err(|error| MrtFailure::Create(error.to_string()))?;
        Ok(TraceFile { folder, name, settings, file, octets: 0 })
    }

    /// Makes a file without replacing a file: the name has the first second from `name` on without a file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create_next(
        folder: PathBuf,
        mut name: FileName,
        settings: FileSettings,
    ) -> Result<Self, MrtFailure> {
        let taken: Vec<u64> = stored(&folder, name.kind)?.iter().map(|file| file.name.time).collect();
        while taken.contains(&name.time) {
            name.time += 1;
        }
        TraceFile::create(folder, name, settings)
    }

    /// Writes records completely, or returns an error.
    ///
    /// # Errors
    /// If the system refuses, or the file would be too large.
    pub fn write(&mut self, records: &[u8]) -> Result<(), MrtFailure> {
        let octets = self.octets.saturating_add(records.len() as u64);
        if octets > self.settings.octets() {
            return Err(MrtFailure::TooLarge);
        }
        self.file.write_all(records).map_err(|error| MrtFailure::Write(error.to_string()))?;
        self.octets = octets;
        Ok(())
    }

    /// Removes incomplete records.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn cut(&mut self) -> Result<(), MrtFailure> {
        self.file.set_len(self.octets).map_err(|error| MrtFailure::Write(error.to_string()))
    }

    /// Returns true if so many more octets of records fit into the file.
    pub const fn has_room(&self, octets: usize) -> bool {
        self.octets.saturating_add(octets as u64) <= self.settings.octets()
    }

    /// Returns the name of the finished file.
    pub const fn name(&self) -> FileName {
        self.name
    }

    /// Returns the number of written octets.
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// Writes the file to the disk, and then renames the file to the final name.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn finish(self) -> Result<(), MrtFailure> {
        self.file.sync_data().map_err(|error| MrtFailure::Write(error.to_string()))?;
        let path = |name: FileName| self.folder.join(name.to_string());
        fs::rename(path(self.name.part()), path(self.name))
            .map_err(|error| MrtFailure::Rename(error.to_string()))
    }

    /// Removes the unfinished file.
    pub fn discard(self) {
        // What cannot be removed is removed before the next file is made.
        let _ = fs::remove_file(self.folder.join(self.name.part().to_string()));
    }
}

/// Returns the files of a kind in a folder; empty without the folder.
///
/// # Errors
/// If the folder cannot be read.
pub fn stored(folder: &Path, kind: TraceKind) -> Result<Vec<StoredFile>, MrtFailure> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| MrtFailure::Folder(error.to_string()))?,
    };
    let file = |entry: fs::DirEntry| {
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let name = FileName::read(kind, entry.file_name().to_str()?)?;
        Some(StoredFile { name, octets: about.len() })
    };
    Ok(entries.flatten().filter_map(file).collect())
}

/// Removes unfinished files of an earlier process.
///
/// # Errors
/// If the system refuses.
pub fn remove_parts(folder: &Path, kind: TraceKind) -> Result<(), MrtFailure> {
    let parts = stored(folder, kind)?.into_iter().map(|file| file.name).filter(|name| name.is_part);
    parts.into_iter().try_for_each(|name| remove(folder, name))
}

/// Renames unfinished files of an earlier process to final names: the messages were received, and readers stop at an incomplete
/// record.
///
/// # Errors
/// If the system refuses.
pub fn adopt_parts(folder: &Path, kind: TraceKind) -> Result<(), MrtFailure> {
    for part in stored(folder, kind)?.into_iter().filter(|file| file.name.is_part) {
        if part.octets == 0 {
            remove(folder, part.name)?;
        } else {
            let whole = FileName { is_part: false, ..part.name };
            fs::rename(folder.join(part.name.to_string()), folder.join(whole.to_string()))
                .map_err(|error| MrtFailure::Rename(error.to_string()))?;
        }
    }
    Ok(())
}

/// Removes whole files beyond the number and the size of the settings, oldest first.
///
/// # Errors
/// If the system refuses.
pub fn remove_surplus(folder: &Path, kind: TraceKind, settings: &FileSettings) -> Result<(), MrtFailure> {
    surplus(settings, stored(folder, kind)?).into_iter().try_for_each(|name| remove(folder, name))
}

fn remove(folder: &Path, name: FileName) -> Result<(), MrtFailure> {
    match fs::remove_file(folder.join(name.to_string())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(MrtFailure::Remove(error.to_string())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: TraceKind = TraceKind::Table;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("the folder is there");
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let files = tempfile::tempdir().expect("a folder");
        let folder = folder(files.path(), KIND);
        let settings = FileSettings { keep: 2, ..FileSettings::default() };
        for time in 1..=4 {
            let mut file =
                TraceFile::create(folder.clone(), FileName::new(KIND, time), settings).expect("made");
            file.write(b"records").expect("written");
            assert!(names(&folder).contains(&format!("rib.19700101.00000{time}.mrt.part")));
            file.finish().expect("whole");
            remove_surplus(&folder, KIND, &settings).expect("removed");
        }
        assert_eq!(names(&folder), ["rib.19700101.000003.mrt", "rib.19700101.000004.mrt"]);
        // Files of others stay, and so do folders with such names.
        fs::write(folder.join("notes"), "").expect("written");
        fs::create_dir(folder.join("rib.19700101.000001.mrt")).expect("made");
        fs::write(folder.join("rib.19700101.000009.mrt.part"), "torn").expect("written");
        remove_parts(&folder, KIND).expect("removed");
        remove_surplus(&folder, KIND, &FileSettings { keep: 1, ..settings }).expect("removed");
        assert_eq!(names(&folder), ["notes", "rib.19700101.000001.mrt", "rib.19700101.000004.mrt"]);
    }

    #[test]
    fn messages_of_a_process_that_was_ended_stay() {
        let files = tempfile::tempdir().expect("a folder");
        let (kind, settings) = (TraceKind::Updates, FileSettings::default());
        let folder = folder(files.path(), kind);
        let mut file = TraceFile::create(folder.clone(), FileName::new(kind, 1), settings).expect("made");
        file.write(b"a record").expect("written");
        drop(file);
        drop(TraceFile::create(folder.clone(), FileName::new(kind, 2), settings).expect("made"));
        adopt_parts(&folder, kind).expect("renamed");
        assert_eq!(names(&folder), ["updates.19700101.000001.mrt"]);
        // A later file has a name of its own.
        let file = TraceFile::create_next(folder.clone(), FileName::new(kind, 1), settings).expect("made");
        assert_eq!(file.name(), FileName::new(kind, 2));
    }

    #[test]
    fn a_file_has_no_more_than_its_size() {
        let files = tempfile::tempdir().expect("a folder");
        let settings = FileSettings { maximum_size: 1, ..FileSettings::default() };
        let folder = folder(files.path(), KIND);
        let mut file = TraceFile::create(folder.clone(), FileName::new(KIND, 1), settings).expect("made");
        file.write(&vec![0; 1 << 20]).expect("as many as fit");
        assert_eq!(file.write(&[0]), Err(MrtFailure::TooLarge));
        file.discard();
        assert!(names(&folder).is_empty());
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_an_error() {
        let files = tempfile::tempdir().expect("a folder");
        let folder = folder(files.path(), KIND);
        fs::write(&folder, "").expect("written");
        let made = TraceFile::create(folder.clone(), FileName::new(KIND, 1), FileSettings::default());
        assert!(matches!(made.map(|_| ()), Err(MrtFailure::Folder(_))));
        assert!(matches!(remove_parts(&folder, KIND), Err(MrtFailure::Folder(_))));
    }
}
