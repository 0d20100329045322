//! Bounds on the prefixes of neighbors.

use crate::idl::bgp::v1 as pb;
use serde_json::Value;
use sluice_console::{Notice, span};

/// The most neighbors that a notice names.
const NAMED: usize = 5;

/// Returns the number of prefixes that import policy accepted.
pub fn accepted(f: &pb::NeighborFamily) -> u64 {
    f.prefixes_received.saturating_sub(f.prefixes_rejected)
}

/// Returns the number of prefixes from a count to its bound; negative beyond the bound.
fn room(bound: u32, count: u64) -> i64 {
    i64::from(bound).saturating_sub_unsigned(count)
}

/// Returns a family's bounds, with the distance of each to its count.
pub fn bounds(f: &pb::NeighborFamily) -> Option<String> {
    let bounds = f.maximum_prefixes?;
    let of = |bound: Option<u32>, count: u64, what: &str| {
        let bound = bound?;
        Some(match room(bound, count) {
            left @ 0.. => format!("{bound} {what} ({left} to go)"),
            beyond => format!("{bound} {what} (exceeded by {})", beyond.unsigned_abs()),
        })
    };
    let all =
        [of(bounds.received, f.prefixes_received, "received"), of(bounds.accepted, accepted(f), "accepted")];
    let all: Vec<String> = all.into_iter().flatten().collect();
    let beyond = match (bounds.action(), bounds.restart_after) {
        (pb::LimitAction::Warn, _) => "a warning".into(),
        (pb::LimitAction::Discard, _) => "new prefixes are ignored".into(),
        (pb::LimitAction::Shutdown, Some(seconds)) => {
            format!("the session ends, and is opened again after {seconds} s")
        }
        (pb::LimitAction::Shutdown, None) => "the session ends and stays down".into(),
    };
    Some(format!("at most {}; beyond: {beyond}", all.join(", ")))
}

/// Adds the distance of each bound to its count to a family's bounds as JSON.
pub(crate) fn add_room(shown: &mut Value, f: &pb::NeighborFamily) {
    let Some(bounds) = &f.maximum_prefixes else { return };
    let left = |bound: Option<u32>, count: u64| bound.map(|bound| room(bound, count));
    shown["received_left"] = left(bounds.received, f.prefixes_received).into();
    shown["accepted_left"] = left(bounds.accepted, accepted(f)).into();
}

/// Returns what opens a session again that ended for a bound.
pub fn opens(n: &pb::Neighbor) -> Option<String> {
    let after = n.stopped?.reopens_in_ms.map(|left| format!("in {}, ", span(left))).unwrap_or_default();
    let address = &n.address;
    Some(format!(
        "opened again {after}by `sluice clear bgp neighbor {address}`, or by another `maximum-prefixes`"
    ))
}

/// Names the count whose bound ended a session, in the session's end as JSON. Other ends are null.
pub(crate) fn name_count(shown: &mut Value) {
    let Some(shown) = shown.as_object_mut() else { return };
    let is_accepted = shown.remove("accepted").is_some_and(|value| value == true);
    let of = if is_accepted { "accepted" } else { "received" };
    shown.insert("of".into(), of.into());
}

/// Returns the notice of external neighbors with families without a bound; `None` if all have bounds.
pub fn notice(neighbors: &[pb::Neighbor]) -> Option<Notice> {
    let is_unbounded = |n: &&pb::Neighbor| {
        let is_any = n.families.iter().any(|f| f.maximum_prefixes.is_none());
        !n.internal && n.enabled && is_any
    };
    let all: Vec<&str> = neighbors.iter().filter(is_unbounded).map(|n| n.address.as_str()).collect();
    let further = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        further => format!(" and {further} more"),
    };
    let named = all.get(..NAMED).unwrap_or(&all).join(", ");
    (!all.is_empty()).then(|| Notice {
        found: format!("no bound on the prefixes of external neighbors: {named}{further}"),
        advice: "set `maximum-prefixes` of each family, in the neighbor or its group, well above what the neighbor announces".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family_with(received: u64, rejected: u64, bounds: pb::MaximumPrefixes) -> pb::NeighborFamily {
        pb::NeighborFamily {
            prefixes_received: received,
            prefixes_rejected: rejected,
            maximum_prefixes: Some(bounds),
            ..pb::NeighborFamily::default()
        }
    }

    #[test]
    fn bounds_are_shown_with_their_distance() {
        assert_eq!(bounds(&pb::NeighborFamily::default()), None);
        let both = pb::MaximumPrefixes {
            received: Some(100),
            accepted: Some(10),
            restart_after: Some(60),
            warn_percent: 75,
            ..pb::MaximumPrefixes::default()
        };
        let f = family_with(40, 28, both);
        assert_eq!(
            bounds(&f).as_deref(),
            Some(
                "at most 100 received (60 to go), 10 accepted (exceeded by 2); beyond: the session ends, and is opened again after 60 s"
            )
        );
        let warn = pb::MaximumPrefixes {
            received: Some(40),
            action: pb::LimitAction::Warn.into(),
            ..pb::MaximumPrefixes::default()
        };
        let line = bounds(&family_with(40, 0, warn));
        assert_eq!(line.as_deref(), Some("at most 40 received (0 to go); beyond: a warning"));
    }

    #[test]
    fn what_opens_a_session_is_shown() {
        let mut n = pb::Neighbor { address: "10.0.0.2".into(), ..pb::Neighbor::default() };
        assert_eq!(opens(&n), None);
        n.stopped = Some(pb::LimitStop { bound: 5, count: 6, ..pb::LimitStop::default() });
        let by = "by `sluice clear bgp neighbor 10.0.0.2`, or by another `maximum-prefixes`";
        assert_eq!(opens(&n), Some(format!("opened again {by}")));
        n.stopped = Some(pb::LimitStop { reopens_in_ms: Some(53_000), ..pb::LimitStop::default() });
        assert_eq!(opens(&n), Some(format!("opened again in 53 s, {by}")));
    }

    #[test]
    fn external_neighbors_without_bounds_are_named() {
        let neighbor = |last: u32, internal, families| pb::Neighbor {
            address: format!("10.0.0.{last}"),
            enabled: true,
            internal,
            families,
            ..pb::Neighbor::default()
        };
        let bounded = family_with(0, 0, pb::MaximumPrefixes::default());
        let open = pb::NeighborFamily::default();
        let mut all = vec![neighbor(1, true, vec![open.clone()]), neighbor(2, false, vec![bounded.clone()])];
        assert!(notice(&all).is_none());
        all.push(neighbor(3, false, vec![bounded, open.clone()]));
        let found = |all: &[pb::Neighbor]| notice(all).expect("a notice").found;
        assert_eq!(found(&all), "no bound on the prefixes of external neighbors: 10.0.0.3");
        all.extend((4..10).map(|last| neighbor(last, false, vec![open.clone()])));
        assert!(found(&all).ends_with("10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, 10.0.0.7 and 2 more"));
    }
}
