//! Obstacles: settings of the host by which the kernel treats packets otherwise than the fast path would. An obstacle turns
//! the fast path off for a family, for what an interface receives, or for what an interface sends; the kernel forwards then.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use sluice_base::{Family, Interface, InterfaceIndex, TableId};

/// The obstacles, each with its reason in words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Obstacles {
    families: BTreeMap<Family, BTreeSet<String>>,
    received: BTreeMap<(InterfaceIndex, Family), BTreeSet<String>>,
    sent: BTreeMap<InterfaceIndex, BTreeSet<String>>,
    enslaved: BTreeMap<InterfaceIndex, String>,
}

/// A policy rule (ip-rule(8)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyRule {
    /// The priority; the kernel consults rules with lower numbers first.
    pub priority: u32,
    /// The table that the rule names.
    pub table: TableId,
    /// True if the rule looks packets up in its table, and does nothing else.
    pub looks_up: bool,
    /// True if the rule selects packets by an address, a mark, an interface or another property.
    pub selects: bool,
}

/// An interface's settings for a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FamilySettings {
    /// True if packets that the interface receives are forwarded.
    pub forwards: bool,
    /// The check of source addresses (RFC 3704): 0 none, 1 strict, 2 loose. The stricter value of the interface's and the host's.
    pub source_check: u32,
}

/// A chain of the packet filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterChain {
    /// The table.
    pub table: String,
    /// The chain.
    pub name: String,
    /// The families of the packets; both for tables of both.
    pub family: Option<Family>,
    /// The place of the chain.
    pub hook: Hook,
    /// True if packets that no rule decides on are accepted.
    pub accepts: bool,
    /// True if the chain has rules.
    pub has_rules: bool,
}

/// A place at which the packet filter sees packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// Forwarded packets pass the place.
    Forwarded,
    /// Only packets from or to the host itself pass the place.
    Local,
}

/// The rules that the kernel makes: their priorities and tables.
const USUAL_RULES: [(u32, TableId); 3] =
    [(0, TableId::LOCAL), (32766, TableId::MAIN), (32767, TableId::DEFAULT)];

/// Queueing disciplines that neither drop nor order packets by a policy of the operator: the kernel's defaults.
const PLAIN_QDISCS: [&str; 5] = ["noqueue", "mq", "pfifo_fast", "fq_codel", "fq"];

/// Queueing disciplines whose filters run before the kernel's IP sees a received packet, and after for a sent one.
const FILTERING_QDISCS: [&str; 2] = ["ingress", "clsact"];

/// The value of a strict check of source addresses.
const STRICT: u32 = 1;

impl PolicyRule {
    /// Returns true for a rule that the kernel makes by itself.
    fn is_usual(&self) -> bool {
        self.looks_up && !self.selects && USUAL_RULES.contains(&(self.priority, self.table))
    }
}

impl Obstacles {
    /// Takes in a policy rule.
    pub fn note_rule(&mut self, family: Family, rule: &PolicyRule) {
        if !rule.is_usual() {
            self.note_family(family, format!("the policy rule with priority {}", rule.priority));
        }
    }

    /// Takes in a chain of the packet filter.
    pub fn note_chain(&mut self, chain: &FilterChain) {
        let acts = chain.has_rules || !chain.accepts;
        if chain.hook == Hook::Local || !acts {
            return;
        }
        let reason = format!("the packet filter's chain {} of table {}", chain.name, chain.table);
        for family in Family::ALL.into_iter().filter(|family| chain.family.is_none_or(|of| of == *family)) {
            self.note_family(family, reason.clone());
        }
    }

    /// Takes in that the legacy packet filter has tables for a family.
    pub fn note_legacy_filter(&mut self, family: Family) {
        self.note_family(family, "tables of the legacy packet filter (iptables)".into());
    }

    /// Takes in an interface's settings for a family.
    pub fn note_settings(&mut self, interface: InterfaceIndex, family: Family, settings: FamilySettings) {
        if !settings.forwards {
            self.note_received(interface, family, format!("its switch for forwarding {family} is off"));
        }
        // The kernel has the check for IPv4 only.
        if family == Family::Ipv4 && settings.source_check == STRICT {
            let reason = "it checks source addresses strictly (rp_filter 1)".into();
            self.note_received(interface, family, reason);
        }
    }

    /// Takes in the queueing discipline at an interface's root, by its kind.
    pub fn note_root_qdisc(&mut self, interface: InterfaceIndex, kind: &str) {
        if !PLAIN_QDISCS.contains(&kind) {
            self.note_sent(interface, format!("it sends by the queueing discipline {kind}"));
        }
    }

    /// Takes in any queueing discipline of an interface, by its kind.
    pub fn note_qdisc(&mut self, interface: InterfaceIndex, kind: &str) {
        if FILTERING_QDISCS.contains(&kind) {
            for family in Family::ALL {
                self.note_received(interface, family, format!("it filters what it receives ({kind})"));
            }
            self.note_sent(interface, format!("it filters what it sends ({kind})"));
        }
    }

    /// Takes in that an interface takes no frames of XDP programs.
    pub fn note_no_receiver(&mut self, interface: InterfaceIndex) {
        let reason = "it takes no frames of XDP programs (a veth does if its other end has GRO on)".into();
        self.note_sent(interface, reason);
    }

    /// Takes in that an interface is a port of a bridge or bond with the name `master`.
    pub fn note_master(&mut self, interface: InterfaceIndex, master: &str) {
        self.enslaved.insert(interface, format!("it is a port of {master}"));
    }

    fn note_family(&mut self, family: Family, reason: String) {
        self.families.entry(family).or_default().insert(reason);
    }

    fn note_received(&mut self, interface: InterfaceIndex, family: Family, reason: String) {
        self.received.entry((interface, family)).or_default().insert(reason);
    }

    fn note_sent(&mut self, interface: InterfaceIndex, reason: String) {
        self.sent.entry(interface).or_default().insert(reason);
    }

    /// Iterates over the obstacles for all packets of a family.
    pub fn of_family(&self, family: Family) -> impl Iterator<Item = &str> {
        self.families.get(&family).into_iter().flatten().map(String::as_str)
    }

    /// Iterates over the obstacles for packets of a family that an interface receives.
    pub fn received(&self, interface: InterfaceIndex, family: Family) -> impl Iterator<Item = &str> {
        let of_interface = self.received.get(&(interface, family)).into_iter().flatten();
        self.of_family(family).chain(of_interface.map(String::as_str))
    }

    /// Iterates over the obstacles for packets that an interface sends.
    pub fn sent(&self, interface: InterfaceIndex) -> impl Iterator<Item = &str> {
        self.sent.get(&interface).into_iter().flatten().map(String::as_str)
    }

    /// Returns the reason for which no program is attached to an interface.
    pub fn unfit(&self, interface: &Interface) -> Option<String> {
        let reason = if <[u8; 6]>::try_from(interface.mac.as_slice()).is_ok_and(|mac| mac != [0; 6]) {
            if interface.admin_up { None } else { Some("it is down") }
        } else {
            Some("it has no Ethernet address")
        };
        reason.map(ToString::to_string).or_else(|| self.enslaved.get(&interface.index).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn index() -> InterfaceIndex {
        InterfaceIndex::new(3).unwrap()
    }

    fn rule(priority: u32, table: TableId) -> PolicyRule {
        PolicyRule { priority, table, looks_up: true, selects: false }
    }

    fn families(obstacles: &Obstacles) -> Vec<Family> {
        Family::ALL.into_iter().filter(|family| obstacles.of_family(*family).next().is_some()).collect()
    }

    #[test]
    fn the_kernels_own_rules_are_no_obstacle() {
        let mut obstacles = Obstacles::default();
        for (priority, table) in USUAL_RULES {
            obstacles.note_rule(Family::Ipv4, &rule(priority, table));
        }
        assert_eq!(families(&obstacles), []);
        let unusual = [
            rule(100, TableId::MAIN),
            rule(32766, TableId(100)),
            PolicyRule { selects: true, ..rule(0, TableId::LOCAL) },
            PolicyRule { looks_up: false, ..rule(32767, TableId::DEFAULT) },
        ];
        for rule in unusual {
            let mut obstacles = Obstacles::default();
            obstacles.note_rule(Family::Ipv6, &rule);
            assert_eq!(families(&obstacles), [Family::Ipv6], "{rule:?}");
        }
    }

    #[test]
    fn chains_that_act_on_forwarded_packets_turn_their_families_off() {
        let chain = |family, hook, accepts, has_rules| FilterChain {
            table: "t".into(),
            name: "c".into(),
            family,
            hook,
            accepts,
            has_rules,
        };
        let off = |chain| {
            let mut obstacles = Obstacles::default();
            obstacles.note_chain(&chain);
            families(&obstacles)
        };
        assert_eq!(off(chain(Some(Family::Ipv4), Hook::Forwarded, true, true)), [Family::Ipv4]);
        assert_eq!(off(chain(None, Hook::Forwarded, false, false)), Family::ALL);
        assert_eq!(off(chain(None, Hook::Forwarded, true, false)), []);
        assert_eq!(off(chain(None, Hook::Local, false, true)), []);
    }

    #[test]
    fn settings_of_an_interface_concern_that_interface() {
        let mut obstacles = Obstacles::default();
        obstacles.note_settings(index(), Family::Ipv4, FamilySettings { forwards: true, source_check: 2 });
        obstacles.note_root_qdisc(index(), "fq_codel");
        obstacles.note_qdisc(index(), "mq");
        assert_eq!(obstacles, Obstacles::default());
        obstacles.note_settings(index(), Family::Ipv6, FamilySettings { forwards: false, source_check: 1 });
        assert_eq!(obstacles.received(index(), Family::Ipv6).count(), 1);
        obstacles.note_settings(index(), Family::Ipv4, FamilySettings { forwards: true, source_check: 1 });
        obstacles.note_root_qdisc(index(), "tbf");
        obstacles.note_qdisc(index(), "clsact");
        assert_eq!(obstacles.received(index(), Family::Ipv4).count(), 2);
        assert_eq!(obstacles.sent(index()).count(), 2);
        let other = InterfaceIndex::new(4).unwrap();
        assert_eq!(obstacles.received(other, Family::Ipv4).count() + obstacles.sent(other).count(), 0);
    }

    #[test]
    fn a_program_is_attached_to_ethernet_interfaces_that_are_up() {
        let mut interface = Interface {
            index: index(),
            name: "eth0".into(),
            admin_up: true,
            running: false,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: vec![2, 0, 0, 0, 0, 1],
            addresses: Vec::new(),
        };
        let mut obstacles = Obstacles::default();
        assert_eq!(obstacles.unfit(&interface), None);
        obstacles.note_master(index(), "br0");
        assert_eq!(obstacles.unfit(&interface).as_deref(), Some("it is a port of br0"));
        interface.admin_up = false;
        assert_eq!(obstacles.unfit(&interface).as_deref(), Some("it is down"));
        interface.mac = vec![0; 6];
        assert_eq!(obstacles.unfit(&interface).as_deref(), Some("it has no Ethernet address"));
    }
}
