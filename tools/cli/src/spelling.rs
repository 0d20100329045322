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
    /// The command has no one meaning here: what to type instead.
    Here(&'static str),
}

/// The right side of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Becomes {
    /// Words, each `?` of which stands for the next word taken by [`ANY`], followed by the words taken by [`REST`].
    Words(&'static str),
    /// A reason why nothing is to be done.
    Needless(&'static str),
    /// What to type instead, as the end of a sentence that begins with `here:`.
    Here(&'static str),
}

/// A spelling, and its meaning.
pub type Row = (&'static str, Becomes);

use Becomes::{Here, Needless, Words};
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
    (Operational, "wr|ite file", Needless(KEPT)),
    (Operational, "wr|ite term|inal", Words("show configuration")),
    (Operational, "term|inal len|gth ?", Needless(PAGED)),
    (Operational, "term|inal mon|itor", Words("monitor")),
    (Operational, "en|able", Needless(ALLOWED)),
    (Operational, "end", Needless("not needed: this is the operational mode")),
    (Operational, "logout", Here("`quit` leaves the shell")),
    (Operational, "show log", Words("show events")),
    (Operational, "show logging", Words("show events")),
    (Operational, "show log messages", Words("show events")),
    (
        Operational,
        "show tech|-support",
        Here("`support-bundle` writes all that finding a problem needs into one file"),
    ),
    (
        Operational,
        "show status",
        Here("`status` shows whether every component is ready, `show summary` counts routes"),
    ),
    (Operational, "show ip protocols", Words("show processes")),
    (Operational, "show system memory", Words("show memory")),
    (Operational, "show processes cpu", Words("show processes")),
    (Operational, "show thread cpu", Words("show processes")),
    (Operational, "show system processes", Words("show processes")),
    (Operational, "show system commit", Words("show revisions")),
    (Operational, "show interfaces terse", Words("show interfaces")),
    (Operational, "show interfaces brief", Words("show interfaces")),
    (Operational, "show interface brief", Words("show interfaces")),
    (Operational, "show interfaces summary", Words("show interfaces")),
    (Operational, "show ip route connected", Words("show routes v4 origin connected")),
    (Operational, "show ip fib", Words("show routes kernel")),
    (Operational, "show route forwarding-table", Words("show routes kernel")),
    (Operational, "show route for ?", Words("show routes ?")),
    (Operational, "show route protocol ?", Words("show routes origin ?")),
    (Operational, "show route table inet.0", Words("show routes v4")),
    (Operational, "show route table inet6.0", Words("show routes v6")),
    (Operational, "show route-map", Words("show policy")),
    (Operational, "show route-map ?", Words("show policy ?")),
    (Operational, "show ip prefix-list", Words("show configuration policy")),
    (Operational, "show arp", Here("`ip neighbor` of the host lists the kernel's neighbors")),
    (
        Operational,
        "configure check",
        Here("`sluice config check FILE` checks a file, `commit check` the candidate"),
    ),
    (Operational, "disable ...", Here("`configure`, then `deactivate PATH` and `commit`")),
    (Operational, "enable ...", Here("`configure`, then `activate PATH` and `commit`")),
    (Configuration, "no ...", Words("delete")),
    (Configuration, "do ...", Words("run")),
    (Configuration, "end", Words("quit")),
    (Configuration, "abort", Here("`discard` drops the changes, `quit` leaves")),
    (Configuration, "save", Needless("not needed: `commit` keeps the candidate, over restarts too")),
    (Configuration, "load override ?", Words("load replace ?")),
    (Configuration, "load patch ...", Here("`load set FILE` carries out statements, a line each")),
    (Configuration, "status", Words("run status")),
    (Configuration, "show run|ning-config", Words("run show configuration")),
    (Configuration, "show configuration", Words("run show configuration")),
    (Configuration, "ping ...", Words("run ping")),
    (Configuration, "traceroute ...", Words("run traceroute")),
    (Configuration, "monitor", Words("run monitor")),
    (Configuration, "clear ...", Words("run clear")),
    (Configuration, "conf|igure t|erminal", Needless("not needed: this is the configuration mode")),
    (Configuration, "wr|ite", Needless("not needed: `commit` keeps the candidate, over restarts too")),
    (
        Configuration,
        "wr|ite mem|ory",
        Needless("not needed: `commit` keeps the candidate, over restarts too"),
    ),
];

/// Returns the meaning of words in a mode, if the words are a foreign spelling: a row of the table, or in the
/// operational mode a row of `more`, contributed by components. The first row that matches holds.
pub fn meaning(mode: Mode, words: &[String], more: &[Row]) -> Option<Meaning> {
    let of_component = more.iter().filter(|_| mode == Operational);
    let own =
        SPELLINGS.iter().filter(|(of, ..)| *of == mode).map(|(_, spelling, becomes)| (spelling, becomes));
    of_component.map(|(spelling, becomes)| (spelling, becomes)).chain(own).find_map(|(spelling, becomes)| {
        let taken = taken_by(spelling, words)?;
        Some(match becomes {
            Words(known) => Meaning::Words(taken.put_into(known)),
            Needless(why) => Meaning::Needless(why),
            Here(what) => Meaning::Here(what),
        })
    })
}

/// The words that a spelling takes.
struct Taken<'w> {
    /// The words at [`ANY`], in order.
    any: Vec<&'w String>,
    /// The words at [`REST`].
    rest: &'w [String],
}

impl Taken<'_> {
    /// Returns the words of a row with the taken words.
    fn put_into(&self, known: &str) -> Vec<String> {
        let mut any = self.any.iter();
        let word = |word: &str| match word {
            ANY => any.next().map_or_else(String::new, |taken| (*taken).clone()),
            word => word.to_owned(),
        };
        known.split(' ').map(word).chain(self.rest.iter().cloned()).collect()
    }
}

/// Returns the words that a spelling takes, if the words match.
fn taken_by<'w>(spelling: &str, words: &'w [String]) -> Option<Taken<'w>> {
    let (mut left, mut any) = (words, Vec::new());
    for part in spelling.split(' ') {
        if part == REST {
            return (!left.is_empty()).then_some(Taken { any, rest: left });
        }
        let (word, behind) = left.split_first()?;
        if part == ANY {
            any.push(word);
        } else if !is_of(part, word) {
            return None;
        }
        left = behind;
    }
    left.is_empty().then_some(Taken { any, rest: left })
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
    use std::path::Path;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    /// Returns each row in full and in its shortest form, with an example for each argument.
    fn typed(spelling: &str) -> [String; 2] {
        let example = spelling.replace(REST, "show version").replace(ANY, "192.0.2.1");
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
                        assert!(
                            means.join(" ").starts_with(&known.replace(ANY, "192.0.2.1")),
                            "{line}: {means:?}"
                        );
                    }
                    (Needless(why), Meaning::Needless(said)) => assert_eq!(*why, said),
                    (Here(what), Meaning::Here(said)) => assert_eq!(*what, said),
                    (_, found) => panic!("{line}: {found:?}"),
                }
            }
        }
    }

    #[test]
    fn the_words_of_every_row_are_a_command() {
        // `ping` and `traceroute` are the shell's own; components have commands with these words.
        let of_others = ["show processes", "run ping", "run traceroute", "run status", "run clear"];
        for (mode, spelling, becomes) in SPELLINGS {
            let Words(known) = becomes else { continue };
            let mut grammar = match mode {
                Operational => builtin::operational(),
                Configuration => builtin::configuration(),
            };
            grammar.commands.extend(builtin::shell_only());
            let Some(Meaning::Words(words)) = meaning(*mode, &words(&typed(spelling)[0]), &[]) else {
                panic!("{spelling}")
            };
            let inner = match words.split_first() {
                Some((first, inner)) if first == "run" => inner.to_vec(),
                _ => words,
            };
            let mut operational = builtin::operational();
            operational.commands.extend(builtin::shell_only());
            let grammar = if known.starts_with("run ") { &operational } else { &grammar };
            let is_known = grammar.read(&inner).is_ok();
            assert!(
                is_known || of_others.iter().any(|other| known.starts_with(other)),
                "{spelling}: {inner:?}"
            );
        }
    }

    #[test]
    fn no_row_hides_a_command() {
        for (mode, spelling, becomes) in SPELLINGS {
            let grammar = match mode {
                Operational => builtin::operational(),
                Configuration => builtin::configuration(),
            };
            if !matches!(becomes, Here(_)) {
                continue;
            }
            // Words behind these are paths and statements, and those of the rows begin none.
            let takes_paths =
                spelling.starts_with("conf") || *mode == Configuration && spelling.starts_with("show ");
            let line = typed(spelling)[0].clone();
            assert!(
                takes_paths || grammar.read(&words(&line)).is_err(),
                "{line} is a command of this router"
            );
        }
    }

    #[test]
    fn every_row_is_documented() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
        let page = std::fs::read_to_string(page).expect("the page");
        for (_, spelling, _) in SPELLINGS {
            let shown = spelling.replace('|', "").replace(ANY, "X");
            assert!(page.contains(&format!("`{shown}`")), "{shown} is not in docs/coming-from.md");
        }
    }

    /// A component's spellings.
    const MORE: &[Row] = &[
        ("clear ip rip ? soft", Words("request rip refresh ?")),
        ("clear ip rip ...", Words("clear rip neighbor")),
    ];

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
        let moved = meaning(Operational, &words("clear ip rip 192.0.2.1 soft"), MORE);
        assert_eq!(moved, Some(Meaning::Words(words("request rip refresh 192.0.2.1"))));
        // Rows of components are for the operational mode.
        let run = Meaning::Words(words("run clear ip rip 192.0.2.1"));
        assert_eq!(meaning(Configuration, &words("clear ip rip 192.0.2.1"), MORE), Some(run));
    }
}
