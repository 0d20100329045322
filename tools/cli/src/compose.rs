//! Commands, put together in code.

use crate::grammar::{Argument, Choice, Command, Keyword};
use crate::kind::{Kind, Live};

/// Help for words that several commands begin with: the words up to there, and the help.
pub type GroupHelp = [(&'static str, &'static str)];

fn keywords(words: &str, groups: &GroupHelp) -> Vec<Keyword> {
    let list: Vec<&str> = words.split(' ').collect();
    let keyword = |(index, word): (usize, &&str)| {
        let prefix = list[..=index].join(" ");
        let help = groups.iter().find(|(group, _)| *group == prefix).map_or("", |(_, help)| help);
        Keyword { word: (*word).into(), help: help.into(), alias: None }
    };
    list.iter().enumerate().map(keyword).collect()
}

impl Command {
    /// Makes a command of these words, without arguments.
    pub fn new(words: &str, help: &str, groups: &GroupHelp) -> Self {
        Command {
            id: words.into(),
            words: keywords(words, groups),
            arguments: Vec::new(),
            choices: Vec::new(),
            help: help.into(),
            alias: false,
            preset: Vec::new(),
        }
    }

    /// Adds an argument behind those before.
    pub fn argument(mut self, name: &str, kind: Kind, required: bool, help: &str) -> Self {
        self.arguments.push(Argument { name: name.into(), help: help.into(), kind, live: None, required });
        self
    }

    /// Adds a word that may be there, in any order.
    pub fn flag(mut self, word: &str, short: Option<char>, help: &str) -> Self {
        self.choices.push(Choice { word: word.into(), help: help.into(), short, value: None });
        self
    }

    /// Adds a word with a value that may be there, in any order.
    pub fn choice_of(mut self, word: &str, kind: Kind, live: Option<Live>, help: &str) -> Self {
        let value = Argument { name: word.into(), help: help.into(), kind, live, required: true };
        self.choices.push(Choice { word: word.into(), help: help.into(), short: None, value: Some(value) });
        self
    }

    /// Gives the last argument values of a running router.
    pub fn live(mut self, live: Live) -> Self {
        if let Some(argument) = self.arguments.last_mut() {
            argument.live = Some(live);
        }
        self
    }

    /// Gives the last word another spelling.
    pub fn also(mut self, spelling: &str) -> Self {
        if let Some(keyword) = self.words.last_mut() {
            keyword.alias = Some(spelling.into());
        }
        self
    }

    /// Returns the command with a different spelling, and with the choices implied by the spelling.
    pub fn spelled(&self, words: &str, preset: &[&str], groups: &GroupHelp) -> Command {
        Command {
            words: keywords(words, groups),
            alias: true,
            preset: preset.iter().map(|p| (*p).to_string()).collect(),
            ..self.clone()
        }
    }
}
