//! Lists the methods of the services in `idl/` and `components/*/idl`, with their generated decoders.

use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    if let Err(error) = generate() {
        panic!("the list of XRL methods: {error}");
    }
}

fn generate() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..");
    println!("cargo::rerun-if-changed={}", root.join("components").display());
    // Folders with interfaces, and the crate whose module `idl` has the decoders.
    let mut folders = vec![(root.join("idl"), "sluice_xrl".to_owned())];
    for component in entries(&root.join("components"))? {
        let name = component.file_name().unwrap_or_default().to_string_lossy();
        let crate_name = format!("sluice_{}_process", name.replace('-', "_"));
        folders.push((component.join("idl"), crate_name));
    }
    folders.retain(|(folder, _)| folder.is_dir());
    let mut files = Vec::new();
    for (folder, crate_name) in &folders {
        println!("cargo::rerun-if-changed={}", folder.display());
        for file in entries(folder)?.into_iter().filter(|f| f.extension().is_some_and(|e| e == "proto")) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, crate_name.as_str()));
        }
    }
    let includes = folders.iter().map(|(folder, _)| folder);
    let set = protox::compile(files.iter().map(|(name, _)| name), includes)?;
    let pool = DescriptorPool::from_file_descriptor_set(set)?;
    let methods = pool.services().flat_map(|s| s.methods().collect::<Vec<MethodDescriptor>>());
    let mut rows = String::from("[\n");
    for method in methods {
        let (request, reply) = (rust_path(&method.input(), &files)?, rust_path(&method.output(), &files)?);
        let path = format!("{}/{}", method.parent_service().full_name(), method.name());
        writeln!(
            rows,
            "    Method {{ path: {path:?}, request: body::<{request}>, reply: body::<{reply}> }},"
        )?;
    }
    rows.push_str("]\n");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("methods.rs"), rows)?;
    Ok(fs::write(out.join("descriptors.bin"), pool.encode_to_vec())?)
}

/// Returns the paths in `folder`, sorted.
fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns the generated Rust type of a message.
fn rust_path(
    message: &MessageDescriptor,
    files: &[(String, &str)],
) -> Result<String, Box<dyn std::error::Error>> {
    let file = message.parent_file();
    let known = files.iter().find(|(name, _)| name == file.name());
    let (_, crate_name) = known.ok_or_else(|| format!("{} is of no folder", message.full_name()))?;
    if message.parent_message().is_some() {
        return Err(format!("{} is nested in another message", message.full_name()).into());
    }
    let package = message.package_name().replace('.', "::");
    Ok(format!("{crate_name}::idl::{package}::{}", message.name()))
}
