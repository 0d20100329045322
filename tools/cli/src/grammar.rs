//! Commands, the meaning of a line, and completions.

use crate::kind::{Kind, Live};
use crate::line::{Line, Word, split};
use sluice_config::nearest;
use std::collections::BTreeMap;

/// A word of a command, with help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyword {
    /// The word.
    pub word: String,
    /// The description.
    pub help: String,
    /// An alternative spelling, accepted and not offered.
    pub alias: Option<String>,
}

/// A value that a command takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// The description.
    pub help: String,
    /// The kind of values.
    pub kind: Kind,
    /// The call that returns values of a running router.
    pub live: Option<Live>,
    /// True if the command needs the argument.
    pub required: bool,
}

/// Something that may be added to a command, in any order: `longer`, `origin NAME`. Also written `--longer`, `--origin NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The word.
    pub word: String,
    /// The description.
    pub help: String,
    /// A short form behind one dash.
    pub short: Option<char>,
    /// The value behind the option, if any.
    pub value: Option<Argument>,
}

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The name for carrying out the command: its words, or for an alternative spelling the command's words.
    pub id: String,
    /// Its words.
    pub words: Vec<Keyword>,
    /// The arguments after the words, in order.
    pub arguments: Vec<Argument>,
    /// The options.
    pub choices: Vec<Choice>,
    /// The description.
    pub help: String,
    /// True for another spelling, which help and documents leave out.
    pub alias: bool,
    /// Choices implied by the spelling.
    pub preset: Vec<String>,
}

/// The values of a command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Values(BTreeMap<String, Vec<String>>);

impl Values {
    /// A value by the name of its argument or choice.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|v| v.first()).map(String::as_str)
    }

    /// Returns the words of an argument that takes the rest.
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns a number argument; reading the line has validated the number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).and_then(|t| t.parse().ok())
    }

    /// Returns true if an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn set(&mut self, name: &str, value: String) {
        self.0.entry(name.into()).or_default().push(value);
    }
}

/// A line that was understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Read<'g> {
    /// The command.
    pub command: &'g Command,
    /// The values of its arguments.
    pub values: Values,
}

/// The reason why a line was not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misread {
    /// No command goes on with this word.
    #[error("unknown word `{word}`{}{}", meant(.word, .expected), one_of(.expected))]
    Unknown {
        /// The word.
        word: String,
        /// The words expected there.
        expected: Vec<String>,
    },
    /// Several words begin like this.
    #[error("`{word}` is ambiguous: {}", .candidates.join(", "))]
    Ambiguous {
        /// The word.
        word: String,
        /// The words that begin so.
        candidates: Vec<String>,
    },
    /// An option stands twice.
    #[error("`{word}` stands twice; say it once")]
    Repeated {
        /// The option.
        word: String,
    },
    /// The line ends too early.
    #[error("incomplete command{}", one_of(.expected))]
    Incomplete {
        /// The words that could follow.
        expected: Vec<String>,
    },
    /// A value is of the wrong kind.
    #[error("`{word}` is not right for `{argument}`: {wanted} is expected")]
    Value {
        /// The argument's name.
        argument: String,
        /// The word.
        word: String,
        /// The expected value.
        wanted: String,
    },
    /// A quote is not closed.
    #[error("a quote is not closed")]
    Unclosed,
}

fn one_of(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("; expected {one}"),
        many => format!("; expected one of {}", many.join(", ")),
    }
}

/// Returns the question for the nearest expected word, if any is near, to be appended to an error.
pub fn meant(word: &str, expected: &[String]) -> String {
    let question = nearest(word, expected.iter().map(String::as_str));
    question.map(|question| format!("; {question}")).unwrap_or_default()
}

/// Something that may stand at the cursor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Candidate {
    /// The text to write, or the kind of value in angle brackets.
    pub text: String,
    /// The description.
    pub help: String,
}

impl Candidate {
    /// A candidate.
    pub fn new(text: impl Into<String>, help: impl Into<String>) -> Self {
        Candidate { text: text.into(), help: help.into() }
    }
}

/// The completions at the cursor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Offer {
    /// The offset of the word at the cursor, in octets.
    pub start: usize,
    /// The part of the word before the cursor.
    pub partial: String,
    /// Words that may stand here.
    pub words: Vec<Candidate>,
    /// Kinds of values that may stand here; to be shown, not to be written.
    pub values: Vec<Candidate>,
    /// The calls that return values for the position.
    pub live: Vec<Live>,
    /// A file may stand here.
    pub file: bool,
    /// A revision may stand here.
    pub revision: bool,
    /// The name of a policy may stand here.
    pub policy: bool,
    /// The words so far of a configuration statement being written, and true if a value may stand at the end.
    pub statement: Option<(Vec<String>, bool)>,
    /// The line can end here.
    pub enter: bool,
}

/// The commands of a mode.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// The commands.
    pub commands: Vec<Command>,
}

impl Grammar {
    /// Reads a line's words as a command.
    pub fn read(&self, words: &[String]) -> Result<Read<'_>, Misread> {
        let (command, used) = self.find(words)?;
        let mut values = Values::default();
        for preset in &command.preset {
            values.set(preset, String::new());
        }
        let state = command.take(&words[used..], &mut values)?;
        match state.missing(command) {
            Some(argument) => Err(Misread::Incomplete { expected: vec![format!("<{}>", argument.name)] }),
            None => Ok(Read { command, values }),
        }
    }

    /// Returns the command at the beginning of `words`, and the number of its words.
    fn find(&self, words: &[String]) -> Result<(&Command, usize), Misread> {
        let mut left: Vec<&Command> = self.commands.iter().collect();
        for (depth, word) in words.iter().enumerate() {
            match step(&left, depth, word) {
                Step::Into(deeper) => left = deeper,
                Step::Ambiguous(candidates) => {
                    // A value may look like the beginning of several words.
                    let ends = left.iter().find(|c| c.words.len() == depth && c.takes(word));
                    return match ends {
                        Some(command) => Ok((command, depth)),
                        None => Err(Misread::Ambiguous { word: word.clone(), candidates }),
                    };
                }
                Step::None => {
                    let ends = left.iter().find(|c| c.words.len() == depth && depth > 0);
                    return ends.map(|c| (*c, depth)).ok_or_else(|| Misread::Unknown {
                        word: word.clone(),
                        expected: next_words(&left, depth).into_iter().map(|c| c.text).collect(),
                    });
                }
            }
        }
        let whole = left.iter().find(|c| c.words.len() == words.len() && !words.is_empty());
        whole.map(|c| (*c, words.len())).ok_or_else(|| Misread::Incomplete {
            expected: next_words(&left, words.len()).into_iter().map(|c| c.text).collect(),
        })
    }

    /// Returns the completions at the end of `text`, a line up to the cursor, filters aside.
    pub fn offer(&self, text: &str) -> Offer {
        self.offer_line(&split(text), text.len())
    }

    fn offer_line(&self, line: &Line, end: usize) -> Offer {
        let mut words = line.words.as_slice();
        let mut offer = Offer { start: end, ..Offer::default() };
        if line.open
            && let Some((last, before)) = words.split_last()
        {
            offer.start = last.start;
            offer.partial = last.text.clone();
            words = before;
        }
        self.offer_words(words, &mut offer);
        let partial = offer.partial.clone();
        offer.words.retain(|c| c.text.starts_with(&partial));
        offer
    }

    fn offer_words(&self, words: &[Word], offer: &mut Offer) {
        let mut left: Vec<&Command> = self.commands.iter().collect();
        for (depth, word) in words.iter().enumerate() {
            match step(&left, depth, &word.text) {
                Step::Into(deeper) => left = deeper,
                _ => {
                    if let Some(command) = left.iter().find(|c| c.words.len() == depth && depth > 0) {
                        let texts: Vec<String> = words[depth..].iter().map(|w| w.text.clone()).collect();
                        self.offer_arguments(command, &texts, &words[depth..], offer);
                    }
                    return;
                }
            }
        }
        offer.words.extend(next_words(&left, words.len()));
        if let Some(command) = left.iter().find(|c| c.words.len() == words.len() && !words.is_empty()) {
            self.offer_arguments(command, &[], &[], offer);
        }
    }

    fn offer_arguments(&self, command: &Command, given: &[String], words: &[Word], offer: &mut Offer) {
        let mut values = Values::default();
        let Ok(state) = command.take(given, &mut values) else { return };
        if let Some(waiting) = state.waiting {
            return offer_value(waiting, offer);
        }
        offer.enter = state.missing(command).is_none();
        if let Some(argument) = command.arguments.get(state.filled) {
            let rest: Vec<String> = values.all(&argument.name).to_vec();
            match argument.kind {
                Kind::Statement => offer.statement = Some((rest, true)),
                Kind::Path => offer.statement = Some((rest, false)),
                Kind::Command => {
                    let skip = words.len() - rest.len();
                    self.offer_words(&words[skip..], offer);
                }
                _ => offer_value(argument, offer),
            }
        }
        let open = |c: &&Choice| !values.has(&c.word) && !command.preset.contains(&c.word);
        for choice in command.choices.iter().filter(open) {
            let dashes = if offer.partial.starts_with('-') { "--" } else { "" };
            offer.words.push(Candidate::new(format!("{dashes}{}", choice.word), choice.help.clone()));
        }
    }
}

fn offer_value(argument: &Argument, offer: &mut Offer) {
    match &argument.kind {
        Kind::Words(words) => offer.words.extend(words.iter().map(|(w, h)| Candidate::new(w, h))),
        kind => {
            offer.file |= *kind == Kind::File;
            offer.revision |= *kind == Kind::Revision;
            offer.policy |= *kind == Kind::Policy;
            offer.values.push(Candidate::new(format!("<{}>", argument.name), argument.help.clone()));
        }
    }
    offer.live.extend(argument.live.clone());
}

enum Step<'g> {
    Into(Vec<&'g Command>),
    Ambiguous(Vec<String>),
    None,
}

/// The commands that are left when `word` stands at `depth`.
fn step<'g>(left: &[&'g Command], depth: usize, word: &str) -> Step<'g> {
    let at = |c: &&'g Command, so: &dyn Fn(&Keyword) -> bool| c.words.get(depth).is_some_and(so);
    let exact = |k: &Keyword| k.word == word || k.alias.as_deref() == Some(word);
    let exactly: Vec<&Command> = left.iter().copied().filter(|c| at(c, &exact)).collect();
    if !exactly.is_empty() {
        return Step::Into(exactly);
    }
    let begins = |k: &Keyword| k.word.starts_with(word);
    let mut beginning: Vec<&Command> = left.iter().copied().filter(|c| at(c, &begins)).collect();
    // What is offered comes before what is only taken.
    if beginning.iter().any(|c| !c.alias) {
        beginning.retain(|c| !c.alias);
    }
    let mut names: Vec<String> = beginning.iter().map(|c| c.words[depth].word.clone()).collect();
    names.sort();
    names.dedup();
    match names.len() {
        0 => Step::None,
        1 => Step::Into(left.iter().copied().filter(|c| at(c, &|k| k.word == names[0])).collect()),
        _ => Step::Ambiguous(names),
    }
}

fn next_words(left: &[&Command], depth: usize) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    let only_aliases = left.iter().all(|c| c.alias);
    for command in left.iter().filter(|c| !c.alias || only_aliases) {
        let Some(keyword) = command.words.get(depth) else { continue };
        if seen.insert(&keyword.word) {
            let whole = command.words.len() == depth + 1 && keyword.help.is_empty();
            let help = if whole { &command.help } else { &keyword.help };
            found.push(Candidate::new(&keyword.word, help));
        }
    }
    found
}

/// The arguments read so far behind a command.
struct Taken<'c> {
    /// The number of arguments with a value, without an argument for the rest of the line.
    filled: usize,
    /// A choice whose value is missing.
    waiting: Option<&'c Argument>,
    rest: bool,
}

impl<'c> Taken<'c> {
    fn missing(&self, command: &'c Command) -> Option<&'c Argument> {
        let next = command.arguments.get(self.filled).filter(|a| a.required && !self.rest);
        self.waiting.or(next)
    }
}

impl Command {
    /// Returns true if a word could be its first argument.
    fn takes(&self, word: &str) -> bool {
        self.arguments.first().is_some_and(|a| a.kind.wants(word).is_none())
    }

    /// The choice that a word makes. A word without dashes may be a value instead.
    fn choice(&self, word: &str, may_be_value: bool) -> Option<&Choice> {
        if let Some(name) = word.strip_prefix("--") {
            return self.choices.iter().find(|c| c.word == name);
        }
        if let Some(letter) = word.strip_prefix('-').filter(|l| l.len() == 1) {
            return self.choices.iter().find(|c| c.short == letter.chars().next());
        }
        if let Some(choice) = self.choices.iter().find(|c| c.word == word) {
            return Some(choice);
        }
        let beginning: Vec<&Choice> = self.choices.iter().filter(|c| c.word.starts_with(word)).collect();
        match beginning.as_slice() {
            [one] if !may_be_value => Some(one),
            _ => None,
        }
    }

    fn take<'c>(&'c self, words: &[String], values: &mut Values) -> Result<Taken<'c>, Misread> {
        let mut state = Taken { filled: 0, waiting: None, rest: false };
        let mut chosen: Vec<&str> = Vec::new();
        for word in words {
            if let Some(argument) = state.waiting.take() {
                check(argument, word)?;
                values.set(&argument.name, word.clone());
                continue;
            }
            let next = self.arguments.get(state.filled);
            if let Some(argument) = next.filter(|a| a.kind.takes_rest())
                && (state.rest && argument.kind != Kind::Path || self.choice(word, true).is_none())
            {
                state.rest = true;
                values.set(&argument.name, word.clone());
                continue;
            }
            let fits = next.is_some_and(|a| a.kind.wants(word).is_none());
            if let Some(choice) = self.choice(word, fits) {
                if chosen.contains(&&*choice.word) {
                    return Err(Misread::Repeated { word: choice.word.clone() });
                }
                chosen.push(&choice.word);
                match &choice.value {
                    Some(argument) => state.waiting = Some(argument),
                    None => values.set(&choice.word, String::new()),
                }
                continue;
            }
            let Some(argument) = next else {
                let expected = self.choices.iter().map(|c| c.word.clone()).collect();
                return Err(Misread::Unknown { word: word.clone(), expected });
            };
            check(argument, word)?;
            values.set(&argument.name, word.clone());
            state.filled += 1;
        }
        Ok(state)
    }

    /// Returns the words joined by blanks.
    pub fn name(&self) -> String {
        self.words.iter().map(|k| k.word.as_str()).collect::<Vec<_>>().join(" ")
    }
}

fn check(argument: &Argument, word: &str) -> Result<(), Misread> {
    match argument.kind.wants(word) {
        Some(wanted) => Err(Misread::Value { argument: argument.name.clone(), word: word.into(), wanted }),
        None => Ok(()),
    }
}
