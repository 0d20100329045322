//! The configuration tree (cluster.yang) as the core takes it.

use serde::Deserialize;
use serde_json::Value;
use sluice_base::InterfaceAddress;
use sluice_cluster::inventory::{Element, ElementId, Inventory, InventoryError, OuterPort, PortNumber, Role};
use sluice_cluster::key::{ClusterKey, KEY_LEN, KeyRing};
use sluice_cluster::mac::Mac;
use sluice_cluster::policy::{ClassPolicy, Mode, Policy, PolicyError};
use sluice_cluster::server::CLIENT_PORT;
use sluice_cluster::settings::{Settings, StoreSettings};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The reason why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The tree is not as `cluster.yang` has it.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// This machine is no member.
    #[error("this machine is element {0}, which is no member; set cluster member {0} role")]
    NoMember(u16),
    /// A port is at a machine that is no balancer; the text names the balancers.
    #[error("port {0}: element {1} is no balancer ({2}); set cluster member {1} role balancer")]
    NoBalancer(u16, u16, String),
    /// A balancer has a second role.
    #[error(
        "member {0}: a balancer has no other role, because frames do not come back to the machine that sends them"
    )]
    BalancerOnly(u16),
    /// An element contradicts another.
    #[error("member {0}: {1}")]
    Inventory(u16, InventoryError),
    /// A text is no MAC address, key or address with a prefix length.
    #[error("`{0}` is no {1}")]
    Text(String, &'static str),
    /// A number has no meaning.
    #[error("{0} is no {1}")]
    Number(u16, &'static str),
    /// A member of the store is no member of the cluster.
    #[error("store member {0}: element {0} is no member; set cluster member {0} role")]
    NoStoreMember(u16),
    /// Others cannot reach a member of the store.
    #[error("store member {0}: the element has no address; set cluster member {0} address")]
    NoAddress(u16),
    /// The store has too many members, or an even number.
    #[error("the store has {0} members: name 1, 3 or 5 elements, so that more than half of them are enough")]
    StoreMembers(usize),
    /// The store runs here and elsewhere.
    #[error(
        "the store has members and endpoints: name the elements that run it, or an etcd that runs elsewhere"
    )]
    TwoStores,
    /// No store, or one that anybody may read: the configuration has secrets.
    #[error(
        "shared-configuration: elements share the configuration by a store with members, or with tls, because the configuration has secrets"
    )]
    SharedWithoutStore,
    /// A DSCP is named twice.
    #[error("cluster class: the DSCP {0} is of the classes {1} and {2}; delete it from one of them")]
    TwoClasses(u8, u8, u8),
    /// A class leads to elements that do not exist.
    #[error(
        "cluster class {0}: no member has the role filter, and the class's packets would be dropped; set cluster member NUMBER role filter"
    )]
    NoFilter(u8),
    /// The address of a server of the store changes, on elements that share one configuration.
    #[error(
        "member {0} address: the element runs a server of the store, which all elements reach at this address; take the element out of store \
         member on all elements first"
    )]
    MovedServer(u16),
    /// The classes do not fit.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Tree {
    element: u16,
    interconnect: Vec<String>,
    key: String,
    other_key: Option<String>,
    #[serde(default)]
    mode: TreeMode,
    #[serde(default)]
    class: Vec<Class>,
    #[serde(default = "default_silence")]
    silence: u16,
    #[serde(default)]
    address: BTreeSet<IpAddr>,
    #[serde(default)]
    member: Vec<Member>,
    #[serde(default)]
    port: Vec<Port>,
    #[serde(default)]
    shared_configuration: bool,
    store: Option<Store>,
}

/// The origins whose routes are distributed, unless the configuration names others.
const ORIGINS: [&str; 2] = ["bgp", "static"];

#[derive(Deserialize)]
struct Store {
    #[serde(default)]
    endpoint: Vec<StoreEndpoint>,
    #[serde(default)]
    member: BTreeSet<u16>,
    #[serde(default = "one_generation")]
    generation: u32,
    #[serde(default)]
    tls: bool,
    name: Option<String>,
    #[serde(default)]
    origin: BTreeSet<String>,
}

#[derive(Deserialize)]
struct StoreEndpoint {
    address: IpAddr,
    port: Option<u16>,
}

/// The sizes of a store that runs on elements.
const STORE_SIZES: [usize; 3] = [1, 3, 5];

const fn one_generation() -> u32 {
    1
}

const fn default_silence() -> u16 {
    sluice_cluster::policy::SILENCE.as_millis() as u16
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum TreeMode {
    #[default]
    Flow,
    Weighted,
    RoundRobin,
}

impl From<TreeMode> for Mode {
    fn from(mode: TreeMode) -> Self {
        match mode {
            TreeMode::Flow => Mode::Flow,
            TreeMode::Weighted => Mode::Weighted,
            TreeMode::RoundRobin => Mode::RoundRobin,
        }
    }
}

#[derive(Deserialize)]
struct Class {
    number: u8,
    dscp: BTreeSet<u8>,
    #[serde(default = "router")]
    role: TreeRole,
    #[serde(default)]
    mode: TreeMode,
}

const fn router() -> TreeRole {
    TreeRole::Router
}

#[derive(Deserialize)]
struct Member {
    number: u16,
    name: Option<String>,
    address: Option<IpAddr>,
    role: Vec<TreeRole>,
    #[serde(default = "one")]
    weight: u16,
    #[serde(default)]
    drained: bool,
}

const fn one() -> u16 {
    1
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum TreeRole {
    Balancer,
    Router,
    Control,
    Spare,
    Filter,
}

impl From<TreeRole> for Role {
    fn from(role: TreeRole) -> Self {
        match role {
            TreeRole::Balancer => Role::Balancer,
            TreeRole::Router => Role::Router,
            TreeRole::Control => Role::Control,
            TreeRole::Spare => Role::Spare,
            TreeRole::Filter => Role::Filter,
        }
    }
}

#[derive(Deserialize)]
struct Port {
    number: u16,
    balancer: u16,
    interface: String,
    mac: String,
    #[serde(default)]
    address: Vec<String>,
    mtu: Option<u16>,
}

/// Names the balancers among the members.
fn balancers(members: &[Member]) -> String {
    let is_balancer = |member: &&Member| member.role.iter().any(|role| matches!(role, TreeRole::Balancer));
    let all: Vec<String> =
        members.iter().filter(is_balancer).map(|member| member.number.to_string()).collect();
    if all.is_empty() { "there is none".into() } else { format!("balancers: {}", all.join(", ")) }
}

/// Reads a whole part.
///
/// # Errors
/// The part is not as the schema has it, or contradicts itself.
pub fn settings(part: Value) -> Result<Settings, ConfigError> {
    let tree: Tree = serde_json::from_value(part)?;
    let mut ports: BTreeMap<u16, Vec<OuterPort>> = BTreeMap::new();
    let (mut addresses, mut mtus) = (BTreeMap::new(), BTreeMap::new());
    for port in tree.port {
        let number =
            PortNumber::new(port.number).ok_or(ConfigError::Number(port.number, "number of a port"))?;
        let is_balancer = |member: &Member| {
            member.number == port.balancer
                && member.role.iter().any(|role| matches!(role, TreeRole::Balancer))
        };
        if !tree.member.iter().any(is_balancer) {
            return Err(ConfigError::NoBalancer(port.number, port.balancer, balancers(&tree.member)));
        }
        let of_port: BTreeSet<InterfaceAddress> =
            port.address.into_iter().map(address).collect::<Result<_, _>>()?;
        addresses.insert(number, of_port);
        mtus.extend(port.mtu.map(|mtu| (number, mtu)));
        let outer = OuterPort { number, interface: port.interface, mac: mac(port.mac)? };
        ports.entry(port.balancer).or_default().push(outer);
    }
    let (mut inventory, mut drained, mut reached) = (Inventory::default(), BTreeSet::new(), BTreeMap::new());
    for member in tree.member {
        let id = element(member.number)?;
        let roles: BTreeSet<Role> = member.role.into_iter().map(Role::from).collect();
        if roles.contains(&Role::Balancer) && roles.len() > 1 {
            return Err(ConfigError::BalancerOnly(member.number));
        }
        drained.extend(member.drained.then_some(id));
        reached.extend(member.address.map(|address| (id, address)));
        let name = member.name.unwrap_or_else(|| member.number.to_string());
        let ports = ports.remove(&member.number).unwrap_or_default();
        let put = inventory.put(Element { id, name, roles, weight: member.weight, ports });
        put.map_err(|error| ConfigError::Inventory(member.number, error))?;
    }
    let own = element(tree.element)?;
    if inventory.get(own).is_none() {
        return Err(ConfigError::NoMember(tree.element));
    }
    let mut policy = policy(tree.mode, tree.class, &inventory)?;
    let store =
        tree.store.map(|store| store_settings(store, own, (&inventory, &reached))).transpose()?.flatten();
    if tree.shared_configuration && !store.as_ref().is_some_and(|store| store.is_authenticated) {
        return Err(ConfigError::SharedWithoutStore);
    }
    policy.silence = (tree.silence > 0).then(|| Duration::from_millis(tree.silence.into()));
    Ok(Settings {
        element: own,
        interconnect: tree.interconnect,
        inventory,
        drained,
        reached,
        addresses,
        mtus,
        more_addresses: tree.address,
        policy,
        keys: KeyRing { current: key(&tree.key)?, other: tree.other_key.as_deref().map(key).transpose()? },
        store,
        shares_configuration: tree.shared_configuration,
        leader: None,
    })
}

/// Returns the choice of elements for packets of all classes.
fn policy(mode: TreeMode, classes: Vec<Class>, inventory: &Inventory) -> Result<Policy, ConfigError> {
    let mut all = vec![(0, ClassPolicy { mode: mode.into(), role: Role::Router })];
    let mut of_dscp: BTreeMap<u8, u8> = BTreeMap::new();
    for class in &classes {
        let role = class.role.into();
        if role == Role::Filter && inventory.with_role(role).next().is_none() {
            return Err(ConfigError::NoFilter(class.number));
        }
        all.push((class.number, ClassPolicy { mode: class.mode.into(), role }));
        for dscp in &class.dscp {
            if let Some(other) = of_dscp.insert(*dscp, class.number) {
                let (first, second) = (other.min(class.number), other.max(class.number));
                return Err(ConfigError::TwoClasses(*dscp, first, second));
            }
        }
    }
    Ok(Policy::new(all, of_dscp)?)
}

/// Components of the control plane, beside those whose routes the store distributes.
const OF_CONTROL: [&str; 2] = ["bgp", "rpki"];

/// Returns the number of this element and the classes of components that run on other elements, if the elements share one configuration:
/// the control plane runs the protocols. `None` without sharing, or if the part is refused.
pub fn sharing(part: Value) -> Option<(u16, BTreeSet<String>)> {
    // Most parts share nothing, and are not read further.
    part.get("shared-configuration").and_then(Value::as_bool).filter(|shares| *shares)?;
    let settings = settings(part).ok()?;
    let element = settings.element;
    let elsewhere = match settings.has_role(element, Role::Control) {
        true => BTreeSet::new(),
        false => {
            let distributed = settings.store.map(|store| store.origins).unwrap_or_default();
            distributed.into_iter().chain(OF_CONTROL.map(String::from)).collect()
        }
    };
    Some((element.number(), elsewhere))
}

/// Returns the names of the outer ports for people, by number. `None` if the part is refused.
pub fn ports(part: Value) -> Option<BTreeMap<u16, String>> {
    let names = crate::totals::port_names(&settings(part).ok()?);
    Some(names.into_iter().map(|(port, name)| (port.number(), name)).collect())
}

/// Returns the store; `None` if the configuration names no server.
fn store_settings(
    store: Store,
    own: ElementId,
    (inventory, reached): (&Inventory, &BTreeMap<ElementId, IpAddr>),
) -> Result<Option<StoreSettings>, ConfigError> {
    if store.endpoint.is_empty() && store.member.is_empty() {
        return Ok(None);
    }
    let mut members = BTreeMap::new();
    for number in store.member {
        let id = element(number)?;
        inventory.get(id).ok_or(ConfigError::NoStoreMember(number))?;
        members.insert(id, *reached.get(&id).ok_or(ConfigError::NoAddress(number))?);
    }
    if !members.is_empty() && !STORE_SIZES.contains(&members.len()) {
        return Err(ConfigError::StoreMembers(members.len()));
    }
    let endpoints: Vec<SocketAddr> = match (store.endpoint.is_empty(), members.is_empty()) {
        (false, false) => return Err(ConfigError::TwoStores),
        (false, true) => {
            let endpoint = |endpoint: StoreEndpoint| {
                SocketAddr::new(endpoint.address, endpoint.port.unwrap_or(CLIENT_PORT))
            };
            store.endpoint.into_iter().map(endpoint).collect()
        }
        (true, _) => {
            // An element asks its own server first, and all ask different ones next.
            let (before, after): (Vec<_>, Vec<_>) = members.iter().partition(|(member, _)| **member < own);
            let all = after.into_iter().chain(before);
            all.map(|(_, address)| SocketAddr::new(*address, CLIENT_PORT)).collect()
        }
    };
    Ok(Some(StoreSettings {
        endpoints,
        is_authenticated: store.tls || !members.is_empty(),
        members,
        removed: BTreeSet::new(),
        generation: store.generation,
        name: store.name.unwrap_or_else(|| "cluster".into()),
        origins: if store.origin.is_empty() { ORIGINS.map(String::from).into() } else { store.origin },
    }))
}

fn element(number: u16) -> Result<ElementId, ConfigError> {
    ElementId::new(number).ok_or(ConfigError::Number(number, "number of an element"))
}

fn mac(text: String) -> Result<Mac, ConfigError> {
    let octets: Option<Vec<u8>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    let octets = octets.and_then(|octets| <[u8; 6]>::try_from(octets).ok());
    octets.map(Mac).ok_or(ConfigError::Text(text, "MAC address"))
}

/// Reads a key. An error does not repeat the text.
fn key(text: &str) -> Result<ClusterKey, ConfigError> {
    let wrong = || ConfigError::Text("...".into(), "key of 64 hexadecimal digits");
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8).ok_or_else(wrong))
        .collect::<Result<_, _>>()?;
    let (pairs, _) = digits.as_chunks::<2>();
    let octets: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    <[u8; KEY_LEN]>::try_from(octets).map(ClusterKey).map_err(|_| wrong())
}

fn address(text: String) -> Result<InterfaceAddress, ConfigError> {
    let parse = |text: &str| {
        let (addr, len) = text.split_once('/')?;
        let (addr, prefix_len): (IpAddr, u8) = (addr.parse().ok()?, len.parse().ok()?);
        let width = if addr.is_ipv4() { 32 } else { 128 };
        (prefix_len <= width).then_some(InterfaceAddress { addr, prefix_len, peer: None })
    };
    parse(&text).ok_or(ConfigError::Text(text, "address with a prefix length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn part() -> Value {
        json!({
            "element": 2,
            "interconnect": ["eth0"],
            "key": "07".repeat(32),
            "mode": "weighted",
            "silence": 0,
            "address": ["192.0.2.1"],
            "member": [
                {"number": 1, "role": ["balancer"], "name": "front"},
                {"number": 2, "role": ["router"], "weight": 3},
                {"number": 9, "role": ["control"], "drained": true},
            ],
            "port": [{
                "number": 7, "balancer": 1, "interface": "eth1", "mac": "02:00:00:00:01:0A",
                "address": ["10.0.1.1/24", "fd01::1/64"], "mtu": 1400,
            }],
            "store": {"endpoint": [{"address": "192.0.2.7"}, {"address": "192.0.2.8", "port": 99}]},
        })
    }

    #[test]
    fn reads_all_that_the_schema_has() {
        let settings = settings(part()).expect("valid");
        assert_eq!((settings.element.number(), settings.keys.current.0), (2, [7; 32]));
        let front = settings.inventory.iter().next().expect("an element");
        assert_eq!(
            (front.name.as_str(), front.ports[0].mac.to_string().as_str()),
            ("front", "02:00:00:00:01:0a")
        );
        assert_eq!(settings.own_addresses().len(), 3);
        assert!(settings.links().values().all(|link| link.mtu == Some(1400)));
        assert_eq!((settings.control(), settings.policy.silence), (None, None));
        let store = settings.store.as_ref().expect("a store");
        let endpoints: Vec<String> = store.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(
            (endpoints.join(" ").as_str(), store.name.as_str()),
            ("192.0.2.7:2379 192.0.2.8:99", "cluster")
        );
        assert!(!store.is_authenticated && store.members.is_empty());
        assert!(settings.takes_routes() && !settings.is_candidate() && store.origins.contains("bgp"));
        assert!(settings.is_on_port(front.ports[0].number, "10.0.1.9".parse().expect("an address")));
        assert!(!settings.is_on_port(front.ports[0].number, "10.0.2.9".parse().expect("an address")));
    }

    #[test]
    fn ports_have_names_for_people() {
        assert_eq!(ports(part()), Some([(7, "front:eth1".to_owned())].into()));
        assert_eq!(ports(json!({"element": 1})), None);
    }

    #[test]
    fn classes_lead_dscps_to_roles() {
        let mut part = part();
        part["member"][2]["role"] = json!(["filter"]);
        part["class"] = json!([
            {"number": 5, "dscp": [46, 34], "role": "filter", "mode": "round-robin"},
            {"number": 3, "dscp": [8]},
        ]);
        let policy = settings(part).expect("valid").policy;
        let class = |mode, role| ClassPolicy { mode, role };
        assert_eq!(
            policy.classes().collect::<Vec<_>>(),
            [
                (0, class(Mode::Weighted, Role::Router)),
                (3, class(Mode::Flow, Role::Router)),
                (5, class(Mode::RoundRobin, Role::Filter))
            ]
        );
        assert_eq!([0, 8, 34, 46].map(|dscp| policy.dscp()[dscp]), [0, 3, 5, 5]);
    }

    fn refused(change: impl Fn(&mut Value)) -> String {
        let mut part = part();
        change(&mut part);
        settings(part).expect_err("refused").to_string()
    }

    /// Returns the part with a store on elements.
    fn part_with_members(members: &[u16]) -> Value {
        let mut part = part();
        part["store"] = json!({"member": members, "generation": 3});
        for (index, address) in ["10.9.0.1", "10.9.0.2", "10.9.0.9"].into_iter().enumerate() {
            part["member"][index]["address"] = json!(address);
        }
        part
    }

    #[test]
    fn a_store_on_elements_has_an_endpoint_each_the_own_one_first() {
        let settings = settings(part_with_members(&[9, 1, 2])).expect("valid");
        let store = settings.store.as_ref().expect("a store");
        let endpoints: Vec<String> = store.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["10.9.0.2:2379", "10.9.0.9:2379", "10.9.0.1:2379"]);
        assert!(store.is_authenticated && store.generation == 3 && store.members.len() == 3);
        assert!(sluice_cluster::server::server(&settings, 1).is_some());
    }

    #[test]
    fn contradictions_about_the_store_are_refused() {
        let refused = |part: Value| settings(part).expect_err("refused").to_string();
        assert!(refused(part_with_members(&[1, 2])).contains("has 2 members"));
        assert!(refused(part_with_members(&[7])).contains("element 7 is no member"));
        let mut part = part_with_members(&[1, 2, 9]);
        part["member"][2].as_object_mut().expect("a member").remove("address");
        assert!(refused(part).contains("set cluster member 9 address"));
        let mut part = part_with_members(&[2]);
        part["store"]["endpoint"] = json!([{"address": "192.0.2.7"}]);
        assert!(refused(part).contains("members and endpoints"));
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(refused(|part| part["element"] = json!(5)).contains("member 5"));
        assert!(
            refused(|part| part["port"][0]["balancer"] = json!(2)).contains("no balancer (balancers: 1)")
        );
        assert!(refused(|part| part["port"][0]["mac"] = json!("02:5c:00:00:00:01")).contains("02:5c"));
        assert!(
            refused(|part| part["member"][0]["role"] = json!(["balancer", "router"])).contains("other role")
        );
        assert!(refused(|part| part["member"][1]["name"] = json!("front")).contains("same name"));
        let class = |number: u8, role: &str| json!({"number": number, "dscp": [46], "role": role});
        assert!(
            refused(|part| part["class"] = json!([class(3, "filter")])).contains("no member has the role")
        );
        let twice = json!([class(3, "router"), class(5, "router")]);
        assert!(refused(|part| part["class"] = twice.clone()).contains("46 is of the classes 3 and 5"));
        let error = refused(|part| part["key"] = json!("secret"));
        assert!(error.contains("key") && !error.contains("secret"), "{error}");
    }
}
