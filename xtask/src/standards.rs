//! The support of standards: one file of data for each component, from which pages and tables for people are made.
//!
//! `standards.toml` of a component has its standards and its rows of the project's README; `docs/standards.toml` has the order and what
//! belongs to no component. Made from them: `docs/protocols.md`, a table in the README of each component with standards, and the table of
//! the project's README.

use crate::generated::put;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

/// The page of all standards.
const PAGE: &str = "docs/protocols.md";
/// The lines around a table in a README.
const MARKS: [&str; 2] = ["<!-- standards -->", "<!-- end of standards -->"];
/// The page's first lines.
const HEAD: &str = "# Protocols\n\nThe parts of each standard that Sluice implements, and the parts that it does not. \
    `cargo xtask standards` makes this page from\nthe files `standards.toml` of `components/`.\n";

/// `docs/standards.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    /// Components in the order of the page.
    components: Vec<String>,
    /// Groups in the order of the README's table.
    groups: Vec<String>,
    /// Protocols without a component.
    missing: String,
    #[serde(default, rename = "part")]
    parts: Vec<Part>,
}

/// `standards.toml` of a component.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    /// The heading of the component's section; absent: no section.
    title: Option<String>,
    /// The text below the section's table.
    #[serde(default)]
    text: String,
    #[serde(default, rename = "standard")]
    standards: Vec<Standard>,
    #[serde(default, rename = "part")]
    parts: Vec<Part>,
}

/// The support of a standard.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Standard {
    /// Numbers of RFCs, or names of drafts; empty for a function that has no standard.
    #[serde(default)]
    number: String,
    #[serde(default)]
    title: String,
    /// The implemented parts; empty: the whole standard.
    #[serde(default)]
    support: String,
}

/// A row of the README's table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    group: String,
    name: String,
    state: String,
}

/// A file that is made from the data, with its text.
struct Made {
    file: String,
    text: String,
}

/// Writes the files that are made from the data.
///
/// # Errors
///
/// A file cannot be read or written, lacks the marks of its table, or names an unknown component or group.
pub fn write(root: &Path) -> Result<()> {
    for made in all(root)? {
        std::fs::write(root.join(&made.file), made.text).context(made.file)?;
    }
    Ok(())
}

/// Returns the files that differ from the data.
///
/// # Errors
///
/// Those of [`write`].
pub fn check(root: &Path) -> Result<Vec<String>> {
    let differs =
        |made: &Made| std::fs::read_to_string(root.join(&made.file)).unwrap_or_default() != made.text;
    let problem = "differs from the files standards.toml; `cargo xtask standards` writes it";
    Ok(all(root)?
        .iter()
        .filter(|made| differs(made))
        .map(|made| format!("{}: {problem}", made.file))
        .collect())
}

/// Returns all files that are made from the data.
fn all(root: &Path) -> Result<Vec<Made>> {
    let frame: Frame = read(root, "docs/standards.toml")?;
    let named = frame.components.iter().map(|name| {
        Ok((name.as_str(), read::<Component>(root, &format!("components/{name}/standards.toml"))?))
    });
    let components: Vec<(&str, Component)> = named.collect::<Result<_>>()?;
    for folder in std::fs::read_dir(root.join("components"))? {
        let folder = folder?;
        let name = folder.file_name().to_string_lossy().into_owned();
        if folder.path().join("standards.toml").exists() && !frame.components.contains(&name) {
            bail!("docs/standards.toml: the component {name} is missing in `components`");
        }
    }
    let mut made = vec![Made { file: PAGE.into(), text: page(&frame, &components) }];
    for (name, component) in components.iter().filter(|(_, component)| !component.standards.is_empty()) {
        let file = format!("components/{name}/README.md");
        made.push(with_table(root, file, &short_table(component))?);
    }
    let parts = components.iter().flat_map(|(_, component)| &component.parts).chain(&frame.parts);
    made.push(with_table(
        root,
        "README.md".into(),
        &parts_table(&frame.groups, &parts.collect::<Vec<_>>())?,
    )?);
    Ok(made)
}

fn read<T: for<'de> Deserialize<'de>>(root: &Path, file: &str) -> Result<T> {
    let text = std::fs::read_to_string(root.join(file)).with_context(|| file.to_owned())?;
    toml::from_str(&text).with_context(|| file.to_owned())
}

/// Returns a file with its table replaced.
fn with_table(root: &Path, file: String, table: &str) -> Result<Made> {
    let old = std::fs::read_to_string(root.join(&file)).with_context(|| file.clone())?;
    let text = put(&old, MARKS, table).with_context(|| format!("{file} lacks the lines {MARKS:?}"))?;
    Ok(Made { file, text })
}

/// Returns the page of all standards.
fn page(frame: &Frame, components: &[(&str, Component)]) -> String {
    let mut page = HEAD.to_owned();
    for (_, component) in components {
        let Some(title) = &component.title else { continue };
        let _ = write!(page, "\n## {title}\n");
        if !component.standards.is_empty() {
            page += "\n| RFC | | implemented |\n|---|---|---|\n";
        }
        for standard in &component.standards {
            page += &row(&[&standard.number, &standard.title, &standard.support]);
        }
        if !component.text.is_empty() {
            let _ = write!(page, "\n{}", component.text);
        }
    }
    let _ = write!(page, "\n## Not there yet\n\n{}\n", frame.missing);
    page
}

/// Returns the table of a component's README: the standards by name.
fn short_table(component: &Component) -> String {
    let mut table = "| RFC | |\n|---|---|\n".to_owned();
    for standard in component.standards.iter().filter(|standard| !standard.number.is_empty()) {
        table += &row(&[&standard.number, &standard.title]);
    }
    let title = component.title.as_deref().unwrap_or_default();
    let anchor = title.to_lowercase().replace(' ', "-");
    let _ = write!(table, "\nThe parts of each, and known deviations: [{PAGE}](../../{PAGE}#{anchor}).\n");
    table
}

/// Returns the table of the project's README.
fn parts_table(groups: &[String], parts: &[&Part]) -> Result<String> {
    if let Some(part) = parts.iter().find(|part| !groups.contains(&part.group)) {
        bail!("`{}` is in the group `{}`; docs/standards.toml has no such group", part.name, part.group);
    }
    let mut table = "| part | state |\n|---|---|\n".to_owned();
    for group in groups {
        table += &row(&[&format!("**{group}**"), ""]);
        for part in parts.iter().filter(|part| part.group == *group) {
            table += &row(&[&part.name, &part.state]);
        }
    }
    Ok(table)
}

fn row(cells: &[&str]) -> String {
    let cells: String =
        cells.iter().map(|cell| if cell.is_empty() { " |".into() } else { format!(" {cell} |") }).collect();
    format!("|{cells}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn pages_follow_the_data() {
        let marks = "top\n<!-- standards -->\nold\n<!-- end of standards -->\nend\n";
        let root = tree(&[
            ("README.md", marks),
            ("components/rip/README.md", marks),
            (
                "components/rip/standards.toml",
                "title = 'RIP version 2'\ntext = 'Not: authentication.'\n[[standard]]\nnumber = '2453'\ntitle = 'RIPv2'\nsupport = 'all'\n\
                 [[part]]\ngroup = 'Protocols'\nname = 'RIP'\nstate = 'done'\n",
            ),
            ("docs/standards.toml", "components = ['rip']\ngroups = ['Protocols']\nmissing = 'OSPF.'\n"),
        ]);
        assert_eq!(check(root.path()).unwrap().len(), 3);
        write(root.path()).unwrap();
        assert!(check(root.path()).unwrap().is_empty());
        let text = |file: &str| std::fs::read_to_string(root.path().join(file)).unwrap();
        assert!(text("docs/protocols.md").contains("| 2453 | RIPv2 | all |\n\nNot: authentication."));
        assert!(text("components/rip/README.md").contains("| 2453 | RIPv2 |\n"));
        assert!(text("components/rip/README.md").contains("#rip-version-2"));
        assert!(
            text("README.md").starts_with("top\n")
                && text("README.md").contains("| **Protocols** | |\n| RIP | done |\n")
        );
        assert!(!text("README.md").contains("old") && text("README.md").ends_with("\nend\n"));
    }

    #[test]
    fn what_belongs_nowhere_is_an_error() {
        let frame = "components = []\ngroups = []\nmissing = ''\n";
        let root = tree(&[("docs/standards.toml", frame), ("components/rip/standards.toml", "")]);
        assert!(check(root.path()).unwrap_err().to_string().contains("rip is missing"));
        let part = Part { group: "Games".into(), name: "chess".into(), state: "done".into() };
        assert!(parts_table(&[], &[&part]).is_err());
    }
}
