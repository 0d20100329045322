//! Changes of the configuration by a single command of a Unix shell. After any error nothing is committed.

use crate::configuration::configure::{self, Editing, Next, Words, compare, with_minutes};
use crate::connection::session::Session;
use crate::connection::session::back;
use crate::output::{Failure, Output, describe};
use crate::show::configuration::shared;
use serde_json::{Value, json};
use sluice_cli::{Values, quoted, split};
use sluice_xrl::idl::manager::v1 as pb;
use std::io::IsTerminal;

/// The exit status for "there are changes".
pub const CHANGES: u8 = 10;

/// `configure STATEMENT...`, or with the statements on standard input.
pub async fn configure(session: &Session, values: &Values, out: &mut Output) -> Result<u8, Failure> {
    let given = values.all("statements");
    let lines = match given.is_empty() {
        true => {
            let text = std::io::read_to_string(std::io::stdin());
            text.map_err(|e| Failure::io("standard input", &e))?.lines().map(String::from).collect()
        }
        false => statements(given),
    };
    // In private: what a script that fails has done by then is in nobody's way.
    let mut editing = Editing::open(session, configure::mode(values, pb::EditMode::Private)).await?;
    let done = carry_out(session, &mut editing, &lines, out).await;
    editing.close().await;
    let results = done?;
    if out.is_json() {
        describe(out, "configure");
        out.json(&json!({ "results": results }));
    }
    Ok(0)
}

/// Splits arguments into statements: each argument with a blank is a statement; words without a blank form a statement
/// up to the next `;`.
fn statements(given: &[String]) -> Vec<String> {
    let whole = given.len() == 1 || given[0].contains(char::is_whitespace);
    if whole {
        return given.iter().flat_map(|g| split_at_semicolons(g)).collect();
    }
    let mut lines = vec![String::new()];
    for word in given {
        let (word, ends) = match word.strip_suffix(';') {
            Some(word) => (word, true),
            None => (word.as_str(), false),
        };
        if let Some(line) = lines.last_mut().filter(|_| !word.is_empty()) {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&quoted(word));
        }
        if ends {
            lines.push(String::new());
        }
    }
    lines
}

/// A line of several statements with `;` between them, outside of quotes.
fn split_at_semicolons(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut in_quotes, mut escaped) = (false, false);
    for c in line.chars() {
        match c {
            ';' if !in_quotes => {
                parts.push(String::new());
                continue;
            }
            '"' if !escaped => in_quotes = !in_quotes,
            _ => {}
        }
        escaped = c == '\\' && in_quotes && !escaped;
        parts.last_mut().expect("begun with one").push(c);
    }
    parts
}

async fn carry_out(
    session: &Session,
    editing: &mut Editing,
    lines: &[String],
    out: &mut Output,
) -> Result<Vec<Value>, Failure> {
    let mut results = Vec::new();
    let mut uncommitted = false;
    let mut renewed = std::time::Instant::now();
    for (number, text) in lines.iter().enumerate() {
        let text = text.trim().trim_end_matches(';');
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if renewed.elapsed() > editing.lease / 3 {
            editing.renew().await?;
            renewed = std::time::Instant::now();
        }
        let at = |failure: Failure| Failure {
            message: format!("statement {} (`{}`): {}", number + 1, shown(text), failure.message),
            ..failure
        };
        let line = with_minutes(split(text));
        let verb = line.words.first().map(|w| w.text.clone()).unwrap_or_default();
        let (next, value) = editing.run(session, &line, out).await.map_err(at)?;
        uncommitted = match verb.as_str() {
            "commit" => false,
            "show" | "compare" | "save" | "edit" | "up" | "top" => uncommitted,
            _ => true,
        };
        if !value.is_null() {
            results.push(json!({ "statement": text, "result": value }));
        }
        match next {
            Next::Stay => {}
            Next::Leave => break,
            Next::Text(load) => {
                // The rest of the statements is the text; without any it is on standard input.
                let rest = lines.get(number + 1..).unwrap_or_default().join("\n");
                let text = match rest.is_empty() {
                    true => std::io::read_to_string(std::io::stdin())
                        .map_err(|e| Failure::io("standard input", &e))?,
                    false => rest,
                };
                editing.load_text(session, load, text, "standard input").await.map_err(at)?;
                out.remark("sluice: nothing was committed since the last change; end with `commit`");
                break;
            }
            Next::Run(_) | Next::Help => {
                return Err(at(Failure::usage(
                    "only statements and commands of the configuration are taken here",
                )));
            }
        }
    }
    if uncommitted {
        out.remark("sluice: nothing was committed since the last change; end with `commit`");
    }
    Ok(results)
}

/// Returns a statement in the form for errors: the value of a possible secret is left out.
pub fn shown(text: &str) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let secret = |w: &&str| ["password", "secret", "key"].iter().any(|s| w.contains(s));
    if let Some(at) = words.iter().position(secret).filter(|at| *at + 1 < words.len()) {
        words.truncate(at + 1);
        words.push("...");
    }
    words.join(" ")
}

/// `commit [from-file FILE] [confirmed MINUTES] [comment TEXT] [check]`.
pub async fn commit(session: &Session, values: &Values, out: &mut Output) -> Result<u8, Failure> {
    let file = values.text("from-file");
    let mode = if file.is_some() { pb::EditMode::Private } else { pb::EditMode::Shared };
    let editing = Editing::open(session, mode).await?;
    let done = async {
        if let Some(file) = file {
            let load = configure::Load::Replace { allow_empty: values.has("allow-empty") };
            editing.load(session, load, file).await?;
        }
        if values.has("check") {
            return editing.check(out).await;
        }
        editing.commit_with(Words::of(values, ""), out).await
    };
    let done = done.await;
    editing.close().await;
    let value = done?;
    if out.is_json() {
        out.json(&value);
    }
    Ok(if values.has("check") && value["changes"] != 0 { CHANGES } else { 0 })
}

/// `rollback N`.
pub async fn rollback(session: &Session, values: &Values, out: &mut Output) -> Result<u8, Failure> {
    let number = values.number("revision").unwrap_or(0);
    let client = session.configuration().await?;
    let older = back(u32::try_from(number).unwrap_or(u32::MAX));
    let changes = compare(&client, back(0), older, out).await?["changes"] != 0;
    if changes && !values.has("yes") && !out.is_json() && !is_agreed(number, out)? {
        return Err(Failure::failed("nothing was committed"));
    }
    let mut editing = Editing::open(session, pb::EditMode::Private).await?;
    let done = async {
        editing.run(session, &split(&format!("rollback {number}")), out).await?;
        let otherwise = format!("rollback {number}");
        editing.commit_with(Words::of(values, &otherwise), out).await
    };
    let done = done.await;
    editing.close().await;
    let value = done?;
    if out.is_json() {
        out.json(&value);
    }
    Ok(0)
}

/// Asks at the terminal whether to commit what was just shown. Without a terminal nobody is asked.
fn is_agreed(number: u64, out: &mut Output) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Ok(true);
    }
    out.flush();
    sluice_print::out!("Commit this, which ran {number} commits ago? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| Failure::io("the terminal", &error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// `compare [rollback N]`: compares the shared candidate, or an earlier configuration, with the running configuration.
pub async fn compare_with_running(
    session: &Session,
    values: &Values,
    out: &mut Output,
) -> Result<u8, Failure> {
    let client = session.configuration().await?;
    let value = match values.number("rollback") {
        Some(older) => compare(&client, back(u32::try_from(older).unwrap_or(u32::MAX)), back(0), out).await?,
        None => compare(&client, back(0), shared(), out).await?,
    };
    if out.is_json() {
        out.json(&value);
    }
    Ok(if value["changes"] == 0 { 0 } else { CHANGES })
}

/// Returns true if `configure` without statements means the interactive shell.
pub fn wants_shell(values: &Values) -> bool {
    values.all("statements").is_empty() && std::io::stdin().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_their_statements() {
        for (given, expected) in [
            (vec!["set", "a", "b;", "set", "c", ";", "commit"], vec!["set a b", "set c", "commit"]),
            (vec!["set a b", "commit comment \"x; y\""], vec!["set a b", "commit comment \"x; y\""]),
            (vec!["set a; set b"], vec!["set a", " set b"]),
            (vec!["set", "a", "to the lab"], vec!["set a \"to the lab\""]),
            (vec!["commit"], vec!["commit"]),
        ] {
            let given: Vec<String> = given.into_iter().map(String::from).collect();
            assert_eq!(statements(&given), expected);
        }
        assert_eq!(shown("set x password hunter2"), "set x password ...");
    }
}
