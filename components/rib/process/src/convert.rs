//! Converts the core's views to messages.

use sluice_base::AnyPrefix;
use sluice_rib::view::{AnyInterest, RouteView, Summary};
use sluice_xrl::XrlError;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::rib::v1 as pb;

/// A route of `show`.
pub fn route(view: RouteView) -> pb::Route {
    pb::Route {
        net: Some(common::Net::from(view.prefix)),
        origin: view.origin,
        distance: view.distance.0.into(),
        metric: view.metric.0,
        tag: view.tags.as_slice().first().map_or(0, |tag| tag.0),
        kind: view.kind.unwrap_or_default(),
        tags: view.tags.as_slice().iter().map(|tag| tag.0).collect(),
        selected: view.selected,
        resolved: view.resolved.is_some(),
        stale: view.stale,
        forwarding: Some((&view.announced).into()),
        resolution: view.resolved.as_ref().map(Into::into),
        provenance: view.provenance.bits(),
        rejected: view.rejected.unwrap_or_default(),
        rejected_by_policy: view.rejected_by_policy.unwrap_or_default(),
    }
}

/// An interest answer.
pub fn interest(answer: AnyInterest) -> pb::Interest {
    let valid = Some(common::Net::from(answer.valid));
    match answer.route {
        Some(route) => pb::Interest {
            valid,
            reachable: true,
            net: Some(common::Net::from(route.prefix)),
            metric: route.metric.0,
            distance: route.distance.0.into(),
            connected: route.connected,
            forwarding: Some((&route.forwarding).into()),
        },
        None => pb::Interest { valid, ..Default::default() },
    }
}

/// A table's counts.
pub fn summary(s: Summary) -> pb::TableSummary {
    let origins = s.origins.into_iter().map(|(origin, distance, routes, stale)| pb::OriginSummary {
        origin,
        distance: distance.0.into(),
        routes,
        stale,
    });
    pb::TableSummary {
        table: s.table.0,
        family: s.family.0.into(),
        prefixes: s.prefixes,
        selected: s.selected,
        groups: s.groups,
        interests: s.interests,
        origins: origins.collect(),
    }
}

/// An optional prefix.
pub(crate) fn optional_prefix(net: Option<&common::Net>, name: &str) -> Result<Option<AnyPrefix>, XrlError> {
    net.map(AnyPrefix::try_from).transpose().map_err(|e| XrlError::BadArguments(format!("{name}: {e}")))
}
