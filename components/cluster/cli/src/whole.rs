//! The router as a whole on the command line: interfaces and forwarding of all elements, by this element's component `cluster`.

use serde_json::{Value, json};
use sluice_cluster_process::idl::cluster::v1 as cluster;
use sluice_console::{Output, Table, bytes};
use sluice_xrl::{XrlEndpoint, XrlError};
use std::collections::BTreeMap;
use std::time::Duration;

/// Returns the client of this element's component.
fn client(router: &XrlEndpoint, timeout: Duration) -> cluster::ClusterClient {
    cluster::ClusterClient::new(router, "cluster").with_deadline(timeout)
}

/// Returns the answer of the cluster. `None`: this machine answers for itself alone, since it is no element, its component does not run, or the
/// caller may not ask.
fn of_cluster<T>(answer: Result<T, XrlError>, out: &mut Output) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(
            XrlError::UnknownTarget(_)
            | XrlError::UnknownMethod(_)
            | XrlError::AccessDenied(_)
            | XrlError::NoFinder,
        ) => None,
        Err(error) => {
            out.remark(&format!("this machine alone: the other elements were not asked: {error}"));
            None
        }
    }
}

/// Names the elements that are in no sum.
fn name_missing(missing: &[cluster::MissingElement], out: &mut Output) {
    for missing in missing {
        out.line(&format!("element {} is missing: {}", missing.element, missing.reason));
    }
}

/// Returns the elements that are in no sum, as JSON.
pub(crate) fn missing_json(missing: &[cluster::MissingElement]) -> Value {
    missing.iter().map(|missing| json!({ "element": missing.element, "reason": missing.reason })).collect()
}

/// Shows the interfaces of the router as a whole. Returns false if this machine is no element of a cluster.
pub async fn interfaces(router: &XrlEndpoint, timeout: Duration, out: &mut Output) -> bool {
    let asked = client(router, timeout).get_outer_interfaces(cluster::GetOuterInterfacesRequest {}).await;
    let Some(reply) = of_cluster(asked, out) else { return false };
    if out.is_json() {
        let all = reply.interfaces.iter().map(|i| {
            json!({
                "name": i.name, "port": i.port, "element": i.element, "state": i.state, "index": i.index,
                "admin_up": matches!(i.state.as_str(), "up" | "no carrier"), "running": i.state == "up",
                "mtu": i.mtu, "mac": i.mac, "loopback": false, "addresses": i.addresses,
                "rx_packets": i.rx_packets, "tx_packets": i.tx_packets, "rx_bytes": i.rx_bytes,
                "tx_bytes": i.tx_bytes, "rx_errors": i.rx_errors, "tx_errors": i.tx_errors,
            })
        });
        let all: Value = all.collect();
        out.json(&json!({ "interfaces": all, "missing": missing_json(&reply.missing) }));
        return true;
    }
    let mut table = Table::new(&["interface", "port", "state", "mtu", "addresses", "received", "sent"]);
    for i in &reply.interfaces {
        let is_known = !matches!(i.state.as_str(), "absent" | "unknown");
        let known = |text: String| if is_known { text } else { String::new() };
        table.row(vec![
            i.name.clone(),
            i.port.to_string(),
            i.state.clone(),
            known(i.mtu.to_string()),
            i.addresses.join(" "),
            known(bytes(i.rx_bytes)),
            known(bytes(i.tx_bytes)),
        ]);
    }
    out.table(&table, "no ports: set cluster port");
    name_missing(&reply.missing, out);
    true
}

/// Packets of a place by outcome, and by outcome and reason.
#[derive(Default)]
struct Place<'a> {
    name: &'a str,
    outcomes: BTreeMap<&'a str, u64>,
    counts: Vec<&'a cluster::ForwardingTotal>,
}

/// Returns the sums by place: inside first, then by port, as the cluster has them.
fn places(reply: &cluster::GetTotalsReply) -> Vec<Place<'_>> {
    let mut places: Vec<(&str, Place<'_>)> = Vec::new();
    for total in &reply.forwarding {
        if places.last().is_none_or(|(place, _)| *place != total.place) {
            let name = if total.name.is_empty() { &total.place } else { &total.name };
            places.push((&total.place, Place { name, ..Place::default() }));
        }
        if let Some((_, place)) = places.last_mut() {
            let sum = place.outcomes.entry(&total.outcome).or_default();
            *sum = sum.saturating_add(total.packets);
            place.counts.push(total);
        }
    }
    places.into_iter().map(|(_, place)| place).collect()
}

/// Shows forwarding by the router as a whole. Returns false if this machine is no element of a cluster.
pub async fn forwarding(router: &XrlEndpoint, timeout: Duration, out: &mut Output) -> bool {
    let asked = client(router, timeout).get_totals(cluster::GetTotalsRequest {}).await;
    let Some(reply) = of_cluster(asked, out) else { return false };
    let places = places(&reply);
    if out.is_json() {
        out.json(&forwarding_json(&reply, &places));
        return true;
    }
    let mut engines = Table::new(&["element", "name", "forwards", "routes", "without room", "not by XDP"]);
    for engine in &reply.engines {
        let forwards = match (engine.live, engine.configured.as_str()) {
            (true, "xdp") => "XDP",
            (true, _) => "XDP and kernel",
            (false, _) => "kernel",
        };
        let reasons = [engine.unavailable.clone()].into_iter().chain(engine.obstacles.iter().cloned());
        let reasons: Vec<String> = reasons.filter(|reason| !reason.is_empty()).collect();
        let count = |of: u64| if engine.live { of.to_string() } else { String::new() };
        engines.row(vec![
            engine.element.to_string(),
            engine.name.clone(),
            forwards.into(),
            count(engine.routes),
            count(engine.no_room),
            reasons.join("; "),
        ]);
    }
    out.table(&engines, "no element answered");
    let mut table = Table::new(&["interface", "forwarded", "dropped", "passed up"]);
    for place in &places {
        let sum = |outcome: &str| place.outcomes.get(outcome).copied().unwrap_or_default().to_string();
        table.row(vec![place.name.into(), sum("forwarded"), sum("dropped"), sum("passed")]);
    }
    out.table(&table, "no element forwards by XDP");
    for place in &places {
        for total in place.counts.iter().filter(|total| total.outcome == "dropped" && total.packets > 0) {
            out.line(&format!("{}: {} dropped: {}", place.name, total.packets, total.reason));
        }
    }
    let mut frames = Table::new(&["frames by", "reason", "count"]);
    for total in reply.counters.iter().filter(|total| total.count > 0) {
        frames.row(vec![total.by.clone(), total.reason.clone(), total.count.to_string()]);
    }
    out.table(&frames, "no frames were counted");
    name_missing(&reply.missing, out);
    true
}

fn forwarding_json(reply: &cluster::GetTotalsReply, places: &[Place<'_>]) -> Value {
    let counts = |place: &Place<'_>| -> Value {
        let of = |total: &&cluster::ForwardingTotal| {
            json!({
                "outcome": total.outcome, "reason": total.reason, "packets": total.packets, "octets": total.octets,
            })
        };
        place.counts.iter().map(of).collect()
    };
    let ports = places.iter().map(|place| json!({ "name": place.name, "counts": counts(place) }));
    let frames = reply
        .counters
        .iter()
        .map(|total| json!({ "by": total.by, "reason": total.reason, "count": total.count }));
    let elements = reply.engines.iter().map(|engine| {
        json!({
            "element": engine.element, "name": engine.name, "configured": engine.configured, "live": engine.live,
            "unavailable": engine.unavailable, "obstacles": engine.obstacles, "routes": engine.routes,
            "no_room": engine.no_room,
        })
    });
    json!({
        "elements": elements.collect::<Value>(), "ports": ports.collect::<Value>(), "frames": frames.collect::<Value>(),
        "missing": missing_json(&reply.missing),
    })
}

/// The elements whose routes differ from those of another element.
pub struct Comparison {
    /// The element with the routes to show.
    pub source: u16,
    /// True if the source is this machine.
    pub is_own: bool,
    /// The elements with other routes.
    pub differing: Vec<u16>,
    /// The origins whose routes all elements should have.
    pub origins: Vec<String>,
    /// The elements that were not compared, as JSON.
    pub missing: Value,
    /// The elements that were not compared, a line each.
    pub missing_lines: Vec<String>,
}

/// Compares the routes of all elements by checksums. `None` if this machine is no element of a cluster, or the cluster has no store.
pub async fn comparison(router: &XrlEndpoint, timeout: Duration, out: &mut Output) -> Option<Comparison> {
    let asked = client(router, timeout).get_comparison(cluster::GetComparisonRequest {}).await;
    let reply = of_cluster(asked, out)?;
    let number = |number: u32| u16::try_from(number).ok().filter(|number| *number > 0);
    let line = |missing: &cluster::MissingElement| {
        format!("element {} was not compared: {}", missing.element, missing.reason)
    };
    Some(Comparison {
        source: number(reply.source)?,
        is_own: reply.is_own,
        differing: reply.differing.into_iter().filter_map(number).collect(),
        origins: reply.origins,
        missing: missing_json(&reply.missing),
        missing_lines: reply.missing.iter().map(line).collect(),
    })
}
