//! The command line: input of operators, and commands of packages.

use crate::config::with_schema;
use serde_json::{Value, json};
use sluice_cli::metrics::{Family, samples};
use sluice_cli::{Filters, Grammar, builtin, package, quoted, split, statement};
use sluice_config::metrics::{self, Type};

thread_local! {
    static GRAMMARS: [Grammar; 2] = [builtin::operational(), builtin::configuration()];
    static ANSWER: Value = answer();
}

/// Lines of output for filters.
const OUTPUT: [&str; 3] = ["10.0.0.0/8 via 192.0.2.1", "", "Established \u{e9}"];

/// A typed line: the line is parsed or refused with a message, and completion works at any of its ends.
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

/// A typed path of the configuration: written out, the path leads to the same place.
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
            // The values of a list in brackets stand in the path without the brackets.
            if !words.iter().any(|word| word.starts_with('[')) {
                assert_eq!(statement::whole(nodes, &whole), Ok(whole.clone()));
            }
            if let Ok(blocks) = statement::blocks(nodes, &words) {
                assert_eq!(blocks.concat(), whole);
            }
        }
        statement::is_secret(nodes, &words);
    });
}

/// A package's `commands.toml`: accepted commands can be typed.
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

/// A package's `metrics.toml`: accepted metrics print lines that a reader accepts, for any answer.
pub fn metrics(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    // The package of its first metric.
    let package = text.split("name = \"").nth(1).and_then(|rest| rest.split('_').next()).unwrap_or("bgp");
    match metrics::parse(package, &text) {
        Ok(metrics) => ANSWER.with(|answer| {
            for metric in &metrics {
                let (samples, troubles) = samples(metric, answer);
                assert!(troubles.iter().all(|trouble| !trouble.to_string().is_empty()));
                printed(&Family { samples, ..Family::of(metric) });
            }
        }),
        Err(error) => assert!(error.line <= text.split('\n').count() && !error.to_string().contains('\n')),
    }
}

/// A family's text: three kinds of remarks, then a sample a line, without repetitions.
fn printed(family: &Family) {
    let text = family.text();
    let (remarks, rows): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("# "));
    assert_eq!(remarks.len(), 2 + usize::from(family.unit.is_some()), "{text}");
    assert_eq!(rows.len(), family.samples.len(), "{text}");
    let suffix = if family.kind == Type::Counter { "_total" } else { "" };
    let mut series: Vec<&str> = Vec::new();
    for row in rows {
        let (labels, value) = row.rsplit_once(' ').expect("a sample has a value");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{row}");
        let labels = labels.strip_prefix(&format!("{}{suffix}", family.name)).expect("its name comes first");
        assert!(labels.is_empty() || labels.starts_with('{') && labels.ends_with("\"}"), "{row}");
        series.push(labels);
    }
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all, "{text}");
}

/// The combined answers of Sluice's components, and an answer of no component.
fn answer() -> Value {
    let messages = json!({ "update": 7, "notification": 0, "keepalive": u64::MAX });
    let family =
        json!({ "family": "ipv4", "prefixes_received": 1, "prefixes_sent": null, "end_of_rib": true });
    let origin = json!({ "origin": "bgp \"\\\n", "routes": 3, "stale": -3 });
    json!({
        "neighbors": [{
            "address": "2001:db8::1", "peer_as": 64500, "state": "Established", "enabled": true, "uptime_ms": 12_345,
            "flaps": 1.5, "received": messages, "sent": null, "families": [family, family], "leaks": "many",
        }],
        "tables": [{ "table": 254, "family": "ipv4", "prefixes": 5, "origins": [origin, {}], "installed": [1, 2] }],
        "processes": [{ "component": "bgp", "state": "backing off", "cpu_ms": 1 }],
        "interfaces": { "name": "eth0", "running": true },
        "guests": [{ "name": "ann", "asked": 2 }, { "name": "", "asked": 0 }],
        "readiness": "odd", "uptime_ms": 5, "trouble": "", "running": 8, "version": "1", "idle": false,
    })
}

/// Lines with every element of a line.
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

/// The files of Sluice's packages.
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

/// Metrics of our packages.
pub fn metric_files() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../components/manager/metrics.toml"),
        include_str!("../../components/bgp/metrics.toml"),
        include_str!("../../components/rib/metrics.toml"),
        include_str!("../../components/fea/metrics.toml"),
        include_str!("../../components/static/metrics.toml"),
        include_str!("../../sdk/python/examples/hello/metrics.toml"),
    ];
    let pieces = files.iter().flat_map(|file| file.split("\n\n").skip(1));
    files.iter().copied().chain(pieces).map(|text| text.as_bytes().to_vec()).collect()
}
