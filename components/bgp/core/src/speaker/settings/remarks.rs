//! Remarks on a valid configuration: what an operator may not have meant, reported when the configuration is checked.

use super::error::Direction;
use crate::family::FamilyIndex;
use crate::policy::{Neighbor, Policies};
use crate::speaker::config::{Config, NeighborConfig};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use sluice_base::Asn;
use sluice_policy::Program;
use sluice_policy::program::NextHop;

/// The families of IP, with the names that operators know.
const FAMILIES: [(FamilyIndex, &str); 2] = [(FamilyIndex::IPV4, "IPv4"), (FamilyIndex::IPV6, "IPv6")];

/// The neighbors that a remark is about.
struct About {
    first: IpAddr,
    asn: Asn,
    others: usize,
}

impl About {
    /// Counts a neighbor to those of a remark.
    fn count<K: Ord>(all: &mut BTreeMap<K, About>, remark: K, neighbor: &NeighborConfig) {
        all.entry(remark).and_modify(|about| about.others += 1).or_insert(About {
            first: neighbor.address,
            asn: neighbor.peer_as,
            others: 0,
        });
    }
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        if self.others > 0 { write!(f, " and {} more", self.others) } else { Ok(()) }
    }
}

impl Config {
    /// Returns all remarks.
    pub fn remarks(&self) -> BTreeSet<String> {
        let all = [self.remarks_on_next_hops(), self.remarks_on_members(), self.remarks_on_keepalives()];
        all.into_iter().flatten().collect()
    }

    /// Returns remarks on keepalive times that are more than a third of the hold time, of which a third is used (RFC 4271, section 4.4).
    fn remarks_on_keepalives(&self) -> BTreeSet<String> {
        let mut all: BTreeMap<(u16, u16), About> = BTreeMap::new();
        for neighbor in &self.neighbors {
            let Some(time) = neighbor.keepalive_time else { continue };
            if time > neighbor.hold_time / 3 {
                About::count(&mut all, (time, neighbor.hold_time), neighbor);
            }
        }
        let text = |((time, hold_time), about): ((u16, u16), About)| {
            let effect = match hold_time / 3 {
                0 => String::from("no KEEPALIVEs are sent"),
                third => format!("KEEPALIVEs are sent every {third} s"),
            };
            format!(
                "neighbor {about}: keepalive-time {time} is more than a third of hold-time ({hold_time}): {effect}"
            )
        };
        all.into_iter().map(text).collect()
    }

    /// Returns remarks on communities whose field does not hold the AS of a neighbor.
    fn remarks_on_members(&self) -> BTreeSet<String> {
        let mut all: BTreeMap<(&str, &str, String), About> = BTreeMap::new();
        for neighbor in self.neighbors.iter().filter(|neighbor| u16::try_from(neighbor.peer_as.0).is_err()) {
            for (direction, names) in
                [(Direction::Import, &neighbor.import), (Direction::Export, &neighbor.export)]
            {
                for name in names {
                    let program = self
                        .policies
                        .program(name)
                        .map(|program| bound(program, neighbor, FamilyIndex::IPV4));
                    for member in program.iter().flat_map(|program| program.unfit_members()) {
                        About::count(&mut all, (name, direction.name(), format!("{member}")), neighbor);
                    }
                }
            }
        }
        let text = |((name, direction, member), about): ((&str, &str, String), About)| {
            format!(
                "policy {name} ({direction} of {about}): `{member}` has no room for the AS {}, so no route has or gets the community; use a large community",
                about.asn
            )
        };
        all.into_iter().map(text).collect()
    }

    /// Returns remarks on policies of neighbors with IPv4 and IPv6, if the policy's next hop is an address of a single family:
    /// routes of the second family keep their next hops.
    fn remarks_on_next_hops(&self) -> BTreeSet<String> {
        let mut all: BTreeMap<(&str, &str, IpAddr, &str), About> = BTreeMap::new();
        for neighbor in &self.neighbors {
            for (direction, names) in
                [(Direction::Import, &neighbor.import), (Direction::Export, &neighbor.export)]
            {
                for (name, family, address) in
                    names.iter().filter_map(|name| untouched(&self.policies, name, neighbor))
                {
                    About::count(&mut all, (name, direction.name(), address, family), neighbor);
                }
            }
        }
        let text = |((name, direction, address, family), about)| {
            format!(
                "policy {name} ({direction} of {about}): `next-hop {address}` leaves {family} routes as they are; a second address is for them"
            )
        };
        all.into_iter().map(text).collect()
    }
}

/// Returns the program of a policy, bound to a neighbor and a family.
fn bound(program: &Program, config: &NeighborConfig, family: FamilyIndex) -> Program {
    program.bind(&Neighbor {
        address: config.address,
        asn: config.peer_as,
        group: config.group.as_deref(),
        family: usize::from(family) as u32,
        facts: &BTreeSet::new(),
    })
}

/// Returns the name of a policy, the family whose routes keep their next hops, and the policy's next hop of the second family;
/// `None` if the policy has next hops of both families or of neither, or if the neighbor has only one family.
fn untouched<'a>(
    policies: &Policies,
    name: &'a str,
    config: &NeighborConfig,
) -> Option<(&'a str, &'static str, IpAddr)> {
    let program = policies.program(name)?;
    if !program.next_hops().any(|hop| matches!(hop, NextHop::Address(_))) {
        return None;
    }
    let offered = config.families();
    if FAMILIES.iter().any(|(family, _)| !offered.has(*family)) {
        return None;
    }
    // Terms for one family alone are not meant for the other.
    let addresses = |family: FamilyIndex| {
        let addresses: BTreeSet<IpAddr> = bound(program, config, family)
            .next_hops()
            .filter_map(|hop| if let NextHop::Address(address) = hop { Some(address) } else { None })
            .collect();
        addresses
    };
    FAMILIES.into_iter().find_map(|(family, text)| {
        let all = addresses(family);
        let is_of_family = |address: &&IpAddr| address.is_ipv4() == (family == FamilyIndex::IPV4);
        let other = all.iter().find(|address| !is_of_family(address))?;
        all.iter().find(is_of_family).is_none().then_some((name, text, *other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn remarks(then: &str, has_both: bool) -> Vec<String> {
        let text = format!(r#"{{"policy-statement": [{{"name": "p", "term": [{{"name": "t", {then}}}]}}]}}"#);
        let mut neighbors = vec![NeighborConfig::new([10, 0, 0, 2].into(), Asn(2)); 3];
        for (last, neighbor) in (2..).zip(&mut neighbors) {
            neighbor.address = [10, 0, 0, last].into();
            neighbor.export = vec!["p".into()];
            neighbor.ipv6_unicast.enabled = Some(has_both);
        }
        let policies = Policies::compile(serde_json::from_str(&text).expect("policies")).expect("valid");
        Config { neighbors, policies, ..Config::default() }.remarks().into_iter().collect()
    }

    #[test]
    fn a_keepalive_time_that_is_not_used_is_remarked() {
        let remarks = |keepalive_time, hold_time| -> Vec<String> {
            let neighbor = |last| NeighborConfig {
                keepalive_time,
                hold_time,
                ..NeighborConfig::new([10, 0, 0, last].into(), Asn(2))
            };
            let neighbors = vec![neighbor(2), neighbor(3)];
            Config { neighbors, ..Config::default() }.remarks().into_iter().collect()
        };
        assert_eq!(remarks(Some(30), 90), [""; 0]);
        assert_eq!(remarks(None, 0), [""; 0]);
        let text = "neighbor 10.0.0.2 and 1 more: keepalive-time 60 is more than a third of hold-time (90): KEEPALIVEs are sent every 30 s";
        assert_eq!(remarks(Some(60), 90), [text]);
        assert!(remarks(Some(60), 0)[0].ends_with("hold-time (0): no KEEPALIVEs are sent"));
    }

    #[test]
    fn a_community_without_room_for_the_as_is_remarked() {
        let remarks = |member: &str, asn: u32| {
            let text = format!(
                r#"{{"community": [{{"name": "c", "member": ["{member}"]}}],
                    "policy-statement": [{{"name": "p", "term": [{{"name": "t", "then": {{"community-add": "c"}}}}]}}]}}"#
            );
            let mut neighbor = NeighborConfig::new([10, 0, 0, 2].into(), Asn(asn));
            neighbor.import = vec!["p".into()];
            let policies = Policies::compile(serde_json::from_str(&text).expect("policies")).expect("valid");
            Config { neighbors: vec![neighbor], policies, ..Config::default() }.remarks()
        };
        let text = "policy p (import of 10.0.0.2): `65000:peer-as` has no room for the AS 70000, so no route has or gets the community; use a large community";
        assert_eq!(remarks("65000:peer-as", 70000).into_iter().collect::<Vec<_>>(), [text]);
        assert!(remarks("65000:peer-as", 65010).is_empty() && remarks("65000:1:peer-as", 70000).is_empty());
    }

    #[test]
    fn a_next_hop_for_one_of_two_families_is_remarked() {
        let one = r#""then": {"next-hop": "192.0.2.1"}"#;
        let text = "policy p (export of 10.0.0.2 and 2 more): `next-hop 192.0.2.1` leaves IPv6 routes as they are; a second address is for them";
        assert_eq!(remarks(one, true), [text]);
        assert_eq!(remarks(one, false), [""; 0]);
        assert_eq!(remarks(r#""then": {"next-hop": ["192.0.2.1", "2001:db8::1"]}"#, true), [""; 0]);
        assert_eq!(remarks(r#""then": {"next-hop": "self"}"#, true), [""; 0]);
        let of_family = r#""from": {"family": "ipv4"}, "then": {"next-hop": "192.0.2.1"}"#;
        assert_eq!(remarks(of_family, true), [""; 0]);
        let other = remarks(r#""then": {"next-hop": "2001:db8::1"}"#, true);
        assert!(other[0].contains("leaves IPv4 routes as they are"), "{other:?}");
    }
}
