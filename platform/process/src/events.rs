//! Reports of a process: lines of its log, and a ring of the newest events for operators to follow.
//!
//! An event has a stable name in its field `event` (docs/events.md lists them); further lines are events named `log`.
//! Lines go to the journal if standard error leads there, else to standard error as text or as JSON lines. A repeated
//! line is written a few times and then counted. Possible secrets are never written.

use sluice_base::{printable, printable_json};
use sluice_xrl::idl::common::v1 as pb;
use sluice_xrl::{CallContext, Service, XrlError};
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Events that are kept.
const KEPT: usize = 4096;
/// The same line is written so often within [`WINDOW`].
const BURST: u32 = 5;
/// After this long a line counts as new.
const WINDOW: Duration = Duration::from_secs(10);
/// The most distinct lines counted at a time; further lines are written without being counted.
const COUNTED: usize = 1024;
/// A field with octets from outside. The octets do not make a line distinct: else a sender could cause any number of
/// lines.
const OCTETS: &str = "octets";
/// Events of a reply, at most.
const PAGE: usize = 1000;
/// For how long a call may wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The newest events of this process.
#[derive(Default)]
struct Ring {
    kept: Mutex<Kept>,
    come: Notify,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<pb::Event>,
    last: u64,
}

fn ring() -> &'static Ring {
    static RING: OnceLock<Ring> = OnceLock::new();
    RING.get_or_init(Ring::default)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    fn push(&self, mut event: pb::Event) {
        let mut kept = lock(&self.kept);
        kept.last += 1;
        event.number = kept.last;
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
        drop(kept);
        self.come.notify_waiters();
    }

    fn take(&self, after: u64, limit: usize) -> pb::TakeEventsReply {
        let kept = lock(&self.kept);
        // A number of an earlier life of the process says nothing in this one.
        let after = if after > kept.last { 0 } else { after };
        let oldest = kept.last + 1 - kept.events.len() as u64;
        let skipped = (after + 1).saturating_sub(oldest);
        let events: Vec<pb::Event> = kept
            .events
            .iter()
            .skip(usize::try_from(skipped).unwrap_or(usize::MAX))
            .take(limit)
            .cloned()
            .collect();
        let last = events.last().map_or(after, |e| e.number);
        pb::TakeEventsReply { events, last, lost: oldest.saturating_sub(after + 1) }
    }
}

/// Serves the ring.
struct Served;

impl pb::Events for Served {
    async fn take(
        &self,
        _ctx: &CallContext,
        request: pb::TakeEventsRequest,
    ) -> Result<pb::TakeEventsReply, XrlError> {
        let limit = if request.limit == 0 { PAGE } else { (request.limit as usize).min(PAGE) };
        let wait = Duration::from_millis(request.wait_ms.into()).min(MAX_WAIT);
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let mut come = std::pin::pin!(ring().come.notified());
            // From here on nothing that comes is missed.
            come.as_mut().enable();
            let reply = ring().take(request.after, limit);
            if !reply.events.is_empty() || tokio::time::timeout_at(deadline, come).await.is_err() {
                return Ok(reply);
            }
        }
    }
}

/// The service `common.v1.Events` of this process.
pub fn service() -> Service {
    pb::events_service(Rc::new(Served))
}

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

/// The variable by which the manager tells a component that the log is the journal; `1` for yes. Standard error of a component leads
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
        // there is nobody to tell it to.
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
            let told = Seen {
                id: "log.suppressed".into(),
                text: format!("suppressed {suppressed} {lines}: {}", reported.text),
                ..Seen::default()
            };
            let told = self.event("warn", &told);
            self.write(&told);
            ring().push(told);
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
    fn a_line_says_nothing_twice() {
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
    fn the_ring_keeps_the_newest() {
        let ring = Ring::default();
        let event = |text: usize| pb::Event { text: text.to_string(), ..pb::Event::default() };
        assert_eq!(ring.take(0, 10), pb::TakeEventsReply::default());
        (0..KEPT + 3).for_each(|n| ring.push(event(n)));
        let reply = ring.take(0, 2);
        assert_eq!((reply.events[0].text.as_str(), reply.last, reply.lost), ("3", 5, 3));
        let reply = ring.take(KEPT as u64 + 2, 10);
        assert_eq!((reply.events.len(), reply.lost), (1, 0));
        assert!(ring.take(KEPT as u64 + 3, 10).events.is_empty());
        // The number of another life.
        assert_eq!(ring.take(u64::MAX, 1).events.len(), 1);
    }

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

    #[test]
    fn secrets_are_hidden() {
        use tracing_subscriber::layer::SubscriberExt;
        let subscriber = tracing_subscriber::registry().with(log());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(event = "test.secret", password = "hunter2", peer = "192.0.2.1", "set");
        });
        let reply = ring().take(0, KEPT);
        let event = reply.events.iter().find(|e| e.id == "test.secret").expect("reported");
        assert!(!format!("{event:?}").contains("hunter2"));
        assert_eq!(event.text, "set");
    }
}
