//! Changes that could cut off the operator who commits.

use crate::commit::operator_path::{self, Way};
use sluice_base::IpPrefix;
use sluice_config::{NodeKind, Role, Schema, Tree, with_role};
use sluice_xrl::idl::common::v1::{Effect, EffectKind};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The operator's own connection: the two ends, and the kernel's way between them.
#[derive(Clone, PartialEq, Debug)]
pub struct Connection {
    client: IpAddr,
    server: IpAddr,
    /// The interface of the host that has the server's address.
    interface: Option<String>,
    /// The way to the client.
    way: Option<Way>,
}

impl Connection {
    /// Reads SSH_CONNECTION from sshd: the client's address and port, this host's address and port. `None` for an
    /// operator on the host itself.
    pub fn of(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let address = |word: Option<&str>| word.and_then(|w| w.split('%').next()?.parse::<IpAddr>().ok());
        let client = address(words.next())?.to_canonical();
        let server = address(words.nth(1))?.to_canonical();
        Some(Connection { client, server, interface: None, way: None })
    }

    /// Looks in the kernel for the way of the connection.
    pub fn looked_up(self) -> Self {
        Connection {
            interface: operator_path::interface_of(self.server),
            way: operator_path::to(self.client),
            ..self
        }
    }

    /// Returns true if a protocol brought the route to the client: it may go with a session.
    pub(crate) fn is_by_protocol(&self, schema: &Schema, running: &Tree) -> bool {
        let is_configured =
            |way: &Way| routes(schema, running).iter().any(|route| route.network == way.prefix);
        self.way.as_ref().is_some_and(|way| way.is_ours && !is_configured(way))
    }
}

/// Returns a warning for each part of the configuration that the operator's own connection needs and a change removes.
pub fn warnings(schema: &Schema, before: &Tree, after: &Tree, connection: &Connection) -> Vec<String> {
    let client = connection.client;
    let touched = schema.compare(before, after);
    let mut found = Vec::new();
    if touched.paths().any(|path| path[0] == "interfaces") {
        of_interfaces(schema, before, after, connection, &mut found);
    }
    // What is said elsewhere, or of other destinations, leaves the way to the client as it is.
    let lists = with_role(schema.nodes(), Role::Route);
    let is_on_the_way = |path: Vec<&str>| {
        lists.iter().any(|list| {
            path.iter().zip(&list.path).all(|(a, b)| a == b)
                && path
                    .get(list.path.len())
                    .and_then(|key| key.parse().ok())
                    .is_none_or(|network| covers(network, client))
        })
    };
    if touched.paths().any(is_on_the_way) {
        of_routes(schema, before, after, connection, &mut found);
    }
    found
}

/// Returns the warning about a connection over a route of a routing protocol: the effects of a change end the session
/// behind the route.
pub(crate) fn of_effects(
    schema: &Schema,
    before: &Tree,
    effects: &BTreeMap<String, Vec<Effect>>,
    connection: &Connection,
) -> Vec<String> {
    let Some(way) = connection.way.as_ref().filter(|_| connection.is_by_protocol(schema, before)) else {
        return Vec::new();
    };
    let gateway = way.gateway.map(|gateway| gateway.to_string());
    let neighbors = neighbors(schema, before);
    // A next hop that is no neighbor was announced by one of them; which one is not known here.
    let by_gateway = gateway.as_ref().filter(|gateway| neighbors.contains(gateway));
    let is_meant = |subject: &String| by_gateway.is_none_or(|gateway| gateway == subject);
    // Components whose routes are in the configuration: their statements are compared one by one.
    let configured = with_role(schema.nodes(), Role::Route);
    let is_protocol = |class: &str| {
        !matches!(class, "fea" | "rib") && !configured.iter().any(|list| list.component == Some(class))
    };
    let mut found = Vec::new();
    for (class, effect) in effects.iter().flat_map(|(class, all)| all.iter().map(move |e| (class, e))) {
        let ends = match effect.kind() {
            EffectKind::SessionReset => effect.subjects.iter().any(is_meant),
            EffectKind::Stopped => effect.subjects.iter().any(|s| s == class || is_meant(s)),
            EffectKind::ProcessRestart => true,
            _ => false,
        };
        if ends && is_protocol(class) {
            found.push(format!(
                "your address {} is reached by the route {} of {class}, whose session ({}) this interrupts",
                connection.client,
                way.prefix,
                effect.subjects.join(", ")
            ));
        }
    }
    found
}

/// The entries of the lists with a role: the component, the key, and the whole statement.
fn entries(schema: &Schema, tree: &Tree, role: Role) -> Vec<(String, String, serde_json::Value)> {
    let mut found = Vec::new();
    for list in with_role(schema.nodes(), role) {
        let (Some((name, above)), NodeKind::List { keys }) = (list.path.split_last(), &list.node.kind) else {
            continue;
        };
        let above: Vec<String> = above.iter().map(ToString::to_string).collect();
        let part = schema.json(tree, &above, sluice_config::Secrets::Hidden).unwrap_or_default();
        let component = list.component.unwrap_or_default();
        for entry in part[name].as_array().into_iter().flatten() {
            let key = keys.first().and_then(|key| entry[key].as_str()).unwrap_or_default();
            found.push((component.into(), key.into(), entry.clone()));
        }
    }
    found
}

fn neighbors(schema: &Schema, tree: &Tree) -> Vec<String> {
    entries(schema, tree, Role::Session).into_iter().map(|(_, key, _)| key).collect()
}

fn of_interfaces(
    schema: &Schema,
    before: &Tree,
    after: &Tree,
    connection: &Connection,
    found: &mut Vec<String>,
) {
    let server = connection.server;
    let interfaces = (interfaces(schema, before), interfaces(schema, after));
    let has = |interface: &Interface| interface.addresses.iter().any(|(address, _)| *address == server);
    for interface in interfaces.0.iter().filter(|interface| has(interface)) {
        let own = interface.addresses.iter().find(|(address, _)| *address == server);
        if let Some((address, length)) = own
            && !interfaces.1.iter().any(has)
        {
            found.push(format!(
                "you are connected to {address}/{length} of {}, which this removes",
                interface.name
            ));
        }
    }
    // Those that the kernel uses, and the one that the configuration gives the address to.
    let of_way = connection.way.as_ref().map(|way| &way.interface);
    let configured = interfaces.0.iter().filter(|interface| has(interface)).map(|interface| &interface.name);
    let mut needed: Vec<&String> = configured.chain(&connection.interface).chain(of_way).collect();
    needed.sort();
    needed.dedup();
    for name in needed {
        let is_down = |all: &[Interface]| all.iter().any(|other| other.name == *name && !other.enabled);
        if is_down(&interfaces.1) && !is_down(&interfaces.0) {
            found.push(format!("you are connected through {name}, which this takes down"));
        }
    }
}

fn of_routes(schema: &Schema, before: &Tree, after: &Tree, connection: &Connection, found: &mut Vec<String>) {
    let client = connection.client;
    let routes = (routes(schema, before), routes(schema, after));
    let (was, is) = (covering(&routes.0, client), covering(&routes.1, client));
    if let Some(way) = was
        && is != Some(way)
    {
        found.push(format!(
            "your address {client} is reached by the {} route {}, which this changes",
            way.component, way.prefix
        ));
    } else if let (Some(new), Some(way)) = (is, &connection.way)
        && was != is
        && new.network.len() >= way.prefix.len()
    {
        let replaced = way.prefix;
        found.push(format!(
            "your address {client} is reached by the route {replaced}, in whose place this puts the {} route {}",
            new.component, new.prefix
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
            .filter_map(|address| {
                let (address, length) = address.as_str()?.split_once('/')?;
                Some((address.parse().ok()?, length.parse().ok()?))
            })
            .collect(),
    })
    .collect()
}

/// A route that the configuration states.
#[derive(PartialEq)]
struct Route {
    component: String,
    prefix: String,
    network: IpPrefix,
    /// The whole statement.
    statement: serde_json::Value,
}

fn routes(schema: &Schema, tree: &Tree) -> Vec<Route> {
    let all = entries(schema, tree, Role::Route).into_iter();
    all.filter_map(|(component, text, statement)| {
        let network = text.parse().ok()?;
        Some(Route { component, prefix: text, network, statement })
    })
    .collect()
}

/// Returns the longest route covering an address.
fn covering(routes: &[Route], address: IpAddr) -> Option<&Route> {
    routes.iter().filter(|route| covers(route.network, address)).max_by_key(|route| route.network.len())
}

fn covers(network: IpPrefix, address: IpAddr) -> bool {
    let length = if address.is_ipv4() { 32 } else { 128 };
    IpPrefix::new(address, length).is_some_and(|host| network.covers(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_config::Module;

    const MODULES: [Module; 2] = [
        Module { name: "sluice-fea", text: include_str!("../../../../fea/fea.yang") },
        Module { name: "sluice-static", text: include_str!("../../../../static/static.yang") },
    ];
    const BEFORE: &str = "interfaces { interface eth0 { address 192.0.2.1/24; } }
        protocols { static { route 10.0.0.0/8 next-hop 192.0.2.9; route 172.16.0.0/12 discard; } }";

    #[track_caller]
    fn check(statement: &str, expected: &str) {
        let schema = Schema::of(&MODULES).unwrap();
        let before = schema.read("before", BEFORE).unwrap();
        let after = schema.edit(&before, statement).unwrap();
        let connection = Connection::of("10.1.2.3 50000 192.0.2.1 22").unwrap();
        let found = warnings(&schema, &before, &after, &connection);
        assert_eq!(found.join("; "), expected, "{statement}");
        assert!(Connection::of("").is_none() && Connection::of("10.1.2.3 50000").is_none());
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

    /// Addresses and routes from the kernel count too: the host assigned the address, and the client's route is not in
    /// the configuration.
    #[test]
    fn the_route_of_the_kernel_is_known() {
        let schema = Schema::of(&MODULES).unwrap();
        let before =
            schema.read("before", "interfaces { interface eth1 mtu 1400; } protocols { static; }").unwrap();
        let way = Way {
            interface: "eth1".into(),
            gateway: Some("192.0.2.9".parse().unwrap()),
            prefix: "10.0.0.0/8".parse().unwrap(),
            is_ours: false,
        };
        let connection = Connection {
            interface: Some("eth0".into()),
            way: Some(way.clone()),
            ..Connection::of("10.1.2.3 50000 192.0.2.1 22").unwrap()
        };
        let check = |statement: &str, expected: &str| {
            let after = schema.edit(&before, statement).unwrap();
            assert_eq!(warnings(&schema, &before, &after, &connection).join("; "), expected, "{statement}");
        };
        check(
            "set interfaces interface eth0 enabled false",
            "you are connected through eth0, which this takes down",
        );
        check(
            "set interfaces interface eth1 enabled false",
            "you are connected through eth1, which this takes down",
        );
        check("set interfaces interface eth2 enabled false", "");
        check("set interfaces interface eth0 enabled true", "");
        check("set protocols static route 0.0.0.0/0 discard", "");
        let warning = "your address 10.1.2.3 is reached by the route 10.0.0.0/8, in whose place this puts the static route 10.1.0.0/16";
        check("set protocols static route 10.1.0.0/16 discard", warning);
        check("set protocols static route 10.2.0.0/16 discard", "");

        // A route of BGP goes with the session that carries it.
        let reset = |subject: &str| {
            let effect = Effect { kind: EffectKind::SessionReset.into(), subjects: vec![subject.into()] };
            BTreeMap::from([("bgp".to_string(), vec![effect])])
        };
        let by_bgp = Connection { way: Some(Way { is_ours: true, ..way }), ..connection.clone() };
        assert!(of_effects(&schema, &before, &reset("192.0.2.9"), &connection).is_empty());
        let said = of_effects(&schema, &before, &reset("192.0.2.9"), &by_bgp);
        assert!(said.len() == 1 && said[0].contains("10.0.0.0/8 of bgp"), "{said:?}");
        assert!(of_effects(&schema, &before, &BTreeMap::new(), &by_bgp).is_empty());
    }
}
