//! The accepted contents of a `metrics.toml`, and the errors for the rest.

use super::*;
use proptest::prelude::*;

const GOOD: &str = r#"
# Of a package `my-proto`.
[[metric]]
name = "my_proto_neighbor_routes"
type = "gauge"
help = "Routes of a neighbor."
call = "my-proto/my.v1.My/GetNeighbors"
with = { family = "IPV4" }
rows = "neighbors.families"
labels = { neighbor = "address", family = "family" }
value = "routes"

[[metric]]
name = "my_proto_up_seconds"
type = "counter"
help = "Time."
call = "my-proto/my.v1.My/GetStatus"
value = "uptime_ms"
format = "span"

[[metric]]
name = "my_proto_state"
type = "gauge"
help = "The state."
call = "my-proto/my.v1.My/GetStatus"
value = "state"
states = ["Idle", "Up"]
"#;

#[test]
fn a_file_is_read() {
    let metrics = parse("my-proto", GOOD).expect("it is right");
    let [routes, up, state] = &metrics[..] else { panic!("{metrics:?}") };
    assert_eq!((routes.family().as_str(), routes.kind), ("sluice_my_proto_neighbor_routes", Type::Gauge));
    assert_eq!((routes.rows.as_str(), routes.value.as_str()), ("neighbors.families", "routes"));
    assert_eq!((routes.labels["neighbor"].as_str(), routes.labels.len()), ("address", 2));
    assert_eq!((routes.call.method.as_str(), routes.call.with["family"].as_str()), ("GetNeighbors", "IPV4"));
    assert_eq!((routes.unit(), up.unit(), up.format), (None, Some("seconds"), Format::Span));
    assert_eq!(state.states, ["Idle", "Up"]);
    assert_eq!(up.call, state.call, "they share an answer");
    assert_eq!(parse("any", ""), Ok(Vec::new()));
}

/// Checks the error after `old` in [`GOOD`] is replaced by `new`: behind the file's name, it begins with `expected`.
fn check(old: &str, new: &str, expected: &str) {
    assert!(GOOD.contains(old), "{old}");
    let error = parse("my-proto", &GOOD.replacen(old, new, 1)).expect_err(new).to_string();
    assert!(error.strip_prefix("metrics.toml:").is_some_and(|e| e.starts_with(expected)), "{new}: {error}");
}

#[test]
fn what_is_wrong_has_a_line_and_a_remedy() {
    check("type = \"gauge\"", "type = gauge", "5: ");
    check("type = \"gauge\"", "type = \"histogram\"", "5: unknown variant `histogram`, expected `gauge` or");
    check("rows =", "each =", "9: unknown field `each`, expected one of `name`");
    check("help = \"Time.\"\n", "", "13: missing field `help`");
    check("value = \"routes\"", "value = 7", "11: invalid type: integer");
    check(
        "my_proto_neighbor_routes",
        "bgp_neighbor_routes",
        "4: `bgp_neighbor_routes` is no name for a metric",
    );
    check("my_proto_neighbor_routes", "my_\\u001b_\\n", "4: `my_\\u{1b}_\\n` is no name for a metric");
    check("my_proto_neighbor_routes", "my_proto_", "4: `my_proto_` is no name");
    check("my_proto_neighbor_routes", "my_proto_9", "4: `my_proto_9` is no name");
    check("my_proto_neighbor_routes", "my_proto_Routes", "4: `my_proto_Routes` is no name");
    check("my_proto_state", "my_proto_up_seconds", "22: there is a metric `my_proto_up_seconds` already");
    check(
        "my_proto_up_seconds",
        "my_proto_up_total",
        "14: `my_proto_up_total` ends in `_total`, which samples",
    );
    check("my_proto_neighbor_routes", "my_proto_count", "4: `my_proto_count` ends in `_count`, which has a");
    check(
        "my_proto_up_seconds",
        "my_proto_up",
        "19: `my_proto_up` is printed in seconds; let its name end in",
    );
    check("format = \"span\"", "format = \"bytes\"", "19: `my_proto_up_seconds` is printed in bytes");
    check("format = \"span\"", "format = \"flag\"", "19: a counter has no `format = \"flag\"`");
    check("value = \"uptime_ms\"\n", "", "14: a counter needs `value`");
    check("value = \"state\"\n", "", "22: a metric with `states` needs `value`");
    check("states = [\"Idle\", \"Up\"]", "states = []", "27: `states` are texts");
    check("[\"Idle\", \"Up\"]", "[\"Up\", \"Up\"]", "27: `states` are texts");
    check("states =", "format = \"flag\"\nstates =", "27: `states` and `format` do not go together");
    check("\"Time.\"", "'say \"no\"'", "16: `help` is one line");
    check("\"Time.\"", "\"two\\nlines\"", "16: `help` is one line");
    check("\"Time.\"", "\"\"", "16: `help` is one line");
    check("my.v1.My/GetNeighbors", "GetNeighbors", "7: `call` is TARGET/INTERFACE/METHOD");
    check("my-proto/my.v1.My/GetNeighbors", "my proto/my.v1.My/GetNeighbors", "7: `call` is TARGET/");
    check("neighbors.families", "neighbors..families", "9: `neighbors..families` is no path");
    check("{ neighbor = \"address\"", "{ neighbor = \"\"", "10: `` is no path");
    check("{ neighbor", "{ Neighbor", "10: `Neighbor` is no name for a label");
    check(
        "states =",
        "labels = { state = \"x\" }\nstates =",
        "27: a metric with `states` has the label `state`",
    );
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    assert_eq!(parse("my-proto", &format!("format = 1\n{GOOD}")), parse("my-proto", GOOD));
    let error = parse("my-proto", &format!("alarms = 1\nformat = 2{GOOD}")).expect_err("newer").to_string();
    assert!(error.starts_with("metrics.toml:2: the file has format 2, and "), "{error}");
    assert!(error.contains("up to 1;"), "{error}");
}

#[test]
fn there_are_limits() {
    let metric = |n: usize| {
        format!("[[metric]]\nname = 'p_a{n}'\ntype = 'gauge'\nhelp = 'x'\ncall = 'p/p.v1.P/GetIt'\n")
    };
    let many = |n: usize| (0..n).map(metric).collect::<String>();
    assert_eq!(parse("p", &many(MOST_METRICS)).map(|all| all.len()), Ok(MOST_METRICS));
    let error = parse("p", &many(MOST_METRICS + 1)).expect_err("too many");
    assert_eq!(error.to_string(), "metrics.toml:1281: there are more than 256 metrics; leave some out");
    let labels: Vec<String> = (0..=MOST_LABELS).map(|n| format!("l{n} = 'a'")).collect();
    let text = format!("{}labels = {{ {} }}\n", metric(0), labels.join(", "));
    assert!(matches!(parse("p", &text), Err(MetricsError { problem: Problem::TooMany { .. }, .. })));
    let states: Vec<String> = (0..=MOST_STATES).map(|n| format!("'{n}'")).collect();
    let text = format!("{}value = 'a'\nstates = [{}]\n", metric(0), states.join(", "));
    assert!(matches!(parse("p", &text), Err(MetricsError { problem: Problem::TooMany { .. }, .. })));
}

proptest! {
    /// A damaged file is accepted, or refused with a line within the file.
    #[test]
    fn damage_is_refused_or_harmless(at in 0..GOOD.len(), length in 0..20_usize, with in ".{0,8}") {
        let mut text: Vec<char> = GOOD.chars().collect();
        let end = (at + length).min(text.len());
        text.splice(at..end, with.chars());
        let text: String = text.into_iter().collect();
        match parse("my-proto", &text) {
            Ok(metrics) => prop_assert!(metrics.iter().all(|m| m.name.starts_with("my_proto_"))),
            Err(error) => prop_assert!(error.line >= 1 && error.line <= text.split('\n').count()),
        }
    }
}
