//! Sessions and neighbors.

use crate::idl::bgp::v1 as pb;
use crate::limits;
use serde_json::{Value, json};
use sluice_console::{Failure, Output, Table, counted, span};
use sluice_xrl::idl::common::v1 as common;

/// The state of a session that is up.
const ESTABLISHED: &str = "Established";

/// Returns the name of an address family.
pub fn family(number: i32) -> &'static str {
    match common::Family::try_from(number) {
        Ok(common::Family::Ipv6) => "ipv6",
        Ok(common::Family::Xid) => "xid",
        _ => "ipv4",
    }
}

fn counts(n: &pb::Neighbor, of: impl Fn(&pb::NeighborFamily) -> u64) -> String {
    n.families.iter().filter(|f| f.negotiated).map(|f| of(f).to_string()).collect::<Vec<_>>().join("/")
}

/// Closes all sessions; each opens again.
pub async fn clear_all(client: &pb::BgpClient, out: &mut Output) -> Result<(), Failure> {
    let neighbors = client.get_neighbors(pb::GetNeighborsRequest::default()).await?.neighbors;
    for neighbor in &neighbors {
        let request = pb::ResetNeighborRequest { address: neighbor.address.clone(), message: String::new() };
        client.reset_neighbor(request).await?;
    }
    if out.is_json() {
        let all: Vec<&str> = neighbors.iter().map(|n| n.address.as_str()).collect();
        out.json(&json!({ "neighbors": all }));
    } else {
        let sessions = counted(neighbors.len() as u64, "session is", "sessions are");
        out.line(&format!("{sessions} closed and opened again"));
    }
    Ok(())
}

/// Every session in a line.
pub async fn summary(client: &pb::BgpClient, out: &mut Output) -> Result<(), Failure> {
    let s = client.get_summary(pb::GetSummaryRequest {}).await?;
    let neighbors = client.get_neighbors(pb::GetNeighborsRequest::default()).await?.neighbors;
    if out.is_json() {
        let tables: Vec<_> = s
            .tables
            .iter()
            .map(|t| {
                json!({
                    "family": family(t.family), "prefixes": t.prefixes, "attribute_sets": t.attribute_sets,
                    "in_rib": t.in_rib, "multipath": t.multipath, "stale": t.stale, "queued": t.queued,
                })
            })
            .collect();
        out.json(&json!({
            "local_as": s.local_as, "router_id": s.router_id, "neighbors": s.neighbors,
            "established": s.established, "graceful_shutdown": s.graceful_shutdown, "tables": tables,
            "sessions": neighbors.iter().map(neighbor_json).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    out.line(&format!(
        "AS {}, router id {}, {} of {} sessions established",
        s.local_as, s.router_id, s.established, s.neighbors
    ));
    if s.graceful_shutdown {
        out.line("draining: neighbors are told to go another way (`sluice undrain` takes it back)");
    }
    for t in &s.tables {
        out.line(&format!(
            "{}: {}, {}, {} in the RIB, {} stale, {} queued",
            family(t.family),
            counted(t.prefixes, "prefix", "prefixes"),
            counted(t.attribute_sets, "attribute set", "attribute sets"),
            t.in_rib,
            t.stale,
            counted(t.queued, "change", "changes")
        ));
    }
    out.line("");
    let mut table =
        Table::new(&["neighbor", "as", "state", "for", "received", "sent", "description", "notes"]);
    for n in &neighbors {
        let is_down = n.state != ESTABLISHED;
        // Where a color can say it, the state is the word of the RFC alone.
        let state =
            if is_down && !out.is_colored() { format!("{} (down)", n.state) } else { n.state.clone() };
        let cells = vec![
            n.address.clone(),
            n.peer_as.to_string(),
            state,
            if n.uptime_ms > 0 { span(n.uptime_ms) } else { "-".into() },
            counts(n, |f| f.prefixes_received),
            counts(n, |f| f.prefixes_sent),
            n.description.clone(),
            if n.reason.is_empty() { n.without_policy.clone() } else { n.reason.clone() },
        ];
        if is_down { table.row_down(cells) } else { table.row(cells) }
    }
    out.table(&table, "no neighbors");
    Ok(())
}

fn messages(m: Option<&pb::Messages>) -> Value {
    let m = m.cloned().unwrap_or_default();
    json!({
        "open": m.open, "update": m.update, "notification": m.notification, "keepalive": m.keepalive,
        "route_refresh": m.route_refresh,
    })
}

fn changes(c: Option<&pb::Changes>) -> Value {
    let c = c.copied().unwrap_or_default();
    json!({ "announced": c.announced, "withdrawn": c.withdrawn })
}

fn neighbor_json(n: &pb::Neighbor) -> Value {
    let families: Vec<_> = n
        .families
        .iter()
        .map(|f| {
            json!({
                "family": family(f.family), "negotiated": f.negotiated, "prefixes_received": f.prefixes_received,
                "prefixes_rejected": f.prefixes_rejected, "prefixes_sent": f.prefixes_sent, "end_of_rib": f.end_of_rib,
                "problem": f.problem, "filter_entries_received": f.filter_entries_received,
                "filter_entries_sent": f.filter_entries_sent, "maximum_prefixes": limits::bounds_json(f),
            })
        })
        .collect();
    let timers: Vec<_> =
        n.timers.iter().map(|t| json!({ "name": t.name, "expires_in_ms": t.expires_in_ms })).collect();
    json!({
        "address": n.address, "peer_as": n.peer_as, "internal": n.internal, "description": n.description,
        "enabled": n.enabled, "state": n.state, "uptime_ms": n.uptime_ms, "router_id": n.router_id,
        "flaps": n.flaps, "reason": n.reason, "last_error": n.last_error, "last_error_ms": n.last_error_ms, "hold_time": n.hold_time,
        "capabilities": n.capabilities, "timers": timers, "received": messages(n.received.as_ref()),
        "sent": messages(n.sent.as_ref()), "families": families, "treated_as_withdraw": n.treated_as_withdraw,
        "attribute_discards": n.attribute_discards, "loops": n.loops, "leaks": n.leaks,
        "too_large": n.too_large, "reduced": n.reduced, "without_policy": n.without_policy, "without_refresh": n.without_refresh,
        "range": n.range, "group": n.group, "import": n.import,
        "export": n.export, "agreed": n.agreed, "changes_received": changes(n.changes_received.as_ref()),
        "changes_sent": changes(n.changes_sent.as_ref()), "stopped": limits::stop_json(n), "unroutable": n.unroutable, "octets_received": n.octets_received,
    })
}

/// Prints the details of one neighbor, or of all neighbors.
pub async fn neighbors(client: &pb::BgpClient, address: String, out: &mut Output) -> Result<(), Failure> {
    let neighbors =
        client.get_neighbors(pb::GetNeighborsRequest { address: address.clone() }).await?.neighbors;
    if neighbors.is_empty() && !address.is_empty() {
        return Err(Failure::failed(format!("no neighbor {address} is configured")));
    }
    if out.is_json() {
        out.json(&json!({ "neighbors": neighbors.iter().map(neighbor_json).collect::<Vec<_>>() }));
        return Ok(());
    }
    for n in &neighbors {
        let kind = if n.internal { "internal" } else { "external" };
        // A dynamic neighbor has no AS before its OPEN.
        let peer_as = if n.peer_as == 0 { "unknown".into() } else { n.peer_as.to_string() };
        let first = format!("neighbor {} AS {peer_as} ({kind}) {}", n.address, n.description);
        out.line(first.trim_end());
        out.line(&format!("  {}", standing(n)));
        if !n.range.is_empty() {
            out.line(&format!(
                "  dynamic, of the listen range {}, with the statements of group {}",
                n.range, n.group
            ));
        }
        if !n.reason.is_empty() {
            out.line(&format!("  not up: {}", n.reason));
        }
        if let Some(line) = limits::opens(n) {
            out.line(&format!("  {line}"));
        }
        if !n.without_policy.is_empty() {
            out.line(&format!("  {}", n.without_policy));
        }
        if !n.without_refresh.is_empty() {
            out.line(&format!("  {}", n.without_refresh));
        }
        for (direction, names) in [("import", &n.import), ("export", &n.export)] {
            if !names.is_empty() {
                out.line(&format!("  {direction} policy {}", names.join(" ")));
            }
        }
        if !n.capabilities.is_empty() {
            out.line(&format!("  capabilities: {}", n.capabilities.join(", ")));
        }
        if !n.agreed.is_empty() {
            out.line(&format!("  agreed: {}", n.agreed.join(", ")));
        }
        for t in &n.timers {
            out.line(&format!("  {} in {}", t.name, span(t.expires_in_ms)));
        }
        for f in n.families.iter().filter(|f| f.negotiated) {
            let end = if f.end_of_rib { "told all its routes" } else { "still telling its routes" };
            out.line(&format!(
                "  {}: {} received{}, {} sent, {end}",
                family(f.family),
                f.prefixes_received,
                if f.prefixes_rejected > 0 {
                    format!(" ({} rejected by import policy)", f.prefixes_rejected)
                } else {
                    String::new()
                },
                f.prefixes_sent
            ));
            for line in filters(f).into_iter().chain(limits::bounds(f)) {
                out.line(&format!("    {line}"));
            }
            if !f.problem.is_empty() {
                out.line(&format!("    none are announced: {}", f.problem));
            }
        }
        for (what, m) in [("received", &n.received), ("sent", &n.sent)] {
            let m = m.unwrap_or_default();
            out.line(&format!(
                "  {what}: {} open, {} update, {} keepalive, {} notification, {} refresh",
                m.open, m.update, m.keepalive, m.notification, m.route_refresh
            ));
        }
        out.line(&format!("  {}", told(n)));
        out.line(&format!(
            "  {} treated as withdraw, {} with attributes discarded, {}, {}, lost {}",
            counted(n.treated_as_withdraw, "UPDATE", "UPDATEs"),
            n.attribute_discards,
            counted(n.loops, "loop", "loops"),
            counted(n.leaks, "leak", "leaks"),
            counted(n.flaps, "time", "times")
        ));
        if n.too_large > 0 {
            let routes = counted(n.too_large, "route", "routes");
            out.line(&format!("  {routes} not sent: too large for a message"));
        }
        if n.reduced > 0 {
            let routes = counted(n.reduced, "route", "routes");
            out.line(&format!("  {routes} sent without some attributes: too large for a message"));
        }
        if !n.last_error.is_empty() {
            out.line(&format!("  last error {} ago: {}", span(n.last_error_ms), n.last_error));
        }
    }
    Ok(())
}

/// Returns the counts of entries of a family's outbound route filters; `None` without filters.
fn filters(family: &pb::NeighborFamily) -> Option<String> {
    let entries = |count: u32| counted(u64::from(count), "entry", "entries");
    let received = family.filter_entries_received.map(|count| format!("{} received", entries(count)));
    let sent = family.filter_entries_sent.map(|count| format!("{} sent", entries(count)));
    let both: Vec<String> = received.into_iter().chain(sent).collect();
    (!both.is_empty()).then(|| format!("outbound route filter: {}", both.join(", ")))
}

/// Returns the counts of announced and withdrawn prefixes in both directions.
fn told(n: &pb::Neighbor) -> String {
    let (received, sent) = (n.changes_received.unwrap_or_default(), n.changes_sent.unwrap_or_default());
    let ignored = match n.unroutable {
        0 => String::new(),
        count => format!("; {count} ignored: not for unicast routing"),
    };
    format!(
        "announced: {} received, {} sent; withdrawn: {} received, {} sent; {} received{ignored}",
        received.announced,
        sent.announced,
        received.withdrawn,
        sent.withdrawn,
        counted(n.octets_received, "octet", "octets")
    )
}

/// Returns the state of a session, and the negotiated values of an established one.
fn standing(n: &pb::Neighbor) -> String {
    if n.uptime_ms == 0 {
        return n.state.clone();
    }
    let hold_time = match n.hold_time {
        0 => "no hold time".into(),
        seconds => format!("hold time {seconds} s"),
    };
    format!("{} for {}, router id {}, {hold_time}", n.state, span(n.uptime_ms), n.router_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_not_up_has_no_empty_fields() {
        let down = pb::Neighbor { state: "Active".into(), ..pb::Neighbor::default() };
        assert_eq!(standing(&down), "Active");
        let up = pb::Neighbor {
            state: "Established".into(),
            uptime_ms: 2000,
            router_id: "10.0.0.2".into(),
            ..pb::Neighbor::default()
        };
        assert_eq!(standing(&up), "Established for 2 s, router id 10.0.0.2, no hold time");
    }

    #[test]
    fn filters_show_where_they_are_agreed_on() {
        let check = |received, sent, expected: Option<&str>| {
            let family = pb::NeighborFamily {
                filter_entries_received: received,
                filter_entries_sent: sent,
                ..pb::NeighborFamily::default()
            };
            assert_eq!(filters(&family).as_deref(), expected);
        };
        check(None, None, None);
        check(Some(1), None, Some("outbound route filter: 1 entry received"));
        check(Some(0), Some(3), Some("outbound route filter: 0 entries received, 3 entries sent"));
    }

    #[test]
    fn prefixes_that_were_told_are_counted() {
        let changes = |announced, withdrawn| Some(pb::Changes { announced, withdrawn });
        let mut n = pb::Neighbor {
            changes_received: changes(7, 2),
            changes_sent: changes(5, 0),
            octets_received: 900,
            ..pb::Neighbor::default()
        };
        let text = "announced: 7 received, 5 sent; withdrawn: 2 received, 0 sent; 900 octets received";
        assert_eq!(told(&n), text);
        n.unroutable = 3;
        assert_eq!(told(&n), format!("{text}; 3 ignored: not for unicast routing"));
    }
}
