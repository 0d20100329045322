//! The paths that a file names, and the modules that they lead to.

use super::Module;
use std::collections::{BTreeMap, BTreeSet};

/// The paths named by a module's file, from the crate on.
pub struct Names {
    paths: BTreeSet<Module>,
    /// What imported names stand for.
    imports: BTreeMap<String, Module>,
}

impl Names {
    /// Reads a file of `module`, without comments and tests.
    pub fn of(text: &str, module: &Module, modules: &BTreeSet<Module>) -> Self {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = lines.collect::<Vec<_>>().join("\n");
        let mut names = Names { paths: BTreeSet::new(), imports: BTreeMap::new() };
        for (at, _) in code.match_indices("::") {
            let begin = word_before(&code, at);
            let first = &code[begin..at];
            // The rest of a path was read with its beginning.
            if first.is_empty() || code[..begin].ends_with("::") {
                continue;
            }
            let is_use = is_import(&code[..begin]);
            let start = match first {
                "crate" => Vec::new(),
                "self" => module.clone(),
                "super" => module[..module.len().saturating_sub(1)].to_vec(),
                child if modules.contains(&joined(module, child)) => joined(module, child),
                _ => continue,
            };
            names.tree(&code[at + 2..], start, is_use);
        }
        names
    }

    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = &Module> {
        self.paths.iter()
    }

    /// Adds the paths of a tree behind `start`; returns the number of its octets.
    fn tree(&mut self, text: &str, start: Module, is_use: bool) -> usize {
        if let Some(list) = text.strip_prefix('{') {
            let mut at = 0;
            loop {
                at += list[at..].len() - list[at..].trim_start().len();
                match list[at..].chars().next() {
                    None => return text.len(),
                    Some('}') => return at + 2,
                    Some(',') => at += 1,
                    Some(_) => at += self.tree(&list[at..], start.clone(), is_use).max(1),
                }
            }
        }
        let name = &text[..word(text)];
        let end = name.len();
        let path = match name {
            "super" => start[..start.len().saturating_sub(1)].to_vec(),
            "self" | "" => start,
            name => joined(&start, name),
        };
        if let Some(rest) = text[end..].strip_prefix("::") {
            return end + 2 + self.tree(rest, path, is_use);
        }
        if is_use && let Some(last) = path.last() {
            let renamed = text[end..].trim_start().strip_prefix("as ").map(|rest| &rest[..word(rest)]);
            self.imports.insert(renamed.unwrap_or(last).to_owned(), path.clone());
        }
        self.paths.insert(path);
        end
    }
}

/// Returns the module that a path leads to: imported names on the way stand for what they import.
pub fn resolve(path: &Module, modules: &BTreeSet<Module>, names: &BTreeMap<&Module, Names>) -> Module {
    let mut path = path.clone();
    // Imports of imports end; the bound is for those of a circle.
    for _ in 0..8 {
        let depth = (0..=path.len()).rev().find(|depth| modules.contains(&path[..*depth])).unwrap_or(0);
        let (module, rest) = (path[..depth].to_vec(), path[depth..].to_vec());
        let imported = rest.first().and_then(|name| names.get(&module)?.imports.get(name));
        match imported {
            Some(target) if *target != path => path = target.iter().chain(&rest[1..]).cloned().collect(),
            _ => return module,
        }
    }
    path
}

fn joined(module: &[String], name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// Returns the octets of the word at the beginning of a text.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Returns the beginning of the word before a place.
fn word_before(text: &str, at: usize) -> usize {
    text[..at]
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |place| place + text[place..].chars().next().map_or(1, char::len_utf8))
}

/// Returns true if the text before a path ends with `use`.
fn is_import(before: &str) -> bool {
    before.trim_end().ends_with("use")
}
