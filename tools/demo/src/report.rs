//! Progress while it runs, checks, and the summary at the end.

use serde_json::{Value, json};
use sluice_load::counts::Count;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Printed and collected on the way.
pub struct Report {
    started: Instant,
    terminal: bool,
    failures: Vec<String>,
    summary: serde_json::Map<String, Value>,
}

impl Report {
    /// A report that begins now.
    pub fn new() -> Self {
        Report {
            started: Instant::now(),
            terminal: std::io::stdout().is_terminal(),
            failures: Vec::new(),
            summary: serde_json::Map::new(),
        }
    }

    /// A step begins or is done.
    pub fn step(&self, text: &str) {
        if self.terminal {
            sluice_print::out!("\r\x1b[K");
        }
        sluice_print::outln!("[{:6.1} s] {text}", self.started.elapsed().as_secs_f64());
    }

    /// Shows progress: a single line, overwritten on a terminal.
    pub fn progress(&self, text: &str) {
        if self.terminal {
            sluice_print::out!("\r\x1b[K           {text}");
            // Progress that cannot be shown is no reason to stop.
            let _ = std::io::stdout().flush();
        }
    }

    /// Notes a value for the summary.
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.summary.insert(name.into(), value.into());
    }

    /// Two numbers must agree.
    pub fn agree(&mut self, what: &str, left: Count, right: Count) {
        let mark = if left == right { "ok" } else { "DIFFERENT" };
        self.step(&format!("  {mark:<9} {what}: {left} = {right}"));
        if left != right {
            self.failures.push(format!("{what}: {left} is not {right}"));
        }
    }

    /// Something must be so.
    pub fn check(&mut self, what: &str, so: bool) {
        self.step(&format!("  {:<9} {what}", if so { "ok" } else { "FAILED" }));
        if !so {
            self.failures.push(what.into());
        }
    }

    /// Polls until `level` returns true, and returns the time taken. `None` after `patience`.
    pub fn wait_for(
        &self,
        patience: Duration,
        mut level: impl FnMut() -> anyhow::Result<(bool, String)>,
    ) -> anyhow::Result<Option<Duration>> {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            let (so, text) = level()?;
            self.progress(&text);
            if so {
                return Ok(Some(begin.elapsed()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(None)
    }

    /// Writes the summary. Whether every check held.
    pub fn finish(mut self, path: &Path) -> anyhow::Result<bool> {
        let good = self.failures.is_empty();
        self.note("passed", good);
        self.note("failures", json!(self.failures));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, serde_json::to_string_pretty(&Value::Object(self.summary.clone()))?)?;
        self.step(&format!("summary: {}", path.display()));
        for failure in &self.failures {
            sluice_print::errln!("demo: {failure}");
        }
        Ok(good)
    }
}
