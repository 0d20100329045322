//! Archives: a package's folder in a tar file, compressed with Zstandard (RFC 8878).

use crate::error::PackageFileError;
use crate::files::{Contents, File, MOST_OCTETS, check_path};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Read;
use tar::{Archive, Builder, EntryType, Header};

/// The end of an archive's name.
pub const SUFFIX: &str = ".tar.zst";

/// The octets of a tar file besides the files' own: headers and padding, for the most files of a package.
const OVERHEAD: u64 = 16 << 20;

/// Makes the archive of a package. The same files give the same octets: the archive has no times and no owners.
pub fn pack(name: &str, contents: &Contents) -> Result<Vec<u8>, PackageFileError> {
    let failed = |error: std::io::Error| PackageFileError::Archive(error.to_string());
    let mut tar = Builder::new(Vec::new());
    for (path, file) in contents.iter() {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(if file.is_program { 0o755 } else { 0o644 });
        header.set_size(file.octets.len() as u64);
        tar.append_data(&mut header, format!("{name}/{path}"), file.octets.as_slice()).map_err(failed)?;
    }
    let tar = tar.into_inner().map_err(failed)?;
    Ok(compress_to_vec(tar.as_slice(), CompressionLevel::Fastest))
}

/// Reads an archive: the name of its folder, and the files.
///
/// # Errors
/// A damaged archive; links, special files, and paths leading elsewhere; more or larger files than a package may have. No more
/// than the most octets of a package are unpacked.
pub fn unpack(archive: &[u8]) -> Result<(String, Contents), PackageFileError> {
    let damaged = |error: std::io::Error| PackageFileError::Archive(error.to_string());
    let decoder =
        StreamingDecoder::new(archive).map_err(|error| PackageFileError::Archive(error.to_string()))?;
    let mut tar = Archive::new(decoder.take(MOST_OCTETS + OVERHEAD));
    let mut contents = Contents::default();
    let mut folder: Option<String> = None;
    for entry in tar.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path_bytes();
        let path = str::from_utf8(&path)
            .map_err(|_| PackageFileError::Path(String::from_utf8_lossy(&path).into()))?;
        let (top, inside) = path.split_once('/').unwrap_or((path, ""));
        check_path(top)?;
        let (top, inside) = (top.to_owned(), inside.to_owned());
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Directory => {}
            _ => return Err(PackageFileError::Kind(path.to_owned())),
        }
        match &folder {
            Some(folder) if *folder != top => return Err(PackageFileError::TwoFolders(top, folder.clone())),
            Some(_) => {}
            None => folder = Some(top.clone()),
        }
        if entry.header().entry_type() == EntryType::Directory {
            contents.has_room(0)?;
            continue;
        }
        contents.has_room(entry.size())?;
        let mode = entry.header().mode().map_err(damaged)?;
        let mut octets = Vec::new();
        entry.read_to_end(&mut octets).map_err(damaged)?;
        contents.add(inside, File { octets, is_program: mode & 0o111 != 0 })?;
    }
    let folder = folder.ok_or(PackageFileError::NoManifest)?;
    Ok((folder, contents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contents(files: &[(&str, &[u8], bool)]) -> Contents {
        let mut contents = Contents::default();
        for (path, octets, is_program) in files {
            let file = File { octets: octets.to_vec(), is_program: *is_program };
            contents.add((*path).into(), file).expect("a file");
        }
        contents
    }

    fn raw(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (kind, path, octets) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_size(octets.len() as u64);
            // As a hostile writer does: the library's own setters refuse such paths.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            tar.append(&header, *octets).expect("in memory");
        }
        compress_to_vec(tar.into_inner().expect("in memory").as_slice(), CompressionLevel::Fastest)
    }

    #[test]
    fn an_archive_is_read_as_it_was_written() {
        let files = contents(&[("package.toml", b"name = \"x\"", false), ("bin/x", &[7; 5000], true)]);
        let archive = pack("x", &files).expect("an archive");
        assert_eq!(unpack(&archive).expect("valid"), ("x".to_owned(), files.clone()));
        assert_eq!(archive, pack("x", &files).expect("an archive"), "the same octets each time");
        for length in [0, 1, 10, archive.len() / 2, archive.len() - 20] {
            assert!(unpack(&archive[..length]).is_err(), "cut off after {length}");
        }
    }

    #[test]
    fn hostile_archives_are_refused() {
        let refused =
            |entries: &[(EntryType, &str, &[u8])]| unpack(&raw(entries)).expect_err("hostile").to_string();
        assert!(refused(&[(EntryType::Regular, "x/../../etc/passwd", b"")]).contains("no name"));
        assert!(refused(&[(EntryType::Regular, "/etc/passwd", b"")]).contains("no name"));
        assert!(refused(&[(EntryType::Symlink, "x/a", b"")]).contains("links"));
        assert!(refused(&[(EntryType::Link, "x/a", b"")]).contains("links"));
        assert!(refused(&[(EntryType::Char, "x/a", b"")]).contains("links"));
        assert!(
            refused(&[(EntryType::Regular, "x/a", b""), (EntryType::Regular, "y/a", b"")])
                .contains("one folder")
        );
        assert!(
            refused(&[(EntryType::Regular, "x/a", b"1"), (EntryType::Regular, "x/a", b"2")])
                .contains("twice")
        );
        assert!(refused(&[]).contains("package.toml"));
        assert!(unpack(b"no archive").is_err());
    }

    #[test]
    fn a_bomb_is_given_up() {
        // A header that promises more than packages may have.
        let mut header = Header::new_gnu();
        header.set_path("x/zeros").expect("a path");
        header.set_size(MOST_OCTETS + 1);
        header.set_cksum();
        let mut tar = header.as_bytes().to_vec();
        tar.extend(vec![0; 1 << 20]);
        let archive = compress_to_vec(tar.as_slice(), CompressionLevel::Fastest);
        assert!(archive.len() < 1 << 17, "{}", archive.len());
        assert!(matches!(unpack(&archive), Err(PackageFileError::Large(_))));
        // Many small files.
        let names: Vec<String> = (0..5000).map(|number| format!("x/{number}")).collect();
        let entries: Vec<_> =
            names.iter().map(|name| (EntryType::Regular, name.as_str(), &b""[..])).collect();
        assert!(matches!(unpack(&raw(&entries)), Err(PackageFileError::ManyFiles(_))));
    }

    proptest! {
        #[test]
        fn damaged_archives_never_panic(damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
            let files = contents(&[("package.toml", b"name = \"x\"", false), ("bin/x", &[7; 3000], true)]);
            let mut archive = pack("x", &files).expect("an archive");
            let length = archive.len();
            for (place, octet) in damage {
                archive[usize::from(place) % length] = octet;
            }
            let _ = unpack(&archive);
        }

        #[test]
        fn octets_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = unpack(&octets);
            let framed = compress_to_vec(octets.as_slice(), CompressionLevel::Fastest);
            let _ = unpack(&framed);
        }
    }
}
