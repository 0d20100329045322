//! Whether `apps/sluice/layout.ld` still finds what it lays side by side: compilers name and inline functions as they like.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;

const LAYOUT: &str = "apps/sluice/layout.ld";
const EXECUTABLE: &str = "target/release/sluice";
/// Of so many lines one may find nothing, before the layout is no longer worth its name.
const STALE: usize = 4;

/// What is wrong, in words: lines that find nothing, if there are too many. All of them are told.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(LAYOUT))?;
    let octets = std::fs::read(root.join(EXECUTABLE))
        .with_context(|| format!("{EXECUTABLE}: build it first, with `cargo build --release -p sluice`"))?;
    let names = functions(&octets);
    ensure!(!names.is_empty(), "{EXECUTABLE} has no names of functions; build it without stripping them");
    let patterns: Vec<&str> = text.lines().filter_map(pattern).collect();
    let stale: Vec<&str> = patterns.iter().copied().filter(|p| !finds(p, &names)).collect();
    for pattern in &stale {
        println!("{LAYOUT}: {pattern} finds nothing");
    }
    println!("{} of {} lines find something", patterns.len() - stale.len(), patterns.len());
    let too_many = stale.len() * STALE > patterns.len();
    Ok(if too_many { vec![format!("{LAYOUT}: bring it up to date")] } else { Vec::new() })
}

/// The name in a line of the layout, with its wildcards.
fn pattern(line: &str) -> Option<&str> {
    line.trim().strip_prefix("*(.text.")?.strip_suffix(")")
}

/// The names of functions in an executable: its tables of names hold them one behind the other.
fn functions(octets: &[u8]) -> BTreeSet<&str> {
    let words = octets.split(|octet| *octet == 0).filter(|word| word.starts_with(b"_ZN"));
    words.filter_map(|word| std::str::from_utf8(word).ok()).collect()
}

fn finds(pattern: &str, names: &BTreeSet<&str>) -> bool {
    names.iter().any(|name| matches(pattern, name))
}

/// Whether a name is like a pattern, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("_ZN3a1b17h*", "_ZN3a1b17h0123E", true),
            ("_ZN3a1b17h*", "_ZN3a1c17h0123E", false),
            ("_ZN3a*5apply17h*", "_ZN3a14Shard$LT$P$GT$5apply17h01E", true),
            ("_ZN3a*5apply17h*", "_ZN3b14Shard$LT$P$GT$5apply17h01E", false),
            ("_ZN3a*", "_ZN3a", true),
            ("_ZN3a", "_ZN3ab", false),
            ("*17h*", "_ZN17h", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn lines_that_are_no_patterns_are_passed_over() {
        assert_eq!(pattern("    *(.text._ZN3a*)"), Some("_ZN3a*"));
        assert_eq!(pattern("    /* A comment. */"), None);
    }

    #[test]
    fn names_stand_between_zeros() {
        assert_eq!(functions(b"\0_ZN3a\0x\0_ZN3b\0"), BTreeSet::from(["_ZN3a", "_ZN3b"]));
    }
}
