//! Echo requests: `xip ping` and `xip traceroute`.

use crate::idl::xip::v1 as pb;
use serde_json::{Value, json};
use sluice_console::{Call, Failure, Output};
use std::time::Duration;

/// The wait for one answer, in milliseconds.
const WAIT: u32 = 1_000;
/// The time between two requests of a ping.
const PAUSE: Duration = Duration::from_secs(1);
/// The default number of requests of a ping.
const COUNT: u64 = 4;
/// The default number of routers of a traceroute.
const MOST_ROUTERS: u64 = 30;
/// Routers without an answer in a row after which a traceroute ends.
const MOST_SILENT: u32 = 5;

fn client(call: &Call<'_>) -> pb::XipClient {
    let wait = Duration::from_millis(WAIT.into()) + Duration::from_secs(1);
    pb::XipClient::new(&call.router, &call.target).with_deadline(call.timeout.max(wait))
}

/// Returns the value of an option within its range.
fn number(call: &Call<'_>, name: &str, otherwise: u64, most: u64) -> Result<u64, Failure> {
    let Some(text) = call.values.text(name) else { return Ok(otherwise) };
    let value = text.parse::<u64>().ok().filter(|value| (1..=most).contains(value));
    value.ok_or_else(|| Failure::usage(format!("{name}: a number from 1 to {most}")))
}

fn request(call: &Call<'_>) -> pb::PingRequest {
    let address = call.values.text("address").unwrap_or_default().into();
    pb::PingRequest { address, timeout_ms: WAIT, ..pb::PingRequest::default() }
}

fn document(number: u64, reply: &pb::PingReply) -> Value {
    json!({
        "sequence": number, "kind": reply.kind, "from": reply.from, "arrived": reply.arrived,
        "microseconds": reply.microseconds,
    })
}

/// Returns the line about an answer for people.
fn line(number: u64, reply: &pb::PingReply) -> String {
    let time = format!("{}.{:03} ms", reply.microseconds / 1_000, reply.microseconds % 1_000);
    let arrived = if reply.arrived.is_empty() { String::new() } else { format!("  {}", reply.arrived) };
    match reply.kind.as_str() {
        "lost" => format!("{number:>3}  no answer"),
        kind => format!("{number:>3}  {kind} from {}  {time}{arrived}", reply.from),
    }
}

/// Sends echo requests, and prints each answer on arrival.
///
/// # Errors
/// The address is none, XIP does not answer, or no request was answered.
pub(crate) async fn ping(call: &Call<'_>, out: &mut Output) -> Result<(), Failure> {
    let (client, plain) = (client(call), request(call));
    let count = number(call, "count", COUNT, 10_000)?;
    let octets = number(call, "octets", 0, 60_000)? as u32;
    let mut answered = 0;
    for sequence in 0..count {
        if sequence > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let reply =
            client.ping(pb::PingRequest { sequence: sequence as u32, octets, ..plain.clone() }).await?;
        if sequence == 0 {
            out.begin_list("answers", "");
        }
        answered += u64::from(reply.kind == "reply");
        out.element(|| line(sequence + 1, &reply), || document(sequence + 1, &reply));
        if !out.page_done() {
            return Ok(());
        }
    }
    out.end_list("no requests were sent");
    if !out.is_json() {
        out.line(&format!("{answered} of {count} requests were answered"));
    }
    Ok(())
}

/// Sends echo requests with growing hop limits, and prints the router at which each ended.
///
/// # Errors
/// The address is none, or XIP does not answer.
pub(crate) async fn traceroute(call: &Call<'_>, out: &mut Output) -> Result<(), Failure> {
    let (client, plain) = (client(call), request(call));
    let most = number(call, "most", MOST_ROUTERS, 255)?;
    let mut silent = 0;
    for hop_limit in 0..most {
        let request = pb::PingRequest {
            hop_limit: Some(hop_limit as u32),
            sequence: hop_limit as u32,
            ..plain.clone()
        };
        let reply = client.ping(request).await?;
        if hop_limit == 0 {
            out.begin_list("routers", "");
        }
        out.element(|| line(hop_limit + 1, &reply), || document(hop_limit + 1, &reply));
        silent = if reply.kind == "lost" { silent + 1 } else { 0 };
        let is_end = !matches!(reply.kind.as_str(), "time-exceeded" | "lost");
        if is_end || silent >= MOST_SILENT || !out.page_done() {
            break;
        }
    }
    out.end_list("no requests were sent");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_lines() {
        let reply = pb::PingReply {
            kind: "time-exceeded".into(),
            from: "hid-22-0".into(),
            arrived: "ad-a3*".into(),
            microseconds: 1_042,
        };
        assert_eq!(line(1, &reply), "  1  time-exceeded from hid-22-0  1.042 ms  ad-a3*");
        let lost = pb::PingReply { kind: "lost".into(), ..pb::PingReply::default() };
        assert_eq!(line(12, &lost), " 12  no answer");
    }
}
