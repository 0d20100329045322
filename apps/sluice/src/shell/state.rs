//! The state of the interactive shell: operational mode, or editing a configuration, and the current block.

use super::programs::Program;
use super::{print_help, printed};
use crate::command_line::complete::{Completion, Edited, complete};
use crate::command_line::front;
use crate::commands;
use crate::configuration::configure::{self, Editing, Load, Next, compare, with_minutes};
use crate::configuration::{one_shot, waiting};
use crate::connection::session::Session;
use crate::connection::session::back;
use crate::output::{self, Failure, Output, Wanted, say};
use crate::show::configuration::of_editor;
use sluice_base::printable;
use sluice_cli::spelling::{self, Meaning, Mode};
use sluice_cli::{Filters, Grammar, Line, builtin, split, statement};
use sluice_xrl::idl::manager::v1 as pb;
use std::io::IsTerminal;
use std::time::Duration;

const HELP: &str = "\
`?` lists at any place what may follow, Tab completes it. Words may be abbreviated.

  show ...             what the router does
  monitor              what happens, as it happens
  configure            changes the configuration: set, delete, edit, compare, commit, rollback
  clear, request       have the router do something
  watch SECONDS ...    a command every so often        ping, traceroute   this host's programs
  restart, call, ...   the programs of `sluice --help`
  quit                 leaves

Behind a command: | match RE, | except RE, | begin RE, | count, | first N, | last N, | json, | set, | no-more.";

const CONFIGURATION_HELP: &str = "\
  set PATH VALUE       sets a value, or adds a block      delete PATH   takes it out
  edit PATH, up, top   go into blocks and out of them     show [PATH]   the candidate
  compare              what differs from what runs        rollback [N]  what ran N commits ago; `discard`: drop all changes
  commit               makes it run; commit check, commit comment TEXT, commit confirmed MINUTES, commit confirm, commit and-quit
  load merge|replace|set FILE, or `terminal` to paste a text; save FILE; run COMMAND, exit
  update               moves a private candidate onto what runs; update mine|theirs [PATH] where others changed the same

`?` lists at any place what may follow.";

/// The next step after a line.
pub enum Verdict {
    /// Read the next line; the current line ended with the given status.
    Stay(u8),
    /// Read a text up to its end, for [`State::text`].
    Text,
    /// The shell is left.
    Quit,
}

/// The state of the shell.
pub struct State {
    session: Session,
    /// The mode of loading the next text.
    load: Option<Load>,
    editing: Option<(Editing, pb::EditMode)>,
}

impl State {
    /// Looking.
    pub fn new(session: Session) -> Self {
        State { session, load: None, editing: None }
    }

    /// Goes into the configuration mode.
    pub async fn configure(&mut self, mode: pb::EditMode) -> Result<(), Failure> {
        let editing = Editing::open(&self.session, mode).await?;
        editing.greeting.iter().for_each(|line| say(line));
        self.editing = Some((editing, mode));
        Ok(())
    }

    /// Returns the prompt of the next line, with the router's present name and the deadline of a commit that
    /// waits for its confirmation.
    pub async fn prompt(&self) -> String {
        let present = self.session.present().await;
        let name = present.host_name.map(|name| printable(&name).into_owned());
        let name = name.unwrap_or_else(|| "sluice".into());
        let waiting = waiting::prompt(present.unconfirmed_until_unix_ms);
        match &self.editing {
            None => format!("{waiting}{name}> "),
            Some((editing, _)) => {
                let path = editing.path();
                let path = if path.is_empty() { String::new() } else { format!(" {}", path.join(" ")) };
                format!("{waiting}[edit{path}]\n{name}# ")
            }
        }
    }

    /// Renews the editor's lease.
    pub async fn renew(&mut self) {
        let Some((editing, _)) = &self.editing else { return };
        if let Err(failure) = editing.renew().await {
            output::complain(&format!("\nsluice: editing has ended: {}", failure.message));
            self.editing = None;
        }
    }

    /// Names the commit that waits for its confirmation, before the shell or the configuration mode ends.
    pub async fn farewell(&self) {
        if let Ok(Some(open)) = waiting::commit(&self.session).await {
            say(&waiting::text(&open));
        }
    }

    /// Ends editing.
    pub async fn leave(&mut self) {
        if let Some((editing, _)) = self.editing.take() {
            editing.close().await;
        }
    }

    /// Takes the text requested by [`Verdict::Text`]; `None` if canceled. Returns the exit status.
    pub async fn text(&mut self, text: Option<String>) -> u8 {
        let (Some(load), Some((editing, _))) = (self.load.take(), &self.editing) else { return 0 };
        let Some(text) = text else {
            sluice_print::errln!("sluice: canceled, nothing was loaded");
            return 1;
        };
        match editing.load_text(&self.session, load, text, "the text").await {
            Ok(()) => 0,
            Err(failure) => {
                complain(&failure);
                failure.status
            }
        }
    }

    /// Returns the completions of a line.
    pub async fn complete(&self, text: &str) -> Completion {
        let edited = self.editing.as_ref().map(|(e, _)| Edited { editor: Some(e.editor), path: e.path() });
        let mut found = complete(&self.session, edited.as_ref(), text).await;
        if edited.is_none() {
            let offer = Grammar { commands: builtin::shell_only() }.offer(text);
            if split(text).words.len() <= usize::from(split(text).open) {
                found.words.extend(offer.words);
                let tools = front::tools().into_iter().filter(|tool| tool.text.starts_with(&offer.partial));
                found.words.extend(tools);
            }
        }
        found.words.sort();
        found
    }

    /// Prints what may follow a line.
    pub async fn help(&self, text: &str) {
        let found = self.complete(text).await;
        let wanted = Wanted { json: false, ..self.session.flags.wanted };
        let mut out = Output::open(wanted, Filters::default());
        print_help(&found, &mut out);
        out.close();
    }

    /// Returns true if the history may keep a line: false for a line with a secret.
    pub async fn may_be_kept(&self, text: &str) -> bool {
        let mut words = split(text).texts();
        words.retain(|word| word != "inactive:");
        let Some(at) = words.iter().position(|w| w == "set" || w == "delete") else { return true };
        let suspicious = words.iter().any(|w| ["password", "secret", "key"].iter().any(|s| w.contains(s)));
        let path = self.editing.as_ref().map(|(e, _)| e.path()).unwrap_or_default();
        match self.session.schema().await {
            Ok(schema) => {
                !suspicious && !statement::is_secret(&schema, &[path, words[at + 1..].to_vec()].concat())
            }
            Err(_) => !suspicious,
        }
    }

    /// Carries out a line.
    pub async fn line(&mut self, text: &str) -> Verdict {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Verdict::Stay(0);
        }
        let line = with_minutes(split(text));
        let filters = match Filters::read(&line.filters) {
            Ok(filters) => filters,
            Err(error) => return complain(&Failure::usage(error)),
        };
        let verdict = match self.editing.is_some() {
            true => self.edit_line(&line, filters).await,
            false => self.operational_line(&line, filters).await,
        };
        match verdict {
            Ok(verdict) => verdict,
            Err(failure) => {
                if failure.is_without_router() {
                    // Perhaps another router runs by the time of the next line.
                    self.session.forget();
                }
                complain(&failure)
            }
        }
    }

    async fn operational_line(&mut self, line: &Line, filters: Filters) -> Result<Verdict, Failure> {
        if line.unclosed {
            return Err(Failure::usage("a quote is not closed"));
        }
        let meant = match spelling::meaning(
            Mode::Operational,
            &line.texts(),
            &crate::packages::commands::spellings(),
        ) {
            Some(Meaning::Needless(why)) => {
                sluice_print::outln!("{why}");
                return Ok(Verdict::Stay(0));
            }
            Some(Meaning::Here(what)) => return Err(Failure::usage(format!("here: {what}"))),
            Some(Meaning::Words(words)) => Some(Line { words: words_of(&words), ..line.clone() }),
            None => None,
        };
        let line = meant.as_ref().unwrap_or(line);
        let wanted = self.session.flags.wanted;
        if line.words.first().is_some_and(|first| front::is_tool(&first.text)) {
            let program = Program::own(&self.session.flags.run_dir, line.texts())?;
            return Ok(Verdict::Stay(printed(wanted, filters, async |out| program.run(out).await).await));
        }
        let mut grammar = self.session.grammar().await;
        grammar.commands.extend(builtin::shell_only());
        let read = grammar.read(&line.texts()).map_err(Failure::usage)?;
        match read.command.id.as_str() {
            "quit" | "exit" => return Ok(Verdict::Quit),
            "watch" => {
                let every = Duration::from_secs(read.values.number("seconds").unwrap_or_default().max(1));
                return self.watch(every, read.values.all("command"), line).await;
            }
            name @ ("ping" | "traceroute") => {
                let program = Program::of_host(name, read.values.all("words"));
                return Ok(Verdict::Stay(printed(wanted, filters, async |out| program.run(out).await).await));
            }
            "help" => {
                sluice_print::outln!("{HELP}");
                return Ok(Verdict::Stay(0));
            }
            "configure" if read.values.all("statements").is_empty() => {
                let mode = configure::mode(&read.values, pb::EditMode::Shared);
                self.configure(mode).await?;
                return Ok(Verdict::Stay(0));
            }
            _ => {}
        }
        let wanted = self.wanted(&read.command.id);
        let session = &self.session;
        let status = printed(wanted, filters, async |out| {
            let done = commands::run(session, &read, out).await;
            if done.as_ref().is_err_and(Failure::is_without_router) {
                session.forget();
            }
            done
        });
        Ok(Verdict::Stay(status.await))
    }

    /// Carries a command out every so often, until it fails or is interrupted.
    async fn watch(&mut self, every: Duration, words: &[String], line: &Line) -> Result<Verdict, Failure> {
        let inner = Line { words: words_of(words), ..line.clone() };
        loop {
            if std::io::stdout().is_terminal() {
                sluice_print::out!("\x1b[H\x1b[2J");
            }
            let filters = Filters::read(&inner.filters).map_err(Failure::usage)?;
            match Box::pin(self.operational_line(&inner, filters)).await? {
                Verdict::Stay(0 | one_shot::CHANGES) => tokio::time::sleep(every).await,
                other => return Ok(other),
            }
        }
    }

    fn wanted(&self, command: &str) -> Wanted {
        let wanted = self.session.flags.wanted;
        Wanted { no_pager: wanted.no_pager || ["monitor", "doctor", "rollback"].contains(&command), ..wanted }
    }

    async fn edit_line(&mut self, line: &Line, filters: Filters) -> Result<Verdict, Failure> {
        let Some((editing, mode)) = &mut self.editing else { return Ok(Verdict::Stay(0)) };
        let wanted = self.session.flags.wanted;
        let mut out = Output::open(wanted, filters);
        let done = editing.run(&self.session, line, &mut out).await;
        let mut status = 0;
        let next = match done {
            Ok((next, value)) => {
                if out.is_json() && !value.is_null() {
                    out.json(&value);
                }
                next
            }
            Err(failure) => {
                out.fail(&failure);
                status = failure.status;
                Next::Stay
            }
        };
        out.close();
        match next {
            Next::Stay => {}
            Next::Text(load) => {
                self.load = Some(load);
                return Ok(Verdict::Text);
            }
            Next::Help => sluice_print::outln!("{CONFIGURATION_HELP}"),
            Next::Run(words) => {
                let inner =
                    Line { words: words_of(&words), filters: line.filters.clone(), ..Line::default() };
                let filters = Filters::read(&inner.filters).map_err(Failure::usage)?;
                return Box::pin(self.run_operational(&inner, filters)).await;
            }
            Next::Leave => {
                let client = self.session.configuration().await?;
                let sink: Box<dyn std::io::Write> = Box::new(std::io::sink());
                let mut nowhere = Output::into_sink(Wanted { json: true, ..wanted }, sink);
                let differs = compare(&client, back(0), of_editor(editing.editor), &mut nowhere).await;
                let changes = differs.is_ok_and(|value| value["changes"] != 0);
                if changes && *mode != pb::EditMode::Shared {
                    return Err(Failure::failed("there are changes: `commit` them, or `discard` them first"));
                }
                if changes {
                    sluice_print::outln!("the shared candidate keeps the changes that were not committed");
                }
                self.farewell().await;
                self.leave().await;
            }
        }
        Ok(Verdict::Stay(status))
    }

    async fn run_operational(&mut self, line: &Line, filters: Filters) -> Result<Verdict, Failure> {
        let grammar = self.session.grammar().await;
        let read = grammar.read(&line.texts()).map_err(Failure::usage)?;
        if read.command.id == "configure" {
            return Err(Failure::usage("you are in the configuration mode already"));
        }
        let session = &self.session;
        let wanted = self.wanted(&read.command.id);
        let status = printed(wanted, filters, async |out| commands::run(session, &read, out).await).await;
        Ok(Verdict::Stay(if status == one_shot::CHANGES { 0 } else { status }))
    }
}

fn words_of(texts: &[String]) -> Vec<sluice_cli::Word> {
    texts.iter().map(|text| sluice_cli::Word { text: text.clone(), start: 0 }).collect()
}

fn complain(failure: &Failure) -> Verdict {
    output::complain(&format!("sluice: {}", failure.text()));
    Verdict::Stay(failure.status)
}
