//! Writes a component into a copy of the files that the writer reads.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

use super::*;
use tempfile::TempDir;

/// A workspace with the files that get rows.
fn copy() -> TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let copy = TempDir::new().unwrap();
    for file in ["Cargo.toml", "Cargo.lock", "rustfmt.toml", MANIFEST, ROWS] {
        let to = copy.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(root.join(file), to).unwrap();
    }
    fs::create_dir_all(copy.path().join("components/bgp")).unwrap();
    copy
}

fn toml_of(path: PathBuf) -> toml::Table {
    toml::from_str(&read(&path).unwrap()).unwrap()
}

#[test]
fn writes_all_files_and_rows() {
    let copy = copy();
    let root = copy.path();
    write(root, "my-proto2", None).unwrap();
    let folder = root.join("components/my-proto2");
    for file in sluice_template::component(&Names::of("my-proto2").unwrap()) {
        let path = folder.join(file.path);
        let text = read(&path).unwrap();
        assert!(!text.contains('@'), "{}: a mark is left", path.display());
        if path.extension().unwrap() == "rs" {
            assert!(text.starts_with("//! "), "{}", path.display());
        }
    }
    let core = toml_of(folder.join("core/Cargo.toml"));
    assert_eq!(core["package"]["name"].as_str(), Some("sluice-my-proto2"));
    let process = toml_of(folder.join("process/Cargo.toml"));
    assert_eq!(process["package"]["name"].as_str(), Some("sluice-my-proto2-process"));
    assert_eq!(process["dependencies"]["sluice-my-proto2"]["path"].as_str(), Some("../core"));
    assert_eq!(toml_of(folder.join("rights.toml"))["class"].as_str(), Some("my-proto2"));
    let yang = read(&folder.join("my-proto2.yang")).unwrap();
    assert!(yang.starts_with("module sluice-my-proto2 {") && yang.contains("sluice:component \"my-proto2\""));
    assert!(read(&folder.join("core/src/lib.rs")).unwrap().contains("#![no_std]"));
    assert!(read(&folder.join("core/src/machine.rs")).unwrap().contains("pub struct MyProto2Machine"));

    let dependency = &toml_of(root.join(MANIFEST))["dependencies"]["sluice-my-proto2-process"];
    assert_eq!(dependency["path"].as_str(), Some("../../components/my-proto2/process"));
    let rows = read(&root.join(ROWS)).unwrap();
    assert_eq!(rows.matches("builtin!(\"my-proto2\", module)").count(), 1);
    assert_eq!(rows.matches("\"my-proto2\" => sluice_my_proto2_process::run(options),").count(), 1);
}

#[test]
fn rows_add_up() {
    let copy = copy();
    let root = copy.path();
    for name in ["aa", "zz", "mm"] {
        write(root, name, None).unwrap();
    }
    let manifest = read(&root.join(MANIFEST)).unwrap();
    let section = manifest.split("[dependencies]\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(section.lines().is_sorted(), "{section}");
    let rows = read(&root.join(ROWS)).unwrap();
    let table = rows.split("pub const BUILTINS").nth(1).unwrap().split("];").next().unwrap();
    assert_eq!(table.matches("builtin!(").count(), read_rows() + 3, "{table}");
}

/// The rows of the checkout's own table.
fn read_rows() -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let rows = read(&root.join(ROWS)).unwrap();
    rows.split("pub const BUILTINS").nth(1).unwrap().split("];").next().unwrap().matches("builtin!(").count()
}

#[test]
fn elsewhere_there_are_no_rows() {
    let (copy, other) = (copy(), TempDir::new().unwrap());
    let before = read(&copy.path().join(ROWS)).unwrap();
    write(copy.path(), "probe", Some(other.path())).unwrap();
    assert!(other.path().join("probe/process/src/lib.rs").exists());
    assert!(!copy.path().join("components/probe").exists());
    assert_eq!(read(&copy.path().join(ROWS)).unwrap(), before);
}

#[test]
fn refuses_bad_names_and_what_exists() {
    let copy = copy();
    let before = read(&copy.path().join(MANIFEST)).unwrap();
    let check = |name: &str, expected: &str| {
        let error = write(copy.path(), name, None).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    };
    check("Rip", "is not a name for a component");
    check("router", "means something else");
    check("base", "a crate `sluice-base` exists");
    check("bgp", "exists already");
    fs::remove_file(copy.path().join(ROWS)).unwrap();
    check("probe", "cannot read");
    fs::write(copy.path().join(ROWS), "//! Something else.\n").unwrap();
    check("probe", "by hand");
    assert_eq!(read(&copy.path().join(MANIFEST)).unwrap(), before);
    assert!(!copy.path().join("components/probe").exists());
}
