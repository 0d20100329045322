//! The host's settings that may be obstacles to the fast path, read from the kernel.

use super::{filter_chains, receivers};
use crate::linux::netlink::decode::{Message, attributes, u32_at};
use crate::linux::netlink::encode::{Messages, family as number_of};
use crate::linux::netlink::number::*;
use crate::linux::netlink::socket::Socket;
use sluice_base::{Family, InterfaceIndex, TableId};
use sluice_fea::xdp::obstacles::{FamilySettings, Obstacles, PolicyRule};
use std::io;
use std::ops::ControlFlow;

/// Reads the obstacles of this thread's network namespace.
///
/// # Errors
///
/// If the kernel does not answer.
pub fn read() -> io::Result<Obstacles> {
    let mut obstacles = Obstacles::default();
    let socket = Socket::open()?;
    each(&socket, RTM_GETLINK, &[0; 16], |message| link(message, &mut obstacles))?;
    for family in Family::ALL {
        let number = number_of(family) as u8;
        let header = [number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        each(&socket, RTM_GETRULE, &header, |message| {
            obstacles.note_rule(family, &rule(message)?);
            Some(())
        })?;
        let mut settings = Vec::new();
        // The header is one octet, padded to four.
        each(&socket, RTM_GETNETCONF, &[number, 0, 0, 0], |message| {
            settings.push(setting(message)?);
            Some(())
        })?;
        note_settings(&settings, family, &mut obstacles);
    }
    each(&socket, RTM_GETQDISC, &[0; 20], |message| {
        let interface = InterfaceIndex::new(u32_at(message.body, 4)?)?;
        let (_, kind) = attributes(message.body.get(20..)?).find(|(kind, _)| *kind == TCA_KIND)?;
        obstacles.note_qdisc(interface, &text(kind));
        Some(())
    })?;
    filter_chains::read(&mut obstacles)?;
    receivers::read(&mut obstacles)?;
    Ok(obstacles)
}

/// Requests all objects of a kind, and passes each to `take`. Messages that are not understood are skipped.
fn each(
    socket: &Socket,
    kind: u16,
    header: &[u8],
    mut take: impl FnMut(&Message<'_>) -> Option<()>,
) -> io::Result<()> {
    let mut request = Messages::default();
    request.push_message(kind, NLM_F_DUMP, 1, header, &[]);
    socket.request(&request, |message| {
        let _ = take(message);
        ControlFlow::Continue(())
    })
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).trim_end_matches('\0').to_owned()
}

fn link(message: &Message<'_>, obstacles: &mut Obstacles) -> Option<()> {
    let interface = InterfaceIndex::new(u32_at(message.body, 4)?)?;
    for (kind, value) in attributes(message.body.get(16..)?) {
        match kind {
            IFLA_QDISC => obstacles.note_root_qdisc(interface, &text(value)),
            IFLA_MASTER => {
                let master = u32_at(value, 0)?;
                let name = nix::net::if_::if_indextoname(master);
                let name = name.map_or_else(|_| master.to_string(), |n| n.to_string_lossy().into_owned());
                obstacles.note_master(interface, &name);
            }
            _ => {}
        }
    }
    Some(())
}

fn rule(message: &Message<'_>) -> Option<PolicyRule> {
    // struct fib_rule_hdr: family, dst_len, src_len, tos, table, 2 reserved, action, flags (4).
    let [_, to, from, tos, table, _, _, action] = *message.body.first_chunk::<8>()?;
    let table = TableId(table.into());
    let (looks_up, selects) = (action == FR_ACT_TO_TBL, to | from | tos != 0);
    let mut rule = PolicyRule { priority: 0, table, looks_up, selects };
    for (kind, value) in attributes(message.body.get(12..)?) {
        match kind {
            FRA_PRIORITY => rule.priority = u32_at(value, 0)?,
            FRA_TABLE => rule.table = TableId(u32_at(value, 0)?),
            FRA_PROTOCOL => {}
            FRA_SUPPRESS_PREFIXLEN if u32_at(value, 0)? == u32::MAX => {}
            _ => rule.selects = true,
        }
    }
    Some(rule)
}

/// The settings of an interface, or of the host (`NETCONFA_IFINDEX_ALL`), for a family.
type Setting = (u32, FamilySettings);

fn setting(message: &Message<'_>) -> Option<Setting> {
    let (mut interface, mut settings) = (None, FamilySettings { forwards: true, source_check: 0 });
    for (kind, value) in attributes(message.body.get(4..)?) {
        match kind {
            NETCONFA_IFINDEX => interface = u32_at(value, 0),
            NETCONFA_FORWARDING => settings.forwards = u32_at(value, 0)? != 0,
            NETCONFA_RP_FILTER => settings.source_check = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some((interface?, settings))
}

fn note_settings(settings: &[Setting], family: Family, obstacles: &mut Obstacles) {
    let host = settings.iter().find(|(interface, _)| *interface == NETCONFA_IFINDEX_ALL);
    let source_check = host.map_or(0, |(_, settings)| settings.source_check);
    for (interface, settings) in settings {
        // The host's settings and those of new interfaces have negative numbers.
        if let Some(interface) = i32::try_from(*interface).ok().and(InterfaceIndex::new(*interface)) {
            let source_check = settings.source_check.max(source_check);
            obstacles.note_settings(interface, family, FamilySettings { source_check, ..*settings });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bodies_do_harm(kind in 16u16..100, body in proptest::collection::vec(any::<u8>(), 0..120)) {
            let message = Message { kind, flags: 0, sequence: 0, body: &body };
            let _ = (rule(&message), setting(&message), link(&message, &mut Obstacles::default()));
        }
    }
}
