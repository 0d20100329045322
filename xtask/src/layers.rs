//! The layers of the house as data, checked against `cargo metadata`: each crate may use only certain layers.

use crate::metadata;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// A layer of the house. The order is the order of the table; [`MAY_USE`] has the allowed uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Layer {
    Base,
    Kit1,
    Kit2,
    Core,
    Platform,
    Process,
    Top,
    Test,
    /// Libraries of test programs around a core or a whole router.
    TestLab,
}

/// Folder prefixes to layers; the first that fits wins.
const LAYERS: [(&str, Layer); 21] = [
    ("base", Layer::Base),
    ("kits/wire", Layer::Kit1),
    ("kits/machine", Layer::Kit1),
    ("kits/mrt", Layer::Kit1),
    ("kits/capture", Layer::Kit1),
    ("kits/clients", Layer::Kit1),
    ("kits/", Layer::Kit2),
    ("platform/", Layer::Platform),
    ("testkit/", Layer::TestLab),
    ("testkit", Layer::Test),
    ("apps/", Layer::Top),
    ("tools/", Layer::Top),
    ("bench/", Layer::Top),
    ("fuzz", Layer::Top),
    ("xtask", Layer::Top),
    ("examples/", Layer::Top),
    ("sdk/", Layer::Top),
    ("components/manager/process", Layer::Process),
    ("components/manager/core", Layer::Core),
    ("components/", Layer::Core),
    ("", Layer::Top),
];

/// The layers of the workspace that each layer may use.
const MAY_USE: [(Layer, &[Layer]); 9] = [
    (Layer::Base, &[]),
    (Layer::Kit1, &[Layer::Base]),
    (Layer::Kit2, &[Layer::Base, Layer::Kit1]),
    (Layer::Core, &[Layer::Base, Layer::Kit1, Layer::Kit2]),
    (Layer::Platform, &[Layer::Base, Layer::Kit1, Layer::Platform]),
    (Layer::Process, &[Layer::Base, Layer::Kit1, Layer::Kit2, Layer::Platform]),
    (
        Layer::Top,
        &[
            Layer::Base,
            Layer::Kit1,
            Layer::Kit2,
            Layer::Core,
            Layer::Platform,
            Layer::Process,
            Layer::Top,
            Layer::Test,
        ],
    ),
    (Layer::Test, &[Layer::Base, Layer::Kit1, Layer::Kit2]),
    (
        Layer::TestLab,
        &[Layer::Base, Layer::Kit1, Layer::Kit2, Layer::Core, Layer::Top, Layer::Test, Layer::TestLab],
    ),
];

/// Layers whose crates must be `no_std`, so that impure code does not compile.
const NO_STD: [Layer; 4] = [Layer::Base, Layer::Kit1, Layer::Kit2, Layer::Core];

/// External crates forbidden in a pure layer.
const IMPURE: [&str; 8] = ["tokio", "nix", "libc", "socket2", "getrandom", "tracing", "rustix", "mio"];

fn layer_of(folder: &str) -> Layer {
    if folder.starts_with("components/") && folder.ends_with("/process") {
        return Layer::Process;
    }
    if folder.starts_with("components/") && folder.ends_with("/cli") {
        return Layer::Top;
    }
    LAYERS.iter().find(|(prefix, _)| folder.starts_with(prefix)).map_or(Layer::Top, |(_, layer)| *layer)
}

/// Returns true for a crate without processes: base, kits, cores, and crates for tests of cores.
pub fn is_pure(folder: &str) -> bool {
    matches!(layer_of(folder), Layer::Base | Layer::Kit1 | Layer::Kit2 | Layer::Core | Layer::Test)
}

/// Returns true for the crate of a process.
pub fn is_process(folder: &str) -> bool {
    layer_of(folder) == Layer::Process
}

/// Returns the broken rules, in words.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let packages = metadata::packages(root, &["--no-deps", "--offline"])?;
    let mut folders = BTreeMap::new();
    for package in &packages {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().unwrap_or(manifest).strip_prefix(root)?.display().to_string();
        folders.insert(package["name"].as_str().unwrap_or_default().to_string(), folder);
    }
    let mut found = Vec::new();
    for package in &packages {
        let folder = &folders[package["name"].as_str().unwrap_or_default()];
        let layer = layer_of(folder);
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            if kind == "normal" && layer <= Layer::Core && IMPURE.contains(&name) {
                found.push(format!("{folder}: {name} has no place in a pure layer; it belongs in a process"));
            }
            let Some(target) = folders.get(name) else { continue };
            if kind == "normal"
                && let Some(reason) = refusal(folder, layer, target)
            {
                found.push(format!("{folder} uses {target}: {reason}"));
            }
        }
        if NO_STD.contains(&layer) {
            let lib = std::fs::read_to_string(root.join(folder).join("src/lib.rs")).unwrap_or_default();
            if !lib.contains("#![no_std]") {
                found.push(format!("{folder}/src/lib.rs: a pure layer is `#![no_std]`"));
            }
        }
    }
    Ok(found)
}

fn refusal(folder: &str, layer: Layer, target: &str) -> Option<String> {
    let other = layer_of(target);
    if layer == Layer::Process && other == Layer::Core {
        let own = folder.strip_suffix("/process").unwrap_or(folder);
        return (!target.starts_with(own)).then(|| "a process knows its own core only; talk by XRL".into());
    }
    if layer == Layer::Core && other == Layer::Core {
        return Some("a core never knows another core".into());
    }
    // Benchmarks and fuzzing are tests of a kind; what people run is not.
    if other == Layer::Test && (folder.starts_with("apps/") || folder.starts_with("tools/")) {
        return Some("what only tests use is a dev-dependency".into());
    }
    let allowed = MAY_USE.iter().find(|(l, _)| *l == layer).map_or(&[][..], |(_, a)| a);
    (!allowed.contains(&other)).then(|| format!("layer {layer:?} may not use layer {other:?}"))
}
