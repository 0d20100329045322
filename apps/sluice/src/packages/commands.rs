//! Commands declared by a call and a table: `commands.toml` of components and of packages.

use crate::components;
use crate::connection::session::Session;
use crate::output::{Align, Failure, Layout, Output, Paint};
use serde_json::{Map, Value, json};
use sluice_cli::Values;
use sluice_cli::package::{Column, PackageCommand};
use sluice_cli::render::{Format, cell, records};
use sluice_cli::spelling::Becomes::Words;
use sluice_cli::spelling::Row;
use sluice_xrl::text;

/// Other words for commands of the manager.
const MANAGER_SPELLINGS: [Row; 3] = [
    ("audit show", Words("show audit")),
    ("audit show ...", Words("show audit")),
    ("audit verify", Words("request audit verify")),
];

/// Returns other spellings for commands of the manager and of components.
pub fn spellings() -> Vec<Row> {
    let own = components::COMMANDS.iter().flat_map(|(_, own)| own.spellings.iter().copied());
    MANAGER_SPELLINGS.into_iter().chain(components::ELEMENT_SPELLINGS).chain(own).collect()
}

/// Carries a command out.
pub async fn run(
    session: &Session,
    command: &PackageCommand,
    values: &Values,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut fields: Vec<(String, String)> = command.with.clone().into_iter().collect();
    for (name, field) in &command.fields {
        let flag = command.command.choices.iter().any(|c| c.word == *name && c.value.is_none());
        if flag && values.has(name) {
            fields.push((field.clone(), "true".into()));
        } else if let Some(text) = values.text(name) {
            fields.push((field.clone(), text.into()));
        }
    }
    let router = session.router().await?;
    let target = session.component(&command.target);
    let call = (target.as_str(), command.interface.as_str(), command.method.as_str());
    if out.is_json() && !out.is_described() {
        out.describe_by(printed_schema(session, command).await?);
    }
    let mut table = Columns::default();
    let mut page: Option<String> = None;
    let mut first = true;
    loop {
        let mut asked = fields.clone();
        if let (Some(p), Some(from)) = (&command.page, &page) {
            asked.push((p.field.clone(), from.clone()));
        }
        let reply = match command.command.id.starts_with("show ") {
            true => text::read_plain(&router, call, &asked, session.flags.timeout).await?,
            false => text::call_plain(&router, call, &asked, session.flags.timeout).await?,
        };
        if command.page.is_none() && out.is_json() {
            out.json(&reply);
            return Ok(());
        }
        if std::mem::take(&mut first) && command.page.is_some() && out.is_json() {
            out.begin_list(&command.rows, "");
        }
        table.print(command, &reply, out);
        page = command.page.as_ref().and_then(|p| next_page(&reply[&p.next]));
        if page.is_none() || !out.page_done() {
            break;
        }
    }
    match (out.is_json(), command.columns.is_empty()) {
        (true, _) => out.end_list(""),
        (false, true) => out.line(&command.done),
        (false, false) if table.rows == 0 => out.line(&command.nothing),
        (false, false) => {}
    }
    Ok(())
}

/// Returns the schema of a command's output, made from the description of the called method.
pub async fn printed_schema(session: &Session, command: &PackageCommand) -> Result<Value, Failure> {
    let router = session.router().await?;
    let target = session.component(&command.target);
    let call = (target.as_str(), command.interface.as_str(), command.method.as_str());
    Ok(of_reply(text::reply_schema(&router, call).await?, command))
}

/// Returns the schema of a command's output from that of the replies: pages are printed as one list.
pub fn of_reply(schema: Value, command: &PackageCommand) -> Value {
    if command.page.is_none() {
        return schema;
    }
    let rows = command.rows.as_str();
    let items = schema["properties"][rows].clone();
    json!({ "type": "object", "required": [rows], "properties": { rows: items } })
}

fn next_page(value: &Value) -> Option<String> {
    match value {
        Value::Number(n) if n.as_u64() != Some(0) => Some(n.to_string()),
        Value::String(s) if !s.is_empty() => Some(s.clone()),
        _ => None,
    }
}

/// Prints a table read in pages: the first page decides the widths of columns.
#[derive(Default)]
struct Columns {
    layout: Option<Layout>,
    rows: u64,
}

impl Columns {
    fn print(&mut self, command: &PackageCommand, reply: &Value, out: &mut Output) {
        let records = records(reply, &command.rows);
        if out.is_json() {
            for record in &records {
                out.element(String::new, || record[0].clone());
            }
            self.rows += records.len() as u64;
            return;
        }
        let mut down = Vec::new();
        let mut row = |record: &Vec<&Value>| -> Vec<String> {
            let mut cells: Vec<String> =
                command.columns.iter().map(|c| cell(record, &c.path, c.format)).collect();
            let is_down = mark_down(&command.columns, &mut cells, out.is_colored());
            down.push(is_down);
            cells
        };
        let cells: Vec<Vec<String>> = records.iter().map(&mut row).collect();
        self.rows += cells.len() as u64;
        // A command without columns prints in one line what it did.
        if command.columns.is_empty() {
            return;
        }
        let headings = || command.columns.iter().map(|c| c.heading.clone()).collect();
        let rows: Vec<Vec<String>> = match self.layout {
            Some(_) => cells,
            None if cells.is_empty() => return,
            None => {
                down.insert(0, false);
                std::iter::once_with(headings).chain(cells).collect()
            }
        };
        let layout = self.layout.get_or_insert_with(|| Layout::new(&rows, aligned(command), out.width()));
        for (row, is_down) in rows.iter().zip(down) {
            for line in layout.lines(row) {
                let line = if is_down { out.paint(Paint::Bad, &line) } else { line };
                out.line(&line);
            }
        }
    }
}

/// Returns true if a row reports that something is down; without colors the value alone shows it.
fn mark_down(columns: &[Column], cells: &mut [String], is_colored: bool) -> bool {
    let mut is_down = false;
    for (column, cell) in columns.iter().zip(cells) {
        if column.down.contains(cell) {
            is_down = true;
            if !is_colored {
                cell.push_str(" (down)");
            }
        }
    }
    is_down
}

fn aligned(command: &PackageCommand) -> Vec<Align> {
    let of = |format| match format {
        Format::Count | Format::Bytes => Align::Right,
        _ => Align::Left,
    };
    command.columns.iter().map(|column| of(column.format)).collect()
}

/// Returns whether a package is taken.
pub fn package_state(p: &sluice_xrl::idl::manager::v1::Package) -> &'static str {
    if p.refused.is_empty() { "valid" } else { "refused" }
}

/// Returns a package in the form of `show packages`.
pub fn package_json(
    p: &sluice_xrl::idl::manager::v1::Package,
    commands: &[String],
    refused: &[String],
) -> Value {
    let mut map = Map::new();
    map.insert("name".into(), p.name.clone().into());
    map.insert("version".into(), p.version.clone().into());
    map.insert("description".into(), p.description.clone().into());
    map.insert("builtin".into(), p.builtin.into());
    map.insert("path".into(), if p.path.is_empty() { Value::Null } else { p.path.clone().into() });
    map.insert("signed".into(), if p.signed.is_empty() { Value::Null } else { p.signed.clone().into() });
    map.insert("state".into(), package_state(p).into());
    map.insert("refused".into(), if p.refused.is_empty() { Value::Null } else { p.refused.clone().into() });
    map.insert("commands".into(), commands.to_vec().into());
    map.insert("commands_refused".into(), refused.to_vec().into());
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_cli::package;
    use sluice_config::metrics;

    #[test]
    fn metrics_of_components_are_right() {
        let example = ("hello", include_str!("../../../../sdk/python/examples/hello/metrics.toml"));
        let documents = include_str!("../../../../docs/extending.md").split("```toml\n").skip(1);
        let blocks = documents.filter_map(|rest| rest.split("```").next());
        let documented = blocks.filter(|block| block.contains("[[metric]]")).map(|block| ("rip", block));
        let shipped = components::BUILTINS.iter().filter_map(|b| Some((b.class, b.metrics?)));
        let others = [("manager", components::MANAGER_METRICS), example];
        for (package, text) in shipped.chain(others).chain(documented) {
            let metrics = metrics::parse(package, text).unwrap_or_else(|e| panic!("{package}: {e}"));
            assert!(!metrics.is_empty(), "{package}");
        }
    }

    #[test]
    fn a_row_of_something_down_is_marked() {
        let shipped: Vec<_> =
            crate::shipped::shipped().flat_map(|text| package::parse(text).expect("commands")).collect();
        let caches = shipped.iter().find(|c| c.command.id == "show rpki cache").expect("the command");
        let state = caches.columns.iter().position(|c| c.heading == "state").expect("a state");
        let marked = |value: &str, is_colored| {
            let mut cells = vec!["x".to_owned(); caches.columns.len()];
            cells[state] = value.into();
            let is_down = mark_down(&caches.columns, &mut cells, is_colored);
            (is_down, cells.swap_remove(state))
        };
        assert_eq!(marked("ready", false), (false, "ready".into()));
        assert_eq!(marked("waiting", false), (true, "waiting (down)".into()));
        assert_eq!(marked("waiting", true), (true, "waiting".into()));
    }

    #[test]
    fn what_components_ship_is_right() {
        let example = include_str!("../../../../sdk/python/examples/hello/commands.toml");
        for text in crate::shipped::shipped().chain([example]) {
            package::parse(text).expect("a commands.toml");
        }
    }
}
