//! The parts of the components' states: the table of `docs/state.md`, read from the source code.

use crate::generated;
use crate::tidy::walk;
use anyhow::{Context, Result};
use std::path::Path;
use syn::{Expr, ExprLit, Item, ItemConst, Lit, Meta};

const TABLE: generated::Part =
    generated::Part { page: "docs/state.md", marks: ["<!-- parts -->", "<!-- end of parts -->"] };

/// A declared part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Part {
    name: String,
    /// The versions, as numbers.
    versions: Vec<String>,
    is_required: bool,
    content: String,
    file: String,
}

/// Writes the table.
///
/// # Errors
///
/// A source file cannot be read or parsed, or the page lacks its marks.
pub fn write(root: &Path) -> Result<()> {
    TABLE.write(root, &table(root)?)
}

/// Returns a problem if the table differs from the source code.
///
/// # Errors
///
/// Those of [`write`].
pub fn check(root: &Path) -> Result<Vec<String>> {
    let problem =
        "docs/state.md: the table of parts is not that of the source code; `cargo xtask state` writes it";
    Ok(if TABLE.is(root, &table(root)?)? { Vec::new() } else { vec![problem.into()] })
}

fn table(root: &Path) -> Result<String> {
    let mut parts = Vec::new();
    let mut files = Vec::new();
    for folder in ["components", "platform/process"] {
        walk(root, &root.join(folder), &mut files)?;
    }
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| path.display().to_string())?;
        if text.contains("StatePart::new") {
            let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
            find(&file.items, &path.display().to_string(), &mut parts);
        }
    }
    parts.sort();
    let mut text = "| part | versions | required | content | source |\n|---|---|---|---|---|\n".to_owned();
    for Part { name, versions, is_required, content, file } in parts {
        let (versions, required) = (versions.join(" to "), if is_required { "yes" } else { "no" });
        text.push_str(&format!(
            "| `{name}` | {versions} | {required} | {content} | [`{file}`](../{file}) |\n"
        ));
    }
    Ok(text)
}

/// Finds declared parts, but for those of tests.
fn find(items: &[Item], file: &str, parts: &mut Vec<Part>) {
    for item in items {
        match item {
            Item::Const(constant) => parts.extend(part(constant, file)),
            Item::Mod(module) if module.ident != "tests" => {
                find(module.content.as_ref().map_or(&[], |(_, items)| items), file, parts);
            }
            _ => {}
        }
    }
}

fn part(constant: &ItemConst, file: &str) -> Option<Part> {
    let mut is_required = true;
    let mut expression = &*constant.expr;
    while let Expr::MethodCall(call) = expression {
        is_required &= call.method != "optional";
        expression = &call.receiver;
    }
    let Expr::Call(call) = expression else { return None };
    let Expr::Path(function) = &*call.func else { return None };
    let is_new = function.path.segments.iter().rev().take(2).map(|segment| segment.ident.to_string());
    if !is_new.eq(["new", "StatePart"]) {
        return None;
    }
    let name = literal(call.args.first()?)?;
    let Expr::Call(versions) = call.args.get(1)? else { return None };
    Some(Part {
        name,
        versions: versions.args.iter().filter_map(literal).collect(),
        is_required,
        content: documentation(constant),
        file: file.into(),
    })
}

fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Some(number.base10_digits().into()),
        _ => None,
    }
}

/// Returns the doc comment in a line, without links.
fn documentation(constant: &ItemConst) -> String {
    let lines = constant.attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => literal(&pair.value),
        _ => None,
    });
    let text = lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ");
    text.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_with_versions_and_content() {
        let text = r#"
            /// What [`Here`] has.
            const ONE: StatePart = StatePart::new("x.one", Versions::new(2, 5)).optional();
            mod parts { pub const TWO: StatePart = sluice_process::StatePart::new("x.two", Versions::only(1)); }
            mod tests { const NONE: StatePart = StatePart::new("x.none", Versions::only(1)); }
        "#;
        let mut parts = Vec::new();
        find(&syn::parse_file(text).unwrap().items, "a.rs", &mut parts);
        let found: Vec<_> = parts
            .iter()
            .map(|part| {
                (part.name.as_str(), part.versions.join("-"), part.is_required, part.content.as_str())
            })
            .collect();
        let expected =
            [("x.one", "2-5".to_owned(), false, "What `Here` has."), ("x.two", "1".into(), true, "")];
        assert_eq!(found, expected);
    }
}
