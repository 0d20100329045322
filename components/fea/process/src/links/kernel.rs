//! Virtual links and neighbors in the kernel: steps to netlink messages, and the kernel's state.

use crate::linux::netlink::decode::{self, Message, address, attributes, u32_at};
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::*;
use crate::linux::netlink::socket::{DATAGRAM, Socket};
use crate::xdp::facts;
use sluice_base::{Family, InterfaceAddress, InterfaceIndex, Mac};
use sluice_fea::Notice;
use sluice_fea::engine::PROTOCOL;
use sluice_fea::links::{FoundLink, MACVLAN, Mark, Neighbor, Step};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;

/// Messages in a datagram.
const BATCH: usize = 128;
/// The requests by which the kernel's reports of wanted neighbors come a second apart, before packets are refused.
const REPORTS: u32 = 3;

/// Returns the links of the kernel with addresses.
pub(super) fn links() -> io::Result<Vec<FoundLink>> {
    let socket = Socket::open()?;
    let mut found: BTreeMap<InterfaceIndex, FoundLink> = BTreeMap::new();
    let mut request = Messages::default();
    request.push_dump(RTM_GETLINK, None, 1);
    socket.request(&request, |message| {
        found.extend(link(message).map(|link| (link.index, link)));
        ControlFlow::Continue(())
    })?;
    let mut request = Messages::default();
    request.push_dump(RTM_GETADDR, None, 1);
    // Addresses of the operator's configuration are the core's.
    socket.request(&request, |message| {
        if let Some((index, address)) = own_address(message)
            && let Some(link) = found.get_mut(&index)
        {
            link.addresses.insert(address);
        }
        ControlFlow::Continue(())
    })?;
    Ok(found.into_values().collect())
}

fn link(message: &Message<'_>) -> Option<FoundLink> {
    let Some(Notice::LinkIs(link)) = decode::notice(message) else { return None };
    let (mut parent, mut alias, mut mtu) = (None, None, 0);
    for (kind, value) in attributes(message.body.get(16..)?) {
        match kind {
            IFLA_LINK => parent = InterfaceIndex::new(u32_at(value, 0)?),
            IFLA_MTU => mtu = u32_at(value, 0)?,
            IFLA_IFALIAS => alias = Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()),
            _ => {}
        }
    }
    Some(FoundLink {
        index: link.index,
        name: link.name,
        mark: alias.and_then(|alias| Mark::parse(&alias)),
        parent,
        mac: link.mac,
        is_up: link.admin_up,
        mtu,
        addresses: Default::default(),
    })
}

fn own_address(message: &Message<'_>) -> Option<(InterfaceIndex, InterfaceAddress)> {
    let Some(Notice::AddressIs(index, address, is_configured)) = decode::notice(message) else { return None };
    let is_of_link = matches!(address.addr, IpAddr::V6(addr) if addr.is_unicast_link_local());
    (!is_configured && !is_of_link).then_some((index, address))
}

/// Carries out a step.
///
/// # Errors
///
/// The kernel's refusal.
pub(super) fn carry_out(step: &Step) -> io::Result<()> {
    let requests = match step {
        Step::Remove(index) => vec![link_message(RTM_DELLINK, 0, Some(*index), false, &[])],
        Step::Make { name, parent, mac, mark } => vec![make(name, *parent, *mac), marked(name, mark)],
        Step::Raise(index, is_silent) => {
            let asks = is_silent.then(|| Family::ALL.map(|of| told_neighbors(*index, of)));
            let raise = link_message(RTM_NEWLINK, 0, Some(*index), true, &[]);
            asks.into_iter().flatten().chain([raise]).collect()
        }
        Step::SetMtu(index, mtu) => {
            vec![link_message(RTM_NEWLINK, 0, Some(*index), false, &[(IFLA_MTU, &mtu.to_ne_bytes())])]
        }
        Step::Add(index, address) => {
            vec![address_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, *index, address)]
        }
        Step::Take(index, address) => vec![address_message(RTM_DELADDR, 0, *index, address)],
    };
    let socket = Socket::open()?;
    requests.iter().try_for_each(|request| socket.request(request, |_| ControlFlow::Continue(())))
}

/// Makes a message about a link: struct ifinfomsg, and attributes.
fn link_message(
    kind: u16,
    flags: u16,
    index: Option<InterfaceIndex>,
    raise: bool,
    attributes: &[(u16, &[u8])],
) -> Messages {
    // Without a change of flags, the kernel leaves all flags.
    let up = if raise { libc::IFF_UP as u32 } else { 0 };
    let index = index.map_or(0, InterfaceIndex::number);
    let words = [0, index, up, up];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut message = Messages::default();
    message.push_message(kind, flags | NLM_F_ACK, 1, &header, attributes);
    message
}

fn make(name: &str, parent: InterfaceIndex, mac: Mac) -> Messages {
    let mode = nested(&[(IFLA_MACVLAN_MODE, &MACVLAN_MODE_PRIVATE.to_ne_bytes())]);
    let info = nested(&[(IFLA_INFO_KIND, MACVLAN.as_bytes()), (IFLA_INFO_DATA, &mode)]);
    let name = [name.as_bytes(), &[0]].concat();
    let attributes: [(u16, &[u8]); 4] = [
        (IFLA_IFNAME, &name),
        (IFLA_LINK, &parent.number().to_ne_bytes()),
        (IFLA_ADDRESS, &mac.0),
        (IFLA_LINKINFO, &info),
    ];
    link_message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, None, false, &attributes)
}

/// Makes the message that marks a link; the kernel accepts no mark at the creation of a link.
fn marked(name: &str, mark: &Mark) -> Messages {
    let (name, alias) = ([name.as_bytes(), &[0]].concat(), mark.to_string());
    link_message(RTM_NEWLINK, 0, None, false, &[(IFLA_IFNAME, &name), (IFLA_IFALIAS, alias.as_bytes())])
}

/// Returns attributes as the value of an attribute.
fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (kind, value) in attributes {
        octets.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        octets.extend_from_slice(&kind.to_ne_bytes());
        octets.extend_from_slice(value);
        octets.resize(octets.len().next_multiple_of(4), 0);
    }
    octets
}

/// Makes the message by which the kernel reports wanted neighbors to programs, and sends no requests on the link.
fn told_neighbors(index: InterfaceIndex, of: Family) -> Messages {
    let (name, number) = match of {
        Family::Ipv4 => (&b"arp_cache\0"[..], libc::AF_INET),
        Family::Ipv6 => (&b"ndisc_cache\0"[..], libc::AF_INET6),
    };
    let none = 0u32.to_ne_bytes();
    let settings = nested(&[
        (NDTPA_IFINDEX, &index.number().to_ne_bytes()),
        (NDTPA_APP_PROBES, &REPORTS.to_ne_bytes()),
        (NDTPA_UCAST_PROBES, &none),
        (NDTPA_MCAST_PROBES, &none),
    ]);
    let mut message = Messages::default();
    let attributes = [(NDTA_NAME, name), (NDTA_PARMS, &settings[..])];
    message.push_message(RTM_SETNEIGHTBL, NLM_F_ACK, 1, &[number as u8, 0, 0, 0], &attributes);
    message
}

fn address_message(kind: u16, flags: u16, index: InterfaceIndex, address: &InterfaceAddress) -> Messages {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (local, far) = (octets(address.addr), octets(address.peer.unwrap_or(address.addr)));
    let family = if address.addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let number = index.number().to_ne_bytes();
    let header = [&[family, address.prefix_len, 0, 0][..], &number].concat();
    let no_detection = IFA_F_NODAD.to_ne_bytes();
    let attributes = [(IFA_LOCAL, &local[..]), (IFA_ADDRESS, &far), (IFA_FLAGS, &no_detection)];
    let mut message = Messages::default();
    message.push_message(kind, flags | NLM_F_ACK, 1, &header, &attributes);
    message
}

/// A neighbor of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KernelNeighbor {
    pub(super) link: InterfaceIndex,
    pub(super) address: IpAddr,
    pub(super) state: KernelState,
    /// True if an FEA made the entry.
    pub(super) is_own: bool,
}

/// The state of a neighbor of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KernelState {
    Known(Mac),
    Gone,
    Wanted,
}

/// Reads a message about a neighbor; `None` for a message without interest or not understood.
pub(super) fn neighbor(message: &Message<'_>) -> Option<KernelNeighbor> {
    let body = message.body;
    let link = InterfaceIndex::new(u32_at(body, 4)?)?;
    let state = decode::u16_at(body, 8)?;
    let (mut of, mut mac, mut is_own) = (None, None, false);
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            NDA_DST => of = address(value),
            NDA_LLADDR => mac = value.first_chunk::<6>().filter(|_| value.len() == 6).copied().map(Mac),
            NDA_PROTOCOL => is_own = value.first() == Some(&PROTOCOL),
            _ => {}
        }
    }
    let is_usable = state & NUD_VALID != 0;
    let state = match (message.kind, mac) {
        (RTM_GETNEIGH, _) => KernelState::Wanted,
        (RTM_NEWNEIGH, Some(mac)) if is_usable => KernelState::Known(mac),
        (RTM_NEWNEIGH, _) if state & NUD_FAILED != 0 => KernelState::Gone,
        (RTM_DELNEIGH, _) => KernelState::Gone,
        _ => return None,
    };
    Some(KernelNeighbor { link, address: of?, state, is_own })
}

/// Returns the kernel's neighbors.
pub(super) fn neighbors() -> io::Result<Vec<KernelNeighbor>> {
    let socket = Socket::open()?;
    let mut found = Vec::new();
    for family in Family::ALL {
        let mut request = Messages::default();
        facts::push_neighbors(&mut request, family);
        socket.request(&request, |message| {
            found.extend(neighbor(message));
            ControlFlow::Continue(())
        })?;
    }
    Ok(found)
}

/// Sets neighbors, or removes neighbors with `None`. Returns the number of refusals.
pub(super) fn set_neighbors(
    changes: impl IntoIterator<Item = (InterfaceIndex, IpAddr, Option<Neighbor>)>,
) -> io::Result<usize> {
    let socket = Socket::open()?;
    let (mut messages, mut buffer, mut refused) = (Messages::default(), vec![0; DATAGRAM], 0);
    let mut changes = changes.into_iter().peekable();
    while let Some((link, address, wanted)) = changes.next() {
        facts::push_wanted(&mut messages, link, address, wanted);
        if messages.len() < BATCH && changes.peek().is_some() {
            continue;
        }
        socket.send(messages.octets())?;
        messages.clear();
        while let Some(datagram) = socket.receive(&mut buffer)? {
            let errors = decode::messages(datagram).filter_map(|message| decode::error(&message));
            refused += errors.filter(|(code, _)| ![0, libc::ENOENT].contains(code)).count();
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::netlink::decode::messages;
    use proptest::prelude::*;

    fn states(octets: &[u8]) -> Vec<(IpAddr, KernelState, bool)> {
        let read = messages(octets).filter_map(|message| neighbor(&message));
        read.map(|found| (found.address, found.state, found.is_own)).collect()
    }

    #[test]
    fn neighbors_are_known_gone_or_wanted() {
        let address: IpAddr = "10.0.0.2".parse().expect("an address");
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let notice = |kind, state: u16, more: &[(u16, &[u8])]| {
            let [low, high] = state.to_ne_bytes();
            let header = [2, 0, 0, 0, 3, 0, 0, 0, low, high, 0, 0];
            let attributes = [&[(NDA_DST, &[10, 0, 0, 2][..])], more].concat();
            let mut messages = Messages::default();
            messages.push_message(kind, 0, 1, &header, &attributes);
            states(messages.octets())
        };
        let at: (u16, &[u8]) = (NDA_LLADDR, &mac.0);
        let own: (u16, &[u8]) = (NDA_PROTOCOL, &[PROTOCOL]);
        let known = (address, KernelState::Known(mac), true);
        assert_eq!(notice(RTM_NEWNEIGH, NUD_PERMANENT, &[at, own]), [known]);
        assert_eq!(notice(RTM_NEWNEIGH, NUD_STALE, &[at]), [(address, KernelState::Known(mac), false)]);
        assert_eq!(notice(RTM_NEWNEIGH, NUD_FAILED, &[]), [(address, KernelState::Gone, false)]);
        assert_eq!(notice(RTM_DELNEIGH, NUD_STALE, &[at]), [(address, KernelState::Gone, false)]);
        assert_eq!(notice(RTM_GETNEIGH, 0, &[]), [(address, KernelState::Wanted, false)]);
        // An incomplete entry is no fact.
        assert_eq!(notice(RTM_NEWNEIGH, 1, &[]), []);
    }

    proptest! {
        #[test]
        fn no_bodies_do_harm(kind in 16u16..100, body in proptest::collection::vec(any::<u8>(), 0..120)) {
            let message = Message { kind, flags: 0, sequence: 0, body: &body };
            let _ = (neighbor(&message), link(&message), own_address(&message));
        }
    }
}
