//! A neighbor in full.

use crate::families::family;
use crate::idl::bgp::v1 as pb;
use crate::limits;
use serde_json::Value;
use sluice_console::{Failure, Output, counted, span};
use sluice_xrl::text::Printer;

/// Prints the view of a neighbor.
pub fn print(n: &pb::Neighbor, out: &mut Output) {
    let all = [head(n), session(n), n.families.iter().flat_map(routes).collect(), counters(n)];
    all.iter().flatten().for_each(|line| out.line(line));
}

/// Returns the lines about the neighbor and its configuration.
fn head(n: &pb::Neighbor) -> Vec<String> {
    let kind = if n.internal { "internal" } else { "external" };
    // A dynamic neighbor has no AS before its OPEN.
    let peer_as = if n.peer_as == 0 { "unknown".into() } else { n.peer_as.to_string() };
    let first = format!("neighbor {} AS {peer_as} ({kind}) {}", n.address, n.description);
    let mut lines = vec![first.trim_end().to_string(), format!("  {}", standing(n))];
    let mut add = |text: String| lines.push(format!("  {text}"));
    add(format!("local {}, remote {}", local(n), remote(n)));
    match (n.range.as_str(), n.group.as_str()) {
        ("", "") => {}
        ("", group) => add(format!("group {group}")),
        (range, group) => {
            add(format!("dynamic, of the listen range {range}, with the statements of group {group}"));
        }
    }
    let protection = protection(n);
    if !protection.is_empty() {
        add(protection.join(", "));
    }
    if !n.reason.is_empty() {
        add(format!("not up: {}", n.reason));
    }
    limits::opens(n).into_iter().for_each(&mut add);
    if let Some(end) = &n.last_end {
        add(last_end(end));
    }
    if !n.last_error.is_empty() && n.last_end.as_ref().is_none_or(|end| end.reason != n.last_error) {
        add(format!("last error {} ago: {}", span(n.last_error_ms), n.last_error));
    }
    [&n.without_policy, &n.without_refresh]
        .into_iter()
        .filter(|text| !text.is_empty())
        .for_each(|text| add(text.clone()));
    for (direction, names) in [("import", &n.import), ("export", &n.export)] {
        if !names.is_empty() {
            add(format!("{direction} policy {}", names.join(" ")));
        }
    }
    lines
}

/// Returns the lines about the session: what both sides offered and agreed on.
fn session(n: &pb::Neighbor) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |text: String| lines.push(format!("  {text}"));
    if !n.relationship.is_empty() {
        let role = |role: &str| if role.is_empty() { "none".to_string() } else { role.to_string() };
        let roles = format!("roles: {} sent, {} received", role(&n.role_sent), role(&n.role_received));
        add(format!("relationship {}; {roles}", n.relationship));
    }
    let lists = [
        ("capabilities sent", &n.capabilities_sent),
        ("capabilities received", &n.capabilities),
        ("agreed", &n.agreed),
    ];
    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        add(format!("{name}: {}", list.join(", ")));
    }
    n.restart.iter().flat_map(restart).for_each(&mut add);
    if n.advertisement_interval > 0 {
        add(format!("advertisement interval {} s", n.advertisement_interval));
    }
    for t in &n.timers {
        add(format!("{} in {}", t.name, span(t.expires_in_ms)));
    }
    lines
}

/// Returns the lines about the routes of a family.
fn routes(f: &pb::NeighborFamily) -> Vec<String> {
    let bounds = limits::bounds(f);
    if !f.negotiated {
        return bounds
            .map(|bounds| format!("  {}: not negotiated; {bounds}", family(f.family)))
            .into_iter()
            .collect();
    }
    let end = if f.end_of_rib { "sent all its routes" } else { "still being sent its routes" };
    let rejected = match f.prefixes_rejected {
        0 => String::new(),
        rejected => format!(" ({rejected} rejected by import policy)"),
    };
    let mut lines = vec![format!(
        "  {}: {} received, {} accepted{rejected}, {} sent, {end}",
        family(f.family),
        f.prefixes_received,
        limits::accepted(f),
        f.prefixes_sent
    )];
    lines.extend(filters(f).into_iter().chain(bounds).map(|line| format!("    {line}")));
    if !f.problem.is_empty() {
        lines.push(format!("    none are announced: {}", f.problem));
    }
    lines
}

/// Returns the lines with counters.
fn counters(n: &pb::Neighbor) -> Vec<String> {
    let mut lines = Vec::new();
    for (what, m) in [("received", &n.received), ("sent", &n.sent)] {
        let m = m.unwrap_or_default();
        lines.push(format!(
            "  {what}: {} open, {} update, {} keepalive, {} notification, {} refresh",
            m.open, m.update, m.keepalive, m.notification, m.route_refresh
        ));
    }
    lines.push(format!("  {}", exchanged(n)));
    lines.push(format!(
        "  {} treated as withdraw, {} with attributes discarded, {}, {}, lost {}",
        counted(n.treated_as_withdraw, "UPDATE", "UPDATEs"),
        n.attribute_discards,
        counted(n.loops, "loop", "loops"),
        counted(n.leaks, "leak", "leaks"),
        counted(n.flaps, "time", "times")
    ));
    if n.too_large > 0 {
        lines
            .push(format!("  {} not sent: too large for a message", counted(n.too_large, "route", "routes")));
    }
    if n.reduced > 0 {
        let routes = counted(n.reduced, "route", "routes");
        lines.push(format!("  {routes} sent without some attributes: too large for a message"));
    }
    lines
}

/// Returns this router's address, port and AS of the session.
fn local(n: &pb::Neighbor) -> String {
    let address = if n.local_address.is_empty() { "any address" } else { &n.local_address };
    let port = if n.local_port == 0 { String::new() } else { format!(" port {}", n.local_port) };
    format!("{address}{port} AS {}", n.local_as)
}

/// Returns the neighbor's address and port.
fn remote(n: &pb::Neighbor) -> String {
    format!("{} port {}", n.address, n.remote_port)
}

/// Returns what protects the session, and how far away the neighbor may be.
fn protection(n: &pb::Neighbor) -> Vec<String> {
    let password = n.password.then(|| "password (TCP MD5)".to_string());
    let security = n.minimum_ttl.map(|ttl| format!("ttl-security (TTL {ttl} at least)"));
    let multihop = n.multihop.map(|hops| format!("multihop {hops}"));
    password.into_iter().chain(security).chain(multihop).collect()
}

/// Returns the last end of the session, with the side that caused it.
fn last_end(end: &pb::SessionEnd) -> String {
    format!(
        "last reset {} ago, after {}, by {}: {}",
        span(end.ago_ms),
        span(end.lasted_ms),
        match end.by.as_str() {
            "neighbor" => "the neighbor",
            "operator" => "an operator",
            "configuration" => "the configuration",
            "connection" => "the loss of the connection",
            by => by,
        },
        end.reason
    )
}

/// Returns the lines about graceful restart.
fn restart(restart: &pb::NeighborRestart) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(time) = restart.own_time {
        let long_lived = match restart.own_long_lived_time {
            0 => String::new(),
            time => format!(", and {time} s more as a last resort"),
        };
        lines.push(format!("graceful restart of this router: routes stay there for {time} s{long_lived}"));
    }
    let families: Vec<String> = restart.families.iter().filter_map(offer).collect();
    if !families.is_empty() {
        let time = restart.time.map_or_else(String::new, |time| format!("{time} s; "));
        let also = if restart.notifications { "; also after NOTIFICATIONs" } else { "" };
        let restarted = if restart.restarted { "; it has restarted" } else { "" };
        let helper = if restart.helper { "" } else { "; not done (`helper false`)" };
        let families = families.join(", ");
        lines.push(format!("graceful restart of the neighbor: {time}{families}{also}{restarted}{helper}"));
    }
    lines.extend(restart.families.iter().filter(|f| !f.stays.is_empty()).map(|f| {
        let why = match f.stays.as_str() {
            "long-lived" => "as a last resort",
            _ => "while the neighbor restarts",
        };
        format!("{} routes of an earlier session stay {why}, for {}", family(f.family), span(f.stays_ms))
    }));
    lines
}

/// Returns what a neighbor offers for a family; `None` for a neighbor without an offer.
fn offer(f: &pb::NeighborRestartFamily) -> Option<String> {
    let mut text = family(f.family).to_string();
    if f.preserved || f.long_lived_preserved {
        text.push_str(" (forwarding preserved)");
    }
    if f.long_lived_time > 0 {
        text.push_str(&format!(" and {} s long-lived", f.long_lived_time));
    }
    (f.offered || f.long_lived_time > 0).then_some(text)
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
fn exchanged(n: &pb::Neighbor) -> String {
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
    let keepalive = match n.keepalive_time {
        0 => String::new(),
        seconds => format!(", keepalive time {seconds} s"),
    };
    format!("{} for {}, router id {}, {hold_time}{keepalive}", n.state, span(n.uptime_ms), n.router_id)
}

/// Returns a neighbor as JSON: the message, with counts and distances to bounds.
///
/// # Errors
///
/// The printer lacks BGP's interface.
pub fn json(printer: &Printer, mut n: pb::Neighbor) -> Result<Value, Failure> {
    // Counters are zero and offers empty before the first session.
    let _ = (n.received.get_or_insert_default(), n.sent.get_or_insert_default());
    let _ = (n.changes_received.get_or_insert_default(), n.changes_sent.get_or_insert_default());
    let _ = n.restart.get_or_insert_default();
    let mut shown = printer.plain(&n)?;
    for (shown, f) in shown["families"].as_array_mut().into_iter().flatten().zip(&n.families) {
        shown["prefixes_accepted"] = limits::accepted(f).into();
        limits::add_room(&mut shown["maximum_prefixes"], f);
    }
    limits::name_count(&mut shown["stopped"]);
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let up = pb::Neighbor { hold_time: 9, keepalive_time: 3, ..up };
        assert!(standing(&up).ends_with(", hold time 9 s, keepalive time 3 s"));
    }

    #[test]
    fn json_is_the_message_with_counts() {
        let printer = Printer::new(crate::idl::DESCRIPTORS).expect("BGP's interface");
        let bounds = pb::MaximumPrefixes { received: Some(5), accepted: Some(10), ..Default::default() };
        let f = pb::NeighborFamily {
            family: 6,
            prefixes_received: 7,
            prefixes_rejected: 2,
            maximum_prefixes: Some(bounds),
            ..Default::default()
        };
        let stopped = pb::LimitStop { family: 4, bound: 5, count: 7, ..Default::default() };
        let n = pb::Neighbor {
            address: "10.0.0.2".into(),
            families: vec![f, pb::NeighborFamily { family: 4, ..Default::default() }],
            stopped: Some(stopped),
            ..Default::default()
        };
        let shown = json(&printer, n).expect("a neighbor");
        assert_eq!(shown["address"], "10.0.0.2");
        assert_eq!(shown["sent"]["update"], 0);
        assert_eq!(shown["restart"]["own_time"], Value::Null);
        assert_eq!(shown["last_end"], Value::Null);
        assert_eq!(
            shown["families"][0]["maximum_prefixes"],
            json!({
                "received": 5, "received_left": -2, "accepted": 10, "accepted_left": 5, "action": "shutdown",
                "warn_percent": 0, "restart_after": null,
            })
        );
        assert_eq!(
            (&shown["families"][0]["family"], &shown["families"][0]["prefixes_accepted"]),
            (&json!("ipv6"), &json!(5))
        );
        assert_eq!(shown["families"][1]["maximum_prefixes"], Value::Null);
        assert_eq!(
            shown["stopped"],
            json!({ "family": "ipv4", "bound": 5, "count": 7, "of": "received", "reopens_in_ms": null })
        );
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
    fn prefixes_that_were_sent_are_counted() {
        let changes = |announced, withdrawn| Some(pb::Changes { announced, withdrawn });
        let mut n = pb::Neighbor {
            changes_received: changes(7, 2),
            changes_sent: changes(5, 0),
            octets_received: 900,
            ..pb::Neighbor::default()
        };
        let text = "announced: 7 received, 5 sent; withdrawn: 2 received, 0 sent; 900 octets received";
        assert_eq!(exchanged(&n), text);
        n.unroutable = 3;
        assert_eq!(exchanged(&n), format!("{text}; 3 ignored: not for unicast routing"));
    }

    #[test]
    fn both_ends_and_what_protects_them_are_shown() {
        let mut n = pb::Neighbor {
            address: "10.0.0.2".into(),
            peer_as: 2,
            state: "Active".into(),
            local_as: 1,
            remote_port: 179,
            ..pb::Neighbor::default()
        };
        assert_eq!(
            head(&n),
            [
                "neighbor 10.0.0.2 AS 2 (external)",
                "  Active",
                "  local any address AS 1, remote 10.0.0.2 port 179"
            ]
        );
        (n.local_address, n.local_port, n.group) = ("10.0.0.1".into(), 40_000, "transit".into());
        (n.password, n.minimum_ttl, n.multihop) = (true, Some(253), Some(3));
        n.last_end = Some(pb::SessionEnd {
            reason: "received NOTIFICATION: cease".into(),
            by: "neighbor".into(),
            ago_ms: 1000,
            lasted_ms: 2000,
        });
        n.last_error = "connection refused".into();
        n.last_error_ms = 500;
        let expected = [
            "  local 10.0.0.1 port 40000 AS 1, remote 10.0.0.2 port 179",
            "  group transit",
            "  password (TCP MD5), ttl-security (TTL 253 at least), multihop 3",
            "  last reset 1 s ago, after 2 s, by the neighbor: received NOTIFICATION: cease",
            "  last error 500 ms ago: connection refused",
        ];
        assert_eq!(head(&n)[2..], expected);
    }

    #[test]
    fn what_import_policy_made_of_prefixes_is_shown() {
        let f = pb::NeighborFamily {
            negotiated: true,
            prefixes_received: 7,
            prefixes_rejected: 2,
            prefixes_sent: 3,
            end_of_rib: true,
            ..pb::NeighborFamily::default()
        };
        let text =
            "  ipv4: 7 received, 5 accepted (2 rejected by import policy), 3 sent, sent all its routes";
        assert_eq!(routes(&f), [text]);
        assert_eq!(routes(&pb::NeighborFamily::default()), [""; 0]);
    }

    #[test]
    fn restarts_are_shown_in_both_directions() {
        let f = pb::NeighborRestartFamily {
            offered: true,
            preserved: true,
            long_lived_time: 3600,
            stays: "restart".into(),
            stays_ms: 9000,
            ..pb::NeighborRestartFamily::default()
        };
        let all = pb::NeighborRestart {
            helper: true,
            notifications: true,
            restarted: true,
            own_time: Some(120),
            own_long_lived_time: 0,
            time: Some(60),
            families: vec![f],
        };
        assert_eq!(
            restart(&all),
            [
                "graceful restart of this router: routes stay there for 120 s",
                "graceful restart of the neighbor: 60 s; ipv4 (forwarding preserved) and 3600 s long-lived; also after NOTIFICATIONs; it has restarted",
                "ipv4 routes of an earlier session stay while the neighbor restarts, for 9 s",
            ]
        );
        assert_eq!(restart(&pb::NeighborRestart::default()), [""; 0]);
    }
}
