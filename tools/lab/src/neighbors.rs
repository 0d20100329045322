//! The kernel's tables of neighbors, which all network namespaces share: a lab with many addresses fills them, and packets to neighbors
//! beyond are lost without a word of the kernel to any node.

use crate::topology::{Daemon, End, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The families, with their names in `/proc/sys/net`.
const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

/// Returns a warning for each table that the lab may fill to more than half. Where the bound cannot be read, as in a network namespace,
/// there is none.
pub(crate) fn warnings(topology: &Topology) -> Vec<String> {
    let bound = |family: &str| {
        let text = std::fs::read_to_string(setting(family)).ok()?;
        text.trim().parse().ok()
    };
    compared(most(topology), FAMILIES.map(bound))
}

fn setting(family: &str) -> String {
    format!("/proc/sys/net/{family}/neigh/default/gc_thresh3")
}

fn compared(most: [usize; 2], bounds: [Option<usize>; 2]) -> Vec<String> {
    let all = FAMILIES.into_iter().zip(most).zip(bounds);
    let near = all.filter_map(|((family, most), bound)| {
        let bound: usize = bound?;
        (most > bound / 2).then_some((family, most, bound))
    });
    let text = |(family, most, bound): (&str, usize, usize)| {
        format!(
            "its nodes may know {most} {family} neighbors, and this kernel keeps {bound} of all namespaces together; \
             packets to others are lost. Raise the bound: sysctl -w net.{family}.neigh.default.gc_thresh3={}",
            (4 * most).next_power_of_two()
        )
    };
    near.map(text).collect()
}

/// Returns the most neighbors that all nodes together know, by family: each address at each other node of its link. Every interface has an
/// address of IPv6 of its own besides.
fn most(topology: &Topology) -> [usize; 2] {
    let mut segments: Vec<BTreeMap<End, [usize; 2]>> = Vec::new();
    let is_switch =
        |end: &End| topology.nodes.get(&end.node).is_some_and(|node| node.daemon == Daemon::Switch);
    let mut of_switch: BTreeMap<&str, usize> = BTreeMap::new();
    for link in &topology.links {
        let ends = [(&link.a, &link.a_addresses), (&link.b, &link.b_addresses)];
        let switches: BTreeSet<&str> =
            ends.iter().filter(|(end, _)| is_switch(end)).map(|(end, _)| end.node.as_str()).collect();
        let known = switches.iter().find_map(|switch| of_switch.get(switch).copied());
        let number = known.unwrap_or_else(|| {
            segments.push(BTreeMap::new());
            segments.len() - 1
        });
        of_switch.extend(switches.iter().map(|switch| (*switch, number)));
        for (end, addresses) in ends.into_iter().filter(|(end, _)| !is_switch(end)) {
            let ipv6 = addresses.iter().filter(|address| address.contains(':')).count();
            segments[number].insert(end.clone(), [addresses.len() - ipv6, ipv6 + 1]);
        }
    }
    let of_segment = |segment: &BTreeMap<End, [usize; 2]>, family: usize| {
        let sum: usize = segment.values().map(|counts| counts[family]).sum();
        sum * segment.len().saturating_sub(1)
    };
    [0, 1].map(|family| segments.iter().map(|segment| of_segment(segment, family)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(links: &str) -> Topology {
        format!("[nodes.a]\n[nodes.b]\n[nodes.c]\n[nodes.s]\ndaemon = 'switch'\n{links}").parse().unwrap()
    }

    fn link(a: &str, b: &str, addresses: &[&str]) -> String {
        format!("[[links]]\na = '{a}'\nb = '{b}'\na_addresses = {addresses:?}\n")
    }

    #[test]
    fn each_address_is_known_to_all_others_on_the_link() {
        let direct = link("a:eth0", "b:eth0", &["10.0.0.1/24", "10.0.0.2/24", "fd00::1/64"]);
        assert_eq!(most(&topology(&direct)), [2, 3]);
        let shared =
            ["a", "b", "c"].map(|node| link(&format!("{node}:s0"), &format!("s:{node}"), &["10.1.0.1/24"]));
        assert_eq!(most(&topology(&shared.concat())), [6, 6]);
        assert_eq!(most(&topology(&(shared.concat() + &direct))), [8, 9]);
    }

    #[test]
    fn a_lab_near_the_bound_is_warned_of() {
        assert!(compared([512, 512], [Some(1024), None]).is_empty());
        let [warning] = &compared([600, 400], [Some(1024), Some(1024)])[..] else { panic!("one table") };
        assert!(warning.contains("600 ipv4 neighbors") && warning.ends_with("gc_thresh3=4096"), "{warning}");
    }
}
