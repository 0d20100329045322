//! Texts to load: a file, or the files of a folder.

use crate::output::Failure;
use std::path::{Path, PathBuf};

/// The ending of the files of a folder that are loaded.
const ENDING: &str = "conf";
/// The most files of a folder.
const MOST_FILES: usize = 1000;
/// The most octets of all files together: half of a message, which has the names too.
const MOST_OCTETS: u64 = 8 << 20;

/// A text with its name in errors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// The name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Reads a file, or the files of a folder whose names end in `.conf`, in the order of their names. `-` is standard input.
pub fn read(name: &str) -> Result<Vec<Part>, Failure> {
    if name == "-" {
        let text = std::io::read_to_string(std::io::stdin()).map_err(|error| Failure::io(name, &error))?;
        return Ok(vec![Part { name: name.into(), text }]);
    }
    if !Path::new(name).is_dir() {
        return Ok(vec![read_file(Path::new(name))?]);
    }
    let files = files_of(Path::new(name)).map_err(|error| Failure::io(name, &error))?;
    if files.is_empty() {
        return Err(Failure::failed(format!(
            "{name}: the folder has no file whose name ends in `.{ENDING}`"
        )));
    }
    if files.len() > MOST_FILES {
        return Err(Failure::failed(format!(
            "{name}: the folder has {} files; at most {MOST_FILES} are loaded together",
            files.len()
        )));
    }
    let sizes = files.iter().map(|file| file.metadata().map_or(0, |about| about.len()));
    if sizes.sum::<u64>() > MOST_OCTETS {
        return Err(Failure::failed(format!(
            "{name}: the files of the folder have more than {} MiB together",
            MOST_OCTETS >> 20
        )));
    }
    files.iter().map(|file| read_file(file)).collect()
}

/// Returns the files of a folder, without those of its folders and without hidden ones.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && path.extension().is_some_and(|ending| ending == ENDING) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(file: &Path) -> Result<Part, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Failure::io(&name, &error))?;
    Ok(Part { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_come_in_the_order_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().to_str().unwrap();
        assert!(read(name).unwrap_err().message.contains("no file whose name ends in `.conf`"));
        for (file, text) in
            [("20-b.conf", "b"), ("10-a.conf", "a"), ("30.conf.bak", "x"), (".40.conf", "x"), ("notes", "x")]
        {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        std::fs::create_dir(folder.path().join("50.conf")).unwrap();
        let parts = read(name).unwrap();
        let texts: Vec<&str> = parts.iter().map(|part| &*part.text).collect();
        assert_eq!(texts, ["a", "b"]);
        assert!(parts[0].name.ends_with("/10-a.conf"));
        assert_eq!(read(&parts[1].name).unwrap(), parts[1..]);
        assert!(read(&format!("{name}/none")).is_err());
        std::fs::write(folder.path().join("big.conf"), vec![b'#'; MOST_OCTETS as usize]).unwrap();
        assert!(read(name).unwrap_err().message.contains("more than 8 MiB"));
    }

    #[test]
    fn files_of_a_folder_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=MOST_FILES {
            std::fs::write(folder.path().join(format!("{number}.conf")), "").unwrap();
        }
        let error = read(folder.path().to_str().unwrap()).unwrap_err().message;
        assert!(error.contains("1001 files; at most 1000"), "{error}");
    }
}
