//! Commands of the operational mode, alone or in the interactive shell.
//!
//! The interactive shell is two threads: the reader blocks for lines, and the main thread talks to the router and never
//! blocks. So an editor's lease is renewed while an operator thinks, and completion asks the router without a second
//! connection.

mod history;
mod programs;
mod reader;
mod state;

use crate::command_line::complete::Completion;
use crate::commands;
use crate::configuration::one_shot;
use crate::connection::connect::block_on;
use crate::connection::flags::Flags;
use crate::connection::session::Session;
use crate::output::{Failure, Output, Wanted, counted};
use reader::Ask;
use sluice_cli::{Filters, Line, Misread, quoted, split};
use state::{State, Verdict};
use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

/// Carries out a command, with the flags taken from its words.
pub fn one_command(flags: Flags, words: Vec<String>) -> ExitCode {
    let wanted = flags.wanted;
    let fail = |failure: Failure| crate::output::fail(&failure, wanted.json);
    let line = line_of(&words);
    let session = Session::new(flags.clone());
    let done = block_on(async {
        let mut grammar = crate::command_line::front::grammar();
        if matches!(grammar.read(&line.texts()), Err(Misread::Unknown { .. } | Misread::Incomplete { .. })) {
            // A package of the router may know more.
            grammar = session.grammar().await;
        }
        let read = grammar.read(&line.texts()).map_err(Failure::usage)?;
        if read.command.id == "configure" && one_shot::wants_shell(&read.values) && !wanted.json {
            let mode = crate::configuration::configure::mode(
                &read.values,
                sluice_xrl::idl::manager::v1::EditMode::Shared,
            );
            return Ok(Err(mode));
        }
        let streams = ["monitor", "configure", "doctor", "rollback"].contains(&read.command.id.as_str());
        let wanted = Wanted { no_pager: wanted.no_pager || streams || flags.watch.is_some(), ..wanted };
        loop {
            let filters = Filters::read(&line.filters).map_err(Failure::usage)?;
            let status =
                printed(wanted, filters, async |out| commands::run(&session, &read, out).await).await;
            let Some(every) = flags.watch else { return Ok(Ok(status)) };
            if status != 0 && status != one_shot::CHANGES {
                return Ok(Ok(status));
            }
            tokio::time::sleep(every).await;
            if std::io::stdout().is_terminal() && !wanted.json {
                sluice_print::out!("\x1b[H\x1b[2J");
            }
        }
    });
    match done {
        Ok(Ok(Ok(status))) => ExitCode::from(status),
        Ok(Ok(Err(mode))) => run(flags, Some(mode)),
        Ok(Err(failure)) | Err(failure) => fail(failure),
    }
}

/// Opens an output, lets `act` write, reports an error, and closes the output. Returns the exit status.
async fn printed(
    wanted: Wanted,
    filters: Filters,
    act: impl AsyncFnOnce(&mut Output) -> Result<u8, Failure>,
) -> u8 {
    let mut out = Output::open(wanted, filters);
    let status = match act(&mut out).await {
        Ok(status) => status,
        Err(failure) => {
            out.fail(&failure);
            failure.status
        }
    };
    out.close();
    status
}

/// Returns the words of a Unix shell as a line: a word beginning with `|` begins a filter.
fn line_of(words: &[String]) -> Line {
    let texts: Vec<String> =
        words.iter().map(|w| if w.starts_with('|') { w.clone() } else { quoted(w) }).collect();
    split(&texts.join(" "))
}

/// Runs the interactive shell, from the configuration mode if `mode` is given. Lines of a pipe are carried out in
/// sequence, up to the first failing line.
pub fn run(flags: Flags, mode: Option<sluice_xrl::idl::manager::v1::EditMode>) -> ExitCode {
    let json = flags.wanted.json;
    let done = block_on(async {
        let mut state = State::new(Session::new(flags));
        if let Some(mode) = mode {
            state.configure(mode).await?;
        }
        match std::io::stdin().is_terminal() {
            true => interactive(&mut state).await,
            false => piped(&mut state).await,
        }
    });
    match done {
        Ok(Ok(status)) => ExitCode::from(status),
        Ok(Err(failure)) | Err(failure) => crate::output::fail(&failure, json),
    }
}

async fn piped(state: &mut State) -> Result<u8, Failure> {
    let mut lines = std::io::stdin().lock().lines();
    while let Some(line) = lines.next() {
        let line = line.map_err(|e| Failure::io("standard input", &e))?;
        match state.line(&line).await {
            Verdict::Stay(0 | one_shot::CHANGES) => {}
            Verdict::Stay(status) => {
                state.leave().await;
                return Ok(status);
            }
            Verdict::Text => {
                let rest: Result<Vec<String>, _> = lines.by_ref().collect();
                let rest = rest.map_err(|e| Failure::io("standard input", &e))?;
                let status = state.text(Some(rest.join("\n"))).await;
                state.leave().await;
                return Ok(status);
            }
            Verdict::Quit => break,
        }
    }
    state.leave().await;
    Ok(0)
}

async fn interactive(state: &mut State) -> Result<u8, Failure> {
    let (reader, mut asked) = reader::start();
    sluice_print::outln!(
        "sluice {}: `?` lists what may follow, Tab completes, `help` explains more",
        env!("CARGO_PKG_VERSION")
    );
    reader.prompt(state.prompt().await);
    let mut renewal = tokio::time::interval(std::time::Duration::from_secs(5));
    loop {
        let ask = tokio::select! {
            ask = asked.recv() => ask,
            _ = renewal.tick() => {
                state.renew().await;
                continue;
            }
        };
        match ask {
            Some(Ask::Complete(text)) => reader.answer(state.complete(&text).await),
            Some(Ask::Help(text)) => {
                state.help(&text).await;
                reader.prompt(state.prompt().await);
            }
            Some(Ask::Lines(lines)) => match carry_out(state, &reader, &lines).await {
                Verdict::Quit => break,
                Verdict::Text => {
                    sluice_print::outln!(
                        "[Ctrl-D at the beginning of a line ends the text, Ctrl-C cancels it]"
                    );
                    reader.text();
                }
                Verdict::Stay(_) => reader.prompt(state.prompt().await),
            },
            Some(Ask::Text(text)) => {
                state.text(text).await;
                reader.prompt(state.prompt().await);
            }
            None => break,
        }
    }
    state.farewell().await;
    state.leave().await;
    Ok(0)
}

/// Carries out lines entered together, up to the first failing line.
async fn carry_out(state: &mut State, reader: &reader::Reader, lines: &[String]) -> Verdict {
    for (index, line) in lines.iter().enumerate() {
        reader.remember(line, state.may_be_kept(line).await);
        let verdict = tokio::select! {
            verdict = state.line(line) => verdict,
            _ = tokio::signal::ctrl_c() => {
                sluice_print::errln!("interrupted");
                Verdict::Stay(1)
            }
        };
        match verdict {
            Verdict::Stay(0 | one_shot::CHANGES) => {}
            Verdict::Stay(status) => {
                let behind = lines.len() - index - 1;
                if behind > 0 {
                    sluice_print::errln!(
                        "sluice: stopped at line {} of {} (`{}`); {} not carried out",
                        index + 1,
                        lines.len(),
                        one_shot::shown(line),
                        counted(behind as u64, "line behind it", "lines behind it"),
                    );
                }
                if line.trim_end().ends_with('{') {
                    sluice_print::errln!("sluice: text in braces is taken by `load merge terminal`");
                }
                reader.stop();
                return Verdict::Stay(status);
            }
            // What follows in the paste is the text.
            Verdict::Text if index + 1 < lines.len() => {
                state.text(Some(lines[index + 1..].join("\n"))).await;
                return Verdict::Stay(0);
            }
            other => return other,
        }
    }
    Verdict::Stay(0)
}

/// Prints the possible words with their meanings.
fn print_help(found: &Completion, out: &mut Output) {
    let mut all: Vec<(&str, &str)> =
        found.values.iter().chain(&found.words).map(|c| (c.text.as_str(), c.help.as_str())).collect();
    if found.enter {
        all.push(("<Enter>", "Carry out this command"));
        all.push(("|", "Filter what it prints"));
    }
    if let Some(trouble) = &found.trouble {
        out.line(&format!("  {trouble}"));
    } else if all.is_empty() {
        out.line("  nothing can follow");
    }
    let width = all.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0).min(32);
    for (text, help) in all {
        out.line(format!("  {text:<width$}  {help}").trim_end());
    }
}
