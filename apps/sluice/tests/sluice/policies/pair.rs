//! Pairs: a policy in the words of another daemon, and in ours.

use std::path::Path;

/// The line between both halves of a file.
const SEPARATOR: &str = "---- Sluice ----\n";

/// A policy in both languages.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The name of the policy, and of the file.
    pub name: String,
    /// The other daemon's configuration.
    pub theirs: String,
    /// Statements of our subtree `policy`.
    pub ours: String,
}

impl Pair {
    /// Reads the pairs in a folder, in the order of their names.
    pub fn read_all(folder: &str) -> Vec<Pair> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sluice/policies").join(folder);
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let mut pairs: Vec<Pair> = entries.map(|path| Pair::read(&path)).collect();
        pairs.sort_by(|a, b| a.name.cmp(&b.name));
        pairs
    }

    fn read(path: &Path) -> Pair {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let (theirs, ours) =
            text.split_once(SEPARATOR).unwrap_or_else(|| panic!("{name}: no line `{}`", SEPARATOR.trim()));
        let own = format!("policy-statement {name} {{");
        assert!(ours.contains(&own), "{name}: the policy must have the file's name: `{own}`");
        Pair { theirs: theirs.to_owned(), ours: ours.to_owned(), name }
    }

    /// The name in the words of BIRD, whose names have no hyphens.
    pub fn symbol(&self) -> String {
        self.name.replace('-', "_")
    }
}
