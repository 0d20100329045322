//! Reports of a process: lines of its log, and a ring of the newest events for operators to follow.
//!
//! An event has a stable name in its field `event` (docs/events.md lists them); further lines are events named `log`.
//! Lines go to the journal if standard error leads there, else to standard error as text or as JSON lines. A repeated
//! line is written a few times and then counted. Possible secrets are never written.

mod relay;
mod ring;

pub use relay::relay;
pub use ring::service;

use ring::{lock, ring};
use sluice_base::{printable, printable_json};
use sluice_xrl::idl::common::v1 as pb;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The same line is written so often within [`WINDOW`].
const BURST: u32 = 5;
/// After this long a line counts as new.
const WINDOW: Duration = Duration::from_secs(10);
/// The most distinct lines counted at a time; further lines are written without being counted.
const COUNTED: usize = 1024;
/// A field with octets from outside. The octets do not make a line distinct: else a sender could cause any number of
/// lines.
const OCTETS: &str = "octets";
/// The journal's priorities of levels (docs/events.md): `info` is nothing of note.
const PRIORITIES: PriorityMappings = PriorityMappings {
    error: Priority::Error,
    warn: Priority::Warning,
    info: Priority::Informational,
    debug: Priority::Debug,
    trace: Priority::Debug,
};

/// Returns the prefix that carries a line's priority to the journal (sd-daemon(3)).
fn prefix(level: &str) -> &'static str {
    match level {
        "error" => "<3>",
        "warn" => "<4>",
        "info" => "<6>",
        _ => "<7>",
    }
}

/// The destination of lines.
enum Sink {
    Text,
    Json,
    Journal(Box<tracing_journald::Layer>),
}

impl Sink {
    fn choose(component: &str) -> Self {
        if is_json() {
            return Sink::Json;
        }
        let leads_there = leads_to_journal() || std::env::var(JOURNAL).is_ok_and(|v| v == "1");
        match leads_there.then(tracing_journald::layer) {
            Some(Ok(layer)) => Sink::Journal(Box::new(
                layer
                    .with_syslog_identifier("sluice".into())
                    .with_custom_fields([("SLUICE_COMPONENT", component)])
                    .with_priority_mappings(PRIORITIES),
            )),
            _ => Sink::Text,
        }
    }
}

/// The variable by which the manager informs a component that the log is the journal; `1` for yes. Standard error of a component leads
/// to the manager.
pub const JOURNAL: &str = "SLUICE_LOG_JOURNAL";

/// Returns true if the log is written as JSON.
fn is_json() -> bool {
    std::env::var("SLUICE_LOG_JSON").is_ok_and(|v| v == "1")
}

/// Returns true if standard error is the file that `JOURNAL_STREAM` names: `DEVICE:INODE` (systemd.exec(5)).
pub fn leads_to_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let about = std::fs::metadata("/proc/self/fd/2");
    about.is_ok_and(|m| named == format!("{}:{}", m.dev(), m.ino()))
}

/// The layer that writes lines and fills the ring.
pub struct Log {
    component: String,
    sink: Sink,
    counted: Mutex<HashMap<String, Counted>>,
}

/// A line that was written not long ago.
struct Counted {
    since: Instant,
    times: u32,
}

impl Log {
    /// For the process of a component.
    pub fn new(component: &str) -> Self {
        Log { component: component.into(), sink: Sink::choose(component), counted: Mutex::default() }
    }

    /// Decides whether a line is written, and returns how often the line was suppressed since it was last written.
    fn admit(&self, line: &str, now: Instant) -> (bool, u32) {
        let mut counted = lock(&self.counted);
        if let Some(known) = counted.get_mut(line) {
            if now.duration_since(known.since) < WINDOW {
                known.times += 1;
                return (known.times <= BURST, 0);
            }
            let suppressed = known.times.saturating_sub(BURST);
            *known = Counted { since: now, times: 1 };
            return (true, suppressed);
        }
        if counted.len() == COUNTED {
            counted.retain(|_, known| now.duration_since(known.since) < WINDOW);
        }
        if counted.len() < COUNTED {
            counted.insert(line.to_string(), Counted { since: now, times: 1 });
        }
        (true, 0)
    }

    fn event(&self, level: &str, seen: &Seen) -> pb::Event {
        let fields = seen.fields.iter().map(|(n, v)| pb::EventField { name: n.clone(), value: v.clone() });
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        pb::Event {
            number: 0,
            id: if seen.id.is_empty() { "log".into() } else { seen.id.clone() },
            time_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            level: level.to_lowercase(),
            component: self.component.clone(),
            text: seen.text.clone(),
            fields: fields.collect(),
        }
    }

    fn write(&self, event: &pb::Event) {
        let time = timestamp();
        let line = match self.sink {
            Sink::Json => {
                let fields: serde_json::Map<String, serde_json::Value> =
                    event.fields.iter().map(|f| (f.name.clone(), f.value.clone().into())).collect();
                let document = serde_json::json!({
                    "time": time, "level": event.level, "component": event.component, "event": event.id,
                    "text": event.text, "fields": fields,
                });
                printable_json(&document.to_string()).into_owned()
            }
            Sink::Text | Sink::Journal(_) => {
                let mut line = match self.sink {
                    Sink::Journal(_) => prefix(&event.level).to_owned(),
                    _ => format!("{time} {:>5} ", event.level.to_uppercase()),
                };
                let _ = write!(line, "{}: ", event.component);
                if event.id != "log" {
                    let _ = write!(line, "{}: ", event.id);
                }
                line.push_str(&event.text);
                for field in beside_text(event) {
                    let _ = write!(line, " {}={}", field.name, field.value);
                }
                // A line is a line, whatever a neighbor has sent.
                printable(&line.replace(['\n', '\r'], " ")).into_owned()
            }
        };
        // In one piece: all processes write to the same place. Where the log cannot be written (a full disk, a reader that is gone)
        // there is no reader for it.
        let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
    }
}

/// Returns the fields of an event that a line for people has beside the text: those whose value is not in the text already. Numbers are
/// always among them, as a number in the text may be another one.
pub fn beside_text(event: &pb::Event) -> impl Iterator<Item = &pb::EventField> {
    event.fields.iter().filter(|field| {
        let is_number = field.value.chars().all(|c| c.is_ascii_digit());
        is_number || !event.text.contains(&field.value)
    })
}

fn timestamp() -> String {
    use tracing_subscriber::fmt::format::Writer;
    use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
    let mut text = String::new();
    // A time always fits into a string.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

impl<S> Layer<S> for Log
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut seen = Seen::default();
        event.record(&mut seen);
        let level = event.metadata().level().as_str();
        let reported = self.event(level, &seen);
        let key = seen.key();
        let (written, suppressed) = self.admit(&key, Instant::now());
        if suppressed > 0 {
            let lines = if suppressed == 1 { "line" } else { "lines" };
            let seen = Seen {
                id: "log.suppressed".into(),
                text: format!("suppressed {suppressed} {lines}: {}", reported.text),
                ..Seen::default()
            };
            let line = self.event("warn", &seen);
            self.write(&line);
            ring().push(line);
        }
        if !written {
            return;
        }
        match &self.sink {
            Sink::Journal(journal) if !seen.hidden => journal.on_event(event, ctx),
            _ => self.write(&reported),
        }
        ring().push(reported);
    }
}

/// The fields of an event.
#[derive(Default)]
struct Seen {
    id: String,
    text: String,
    fields: Vec<(String, String)>,
    hidden: bool,
}

impl Seen {
    /// Returns the key for counting: two lines with equal keys are equal lines.
    fn key(&self) -> String {
        let fields: Vec<_> = self.fields.iter().filter(|(name, _)| name != OCTETS).collect();
        format!("{} {}{fields:?}", self.id, self.text)
    }

    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.text = value,
            "event" => self.id = value,
            name if is_secret(name) => {
                self.hidden = true;
                self.fields.push((name.into(), "(hidden)".into()));
            }
            name => self.fields.push((name.into(), value)),
        }
    }
}

/// Returns true if a field of this name could hold a secret.
fn is_secret(name: &str) -> bool {
    ["password", "secret", "passphrase"].iter().any(|s| name.contains(s)) || name == "key"
}

impl Visit for Seen {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        Log { component: "test".into(), sink: Sink::Json, counted: Mutex::default() }
    }

    #[test]
    fn the_same_line_is_counted() {
        let log = log();
        let begin = Instant::now();
        let written = (0..20).filter(|_| log.admit("x", begin).0).count();
        assert_eq!(written, BURST as usize);
        assert_eq!(log.admit("y", begin), (true, 0));
        assert_eq!(log.admit("x", begin + WINDOW), (true, 15));
        assert_eq!(log.admit("x", begin + WINDOW), (true, 0));
    }

    #[test]
    fn octets_from_outside_make_no_line_a_new_one() {
        let seen = |neighbor: &str, octets: &str| Seen {
            id: "bgp.update.malformed".into(),
            text: "malformed".into(),
            fields: vec![("neighbor".into(), neighbor.into()), ("octets".into(), octets.into())],
            hidden: false,
        };
        let log = log();
        let now = Instant::now();
        let admitted = |neighbor: &str| {
            (0..1000).filter(|n| log.admit(&seen(neighbor, &n.to_string()).key(), now).0).count()
        };
        assert_eq!(admitted("192.0.2.1"), BURST as usize);
        assert_eq!(admitted("192.0.2.2"), BURST as usize, "another neighbor is another line");
    }

    #[test]
    fn a_line_has_nothing_twice() {
        let field = |name: &str, value: &str| pb::EventField { name: name.into(), value: value.into() };
        let event = pb::Event {
            text: "neighbor 10.0.0.2: session is down: connection lost".into(),
            fields: vec![
                field("neighbor", "10.0.0.2"),
                field("reason", "connection lost"),
                field("group", "transit"),
                field("count", "2"),
            ],
            ..pb::Event::default()
        };
        let beside: Vec<&str> = beside_text(&event).map(|field| field.name.as_str()).collect();
        assert_eq!(beside, ["group", "count"]);
    }

    #[test]
    fn what_is_counted_has_an_end() {
        let log = log();
        let begin = Instant::now();
        for n in 0..COUNTED * 2 {
            assert!(log.admit(&n.to_string(), begin).0);
        }
        assert_eq!(lock(&log.counted).len(), COUNTED);
    }

    #[test]
    fn secrets_are_hidden() {
        use tracing_subscriber::layer::SubscriberExt;
        let subscriber = tracing_subscriber::registry().with(log());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(event = "test.secret", password = "hunter2", peer = "192.0.2.1", "set");
        });
        let reply = ring().take(0, ring::KEPT);
        let event = reply.events.iter().find(|e| e.id == "test.secret").expect("reported");
        assert!(!format!("{event:?}").contains("hunter2"));
        assert_eq!(event.text, "set");
    }
}
