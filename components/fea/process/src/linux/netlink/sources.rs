//! Source addresses of routes.

use sluice_base::Family;
use std::net::IpAddr;

/// The source addresses of the routes that are written, by family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sources {
    ipv4: Option<IpAddr>,
    ipv6: Option<IpAddr>,
}

impl Sources {
    /// Returns the source address of a family's routes.
    pub const fn of(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::Ipv4 => self.ipv4,
            Family::Ipv6 => self.ipv6,
        }
    }

    /// Sets the source address of a family's routes.
    pub const fn set(&mut self, family: Family, source: Option<IpAddr>) {
        match family {
            Family::Ipv4 => self.ipv4 = source,
            Family::Ipv6 => self.ipv6 = source,
        }
    }
}
