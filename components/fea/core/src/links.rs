//! Virtual links for components: the steps from the links of the kernel to the wanted ones, and the wanted neighbors.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::{InterfaceAddress, InterfaceIndex, Mac};

/// The links of a component.
pub const MOST_LINKS: usize = 1024;
/// The neighbors on the links of a component.
pub const MOST_NEIGHBORS: usize = 32_768;
/// Octets of the longest name of a link.
pub const LONGEST_NAME: usize = 15;
/// The only kind of links: a MAC address of its own on a parent link (Linux's macvlan in private mode).
pub const MACVLAN: &str = "macvlan";

/// A wanted link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VirtualLink {
    /// The name of the link below.
    pub parent: String,
    /// The MAC address.
    pub mac: Mac,
    /// The addresses.
    pub addresses: BTreeSet<InterfaceAddress>,
    /// True if the kernel sends no requests for link-layer addresses on the link.
    pub told_neighbors: bool,
    /// The largest packet in octets; `None` for the parent's MTU, the upper bound in any case.
    pub mtu: Option<u32>,
}

/// The mark on a link (its alias), for later processes of the FEA.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark {
    /// The component.
    pub owner: String,
    /// As of [`VirtualLink`].
    pub told_neighbors: bool,
}

impl Mark {
    /// Reads the mark of a link's alias; `None` if the alias is no mark.
    pub fn parse(alias: &str) -> Option<Self> {
        let (owner, told_neighbors) = match alias.strip_prefix("sluice:")?.rsplit_once(' ') {
            Some((owner, "told")) => (owner, true),
            Some((owner, "asked")) => (owner, false),
            _ => return None,
        };
        Some(Mark { owner: owner.into(), told_neighbors })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sluice:{} {}", self.owner, if self.told_neighbors { "told" } else { "asked" })
    }
}

/// A link of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundLink {
    /// The index.
    pub index: InterfaceIndex,
    /// The name.
    pub name: String,
    /// The mark; `None` for links not made by an FEA.
    pub mark: Option<Mark>,
    /// The link below, if any.
    pub parent: Option<InterfaceIndex>,
    /// The MAC address.
    pub mac: Vec<u8>,
    /// True if the link is up.
    pub is_up: bool,
    /// The largest packet, in octets.
    pub mtu: u32,
    /// The addresses, except link-local (fe80::/10) and operator-configured addresses.
    pub addresses: BTreeSet<InterfaceAddress>,
}

/// A change of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Remove a link.
    Remove(InterfaceIndex),
    /// Make a link on the link `parent`. Further steps follow once the link has an index.
    Make {
        /// The name.
        name: String,
        /// The link below.
        parent: InterfaceIndex,
        /// The MAC address.
        mac: Mac,
        /// The mark.
        mark: Mark,
    },
    /// Set a link up. With `true`, the kernel sends no requests for link-layer addresses.
    Raise(InterfaceIndex, bool),
    /// Set the largest packet, in octets.
    SetMtu(InterfaceIndex, u32),
    /// Add an address.
    Add(InterfaceIndex, InterfaceAddress),
    /// Remove an address.
    Take(InterfaceIndex, InterfaceAddress),
}

/// The steps, and the links that cannot be made now, with the reasons.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The links that cannot be made, by name.
    pub problems: BTreeMap<String, String>,
}

/// Plans the steps to the links of a component. The plan is empty once the links are as wanted.
pub fn plan(owner: &str, wanted: &BTreeMap<String, VirtualLink>, found: &[FoundLink]) -> Plan {
    let mut plan = Plan::default();
    let named = |name: &str| found.iter().find(|link| link.name == name);
    let is_own = |link: &&FoundLink| link.mark.as_ref().is_some_and(|mark| mark.owner == owner);
    let mark = |link: &VirtualLink| Mark { owner: owner.into(), told_neighbors: link.told_neighbors };
    let fits = |link: &FoundLink, to: &VirtualLink| {
        link.mark.as_ref() == Some(&mark(to))
            && link.mac == to.mac.0
            && link.parent.is_some()
            && link.parent == named(&to.parent).map(|parent| parent.index)
    };
    for link in found.iter().filter(is_own) {
        if wanted.get(&link.name).is_none_or(|to| !fits(link, to)) {
            plan.steps.push(Step::Remove(link.index));
        }
    }
    for (name, to) in wanted {
        match named(name) {
            Some(link) if fits(link, to) => {
                let most = named(&to.parent).map_or(link.mtu, |parent| parent.mtu);
                adjust(link, to, most, &mut plan.steps);
            }
            Some(link) if !is_own(&link) => {
                plan.problems.insert(name.clone(), "another interface has the name".to_string());
            }
            _ => match named(&to.parent) {
                Some(parent) => plan.steps.push(Step::Make {
                    name: name.clone(),
                    parent: parent.index,
                    mac: to.mac,
                    mark: mark(to),
                }),
                None => {
                    plan.problems.insert(name.clone(), format!("the interface {} does not exist", to.parent));
                }
            },
        }
    }
    plan
}

/// Plans the steps of a link that stays; `most` is the largest packet of the link below.
fn adjust(link: &FoundLink, to: &VirtualLink, most: u32, steps: &mut Vec<Step>) {
    let mtu = to.mtu.map_or(most, |mtu| mtu.min(most));
    if link.mtu != mtu {
        steps.push(Step::SetMtu(link.index, mtu));
    }
    let gone = link.addresses.difference(&to.addresses).map(|address| Step::Take(link.index, *address));
    steps.extend(gone);
    // A link that is down loses IPv6 addresses: addresses come after.
    if !link.is_up {
        steps.push(Step::Raise(link.index, to.told_neighbors));
    }
    let new = to.addresses.difference(&link.addresses).map(|address| Step::Add(link.index, *address));
    steps.extend(new);
}

/// A wanted neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neighbor {
    /// The neighbor has this MAC address.
    At(Mac),
    /// The kernel finds the address out and keeps it known.
    Resolved,
}

/// The wanted neighbors of a component, by link and address.
pub type Neighbors = BTreeMap<(String, IpAddr), Neighbor>;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn index(number: u32) -> InterfaceIndex {
        InterfaceIndex::new(number).unwrap()
    }

    fn address(text: &str) -> InterfaceAddress {
        InterfaceAddress { addr: text.parse().unwrap(), prefix_len: 24, peer: None }
    }

    fn wanted(parent: &str) -> BTreeMap<String, VirtualLink> {
        let link = VirtualLink {
            parent: parent.into(),
            mac: Mac([2, 0x5c, 0, 2, 0, 1]),
            addresses: [address("10.0.1.1")].into(),
            told_neighbors: true,
            mtu: None,
        };
        [("port1".to_string(), link)].into()
    }

    fn found(name: &str, number: u32) -> FoundLink {
        FoundLink {
            index: index(number),
            name: name.into(),
            mark: None,
            parent: None,
            mac: vec![2, 0, 0, 0, 0, 9],
            is_up: true,
            mtu: 1500,
            addresses: BTreeSet::new(),
        }
    }

    fn made(owner: &str) -> FoundLink {
        FoundLink {
            mark: Some(Mark { owner: owner.into(), told_neighbors: true }),
            parent: Some(index(2)),
            mac: vec![2, 0x5c, 0, 2, 0, 1],
            is_up: false,
            ..found("port1", 7)
        }
    }

    #[test]
    fn a_link_is_made_raised_and_kept() {
        let want = wanted("eth0");
        let mark = Mark { owner: "x".into(), told_neighbors: true };
        assert_eq!(Mark::parse(&mark.to_string()), Some(mark.clone()));
        assert_eq!([Mark::parse("sluice:x"), Mark::parse("an uplink")], [None, None]);
        let make =
            Step::Make { name: "port1".into(), parent: index(2), mac: Mac([2, 0x5c, 0, 2, 0, 1]), mark };
        assert_eq!(plan("x", &want, &[found("eth0", 2)]).steps, [make]);
        let mut all = [found("eth0", 2), made("x")];
        let added = Step::Add(index(7), address("10.0.1.1"));
        assert_eq!(plan("x", &want, &all).steps, [Step::Raise(index(7), true), added.clone()]);
        all[1].is_up = true;
        all[1].addresses = [address("10.0.9.1")].into();
        assert_eq!(plan("x", &want, &all).steps, [Step::Take(index(7), address("10.0.9.1")), added]);
        all[1].addresses = [address("10.0.1.1")].into();
        assert_eq!(plan("x", &want, &all), Plan::default());
        assert_eq!(plan("x", &BTreeMap::new(), &all).steps, [Step::Remove(index(7))]);
    }

    #[test]
    fn a_link_has_the_mtu_that_is_wanted_or_that_of_the_link_below() {
        let mut want = wanted("eth0");
        let mut all = [found("eth0", 2), made("x")];
        (all[1].is_up, all[1].addresses) = (true, [address("10.0.1.1")].into());
        let mut steps = |wanted: Option<u32>, below: u32| {
            want.get_mut("port1").unwrap().mtu = wanted;
            all[0].mtu = below;
            plan("x", &want, &all).steps
        };
        assert_eq!(steps(Some(1400), 1500), [Step::SetMtu(index(7), 1400)]);
        assert_eq!(steps(None, 9000), [Step::SetMtu(index(7), 9000)]);
        assert_eq!([steps(Some(1500), 1500), steps(Some(9000), 1500)], [vec![], vec![]]);
    }

    #[test]
    fn links_of_others_are_not_touched() {
        for other in [found("port1", 7), made("y")] {
            let all = [found("eth0", 2), other];
            let plan = plan("x", &wanted("eth0"), &all);
            assert!(plan.steps.is_empty() && plan.problems["port1"].contains("name"), "{plan:?}");
        }
        let plan = plan("x", &wanted("eth1"), &[found("eth0", 2)]);
        assert!(plan.steps.is_empty() && plan.problems["port1"].contains("eth1"), "{plan:?}");
    }

    #[test]
    fn a_link_with_another_address_is_made_anew() {
        let mut want = wanted("eth0");
        want.get_mut("port1").unwrap().mac.0[5] = 2;
        let steps = plan("x", &want, &[found("eth0", 2), made("x")]).steps;
        assert!(matches!(&steps[..], [Step::Remove(_), Step::Make { .. }]), "{steps:?}");
    }
}
