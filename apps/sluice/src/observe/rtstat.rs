//! `sluice rtstat`: the packets of the fast path each second, by interface and CPU.

use crate::connection::session::Session;
use crate::output::{Failure, Output};
use crate::show::forwarding;
use serde_json::json;
use sluice_cli::Values;
use sluice_xrl::idl::fea::v1 as fea;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An interface, a CPU, an outcome and a reason.
type Key = (String, u32, String, String);

fn packets(reply: &fea::GetForwardingReply) -> BTreeMap<Key, u64> {
    let keyed = |port: &fea::ForwardingPort| {
        let of_port = port.counts.iter().map(|count| {
            let key = (port.name.clone(), count.cpu, count.outcome.clone(), count.reason.clone());
            (key, count.packets)
        });
        of_port.collect::<Vec<_>>()
    };
    reply.ports.iter().flat_map(keyed).collect()
}

/// Prints the packets of each interval, until the output is closed or after `count` intervals. An interval without packets is one
/// line without numbers.
pub async fn follow(session: &Session, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let interval = Duration::from_secs(values.number("interval").unwrap_or(1).max(1));
    let mut left = values.number("count").unwrap_or(u64::MAX);
    let mut before = packets(&forwarding::fetch(session).await?);
    let mut since = Instant::now();
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
    while left > 0 {
        ticks.tick().await;
        let now = packets(&forwarding::fetch(session).await?);
        let seconds = since.elapsed().as_secs_f64();
        since = Instant::now();
        let rates: Vec<(&Key, f64)> = now
            .iter()
            // Counters go on across restarts of the FEA, and begin anew with a new version of the root program.
            .map(|(key, packets)| (key, packets.saturating_sub(before.get(key).copied().unwrap_or(0))))
            .filter(|(_, packets)| *packets > 0)
            .map(|(key, packets)| (key, packets as f64 / seconds))
            .collect();
        print(&rates, out);
        if !out.page_done() {
            return Ok(());
        }
        before = now;
        left -= 1;
    }
    Ok(())
}

fn print(rates: &[(&Key, f64)], out: &mut Output) {
    if out.is_json() {
        let rates: Vec<_> = rates
            .iter()
            .map(|((interface, cpu, outcome, reason), rate)| {
                json!({
                    "interface": interface, "cpu": cpu, "outcome": outcome, "reason": reason,
                    "packets_per_second": rate.round(),
                })
            })
            .collect();
        out.json_line(&json!({ "rates": rates }));
        return;
    }
    if rates.is_empty() {
        out.line("no packets");
    }
    for ((interface, cpu, outcome, reason), rate) in rates {
        out.line(&format!("{interface:<12} cpu {cpu:<3} {outcome:<10} {reason:<18} {rate:>12.0} packets/s"));
    }
}
