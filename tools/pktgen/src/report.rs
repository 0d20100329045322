//! The results as text and as JSON.

use crate::capture::Frame;
use crate::{Replayed, Sent, lost};
use serde_json::{Value, json};
use sluice_bpf::layout::Tally;
use std::path::Path;
use std::time::Duration;

/// Returns events a second; `None` if there is no time between the first and the last of them.
fn rate(events: u64, duration: Duration) -> Option<f64> {
    let seconds = duration.as_secs_f64();
    // The first event begins the time.
    (events > 1 && seconds > 0.0).then(|| (events - 1) as f64 / seconds)
}

/// Returns a rate as text; a comma comes first.
fn rate_text(rate: Option<f64>, noun: &str, octets: u64, events: u64) -> String {
    let Some(rate) = rate else { return String::new() };
    let bits = rate * 8.0 * octets as f64 / events.max(1) as f64;
    format!(", {rate:.0} {noun}/s, {:.1} Mbit/s", bits / 1e6)
}

/// Returns the result of a generator as JSON.
pub(crate) fn sent_json(interface: &str, stream: u32, sent: &Sent) -> Value {
    json!({
        "interface": interface,
        "stream": stream,
        "sent": sent.packets,
        "octets": sent.octets,
        "seconds": sent.duration.as_secs_f64(),
        "packets_per_s": rate(sent.packets, sent.duration),
        "cpu_s": sent.cpu.as_secs_f64(),
    })
}

/// Returns the result of a generator as text.
pub(crate) fn sent_text(sent: &Sent) -> String {
    format!(
        "{} packets sent in {:.3} s{}, {:.3} s of processor time",
        sent.packets,
        sent.duration.as_secs_f64(),
        rate_text(rate(sent.packets, sent.duration), "packets", sent.octets, sent.packets),
        sent.cpu.as_secs_f64(),
    )
}

fn time_of(tally: &Tally) -> Duration {
    Duration::from_nanos(tally.last.saturating_sub(tally.first))
}

/// Returns the result of a sink as JSON.
pub(crate) fn counted_json(interface: &str, hook: &str, stream: u32, tally: &Tally) -> Value {
    json!({
        "interface": interface,
        "hook": hook,
        "stream": stream,
        "received": tally.received,
        "octets": tally.octets,
        "lost": lost(tally),
        "duplicates": tally.duplicates,
        "reordered": tally.reordered,
        "late": tally.late,
        "expected": tally.expected,
        "seconds": time_of(tally).as_secs_f64(),
        "packets_per_s": rate(tally.received, time_of(tally)),
    })
}

/// Returns the result of a sink as text.
pub(crate) fn counted_text(tally: &Tally) -> String {
    format!(
        "{} packets received in {:.3} s{}\n{} lost, {} duplicates, {} reordered, {} late, of {} expected",
        tally.received,
        time_of(tally).as_secs_f64(),
        rate_text(rate(tally.received, time_of(tally)), "packets", tally.octets, tally.received),
        lost(tally),
        tally.duplicates,
        tally.reordered,
        tally.late,
        tally.expected,
    )
}

/// Returns the result of a replay as JSON.
pub(crate) fn replayed_json(interface: &str, file: &Path, frames: &[Frame], counts: &Replayed) -> Value {
    json!({
        "interface": interface,
        "file": file.display().to_string(),
        "captured": frames.len(),
        "cut": cut(frames),
        "sent": counts.frames,
        "octets": counts.octets,
        "refused": counts.refused,
        "loops": counts.loops,
        "seconds": counts.duration.as_secs_f64(),
        "frames_per_s": rate(counts.frames, counts.duration),
        "latest_s": counts.latest.as_secs_f64(),
        "cpu_s": counts.cpu.as_secs_f64(),
    })
}

/// Returns the result of a replay as text.
pub(crate) fn replayed_text(frames: &[Frame], counts: &Replayed) -> String {
    let cut = match cut(frames) {
        0 => String::new(),
        cut => format!("; {cut} frames of the capture were cut when they were captured"),
    };
    format!(
        "{} frames sent in {:.3} s{}, {} refused, {:.6} s behind their time at most, {:.3} s of processor time{cut}",
        counts.frames,
        counts.duration.as_secs_f64(),
        rate_text(rate(counts.frames, counts.duration), "frames", counts.octets, counts.frames),
        counts.refused,
        counts.latest.as_secs_f64(),
        counts.cpu.as_secs_f64(),
    )
}

fn cut(frames: &[Frame]) -> u64 {
    frames.iter().filter(|frame| frame.is_cut).count() as u64
}
