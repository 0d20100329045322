//! The server of the store on an element that is a member of the store: the arguments of etcd.
//!
//! All members begin the store together, with the same list of members. Another list, or another generation, is another store: its servers
//! have another folder and another token, and refuse the servers of the store before. The content is not moved:
//! the leader writes all routes anew, and routers keep their routes meanwhile.
//!
//! A machine that replaces another one joins the running store, with an empty folder of its own.

use crate::elements::roster::FIRST_MACHINE;
use crate::inventory::ElementId;
use crate::settings::Settings;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use sha2::{Digest, Sha256};

/// The port at which servers serve elements.
pub const CLIENT_PORT: u16 = 2379;
/// The port at which servers serve each other.
pub(crate) const PEER_PORT: u16 = 2380;
/// The file with the revoked certificates (RFC 5280, section 5), in the server's folder. etcd reads the file at each handshake.
pub const REVOKED: &str = "revoked.crl";
/// The folder of the data, in the server's folder.
const DATA: &str = "data";

/// The server that an element runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// The name of the server's folder: 16 hexadecimal digits, which no other store of the cluster has. Behind a hyphen follows the number of a
    /// machine that joined.
    pub store: String,
    /// The arguments of etcd, each `--OPTION=VALUE`. Paths are relative to the server's folder.
    pub arguments: Vec<String>,
}

fn url(address: IpAddr, port: u16) -> String {
    format!("https://{}", SocketAddr::new(address, port))
}

fn name(element: ElementId) -> String {
    format!("element-{}", element.number())
}

/// Returns the address at which the server of an element is reached by other servers; `None` if the element is configured as no member.
pub fn peer_url(settings: &Settings, element: ElementId) -> Option<String> {
    let store = settings.store.as_ref()?;
    Some(url(*store.members.get(&element)?, PEER_PORT))
}

/// Returns the server of this element; `None` if the element runs none. `machine` is the number of this machine, from 1: machines after the
/// first one join the running store.
pub fn server(settings: &Settings, machine: u32) -> Option<Server> {
    let store = settings.store.as_ref()?;
    let own = *store.members.get(&settings.element)?;
    if store.removed.contains(&settings.element) {
        return None;
    }
    let list = |is_listed: &dyn Fn(&ElementId) -> bool| {
        let listed = store.members.iter().filter(|(element, _)| is_listed(element));
        let peers: Vec<String> = listed
            .map(|(element, address)| format!("{}={}", name(*element), url(*address, PEER_PORT)))
            .collect();
        peers.join(",")
    };
    let members = list(&|_| true);
    let joins = machine > FIRST_MACHINE;
    let identity = format!("sluice store 1\n{}\n{}\n{members}", store.name, store.generation);
    let digest = Sha256::digest(identity.as_bytes());
    let identity: String = digest.iter().take(8).map(|octet| format!("{octet:02x}")).collect();
    // A server that joins names the present members, one that begins the store those of the beginning.
    let (members, state, folder) = match joins {
        true => {
            (list(&|element| !store.removed.contains(element)), "existing", format!("{identity}-{machine}"))
        }
        false => (members, "new", identity.clone()),
    };
    let (clients, peers) = (url(own, CLIENT_PORT), url(own, PEER_PORT));
    let arguments = [
        ("name", name(settings.element)),
        ("data-dir", DATA.to_string()),
        ("initial-cluster", members),
        ("initial-cluster-token", identity),
        ("initial-cluster-state", state.to_string()),
        ("initial-advertise-peer-urls", peers.clone()),
        ("listen-peer-urls", peers),
        ("advertise-client-urls", clients.clone()),
        ("listen-client-urls", clients),
        // Certificates of elements, in the server's folder.
        ("cert-file", "element.crt".to_string()),
        ("key-file", "element.key".to_string()),
        ("trusted-ca-file", "ca.crt".to_string()),
        ("client-cert-auth", "true".to_string()),
        ("client-crl-file", REVOKED.to_string()),
        ("peer-cert-file", "element.crt".to_string()),
        ("peer-key-file", "element.key".to_string()),
        ("peer-trusted-ca-file", "ca.crt".to_string()),
        ("peer-client-cert-auth", "true".to_string()),
        ("peer-crl-file", REVOKED.to_string()),
        // Milliseconds: another server leads half a second after the one that led.
        ("heartbeat-interval", "50".to_string()),
        ("election-timeout", "500".to_string()),
        ("logger", "zap".to_string()),
        ("log-level", "error".to_string()),
    ];
    let arguments = arguments.into_iter().map(|(option, value)| format!("--{option}={value}")).collect();
    Some(Server { store: folder, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::policy::Policy;
    use crate::frames::key::{ClusterKey, KeyRing};
    use crate::inventory::Inventory;
    use crate::settings::StoreSettings;
    use alloc::collections::{BTreeMap, BTreeSet};

    fn settings(element: u16, members: &[(u16, &str)], generation: u32) -> Settings {
        let id = |number| ElementId::new(number).expect("an element");
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        Settings {
            element: id(element),
            interconnect: Vec::new(),
            inventory: Inventory::default(),
            drained: BTreeSet::new(),
            reached: BTreeMap::new(),
            addresses: BTreeMap::new(),
            mtus: BTreeMap::new(),
            more_addresses: BTreeSet::new(),
            policy: Policy::default(),
            keys: KeyRing { current: ClusterKey([7; 32]), other: None },
            store: Some(StoreSettings {
                endpoints: Vec::new(),
                is_authenticated: true,
                members: members.iter().map(|(number, text)| (id(*number), address(text))).collect(),
                removed: BTreeSet::new(),
                generation,
                name: "cluster".into(),
                origins: BTreeSet::new(),
            }),
            shares_configuration: false,
            leader: None,
        }
    }

    const THREE: [(u16, &str); 3] = [(21, "10.9.0.21"), (22, "10.9.0.22"), (11, "fd09::b")];

    #[test]
    fn members_run_servers_with_the_same_list_in_one_order() {
        let of = |element| server(&settings(element, &THREE, 1), 1).expect("a server");
        let (first, second) = (of(21), of(11));
        assert!(first.store == second.store && first.store.len() == 16);
        let list = "--initial-cluster=element-11=https://[fd09::b]:2380,element-21=https://10.9.0.21:2380,\
                    element-22=https://10.9.0.22:2380";
        for own in [&first, &second] {
            assert!(own.arguments.iter().any(|argument| argument == list), "{:?}", own.arguments);
            assert!(own.arguments.contains(&format!("--initial-cluster-token={}", own.store)));
        }
        assert!(first.arguments.contains(&"--listen-client-urls=https://10.9.0.21:2379".into()));
        assert!(second.arguments.contains(&"--name=element-11".into()));
        assert_eq!(server(&settings(12, &THREE, 1), 1), None);
    }

    #[test]
    fn other_members_and_other_generations_are_other_stores() {
        let store = |members: &[_], generation| {
            server(&settings(21, members, generation), 1).expect("a server").store
        };
        let first = store(&THREE, 1);
        assert_ne!(first, store(&THREE, 2));
        assert_ne!(first, store(&THREE[..1], 1));
        let mut moved = THREE;
        moved[2].1 = "fd09::c";
        assert_ne!(first, store(&moved, 1));
    }

    #[test]
    fn servers_of_elements_with_one_configuration_stay_where_they_are() {
        let mut moved = THREE;
        moved[2].1 = "fd09::c";
        let shares = |members: &[_]| Settings { shares_configuration: true, ..settings(21, members, 1) };
        let (before, after) = (shares(&THREE), shares(&moved));
        assert_eq!(before.moved_server(&after), ElementId::new(11));
        assert_eq!((before.moved_server(&before), before.moved_server(&shares(&THREE[..2]))), (None, None));
        assert_eq!(settings(21, &THREE, 1).moved_server(&after), None, "it begins to share");
    }

    #[test]
    fn a_replacing_machine_joins_the_running_store_with_an_empty_folder() {
        let mut settings = settings(21, &THREE, 1);
        let first = server(&settings, 1).expect("a server");
        settings.remove(ElementId::new(22).expect("an element"));
        assert_eq!(server(&settings, 1).as_ref(), Some(&first), "servers that run stay as they are");
        let second = server(&settings, 2).expect("a server");
        assert_eq!(second.store, format!("{}-2", first.store));
        let list = "--initial-cluster=element-11=https://[fd09::b]:2380,element-21=https://10.9.0.21:2380";
        for argument in
            [list, "--initial-cluster-state=existing", &format!("--initial-cluster-token={}", first.store)]
        {
            assert!(second.arguments.iter().any(|own| own == argument), "{:?}", second.arguments);
        }
        settings.remove(settings.element);
        assert_eq!((server(&settings, 1), server(&settings, 2)), (None, None));
        assert_eq!(peer_url(&settings, settings.element).as_deref(), Some("https://10.9.0.21:2380"));
    }
}
