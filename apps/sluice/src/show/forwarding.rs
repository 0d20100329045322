//! `sluice show forwarding`: the fast path by XDP, its ports, and the reasons for which the kernel forwards.

use crate::components::whole;
use crate::connection::session::Session;
use crate::output::{Failure, Output, Table, take};
use serde_json::Value;
use sluice_xrl::idl::DESCRIPTORS;
use sluice_xrl::idl::common::v1::Family;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::text::Printer;
use std::collections::BTreeMap;

/// Fetches the state of the fast path.
pub async fn fetch(session: &Session) -> Result<fea::GetForwardingReply, Failure> {
    let client =
        fea::ForwardingClient::new(&session.router().await?, "fea").with_deadline(session.flags.timeout);
    Ok(client.get_forwarding(fea::GetForwardingRequest {}).await?)
}

/// Shows the fast path: on an element of a cluster that of the router as a whole, unless an element is named.
pub async fn show(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let (router, timeout) = (session.router().await?, session.flags.timeout);
    if session.flags.element.is_none() && whole::forwarding(&router, timeout, out).await {
        return Ok(());
    }
    let reply = fetch(session).await?;
    if out.is_json() {
        out.json(&document(&reply)?);
        return Ok(());
    }
    out.line(&state(&reply));
    for obstacle in &reply.obstacles {
        out.line(&format!("the kernel forwards {}: {}", family(obstacle.family), obstacle.reason));
    }
    if !reply.live {
        return Ok(());
    }
    let mut ports = Table::new(&["interface", "IPv4", "IPv6", "sends", "forwarded", "dropped", "passed up"]);
    for port in &reply.ports {
        let sums = outcomes(port);
        let sum = |outcome: &str| sums.get(outcome).copied().unwrap_or_default().to_string();
        ports.row(vec![
            port.name.clone(),
            on(port, &port.received_ipv4),
            on(port, &port.received_ipv6),
            on(port, &port.sent),
            sum("forwarded"),
            sum("dropped"),
            sum("passed"),
        ]);
    }
    out.table(&ports, "no interfaces");
    for port in &reply.ports {
        for line in reasons(port) {
            out.line(&format!("{}: {line}", port.name));
        }
    }
    for program in &reply.programs {
        let component = if program.component.is_empty() { "an earlier process" } else { &program.component };
        out.line(&format!("slot {}: program {} of {component}", program.slot, program.name));
    }
    let mut uses = Table::new(&["tables", "used", "retired", "limit"]);
    for used in &reply.uses {
        uses.row(vec![
            used.name.clone(),
            used.used.to_string(),
            used.retired.to_string(),
            used.limit.to_string(),
        ]);
    }
    out.table(&uses, "no tables");
    out.line(&format!(
        "{} routes, {} prefixes of the kernel and of other programs, {} next hops not resolved, {} without room",
        reply.routes, reply.foreign, reply.unresolved, reply.no_room
    ));
    out.line(&format!("{} audits of the tables", reply.audits));
    for mended in reply.mended.iter().filter(|mended| mended.words > 0) {
        out.line(&format!("{} damaged words mended: {}", mended.words, mended.area));
    }
    Ok(())
}

fn state(reply: &fea::GetForwardingReply) -> String {
    match (reply.configured.as_str(), reply.live, reply.unavailable.as_str()) {
        ("kernel", true, _) => "XDP forwards until the kernel has all routes".into(),
        ("kernel", false, _) => {
            "the kernel forwards alone; `set interfaces forwarding engine both` adds XDP".into()
        }
        (_, true, _) => "XDP and the kernel forward".into(),
        (_, false, "") => "XDP starts; the kernel forwards meanwhile".into(),
        (_, false, reason) => format!("the kernel forwards alone: {reason}"),
    }
}

fn family(number: i32) -> &'static str {
    match Family::try_from(number) {
        Ok(Family::Ipv6) => "IPv6",
        _ => "IPv4",
    }
}

/// Returns `on` or `off`; the reasons follow below the table.
fn on(port: &fea::ForwardingPort, reasons: &[String]) -> String {
    let is_on = port.refusal.is_empty() && reasons.is_empty();
    if is_on { "on".into() } else { "off".into() }
}

fn reasons(port: &fea::ForwardingPort) -> Vec<String> {
    if !port.refusal.is_empty() {
        return vec![format!("no port: {}", port.refusal)];
    }
    let mut lines = Vec::new();
    for (what, reasons) in
        [("IPv4", &port.received_ipv4), ("IPv6", &port.received_ipv6), ("sending", &port.sent)]
    {
        lines.extend(reasons.iter().map(|reason| format!("{what} is off: {reason}")));
    }
    lines
}

/// Returns the packets of a port by outcome.
pub fn outcomes(port: &fea::ForwardingPort) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for count in &port.counts {
        *sums.entry(count.outcome.as_str()).or_default() += count.packets;
    }
    sums
}

/// Returns the state of the fast path as JSON: the message, with the families' usual names.
fn document(reply: &fea::GetForwardingReply) -> Result<Value, Failure> {
    let mut shown = Printer::new(DESCRIPTORS)?.plain(reply)?;
    for (shown, obstacle) in shown["obstacles"].as_array_mut().into_iter().flatten().zip(&reply.obstacles) {
        shown["family"] = family(obstacle.family).into();
    }
    shown["tables"] = take(&mut shown, "uses");
    Ok(shown)
}
