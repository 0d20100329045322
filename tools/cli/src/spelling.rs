//! Foreign command lines often typed first: their meaning here, or the reason why there is no need for the command.

/// A mode of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The operational mode.
    Operational,
    /// The configuration mode.
    Configuration,
}

/// The meaning of a foreign spelling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// The words of this command line.
    Words(Vec<String>),
    /// The command is not needed, for this reason.
    Needless(&'static str),
}

/// The right side of a row.
#[derive(Clone, Copy)]
enum Becomes {
    /// Words, followed by the words taken by [`REST`].
    Words(&'static str),
    /// A reason why nothing is to be done.
    Needless(&'static str),
}

use Becomes::{Needless, Words};
use Mode::{Configuration, Operational};

/// Takes at least one word, up to the end.
const REST: &str = "...";
/// Takes one word.
const ANY: &str = "?";

const KEPT: &str = "not needed: what is committed is kept, over restarts too";
const PAGED: &str = "not needed: `--no-pager`, or `| no-more` behind a command, prints all at once";
const ALLOWED: &str = "not needed: who may talk to the router may change it";

/// The rows: mode, spelling, meaning. The part of a word behind a `|` may be abbreviated.
const SPELLINGS: &[(Mode, &str, Becomes)] = &[
    (Operational, "conf|igure t|erminal", Words("configure")),
    (Operational, "sh|ow run|ning-config", Words("show configuration")),
    (Operational, "sh|ow start|up-config", Words("show configuration")),
    (Operational, "wr|ite", Needless(KEPT)),
    (Operational, "wr|ite mem|ory", Needless(KEPT)),
    (Operational, "copy run|ning-config start|up-config", Needless(KEPT)),
    (Operational, "term|inal len|gth ?", Needless(PAGED)),
    (Operational, "en|able", Needless(ALLOWED)),
    (Operational, "end", Needless("not needed: this is the operational mode")),
    (Configuration, "no ...", Words("delete")),
    (Configuration, "do ...", Words("run")),
    (Configuration, "end", Words("quit")),
    (Configuration, "conf|igure t|erminal", Needless("not needed: this is the configuration mode")),
    (Configuration, "wr|ite", Needless("not needed: `commit` keeps the candidate, over restarts too")),
    (
        Configuration,
        "wr|ite mem|ory",
        Needless("not needed: `commit` keeps the candidate, over restarts too"),
    ),
];

/// Returns the meaning of words in a mode, if the words are a foreign spelling: a row of the table, or in the
/// operational mode a row of `more` (spelling, and words here), contributed by components.
pub fn meaning(mode: Mode, words: &[String], more: &[(&str, &str)]) -> Option<Meaning> {
    let translated = |spelling: &str, known: &str| {
        let rest = rest_behind(spelling, words)?;
        Some(Meaning::Words(known.split(' ').map(String::from).chain(rest.iter().cloned()).collect()))
    };
    let of_component = more.iter().filter(|_| mode == Operational);
    let of_component = of_component.filter_map(|(spelling, known)| translated(spelling, known)).next();
    of_component.or_else(|| {
        SPELLINGS.iter().filter(|(of, ..)| *of == mode).find_map(|(_, spelling, becomes)| match becomes {
            Words(known) => translated(spelling, known),
            Needless(why) => rest_behind(spelling, words).map(|_| Meaning::Needless(why)),
        })
    })
}

/// Returns the words behind a spelling, if the words match; empty unless the spelling ends with [`REST`].
fn rest_behind<'w>(spelling: &str, words: &'w [String]) -> Option<&'w [String]> {
    let mut left = words;
    for part in spelling.split(' ') {
        if part == REST {
            return (!left.is_empty()).then_some(left);
        }
        let (word, behind) = left.split_first()?;
        if part != ANY && !is_of(part, word) {
            return None;
        }
        left = behind;
    }
    left.is_empty().then_some(left)
}

/// Returns true if a word is a spelling's word, or an allowed abbreviation.
fn is_of(part: &str, word: &str) -> bool {
    let (needed, rest) = part.split_once('|').unwrap_or((part, ""));
    word.strip_prefix(needed).is_some_and(|behind| rest.starts_with(behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    /// Returns each row in full and in its shortest form, with an example for each argument.
    fn typed(spelling: &str) -> [String; 2] {
        let example = spelling.replace(REST, "show version").replace(ANY, "0");
        let short: Vec<&str> =
            example.split(' ').map(|w| w.split_once('|').map_or(w, |(needed, _)| needed)).collect();
        [example.replace('|', ""), short.join(" ")]
    }

    #[test]
    fn every_row_is_understood() {
        for (mode, spelling, becomes) in SPELLINGS {
            for line in typed(spelling) {
                let found = meaning(*mode, &words(&line), &[]).unwrap_or_else(|| panic!("{line}"));
                match (becomes, found) {
                    (Words(known), Meaning::Words(means)) => {
                        assert!(means.join(" ").starts_with(known), "{line}: {means:?}");
                        let grammar = match mode {
                            Operational => builtin::operational(),
                            Configuration => builtin::configuration(),
                        };
                        let first = &means[0];
                        assert!(grammar.commands.iter().any(|c| c.words[0].word == *first), "{line}");
                    }
                    (Needless(why), Meaning::Needless(said)) => assert_eq!(*why, said),
                    (_, found) => panic!("{line}: {found:?}"),
                }
            }
        }
    }

    /// A component's spellings.
    const MORE: &[(&str, &str)] = &[("clear ip rip ...", "clear rip neighbor")];

    #[test]
    fn own_words_stay() {
        for line in
            ["configure", "show routes", "configure private", "enab", "clear rip neighbor 192.0.2.1", "w"]
        {
            let expected = (line == "enab").then_some(Meaning::Needless(ALLOWED));
            assert_eq!(meaning(Operational, &words(line), MORE), expected, "{line}");
        }
        for line in ["no", "set system host-name no", "delete x"] {
            assert_eq!(meaning(Configuration, &words(line), MORE), None, "{line}");
        }
        let moved = meaning(Operational, &words("clear ip rip 192.0.2.1"), MORE);
        assert_eq!(moved, Some(Meaning::Words(words("clear rip neighbor 192.0.2.1"))));
        assert_eq!(meaning(Configuration, &words("clear ip rip 192.0.2.1"), MORE), None);
    }
}
