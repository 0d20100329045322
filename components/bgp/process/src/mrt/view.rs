//! Traces as operators see them.

use super::TraceStatus;
use crate::idl::bgp::v1 as pb;
use sluice_bgp::mrt::{FileSettings, TraceKind};

/// Returns the state of a kind of trace as a message.
pub fn trace((kind, settings, status): (TraceKind, FileSettings, TraceStatus)) -> pb::Trace {
    let state = match (status.is_writing, status.problem.is_empty()) {
        (true, _) => "writing",
        (false, true) => "waiting",
        (false, false) => "failed",
    };
    let next = status.next.saturating_sub(super::seconds());
    pb::Trace {
        kind: kind.name().into(),
        state: state.into(),
        interval: settings.interval.unwrap_or_default(),
        next_ms: next.saturating_mul(1000),
        newest: status.newest.map(|name| format!("{kind}/{name}")).unwrap_or_default(),
        files: status.files,
        routes: status.routes,
        messages: status.messages,
        octets: status.octets,
        lost: status.lost,
        failures: status.failures,
        problem: status.problem,
    }
}
