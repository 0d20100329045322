//! The progress line: replaced on a terminal, seldom printed elsewhere.

use std::io::{IsTerminal, Result, Write};
use std::time::{Duration, Instant};

/// Without a terminal, a line seldom follows the last one sooner.
const QUIET: Duration = Duration::from_secs(20);
/// Width of a terminal that does not give its width (`COLUMNS`).
const WIDTH: usize = 100;

/// State of the progress line.
pub struct Progress {
    total: usize,
    done: usize,
    width: Option<usize>,
    printed: Option<Instant>,
}

impl Progress {
    /// Begins with `total` jobs.
    pub fn new(total: usize) -> Self {
        let columns = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = std::io::stdout().is_terminal().then(|| columns().unwrap_or(WIDTH));
        Self { total, done: 0, width, printed: None }
    }

    /// Counts an ended job.
    pub fn end(&mut self) {
        self.done += 1;
    }

    /// Prints the running jobs.
    pub fn show<'a>(&mut self, out: &mut dyn Write, running: impl Iterator<Item = &'a str>) -> Result<()> {
        if let Some(width) = self.width {
            let line = line(self.done, self.total, running);
            let line: String = line.chars().take(width.saturating_sub(1)).collect();
            write!(out, "\r\x1b[K{line}")?;
        } else if self.printed.is_none_or(|printed| printed.elapsed() >= QUIET) {
            self.printed = Some(Instant::now());
            writeln!(out, "{}", line(self.done, self.total, running))?;
        }
        out.flush()
    }

    /// Removes the line, for output that follows.
    pub fn clear(&self, out: &mut dyn Write) -> Result<()> {
        if self.width.is_some() { write!(out, "\r\x1b[K") } else { Ok(()) }
    }
}

/// Returns the line. Of a key, the folder's end and the module are enough.
fn line<'a>(done: usize, total: usize, running: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = running.map(short).collect();
    format!("[{done}/{total}] running: {}", names.join(", "))
}

/// Returns `FOLDER MODULE` of the key `FOLDER PROGRAM MODULE`.
fn short(key: &str) -> String {
    let mut words = key.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some(folder), Some(program), Some(module)) if program.ends_with(".rs") => {
            format!("{folder} {module}")
        }
        (Some(folder), Some(program), None) if program.starts_with("src/") => folder.to_owned(),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_jobs_are_named_without_their_sources() {
        let keys =
            ["apps/sluice tests/sluice/main.rs cluster", "base src/lib.rs", "doc tests", "a tests/b.rs"];
        let line = line(3, 20, keys.into_iter());
        assert_eq!(line, "[3/20] running: apps/sluice cluster, base, doc tests, a tests/b.rs");
    }
}
