//! Dependencies: their sources and licenses.

use crate::metadata;
use anyhow::Result;
use std::path::Path;

/// Licenses that need no further review.
const ALLOWED: [&str; 14] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "CC0-1.0",
    "BSL-1.0",
    "MIT-0",
];

/// Returns the broken rules, in words.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for package in &metadata::packages(root, &["--locked"])? {
        let name = package["name"].as_str().unwrap_or_default();
        let license = package["license"].as_str().unwrap_or_default();
        let source = package["source"].as_str();
        if source.is_some_and(|s| !s.starts_with("registry+") && !s.starts_with("sparse+")) {
            found.push(format!("{name}: comes from {}, not from the registry", source.unwrap_or_default()));
        }
        if !is_allowed(license) {
            found.push(format!("{name}: license `{license}` is not on the list in xtask/src/licenses.rs"));
        }
    }
    Ok(found)
}

/// Returns true if a side of every choice in a license expression is allowed, and both sides of every conjunction.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], "").replace('/', " OR ");
    !expression.is_empty()
        && expression
            .split(" AND ")
            .all(|part| part.split(" OR ").any(|license| ALLOWED.contains(&license.trim())))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions() {
        assert!(is_allowed("MIT OR Apache-2.0"));
        assert!(is_allowed("MIT/GPL-3.0"));
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!is_allowed("GPL-3.0"));
        assert!(!is_allowed("MIT AND GPL-3.0"));
        assert!(!is_allowed(""));
    }
}
