//! The core's neighbors and anchors as messages.

use crate::idl::xip::v1 as pb;
use crate::maps::CacheLines;
use sluice_base::InterfaceIndex;
use sluice_xip::anchor::Touch;
use sluice_xip::forest::CacheEntryId;
use sluice_xip::links::Station;
use sluice_xip::machine::Xip;
use sluice_xip::neighbors::{LinkProof, ProofState};
use std::collections::BTreeSet;

/// Returns the neighbors: a line for each HID at an address, and for each address without a HID that routes name.
pub(crate) fn neighbors(xip: &Xip<CacheLines>) -> Vec<pb::Neighbor> {
    let links = xip.links();
    let name = |index: InterfaceIndex| links.get(index).map(|i| i.name.clone()).unwrap_or_default();
    let asks = xip.settings().proof != LinkProof::Off;
    let mut hosts = BTreeSet::new();
    let known = xip.neighbors().iter().map(|(neighbor, entry)| {
        hosts.insert(Station { interface: neighbor.interface, mac: neighbor.mac });
        let proof = match entry.proof {
            _ if !asks => "",
            ProofState::Unproven(_) => "unproven",
            ProofState::Challenged => "challenged",
            ProofState::Proven => "proven",
            ProofState::Refused(_) => "refused",
        };
        pb::Neighbor {
            interface: name(neighbor.interface),
            mac: neighbor.mac.to_string(),
            usable: entry.is_usable,
            hid: neighbor.hid.to_string(),
            proof: proof.into(),
        }
    });
    let mut all: Vec<pb::Neighbor> = known.collect();
    let named = links.neighbors().filter(|(_, station)| !hosts.contains(station));
    all.extend(named.map(|(number, station)| pb::Neighbor {
        interface: name(station.interface),
        mac: station.mac.to_string(),
        usable: links.member(number).is_some(),
        ..pb::Neighbor::default()
    }));
    all
}

/// Returns the anchors of a cached row; none without such a row.
pub(crate) fn anchors(xip: &Xip<CacheLines>, row: CacheEntryId) -> Vec<pb::RowAnchor> {
    let forest = xip.answers().forest();
    let anchor = |anchor| pb::RowAnchor {
        anchor: format!("{anchor}"),
        rows: forest.touched(&Touch::Anchor(anchor)).count().try_into().unwrap_or(u32::MAX),
    };
    forest.anchors_of(row).map(anchor).collect()
}
