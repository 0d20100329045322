//! Paths as messages.

use super::damping::suppressed;
use crate::idl::bgp::v1 as pb;
use crate::values::{as_path, resolution};
use sluice_bgp::attributes::private::Private;
use sluice_bgp::attributes::{View, canonical};
use sluice_bgp::shard::{Multipath, PathView, ReceivedView};
use sluice_bgp::speaker::control::Control;
use sluice_bgp::wire::attribute::code;

/// Returns a path as a message; `is_sent` if the attributes are those sent to a neighbor.
pub(crate) fn path(view: PathView, is_sent: bool, control: &Control) -> pb::Path {
    let (resolution, interior_cost) = resolution(view.resolution);
    let mut path = pb::Path {
        neighbor: control.neighbor_address(view.peer).map_or(String::new(), |a| a.to_string()),
        path_id: view.path_id,
        best: view.lost.is_none(),
        reason: view.lost.map_or(String::new(), |lost| lost.to_string()),
        multipath_weight: match view.multipath {
            Some(Multipath::Used { weight }) => Some(weight.into()),
            _ => None,
        },
        left_out: match view.multipath {
            Some(Multipath::LeftOut(why)) => why.to_string(),
            _ => String::new(),
        },
        stale: view.stale,
        next_hop: view.next_hop.address.to_string(),
        resolution,
        interior_cost,
        resolved_by: view.resolved_by.map_or(String::new(), |prefix| prefix.to_string()),
        origin: view.view.origin.to_string(),
        med: view.view.med,
        local_pref: Some(view.view.local_pref).filter(|_| !is_sent),
        received: view.received.map(|came| Box::new(received(came))),
        rejected_by: match view.suppressed_for {
            Some(left) => suppressed(left),
            None => view.rejected_by.map_or(String::new(), |by| by.to_string()),
        },
        validation: view.validity.name().into(),
        aspa: view.path_validity.name().into(),
        removed: view.removed.iter().map(|code| attribute_name(*code)).collect(),
        ..pb::Path::default()
    };
    put_attributes(&view.attributes, &view.view, &mut path);
    path
}

/// Returns the name of an attribute, or its code.
fn attribute_name(code: u8) -> String {
    code::name(code).map_or_else(|| code.to_string(), String::from)
}

/// Returns a path as received, before import policy.
fn received(came: ReceivedView) -> pb::Path {
    let mut path = pb::Path {
        next_hop: came.next_hop.address.to_string(),
        origin: came.view.origin.to_string(),
        med: came.view.med,
        ..pb::Path::default()
    };
    put_attributes(&came.attributes, &came.view, &mut path);
    path
}

/// Fills in the canonical attributes of a set.
fn put_attributes(canonical: &[u8], view: &View, path: &mut pb::Path) {
    let Private { weight, tags, rib_distance, is_blackhole, damping, .. } = Private::of(canonical);
    path.damping = damping.map_or_else(String::new, |damping| damping.to_string());
    (path.weight, path.tags) = (weight.into(), tags.into_vec());
    (path.rib_distance, path.blackhole) = (rib_distance.map(u32::from), is_blackhole);
    for attribute in canonical::attributes(canonical) {
        let value = attribute.value;
        let half = |octets: &[u8]| octets.iter().fold(0u32, |n, octet| n << 8 | u32::from(*octet));
        match attribute.code {
            code::ORIGIN | code::MULTI_EXIT_DISC => {}
            code::LOCAL_PREF => path.local_pref = Some(view.local_pref),
            code::AS_PATH => path.as_path = as_path(value),
            code::COMMUNITIES => {
                let text = |c: &[u8]| format!("{}:{}", half(&c[..2]), half(&c[2..]));
                path.communities = value.chunks_exact(4).map(text).collect();
            }
            code::LARGE_COMMUNITY => {
                let text = |c: &[u8]| format!("{}:{}:{}", half(&c[..4]), half(&c[4..8]), half(&c[8..]));
                path.large_communities = value.chunks_exact(12).map(text).collect();
            }
            code::EXTENDED_COMMUNITIES => {
                let text = |c: &[u8]| c.iter().map(|octet| format!("{octet:02x}")).collect();
                path.extended_communities = value.chunks_exact(8).map(text).collect();
            }
            code::ATOMIC_AGGREGATE => path.atomic_aggregate = true,
            code::AGGREGATOR if value.len() == 8 => {
                let by = std::net::Ipv4Addr::from(half(&value[4..]));
                path.aggregator = format!("{} {by}", half(&value[..4]));
            }
            code => path.others.push(pb::OtherAttribute {
                code: code.into(),
                flags: attribute.flags.0.into(),
                value: value.to_vec(),
                name: code::name(code).unwrap_or_default().into(),
            }),
        }
    }
}
