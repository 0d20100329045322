//! The configuration tree (static.yang) as routes.

use serde::Deserialize;
use sluice_base::{Distance, IpPrefix, Tag};
use sluice_static::{RouteKind, StaticNextHop, StaticRoute};
use std::net::IpAddr;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tree {
    route: Vec<Route>,
}

#[derive(Deserialize)]
struct Route {
    prefix: String,
    distance: Option<u8>,
    #[serde(default)]
    tag: u32,
    #[serde(default, rename = "next-hop")]
    next_hop: Vec<NextHop>,
    #[serde(default)]
    interface: Vec<String>,
    discard: Option<serde_json::Value>,
    reject: Option<serde_json::Value>,
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

/// The routes of a configuration tree.
pub fn routes(config: serde_json::Value) -> Result<Vec<StaticRoute>, String> {
    let tree: Tree = serde_json::from_value(config).map_err(|e| e.to_string())?;
    tree.route.into_iter().map(route).collect()
}

fn route(r: Route) -> Result<StaticRoute, String> {
    let prefix: IpPrefix = canonical(&r.prefix)?;
    let kind = match (r.discard, r.reject) {
        (Some(_), _) => RouteKind::Discard,
        (_, Some(_)) => RouteKind::Reject,
        _ => {
            let gateways = r.next_hop.into_iter().map(|hop| {
                let gateway = hop.gateway.parse::<IpAddr>().map_err(|_| {
                    format!(
                        "route {prefix}: `{}` is not an address; a zone is named as interface",
                        hop.gateway
                    )
                })?;
                Ok(StaticNextHop { gateway: Some(gateway), interface: hop.interface, weight: hop.weight })
            });
            let links = r
                .interface
                .into_iter()
                .map(|name| Ok(StaticNextHop { gateway: None, interface: Some(name), weight: 1 }));
            RouteKind::NextHops(gateways.chain(links).collect::<Result<_, String>>()?)
        }
    };
    Ok(StaticRoute { prefix, kind, distance: r.distance.map(Distance), tag: Tag(r.tag) })
}

/// A prefix, its host bits cleared: libyang has accepted the text.
fn canonical(text: &str) -> Result<IpPrefix, String> {
    let wrong = || format!("`{text}` is not a prefix");
    let (addr, len) = text.split_once('/').ok_or_else(wrong)?;
    IpPrefix::new(addr.parse().map_err(|_| wrong())?, len.parse().map_err(|_| wrong())?).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind() {
        let tree = serde_json::json!({"route": [
            {"prefix": "10.1.2.3/8", "next-hop": [{"gateway": "192.0.2.1", "weight": 3}], "distance": 200},
            {"prefix": "2001:db8::/32", "interface": ["eth0"], "tag": 7},
            {"prefix": "192.0.2.0/24", "discard": [null]},
        ]});
        let routes = routes(tree).expect("valid");
        assert_eq!(routes[0].prefix.to_string(), "10.0.0.0/8");
        assert_eq!((routes[0].distance, routes[1].tag), (Some(Distance(200)), Tag(7)));
        assert_eq!(routes[2].kind, RouteKind::Discard);
    }
}
