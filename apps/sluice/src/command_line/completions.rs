//! Completion for Unix shells: a script for each shell, which asks the executable for completions.

use crate::command_line::complete::{Completion, complete};
use crate::command_line::flags;
use crate::command_line::front;
use crate::command_line::policy_words;
use crate::connection::connect::block_on;
use crate::connection::flags::Flags;
use crate::connection::session::Session;
use crate::output::Failure;
use sluice_base::printable_lines;
use sluice_cli::{Candidate, split};

/// A shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Shell {
    /// The Bourne-again shell.
    Bash,
    /// The Z shell.
    Zsh,
    /// The friendly interactive shell.
    Fish,
}

const BASH: &str = r#"# Completion of sluice for bash; it asks sluice itself, and through it the router that runs.
_sluice() {
    local IFS=$'\n'
    COMPREPLY=($(sluice __complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    # What ends in a slash is a folder: more follows.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace
    return 0
}
complete -F _sluice sluice
"#;

const ZSH: &str = r#"#compdef sluice
# Completion of sluice for zsh; it asks sluice itself, and through it the router that runs.
_sluice() {
    local -a found
    found=("${(@f)$(sluice __complete zsh "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    [[ -n ${found[1]} ]] && _describe 'sluice' found
}
compdef _sluice sluice
"#;

const FISH: &str = r"# Completion of sluice for fish; it asks sluice itself, and through it the router that runs.
complete -c sluice -f -a '(sluice __complete fish (commandline -cp) 2>/dev/null)'
";

impl Shell {
    /// Its script.
    pub fn script(self) -> &'static str {
        match self {
            Shell::Bash => BASH,
            Shell::Zsh => ZSH,
            Shell::Fish => FISH,
        }
    }

    /// A candidate as the script reads it.
    fn line(self, candidate: &Candidate, begun: &str) -> String {
        match self {
            // Bash takes what stands behind a colon for a word of its own.
            Shell::Bash => {
                let colon = begun.rfind(':').map_or(0, |at| at + 1);
                candidate.text.get(colon..).unwrap_or(&candidate.text).to_string()
            }
            Shell::Zsh => format!("{}:{}", candidate.text.replace(':', "\\:"), candidate.help),
            Shell::Fish => format!("{}\t{}", candidate.text, candidate.help),
        }
    }
}

/// Prints the possible continuations of a line.
pub fn run(shell: Shell, line: &str) -> Result<(), Failure> {
    // The program's own name is the first word.
    let blank = line.find(char::is_whitespace).unwrap_or(line.len());
    let text = line[blank..].trim_start();
    let begun = split(text);
    let partial = if begun.open { begun.words.last().map_or("", |w| w.text.as_str()) } else { "" };
    let found = candidates(text, partial)?;
    for candidate in &found {
        // A tab stands between a candidate and its help; nothing else that a shell or a terminal obeys is printed.
        let lines = shell.line(candidate, partial).replace('\n', " ");
        sluice_print::outln!("{}", printable_lines(&lines));
    }
    Ok(())
}

fn candidates(text: &str, partial: &str) -> Result<Vec<Candidate>, Failure> {
    let line = split(text);
    let mut before = line.texts();
    if line.open {
        before.pop();
    }
    let (flags, words) = flags::take(&before).unwrap_or_else(|_| (Flags::default(), before.clone()));
    if partial.starts_with('-') {
        return Ok(dashes(&words, partial));
    }
    let first = words.first().map_or("", String::as_str);
    let roots = front::grammar();
    let is_command = roots.commands.iter().any(|c| c.words[0].word.starts_with(first)) && !first.is_empty();
    if let [policy, test, asked @ ..] = words.as_slice()
        && (policy.as_str(), test.as_str()) == ("policy", "test")
    {
        let session = Session::new(flags);
        return block_on(policy_words::completions(&session, asked, partial));
    }
    if !is_command {
        return Ok(tools(&words, partial));
    }
    // Flags are none of the grammar's words.
    let typed: Vec<String> = words.iter().map(|w| sluice_cli::quoted(w)).collect();
    let typed = format!("{} {partial}", typed.join(" "));
    let Completion { words, .. } = block_on(async { complete(&Session::new(flags), None, &typed).await })?;
    Ok(words)
}

/// Possible options.
fn dashes(words: &[String], partial: &str) -> Vec<Candidate> {
    let command = deepest(words);
    let long = |a: &clap::Arg| Some((format!("--{}", a.get_long()?), a.get_help().map(ToString::to_string)));
    let mut all: Vec<Candidate> = command
        .get_arguments()
        .filter_map(long)
        .map(|(text, help)| Candidate::new(text, help.unwrap_or_default()))
        .collect();
    all.extend(flags::HELP.iter().map(|(_, name, _, help)| Candidate::new(format!("--{name}"), *help)));
    all.retain(|c| c.text.starts_with(partial));
    all.sort();
    all.dedup_by(|a, b| a.text == b.text);
    all
}

/// Names of commands and tools, and words of tools.
fn tools(words: &[String], partial: &str) -> Vec<Candidate> {
    let command = deepest(words);
    let names = command.get_subcommands().filter(|c| !c.is_hide_set());
    let mut all: Vec<Candidate> = names
        .map(|c| Candidate::new(c.get_name(), c.get_about().map(ToString::to_string).unwrap_or_default()))
        .filter(|c| c.text.starts_with(partial))
        .collect();
    all.sort();
    all
}

fn deepest(words: &[String]) -> clap::Command {
    let mut command = front::whole();
    for word in words {
        let Some(next) = command.find_subcommand(word).cloned() else { break };
        command = next;
    }
    command
}
