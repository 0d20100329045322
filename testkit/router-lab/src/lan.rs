//! A LAN with both address families: each router has an address of each, and both end with the same host.

/// An address family of sessions, and of the routes that the sessions carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// Both families.
pub const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

impl Family {
    /// Returns the family's name in commands and configurations: `ipv4` or `ipv6`.
    pub const fn name(self) -> &'static str {
        self.pick("ipv4", "ipv6")
    }

    /// Returns the value that belongs to the family.
    pub const fn pick<T: Copy>(self, v4: T, v6: T) -> T {
        match self {
            Family::Ipv4 => v4,
            Family::Ipv6 => v6,
        }
    }

    /// Returns the address on the LAN that ends with a host.
    pub fn address(self, host: u8) -> String {
        format!("{}{host}", self.pick("10.0.0.", "2001:db8::"))
    }
}

/// Returns a router on the LAN, with the addresses that end with `host`.
pub fn node(name: &str, host: u8, daemon: &str, config: &str) -> String {
    format!(
        "[nodes.{name}]\ndaemon = '{daemon}'\nconfig = '''\n{config}'''\n\
         [[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['{}/24', '{}/64']\n",
        Family::Ipv4.address(host),
        Family::Ipv6.address(host)
    )
}

/// Returns the LAN's topology.
pub fn topology(nodes: &[String]) -> sluice_lab::Topology {
    ("[nodes.lan]\ndaemon = 'switch'\n".to_owned() + &nodes.concat()).parse().unwrap()
}
