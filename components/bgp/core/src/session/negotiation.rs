//! What an OPEN offers, and what both sides' OPENs agree on (RFC 4271, section 6.2; RFC 5492; RFC 6286; RFC 7607;
//! RFC 9234).

use super::SessionConfig;
use crate::family::{Families, FamilyCode, FamilyCodes, FamilyIndex};
use crate::relationship::Relationship;
use crate::wire::notification::{code, open as subcode};
use crate::wire::open::VERSION;
use crate::wire::{Capability, Notification, Open};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, RouterId};

/// The parameters of a session that follow from both OPENs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Negotiated {
    /// The peer's AS.
    pub peer_as: Asn,
    /// The peer's BGP Identifier.
    pub router_id: RouterId,
    /// Hold time in seconds: the smaller of both; 0 is none.
    pub hold_time: u16,
    /// AS numbers have 4 octets in UPDATEs.
    pub four_octet_as: bool,
    /// The peer answers ROUTE-REFRESH.
    pub route_refresh: bool,
    /// The peer offers graceful restart, and so promises End-of-RIB markers (RFC 4724, section 4).
    pub promises_end_of_rib: bool,
    /// Families that both sides want.
    pub families: Families,
}

/// The OPEN of this side.
pub(super) fn own_open(config: &SessionConfig) -> Open {
    let mut capabilities = offered_families(config);
    capabilities.extend([Capability::RouteRefresh, Capability::FourOctetAs(config.local_as)]);
    // RFC 4724, section 4: without families the offer is to send and to use End-of-RIB markers, no more.
    capabilities.push(Capability::GracefulRestart { flags: 0, restart_time: 0, families: Vec::new() });
    capabilities.extend(config.relationship.map(|r| Capability::Role(r.own_role())));
    Open {
        version: VERSION,
        as_field: config.local_as.to_u16(),
        hold_time: config.hold_time,
        router_id: config.router_id,
        capabilities,
    }
}

fn offered_families(config: &SessionConfig) -> Vec<Capability> {
    let codes = config.families.iter().map(|family| config.codes.of(family));
    codes.map(|FamilyCode { afi, safi }| Capability::Multiprotocol { afi, safi }).collect()
}

/// The families that an OPEN offers: IPv4 unicast where it names none (RFC 4760 came later than BGP-4).
fn families_of(open: &Open, codes: &FamilyCodes) -> Families {
    let mut families = Families::default();
    let mut named = false;
    for capability in &open.capabilities {
        if let Capability::Multiprotocol { afi, safi } = *capability {
            named = true;
            if let Some(family) = codes.family(afi, safi) {
                families.insert(family);
            }
        }
    }
    if named { families } else { Families::only(FamilyIndex::IPV4) }
}

/// Checks the peer's OPEN; the error is what to send it.
pub(super) fn negotiate(config: &SessionConfig, open: &Open) -> Result<Negotiated, Notification> {
    let refuse = |subcode, data: &[u8]| Err(Notification { code: code::OPEN, subcode, data: data.to_vec() });
    if open.version != VERSION {
        return refuse(subcode::VERSION, &u16::from(VERSION).to_be_bytes());
    }
    if open.asn() != config.peer_as || open.as_field == 0 || open.asn().0 == 0 {
        return refuse(subcode::PEER_AS, &[]);
    }
    if matches!(open.hold_time, 1 | 2) {
        return refuse(subcode::HOLD_TIME, &open.hold_time.to_be_bytes());
    }
    let same_id_inside = config.is_internal() && open.router_id == config.router_id;
    if open.router_id.0 == 0 || same_id_inside {
        return refuse(subcode::ROUTER_ID, &open.router_id.0.to_be_bytes());
    }
    // RFC 9234, section 4.2: a neighbour that announces no role is taken at this side's word.
    let role = config.relationship.map(Relationship::neighbors_role);
    let contradicts = |c: &Capability| matches!((c, role), (Capability::Role(r), Some(role)) if *r != role);
    if open.capabilities.iter().any(contradicts) {
        return refuse(subcode::ROLE_MISMATCH, &[]);
    }
    let families = families_of(open, &config.codes).and(config.families);
    if families.is_empty() {
        let mut wanted = Vec::new();
        for capability in offered_families(config) {
            capability.put(&mut wanted);
        }
        return refuse(subcode::CAPABILITY, &wanted);
    }
    Ok(Negotiated {
        peer_as: config.peer_as,
        router_id: open.router_id,
        hold_time: open.hold_time.min(config.hold_time),
        four_octet_as: open.four_octet_as().is_some(),
        route_refresh: open.capabilities.contains(&Capability::RouteRefresh),
        promises_end_of_rib: open
            .capabilities
            .iter()
            .any(|c| matches!(c, Capability::GracefulRestart { .. })),
        families,
    })
}
