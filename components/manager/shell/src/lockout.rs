//! Changes that could cut off the operator who makes them.

use sluice_config::{Schema, Tree};
use std::net::IpAddr;

/// What a change would take away that the operator's own connection needs; `connection` is SSH_CONNECTION as sshd sets it: the client's
/// address and port, this host's address and port. Nothing for one who is on the host itself.
pub fn warnings(schema: &Schema, before: &Tree, after: &Tree, connection: &str) -> Vec<String> {
    let mut words = connection.split_whitespace();
    let address = |word: Option<&str>| word.and_then(|w| w.split('%').next()?.parse::<IpAddr>().ok());
    let client = address(words.next());
    let (Some(client), Some(server)) = (client, address(words.nth(1))) else { return Vec::new() };
    let touched = schema.compare(before, after);
    let mut found = Vec::new();
    if touched.paths().any(|path| path[0] == "interfaces") {
        of_interfaces(schema, before, after, server, &mut found);
    }
    // What is said elsewhere, or of other destinations, leaves the way to the client as it is.
    let is_on_the_way = |path: Vec<&str>| {
        path.iter().zip(["protocols", "static", "route"]).all(|(a, b)| *a == b)
            && path.get(3).and_then(|key| prefix(key)).is_none_or(|network| covers(network, client))
    };
    if touched.paths().any(is_on_the_way) {
        of_routes(schema, before, after, client, &mut found);
    }
    found
}

fn of_interfaces(schema: &Schema, before: &Tree, after: &Tree, server: IpAddr, found: &mut Vec<String>) {
    let interfaces = (interfaces(schema, before), interfaces(schema, after));
    for interface in &interfaces.0 {
        let Some(own) = interface.addresses.iter().find(|(address, _)| *address == server) else { continue };
        let name = &interface.name;
        let stays = interfaces.1.iter().find(|other| other.name == *name);
        if !interfaces.1.iter().any(|other| other.addresses.iter().any(|(address, _)| *address == server)) {
            found.push(format!("you are connected to {}/{} of {name}, which this removes", own.0, own.1));
        } else if interface.enabled && stays.is_some_and(|stays| !stays.enabled) {
            found.push(format!("you are connected through {name}, which this takes down"));
        }
    }
}

fn of_routes(schema: &Schema, before: &Tree, after: &Tree, client: IpAddr, found: &mut Vec<String>) {
    let routes = (routes(schema, before), routes(schema, after));
    if let Some(way) = covering(&routes.0, client)
        && covering(&routes.1, client) != Some(way)
    {
        found.push(format!(
            "your address {client} is reached by the static route {}, which this changes",
            way.prefix
        ));
    }
}

struct Interface {
    name: String,
    enabled: bool,
    addresses: Vec<(IpAddr, u8)>,
}

fn interfaces(schema: &Schema, tree: &Tree) -> Vec<Interface> {
    let part = schema.json(tree, &["interfaces".into()], sluice_config::Secrets::Hidden).unwrap_or_default();
    let all = part["interface"].as_array().into_iter().flatten();
    all.map(|interface| Interface {
        name: interface["name"].as_str().unwrap_or_default().into(),
        enabled: interface["enabled"].as_bool().unwrap_or(true),
        addresses: interface["address"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|address| prefix(address.as_str()?))
            .collect(),
    })
    .collect()
}

#[derive(PartialEq)]
struct Route {
    prefix: String,
    network: (IpAddr, u8),
    /// All that is said of it.
    statement: serde_json::Value,
}

fn routes(schema: &Schema, tree: &Tree) -> Vec<Route> {
    let path = ["protocols".into(), "static".into()];
    let part = schema.json(tree, &path, sluice_config::Secrets::Hidden).unwrap_or_default();
    let all = part["route"].as_array().into_iter().flatten();
    all.filter_map(|route| {
        let text = route["prefix"].as_str()?;
        Some(Route { prefix: text.into(), network: prefix(text)?, statement: route.clone() })
    })
    .collect()
}

/// The longest one that covers an address.
fn covering(routes: &[Route], address: IpAddr) -> Option<&Route> {
    routes.iter().filter(|route| covers(route.network, address)).max_by_key(|route| route.network.1)
}

fn covers((network, length): (IpAddr, u8), address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(n), IpAddr::V4(a)) => {
            let host = 32 - u32::from(length.min(32));
            u64::from(n.to_bits()) >> host == u64::from(a.to_bits()) >> host
        }
        (IpAddr::V6(n), IpAddr::V6(a)) => {
            length == 0 || (n.to_bits() ^ a.to_bits()).leading_zeros() >= u32::from(length)
        }
        _ => false,
    }
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    Some((address.parse().ok()?, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_config::Module;

    const MODULES: [Module; 2] = [
        Module { name: "sluice-fea", text: include_str!("../../../fea/fea.yang") },
        Module { name: "sluice-static", text: include_str!("../../../static/static.yang") },
    ];
    const BEFORE: &str = "interfaces { interface eth0 { address 192.0.2.1/24; } }
        protocols { static { route 10.0.0.0/8 next-hop 192.0.2.9; route 172.16.0.0/12 discard; } }";

    #[track_caller]
    fn check(statement: &str, expected: &str) {
        let schema = Schema::of(&MODULES).unwrap();
        let before = schema.read("before", BEFORE).unwrap();
        let after = schema.edit(&before, statement).unwrap();
        let found = warnings(&schema, &before, &after, "10.1.2.3 50000 192.0.2.1 22");
        assert_eq!(found.join("; "), expected, "{statement}");
        assert!(warnings(&schema, &before, &after, "").is_empty());
    }

    #[test]
    fn what_the_connection_needs_is_known() {
        check("set interfaces interface eth0 mtu 1400", "");
        check("set interfaces interface eth1 address 192.0.2.2/24", "");
        check(
            "delete interfaces interface eth0 address",
            "you are connected to 192.0.2.1/24 of eth0, which this removes",
        );
        check("delete interfaces", "you are connected to 192.0.2.1/24 of eth0, which this removes");
        check(
            "set interfaces interface eth0 enabled false",
            "you are connected through eth0, which this takes down",
        );
        let way = |prefix: &str| {
            format!("your address 10.1.2.3 is reached by the static route {prefix}, which this changes")
        };
        check("delete protocols static route 172.16.0.0/12", "");
        check("set protocols static route 10.0.0.0/9 discard", &way("10.0.0.0/8"));
        check("set protocols static route 0.0.0.0/0 discard", "");
        check("set protocols static route 2001:db8::/32 discard", "");
        check("delete protocols static route 10.0.0.0/8", &way("10.0.0.0/8"));
        check("set protocols static route 10.0.0.0/8 next-hop 192.0.2.8", &way("10.0.0.0/8"));
        check("delete protocols static", &way("10.0.0.0/8"));
        check("delete protocols", &way("10.0.0.0/8"));
    }
}
