//! The network: a router, and four links with the neighbors of a role each. All neighbors are sockets of the test in the
//! node `peers`, which has all addresses of the neighbors' blocks.

use sluice_bgpsim::wire::as_path::Width;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// The AS of each router.
pub const LOCAL_AS: u32 = 64500;
/// The subnet that all routers have besides the links, for next hops that policies set.
pub const HOPS: &str = "203.0.113.1/24";

/// The role of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Announces.
    Feeder,
    /// Receives in another AS.
    External,
    /// Receives in the router's AS.
    Internal,
    /// Receives in another AS, with AS numbers of 2 octets.
    TwoOctets,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Feeder, Role::External, Role::Internal, Role::TwoOctets];
    pub const RECEIVERS: [Role; 3] = [Role::External, Role::Internal, Role::TwoOctets];

    pub fn asn(self) -> u32 {
        match self {
            Role::Feeder => 64501,
            Role::External => 64502,
            Role::Internal => LOCAL_AS,
            Role::TwoOctets => 64503,
        }
    }

    pub fn width(self) -> Width {
        if self == Role::TwoOctets { Width::Two } else { Width::Four }
    }
}

/// A router under test.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// The node.
    pub node: &'static str,
    /// The second octet of the router's addresses.
    pub number: u8,
}

impl Router {
    /// Returns the router's address on the link of a role.
    pub fn address(self, role: Role) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number, 2 * role as u8, 1)
    }

    /// Returns the address of a neighbor.
    pub fn peer(self, role: Role, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number, 2 * role as u8 + 1, number)
    }

    /// Returns the role of the neighbor with an address.
    pub fn role(self, address: Ipv4Addr) -> Option<Role> {
        let [ten, number, third, _] = address.octets();
        let is_peer = ten == 10 && number == self.number && third % 2 == 1;
        is_peer.then(|| Role::ALL.get(usize::from(third / 2)).copied()).flatten()
    }

    /// Appends the links to a topology.
    pub fn links(self, topology: &mut String) {
        for role in Role::ALL {
            let (node, block) = (self.node, 2 * role as u8);
            let hops = if role == Role::Feeder { format!(", '{HOPS}'") } else { String::new() };
            let number = self.number;
            writeln!(
                topology,
                "[[links]]\na = '{node}:r{block}'\nb = 'peers:{node}{block}'\n\
                 a_addresses = ['10.{number}.{block}.1/23'{hops}]\nb_addresses = ['10.{number}.{block}.2/23']"
            )
            .unwrap();
        }
    }

    /// The kernel's routes that make all addresses of the neighbors local to the node `peers`.
    pub fn routes(self) -> impl Iterator<Item = String> {
        let block = move |role| format!("'local 10.{}.{}.0/24 dev lo'", self.number, 2 * role as u8 + 1);
        Role::ALL.into_iter().map(block)
    }
}
