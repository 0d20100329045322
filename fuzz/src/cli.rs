//! The command line: what operators type, and what packages add to it.

use crate::config::with_schema;
use sluice_cli::{Filters, Grammar, builtin, package, quoted, split, statement};

thread_local! {
    static GRAMMARS: [Grammar; 2] = [builtin::operational(), builtin::configuration()];
}

/// Lines of output that filters are tried on.
const OUTPUT: [&str; 3] = ["10.0.0.0/8 via 192.0.2.1", "", "Established \u{e9}"];

/// A line as it is typed: it is understood or refused in words, and at any of its ends there is something to be offered.
pub fn line(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    let line = split(&text);
    let words = line.texts();
    for word in &words {
        let again = split(&quoted(word));
        assert_eq!((again.texts().as_slice(), again.unclosed), (std::slice::from_ref(word), false));
    }
    GRAMMARS.with(|grammars| {
        for grammar in grammars {
            match grammar.read(&words) {
                Ok(read) => assert!(grammar.commands.iter().any(|c| c.id == read.command.id)),
                Err(misread) => assert!(!misread.to_string().is_empty()),
            }
            let offer = grammar.offer(&text);
            assert!(text.is_char_boundary(offer.start), "{offer:?}");
        }
    });
    match Filters::read(&line.filters) {
        Ok(mut filters) => {
            let mut passed = 0;
            let mut count = |_: &str| passed += 1;
            let _goes_on = OUTPUT.iter().all(|line| filters.line(line, &mut count));
            filters.end(&mut count);
            assert!(passed <= OUTPUT.len() + line.filters.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A path of the configuration as it is typed: written out it leads to the same place.
pub fn path(octets: &[u8]) {
    let words = split(&String::from_utf8_lossy(octets)).texts();
    with_schema(|schema| {
        let nodes = schema.nodes();
        for values in [true, false] {
            if let Err(error) = statement::following(nodes, &words, values) {
                assert!(!error.to_string().is_empty());
            }
        }
        if let Ok(whole) = statement::whole(nodes, &words) {
            assert_eq!(statement::whole(nodes, &whole), Ok(whole.clone()));
            if let Ok(blocks) = statement::blocks(nodes, &words) {
                assert_eq!(blocks.concat(), whole);
            }
        }
        statement::is_secret(nodes, &words);
    });
}

/// A package's `commands.toml`: what is taken can be typed.
pub fn commands(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    match package::parse(&text) {
        Ok(commands) => {
            let grammar = Grammar { commands: commands.into_iter().map(|c| c.command).collect() };
            for command in &grammar.commands {
                let offer = grammar.offer(&command.name());
                assert!(!offer.words.is_empty(), "{}", command.name());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Lines with all that a line can have.
pub fn lines() -> Vec<Vec<u8>> {
    let lines = include_str!("../seeds/commands.txt");
    lines.lines().map(|line| line.as_bytes().to_vec()).collect()
}

/// Paths, as statements name them.
pub fn paths() -> Vec<Vec<u8>> {
    let statements = include_str!("../seeds/edits.txt").lines();
    let paths = statements.filter_map(|line| line.split_once(' ')).map(|(_, path)| path);
    paths.map(|path| path.as_bytes().to_vec()).collect()
}

/// Those of our packages.
pub fn command_files() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../components/manager/commands.toml"),
        include_str!("../../components/bgp/commands.toml"),
        include_str!("../../sdk/python/examples/hello/commands.toml"),
    ];
    // Commands of their own, so that damage often hits one of an otherwise valid file.
    let pieces = files.iter().flat_map(|file| file.split_inclusive("]\n\n"));
    files.iter().copied().chain(pieces).map(|text| text.as_bytes().to_vec()).collect()
}
