//! Lines of other processes in the log.

use super::{is_json, leads_to_journal, prefix, timestamp};
use sluice_base::{printable, printable_json};
use std::io::Write as _;
use std::sync::OnceLock;

/// Writes a line of another process into the log: as it is if the line is an event of the component itself, else labeled with the
/// component's name. A line that claims to be of another component is labeled too.
pub fn relay(component: &str, line: &str) {
    static FORM: OnceLock<Form> = OnceLock::new();
    let form = FORM.get_or_init(|| match (is_json(), leads_to_journal()) {
        (true, _) => Form::Json,
        (false, true) => Form::Journal,
        (false, false) => Form::Text,
    });
    let line = labeled(*form, component, line, &timestamp());
    // As for lines of this process.
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// The form of a line in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Text,
    Json,
    Journal,
}

/// The id of a line that is no event.
const OUTPUT: &str = "output";

fn labeled(form: Form, component: &str, line: &str, time: &str) -> String {
    let is_own = match form {
        Form::Text => is_event_of(component, line),
        Form::Journal => {
            let text = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            text.is_some_and(|(priority, text)| {
                ["3", "4", "6", "7"].contains(&priority) && begins_with_name(component, text)
            })
        }
        Form::Json => serde_json::from_str::<serde_json::Value>(line)
            .is_ok_and(|event| event["component"] == component && event["level"].is_string()),
    };
    let text = printable(line);
    match form {
        Form::Json if is_own => printable_json(line).into_owned(),
        _ if is_own => text.into_owned(),
        Form::Text => format!("{time} {:>5} {component}: {OUTPUT}: {text}", "INFO"),
        Form::Journal => format!("{}{component}: {OUTPUT}: {text}", prefix("info")),
        Form::Json => {
            let fields = serde_json::json!({});
            let document = serde_json::json!({
                "time": time, "level": "info", "component": component, "event": OUTPUT, "text": line,
                "fields": fields,
            });
            printable_json(&document.to_string()).into_owned()
        }
    }
}

/// Returns true for a line `TIME LEVEL COMPONENT: TEXT` of the component.
fn is_event_of(component: &str, line: &str) -> bool {
    let Some((time, rest)) = line.split_once(' ') else { return false };
    let rest = rest.trim_start_matches(' ');
    let Some((level, text)) = rest.split_once(' ') else { return false };
    time.len() >= 20
        && time.bytes().all(|octet| octet.is_ascii_digit() || b"-:.TZ".contains(&octet))
        && ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].contains(&level)
        && begins_with_name(component, text)
}

fn begins_with_name(component: &str, text: &str) -> bool {
    text.strip_prefix(component).is_some_and(|rest| rest.starts_with(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_are_labeled_and_cannot_pretend() {
        let own = "2026-11-28T10:00:00.000000Z  WARN bgp: bgp.session.down: lost";
        assert_eq!(labeled(Form::Text, "bgp", own, "NOW"), own);
        for (form, line, expected) in [
            (Form::Text, "hello", "NOW  INFO prb: output: hello"),
            (
                Form::Text,
                own,
                "NOW  INFO prb: output: 2026-11-28T10:00:00.000000Z  WARN bgp: bgp.session.down: lost",
            ),
            (Form::Text, "\u{1b}[2J\r", "NOW  INFO prb: output: \\u{1b}[2J\\r"),
            (Form::Journal, "<3>prb: x: y", "<3>prb: x: y"),
            (Form::Journal, "<3>bgp: x: y", "<6>prb: output: <3>bgp: x: y"),
            (Form::Journal, "<0>prb: x: y", "<6>prb: output: <0>prb: x: y"),
            (Form::Json, r#"{"component":"prb","level":"info"}"#, r#"{"component":"prb","level":"info"}"#),
        ] {
            assert_eq!(labeled(form, "prb", line, "NOW"), expected);
        }
        for line in [r#"{"component":"bgp","level":"info"}"#, "x\u{9b}"] {
            let labeled = labeled(Form::Json, "prb", line, "NOW");
            let document: serde_json::Value = serde_json::from_str(&labeled).expect("JSON");
            assert_eq!((&document["component"], &document["event"]), (&"prb".into(), &"output".into()));
            assert_eq!(document["text"], line);
            assert!(!labeled.contains(char::is_control));
        }
    }
}
