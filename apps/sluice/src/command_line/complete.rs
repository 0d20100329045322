//! Completions at the cursor, including names known only to the running router.

use crate::connection::session::Session;
use crate::connection::session::back;
use crate::show::configuration::of_editor;
use sluice_cli::{Candidate, Grammar, Line, Offer, builtin, filters_offer, render, split, statement};
use sluice_xrl::idl::manager::v1 as pb;

/// The state of an editing session needed for completion.
pub struct Edited {
    /// The editor; `None` completes by the running configuration.
    pub editor: Option<u64>,
    /// The current block.
    pub path: Vec<String>,
}

/// The completions of a line.
#[derive(Debug, Default)]
pub struct Completion {
    /// The offset of the word at the cursor, in octets.
    pub start: usize,
    /// The possible words.
    pub words: Vec<Candidate>,
    /// Kinds of the possible values.
    pub values: Vec<Candidate>,
    /// True if the line can end here.
    pub enter: bool,
    /// The reason for an empty list.
    pub trouble: Option<String>,
}

/// Returns the completions at the end of `text`; in the configuration mode while a configuration is edited.
pub async fn complete(session: &Session, edited: Option<&Edited>, text: &str) -> Completion {
    let line = split(text);
    if let Some(filter) = line.filters.last() {
        return filter_completion(filter, &line, text.len());
    }
    let (grammar, edited, skipped) = match edited {
        None => (session.grammar().await, edited, 0),
        Some(edited) => match behind_run(&line) {
            // A command of the operational mode.
            Some(at) => (session.grammar().await, None, at),
            None => (builtin::configuration(), Some(edited), 0),
        },
    };
    if edited.is_none()
        && let Some(at) = behind_configure(&grammar, &text[skipped..])
    {
        return statement_of_one_shot(session, text, skipped + at).await;
    }
    let mut offer = grammar.offer(&text[skipped..]);
    offer.start += skipped;
    fill(session, edited, offer).await
}

/// Returns the offset of the command behind `run`.
fn behind_run(line: &Line) -> Option<usize> {
    let (first, rest) = line.words.split_first()?;
    let is_run = first.text.len() >= 2 && "run".starts_with(first.text.as_str());
    match rest.first() {
        Some(word) => is_run.then_some(word.start),
        None => (is_run && !line.open).then_some(first.start + first.text.len() + 1),
    }
}

/// Returns the offset of the last statement behind `configure`.
fn behind_configure(grammar: &Grammar, text: &str) -> Option<usize> {
    let line = split(text);
    let read = grammar.read(&line.texts()).ok().filter(|r| r.command.id == "configure")?;
    let modes = ["shared", "private", "exclusive"];
    let begun = line.words.iter().skip(1).find(|w| !modes.contains(&w.text.as_str()))?;
    let after = line.words.iter().rev().find(|w| w.text.ends_with(';') && w.start >= begun.start);
    // The first word of a statement is offered by itself only once it is begun.
    let _ = read;
    Some(after.map_or(begun.start, |w| w.start + w.text.len()))
}

async fn statement_of_one_shot(session: &Session, text: &str, at: usize) -> Completion {
    let edited = Edited { editor: None, path: Vec::new() };
    let mut offer = builtin::configuration().offer(&text[at..]);
    offer.start += at;
    fill(session, Some(&edited), offer).await
}

fn filter_completion(filter: &[sluice_cli::Word], line: &Line, end: usize) -> Completion {
    let (before, start, partial) = match filter.split_last() {
        Some((last, before)) if line.open => (before, last.start, last.text.as_str()),
        _ => (filter, end, ""),
    };
    let (values, words): (Vec<Candidate>, Vec<Candidate>) =
        filters_offer(before).into_iter().partition(|c| c.text.starts_with('<'));
    let words = words.into_iter().filter(|c| c.text.starts_with(partial)).collect();
    Completion { start, words, values, enter: !before.is_empty(), trouble: None }
}

async fn fill(session: &Session, edited: Option<&Edited>, offer: Offer) -> Completion {
    let partial = offer.partial.clone();
    let mut found = Completion {
        start: offer.start,
        words: offer.words,
        values: offer.values,
        enter: offer.enter,
        trouble: None,
    };
    for live in &offer.live {
        let values = session.live(live).await;
        found.words.extend(values.into_iter().map(|value| Candidate::new(live.word(&partial, &value), "")));
    }
    if offer.revision {
        found.words.extend(revisions(session).await);
    }
    if offer.policy {
        found.words.extend(policies(session, back(0)).await);
    }
    if offer.file {
        found.words.extend(files(&partial));
    }
    if let Some((words, values)) = offer.statement {
        follow_statement(session, edited, &words, values, &mut found).await;
    }
    found.words.retain(|c| c.text.starts_with(&partial));
    found
}

async fn follow_statement(
    session: &Session,
    edited: Option<&Edited>,
    words: &[String],
    values: bool,
    found: &mut Completion,
) {
    let schema = match session.schema().await {
        Ok(schema) => schema,
        Err(failure) => {
            found.trouble = Some(failure.message);
            return;
        }
    };
    let path = [edited.map(|e| e.path.clone()).unwrap_or_default(), words.to_vec()].concat();
    let following = match statement::following(&schema, &path, values) {
        Ok(following) => following,
        Err(error) => {
            found.trouble = Some(error.to_string());
            return;
        }
    };
    found.words.extend(following.words);
    found.values.extend(following.values);
    found.enter = following.enter || (!values && words.is_empty());
    let which = edited.and_then(|e| e.editor).map_or(back(0), of_editor);
    if following.policy {
        found.words.extend(policies(session, which).await);
    }
    let entries = match (following.entries, following.existing) {
        (Some((list, key)), _) => keys(session, which, &list, key, &path).await,
        (None, Some(list)) => keys(session, which, &list, 0, &path).await,
        (None, None) => Vec::new(),
    };
    let known: Vec<String> = found.words.iter().map(|c| c.text.clone()).collect();
    let fresh = entries.into_iter().filter(|e| !known.contains(e));
    found.words.extend(fresh.map(|e| Candidate::new(e, "")));
}

/// Returns the names of the policies in a configuration.
pub async fn policies(session: &Session, which: pb::Which) -> Vec<Candidate> {
    let list = ["policy", "policy-statement"].map(String::from);
    let names = keys(session, which, &list, 0, &list).await;
    names.into_iter().map(|name| Candidate::new(name, "")).collect()
}

/// Returns the existing keys of a list's entries: the word in the key's place of each statement below the list.
pub async fn keys(
    session: &Session,
    which: pb::Which,
    list: &[String],
    key: usize,
    path: &[String],
) -> Vec<String> {
    let Ok(client) = session.configuration().await else { return Vec::new() };
    let request =
        pb::ShowRequest { which: Some(which), path: list.to_vec(), form: pb::Form::Set.into(), offset: 0 };
    let Ok(reply) = client.show(request).await else { return Vec::new() };
    let mut found = Vec::new();
    for text in reply.text.lines() {
        let mut words = split(text.trim_end_matches(';')).texts();
        words.retain(|word| word != "inactive:");
        let words = words.strip_prefix(&["set".to_string()][..]).unwrap_or(&words);
        // Keys before this one are those that were typed.
        let before = &path[list.len().min(path.len())..];
        let Some(rest) = words.strip_prefix(list) else { continue };
        if rest.starts_with(before)
            && let Some(word) = rest.get(key).filter(|w| !found.contains(*w))
        {
            found.push(word.clone());
        }
    }
    found
}

async fn revisions(session: &Session) -> Vec<Candidate> {
    let Ok(client) = session.configuration().await else { return Vec::new() };
    let reply = client.get_revisions(pb::GetRevisionsRequest {}).await.unwrap_or_default();
    let help = |r: &pb::Revision| format!("{} by {} {}", render::time(r.time_unix_ms), r.user, r.comment);
    let all = reply.revisions.iter().enumerate();
    all.map(|(back, r)| Candidate::new(back.to_string(), help(r).trim_end())).collect()
}

/// Returns the files that begin like the typed word.
pub fn files(partial: &str) -> Vec<Candidate> {
    let (folder, name) =
        partial.rsplit_once('/').map_or(("", partial), |(f, n)| (&partial[..f.len() + 1], n));
    let Ok(entries) = std::fs::read_dir(if folder.is_empty() { "." } else { folder }) else {
        return Vec::new();
    };
    // A folder of any size costs no more than this.
    let mut all: Vec<Candidate> = entries
        .take(10_000)
        .flatten()
        .filter_map(|e| {
            let text = e.file_name().into_string().ok().filter(|n| n.starts_with(name))?;
            let slash = if e.path().is_dir() { "/" } else { "" };
            (name.starts_with('.') || !text.starts_with('.'))
                .then(|| Candidate::new(format!("{folder}{text}{slash}"), ""))
        })
        .collect();
    all.sort();
    all
}
