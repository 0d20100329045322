//! The results of a run, for people and programs.

use crate::meter;
use crate::run::{PhaseResult, Received};
use bench_report::{Plot, Series, number, table};
use serde_json::{Value, json};

/// The properties of a run.
#[derive(Clone, Debug)]
pub struct Title {
    /// The tested router.
    pub target: String,
    /// The workload.
    pub workload: String,
    /// In which order.
    pub order: String,
    /// Traffic mix.
    pub mix: &'static str,
    /// The speed.
    pub speed: String,
    /// Number of senders.
    pub senders: usize,
    /// Number of receivers.
    pub receivers: usize,
    /// Messages of a trace that could not be sent.
    pub skipped: usize,
}

/// Returns true if the receivers received the senders' whole output.
pub fn verified(phases: &[PhaseResult]) -> bool {
    phases.last().is_some_and(|p| p.measured) && phases.iter().all(PhaseResult::verified)
}

/// The run on a terminal.
pub fn text(title: &Title, phases: &[PhaseResult]) -> String {
    let mut out = format!(
        "{}: {}, senders {}, receivers {}, order {}, mix {}, speed {}\n",
        title.target, title.workload, title.senders, title.receivers, title.order, title.mix, title.speed
    );
    if title.skipped > 0 {
        out += &format!(
            "{} messages of the trace are of other families, or cannot be said again, and were left out\n",
            title.skipped
        );
    }
    let head = [
        "phase",
        "routes",
        "UPDATEs",
        "MB",
        "sent s",
        "first s",
        "done s",
        "routes/s",
        "client CPU s",
        "target CPU s",
        "foreign",
    ];
    let rows: Vec<Vec<String>> = phases.iter().map(row).collect();
    out += &table(&head, &rows);
    for phase in phases {
        let wrong = phase.received.iter().filter(|h| !h.complete);
        wrong.for_each(|h| out += &complaint(phase, h));
        let odd = phase.received.iter().filter(|h| h.counts.unexpected > 0);
        odd.for_each(|h| {
            out += &format!("{}: {} prefixes that no sender spoke of\n", h.peer, h.counts.unexpected)
        });
        if let (Some(middle), Some(late)) = (delay(phase, 0.5), delay(phase, 0.99)) {
            out += &format!(
                "{} single routes: median {:.3} ms, p99 {:.3} ms\n",
                phase.delays.len(),
                1e3 * middle,
                1e3 * late
            );
        }
        if phase.sent.is_none() {
            out += &format!("phase `{}`: not everything was sent in time\n", phase.name);
        }
    }
    out += match (verified(phases), title.receivers) {
        (true, 0) => "everything was sent; nobody listened\n",
        (true, _) => "sent = received\n",
        (false, _) => "sent and received DIFFER\n",
    };
    out
}

/// The share of the measured time that the client needs without the target.
pub fn beside_floor(phases: &[PhaseResult], floor: Option<&[PhaseResult]>) -> String {
    let done = |phases: &[PhaseResult]| Some(phases.last()?.done()?.as_secs_f64());
    let (Some(floor), Some(with)) = (floor, done(phases)) else { return String::new() };
    let (Some(alone), Some(last)) = (done(floor), floor.last()) else { return String::new() };
    format!(
        "with a relay in the target's place: {alone:.3} s, {:.3} s of CPU: {:.0} % of the time above\n",
        last.load.own_s,
        100.0 * alone / with.max(f64::MIN_POSITIVE)
    )
}

fn row(phase: &PhaseResult) -> Vec<String> {
    let seconds = |s: Option<f64>| s.map_or("-".to_owned(), |s| format!("{s:.3}"));
    vec![
        format!("{}{}", phase.name, if phase.measured { "" } else { " (before)" }),
        number(phase.routes as f64),
        number(phase.messages as f64),
        number(phase.octets as f64 / 1e6),
        seconds(phase.sent.map(|s| s.as_secs_f64())),
        seconds(first(phase)),
        seconds(phase.done().map(|s| s.as_secs_f64())),
        phase.rate().map_or("-".to_owned(), number),
        format!("{:.3}", phase.load.own_s),
        if phase.target_peak.is_some() { format!("{:.3}", phase.load.target_s) } else { "-".to_owned() },
        format!("{:.0} %", phase.load.foreign_pct),
    ]
}

/// A quantile of the times of single routes, in seconds; `None` without single routes.
pub fn delay(phase: &PhaseResult, share: f64) -> Option<f64> {
    let mut all: Vec<f64> = phase.delays.iter().map(std::time::Duration::as_secs_f64).collect();
    all.sort_by(f64::total_cmp);
    let last = all.len().checked_sub(1)?;
    Some(all[(last as f64 * share).round() as usize])
}

/// Returns the time when the first receiver received the first news, in seconds.
fn first(phase: &PhaseResult) -> Option<f64> {
    let first = phase.received.iter().filter_map(|h| h.counts.first).min()?;
    Some(first.saturating_duration_since(phase.begin).as_secs_f64())
}

fn complaint(phase: &PhaseResult, received: &Received) -> String {
    let list = |what: &str, (count, some): &(usize, Vec<String>)| {
        if *count == 0 { String::new() } else { format!("; {count} {what}, such as {}", some.join(", ")) }
    };
    format!(
        "phase `{}`: {} received {} announced and {} withdrawn{}{}\n",
        phase.name,
        received.peer,
        received.counts.announced,
        received.counts.withdrawn,
        list("missing", &received.missing),
        list("too many", &received.surplus)
    )
}

/// The run for programs.
pub fn value(title: &Title, phases: &[PhaseResult]) -> Value {
    json!({
        "name": "bgpsim",
        "target": title.target,
        "workload": title.workload,
        "order": title.order,
        "mix": title.mix,
        "speed": title.speed,
        "senders": title.senders,
        "receivers": title.receivers,
        "skipped": title.skipped,
        "verified": verified(phases),
        "host": meter::machine(),
        "phases": phases.iter().map(phase_value).collect::<Vec<_>>(),
    })
}

fn phase_value(phase: &PhaseResult) -> Value {
    let receiver = |h: &Received| {
        let since = |at: Option<std::time::Instant>| {
            at.map(|at| at.saturating_duration_since(phase.begin).as_secs_f64())
        };
        json!({
            "peer": h.peer.to_string(),
            "complete": h.complete,
            "announced": h.counts.announced,
            "withdrawn": h.counts.withdrawn,
            "replaced": h.counts.replaced,
            "unexpected": h.counts.unexpected,
            "missing": h.missing.0,
            "surplus": h.surplus.0,
            "messages": h.counts.messages,
            "octets": h.counts.octets,
            "first_s": since(h.counts.first),
            "complete_s": since(h.counts.complete),
            "last_s": since(h.counts.last),
        })
    };
    json!({
        "name": phase.name,
        "measured": phase.measured,
        "verified": phase.verified(),
        "routes": phase.routes,
        "messages": phase.messages,
        "octets": phase.octets,
        "sent_s": phase.sent.map(|s| s.as_secs_f64()),
        "first_s": first(phase),
        "done_s": phase.done().map(|s| s.as_secs_f64()),
        "routes_per_s": phase.rate(),
        "client_cpu_s": phase.load.own_s,
        "target_cpu_s": phase.target_peak.map(|_| phase.load.target_s),
        "target_peak_octets": phase.target_peak,
        "delay_p50_s": delay(phase, 0.5),
        "delay_p99_s": delay(phase, 0.99),
        "foreign_cpu_pct": phase.load.foreign_pct,
        "receivers": phase.received.iter().map(receiver).collect::<Vec<_>>(),
        "progress": phase.progress,
    })
}

/// The measured phase over time.
pub fn plot(title: &Title, phases: &[PhaseResult]) -> Plot {
    let progress = phases.last().map(|p| p.progress.as_slice()).unwrap_or_default();
    let end = phases.last().and_then(PhaseResult::done).map_or(f64::MAX, |d| d.as_secs_f64());
    // Of the time after the last news one point is enough.
    let shown = (progress.partition_point(|p| p.0 <= end) + 1).min(progress.len());
    let line = |name: &str, of: fn(&(f64, f64, f64)) -> f64| Series {
        name: name.to_owned(),
        points: progress[..shown].iter().map(|p| (p.0, of(p), 0.0)).collect(),
    };
    Plot {
        title: format!(
            "{}: {}, {} to {} peers",
            title.target, title.workload, title.senders, title.receivers
        ),
        x: "seconds".to_owned(),
        y: "prefixes".to_owned(),
        logarithmic: false,
        boxes: Vec::new(),
        names: Vec::new(),
        series: vec![line("sent", |p| p.1), line("received by each", |p| p.2)],
    }
}
