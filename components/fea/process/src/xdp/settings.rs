//! Obstacles: settings of the host by which the kernel treats packets otherwise than the fast path would. An obstacle turns
//! the fast path off for a family, for what an interface receives, or for what an interface sends; the kernel forwards then.

use super::filter_chains;
use crate::linux::netlink::decode::{Message, attributes, u32_at};
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::*;
use crate::linux::netlink::socket::Socket;
use sluice_base::{Family, InterfaceIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;

/// The obstacles, each with its reason in words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Obstacles {
    /// Obstacles for all packets of a family.
    pub families: BTreeMap<Family, BTreeSet<String>>,
    /// Obstacles for packets of a family that an interface receives.
    pub received: BTreeMap<(InterfaceIndex, Family), BTreeSet<String>>,
    /// Obstacles for packets that an interface sends.
    pub sent: BTreeMap<InterfaceIndex, BTreeSet<String>>,
    /// Interfaces on which no program is attached: they are part of another.
    pub enslaved: BTreeMap<InterfaceIndex, String>,
}

/// Queueing disciplines that neither drop nor order packets by a policy of the operator: the kernel's defaults.
const PLAIN_QDISCS: [&str; 5] = ["noqueue", "mq", "pfifo_fast", "fq_codel", "fq"];

/// Queueing disciplines whose programs and filters run before the kernel's IP sees a packet.
const INGRESS_QDISCS: [&str; 2] = ["ingress", "clsact"];

impl Obstacles {
    /// Reads the obstacles of this thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    pub fn read() -> io::Result<Self> {
        let mut obstacles = Obstacles::default();
        let socket = Socket::open()?;
        obstacles.read_links(&socket)?;
        for family in Family::ALL {
            obstacles.read_rules(&socket, family)?;
            obstacles.read_settings(&socket, family)?;
        }
        obstacles.read_ingress(&socket)?;
        for (family, reason) in filter_chains::read()? {
            obstacles.families.entry(family).or_default().insert(reason);
        }
        Ok(obstacles)
    }

    /// Returns the obstacles for packets of a family that an interface receives.
    pub fn for_received(&self, interface: InterfaceIndex, family: Family) -> impl Iterator<Item = &str> {
        let of_family = self.families.get(&family).into_iter().flatten();
        let of_interface = self.received.get(&(interface, family)).into_iter().flatten();
        of_family.chain(of_interface).map(String::as_str)
    }

    fn read_links(&mut self, socket: &Socket) -> io::Result<()> {
        let request = dump(RTM_GETLINK, &[0; 16]);
        socket.request(&request, |message| {
            self.link(message);
            ControlFlow::Continue(())
        })
    }

    fn link(&mut self, message: &Message<'_>) -> Option<()> {
        let interface = InterfaceIndex::new(u32_at(message.body, 4)?)?;
        for (kind, value) in attributes(message.body.get(16..)?) {
            match kind {
                IFLA_QDISC => {
                    let qdisc = text(value);
                    if !PLAIN_QDISCS.contains(&qdisc.as_str()) {
                        let reason = format!("it sends by the queueing discipline {qdisc}");
                        self.sent.entry(interface).or_default().insert(reason);
                    }
                }
                IFLA_MASTER => {
                    let master = u32_at(value, 0)?;
                    let name = nix::net::if_::if_indextoname(master);
                    let name =
                        name.map_or_else(|_| master.to_string(), |name| name.to_string_lossy().into_owned());
                    self.enslaved.insert(interface, format!("it is a port of {name}"));
                }
                _ => {}
            }
        }
        Some(())
    }

    fn read_rules(&mut self, socket: &Socket, family: Family) -> io::Result<()> {
        let request = dump(
            RTM_GETRULE,
            &[crate::linux::netlink::encode::family(family) as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        );
        let mut reasons = BTreeSet::new();
        socket.request(&request, |message| {
            reasons.extend(unusual_rule(message));
            ControlFlow::Continue(())
        })?;
        if !reasons.is_empty() {
            self.families.entry(family).or_default().extend(reasons);
        }
        Ok(())
    }

    fn read_settings(&mut self, socket: &Socket, family: Family) -> io::Result<()> {
        let number = crate::linux::netlink::encode::family(family) as u8;
        let mut settings = Vec::new();
        // The header is one octet, padded to four.
        socket.request(&dump(RTM_GETNETCONF, &[number, 0, 0, 0]), |message| {
            settings.extend(setting(message));
            ControlFlow::Continue(())
        })?;
        let whole_host = settings.iter().find(|s| s.interface == NETCONFA_IFINDEX_ALL).copied();
        for setting in &settings {
            let Some(interface) =
                InterfaceIndex::new(setting.interface).filter(|_| setting.interface < 1 << 31)
            else {
                continue;
            };
            let key = (interface, family);
            if !setting.forwards {
                self.received
                    .entry(key)
                    .or_default()
                    .insert(format!("its switch for forwarding {family} is off"));
            }
            let check = setting.source_check.max(whole_host.map_or(0, |all| all.source_check));
            if family == Family::Ipv4 && check == 1 {
                let reason = "it checks source addresses strictly (rp_filter 1)".to_owned();
                self.received.entry(key).or_default().insert(reason);
            }
        }
        Ok(())
    }

    fn read_ingress(&mut self, socket: &Socket) -> io::Result<()> {
        let mut header = [0; 20];
        header[0] = libc::AF_UNSPEC as u8;
        socket.request(&dump(RTM_GETQDISC, &header), |message| {
            self.qdisc(message);
            ControlFlow::Continue(())
        })
    }

    fn qdisc(&mut self, message: &Message<'_>) -> Option<()> {
        let interface = InterfaceIndex::new(u32_at(message.body, 4)?)?;
        let kind = attributes(message.body.get(20..)?).find(|(kind, _)| *kind == TCA_KIND)?.1;
        let kind = text(kind);
        if INGRESS_QDISCS.contains(&kind.as_str()) {
            for family in Family::ALL {
                let reason = format!("it filters what it receives ({kind})");
                self.received.entry((interface, family)).or_default().insert(reason);
            }
            self.sent.entry(interface).or_default().insert(format!("it filters what it sends ({kind})"));
        }
        Some(())
    }
}

fn dump(kind: u16, header: &[u8]) -> Messages {
    let mut request = Messages::default();
    request.push_message(kind, NLM_F_DUMP, 1, header, &[]);
    request
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).trim_end_matches('\0').to_owned()
}

/// Returns the words for a rule beside the three that the kernel makes (ip-rule(8)).
fn unusual_rule(message: &Message<'_>) -> Option<String> {
    // struct fib_rule_hdr: family, dst_len, src_len, tos, table, 2 reserved, action, flags (4).
    let [_, to, from, tos, table, _, _, action] = *message.body.first_chunk::<8>()?;
    let (mut priority, mut table, mut has_selector) = (0, u32::from(table), to | from | tos != 0);
    for (kind, value) in attributes(message.body.get(12..)?) {
        match kind {
            FRA_PRIORITY => priority = u32_at(value, 0)?,
            FRA_TABLE => table = u32_at(value, 0)?,
            FRA_PROTOCOL => {}
            FRA_SUPPRESS_PREFIXLEN if u32_at(value, 0)? == u32::MAX => {}
            _ => has_selector = true,
        }
    }
    let is_usual = matches!((priority, table), (0, 255) | (32766, 254) | (32767, 253));
    (has_selector || !is_usual || action != FR_ACT_TO_TBL)
        .then(|| format!("the policy rule with priority {priority}"))
}

/// `FR_ACT_TO_TBL` (linux/fib_rules.h): the rule names a table.
const FR_ACT_TO_TBL: u8 = 1;

/// The settings of an interface that decide on forwarding.
#[derive(Clone, Copy, Debug)]
struct Setting {
    interface: u32,
    forwards: bool,
    source_check: u32,
}

fn setting(message: &Message<'_>) -> Option<Setting> {
    let mut setting = Setting { interface: 0, forwards: true, source_check: 0 };
    for (kind, value) in attributes(message.body.get(4..)?) {
        match kind {
            NETCONFA_IFINDEX => setting.interface = u32_at(value, 0)?,
            NETCONFA_FORWARDING => setting.forwards = u32_at(value, 0)? != 0,
            NETCONFA_RP_FILTER => setting.source_check = u32_at(value, 0)?,
            _ => {}
        }
    }
    (setting.interface != 0).then_some(setting)
}
