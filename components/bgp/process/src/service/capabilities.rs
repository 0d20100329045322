//! Capabilities and the results of their negotiation, in words.

use sluice_bgp::family::{Families, FamilyCodes, FamilyIndex};
use sluice_bgp::relationship::role_name;
use sluice_bgp::session::Negotiated;
use sluice_bgp::wire::Capability;

/// Returns a capability in words; `codes` are the numbers of the families on the wire.
pub(crate) fn capability(capability: &Capability, codes: &FamilyCodes) -> String {
    match capability {
        Capability::Multiprotocol { afi: 1, safi: 1 } => "ipv4-unicast".into(),
        Capability::Multiprotocol { afi: 2, safi: 1 } => "ipv6-unicast".into(),
        Capability::Multiprotocol { afi, safi } if codes.family(*afi, *safi) == Some(FamilyIndex::XID) => {
            "xid".into()
        }
        Capability::Multiprotocol { afi, safi } => format!("family {afi}/{safi}"),
        Capability::RouteRefresh => "route-refresh".into(),
        Capability::ExtendedMessage => "extended-message".into(),
        Capability::EnhancedRefresh => "enhanced-route-refresh".into(),
        Capability::RouteFilter(_) => "outbound-route-filtering".into(),
        Capability::FourOctetAs(asn) => format!("4-octet-as {asn}"),
        Capability::Role(role) => match role_name(*role) {
            Some(name) => format!("role {name}"),
            None => format!("role {role}"),
        },
        Capability::GracefulRestart { .. } => "graceful-restart".into(),
        Capability::LongLivedRestart(_) => "long-lived-graceful-restart".into(),
        Capability::AddPath(_) => "add-path".into(),
        Capability::Other { code, .. } => match capability_name(*code) {
            Some(name) => name.into(),
            None => format!("unknown capability {code}"),
        },
    }
}

/// Returns the name of a capability without use in the router (IANA, BGP Capability Codes).
fn capability_name(code: u8) -> Option<&'static str> {
    Some(match code {
        3 => "outbound-route-filtering",
        5 => "extended-next-hop-encoding",
        6 => "extended-message",
        7 => "bgpsec",
        8 => "multiple-labels",
        9 => "role",
        64 => "graceful-restart",
        65 => "4-octet-as",
        66 | 67 => "dynamic-capability",
        68 => "multisession",
        69 => "add-path",
        70 => "enhanced-route-refresh",
        71 => "long-lived-graceful-restart",
        73 => "fqdn",
        75 => "software-version",
        76 => "paths-limit",
        128 => "route-refresh (before RFC 2918)",
        130 => "outbound-route-filtering (before RFC 5291)",
        _ => return None,
    })
}

/// Returns the capabilities offered by both sides and used in a session, in words.
pub(crate) fn agreed(negotiated: &Negotiated) -> Vec<String> {
    let of = |what: &str, families: Families| {
        let names: Vec<String> = families.iter().map(|family| family.to_string()).collect();
        (!families.is_empty()).then(|| format!("{what} ({})", names.join(", ")))
    };
    let plain = |what: &str, is_agreed: bool| is_agreed.then(|| what.to_owned());
    let restart = negotiated.restart.as_ref();
    let parts = [
        plain("route refresh", negotiated.route_refresh),
        plain("enhanced route refresh", negotiated.enhanced_refresh),
        plain("extended messages", negotiated.extended_messages),
        of("several paths received", negotiated.add_path.receive),
        of("several paths sent", negotiated.add_path.send),
        restart.and_then(|restart| of(&format!("restart of {} s", restart.time), restart.families)),
        plain("restart after NOTIFICATIONs", negotiated.graceful_notifications),
        of("filters received", negotiated.filters_received),
        of("filters sent", negotiated.filters_sent),
    ];
    parts.into_iter().flatten().collect()
}
