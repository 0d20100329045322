//! The injection of a trace (MRT, RFC 6396): the file is read here and sent to BGP in pieces, at once or at the pace of the trace.

use crate::idl::bgp::v1 as pb;
use serde_json::json;
use sluice_console::{Call, Failure, Output, counted};
use sluice_mrt::first_record;
use std::fs::File;
use std::io::{IsTerminal, Read, stderr, stdin};
use std::time::{Duration, Instant};

/// Octets of a piece.
const PIECE: usize = 65_536;
/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// The name of the file that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Sends the trace of the command.
pub async fn inject(client: &pb::BgpClient, call: &Call<'_>, out: &mut Output) -> Result<(), Failure> {
    let text = |name| call.values.text(name).unwrap_or_default();
    let (file, source) = (text("file"), text("source"));
    let number = |name: &str| match call.values.text(name) {
        None => Ok(0),
        Some(text) => {
            text.parse::<u32>().map_err(|_| Failure::usage(format!("{name}: `{text}` is too large")))
        }
    };
    let failed = |error: std::io::Error| Failure::io(file, &error);
    let trace: Box<dyn Read> =
        if file == STANDARD_INPUT { Box::new(stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut pace = match (call.values.has("speed"), number("speed")?) {
        (false, _) => None,
        (true, 0) => return Err(Failure::usage("speed: expected 1 for the pace of the trace, or more")),
        (true, speed) => Some(Pace { speed, begin: None }),
    };
    let request = pb::BeginInjectionRequest {
        source: source.into(),
        peer_as: number("peer-as")?,
        group: text("group").into(),
        peer: text("peer").into(),
        install: call.values.has("install"),
        file: file.into(),
    };
    client.begin_injection(request).await?;
    send(client, trace, (file, source), pace.as_mut()).await?;
    let request = pb::FinishInjectionRequest { source: source.into() };
    let injection = client.finish_injection(request).await?.injection.unwrap_or_default();
    if out.is_json() {
        out.json(&json!({
            "source": source,
            "file": file,
            "records": injection.records.to_string(),
            "updates": injection.updates.to_string(),
            "of_others": injection.of_others.to_string(),
            "skipped": injection.skipped.to_string(),
        }));
        return Ok(());
    }
    let records = counted(injection.records, "record", "records");
    out.line(&format!(
        "{} of {} in {records}",
        counted(injection.updates, "update", "updates"),
        injection.peer
    ));
    if injection.updates == 0 && !injection.others.is_empty() {
        out.line(&format!(
            "the trace has other peers, of which `peer` names one: {}",
            injection.others.join(" ")
        ));
    }
    Ok(())
}

/// The pace of a trace.
struct Pace {
    /// Seconds of the trace in a second.
    speed: u32,
    /// The beginning, and the time of the first record in microseconds since 1970.
    begin: Option<(Instant, u64)>,
}

impl Pace {
    /// Returns the time at which a record of this time is due.
    fn due(&mut self, time: u64) -> Instant {
        let (begin, first) = *self.begin.get_or_insert_with(|| (Instant::now(), time));
        begin + Duration::from_micros(time.saturating_sub(first) / u64::from(self.speed))
    }
}

async fn send(
    client: &pb::BgpClient,
    mut trace: Box<dyn Read>,
    (file, source): (&str, &str),
    mut pace: Option<&mut Pace>,
) -> Result<(), Failure> {
    let mut pending = Vec::new();
    let mut piece = vec![0; PIECE];
    let (mut sent, mut shown) = (0_u64, Instant::now());
    loop {
        let read = trace.read(&mut piece).map_err(|error| Failure::io(file, &error))?;
        pending.extend_from_slice(&piece[..read]);
        while !pending.is_empty() {
            let (len, due) = next_part(&pending, pace.as_deref_mut(), read == 0);
            if len == 0 {
                break;
            }
            if let Some(due) = due {
                tokio::time::sleep_until(due.into()).await;
            }
            let records: Vec<u8> = pending.drain(..len).collect();
            sent += records.len() as u64;
            client.inject_records(pb::InjectRecordsRequest { source: source.into(), records }).await?;
        }
        if read == 0 {
            return Ok(());
        }
        if shown.elapsed() >= PROGRESS && stderr().is_terminal() {
            shown = Instant::now();
            sluice_print::errln!("{} injected", counted(sent, "octet", "octets"));
        }
    }
}

/// Returns the octets that are sent next, and the time at which they are due: all octets if there is no pace. With a pace these are the
/// records that are due now, or the next one; 0 if the record is not whole. BGP reports other octets.
fn next_part(pending: &[u8], pace: Option<&mut Pace>, is_end: bool) -> (usize, Option<Instant>) {
    let Some(pace) = pace else { return (pending.len(), None) };
    let mut len = 0;
    while let Ok(Some(first)) = first_record(&pending[len..]) {
        let at = pace.due(first.time);
        // The first record of all is due when it is read.
        let is_due = at <= Instant::now();
        if !is_due && len > 0 {
            return (len, None);
        }
        len += first.len;
        if !is_due {
            return (len, Some(at));
        }
    }
    let is_bad = first_record(&pending[len..]).is_err();
    (if is_end || is_bad { pending.len() } else { len }, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::{Asn, RouterId};
    use sluice_mrt::{Peer, Writer};

    fn trace(times: &[u32]) -> Vec<u8> {
        let mut writer = Writer::new();
        let peer = Peer { router_id: RouterId(1), address: [192, 0, 2, 1].into(), asn: Asn(1) };
        for time in times {
            writer.peer_index(*time, RouterId(1), "", &[peer]).expect("written");
        }
        writer.take()
    }

    #[test]
    fn records_are_due_at_the_pace_of_the_trace() {
        let octets = trace(&[100, 100, 160, 220]);
        let record = octets.len() / 4;
        let mut pace = Pace { speed: 60, begin: None };
        assert_eq!(next_part(&octets, Some(&mut pace), false), (2 * record, None));
        let (begin, _) = pace.begin.expect("begun");
        let second = Duration::from_secs(1);
        assert_eq!(next_part(&octets[2 * record..], Some(&mut pace), false), (record, Some(begin + second)));
        assert_eq!(
            next_part(&octets[3 * record..], Some(&mut pace), false),
            (record, Some(begin + 2 * second))
        );
        // A record that is not whole waits for its rest, and is sent at the end of the file.
        assert_eq!(next_part(&octets[..record - 1], Some(&mut pace), false).0, 0);
        assert_eq!(next_part(&octets[..record - 1], Some(&mut pace), true).0, record - 1);
        assert_eq!(next_part(&[1; 20], Some(&mut pace), false).0, 20);
        assert_eq!(next_part(&octets, None, false), (octets.len(), None));
    }
}
