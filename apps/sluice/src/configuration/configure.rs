//! The configuration mode: statements and commands of an editor. The interactive shell and single commands share the
//! mode.

use crate::configuration::effects::{counts, effect_lines, effects_json, element_lines, elements_json};
use crate::configuration::parts::{self, Part};
use crate::configuration::waiting;
use crate::connection::refusal::refused;
use crate::connection::session::Session;
use crate::connection::session::back;
use crate::output::{Failure, Output, Paint, counted, describe};
use crate::show::configuration::{of_editor, print};
use serde_json::{Value, json};
use sluice_cli::spelling::{self, Meaning, Mode};
use sluice_cli::{Line, Values, builtin, quoted, statement};
use sluice_xrl::idl::manager::v1 as pb;
use std::time::Duration;

/// The verbs allowed in a file of statements.
const VERBS: [&str; 5] = ["set", "delete", "deactivate", "activate", "annotate"];
/// The word before an inactive statement.
const INACTIVE: &str = "inactive:";

/// Minutes to confirm a commit in, where only `confirmed` is said.
const CONFIRM_MINUTES: u64 = 10;
/// The longest wait for a commit: every component has to agree.
const COMMIT_DEADLINE: Duration = Duration::from_secs(120);

/// The next step after a command of the configuration mode.
pub enum Next {
    /// Read the next line.
    Stay,
    /// The mode is left.
    Leave,
    /// A command of the operational mode is wanted.
    Run(Vec<String>),
    /// Read a text, to be loaded in the given mode.
    Text(Load),
    /// Help is wanted.
    Help,
}

/// The mode of loading a text into the candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// A configuration in braces, merged into the candidate.
    Merge,
    /// A configuration in braces, in place of the candidate.
    Replace {
        /// True if a text without statements is meant so.
        allow_empty: bool,
    },
    /// Statements beginning with `set` or `delete`, a line each.
    Set,
}

/// An editing session.
pub struct Editing {
    pub(super) client: pb::ConfigurationClient,
    /// The editor's number.
    pub editor: u64,
    /// The interval within which the editor must renew its lease.
    pub lease: Duration,
    /// The current block, entered by `edit`.
    pub blocks: Vec<Vec<String>>,
    /// The depths before each `edit`, for `exit`.
    depths: Vec<usize>,
    /// Messages from the session's start.
    pub greeting: Vec<String>,
}

/// Returns a mode by its word.
pub fn mode(values: &Values, otherwise: pb::EditMode) -> pb::EditMode {
    match (values.has("shared"), values.has("private"), values.has("exclusive")) {
        (true, ..) => pb::EditMode::Shared,
        (_, true, _) => pb::EditMode::Private,
        (.., true) => pb::EditMode::Exclusive,
        _ => otherwise,
    }
}

/// Returns the user's name for the revision: from the system, not from the environment; behind `sudo` the caller's.
fn user() -> String {
    let uid = nix::unistd::getuid();
    let called_by = std::env::var("SUDO_USER").ok().filter(|_| uid.is_root());
    let known = || nix::unistd::User::from_uid(uid).ok().flatten().map(|user| user.name);
    called_by.or_else(known).unwrap_or_else(|| format!("uid {uid}"))
}

fn mode_name(mode: pb::EditMode) -> &'static str {
    match mode {
        pb::EditMode::Shared => "the shared candidate",
        pb::EditMode::Private => "a candidate of its own",
        pb::EditMode::Exclusive => "the candidate for itself",
    }
}

impl Editing {
    /// Begins.
    pub async fn open(session: &Session, mode: pb::EditMode) -> Result<Self, Failure> {
        let client = session.configuration().await?;
        let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
        let request = pb::OpenRequest { mode: mode.into(), user: user(), connection };
        let opened = client.open(request).await.map_err(refused)?;
        let mut greeting: Vec<String> = Vec::new();
        if opened.changed && mode != pb::EditMode::Private {
            greeting.push("the candidate has changes already: `compare` shows them".into());
        }
        for other in &opened.editors {
            greeting.push(format!("{} edits {} too", other.user, mode_name(other.mode())));
        }
        let lease = Duration::from_secs(opened.lease_s.max(2).into());
        let open = client.get_revisions(pb::GetRevisionsRequest {}).await?.unconfirmed;
        greeting.extend(open.as_ref().map(waiting::text));
        Ok(Editing { client, editor: opened.editor, lease, blocks: Vec::new(), depths: Vec::new(), greeting })
    }

    /// Renews the editor's lease.
    pub async fn renew(&self) -> Result<(), Failure> {
        self.client.renew(pb::RenewRequest { editor: self.editor }).await.map(drop).map_err(refused)
    }

    /// Ends editing. Uncommitted changes stay in the shared candidate, and are lost in a private candidate.
    pub async fn close(&self) {
        // The lease ends it in any case.
        let _ = self.client.close(pb::CloseRequest { editor: self.editor }).await;
    }

    /// Returns the path of the current block.
    pub fn path(&self) -> Vec<String> {
        self.blocks.concat()
    }

    /// Returns the path of words relative to the current block, with abbreviations written out.
    pub(super) async fn whole(&self, session: &Session, words: &[String]) -> Result<Vec<String>, Failure> {
        let mut path = [self.path(), words.to_vec()].concat();
        let schema = session.schema().await?;
        // The word stands in statements as `show configuration | set` prints them, and is none of the schema.
        let marked = path.iter().position(|word| word == INACTIVE);
        marked.into_iter().for_each(|at| drop(path.remove(at)));
        let mut whole = statement::whole(&schema, &path).map_err(|e| Failure {
            path: Some(path.join(" ")),
            ..Failure::new(Failure::CONFIG, "config-invalid", e.to_string())
        })?;
        marked.into_iter().for_each(|at| whole.insert(at, INACTIVE.into()));
        Ok(whole)
    }

    /// Carries out a line. The result is a value for programs; the text for people goes to `out` at once, unless JSON
    /// is wanted.
    pub async fn run(
        &mut self,
        session: &Session,
        line: &Line,
        out: &mut Output,
    ) -> Result<(Next, Value), Failure> {
        if line.unclosed {
            return Err(Failure::usage("a quote is not closed"));
        }
        let grammar = builtin::configuration();
        let words = match spelling::meaning(Mode::Configuration, &line.texts(), &[]) {
            Some(Meaning::Needless(why)) => {
                out.remark(&format!("sluice: {why}"));
                return Ok((Next::Stay, Value::Null));
            }
            Some(Meaning::Here(what)) => return Err(Failure::usage(format!("here: {what}"))),
            Some(Meaning::Words(words)) => words,
            None => line.texts(),
        };
        let read = grammar.read(&words).map_err(Failure::usage)?;
        describe(out, &read.command.id);
        let values = &read.values;
        let mut value = Value::Null;
        match read.command.id.as_str() {
            verb @ ("set" | "delete" | "deactivate" | "activate" | "annotate") => {
                self.edit(session, verb, values.all("path")).await?;
            }
            verb @ ("rename" | "copy") => {
                let form = "an entry and a new key: PATH KEY to KEY";
                self.rearrange(session, verb, &["to"], form, values.all("path")).await?;
            }
            verb @ "insert" => {
                let form = "an entry and a place: PATH KEY before KEY, or PATH KEY after KEY";
                self.rearrange(session, verb, &["before", "after"], form, values.all("path")).await?;
            }
            "edit" => self.enter(session, values.all("path")).await?,
            "up" => drop(self.blocks.pop()),
            "top" => self.top(),
            "show" => {
                let path = self.whole(session, values.all("path")).await?;
                print(session, of_editor(self.editor), path, out).await?;
            }
            "compare" => value = self.compare(values, out).await?,
            "commit" => {
                value = self.commit(values, out).await?;
                if values.has("and-quit") {
                    return Ok((Next::Leave, value));
                }
            }
            "rollback" => self.rollback(values.number("revision").unwrap_or(0)).await?,
            "discard" => self.rollback(0).await?,
            "load merge" => return self.load_from(session, Load::Merge, values).await,
            "load replace" => {
                let load = Load::Replace { allow_empty: values.has("allow-empty") };
                return self.load_from(session, load, values).await;
            }
            "load set" => return self.load_from(session, Load::Set, values).await,
            "update" => value = self.update(session, pb::Decision::None, &[], out).await?,
            "update mine" => {
                value = self.update(session, pb::Decision::Mine, values.all("path"), out).await?;
            }
            "update theirs" => {
                value = self.update(session, pb::Decision::Theirs, values.all("path"), out).await?;
            }
            "save" => value = self.save(values.text("file").unwrap_or_default(), out).await?,
            "run" => return Ok((Next::Run(values.all("command").to_vec()), value)),
            "help" => return Ok((Next::Help, value)),
            "exit" => match self.depths.pop() {
                Some(depth) => self.blocks.truncate(depth),
                None => return Ok((Next::Leave, value)),
            },
            _ => return Ok((Next::Leave, value)),
        }
        Ok((Next::Stay, value))
    }

    fn top(&mut self) {
        self.blocks.clear();
        self.depths.clear();
    }

    async fn edit(&self, session: &Session, verb: &str, words: &[String]) -> Result<(), Failure> {
        let path = self.path_of(session, verb, words).await?;
        let words: Vec<String> = path.iter().map(|w| quoted(w)).collect();
        let statements = vec![format!("{verb} {}", words.join(" "))];
        let edited = self.client.edit(pb::EditRequest { editor: self.editor, statements }).await;
        let Err(error) = edited else { return Ok(()) };
        let failure = refused(error);
        let schema = session.schema().await?;
        let plain: Vec<String> = path.iter().filter(|word| *word != INACTIVE).cloned().collect();
        match path.split_last().filter(|_| statement::is_secret(&schema, &plain)) {
            // Of a secret nothing is repeated, not even in what is wrong with it.
            Some((_, before)) => Err(Failure {
                path: Some(before.join(" ")),
                message: format!("the value of `{}` is not valid", before.join(" ")),
                place: None,
                ..failure
            }),
            None => Err(Failure { path: failure.path.clone().or_else(|| Some(path.join(" "))), ..failure }),
        }
    }

    /// Returns a statement's path with every word written out. The path of an annotation is followed by its text.
    async fn path_of(&self, session: &Session, verb: &str, words: &[String]) -> Result<Vec<String>, Failure> {
        match (verb, words) {
            ("annotate", [path @ .., text]) if !path.is_empty() => {
                Ok([self.whole(session, path).await?, vec![text.clone()]].concat())
            }
            ("annotate", _) => {
                Err(Failure::usage("`annotate` needs a path and a text in quotes: `annotate PATH \"TEXT\"`"))
            }
            _ => self.whole(session, words).await,
        }
    }

    /// Renames, copies or moves an entry of a list: one of the words `between` stands before the last key.
    async fn rearrange(
        &self,
        session: &Session,
        verb: &str,
        between: &[&str],
        form: &str,
        words: &[String],
    ) -> Result<(), Failure> {
        let to = words.iter().rposition(|word| between.contains(&word.as_str()));
        let to = to.filter(|at| *at > 0 && at + 1 < words.len());
        let to = to.ok_or_else(|| Failure::usage(format!("`{verb}` needs {form}")))?;
        let path = self.whole(session, &words[..to]).await?;
        let words: Vec<String> = path.iter().chain(&words[to..]).map(|word| quoted(word)).collect();
        let statements = vec![format!("{verb} {}", words.join(" "))];
        let edited = self.client.edit(pb::EditRequest { editor: self.editor, statements }).await;
        edited.map(drop).map_err(|error| Failure { path: Some(path.join(" ")), ..refused(error) })
    }

    async fn enter(&mut self, session: &Session, words: &[String]) -> Result<(), Failure> {
        let path = [self.path(), words.to_vec()].concat();
        let schema = session.schema().await?;
        let blocks = statement::blocks(&schema, &path).map_err(Failure::usage)?;
        self.depths.push(self.blocks.len());
        self.blocks = blocks;
        Ok(())
    }

    async fn compare(&self, values: &Values, out: &mut Output) -> Result<Value, Failure> {
        let older = u32::try_from(values.number("rollback").unwrap_or(0)).unwrap_or(u32::MAX);
        compare(&self.client, back(older), of_editor(self.editor), out).await
    }

    async fn rollback(&self, revision: u64) -> Result<(), Failure> {
        let back = u32::try_from(revision).unwrap_or(u32::MAX);
        let request = pb::RollbackRequest { editor: self.editor, back };
        self.client.rollback(request).await.map(drop).map_err(refused)
    }

    async fn load_from(
        &self,
        session: &Session,
        load: Load,
        values: &Values,
    ) -> Result<(Next, Value), Failure> {
        let next = match values.text("file").unwrap_or_default() {
            "terminal" => Next::Text(load),
            file => {
                self.load(session, load, file).await?;
                Next::Stay
            }
        };
        Ok((next, Value::Null))
    }

    /// Puts a file, or the files of a folder, into the candidate. `-` is standard input.
    pub async fn load(&self, session: &Session, load: Load, file: &str) -> Result<(), Failure> {
        self.load_parts(session, load, parts::read(file)?).await
    }

    /// Loads a text into the candidate, atomically; `name` names the text in errors.
    pub async fn load_text(
        &self,
        session: &Session,
        load: Load,
        text: String,
        name: &str,
    ) -> Result<(), Failure> {
        self.load_parts(session, load, vec![Part { name: name.into(), text }]).await
    }

    async fn load_parts(&self, session: &Session, load: Load, parts: Vec<Part>) -> Result<(), Failure> {
        let (mode, allow_empty) = match load {
            Load::Merge => (pb::LoadMode::Merge, false),
            Load::Replace { allow_empty } => (pb::LoadMode::Replace, allow_empty),
            Load::Set => return self.load_statements(session, &parts).await,
        };
        let mut parts = parts.into_iter();
        let Part { name: file, text } = parts.next().unwrap_or_default();
        let more = parts.map(|part| pb::LoadPart { file: part.name, text: part.text }).collect();
        let request =
            pb::LoadRequest { editor: self.editor, mode: mode.into(), text, file, allow_empty, more };
        self.client.load(request).await.map(drop).map_err(refused)
    }

    async fn load_statements(&self, session: &Session, parts: &[Part]) -> Result<(), Failure> {
        let mut statements = Vec::new();
        let lines = parts.iter().flat_map(|part| {
            part.text.lines().enumerate().map(move |(index, line)| (&part.name, index, line))
        });
        for (name, index, line) in lines {
            let line = line.trim().trim_end_matches(';');
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |failure: Failure| Failure {
                message: format!("{name}, line {}: {}", index + 1, failure.message),
                ..failure
            };
            let words = sluice_cli::split(line).texts();
            let (verb, path) = words.split_first().ok_or_else(|| at(Failure::usage("an empty statement")))?;
            if !VERBS.contains(&verb.as_str()) {
                return Err(at(Failure::usage(format!(
                    "`{}` is no statement; a line begins with one of {}",
                    crate::configuration::one_shot::shown(line),
                    VERBS.map(|verb| format!("`{verb}`")).join(", ")
                ))));
            }
            let path = self.path_of(session, verb, path).await.map_err(at)?;
            let path: Vec<String> = path.iter().map(|w| quoted(w)).collect();
            statements.push(format!("{verb} {}", path.join(" ")));
        }
        let edited = self.client.edit(pb::EditRequest { editor: self.editor, statements }).await;
        edited.map(drop).map_err(refused)
    }

    async fn commit(&self, values: &Values, out: &mut Output) -> Result<Value, Failure> {
        if values.has("check") {
            return self.check(out).await;
        }
        self.commit_with(Words::of(values, ""), out).await
    }

    /// Checks the candidate, and reports the effects of a commit.
    pub async fn check(&self, out: &mut Output) -> Result<Value, Failure> {
        let request = pb::CheckRequest { editor: self.editor };
        let call = self.client.clone().with_deadline(COMMIT_DEADLINE);
        let reply = call.check(request).await.map_err(refused)?;
        if !out.is_json() {
            let changes = counted(reply.changes, "change", "changes");
            out.line(&format!("valid; {changes}: {}", counts(&reply.effects)));
            let others = element_lines(&reply.elements).into_iter().chain(reply.absent.iter().cloned());
            effect_lines(&reply.effects).into_iter().chain(others).for_each(|line| out.line(&line));
            for warning in &reply.warnings {
                let text = out.paint(Paint::Bad, &format!("warning: {warning}"));
                out.line(&text);
            }
        }
        Ok(json!({
            "changes": reply.changes, "effects": effects_json(&reply.effects), "warnings": reply.warnings,
            "needs_confirmation": reply.needs_confirmation, "absent": reply.absent,
            "elements": elements_json(&reply.elements),
        }))
    }

    /// Returns the commit that waits for its confirmation.
    pub async fn unconfirmed(&self) -> Result<Option<pb::Unconfirmed>, Failure> {
        Ok(self.client.get_revisions(pb::GetRevisionsRequest {}).await?.unconfirmed)
    }

    /// Commits the candidate.
    pub async fn commit_with(&self, words: Words, out: &mut Output) -> Result<Value, Failure> {
        let Words { comment, minutes, confirms } = words;
        let confirm_within_s = u32::try_from(minutes.saturating_mul(60)).unwrap_or(u32::MAX);
        let request = pb::CommitRequest { editor: self.editor, comment, confirm_within_s, confirms };
        let call = self.client.clone().with_deadline(COMMIT_DEADLINE);
        let open = self.unconfirmed().await?;
        let reply = call.commit(request).await.map_err(refused)?;
        let confirmed = open.filter(|_| reply.changes == 0 || confirms);
        let confirmed = confirmed.map(|open| format!("revision {} is confirmed", open.revision));
        committed(&reply, confirmed.as_deref().unwrap_or("nothing to commit"), out);
        if !out.is_json() && reply.changes > 0 {
            confirmed.iter().for_each(|line| out.line(line));
            if minutes > 0 {
                out.line(&format!(
                    "what ran before runs again in {}{}, unless you `commit` once more",
                    counted(minutes, "minute", "minutes"),
                    waiting::at(reply.unconfirmed_until_unix_ms)
                ));
            }
        }
        Ok(json!({
            "revision": reply.revision, "changes": reply.changes, "effects": effects_json(&reply.effects),
            "took_ms": reply.took_ms, "confirm_within_s": confirm_within_s, "absent": reply.absent,
            "confirmed": reply.confirmed, "elements": elements_json(&reply.elements),
            "unconfirmed_until": waiting::time_or_null(reply.unconfirmed_until_unix_ms),
        }))
    }
}

/// The words of a commit.
pub struct Words {
    /// The comment.
    pub comment: String,
    /// The minutes within which the commit must be confirmed; 0: no confirmation is needed.
    pub minutes: u64,
    /// True if the commit confirms the commit that waits for its confirmation.
    pub confirms: bool,
}

impl Words {
    /// Returns the words of a command line.
    pub fn of(values: &Values, otherwise: &str) -> Self {
        Words {
            comment: values.text("comment").unwrap_or(otherwise).into(),
            minutes: values.number("confirmed").unwrap_or(0),
            confirms: values.has("confirm"),
        }
    }
}

/// Prints the result of a commit, or `nothing` without changes.
fn committed(reply: &pb::CommitReply, nothing: &str, out: &mut Output) {
    if out.is_json() {
        return;
    }
    match reply.changes {
        0 if reply.confirmed > 0 => {
            out.line(&format!("configuration {} of all elements is confirmed", reply.confirmed))
        }
        0 => out.line(nothing),
        n => out.line(&format!(
            "committed as revision {} ({}, {} ms)",
            reply.revision,
            counted(n, "change", "changes"),
            reply.took_ms
        )),
    }
    let others = element_lines(&reply.elements).into_iter().chain(reply.absent.iter().cloned());
    effect_lines(&reply.effects).into_iter().chain(others).for_each(|line| out.line(&line));
}

/// `reload`: has the manager read the configuration file again.
pub async fn reload(session: &Session, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let client = session.configuration().await?.with_deadline(COMMIT_DEADLINE);
    let reply =
        client.reload(pb::ReloadRequest { allow_empty: values.has("allow-empty") }).await.map_err(refused)?;
    committed(&reply, "the configuration file has what runs already", out);
    if out.is_json() {
        out.json(&json!({
            "revision": reply.revision, "changes": reply.changes, "effects": effects_json(&reply.effects),
            "took_ms": reply.took_ms, "absent": reply.absent, "confirmed": reply.confirmed,
            "elements": elements_json(&reply.elements),
        }));
    }
    Ok(())
}

/// Prints the differences, and returns the differences as a value.
pub async fn compare(
    client: &pb::ConfigurationClient,
    from: pb::Which,
    to: pb::Which,
    out: &mut Output,
) -> Result<Value, Failure> {
    let request = pb::CompareRequest { from: Some(from), to: Some(to) };
    let reply = client.compare(request).await.map_err(refused)?;
    if !out.is_json() {
        let text = if out.as_statements() { &reply.set_text } else { &reply.text };
        for line in text.lines() {
            let text = match line.chars().next() {
                Some('+') => out.paint(Paint::Good, line),
                Some('-') => out.paint(Paint::Bad, line),
                _ => line.into(),
            };
            out.line(&text);
        }
    }
    let statements: Vec<&str> = reply.set_text.lines().collect();
    Ok(json!({ "changes": reply.changes, "text": reply.text, "statements": statements }))
}

/// `confirmed` may stand without minutes: it means ten.
pub fn with_minutes(mut line: Line) -> Line {
    let position = line.words.iter().position(|w| w.text == "confirmed");
    let is_commit = line.words.first().is_some_and(|w| w.text.len() >= 4 && "commit".starts_with(&w.text));
    let Some(at) = position.filter(|at| is_commit && *at > 0) else { return line };
    if line.words.get(at + 1).is_none_or(|w| w.text.parse::<u64>().is_err()) {
        let start = line.words[at].start;
        line.words.insert(at + 1, sluice_cli::Word { text: CONFIRM_MINUTES.to_string(), start });
    }
    line
}
