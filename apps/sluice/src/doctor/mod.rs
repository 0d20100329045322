//! `sluice doctor`: checks if the host can run a router, and reports obstacles and remedies.

mod forwarding;
mod host;
mod network;
mod notices;
mod others;
mod router;
mod security;

use crate::connection::session::Session;
use crate::output::{Failure, Output, Paint};
use serde_json::{Value, json};
use std::path::Path;

/// The outcome of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As it should be.
    Ok,
    /// A router runs, but something will be missed.
    Warn,
    /// A router does not run.
    Fail,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The check's stable name.
    pub check: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// The finding in words.
    pub found: String,
    /// The remedy; empty if none is needed.
    pub advice: String,
}

impl Finding {
    /// As it should be.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Finding { check, outcome: Outcome::Ok, found: found.into(), advice: String::new() }
    }

    /// Something will be missed.
    pub fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { check, outcome: Outcome::Warn, found: found.into(), advice: advice.into() }
    }

    /// A router does not run.
    pub fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { check, outcome: Outcome::Fail, found: found.into(), advice: advice.into() }
    }

    fn word(&self) -> &'static str {
        match self.outcome {
            Outcome::Ok => "ok",
            Outcome::Warn => "warn",
            Outcome::Fail => "fail",
        }
    }

    fn json(&self) -> Value {
        let advice = (!self.advice.is_empty()).then_some(&self.advice);
        json!({ "check": self.check, "outcome": self.word(), "found": self.found, "advice": advice })
    }
}

/// Makes every check. Changes nothing.
pub async fn findings(session: &Session) -> Vec<Finding> {
    let run_dir = &session.flags.run_dir;
    let running = router::configuration(session).await;
    let file =
        running.as_ref().filter(|running| !running.file.is_empty()).map(|running| Path::new(&running.file));
    let mut all = host::findings(run_dir, file);
    all.push(router::finding(session).await);
    all.extend(running.as_ref().map(router::of_configuration));
    all.extend(notices::findings(session).await);
    all.extend(security::finding(session).await);
    all.extend(network::findings());
    all.extend(forwarding::findings());
    all.extend(others::findings());
    all
}

/// Returns the findings as a single value.
pub fn value(findings: &[Finding]) -> Value {
    let count = |outcome| findings.iter().filter(|f| f.outcome == outcome).count();
    json!({
        "checks": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        "ok": count(Outcome::Ok), "warn": count(Outcome::Warn), "fail": count(Outcome::Fail),
    })
}

/// Prints every finding; the status is 1 if a finding keeps a router from running.
pub async fn run(session: &Session, out: &mut Output) -> Result<u8, Failure> {
    let findings = findings(session).await;
    if out.is_json() {
        out.json(&value(&findings));
    } else {
        for finding in &findings {
            let word = format!("{:<4}", finding.word());
            let word = match finding.outcome {
                Outcome::Ok => out.paint(Paint::Good, &word),
                _ => out.paint(Paint::Bad, &word),
            };
            out.line(&format!("{word}  {:<14} {}", finding.check, finding.found));
            if !finding.advice.is_empty() {
                out.line(&format!("      {:<14} -> {}", "", finding.advice));
            }
        }
    }
    Ok(u8::from(findings.iter().any(|f| f.outcome == Outcome::Fail)))
}
