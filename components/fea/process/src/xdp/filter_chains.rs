//! The packet filter (nftables) and its chains on the way of forwarded packets. The fast path does not run them.

use crate::linux::netlink::decode::{Message, attributes};
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::NLM_F_DUMP;
use crate::linux::netlink::socket::Socket;
use sluice_base::Family;
use sluice_fea::xdp::obstacles::{FilterChain, Hook, Obstacles};
use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;

/// `NFNL_SUBSYS_NFTABLES` (linux/netfilter/nfnetlink.h), in the upper octet of a message's type.
const SUBSYSTEM: u16 = 10 << 8;
/// `NFT_MSG_NEWCHAIN`, `NFT_MSG_GETCHAIN`, `NFT_MSG_NEWRULE`, `NFT_MSG_GETRULE` (linux/netfilter/nf_tables.h).
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
const GET_CHAIN: u16 = SUBSYSTEM | 4;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const GET_RULE: u16 = SUBSYSTEM | 7;
/// `NFTA_CHAIN_TABLE`, `NFTA_CHAIN_NAME`, `NFTA_CHAIN_HOOK`, `NFTA_CHAIN_POLICY`.
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
/// `NFTA_HOOK_HOOKNUM`.
const HOOK_NUMBER: u16 = 1;
/// `NFTA_RULE_TABLE`, `NFTA_RULE_CHAIN`.
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
/// `NF_INET_LOCAL_IN` and `NF_INET_LOCAL_OUT`: hooks that forwarded packets do not pass.
const LOCAL_HOOKS: [u32; 2] = [1, 3];
/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
/// `NFPROTO_INET`, `NFPROTO_IPV4`, `NFPROTO_NETDEV`, `NFPROTO_IPV6` (linux/netfilter.h).
const INET: u8 = 1;
const IPV4: u8 = 2;
const NETDEV: u8 = 5;
const IPV6: u8 = 10;
/// The tables of the legacy packet filter by family.
const LEGACY: [(Family, &str); 2] =
    [(Family::Ipv4, "/proc/net/ip_tables_names"), (Family::Ipv6, "/proc/net/ip6_tables_names")];

/// A chain by the number of its family, its table and its name.
type Key = (u8, Vec<u8>, Vec<u8>);

/// Reads the chains at hooks, and takes them in as obstacles. A kernel without the packet filter has no chains.
///
/// # Errors
///
/// If the kernel does not answer.
pub fn read(obstacles: &mut Obstacles) -> io::Result<()> {
    for (family, path) in LEGACY {
        if std::fs::read(path).is_ok_and(|names| !names.is_empty()) {
            obstacles.note_legacy_filter(family);
        }
    }
    match read_chains(obstacles) {
        Err(error) if is_absent(&error) => Ok(()),
        result => result,
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT)
    )
}

fn read_chains(obstacles: &mut Obstacles) -> io::Result<()> {
    let socket = Socket::open_to_filter()?;
    let (mut chains, mut with_rules) = (Vec::new(), BTreeSet::new());
    socket.request(&dump(GET_CHAIN), |message| {
        chains.extend(base_chain(message));
        ControlFlow::Continue(())
    })?;
    socket.request(&dump(GET_RULE), |message| {
        with_rules.extend(chain_of_rule(message));
        ControlFlow::Continue(())
    })?;
    for (key, mut chain) in chains {
        chain.has_rules = with_rules.contains(&key);
        obstacles.note_chain(&chain);
    }
    Ok(())
}

fn dump(kind: u16) -> Messages {
    let mut request = Messages::default();
    // struct nfgenmsg: family (all), version, 2 octets of the subsystem's own.
    request.push_message(kind, NLM_F_DUMP, 1, &[0; 4], &[]);
    request
}

/// Returns a text attribute without the zero octet at its end.
fn name(value: &[u8]) -> Vec<u8> {
    value.split(|octet| *octet == 0).next().unwrap_or_default().to_vec()
}

fn network_u32(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|octets| u32::from_be_bytes(*octets))
}

/// Returns a chain at a hook, not yet known to have rules. Chains of bridges and ARP are of no interest.
fn base_chain(message: &Message<'_>) -> Option<(Key, FilterChain)> {
    if message.kind != NEW_CHAIN {
        return None;
    }
    let protocol = *message.body.first()?;
    let (mut table, mut chain, mut hook, mut accepts) = (Vec::new(), Vec::new(), None, true);
    for (kind, value) in attributes(message.body.get(4..)?) {
        match kind {
            CHAIN_TABLE => table = name(value),
            CHAIN_NAME => chain = name(value),
            CHAIN_HOOK => {
                hook = attributes(value).find(|(kind, _)| *kind == HOOK_NUMBER).map(|(_, value)| value);
            }
            CHAIN_POLICY => accepts = network_u32(value)? == ACCEPT,
            _ => {}
        }
    }
    let number = network_u32(hook?)?;
    let (family, hook) = match protocol {
        INET | IPV4 | IPV6 if LOCAL_HOOKS.contains(&number) => (None, Hook::Local),
        IPV4 => (Some(Family::Ipv4), Hook::Forwarded),
        IPV6 => (Some(Family::Ipv6), Hook::Forwarded),
        INET | NETDEV => (None, Hook::Forwarded),
        _ => return None,
    };
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let found =
        FilterChain { table: text(&table), name: text(&chain), family, hook, accepts, has_rules: false };
    Some(((protocol, table, chain), found))
}

fn chain_of_rule(message: &Message<'_>) -> Option<Key> {
    if message.kind != NEW_RULE {
        return None;
    }
    let protocol = *message.body.first()?;
    let (mut table, mut chain) = (Vec::new(), Vec::new());
    for (kind, value) in attributes(message.body.get(4..)?) {
        match kind {
            RULE_TABLE => table = name(value),
            RULE_CHAIN => chain = name(value),
            _ => {}
        }
    }
    Some((protocol, table, chain))
}
