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
    let mut found = Vec::new();
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
    let routes = (routes(schema, before), routes(schema, after));
    if let Some(way) = covering(&routes.0, client)
        && covering(&routes.1, client) != Some(way)
    {
        found.push(format!(
            "your address {client} is reached by the static route {}, which this changes",
            way.prefix
        ));
    }
    found
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
    let covers = |route: &&Route| {
        let (network, length) = route.network;
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
    };
    routes.iter().filter(covers).max_by_key(|route| route.network.1)
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    Some((address.parse().ok()?, length.parse().ok()?))
}
