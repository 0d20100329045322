//! The wire of a session: the neighbor's view of the routes that it received, from octets alone.
//!
//! The parser shares no code with the cores. It supports only UPDATE, in the form that the simulated routers write:
//! AS_SEQUENCEs of 4-octet numbers.

use crate::rewrite::NO_EXPORT;
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const HEADER: usize = 19;
/// The type of ROUTE-REFRESH messages (RFC 2918).
const ROUTE_REFRESH: u8 = 5;
const MOST: usize = 4096;

/// A route as in an UPDATE.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WireRoute {
    /// ORIGIN.
    pub origin: u8,
    /// The AS path.
    pub path: Vec<u32>,
    /// The next hop.
    pub next_hop: Option<IpAddr>,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// LOCAL_PREF.
    pub local_pref: Option<u32>,
    /// NO_EXPORT (RFC 1997).
    pub no_export: bool,
    /// ONLY_TO_CUSTOMER (RFC 9234).
    pub only_to_customer: Option<u32>,
}

/// The routes that a session's neighbor received, parsed from the octets written to the neighbor.
#[derive(Debug, Default)]
pub struct Wire {
    /// The current routes.
    pub routes: BTreeMap<IpPrefix, Arc<WireRoute>>,
    /// End-of-RIB markers (RFC 4724, section 2), of IPv4 and IPv6.
    pub ends: [u32; 2],
    /// Violations of the rules for a stream of UPDATEs.
    pub wrong: Vec<String>,
}

/// Octets taken from the front; `None` if too few octets are left.
struct Octets<'a>(&'a [u8]);

impl<'a> Octets<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn octet(&mut self) -> Option<u8> {
        self.take(1).map(|o| o[0])
    }

    fn word(&mut self) -> Option<usize> {
        self.take(2).map(|o| usize::from(u16::from_be_bytes([o[0], o[1]])))
    }

    /// A field behind its length of two octets.
    fn field(&mut self) -> Option<Octets<'a>> {
        let len = self.word()?;
        self.take(len).map(Octets)
    }

    fn prefix(&mut self, ipv6: bool) -> Option<IpPrefix> {
        let len = self.octet()?;
        let octets = self.take(usize::from(len).div_ceil(8))?;
        if ipv6 {
            let mut all = [0; 16];
            all.get_mut(..octets.len())?.copy_from_slice(octets);
            return Some(Ipv6Prefix::host(V6Addr(Ipv6Addr::from(all))).truncate(len).into());
        }
        let mut all = [0; 4];
        all.get_mut(..octets.len())?.copy_from_slice(octets);
        Some(Ipv4Prefix::host(V4Addr(Ipv4Addr::from(all))).truncate(len).into())
    }

    fn prefixes(&mut self, ipv6: bool) -> Option<Vec<IpPrefix>> {
        let mut all = Vec::new();
        while !self.0.is_empty() {
            all.push(self.prefix(ipv6)?);
        }
        Some(all)
    }
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

/// The content of an UPDATE.
#[derive(Default)]
struct Update {
    withdrawn: Vec<IpPrefix>,
    announced: Vec<IpPrefix>,
    /// The family of an End-of-RIB marker.
    end_of: Option<usize>,
    route: WireRoute,
    has_origin: bool,
    has_path: bool,
}

impl Update {
    fn read(body: &[u8]) -> Option<Self> {
        let mut update = Update::default();
        let mut body = Octets(body);
        update.withdrawn = body.field()?.prefixes(false)?;
        let mut attributes = body.field()?;
        update.announced = body.prefixes(false)?;
        let is_empty = update.withdrawn.is_empty() && update.announced.is_empty();
        if is_empty && attributes.0.is_empty() {
            update.end_of = Some(0);
        }
        while !attributes.0.is_empty() {
            let (flags, code) = (attributes.octet()?, attributes.octet()?);
            let len = if flags & 0x10 != 0 { attributes.word()? } else { usize::from(attributes.octet()?) };
            update.attribute(code, attributes.take(len)?)?;
        }
        Some(update)
    }

    fn attribute(&mut self, code: u8, value: &[u8]) -> Option<()> {
        let mut octets = Octets(value);
        match code {
            1 => {
                self.has_origin = true;
                self.route.origin = octets.octet()?;
            }
            2 => {
                self.has_path = true;
                while !octets.0.is_empty() {
                    let (_, count) = (octets.octet()?, octets.octet()?);
                    let words = octets.take(4 * usize::from(count))?;
                    self.route.path.extend(words.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w)));
                }
            }
            3 => self.route.next_hop = Some(Ipv4Addr::from(number(value)?).into()),
            4 => self.route.med = Some(number(value)?),
            5 => self.route.local_pref = Some(number(value)?),
            8 => self.route.no_export = value.as_chunks::<4>().0.contains(&NO_EXPORT.to_be_bytes()),
            14 => {
                octets.take(3)?;
                let len = octets.octet()?;
                let hop: [u8; 16] = octets.take(len.into())?.get(..16)?.try_into().ok()?;
                self.route.next_hop = Some(Ipv6Addr::from(hop).into());
                octets.octet()?;
                self.announced.extend(octets.prefixes(true)?);
            }
            15 => {
                octets.take(3)?;
                if octets.0.is_empty() {
                    self.end_of = Some(1);
                }
                self.withdrawn.extend(octets.prefixes(true)?);
            }
            35 => self.route.only_to_customer = Some(number(value)?),
            _ => {}
        }
        Some(())
    }
}

impl Wire {
    /// Reads whole messages that were written to the neighbor.
    pub fn read(&mut self, octets: &[u8]) {
        let mut rest = Octets(octets);
        while !rest.0.is_empty() {
            let len = rest.0.get(16..18).map_or(0, |l| usize::from(u16::from_be_bytes([l[0], l[1]])));
            let Some(message) = rest.take(len).filter(|m| (HEADER..=MOST).contains(&m.len())) else {
                return self.wrong.push(format!("a message of {len} octets"));
            };
            // The marks of a route refresh (RFC 7313) say nothing about routes.
            if message[18] == ROUTE_REFRESH {
                continue;
            }
            match (message[18] == 2).then(|| Update::read(&message[HEADER..])).flatten() {
                Some(update) => self.take(update),
                None => self.wrong.push(format!("not an UPDATE: {message:02x?}")),
            }
        }
    }

    fn take(&mut self, update: Update) {
        let Update { withdrawn, announced, end_of, route, has_origin, has_path } = update;
        if let Some(family) = end_of {
            self.ends[family] += 1;
        }
        for prefix in withdrawn {
            if self.routes.remove(&prefix).is_none() {
                self.wrong.push(format!("{prefix} is withdrawn, and was not announced"));
            }
        }
        // RFC 4271, section 5: mandatory attributes.
        let is_complete = has_origin && has_path && route.next_hop.is_some();
        if !announced.is_empty() && !is_complete {
            self.wrong.push(format!("{} is announced without a mandatory attribute", announced[0]));
        }
        let route = Arc::new(route);
        self.routes.extend(announced.into_iter().map(|prefix| (prefix, route.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let len = (HEADER + body.len()) as u16;
        [&[0xff; 16][..], &len.to_be_bytes(), &[2], &body].concat()
    }

    #[test]
    fn a_stream_becomes_routes() {
        let mut wire = Wire::default();
        let attributes: &[u8] = &[0x40, 1, 1, 2, 0x40, 2, 6, 2, 1, 0, 0, 0, 7, 0x40, 3, 4, 10, 0, 0, 1];
        let announce = update(&[&[0, 0, 0, 20], attributes, &[24, 192, 0, 2]]);
        wire.read(&[announce.clone(), update(&[&[0, 0, 0, 0]])].concat());
        let prefix: IpPrefix = "192.0.2.0/24".parse().unwrap();
        let expected = WireRoute {
            origin: 2,
            path: vec![7],
            next_hop: Some("10.0.0.1".parse().unwrap()),
            ..WireRoute::default()
        };
        assert_eq!((wire.routes.get(&prefix).map(|t| (**t).clone()), wire.ends), (Some(expected), [1, 0]));
        let withdraw = update(&[&[0, 4, 24, 192, 0, 2, 0, 0]]);
        wire.read(&withdraw);
        assert!(wire.routes.is_empty() && wire.wrong.is_empty(), "{wire:?}");
        wire.read(&withdraw);
        assert_eq!(wire.wrong.len(), 1, "{wire:?}");
    }

    #[test]
    fn what_is_broken_is_said() {
        for octets in [&[0xff; 30][..], &update(&[&[0, 9, 24]]), &update(&[&[0, 0, 0, 0, 24, 192, 0, 2]])] {
            let mut wire = Wire::default();
            wire.read(octets);
            assert_eq!(wire.wrong.len(), 1, "{wire:?}");
        }
    }
}
