//! The configuration tree (static.yang) as routes.

use serde::Deserialize;
use sluice_base::prefix::PrefixError;
use sluice_base::{Address, AnyPrefix, Distance, IpPrefix, Metric, Tag, Xid, XidError, XidPrefix};
use sluice_process::part::{Change, Edit};
use sluice_static::{Input, NextHopError, RouteKind, StaticNextHop, StaticRoute};
use std::net::IpAddr;
use thiserror::Error;

#[derive(Deserialize)]
struct Route {
    prefix: String,
    #[serde(flatten)]
    properties: Properties,
    #[serde(default, rename = "next-hop")]
    next_hop: Vec<NextHop>,
    #[serde(default)]
    interface: Vec<String>,
    discard: Option<serde_json::Value>,
    reject: Option<serde_json::Value>,
}

/// The properties of routes of every family.
#[derive(Deserialize)]
struct Properties {
    distance: Option<u8>,
    #[serde(default)]
    metric: u32,
    #[serde(default)]
    tag: u32,
}

#[derive(Deserialize)]
struct XidRoute {
    xid: String,
    #[serde(flatten)]
    properties: Properties,
    #[serde(default)]
    gateway: Vec<XidGateway>,
    interface: Option<String>,
    #[serde(rename = "link-layer-address")]
    link_layer_address: Option<String>,
    local: Option<serde_json::Value>,
    discard: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct XidGateway {
    xid: String,
    #[serde(default = "one")]
    weight: u8,
}

#[derive(Deserialize)]
struct NextHop {
    gateway: String,
    interface: Option<String>,
    #[serde(default = "one")]
    weight: u8,
}

fn one() -> u8 {
    1
}

/// The reason why a change of the configuration is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// An entry is not as `static.yang` has it.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// The removal of a route names no prefix.
    #[error("a route without its prefix")]
    NoPrefix,
    /// A text is no prefix.
    #[error("`{text}` is not a prefix: {error}")]
    Prefix {
        /// The text.
        text: String,
        /// The error in it.
        error: PrefixError,
    },
    /// A text is no address of a gateway.
    #[error("route {prefix}: `{text}` is not an address; a zone is named as interface")]
    Gateway {
        /// The route.
        prefix: AnyPrefix,
        /// The text.
        text: String,
    },
    /// A route has a next hop that can never be used.
    #[error(transparent)]
    NextHop(#[from] NextHopError),
    /// A text is no XID, and no prefix of XIDs.
    #[error(
        "`{text}` is no XID: expected TYPE-ID, as ad- and 40 hexadecimal digits, or a prefix of XIDs, TYPE-ID/BITS: {error}"
    )]
    Xid {
        /// The text.
        text: String,
        /// The error in it.
        error: PrefixError,
    },
    /// A text is no XID to which packets can be redirected.
    #[error("xid-route {prefix}: `{text}` is no XID: {error}")]
    XidGateway {
        /// The route.
        prefix: AnyPrefix,
        /// The text.
        text: String,
        /// The error in it.
        error: XidError,
    },
    /// A text is no link-layer address.
    #[error(
        "xid-route {prefix}: `{text}` is no link-layer address: expected six octets, as 02:00:00:00:00:01"
    )]
    LinkAddress {
        /// The route.
        prefix: AnyPrefix,
        /// The text.
        text: String,
    },
}

/// Checks a configuration tree where no process of static routes runs. Returns the reason of a refusal, which begins with the path of
/// the statement, if there is one.
pub fn check(tree: serde_json::Value) -> Option<String> {
    let entries =
        |name: &str| tree.get(name).and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let routes = entries("route").into_iter().map(|value| route(Route::deserialize(value)?));
    let xid_routes = entries("xid-route").into_iter().map(|value| xid_route(XidRoute::deserialize(value)?));
    let fault = routes.chain(xid_routes).find_map(Result::err);
    fault.map(|error| error.to_string())
}

/// Converts a change of the configuration tree for the core.
pub fn input(change: &Change) -> Result<Input, ConfigError> {
    let changes = change.edits.iter().filter_map(|edit| match edit.name.as_str() {
        "route" => Some(of_edit(edit, canonical, |value| route(Route::deserialize(value)?))),
        "xid-route" => Some(of_edit(edit, xids, |value| xid_route(XidRoute::deserialize(value)?))),
        _ => None,
    });
    let changes = changes.collect::<Result<Vec<_>, ConfigError>>()?;
    Ok(match change.clear {
        true => Input::Configure(changes.into_iter().filter_map(|(_, route)| route).collect()),
        false => Input::Change(changes),
    })
}

fn of_edit(
    edit: &Edit,
    key: impl Fn(&str) -> Result<AnyPrefix, ConfigError>,
    read: impl Fn(&serde_json::Value) -> Result<StaticRoute, ConfigError>,
) -> Result<(AnyPrefix, Option<StaticRoute>), ConfigError> {
    match &edit.value {
        Some(value) => {
            let route = read(value)?;
            Ok((route.prefix, Some(route)))
        }
        None => {
            let text = edit.key.as_deref().and_then(<[String]>::first);
            Ok((key(text.ok_or(ConfigError::NoPrefix)?)?, None))
        }
    }
}

/// Returns a route with the properties that routes of every family have, unless it can never be used.
fn common(prefix: AnyPrefix, kind: RouteKind, properties: &Properties) -> Result<StaticRoute, ConfigError> {
    let route = StaticRoute {
        prefix,
        kind,
        distance: properties.distance.map(Distance),
        metric: Metric(properties.metric),
        tags: Some(properties.tag).filter(|tag| *tag != 0).map(Tag).into_iter().collect(),
    };
    route.check()?;
    Ok(route)
}

fn route(r: Route) -> Result<StaticRoute, ConfigError> {
    let prefix = canonical(&r.prefix)?;
    let kind = match (r.discard, r.reject) {
        (Some(_), _) => RouteKind::Discard,
        (_, Some(_)) => RouteKind::Reject,
        _ => {
            let gateways = r.next_hop.into_iter().map(|hop| {
                let Ok(gateway) = hop.gateway.parse::<IpAddr>() else {
                    return Err(ConfigError::Gateway { prefix, text: hop.gateway });
                };
                let gateway = Some(Address::Ip(gateway));
                Ok(StaticNextHop { gateway, interface: hop.interface, weight: hop.weight })
            });
            let links = r
                .interface
                .into_iter()
                .map(|name| Ok(StaticNextHop { gateway: None, interface: Some(name), weight: 1 }));
            RouteKind::NextHops(gateways.chain(links).collect::<Result<_, ConfigError>>()?)
        }
    };
    common(prefix, kind, &r.properties)
}

fn xid_route(r: XidRoute) -> Result<StaticRoute, ConfigError> {
    let prefix = xids(&r.xid)?;
    let kind = match (r.discard, r.local, r.link_layer_address) {
        (Some(_), ..) => RouteKind::Discard,
        (_, Some(_), _) => RouteKind::Local,
        (.., Some(text)) => {
            let Some(address) = link_address(&text) else {
                return Err(ConfigError::LinkAddress { prefix, text });
            };
            let gateway = Some(Xid::of_link_address(address).into());
            RouteKind::NextHops(vec![StaticNextHop { gateway, interface: r.interface, weight: 1 }])
        }
        _ => {
            let hops = r.gateway.into_iter().map(|hop| match hop.xid.parse::<Xid>() {
                Ok(xid) => {
                    Ok(StaticNextHop { gateway: Some(xid.into()), interface: None, weight: hop.weight })
                }
                Err(error) => Err(ConfigError::XidGateway { prefix, text: hop.xid, error }),
            });
            RouteKind::NextHops(hops.collect::<Result<_, ConfigError>>()?)
        }
    };
    common(prefix, kind, &r.properties)
}

/// Reads six octets in hexadecimal, with colons between them.
fn link_address(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split(':').map(|part| u8::from_str_radix(part, 16).ok());
    let mut address = [0; 6];
    for octet in &mut address {
        *octet = parts.next()??;
    }
    parts.next().is_none().then_some(address)
}

/// A prefix with cleared host bits: libyang has accepted the text.
fn canonical(text: &str) -> Result<AnyPrefix, ConfigError> {
    let prefix = IpPrefix::parse_subnet(text);
    prefix.map(AnyPrefix::from).map_err(|error| ConfigError::Prefix { text: text.into(), error })
}

/// An XID, or a prefix of XIDs.
fn xids(text: &str) -> Result<AnyPrefix, ConfigError> {
    let prefix = text.parse::<XidPrefix>();
    prefix.map(AnyPrefix::of).map_err(|error| ConfigError::Xid { text: text.into(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind() {
        let entry = |key: &str, value: serde_json::Value| Edit {
            subtree: None,
            name: "route".into(),
            key: Some(vec![key.into()]),
            value: Some(value),
        };
        let edits = vec![
            entry(
                "10.1.2.3/8",
                serde_json::json!({"prefix": "10.1.2.3/8", "next-hop": [{"gateway": "192.0.2.1", "weight": 3}], "distance": 200}),
            ),
            entry(
                "2001:db8::/32",
                serde_json::json!({"prefix": "2001:db8::/32", "interface": ["eth0"], "tag": 7, "metric": 20}),
            ),
            entry("192.0.2.0/24", serde_json::json!({"prefix": "192.0.2.0/24", "discard": [null]})),
        ];
        let Ok(Input::Configure(routes)) = input(&Change { clear: true, edits: edits.clone() }) else {
            panic!("valid")
        };
        assert_eq!(routes[0].prefix.to_string(), "10.0.0.0/8");
        assert_eq!((routes[0].distance, routes[1].tags.as_slice()), (Some(Distance(200)), &[Tag(7)][..]));
        assert_eq!((routes[0].metric, routes[1].metric), (Metric(0), Metric(20)));
        assert_eq!(routes[2].kind, RouteKind::Discard);
        let mut edits = vec![edits[2].clone()];
        edits.push(Edit {
            subtree: None,
            name: "route".into(),
            key: Some(vec!["10.0.0.0/8".into()]),
            value: None,
        });
        let gone = canonical("10.0.0.0/8").expect("a prefix");
        let expected = vec![(routes[2].prefix, Some(routes[2].clone())), (gone, None)];
        assert_eq!(input(&Change { clear: false, edits }).ok(), Some(Input::Change(expected)));
    }

    #[test]
    fn a_route_that_leads_to_its_own_gateway_is_refused() {
        let check = |prefix: &str, hop: serde_json::Value| {
            check(serde_json::json!({"route": [{"prefix": prefix, "next-hop": [hop]}]}))
        };
        let own = check("10.0.0.1/32", serde_json::json!({"gateway": "10.0.0.1"})).unwrap_or_default();
        assert!(own.starts_with("route 10.0.0.1/32 next-hop 10.0.0.1: expected"), "{own}");
        assert_eq!(
            check("10.0.0.1/32", serde_json::json!({"gateway": "10.0.0.1", "interface": "eth0"})),
            None
        );
        assert!(check("2001:db8::/32", serde_json::json!({"gateway": "fe80::1"})).is_some());
        assert_eq!(check("10.0.0.0/8", serde_json::json!({"gateway": "10.0.0.1"})), None);
    }

    const AD: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
    const HID: &str = "hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2";

    fn read(value: serde_json::Value) -> Result<StaticRoute, ConfigError> {
        xid_route(XidRoute::deserialize(&value)?)
    }

    #[test]
    fn reads_every_kind_of_xid_route() {
        let redirect =
            read(serde_json::json!({"xid": AD, "gateway": [{"xid": HID, "weight": 3}], "metric": 7}))
                .unwrap();
        let hop = |gateway: &str, interface: Option<&str>, weight| StaticNextHop {
            gateway: Some(gateway.parse::<Xid>().unwrap().into()),
            interface: interface.map(String::from),
            weight,
        };
        assert_eq!(redirect.kind, RouteKind::NextHops(vec![hop(HID, None, 3)]));
        assert_eq!((redirect.prefix.to_string().as_str(), redirect.metric), (AD, Metric(7)));
        let link =
            serde_json::json!({"xid": HID, "interface": "eth0", "link-layer-address": "02:00:00:00:00:0a"});
        let ether = "ether-02000000000a0000000000000000000000000000";
        assert_eq!(read(link).unwrap().kind, RouteKind::NextHops(vec![hop(ether, Some("eth0"), 1)]));
        let prefix = "lpm-0a00000000000000000000000000000000000000/8";
        let local = read(serde_json::json!({"xid": prefix, "local": [null]})).unwrap();
        assert_eq!((local.prefix.to_string().as_str(), local.kind), (prefix, RouteKind::Local));
        assert_eq!(read(serde_json::json!({"xid": AD, "discard": [null]})).unwrap().kind, RouteKind::Discard);
    }

    #[test]
    fn wrong_texts_of_xids_are_refused_with_what_was_expected() {
        for (value, expected) in [
            (
                serde_json::json!({"xid": "lpm-0a01000000000000000000000000000000000000/8"}),
                "bits after the prefix length",
            ),
            (serde_json::json!({"xid": "nothing"}), "expected TYPE-ID"),
            (serde_json::json!({"xid": AD, "gateway": [{"xid": "ad-1"}]}), "expected 40 hexadecimal digits"),
            (
                serde_json::json!({"xid": AD, "interface": "a", "link-layer-address": "02:00"}),
                "expected six octets",
            ),
        ] {
            let error = read(value).expect_err("a wrong text").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
