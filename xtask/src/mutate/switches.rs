//! All bugs in one build: each function with bugs has one body for each of them, and a variable of the environment chooses.
//!
//! A build for each bug takes longer than its judgment. The body of a function is an expression, so a body with a bug
//! can stand beside the one without in an arm of a `match`. Bugs outside of such bodies have no switch: in constants, in
//! signatures, in macros, in functions that return an opaque type (each arm would have a type of its own). A function
//! with switches is no longer `const`.

use super::list::Mutation;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

/// The variable with the number of the bug, from 1.
pub const VARIABLE: &str = "SLUICE_SEEDED_BUG";

/// The function that each crate with bugs gets. Crates without `std` build for this host too.
const CHOICE: &str = r#"
/// Returns the number of the chosen bug, or 0.
pub(crate) fn seeded_bug() -> u32 {
    extern crate std;
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var("VARIABLE").ok().and_then(|number| number.parse().ok());
    *NUMBER.get_or_init(|| read().unwrap_or_default())
}
"#;

/// The bugs with switches, in every list.
pub struct Switches {
    /// Bugs by file, with their numbers.
    files: BTreeMap<&'static str, Vec<(usize, &'static Mutation)>>,
    /// The roots of the crates with bugs.
    roots: BTreeSet<String>,
}

impl Switches {
    /// Numbers the given bugs. No two have one name.
    pub fn new(mutations: impl Iterator<Item = &'static Mutation>) -> Self {
        let mut files: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (n, mutation) in mutations.enumerate() {
            files.entry(mutation.file).or_default().push((n + 1, mutation));
        }
        let root = |file: &&str| Some(format!("{}/src/lib.rs", file.split_once("/src/")?.0));
        Switches { roots: files.keys().filter_map(root).collect(), files }
    }

    /// Returns true if a file has switches or chooses between them.
    pub fn has(&self, file: &str) -> bool {
        self.files.contains_key(file) || self.roots.contains(file)
    }

    /// Returns the text of a file with its switches.
    pub fn switched(&self, file: &str, text: &str) -> Result<String> {
        let bugs = self.files.get(file).map(Vec::as_slice).unwrap_or_default();
        let text = switched(text, bugs).with_context(|| file.to_owned())?.0;
        Ok(self.rooted(file, text))
    }

    /// Adds the choice to the text of a crate's root.
    pub fn rooted(&self, file: &str, text: String) -> String {
        if self.roots.contains(file) { text + &CHOICE.replace("VARIABLE", VARIABLE) } else { text }
    }

    /// Returns a bug's number if the text of its file has a switch for it.
    pub fn number(&self, mutation: &Mutation, text: &str) -> Result<Option<usize>> {
        let bugs = self.files.get(mutation.file).map(Vec::as_slice).unwrap_or_default();
        let numbers = switched(text, bugs).with_context(|| mutation.file)?.1;
        Ok(bugs.iter().find(|(n, bug)| bug.name == mutation.name && numbers.contains(n)).map(|(n, _)| *n))
    }
}

/// Returns the place of the bug's code, which the text has exactly once.
pub fn place(text: &str, mutation: &Mutation) -> Result<Range<usize>> {
    let mut places = text.match_indices(mutation.find);
    match (places.next(), places.next()) {
        (Some((start, found)), None) => Ok(start..start + found.len()),
        _ => bail!("`{}` is not once in {}", mutation.find, mutation.file),
    }
}

/// Writes switches for bugs; returns the numbers of the bugs that have one.
fn switched(text: &str, bugs: &[(usize, &Mutation)]) -> Result<(String, BTreeSet<usize>)> {
    let mut bodies = Bodies(Vec::new());
    bodies.visit_file(&syn::parse_file(text)?);
    let mut numbers = BTreeSet::new();
    // The new texts of parts of the file, by their places.
    let mut parts: BTreeMap<usize, (usize, String)> = BTreeMap::new();
    for (n, mutation) in bugs {
        let place = place(text, mutation)?;
        // The outermost body that can be doubled: with its bugs it stays one function.
        let around = |body: &&Body| body.octets.start < place.start && place.end < body.octets.end;
        let bodies = bodies.0.iter().filter(around);
        let Some(Body { octets, constness }) = bodies.min_by_key(|body| body.octets.start) else { continue };
        let before = "{ match crate::seeded_bug() {\n".to_owned();
        let (_, arms) = parts.entry(octets.start).or_insert((octets.end, before));
        let (head, tail) = (&text[octets.start..place.start], &text[place.end..octets.end]);
        arms.push_str(&format!("{n} => {head}{}{tail}\n", mutation.replace));
        numbers.insert(*n);
        parts.extend(constness.as_ref().map(|word| (word.start, (word.end, String::new()))));
    }
    let (mut out, mut from) = (String::new(), 0);
    for (start, (end, part)) in parts {
        out.push_str(&text[from..start]);
        out.push_str(&part);
        if !part.is_empty() {
            out.push_str(&format!("_ => {}\n}} }}", &text[start..end]));
        }
        from = end;
    }
    out.push_str(&text[from..]);
    Ok((out, numbers))
}

/// The body of a function.
struct Body {
    /// Its octets in the text.
    octets: Range<usize>,
    /// The octets of the word `const` before the function.
    constness: Option<Range<usize>>,
}

/// The bodies of functions that can have switches.
struct Bodies(Vec<Body>);

impl Bodies {
    fn add(&mut self, signature: &Signature, block: &Block) {
        let mut opaque = Opaque(false);
        opaque.visit_return_type(&signature.output);
        if !opaque.0 {
            let constness = signature.constness.as_ref().map(|word| word.span.byte_range());
            self.0.push(Body { octets: block.brace_token.span.join().byte_range(), constness });
        }
    }
}

impl<'ast> Visit<'ast> for Bodies {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// True if a type has an opaque part.
struct Opaque(bool);

impl<'ast> Visit<'ast> for Opaque {
    fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
        self.0 = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "const MOST: u8 = 1;\n\nconst fn least(a: u8, b: u8) -> u8 {\n    a.min(b)\n}\n\nfn evens() -> impl Iterator<Item = u8> {\n    (0..9).filter(|n| n % 2 == 0)\n}\n";

    const fn bug(name: &'static str, find: &'static str, replace: &'static str) -> Mutation {
        Mutation { name, file: "a/src/b.rs", find, replace }
    }

    #[test]
    fn a_body_stands_once_for_each_of_its_bugs() {
        let bugs = [bug("max", "min", "max"), bug("opaque", "== 0", "== 1"), bug("own", "a.min(b)", "a")];
        let numbered: Vec<_> = bugs.iter().enumerate().map(|(n, bug)| (n + 1, bug)).collect();
        let (text, numbers) = switched(TEXT, &numbered).unwrap();
        assert_eq!(numbers, BTreeSet::from([1, 3]));
        let body = "{ match crate::seeded_bug() {\n1 => {\n    a.max(b)\n}\n3 => {\n    a\n}\n_ => {\n    a.min(b)\n}\n} }";
        assert_eq!(text, TEXT.replace("const fn", " fn").replace("{\n    a.min(b)\n}", body));
        let constant = bug("constant", "= 1;", "= 2;");
        assert_eq!(switched(TEXT, &[(1, &constant)]).unwrap(), (TEXT.to_owned(), BTreeSet::new()));
        assert!(switched(TEXT, &[(1, &bug("gone", "max", "d"))]).is_err());
    }

    #[test]
    fn a_crate_with_bugs_chooses() {
        static BUG: Mutation = bug("max", "min", "max");
        let switches = Switches::new([&BUG].into_iter());
        assert!(switches.has("a/src/b.rs") && switches.has("a/src/lib.rs") && !switches.has("b/src/lib.rs"));
        assert!(switches.switched("a/src/lib.rs", "mod b;\n").unwrap().contains(VARIABLE));
        assert_eq!(switches.number(&BUG, TEXT).unwrap(), Some(1));
    }
}
