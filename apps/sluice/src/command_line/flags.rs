//! The flags of every command, taken out of the command line wherever they stand.

use crate::connection::flags::Flags;
use crate::output::Failure;
use std::time::Duration;

/// Flags with their help in the form of `--help` and manual pages: short form, name, value, help.
pub const HELP: [(Option<char>, &str, Option<&str>, &str); 10] = [
    (Some('j'), "json", None, "Print one JSON document instead of text, errors too"),
    (None, "no-pager", None, "Print all at once, also on a terminal"),
    (None, "no-color", None, "No colors, also on a terminal (as the variable NO_COLOR)"),
    (None, "timeout", Some("SECONDS"), "How long an answer may take [default: 10]"),
    (
        None,
        "run-dir",
        Some("FOLDER"),
        "The router's run-time folder [env: SLUICE_RUN_DIR] [default: /run/sluice]",
    ),
    (None, "element", Some("NUMBER"), "Ask the element with this number"),
    (Some('q'), "quiet", None, "No remarks beside the result"),
    (None, "watch", Some("SECONDS"), "Print anew every so often until interrupted"),
    (Some('h'), "help", None, "Print help"),
    (Some('V'), "version", None, "Print the version"),
];

/// Returns true if JSON is wanted, as far as a possibly wrong command line shows.
pub fn wants_json(args: &[String]) -> bool {
    args.iter().take_while(|a| *a != "--").any(|a| a == "--json" || is_short(a, 'j'))
}

fn is_short(word: &str, letter: char) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(|c| "jqhV".contains(c)) && letters.contains(letter)
}

/// Takes the flags out of a command line. Words behind `--` are not flags.
pub fn take(args: &[String]) -> Result<(Flags, Vec<String>), Failure> {
    let mut flags = Flags::default();
    let mut words = Vec::new();
    let mut args = args.iter();
    while let Some(word) = args.next() {
        if word == "--" {
            words.extend(args.cloned());
            break;
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
            _ => (word.as_str(), None),
        };
        let mut value = || {
            let value = inline.clone().or_else(|| args.next().cloned());
            value.ok_or_else(|| Failure::usage(format!("`{name}` needs a value")))
        };
        match name {
            "--timeout" => flags.timeout = seconds(name, &value()?)?,
            "--watch" => flags.watch = Some(seconds(name, &value()?)?),
            "--run-dir" => flags.run_dir = value()?.into(),
            "--instance" => flags.instance = Some(value()?),
            "--element" => flags.element = Some(element(&value()?)?),
            "--json" => flags.wanted.json = true,
            "--no-pager" => flags.wanted.no_pager = true,
            "--no-color" => flags.wanted.no_color = true,
            "--quiet" => flags.wanted.quiet = true,
            "--help" => flags.help = true,
            "--version" => flags.version = true,
            short if "jqhV".chars().any(|c| is_short(short, c)) => {
                flags.wanted.json |= is_short(short, 'j');
                flags.wanted.quiet |= is_short(short, 'q');
                flags.help |= is_short(short, 'h');
                flags.version |= is_short(short, 'V');
            }
            _ => words.push(word.clone()),
        }
    }
    Ok((flags, words))
}

/// Takes `element NUMBER` off the end of a line that reads or has an immediate effect: there it means the same as `--element NUMBER`. A path of
/// the configuration may end like that.
pub fn take_element(flags: &mut Flags, words: &mut Vec<String>) -> Result<(), Failure> {
    let may_end = words.first().is_some_and(|first| ELEMENT_ROOTS.contains(&first.as_str()));
    let is_path = words.get(1).is_some_and(|second| second == "configuration" || second == "running-config");
    if let [.., word, number] = words.as_slice()
        && word == "element"
        && may_end
        && !is_path
    {
        flags.element = Some(element(number)?);
        words.truncate(words.len() - 2);
    }
    Ok(())
}

/// The first words of lines that may end with an element.
const ELEMENT_ROOTS: [&str; 6] = ["show", "monitor", "explain", "status", "clear", "request"];

fn element(text: &str) -> Result<u16, Failure> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Failure::usage(format!("an element has a number from 1 to 65535, not `{text}`")))
}

fn seconds(name: &str, text: &str) -> Result<Duration, Failure> {
    let number = text.parse::<f64>().ok().filter(|n| (0.01..=86_400.0).contains(n));
    let number = number
        .ok_or_else(|| Failure::usage(format!("`{name}` takes seconds, 0.01 to 86400, not `{text}`")))?;
    Ok(Duration::from_secs_f64(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(line: &str) -> Result<(Flags, Vec<String>), Failure> {
        take(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_may_stand_anywhere() {
        let (flags, words) =
            taken("show --timeout 2.5 bgp -jq summary --run-dir=/x --instance red").expect("right");
        assert_eq!(words, ["show", "bgp", "summary"]);
        assert!(flags.wanted.json && flags.wanted.quiet && !flags.help);
        assert_eq!((flags.timeout, flags.run_dir), (Duration::from_millis(2500), "/x".into()));
        assert_eq!(flags.instance.as_deref(), Some("red"));
        let (mut flags, mut words) = taken("show bgp summary element 12").expect("right");
        take_element(&mut flags, &mut words).expect("right");
        assert_eq!((flags.element, words.join(" ").as_str()), (Some(12), "show bgp summary"));
        for line in ["configure set cluster element 3", "show configuration cluster element 3", "element 3"] {
            let (mut flags, mut words) = taken(line).expect("right");
            take_element(&mut flags, &mut words).expect("right");
            assert_eq!((flags.element, words.join(" ").as_str()), (None, line));
        }
        assert_eq!(taken("show --element 7 bgp").expect("right").0.element, Some(7));
        let (_, words) = taken("configure set x -4 --longer -- --json").expect("right");
        assert_eq!(words, ["configure", "set", "x", "-4", "--longer", "--json"]);
        for line in ["x --timeout never", "x --timeout", "x --watch 0", "x --element 0", "x --element far"] {
            assert_eq!(taken(line).expect_err(line).status, Failure::USAGE);
        }
    }
}
