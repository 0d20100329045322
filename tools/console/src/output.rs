//! Output for people and programs: lines and tables, or one JSON document.

use crate::failure::Failure;
use crate::layout::Layout;
use crate::wide::widen;
use serde_json::Value;
use sluice_base::{Address, AnyPrefix, printable, printable_json, printable_lines};
use sluice_cli::Filters;
use sluice_xrl::idl::common::v1 as common;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, ExitCode, Stdio};

/// The form of a command's output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// A JSON document.
    pub json: bool,
    /// No pager, even on a terminal.
    pub no_pager: bool,
    /// No colors, even on a terminal.
    pub no_color: bool,
    /// No remarks beside the result.
    pub quiet: bool,
}

/// A color with a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    /// Success.
    Good,
    /// Failure.
    Bad,
}

/// The destination of a command's output: line by line through the filters behind the command, to a pager, or to standard output.
pub struct Output {
    wanted: Wanted,
    filters: Filters,
    color: bool,
    /// The width of tables; `None`: as wide as they are.
    width: Option<usize>,
    sink: Box<dyn Write>,
    /// Sends the output that follows to a pager.
    page: bool,
    pager: Option<Child>,
    /// The element of a list is the first one.
    list: Option<bool>,
    /// The schema of the JSON document; null if it has none.
    schema: Value,
    /// The schema of the elements of the list that has begun.
    element_schema: Value,
    /// Part of a line that is not complete yet.
    begun: String,
    /// True if the reader closed the output, or no further line can pass the filters.
    closed: bool,
}

impl Output {
    /// Makes an output to standard output, as `wanted`, through `filters`.
    pub fn open(mut wanted: Wanted, filters: Filters) -> Self {
        wanted.json |= filters.json;
        let terminal = io::stdout().is_terminal();
        let no_color = wanted.no_color || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let page = terminal && !wanted.no_pager && !filters.no_more;
        Output {
            wanted,
            filters,
            color: terminal && !no_color,
            width: width(),
            page,
            ..Output::into_sink(wanted, Box::new(io::BufWriter::new(io::stdout())))
        }
    }

    /// Makes an output into `sink`, without filters, colors and pager.
    pub fn into_sink(wanted: Wanted, sink: Box<dyn Write>) -> Self {
        Output {
            wanted,
            filters: Filters::default(),
            color: false,
            width: None,
            sink,
            page: false,
            pager: None,
            list: None,
            schema: Value::Null,
            element_schema: Value::Null,
            begun: String::new(),
            closed: false,
        }
    }

    /// Sets the schema of the JSON document.
    pub fn describe_by(&mut self, schema: Value) {
        self.schema = schema;
    }

    /// Returns true if JSON is printed by a schema.
    pub fn is_described(&self) -> bool {
        !self.schema.is_null()
    }

    /// Returns true if one JSON document is wanted.
    pub fn is_json(&self) -> bool {
        self.wanted.json
    }

    /// Returns the width of tables: of the terminal, or of `COLUMNS`; `None` for tables of any width.
    pub fn width(&self) -> Option<usize> {
        self.width
    }

    /// Returns true if the output has colors.
    pub fn is_colored(&self) -> bool {
        self.color
    }

    /// Returns true if a configuration is wanted as statements.
    pub fn as_statements(&self) -> bool {
        self.filters.set
    }

    /// A remark that is no part of the result.
    pub fn remark(&mut self, text: &str) {
        if !self.wanted.quiet && !self.wanted.json {
            self.flush();
            complain(text);
        }
    }

    /// Returns the text in a color, on a terminal with colors.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        match (self.color, paint) {
            (false, _) => text.into(),
            (true, Paint::Good) => format!("{GOOD}{}{PLAIN}", printable(text)),
            (true, Paint::Bad) => format!("{BAD}{}{PLAIN}", printable(text)),
        }
    }

    /// A line of text: also a text with ends of lines is one line.
    pub fn line(&mut self, text: &str) {
        match text.contains('\n') {
            true => self.write(&text.replace('\n', "\\n")),
            false => self.write(text),
        }
        self.write("\n");
    }

    /// The one JSON document.
    pub fn json(&mut self, value: &Value) {
        let mut value = value.clone();
        widen(&self.schema, &mut value);
        // A value always prints.
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        self.write(&text);
        self.write("\n");
    }

    /// A JSON document of a stream, on one line.
    pub fn json_line(&mut self, value: &Value) {
        let mut value = value.clone();
        widen(&self.schema, &mut value);
        self.line(&value.to_string());
    }

    /// Writes, with control characters escaped except ends of lines and the colors of [`Output::paint`]. A reader that closes the
    /// pipe (as `head` does) ends the output without an error.
    pub fn write(&mut self, text: &str) {
        if self.closed {
            return;
        }
        self.start_pager();
        let text = match (self.wanted.json, self.color) {
            (true, _) => printable_json(text),
            (false, true) => printable_in_color(text),
            (false, false) => printable_lines(text),
        };
        let text = &*text;
        if self.filters.is_empty() {
            self.closed = self.sink.write_all(text.as_bytes()).is_err();
            return;
        }
        self.begun.push_str(text);
        while let Some(end) = self.begun.find('\n') {
            let line: String = self.begun.drain(..=end).collect();
            let (sink, filters) = (&mut self.sink, &mut self.filters);
            let mut failed = false;
            let more =
                filters.line(line.trim_end_matches('\n'), &mut |l| failed |= writeln!(sink, "{l}").is_err());
            self.closed |= failed || !more;
        }
    }

    /// Starts the pager before the first octet of output.
    fn start_pager(&mut self) {
        if !std::mem::take(&mut self.page) {
            return;
        }
        self.pager = start_pager();
        if let Some(input) = self.pager.as_mut().and_then(|p| p.stdin.take()) {
            self.sink = Box::new(io::BufWriter::new(input));
        }
    }

    /// Begins the elements of one JSON array of this name, or lines below this heading.
    pub fn begin_list(&mut self, name: &str, heading: &str) {
        self.list = Some(true);
        self.element_schema = self.schema["properties"][name]["items"].take();
        match self.wanted.json {
            true => self.write(&format!("{{\"{name}\": [")),
            false => self.write(heading),
        }
    }

    /// An element of the list.
    pub fn element(&mut self, line: impl FnOnce() -> String, value: impl FnOnce() -> Value) {
        let first = self.list.replace(false) == Some(true);
        let text = match self.wanted.json {
            true => {
                let mut value = value();
                widen(&self.element_schema, &mut value);
                format!("{}\n{value}", if first { "" } else { "," })
            }
            false => format!("{}\n", line()),
        };
        self.write(&text);
    }

    /// Flushes, and returns true if the output is still read.
    pub fn page_done(&mut self) -> bool {
        self.flush();
        !self.closed
    }

    /// Ends the list.
    pub fn end_list(&mut self, nothing: &str) {
        self.end_list_with(nothing, &[]);
    }

    /// Ends the list, and the JSON document with more members.
    pub fn end_list_with(&mut self, nothing: &str, more: &[(&str, Value)]) {
        match (self.wanted.json, self.list.take()) {
            (true, _) => {
                let more: String =
                    more.iter().map(|(name, value)| format!(", \"{name}\": {value}")).collect();
                self.write(&format!("\n]{more}}}\n"));
            }
            (false, Some(true)) => self.line(nothing),
            (false, _) => {}
        }
    }

    /// A table: as it is, or `nothing`.
    pub fn table(&mut self, table: &Table, nothing: &str) {
        match table.rows.len() {
            1 => self.line(nothing),
            _ => {
                for (is_bad, line) in table.lines(self.width) {
                    let line = if is_bad { self.paint(Paint::Bad, &line) } else { line };
                    self.line(&line);
                }
            }
        }
    }

    /// Prints a failure: into the JSON document if JSON is wanted, else on standard error.
    pub fn fail(&mut self, failure: &Failure) {
        match (self.wanted.json, self.list.take()) {
            (true, None) => self.json(&serde_json::json!({ "error": failure.json() })),
            (true, Some(_)) => self.write(&format!("\n], \"error\": {}}}\n", failure.json())),
            (false, _) => {
                self.flush();
                complain(&format!("sluice: {}", failure.text()));
            }
        }
    }

    /// Flushes the output.
    pub fn flush(&mut self) {
        self.closed |= self.sink.flush().is_err();
    }

    /// Ends the output, and waits for the end of the pager.
    pub fn close(mut self) {
        if !self.begun.is_empty() && !self.closed {
            self.write("\n");
        }
        if !self.filters.is_empty() {
            self.start_pager();
        }
        let sink = &mut self.sink;
        // A reader that is gone has read enough.
        self.filters.end(&mut |line| drop(writeln!(sink, "{line}")));
        self.flush();
        self.sink = Box::new(io::sink());
        if let Some(mut pager) = self.pager.take() {
            let _ = pager.wait();
        }
    }
}

/// The escape sequences of [`Output::paint`].
const GOOD: &str = "\x1b[32m";
const BAD: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

/// Escapes control characters, except those of the colors.
fn printable_in_color(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return printable_lines(text);
    }
    let (mut safe, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('\x1b') {
        let (before, from) = rest.split_at(at);
        safe.push_str(&printable_lines(before));
        let color = [GOOD, BAD, PLAIN].into_iter().find(|color| from.starts_with(color));
        // An escape character alone is one octet.
        let (own, behind) = from.split_at(color.map_or(1, str::len));
        safe.push_str(&color.map_or_else(|| printable_lines(own), Cow::Borrowed));
        rest = behind;
    }
    safe.push_str(&printable_lines(rest));
    safe.into()
}

/// Prints a line on standard output, with control characters escaped, for a command without an [`Output`].
pub fn say(line: &str) {
    sluice_print::outln!("{}", printable(line));
}

/// Prints lines on standard output, with control characters escaped.
pub fn say_lines(lines: &str) {
    sluice_print::outln!("{}", printable_lines(lines));
}

/// Prints lines on standard error, with control characters escaped.
pub fn complain(lines: &str) {
    sluice_print::errln!("{}", printable_lines(lines));
}

/// Starts the pager of the user: `$SLUICE_PAGER`, `$PAGER`, or `less`. Returns `None` for `cat`, and if the pager does not start.
fn start_pager() -> Option<Child> {
    let named = ["SLUICE_PAGER", "PAGER"].into_iter().find_map(|name| std::env::var(name).ok());
    let line = named.unwrap_or_else(|| "less".into());
    let mut words = line.split_whitespace();
    let program = words.next().filter(|p| *p != "cat")?;
    let mut command = Command::new(program);
    // What is shown may come from a neighbor, and who may only look at the router is not to get a shell out of `less`.
    command.args(words).stdin(Stdio::piped()).env("LESSSECURE", "1");
    if std::env::var_os("LESS").is_none() {
        // Ends by itself where everything fits, keeps colors, leaves the text on the screen.
        command.env("LESS", "FRX");
    }
    command.spawn().ok()
}

/// Prints a failure of a command that has no [`Output`], and gives the exit status.
pub fn fail(failure: &Failure, as_json: bool) -> ExitCode {
    let wanted = Wanted { json: as_json, no_pager: true, ..Wanted::default() };
    let mut output = Output::open(wanted, Filters::default());
    output.fail(failure);
    output.close();
    ExitCode::from(failure.status)
}

/// Returns the width for tables: `COLUMNS`, or the terminal's; `None` without both.
fn width() -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    named.or_else(terminal).filter(|width| *width > 0)
}

/// A table: columns as wide as their widest cell, or as the terminal permits ([`Layout`]), two spaces between them.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// The rows of something that is down.
    bad: BTreeSet<usize>,
}

impl Table {
    /// Makes a table with these headings.
    pub fn new(headings: &[&str]) -> Self {
        Table { rows: vec![headings.iter().map(|h| (*h).to_string()).collect()], bad: BTreeSet::new() }
    }

    /// Adds a row. A cell without text is shown as `-`.
    pub fn row(&mut self, cells: Vec<String>) {
        // Escaped before the widths are known.
        let shown =
            |cell: String| if cell.trim().is_empty() { "-".into() } else { printable(&cell).into_owned() };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// Adds the row of something that is down: red where there are colors.
    pub fn row_down(&mut self, cells: Vec<String>) {
        self.bad.insert(self.rows.len());
        self.row(cells);
    }

    /// Returns the lines of the table within `width`, each with true for a row of something that is down.
    fn lines(&self, width: Option<usize>) -> Vec<(bool, String)> {
        let layout = Layout::new(&self.rows, Vec::new(), width);
        let lines = |(at, row): (usize, &Vec<String>)| {
            let is_bad = self.bad.contains(&at);
            layout.lines(row).into_iter().map(move |line| (is_bad, line))
        };
        self.rows.iter().enumerate().flat_map(lines).collect()
    }

    /// Prints the table to standard output.
    pub fn print(&self) {
        self.lines(width()).iter().for_each(|(_, line)| say(line));
    }
}

/// An address of a message, as text.
pub fn addr(addr: Option<&common::Addr>) -> String {
    addr.and_then(|a| Address::try_from(a).ok()).map_or_else(|| "-".into(), |a| a.to_string())
}

/// A prefix of a message, as text.
pub fn net(net: Option<&common::Net>) -> String {
    net.and_then(|n| AnyPrefix::try_from(n).ok()).map_or_else(|| "-".into(), |p| p.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}[2J\u{1b}[31mx\u{9b}1m\n\r";

    #[test]
    fn only_own_colors_reach_the_terminal() {
        let output = Output { color: true, ..Output::into_sink(Wanted::default(), Box::new(io::sink())) };
        let painted = printable_in_color(&output.paint(Paint::Bad, HOSTILE)).into_owned();
        assert_eq!(painted, "\u{1b}[31m\\u{1b}[2J\\u{1b}[31mx\\u{9b}1m\\n\\r\u{1b}[0m");
        assert_eq!(printable_in_color("\u{1b}[2J\u{1b}"), "\\u{1b}[2J\\u{1b}");
    }

    #[test]
    fn cells_are_one_line() {
        let mut table = Table::new(&["a"]);
        table.row(vec![HOSTILE.into()]);
        let lines = table.lines(None);
        assert!(
            lines.len() == 2 && lines.iter().all(|(_, line)| !line.contains(char::is_control)),
            "{lines:?}"
        );
    }
}
