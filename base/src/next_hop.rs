//! Next hops, and the forwarding of a route's packets.

use crate::InterfaceIndex;
use core::net::IpAddr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

/// A header around packets on the way to a next hop.
///
/// The kind is a number agreed on by forwarding engines and protocols; an engine without the kind refuses the route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Encapsulation {
    kind: u8,
    length: u8,
    octets: [u8; Encapsulation::ROOM],
}

impl Encapsulation {
    /// The most octets of parameters: an IPv6 address and two ports, an SRv6 identifier, or five MPLS labels.
    pub const ROOM: usize = 20;

    /// Makes an encapsulation of a kind with its parameters; `None` if there are more than [`Encapsulation::ROOM`] octets.
    pub fn new(kind: u8, parameters: &[u8]) -> Option<Self> {
        let mut octets = [0; Self::ROOM];
        octets.get_mut(..parameters.len())?.copy_from_slice(parameters);
        Some(Encapsulation { kind, length: parameters.len() as u8, octets })
    }

    /// Returns the number of the kind.
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// Returns the parameters.
    pub fn parameters(&self) -> &[u8] {
        self.octets.get(..usize::from(self.length)).unwrap_or(&self.octets)
    }
}

impl Serialize for Encapsulation {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        (self.kind, self.parameters()).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Encapsulation {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let (kind, octets) = <(u8, alloc::vec::Vec<u8>)>::deserialize(d)?;
        Encapsulation::new(kind, &octets)
            .ok_or_else(|| D::Error::custom("expected at most 20 octets of parameters"))
    }
}

/// A way to forward packets: through a gateway, out of an interface, or both.
///
/// `G` is the type of gateways: IP addresses where a kernel forwards, [`Address`](crate::Address) where a table may hold routes
/// of any family. Primary next hops sort before backups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NextHop<G = IpAddr> {
    /// True for a next hop used only while no primary next hop of the route is usable.
    pub is_backup: bool,
    /// The neighbor to send to, possibly of a family different from the route's (RFC 8950). `None`: the destination is on the link.
    pub gateway: Option<G>,
    /// The interface to send out of; `None`: to be found by resolving the gateway.
    pub interface: Option<InterfaceIndex>,
    /// The header to put around packets; `None`: packets are sent unchanged.
    pub encapsulation: Option<Encapsulation>,
    /// Share of the traffic among the primary next hops of one route, or among its backups, 1 to 255.
    pub weight: u8,
}

impl<G> NextHop<G> {
    /// A primary next hop of weight 1 without an encapsulation.
    pub const fn new(gateway: Option<G>, interface: Option<InterfaceIndex>) -> Self
    where
        G: Copy,
    {
        NextHop { is_backup: false, gateway, interface, encapsulation: None, weight: 1 }
    }

    /// Through `gateway`, resolved later.
    pub const fn via(gateway: G) -> Self
    where
        G: Copy,
    {
        Self::new(Some(gateway), None)
    }

    /// Straight out of `interface`.
    pub const fn on(interface: InterfaceIndex) -> Self
    where
        G: Copy,
    {
        Self::new(None, Some(interface))
    }

    /// Through `gateway` on `interface`.
    pub const fn via_on(gateway: G, interface: InterfaceIndex) -> Self
    where
        G: Copy,
    {
        Self::new(Some(gateway), Some(interface))
    }

    /// Returns the next hop as a backup.
    #[must_use]
    pub fn as_backup(self) -> Self {
        NextHop { is_backup: true, ..self }
    }

    /// Converts the gateway; `None` if `convert` does.
    pub fn convert<H>(self, convert: impl FnOnce(G) -> Option<H>) -> Option<NextHop<H>> {
        let NextHop { is_backup, gateway, interface, encapsulation, weight } = self;
        let gateway = match gateway {
            Some(gateway) => Some(convert(gateway)?),
            None => None,
        };
        Some(NextHop { is_backup, gateway, interface, encapsulation, weight })
    }
}

/// The treatment of a route's packets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Forwarding<G = IpAddr> {
    /// Packets are sent to one of the next hops: never empty, sorted, without duplicates.
    NextHops(SmallVec<[NextHop<G>; 1]>),
    /// Packets are dropped in silence.
    Discard,
    /// Packets are dropped and the sender is notified (ICMP unreachable).
    Reject,
    /// This host is the destination. For routes of identifiers only: the kernel itself knows the host's IP addresses.
    Local,
}

impl<G: Copy + Ord> Forwarding<G> {
    /// Forwarding through one next hop.
    pub fn one(hop: NextHop<G>) -> Self {
        Forwarding::NextHops(SmallVec::from_buf([hop]))
    }

    /// Forwarding over several next hops, sorted, without duplicates; `None` for an empty list. A next hop listed as primary
    /// and as backup is primary.
    pub fn many(hops: impl IntoIterator<Item = NextHop<G>>) -> Option<Self> {
        let mut sorted: SmallVec<[NextHop<G>; 1]> = hops.into_iter().collect();
        sorted.sort_unstable();
        let same = |a: &NextHop<G>, b: &NextHop<G>| {
            (a.gateway, a.interface, a.encapsulation) == (b.gateway, b.interface, b.encapsulation)
        };
        let mut kept: SmallVec<[NextHop<G>; 1]> = SmallVec::with_capacity(sorted.len());
        for hop in sorted {
            // The first of equal ones is primary if any is. Groups of more than a few next hops are sorted: look at the last first.
            let is_known = kept.last().is_some_and(|last| same(last, &hop))
                || (hop.is_backup && kept.iter().any(|known| same(known, &hop)));
            if !is_known {
                kept.push(hop);
            }
        }
        (!kept.is_empty()).then_some(Forwarding::NextHops(kept))
    }

    /// Converts the gateways; `None` if `convert` fails for a gateway.
    pub fn convert<H: Copy + Ord>(&self, convert: impl Fn(G) -> Option<H>) -> Option<Forwarding<H>> {
        Some(match self {
            Forwarding::NextHops(hops) => {
                Forwarding::NextHops(hops.iter().map(|hop| hop.convert(&convert)).collect::<Option<_>>()?)
            }
            Forwarding::Discard => Forwarding::Discard,
            Forwarding::Reject => Forwarding::Reject,
            Forwarding::Local => Forwarding::Local,
        })
    }
}

impl<G> Forwarding<G> {
    /// Returns the next hops, primary before backup; empty where packets are dropped, or have arrived.
    pub fn next_hops(&self) -> &[NextHop<G>] {
        match self {
            Forwarding::NextHops(hops) => hops,
            Forwarding::Discard | Forwarding::Reject | Forwarding::Local => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    #[test]
    fn next_hops_are_sorted_and_each_once() {
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let f = Forwarding::many([NextHop::via(b), NextHop::via(a), NextHop::via(b)]).unwrap();
        assert_eq!(f.next_hops(), [NextHop::via(a), NextHop::via(b)]);
        assert_eq!(Forwarding::<IpAddr>::many([]), None);
        assert_eq!(Forwarding::<IpAddr>::Discard.next_hops(), []);
    }

    #[test]
    fn backups_come_last_and_are_no_primaries() {
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let hops = [NextHop::via(a).as_backup(), NextHop::via(b).as_backup(), NextHop::via(b)];
        let f = Forwarding::many(hops).unwrap();
        assert_eq!(f.next_hops(), [NextHop::via(b), NextHop::via(a).as_backup()]);
        let any = f.convert(|gateway| Some(Address::Ip(gateway))).unwrap();
        assert_eq!(any.convert(Address::ip), Some(f));
    }

    #[test]
    fn parameters_of_an_encapsulation_have_a_limit() {
        assert_eq!(Encapsulation::new(1, &[7; 4]).unwrap().parameters(), [7; 4]);
        assert_eq!(Encapsulation::new(1, &[7; 21]), None);
    }
}
