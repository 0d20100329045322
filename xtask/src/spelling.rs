//! American spelling, in code, documents and messages: one word, one spelling, and a search finds all of it.

use crate::tidy::walk;
use anyhow::Result;
use std::path::Path;

/// Parts of words as written in Britain, and in America.
const SPELLINGS: &[(&str, &str)] = &[
    ("analyse", "analyze"),
    ("artefact", "artifact"),
    ("authoris", "authoriz"),
    ("behaviour", "behavior"),
    ("catalogue", "catalog"),
    ("centre", "center"),
    ("colour", "color"),
    ("defence", "defense"),
    ("favour", "favor"),
    ("honour", "honor"),
    ("initialis", "initializ"),
    ("judgement", "judgment"),
    ("labell", "label"),
    ("learnt", "learned"),
    ("licence", "license"),
    ("maximis", "maximiz"),
    ("metre", "meter"),
    ("minimis", "minimiz"),
    ("modell", "model"),
    ("neighbour", "neighbor"),
    ("normalis", "normaliz"),
    ("optimisa", "optimiza"),
    ("optimise", "optimize"),
    ("organis", "organiz"),
    ("prioritis", "prioritiz"),
    ("recognis", "recogniz"),
    ("serialis", "serializ"),
    ("summaris", "summariz"),
    ("synchronis", "synchroniz"),
    ("travell", "travel"),
    ("utilis", "utiliz"),
    ("whilst", "while"),
];
/// The kinds of files with words.
const KINDS: [&str; 8] = ["conf", "in", "md", "proto", "py", "rs", "toml", "yang"];
/// This file has the words.
const HERE: &str = "xtask/src/spelling.rs";

/// Returns the words with another spelling, a line for each line of a file.
///
/// # Errors
///
/// A folder cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    let mut found = Vec::new();
    for file in files.iter().filter(|file| *file != Path::new(HERE)) {
        let kind = file.extension().unwrap_or_default().to_string_lossy();
        if !KINDS.contains(&&*kind) && !file.ends_with("Makefile") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        let lines = text.lines().enumerate();
        found.extend(lines.filter_map(|(index, line)| {
            let (british, american) = other_spelling(line)?;
            Some(format!("{}:{}: `{british}` is written `{american}`", file.display(), index + 1))
        }));
    }
    Ok(found)
}

/// Returns the first part of a word in a line that is spelled differently in America.
fn other_spelling(line: &str) -> Option<(&'static str, &'static str)> {
    let line = line.to_ascii_lowercase();
    SPELLINGS.iter().copied().find(|(british, _)| line.contains(british))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_words_are_found() {
        assert_eq!(other_spelling("let best_Neighbour = 1;"), Some(("neighbour", "neighbor")));
        assert_eq!(other_spelling("IFA_F_OPTIMISTIC, a neighbor, parameters, license"), None);
    }
}
