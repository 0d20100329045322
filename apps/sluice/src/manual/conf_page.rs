//! The manual page of the configuration file, sluice.conf(5): every statement of the executable's components, from
//! their schema.

use crate::components;
use crate::manual::pages::escaped;
use crate::output::{Failure, config_failure};
use sluice_cli::statement::{Following, following};
use sluice_config::{Node, NodeKind};
use sluice_manager_process::{ConfigSource, Model};
use std::fmt::Write;
use std::path::PathBuf;

const BEGIN: &str = r#".TH sluice.conf 5
.SH NAME
sluice.conf \- configuration of a Sluice router
.SH DESCRIPTION
Statements end with a semicolon or have a block in braces; a path on one line means the same as nested blocks. Comments begin with # or //.
.B sluice config check
checks a file, and
.B sluice commit \-\-from\-file
has a running router take it. What a change costs stands behind each statement: nothing (none), what comes next (soft), a new look at
routes (refilter), a session (reset), a process (restart).
.SH EXAMPLES
.nf
protocols {
    static {
        route 203.0.113.0/24 { next\-hop 192.0.2.254; }
    }
    bgp {
        local\-as 64500;
        router\-id 192.0.2.1;
        neighbor 192.0.2.2 { peer\-as 64501; }
    }
}
.fi
.SH STATEMENTS
"#;

/// The page.
pub fn page() -> Result<String, Failure> {
    let nowhere = PathBuf::from("/nonexistent");
    let source = ConfigSource {
        file: nowhere.clone(),
        builtins: components::BUILTINS,
        packages_dir: nowhere.clone(),
        trust_dir: nowhere.clone(),
        state_dir: nowhere,
        trial: None,
    };
    let model = Model::load(&source).map_err(config_failure)?;
    let mut page = BEGIN.to_string();
    let nodes = model.schema.nodes();
    nodes.iter().for_each(|node| statement(nodes, node, &mut Vec::new(), &mut page));
    page.push_str(".SH \"SEE ALSO\"\n.BR sluice (1)\n");
    Ok(page)
}

/// Writes a statement and the statements inside.
fn statement(schema: &[Node], node: &Node, path: &mut Vec<String>, page: &mut String) {
    path.push(node.name.clone());
    let text = node.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let (value, words) = match &node.kind {
        NodeKind::Leaf(value) | NodeKind::LeafList(value) => {
            let Following { words, values, .. } = following(schema, path, true).unwrap_or_default();
            let words: Vec<String> = words.into_iter().map(|w| w.text).collect();
            let kinds: Vec<String> = values.into_iter().map(|v| range_of(&v.help)).collect();
            let impact = format!("Impact: {}.", value.impact);
            (true, format!("{} {impact}", if words.is_empty() { kinds.join(" ") } else { words.join(" | ") }))
        }
        _ => (false, String::new()),
    };
    let keys = match &node.kind {
        NodeKind::List { keys } => keys.clone(),
        _ => Vec::new(),
    };
    let shown: Vec<String> = keys.iter().map(|k| format!("<{k}>")).collect();
    path.extend(shown);
    let value = if value { " VALUE" } else { "" };
    // A string takes whatever is written to it.
    let _ = writeln!(
        page,
        ".TP\n\\fB{}\\fR{value}\n{} {}",
        escaped(&path.join(" ")),
        escaped(&text),
        escaped(&words)
    );
    for child in node.children.iter().filter(|c| !keys.contains(&c.name)) {
        statement(schema, child, path, page);
    }
    path.truncate(path.len() - 1 - keys.len());
}

/// Returns the text in brackets at the end of a value's help: range, unit, default.
fn range_of(help: &str) -> String {
    help.rfind('(').map_or_else(String::new, |at| help[at..].to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_component_is_in_the_page() {
        let page = super::page().unwrap_or_else(|f| panic!("{}", f.message));
        for text in
            ["bgp neighbor <address> hold\\-time", "3..65535", "static route <prefix>", "Impact: reset."]
        {
            assert!(page.contains(text), "{text}");
        }
    }
}
