//! The rules of the protocol: datagrams in, changes of routes out. Time is handed in.

use serde::{Deserialize, Serialize};
use sluice_base::{Instant, InterfaceIndex, IpPrefix, Ipv4Prefix, Prefix};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The metric of what is not reachable.
pub const INFINITY: u8 = 16;

const HEAD: [u8; 3] = *b"DV\x01";
const ENTRY: usize = 6;
/// The entries of a datagram, within 1,500 octets.
const MOST: usize = 240;

/// A prefix with the announcing router's metric.
pub type Entry = (Ipv4Prefix, u8);

/// A route that a neighbor announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Route {
    pub metric: u8,
    pub neighbor: Ipv4Addr,
    pub interface: InterfaceIndex,
    pub received_at: Instant,
}

/// Own networks and learned routes.
#[derive(Default)]
pub struct Table {
    pub networks: BTreeSet<Ipv4Prefix>,
    pub learned: BTreeMap<Ipv4Prefix, Route>,
}

impl Table {
    /// Learns from a neighbor. Returns the prefixes whose routes changed.
    pub fn receive(
        &mut self,
        now: Instant,
        from: (Ipv4Addr, InterfaceIndex),
        entries: &[Entry],
    ) -> Vec<Ipv4Prefix> {
        let (neighbor, interface) = from;
        let mut changed = Vec::new();
        for (prefix, metric) in entries {
            let metric = metric.saturating_add(1).min(INFINITY);
            let received = Route { metric, neighbor, interface, received_at: now };
            let known = self.learned.get(prefix);
            let is_its_own = known.is_some_and(|known| (known.neighbor, known.interface) == from);
            let is_shorter = metric < known.map_or(INFINITY, |known| known.metric);
            // A route that is lost already is not learned again by being announced as lost.
            let is_news =
                is_shorter || is_its_own && known.is_some_and(|known| known.metric.min(metric) < INFINITY);
            if is_news && !self.networks.contains(prefix) {
                let before = self.learned.insert(*prefix, received);
                if before.map(|before| Route { received_at: now, ..before }) != Some(received) {
                    changed.push(*prefix);
                }
            }
        }
        changed
    }

    /// Loses routes that were not received for `lifetime`, or that `is_lost` names. Lost routes are announced as not reachable for another
    /// lifetime. Returns the prefixes whose routes changed.
    pub fn expire(
        &mut self,
        now: Instant,
        lifetime: Duration,
        is_lost: impl Fn(&Route) -> bool,
    ) -> Vec<Ipv4Prefix> {
        let is_old = |route: &Route| now.saturating_since(route.received_at) > lifetime;
        self.learned.retain(|prefix, route| {
            !(self.networks.contains(prefix) || route.metric == INFINITY && is_old(route))
        });
        let mut changed = Vec::new();
        for (prefix, route) in &mut self.learned {
            if route.metric < INFINITY && (is_old(route) || is_lost(route)) {
                (route.metric, route.received_at) = (INFINITY, now);
                changed.push(*prefix);
            }
        }
        changed
    }

    /// Returns the datagrams with everything that is announced on an interface.
    pub fn datagrams(&self, on: InterfaceIndex) -> Vec<Vec<u8>> {
        let own = self.networks.iter().map(|prefix| (*prefix, 0));
        let metric = |route: &Route| if route.interface == on { INFINITY } else { route.metric };
        let learned = self.learned.iter().map(|(prefix, route)| (*prefix, metric(route)));
        let entries: Vec<Entry> = own.chain(learned).collect();
        // A datagram without entries still shows that the router is there.
        let chunks = entries.chunks(MOST).chain(entries.is_empty().then_some(&[][..]));
        chunks.map(encode).collect()
    }
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut datagram = HEAD.to_vec();
    for (prefix, metric) in entries {
        datagram.extend(prefix.addr().0.octets());
        datagram.extend([prefix.len(), *metric]);
    }
    datagram
}

/// Reads a datagram; `None` if it is malformed.
pub fn decode(datagram: &[u8]) -> Option<Vec<Entry>> {
    let entries = datagram.strip_prefix(&HEAD)?.chunks(ENTRY);
    entries
        .map(|entry| {
            let [a, b, c, d, length, metric] = *entry else { return None };
            let address = Ipv4Addr::new(a, b, c, d);
            let IpPrefix::V4(prefix) = IpPrefix::new(address.into(), length)? else { return None };
            (prefix.addr().0 == address && metric <= INFINITY).then_some((prefix, metric))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(15);

    fn prefix(text: &str) -> Ipv4Prefix {
        text.parse().unwrap()
    }

    fn from(last: u8) -> (Ipv4Addr, InterfaceIndex) {
        (Ipv4Addr::new(192, 0, 2, last), InterfaceIndex::new(last.into()).unwrap())
    }

    #[test]
    fn the_shorter_way_wins_and_what_is_not_received_is_lost() {
        let (mut table, x) = (Table::default(), prefix("10.0.0.0/8"));
        assert_eq!(table.receive(Instant::ZERO, from(1), &[(x, 3)]), [x]);
        assert_eq!(table.receive(Instant::ZERO, from(2), &[(x, 5)]), []);
        assert_eq!(table.receive(Instant::ZERO, from(2), &[(x, 1)]), [x]);
        assert_eq!(table.learned[&x].metric, 2);
        // Its own neighbor may make it longer.
        assert_eq!(table.receive(Instant::ZERO, from(2), &[(x, 7)]), [x]);
        let late = Instant::ZERO + LIFETIME + LIFETIME;
        assert_eq!(table.expire(late, LIFETIME, |_| false), [x]);
        assert_eq!(table.receive(late, from(1), &[(x, INFINITY)]), []);
        assert_eq!(decode(&table.datagrams(from(1).1)[0]), Some(vec![(x, INFINITY)]));
        assert_eq!(table.expire(late + LIFETIME + LIFETIME, LIFETIME, |_| false), []);
        assert!(table.learned.is_empty());
    }

    #[test]
    fn a_route_is_not_announced_back() {
        let (mut table, x) = (Table::default(), prefix("10.0.0.0/8"));
        table.receive(Instant::ZERO, from(1), &[(x, 3)]);
        assert_eq!(decode(&table.datagrams(from(1).1)[0]), Some(vec![(x, INFINITY)]));
        assert_eq!(decode(&table.datagrams(from(2).1)[0]), Some(vec![(x, 4)]));
    }

    #[test]
    fn malformed_datagrams_are_refused() {
        for wrong in [
            &b""[..],
            b"DV",
            b"DV\x02",
            b"DV\x01\x0a",
            b"DV\x01\x0a\0\0\0\x21\x01",
            b"DV\x01\x0a\0\0\0\x08\x11",
        ] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
        // Host bits.
        assert_eq!(decode(b"DV\x01\x0a\0\0\x01\x08\x01"), None);
        assert_eq!(decode(b"DV\x01"), Some(Vec::new()));
    }
}
