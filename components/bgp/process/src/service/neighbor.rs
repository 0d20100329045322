//! A neighbor as a message: the core's view in the words of operators.

use super::capabilities::{agreed, capability};
use crate::idl::bgp::v1 as pb;
use crate::values::{family_number, ms};
use sluice_base::Instant;
use sluice_bgp::event::WithoutPolicy;
use sluice_bgp::family::{FamilyCodes, FamilyIndex};
use sluice_bgp::relationship::role_name;
use sluice_bgp::session::{MessageCounters, SessionEnd, State, Timer};
use sluice_bgp::speaker::{LimitAction, LimitStop, MaximumPrefixes, NeighborView};
use sluice_bgp::wire::{Capability, Open};

fn messages(counters: MessageCounters) -> pb::Messages {
    pb::Messages {
        open: counters.open,
        update: counters.update,
        notification: counters.notification,
        keepalive: counters.keepalive,
        route_refresh: counters.route_refresh,
    }
}

fn timer(timer: Timer) -> &'static str {
    match timer {
        Timer::ConnectRetry => "connect-retry",
        Timer::Hold => "hold",
        Timer::Keepalive => "keepalive",
        Timer::DelayOpen => "delay-open",
        Timer::IdleHold => "idle-hold",
        Timer::SendHold => "send-hold",
    }
}

/// Returns the capabilities of an OPEN in words.
fn capabilities(open: Option<&Open>, codes: &FamilyCodes) -> Vec<String> {
    open.iter().flat_map(|open| &open.capabilities).map(|offered| capability(offered, codes)).collect()
}

/// Returns the role in an OPEN (RFC 9234); empty without one.
fn role(open: Option<&Open>) -> String {
    let role = open.iter().flat_map(|open| &open.capabilities).find_map(|capability| match capability {
        Capability::Role(role) => Some(role_name(*role).map_or_else(|| role.to_string(), String::from)),
        _ => None,
    });
    role.unwrap_or_default()
}

/// Returns the state of graceful restart.
fn restart(view: &NeighborView, now: Instant) -> pb::NeighborRestart {
    let config = &view.config;
    let offered = view.negotiated.and_then(|negotiated| negotiated.restart);
    let long_lived = view.negotiated.and_then(|negotiated| negotiated.long_lived).unwrap_or_default();
    let family = |family: FamilyIndex| {
        let stays = view.stays[family];
        let message = pb::NeighborRestartFamily {
            family: family_number(family),
            offered: offered.is_some_and(|restart| restart.families.has(family)),
            preserved: offered.is_some_and(|restart| restart.preserved.has(family)),
            long_lived_time: long_lived.times[family],
            long_lived_preserved: long_lived.preserved.has(family),
            stays: match stays {
                None => String::new(),
                Some(stays) if stays.is_long_lived => "long-lived".into(),
                Some(_) => "restart".into(),
            },
            stays_ms: stays.map_or(0, |stays| ms(stays.until.saturating_since(now))),
        };
        (message.offered || message.long_lived_time > 0 || stays.is_some()).then_some(message)
    };
    pb::NeighborRestart {
        helper: config.graceful_restart.helper,
        notifications: view.negotiated.is_some_and(|negotiated| negotiated.graceful_notifications),
        restarted: view.negotiated.is_some_and(|negotiated| negotiated.is_restarting),
        own_time: config.restart_time.map(Into::into),
        own_long_lived_time: config.long_lived_time,
        time: offered.map(|restart| restart.time.into()),
        families: FamilyIndex::all().filter_map(family).collect(),
    }
}

/// Returns bounds as a message; `None` without a bound.
fn bounds(bounds: MaximumPrefixes) -> Option<pb::MaximumPrefixes> {
    let action = match bounds.action() {
        LimitAction::Shutdown => pb::LimitAction::Shutdown,
        LimitAction::Warn => pb::LimitAction::Warn,
        LimitAction::Discard => pb::LimitAction::Discard,
    };
    bounds.is_set().then(|| pb::MaximumPrefixes {
        received: bounds.received,
        accepted: bounds.accepted,
        action: action.into(),
        warn_percent: bounds.warn_percent().into(),
        restart_after: bounds.restart_after,
    })
}

/// Returns a neighbor as a message; `closed` is the reason why the neighbor cannot connect to the router, if any.
pub(crate) fn neighbor(
    view: NeighborView,
    codes: &FamilyCodes,
    closed: Option<String>,
    now: Instant,
) -> pb::Neighbor {
    let is_down = view.config.enabled && view.state != State::Established;
    let reason = match closed.filter(|_| is_down) {
        Some(closed) if view.config.passive => format!("this router does not listen: {closed}"),
        Some(closed) => format!("{}; nor does this router listen: {closed}", view.reason()),
        None => view.reason(),
    };
    let (last_error, last_error_ms) = match &view.last_down {
        Some((at, reason)) => (reason.to_string(), ms(now.saturating_since(*at))),
        None => (String::new(), 0),
    };
    let families = view.config.families().iter().map(|family| family_of(&view, family)).collect();
    let counted = counted(&view);
    let restart = restart(&view, now);
    let minimum_ttl = view.config.min_ttl().map(Into::into);
    let ports = view.endpoints.and_then(|endpoints| endpoints.ports);
    let local_address = view.endpoints.map(|endpoints| endpoints.local).or(view.config.local_address);
    let relationship = view.config.relationship.filter(|_| !view.internal);
    pb::Neighbor {
        address: view.config.address.to_string(),
        peer_as: view.config.peer_as.0,
        internal: view.internal,
        description: view.config.description,
        enabled: view.config.enabled,
        state: view.state.to_string(),
        uptime_ms: view.established_at.map_or(0, |at| ms(now.saturating_since(at))),
        router_id: view.open.as_ref().map_or(String::new(), |o| o.router_id.to_string()),
        flaps: view.flaps,
        last_error,
        last_error_ms,
        hold_time: view.negotiated.map_or(0, |n| n.hold_time.into()),
        capabilities: capabilities(view.open.as_ref(), codes),
        capabilities_sent: capabilities(view.own_open.as_ref(), codes),
        role_sent: role(view.own_open.as_ref()),
        role_received: role(view.open.as_ref()),
        relationship: relationship.map_or_else(String::new, |relationship| relationship.name().into()),
        restart: Some(restart),
        last_end: view.last_end.as_ref().map(|end| session_end(end, now)),
        local_address: local_address.map_or_else(String::new, |address| address.to_string()),
        local_port: ports.map_or(0, |ports| ports.local.into()),
        remote_port: ports.map_or(view.config.port, |ports| ports.remote).into(),
        local_as: view.local_as.0,
        password: view.config.password.is_some(),
        multihop: view.config.multihop.map(Into::into),
        minimum_ttl,
        keepalive_time: u32::try_from(view.keepalive_time).unwrap_or(u32::MAX),
        advertisement_interval: view.config.advertisement_interval.into(),
        timers: view
            .timers
            .iter()
            .map(|(t, at)| pb::Timer { name: timer(*t).into(), expires_in_ms: ms(at.saturating_since(now)) })
            .collect(),
        agreed: view.negotiated.as_ref().map(agreed).unwrap_or_default(),
        stopped: view.stopped.map(|stop| limit_stop(&stop, now)),
        families,
        reason,
        without_policy: WithoutPolicy { import: view.without_policy.0, export: view.without_policy.1 }
            .to_string(),
        without_refresh: view.without_refresh.map_or_else(String::new, |without| without.to_string()),
        range: view.config.range.map_or_else(String::new, |range| range.to_string()),
        group: view.config.group.unwrap_or_default(),
        import: view.config.import,
        export: view.config.export,
        ..counted
    }
}

/// Returns a message with a family of a neighbor.
fn family_of(view: &NeighborView, family: FamilyIndex) -> pb::NeighborFamily {
    let negotiated = view.negotiated.as_ref().map(|n| n.families).unwrap_or_default();
    pb::NeighborFamily {
        family: family_number(family),
        negotiated: negotiated.has(family),
        prefixes_received: view.prefixes.received[family].into(),
        prefixes_rejected: view.prefixes.rejected[family].into(),
        prefixes_sent: view.prefixes.sent[family].into(),
        end_of_rib: view.end_of_rib[family],
        problem: if view.untold.has(family) { family.row().no_next_hop.into() } else { String::new() },
        filter_entries_received: view.filters[family].received.map(|count| count as u32),
        filter_entries_sent: view.filters[family].sent.map(|count| count as u32),
        maximum_prefixes: bounds(view.config.maximum_prefixes(family)),
    }
}

fn session_end(end: &SessionEnd, now: Instant) -> pb::SessionEnd {
    pb::SessionEnd {
        reason: end.reason.to_string(),
        by: end.reason.ended_by().name().into(),
        ago_ms: ms(now.saturating_since(end.at)),
        lasted_ms: ms(end.lasted),
    }
}

fn limit_stop(stop: &LimitStop, now: Instant) -> pb::LimitStop {
    pb::LimitStop {
        family: family_number(stop.family),
        bound: stop.reached.bound,
        count: stop.reached.count,
        accepted: stop.reached.is_accepted,
        reopens_in_ms: stop.restart_at.map(|at| ms(at.saturating_since(now))),
    }
}

/// Returns a message with the counters of a neighbor's sessions and nothing else.
fn counted(view: &NeighborView) -> pb::Neighbor {
    let (reader, writer) = (&view.reader, &view.writer);
    pb::Neighbor {
        changes_received: Some(pb::Changes { announced: reader.announced, withdrawn: reader.withdrawn }),
        changes_sent: Some(pb::Changes { announced: writer.announced, withdrawn: writer.withdrawn }),
        unroutable: reader.unroutable,
        octets_received: reader.octets,
        received: Some(messages(view.received)),
        sent: Some(messages(view.sent)),
        treated_as_withdraw: reader.treated_as_withdraw,
        attribute_discards: reader.attribute_discards,
        loops: reader.loops,
        leaks: reader.leaks,
        too_large: writer.too_large,
        reduced: writer.reduced,
        ..pb::Neighbor::default()
    }
}
