//! The protobuf files of the router's interfaces: `idl/` and `components/*/idl`.

use anyhow::{Context, Result};
use protox::Compiler;
use protox::prost_reflect::prost_types::FileDescriptorSet;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The compiled interfaces of a tree.
pub struct Protos {
    /// The files by name.
    pub files: BTreeMap<String, PathBuf>,
    /// The descriptions, with comments.
    pub set: FileDescriptorSet,
}

impl Protos {
    /// Compiles all interfaces of a tree.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or compiled.
    pub fn compile(root: &Path) -> Result<Self> {
        let files = files(root)?;
        let folders: BTreeSet<&Path> = files.values().filter_map(|path| path.parent()).collect();
        let mut compiler = Compiler::new(folders)?;
        compiler.include_source_info(true).include_imports(true);
        compiler.open_files(files.keys())?;
        let set = compiler.file_descriptor_set();
        Ok(Protos { files, set })
    }
}

/// Returns the protobuf files by name.
fn files(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut folders = vec![root.join("idl")];
    folders.extend(components(root)?.into_iter().map(|folder| folder.join("idl")));
    folders.retain(|folder| folder.is_dir());
    let mut found = BTreeMap::new();
    for folder in folders {
        let files =
            entries(&folder)?.into_iter().filter(|file| file.extension() == Some(OsStr::new("proto")));
        found.extend(files.map(|file| (name(&file), file)));
    }
    Ok(found)
}

/// Returns the folders of the components, in the order of their names; none in a tree without components.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn components(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("components");
    if folder.is_dir() { entries(&folder) } else { Ok(Vec::new()) }
}

/// Returns the last part of a path.
pub fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the paths in a folder, in the order of their names.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}
