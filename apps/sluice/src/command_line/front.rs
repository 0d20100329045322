//! The kinds of command lines: a command of the operational mode, a tool, or the way into the interactive shell.

use crate::Cli;
use crate::command_line::flags;
use crate::connection::flags::Flags;
use crate::output::Failure;
use clap::CommandFactory;
use sluice_cli::spelling::{self, Meaning, Mode};
use sluice_cli::{Argument, Candidate, Command, Grammar};
use std::process::ExitCode;

/// The kind of a command line.
pub enum Choice {
    /// A tool, which parses its own arguments.
    Tool,
    /// A command of the operational mode.
    Words(Flags, Vec<String>),
    /// The interactive shell.
    Interactive(Flags),
    /// Help about words.
    Help(Vec<String>),
    /// The version.
    Version,
    /// The command is not needed, for a reason.
    Needless(&'static str),
}

/// Looks at the first word, which may be abbreviated.
pub fn choose(args: &[String]) -> Result<Choice, Failure> {
    let spellings = crate::packages::commands::spellings();
    // `cluster drain 12` is a command of the operational mode, and `cluster init` is a tool.
    let is_spelled = spellings.iter().any(|(from, _)| {
        let mut words = from.split(' ');
        args.len() > 1 && args.iter().take(2).all(|arg| words.next() == Some(arg))
    });
    let tools: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_string()).collect();
    // A tool's flags are its own: they are not looked at.
    if !is_spelled && args.first().is_some_and(|first| tools.contains(first) || first == "help") {
        return Ok(match args[0].as_str() {
            "help" => Choice::Help(args[1..].to_vec()),
            _ => Choice::Tool,
        });
    }
    let (mut flags, mut words) = flags::take(args)?;
    flags::take_element(&mut flags, &mut words)?;
    match spelling::meaning(Mode::Operational, &words, &spellings) {
        Some(Meaning::Needless(why)) => return Ok(Choice::Needless(why)),
        Some(Meaning::Here(what)) => return Err(Failure::usage(format!("here: {what}"))),
        Some(Meaning::Words(meant)) => words = meant,
        None => {}
    }
    let Some(first) = words.first().cloned() else {
        return Ok(match (flags.help, flags.version) {
            (true, _) => Choice::Help(Vec::new()),
            (_, true) => Choice::Version,
            _ => Choice::Interactive(flags),
        });
    };
    if tools.contains(&first) {
        return Ok(Choice::Tool);
    }
    let mut roots: Vec<String> = grammar().commands.iter().map(|c| c.words[0].word.clone()).collect();
    roots.extend(tools.iter().filter(|t| !t.starts_with('_')).cloned());
    roots.sort();
    roots.dedup();
    let beginning: Vec<&String> = roots.iter().filter(|r| r.starts_with(&first)).collect();
    match beginning.as_slice() {
        _ if roots.contains(&first) => {}
        [] => {
            return Err(Failure::usage(format!(
                "unknown command `{first}`{}; expected one of {}",
                sluice_cli::meant(&first, &roots),
                roots.join(", ")
            )));
        }
        [one] if tools.contains(one) => {
            return Err(Failure::usage(format!("unknown command `{first}`; did you mean `{one}`?")));
        }
        [one] => words[0] = (*one).clone(),
        many => {
            let many: Vec<&str> = many.iter().map(|m| m.as_str()).collect();
            return Err(Failure::usage(format!("`{first}` is ambiguous: {}", many.join(", "))));
        }
    }
    Ok(match flags.help {
        true => Choice::Help(words),
        false => Choice::Words(flags, words),
    })
}

/// Returns the tools for users, with their help.
pub fn tools() -> Vec<Candidate> {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|c| !c.is_hide_set());
    let described = |c: &clap::Command| {
        let help = c.get_about().map(ToString::to_string).unwrap_or_default();
        Candidate::new(c.get_name(), help.lines().next().unwrap_or_default())
    };
    shown.map(described).collect()
}

/// Returns true if a word is the name of a tool.
pub fn is_tool(word: &str) -> bool {
    Cli::command().get_subcommands().any(|c| c.get_name() == word)
}

/// Returns the commands built into the executable.
pub fn grammar() -> Grammar {
    let mut grammar = Grammar { commands: crate::shipped::in_code() };
    grammar.commands.extend(crate::shipped::builtin().into_iter().map(|c| c.command));
    grammar
}

/// Returns every command and tool, for help and manual pages.
pub fn whole() -> clap::Command {
    let mut root = Cli::command().subcommand_required(false).disable_help_subcommand(true);
    for command in grammar().commands.iter().filter(|c| !c.alias) {
        root = insert(root, command, 0);
    }
    root
}

fn insert(parent: clap::Command, command: &Command, depth: usize) -> clap::Command {
    let Some(keyword) = command.words.get(depth) else { return parent };
    let name = keyword.word.clone();
    let last = depth + 1 == command.words.len();
    let help = if last { &command.help } else { &keyword.help };
    let known = parent.find_subcommand(&name).is_some();
    let add = |mut child: clap::Command| {
        if last {
            child = child.about(command.help.clone()).args(arguments(command));
            for (short, long, value, help) in flags::HELP.iter().take(8) {
                child = child.arg(flag(*short, (*long).to_string(), value.map(String::from), help));
            }
            child
        } else {
            insert(child, command, depth + 1)
        }
    };
    match known {
        true => parent.mut_subcommand(name, add),
        false => {
            let child = clap::Command::new(name).about(help.clone()).disable_help_subcommand(true);
            parent.subcommand(add(child))
        }
    }
}

fn flag(short: Option<char>, long: String, value: Option<String>, help: &str) -> clap::Arg {
    let mut arg = clap::Arg::new(long.clone()).long(long).help(help.to_string());
    if let Some(short) = short {
        arg = arg.short(short);
    }
    match value {
        Some(value) => arg.value_name(value),
        None => arg.action(clap::ArgAction::SetTrue),
    }
}

fn arguments(command: &Command) -> Vec<clap::Arg> {
    let positional = |a: &Argument| {
        let several = if a.kind.takes_rest() { clap::ArgAction::Append } else { clap::ArgAction::Set };
        clap::Arg::new(a.name.clone())
            .value_name(a.name.to_uppercase())
            .help(a.help.clone())
            .required(a.required)
            .action(several)
    };
    let mut all: Vec<clap::Arg> = command.arguments.iter().map(positional).collect();
    for choice in &command.choices {
        let value = choice.value.as_ref().map(|_| "VALUE".to_string());
        all.push(flag(choice.short, choice.word.clone(), value, &choice.help));
    }
    all
}

/// Returns the subcommand meant by a word: the subcommand of the name, or the only subcommand with `word` as its
/// beginning.
pub fn subcommand(command: &clap::Command, word: &str) -> Option<clap::Command> {
    let mut beginning = command.get_subcommands().filter(|c| c.get_name().starts_with(word));
    let only = beginning.next().filter(|_| beginning.next().is_none());
    command.find_subcommand(word).or(only).cloned()
}

/// Prints the help about words: the help of the deepest command named.
pub fn help(words: &[String]) -> ExitCode {
    let mut command = whole();
    let mut name = "sluice".to_string();
    for word in words {
        let Some(next) = subcommand(&command, word) else { break };
        name = format!("{name} {}", next.get_name());
        command = next;
    }
    let mut command = command.bin_name(name);
    // There is no reader left to report to if standard output is closed.
    let _ = command.print_help();
    ExitCode::SUCCESS
}
