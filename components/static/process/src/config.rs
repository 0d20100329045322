//! The configuration tree (static.yang) as routes.

use serde::Deserialize;
use sluice_base::prefix::PrefixError;
use sluice_base::{Distance, IpPrefix, Metric, Tag};
use sluice_process::part::{Change, Edit};
use sluice_static::{Input, RouteKind, StaticNextHop, StaticRoute};
use std::net::IpAddr;
use thiserror::Error;

#[derive(Deserialize)]
struct Route {
    prefix: String,
    distance: Option<u8>,
    #[serde(default)]
    metric: u32,
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
        prefix: IpPrefix,
        /// The text.
        text: String,
    },
}

/// Converts a change of the configuration tree for the core.
pub fn input(change: &Change) -> Result<Input, ConfigError> {
    let routes = change.edits.iter().filter(|edit| edit.name == "route");
    let changes = routes.map(of_edit).collect::<Result<Vec<_>, ConfigError>>()?;
    Ok(match change.clear {
        true => Input::Configure(changes.into_iter().filter_map(|(_, route)| route).collect()),
        false => Input::Change(changes),
    })
}

fn of_edit(edit: &Edit) -> Result<(IpPrefix, Option<StaticRoute>), ConfigError> {
    match &edit.value {
        Some(value) => {
            let route = route(Route::deserialize(value)?)?;
            Ok((route.prefix, Some(route)))
        }
        None => {
            let key = edit.key.as_deref().and_then(<[String]>::first);
            Ok((canonical(key.ok_or(ConfigError::NoPrefix)?)?, None))
        }
    }
}

fn route(r: Route) -> Result<StaticRoute, ConfigError> {
    let prefix: IpPrefix = canonical(&r.prefix)?;
    let kind = match (r.discard, r.reject) {
        (Some(_), _) => RouteKind::Discard,
        (_, Some(_)) => RouteKind::Reject,
        _ => {
            let gateways = r.next_hop.into_iter().map(|hop| {
                let Ok(gateway) = hop.gateway.parse::<IpAddr>() else {
                    return Err(ConfigError::Gateway { prefix, text: hop.gateway });
                };
                Ok(StaticNextHop { gateway: Some(gateway), interface: hop.interface, weight: hop.weight })
            });
            let links = r
                .interface
                .into_iter()
                .map(|name| Ok(StaticNextHop { gateway: None, interface: Some(name), weight: 1 }));
            RouteKind::NextHops(gateways.chain(links).collect::<Result<_, ConfigError>>()?)
        }
    };
    Ok(StaticRoute {
        prefix,
        kind,
        distance: r.distance.map(Distance),
        metric: Metric(r.metric),
        tags: Some(r.tag).filter(|tag| *tag != 0).map(Tag).into_iter().collect(),
    })
}

/// A prefix with cleared host bits: libyang has accepted the text.
fn canonical(text: &str) -> Result<IpPrefix, ConfigError> {
    IpPrefix::parse_subnet(text).map_err(|error| ConfigError::Prefix { text: text.into(), error })
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
        let gone = "10.0.0.0/8".parse().expect("a prefix");
        let expected = vec![(routes[2].prefix, Some(routes[2].clone())), (gone, None)];
        assert_eq!(input(&Change { clear: false, edits }).ok(), Some(Input::Change(expected)));
    }
}
