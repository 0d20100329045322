//! The offers of an OPEN, and the agreement of both OPENs (RFC 4271, section 6.2; RFC 5492; RFC 6286; RFC 7607;
//! RFC 9234).

use super::{AddPathFamilies, SessionConfig};
use crate::family::{ByFamily, Families, FamilyCode, FamilyCodes, FamilyIndex};
use crate::relationship::Relationship;
use crate::wire::notification::{code, open as subcode};
use crate::wire::open::VERSION;
use crate::wire::orf::{self, FilterFamily};
use crate::wire::{Capability, LongLivedFamily, Notification, Open, PathsFamily, RestartFamily};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, Instant, RouterId};

/// The parameters of a session by both OPENs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Negotiated {
    /// The router's AS toward the peer.
    pub presented_as: Asn,
    /// The peer's AS.
    pub peer_as: Asn,
    /// The peer's BGP Identifier.
    pub router_id: RouterId,
    /// Hold time in seconds: the smaller of both; 0: disabled.
    pub hold_time: u16,
    /// AS numbers have 4 octets in UPDATEs.
    pub four_octet_as: bool,
    /// The peer answers ROUTE-REFRESH.
    pub route_refresh: bool,
    /// Both sides mark the beginning and the end of a route refresh (RFC 7313).
    pub enhanced_refresh: bool,
    /// Both sides offer extended messages: the peer may be sent some (RFC 8654, section 4).
    pub extended_messages: bool,
    /// The peer offers graceful restart, and so promises End-of-RIB markers (RFC 4724, section 4).
    pub promises_end_of_rib: bool,
    /// Families wanted by both sides.
    pub families: Families,
    /// Families of which several paths of a prefix are exchanged.
    pub add_path: AddPathFamilies,
    /// Families for which the peer sends outbound route filters by prefix (RFC 5291).
    pub filters_received: Families,
    /// Families for which the peer accepts filters from the router.
    pub filters_sent: Families,
    /// True if the peer restarts, and waits for End-of-RIB markers before sending routes (RFC 4724, section 3).
    pub is_restarting: bool,
    /// The peer's offer of long-lived graceful restart; `None` without support for long-lived stale routes.
    pub long_lived: Option<LongLivedRestart>,
    /// Both sides keep routes after NOTIFICATIONs other than a Hard Reset (RFC 8538, section 4).
    pub graceful_notifications: bool,
    /// The peer's graceful restart; `None` if the peer preserves no forwarding state of these families.
    pub restart: Option<PeerRestart>,
}

/// The graceful restart of a peer (RFC 4724, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PeerRestart {
    /// The longest duration of a restart, in seconds.
    pub time: u16,
    /// Agreed families whose forwarding state the peer can preserve.
    pub families: Families,
    /// The families of which the forwarding state survived the peer's last restart.
    pub preserved: Families,
}

/// A peer's offer of long-lived graceful restart (RFC 9494, section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LongLivedRestart {
    /// The seconds for which stale routes of an agreed family stay; 0 for none.
    pub times: ByFamily<u32>,
    /// Agreed families of which the forwarding state survived the peer's last restart.
    pub preserved: Families,
}

/// Makes the router's OPEN, with the AS `presented_as`.
pub(super) fn own_open(config: &SessionConfig, presented_as: Asn, now: Instant) -> Open {
    let mut capabilities = offered_families(config);
    capabilities.extend([Capability::RouteRefresh, Capability::FourOctetAs(presented_as)]);
    capabilities.push(Capability::EnhancedRefresh);
    capabilities.extend(config.extended_messages.then_some(Capability::ExtendedMessage));
    capabilities.extend(own_filters(config));
    capabilities.push(own_restart(config, now));
    capabilities.extend(own_long_lived(config, now));
    capabilities.extend(own_add_path(config));
    capabilities.extend(config.relationship.map(|r| Capability::Role(r.own_role())));
    Open {
        version: VERSION,
        as_field: presented_as.to_u16(),
        hold_time: config.hold_time,
        router_id: config.router_id,
        capabilities,
    }
}

/// Returns the capability of graceful restart. Without families the capability offers only to send and to use End-of-RIB markers (RFC 4724,
/// section 4).
fn own_restart(config: &SessionConfig, now: Instant) -> Capability {
    let graceful = if config.graceful_notifications { Capability::GRACEFUL_NOTIFICATION } else { 0 };
    let Some(restart) = config.restart else {
        return Capability::GracefulRestart { flags: graceful, restart_time: 0, families: Vec::new() };
    };
    // Where this process has run for long, a session that ended is no restart, and packets went on.
    let is_recent = restart.is_recent(now);
    let is_preserved = restart.is_preserved || !is_recent;
    let flags = if is_preserved { RestartFamily::FORWARDING } else { 0 };
    let family = |FamilyCode { afi, safi }| RestartFamily { afi, safi, flags };
    Capability::GracefulRestart {
        flags: graceful | if is_recent && restart.is_preserved { Capability::RESTARTING } else { 0 },
        restart_time: restart.time,
        families: config.families.iter().map(|index| family(config.codes.of(index))).collect(),
    }
}

/// Returns the capability of long-lived graceful restart (RFC 9494, section 3); `None` if long-lived stale routes are neither kept nor
/// asked for.
fn own_long_lived(config: &SessionConfig, now: Instant) -> Option<Capability> {
    let own = config.restart.filter(|restart| restart.long_lived_time > 0);
    let families = own.map(|restart| {
        let is_preserved = restart.is_preserved || !restart.is_recent(now);
        let flags = if is_preserved { RestartFamily::FORWARDING } else { 0 };
        let family = |FamilyCode { afi, safi }| LongLivedFamily {
            afi,
            safi,
            flags,
            stale_time: restart.long_lived_time,
        };
        config.families.iter().map(|index| family(config.codes.of(index))).collect()
    });
    (config.keeps_long_lived || own.is_some())
        .then(|| Capability::LongLivedRestart(families.unwrap_or_default()))
}

/// Returns the ADD-PATH capability (RFC 7911, section 4); `None` if only single paths are offered.
fn own_add_path(config: &SessionConfig) -> Option<Capability> {
    let AddPathFamilies { receive, send } = config.add_path;
    let family = |family: FamilyIndex| {
        let FamilyCode { afi, safi } = config.codes.of(family);
        PathsFamily { afi, safi, receive: receive.has(family), send: send.has(family) }
    };
    let offered: Vec<PathsFamily> =
        config.families.iter().map(family).filter(|paths| paths.receive || paths.send).collect();
    (!offered.is_empty()).then_some(Capability::AddPath(offered))
}

/// Returns the families of which several paths are exchanged: offered for sending by one side and for receiving by the peer (RFC
/// 7911, section 5).
fn add_path_of(open: &Open, config: &SessionConfig, agreed: Families) -> AddPathFamilies {
    let mut add_path = AddPathFamilies::NONE;
    for capability in &open.capabilities {
        let Capability::AddPath(offered) = capability else { continue };
        for PathsFamily { afi, safi, receive, send } in offered {
            let Some(family) = config.codes.family(*afi, *safi).filter(|family| agreed.has(*family)) else {
                continue;
            };
            if *send && config.add_path.receive.has(family) {
                add_path.receive.insert(family);
            }
            if *receive && config.add_path.send.has(family) {
                add_path.send.insert(family);
            }
        }
    }
    add_path
}

/// Returns the capability of outbound route filters, for families of IP prefixes.
fn own_filters(config: &SessionConfig) -> Option<Capability> {
    let (receives, sends) = config.route_filters;
    let mode = u8::from(receives) * orf::RECEIVE + u8::from(sends) * orf::SEND;
    let families = config.families.iter().filter(|family| family.row().id.ip().is_some());
    let families = families.map(|family| {
        let FamilyCode { afi, safi } = config.codes.of(family);
        FilterFamily { afi, safi, mode }
    });
    (mode > 0).then(|| Capability::RouteFilter(families.collect()))
}

/// Returns the agreed families for which an OPEN offers to receive or to send filters.
fn filters_of(open: &Open, codes: &FamilyCodes, agreed: Families, mode: u8) -> Families {
    let mut families = Families::default();
    for capability in &open.capabilities {
        let Capability::RouteFilter(offered) = capability else { continue };
        for offer in offered.iter().filter(|offer| offer.mode & mode != 0) {
            codes.family(offer.afi, offer.safi).into_iter().for_each(|family| families.insert(family));
        }
    }
    families.and(agreed)
}

fn offered_families(config: &SessionConfig) -> Vec<Capability> {
    let codes = config.families.iter().map(|family| config.codes.of(family));
    codes.map(|FamilyCode { afi, safi }| Capability::Multiprotocol { afi, safi }).collect()
}

/// Returns the families of an OPEN: IPv4 unicast by default (RFC 4760 came later than BGP-4).
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

/// Returns true if an OPEN has a flag of graceful restart.
fn has_restart_flag(open: &Open, flag: u8) -> bool {
    open.capabilities.iter().any(
        |capability| matches!(capability, Capability::GracefulRestart { flags, .. } if flags & flag != 0),
    )
}

/// Returns an OPEN's graceful restart for the agreed families.
fn restart_of(open: &Open, codes: &FamilyCodes, agreed: Families) -> Option<PeerRestart> {
    let offered = open.capabilities.iter().find_map(|capability| match capability {
        Capability::GracefulRestart { restart_time, families, .. } => Some((*restart_time, families)),
        _ => None,
    });
    let (time, offered) = offered?;
    let mut restart = PeerRestart { time, ..PeerRestart::default() };
    for RestartFamily { afi, safi, flags } in offered {
        let Some(family) = codes.family(*afi, *safi).filter(|family| agreed.has(*family)) else { continue };
        restart.families.insert(family);
        if flags & RestartFamily::FORWARDING != 0 {
            restart.preserved.insert(family);
        }
    }
    (!restart.families.is_empty()).then_some(restart)
}

/// Returns an OPEN's long-lived graceful restart for the agreed families. The capability counts only together with graceful
/// restart (RFC 9494, section 3).
fn long_lived_of(open: &Open, codes: &FamilyCodes, agreed: Families) -> Option<LongLivedRestart> {
    let is_restart = |capability: &Capability| matches!(capability, Capability::GracefulRestart { .. });
    let offered = open.capabilities.iter().find_map(|capability| match capability {
        Capability::LongLivedRestart(families) => Some(families),
        _ => None,
    });
    let offered = offered.filter(|_| open.capabilities.iter().any(is_restart))?;
    let mut long_lived = LongLivedRestart::default();
    for LongLivedFamily { afi, safi, flags, stale_time } in offered {
        let Some(family) = codes.family(*afi, *safi).filter(|family| agreed.has(*family)) else { continue };
        long_lived.times[family] = *stale_time;
        if flags & RestartFamily::FORWARDING != 0 {
            long_lived.preserved.insert(family);
        }
    }
    Some(long_lived)
}

/// Checks the peer's OPEN, for which the router is in the AS `presented_as`; the error is the NOTIFICATION to send.
pub(super) fn negotiate(
    config: &SessionConfig,
    presented_as: Asn,
    open: &Open,
) -> Result<Negotiated, Notification> {
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
    // RFC 9234, section 4.2: a neighbor that announces no role is taken at this side's word.
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
    let filters = |is_offered, mode| match is_offered {
        true => filters_of(open, &config.codes, families, mode),
        false => Families::default(),
    };
    Ok(Negotiated {
        filters_received: filters(config.route_filters.0, orf::SEND),
        filters_sent: filters(config.route_filters.1, orf::RECEIVE),
        presented_as,
        peer_as: config.peer_as,
        router_id: open.router_id,
        hold_time: open.hold_time.min(config.hold_time),
        four_octet_as: open.four_octet_as().is_some(),
        route_refresh: open.capabilities.contains(&Capability::RouteRefresh),
        enhanced_refresh: open.capabilities.contains(&Capability::EnhancedRefresh),
        extended_messages: config.extended_messages
            && open.capabilities.contains(&Capability::ExtendedMessage),
        promises_end_of_rib: open
            .capabilities
            .iter()
            .any(|c| matches!(c, Capability::GracefulRestart { .. })),
        families,
        add_path: add_path_of(open, config, families),
        is_restarting: has_restart_flag(open, Capability::RESTARTING),
        graceful_notifications: config.graceful_notifications
            && has_restart_flag(open, Capability::GRACEFUL_NOTIFICATION),
        long_lived: long_lived_of(open, &config.codes, families),
        restart: restart_of(open, &config.codes, families),
    })
}
