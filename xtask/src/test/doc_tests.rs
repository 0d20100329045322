//! Crates with doc tests: each crate without any would cost a run of rustdoc.

use crate::tidy;
use anyhow::Result;
use std::path::Path;

/// Words of a fence that leave a block a doc test (The rustdoc book, Documentation tests).
const RUNS: [&str; 6] = ["", "rust", "should_panic", "no_run", "compile_fail", "test_harness"];

/// Returns true if the comments of a file may hold a doc test. An indented block counts as code, as rustdoc reads it.
fn has_doc_test(text: &str) -> bool {
    let mut is_open = false;
    let mut is_after_blank = true;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#![doc = include_str!") || line.starts_with("#[doc = include_str!") {
            return true;
        }
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (is_open, is_after_blank) = (false, true);
            continue;
        };
        if let Some(words) = comment.trim_start().strip_prefix("```") {
            is_open = !is_open;
            if is_open
                && words.split([',', ' ']).all(|word| RUNS.contains(&word) || word.starts_with("edition"))
            {
                return true;
            }
        } else if !is_open && is_after_blank && comment.starts_with("     ") && !comment.trim().is_empty() {
            return true;
        }
        is_after_blank = comment.trim().is_empty();
    }
    false
}

/// Returns true if a source file below a package's `src` may hold a doc test.
pub fn has_any(folder: &Path) -> Result<bool> {
    let source = folder.join("src");
    if !source.is_dir() {
        return Ok(false);
    }
    let mut files = Vec::new();
    tidy::walk(folder, &source, &mut files)?;
    let rust = files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs"));
    Ok(rust
        .filter_map(|file| std::fs::read_to_string(folder.join(file)).ok())
        .any(|text| has_doc_test(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_of_rust_is_a_doc_test() {
        assert!(has_doc_test("//! Heap.\n//!\n//! ```\n//! let a = 1;\n//! ```\n"));
        assert!(has_doc_test("    /// ```rust,no_run\n    /// f();\n    /// ```\n"));
        assert!(has_doc_test("/// ```text\n/// a\n/// ```\n/// ```\n/// f();\n/// ```\n"));
        assert!(has_doc_test("/// Example:\n///\n///     f();\nfn f() {}\n"));
        assert!(has_doc_test("#![doc = include_str!(\"../README.md\")]\n"));
    }

    #[test]
    fn text_is_no_doc_test() {
        assert!(!has_doc_test("/// ```text\n/// a\n/// ```\n"));
        assert!(!has_doc_test("/// ```ignore\n/// a\n/// ```\n"));
        assert!(!has_doc_test("// ```\nfn f() {} // ```\n"));
        assert!(!has_doc_test("/// * an item that goes on\n///     on the next line\n"));
    }
}
