//! The topologies of `examples/containerlab`: their files fit together, and as labs in namespaces their sessions come up.

mod live;
mod router;
mod topology;

use crate::SLUICE;
use router::{InterfaceAddress, Router};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::Command;
use topology::{Topology, examples};

/// The examples.
const TOPOLOGIES: [&str; 5] = ["bird-and-frr", "dual-homed", "exchange", "triangle", "two-routers"];

#[test]
fn every_topology_is_tested() {
    let folders = std::fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap());
    let folders = folders.filter(|entry| entry.path().is_dir());
    let names: BTreeSet<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(names, TOPOLOGIES.map(Into::into).into());
    for name in TOPOLOGIES {
        assert!(examples().join(name).join("README.md").is_file(), "{name} has no README.md");
    }
}

#[test]
fn files_and_images_exist() {
    let image = format!("sluice:{}", env!("CARGO_PKG_VERSION"));
    for name in TOPOLOGIES {
        for (node, about) in &Topology::read(name).nodes {
            assert!(
                !about.image.starts_with("sluice:") || about.image == image,
                "{name}: {node}: {}",
                about.image
            );
            for (file, _) in &about.binds {
                assert!(file.exists(), "{name}: {node}: {} does not exist", file.display());
            }
        }
    }
}

#[test]
fn configurations_are_valid() {
    for name in TOPOLOGIES {
        for (_, router) in Topology::read(name).routers() {
            let output = Command::new(SLUICE).args(["config", "check"]).arg(&router.file).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn addresses_fit_the_links() {
    for name in TOPOLOGIES {
        let topology = Topology::read(name);
        let mut identifiers = BTreeSet::new();
        for (node, router) in topology.routers() {
            assert!(identifiers.insert(&router.router_id), "{name}: two routers are {}", router.router_id);
            for (interface, addresses) in &router.interfaces {
                let others = topology.others(node, interface);
                assert!(!others.is_empty(), "{name}: {node}:{interface} has an address and no link");
                for other in others {
                    let Some(far) = topology.nodes[&other.node].router.as_ref() else { continue };
                    let far = far.interfaces.get(&other.interface);
                    let far = far.unwrap_or_else(|| panic!("{name}: {other} has a link and no address"));
                    for own in addresses {
                        let reached =
                            far.iter().filter(|far| own.reaches(far.address) && far.length == own.length);
                        assert_eq!(reached.count(), 1, "{name}: {node}:{interface} {own:?} and {other}");
                    }
                }
            }
        }
    }
}

#[test]
fn neighbors_agree() {
    for name in TOPOLOGIES {
        let topology = Topology::read(name);
        for (node, router) in topology.routers() {
            assert!(!router.neighbors.is_empty(), "{name}: {node} has no neighbor");
            for (address, peer_as) in &router.neighbors {
                let far = far_end(&topology, node, router, *address);
                let (own, far) = far.unwrap_or_else(|| panic!("{name}: {node}: nobody has {address}"));
                match far {
                    Far::Router(far) => {
                        assert_eq!(far.local_as, *peer_as, "{name}: {node}: the AS of {address}");
                        assert_eq!(
                            far.neighbors.get(&own.address),
                            Some(&router.local_as),
                            "{name}: {address} and {node}"
                        );
                    }
                    Far::Foreign(text) => {
                        for part in
                            [own.address.to_string(), router.local_as.to_string(), peer_as.to_string()]
                        {
                            assert!(text.contains(&part), "{name}: {node}: {address} does not name {part}");
                        }
                    }
                }
            }
        }
    }
}

/// The far end of a session.
enum Far<'a> {
    Router(&'a Router),
    /// The files of a daemon that is not Sluice.
    Foreign(String),
}

/// Finds the node with the address of a neighbor on a link of `node`. Returns this node's own address on the link, too.
fn far_end<'a>(
    topology: &'a Topology,
    node: &str,
    router: &Router,
    address: IpAddr,
) -> Option<(InterfaceAddress, Far<'a>)> {
    let reaches = |own: &&InterfaceAddress| own.reaches(address);
    let on_link = router.interfaces.iter().find_map(|(name, own)| Some((name, *own.iter().find(reaches)?)));
    let (interface, own) = on_link?;
    topology.others(node, interface).into_iter().find_map(|other| {
        let far = &topology.nodes[&other.node];
        let Some(router) = &far.router else {
            let files = far.binds.iter().filter_map(|(file, _)| std::fs::read_to_string(file).ok());
            let text: String = files.collect::<String>() + &far.exec.join("\n");
            return text.contains(&address.to_string()).then_some((own, Far::Foreign(text)));
        };
        let addresses = router.interfaces.get(&other.interface)?;
        addresses.iter().any(|far| far.address == address).then_some((own, Far::Router(router)))
    })
}
