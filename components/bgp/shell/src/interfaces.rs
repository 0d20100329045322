//! The router's interfaces, for the addresses that a session's next hops are made of.

use crate::{BgpShell, listening};
use sluice_base::{Interface, InterfaceEvent, InterfaceIndex, IpPrefix, Prefix};
use sluice_bgp::writer::Endpoints;
use sluice_xrl::LifeEvent;
use sluice_xrl::idl::fea::v1 as fea;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use tracing::warn;

/// All interfaces, as far as the FEA has told.
#[derive(Default)]
pub struct Interfaces(BTreeMap<InterfaceIndex, Interface>);

impl Interfaces {
    /// The FEA says what changed.
    pub fn change(&mut self, event: InterfaceEvent) {
        match event {
            InterfaceEvent::Changed(interface) => {
                self.0.insert(interface.index, interface);
            }
            InterfaceEvent::Removed(index) => {
                self.0.remove(&index);
            }
            InterfaceEvent::SnapshotEnd => {}
        }
    }

    /// The addresses of this side of a session between `local` and `neighbor`: those of the interface that has `local`; its
    /// link-local one if the neighbor is on the same link (RFC 2545, section 3), with the interface; and the subnet that the neighbor is in.
    pub fn endpoints(&self, local: IpAddr, neighbor: IpAddr) -> Endpoints {
        let mut endpoints = Endpoints::new(local);
        let has_local = |i: &&Interface| i.addresses.iter().any(|a| a.addr == local);
        let Some(interface) = self.0.values().find(has_local) else { return endpoints };
        let mut link_local = None;
        let mut shares_link = false;
        for address in &interface.addresses {
            let subnet = IpPrefix::new(address.peer.unwrap_or(address.addr), address.prefix_len);
            let shared = subnet.filter(|subnet| contains(*subnet, neighbor));
            shares_link |= shared.is_some();
            if !matches!(address.addr, IpAddr::V6(a) if is_link_local(a)) {
                endpoints.subnet = endpoints.subnet.or(shared);
            }
            match address.addr {
                IpAddr::V4(a) => endpoints.ipv4 = endpoints.ipv4.or(Some(a)),
                IpAddr::V6(a) if is_link_local(a) => link_local = link_local.or(Some(a)),
                IpAddr::V6(a) => endpoints.ipv6 = endpoints.ipv6.or(Some(a)),
            }
        }
        endpoints.link_local = link_local.filter(|_| shares_link);
        endpoints.interface = shares_link.then_some(interface.index);
        endpoints
    }
}

/// Has every FEA that comes to life tell of its interfaces, and open the listeners. Never ends.
pub(crate) async fn follow(shell: Rc<BgpShell>, instance: String) {
    let router = &shell.frame.router;
    let client = fea::InterfacesClient::new(router, "fea");
    let Ok(mut lives) = router.watch_class("fea").await else {
        return warn!("the Finder does not tell of the FEA; BGP has no sockets");
    };
    while let Some(event) = lives.next().await {
        if let LifeEvent::Birth(life) = event {
            if let Err(error) = client.subscribe(fea::SubscribeRequest { target: instance.clone() }).await {
                warn!(%error, "the FEA does not tell of interfaces");
            }
            shell.listening.fea_is(&life);
            listening::refresh(&shell).await;
        }
    }
}

fn is_link_local(a: Ipv6Addr) -> bool {
    a.is_unicast_link_local()
}

fn contains(subnet: IpPrefix, address: IpAddr) -> bool {
    match (subnet, address) {
        (IpPrefix::V4(p), IpAddr::V4(a)) => p.contains(sluice_base::prefix::V4Addr(a)),
        (IpPrefix::V6(p), IpAddr::V6(a)) => p.contains(sluice_base::prefix::V6Addr(a)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::InterfaceAddress;

    #[test]
    fn next_hops_come_from_the_interface_of_the_session() {
        let address = |text: &str, prefix_len| InterfaceAddress {
            addr: text.parse().expect("an address"),
            prefix_len,
            peer: None,
        };
        let interface = Interface {
            index: InterfaceIndex::new(2).expect("not 0"),
            name: "eth0".into(),
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: vec![],
            addresses: vec![address("10.0.0.1", 24), address("2001:db8::1", 64), address("fe80::1", 64)],
        };
        let mut interfaces = Interfaces::default();
        interfaces.change(InterfaceEvent::Changed(interface));
        let of = |local: &str, neighbor: &str| {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            interfaces.endpoints(parse(local), parse(neighbor))
        };
        let near = of("10.0.0.1", "10.0.0.2");
        assert_eq!(near.ipv6, Some("2001:db8::1".parse().expect("an address")));
        assert!(near.link_local.is_some() && of("2001:db8::1", "2001:db8::2").link_local.is_some());
        let subnet = |text: &str| Some(text.parse::<IpPrefix>().expect("a prefix"));
        assert_eq!(near.subnet, subnet("10.0.0.0/24"));
        assert_eq!(of("2001:db8::1", "2001:db8::2").subnet, subnet("2001:db8::/64"));
        assert!(of("fe80::1", "fe80::2").subnet.is_none());
        let far = of("10.0.0.1", "192.0.2.1");
        assert_eq!((far.link_local, far.interface, far.subnet), (None, None, None));
        assert_eq!(
            (near.interface, of("fe80::1", "fe80::2").interface),
            (InterfaceIndex::new(2), near.interface)
        );
        assert!(of("10.9.0.1", "10.9.0.2").ipv6.is_none());
    }
}
