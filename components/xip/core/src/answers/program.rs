//! Answers as the program reads them: a word, and the values that the word names by a number.

use crate::answer::{Action, Answer, NeighborId, PortSetId, TunnelId};
use crate::cache::{AnswerWord, Lines};
use crate::ports::{Port, Ports};
use crate::wire::udp;
use alloc::collections::BTreeMap;
use core::net::SocketAddr;
use sluice_base::InterfaceIndex;
use smallvec::SmallVec;

/// Numbers of the program's actions (`enum xip_action` of `bpf/include/layout.h`).
pub mod action {
    /// This process treats each packet.
    pub const UP: u8 = 0;
    /// Select the edge and go on.
    pub const DIG: u8 = 1;
    /// Send to a neighbor.
    pub const FORWARD: u8 = 2;
    /// Drop, as an entry asks for.
    pub const DROP: u8 = 3;
    /// Drop: no edge leads anywhere.
    pub const UNREACHABLE: u8 = 4;
    /// Drop: the XID does not work in this place.
    pub const UNSUPPORTED: u8 = 5;
    /// Send in a UDP datagram to a tunnel.
    pub const TUNNEL: u8 = 6;
    /// Send a copy to each neighbor of a set.
    pub const COPY: u8 = 7;
}

/// The interfaces of neighbors.
pub type Interfaces = BTreeMap<NeighborId, InterfaceIndex>;

/// Returns an answer as the program reads it, and stores the value that the answer names. Treatments that the program does not know
/// are this process's.
pub fn word(answer: Answer, ports: &Ports, interfaces: &Interfaces, lines: &mut impl Lines) -> AnswerWord {
    let Answer::Chosen { edge, action } = answer else {
        return AnswerWord::new(action::UNREACHABLE, 0, 0);
    };
    let (number, index) = match action {
        Action::Dig => (action::DIG, 0),
        Action::Forward(neighbor) => (action::FORWARD, neighbor.0),
        Action::Drop => (action::DROP, 0),
        Action::Unsupported => (action::UNSUPPORTED, 0),
        Action::Tunnel(tunnel) => tunneled(tunnel, ports, lines),
        Action::Replicate { ports: set, local: false } => copied(set, ports, interfaces, lines),
        Action::Replicate { local: true, .. } | Action::Deliver | Action::PerPacket => (action::UP, 0),
    };
    AnswerWord::new(number, edge, index)
}

fn tunneled(tunnel: TunnelId, ports: &Ports, lines: &mut impl Lines) -> (u8, u32) {
    match ports.far_end(tunnel).map(udp::end) {
        Some(Ok(SocketAddr::V4(end))) if lines.set_tunnel(tunnel, end) => (action::TUNNEL, tunnel.0),
        _ => (action::UP, 0),
    }
}

/// Returns action and index for copies. The only port of a set is a port like any other. The program distinguishes copies by their
/// interface: sets with two neighbors on one interface are this process's, and so are sets with tunnels.
fn copied(set: PortSetId, ports: &Ports, interfaces: &Interfaces, lines: &mut impl Lines) -> (u8, u32) {
    let members = ports.set(set).unwrap_or_default();
    match members {
        [Port::Neighbor(neighbor)] => return (action::FORWARD, neighbor.0),
        [Port::Tunnel(tunnel)] => return tunneled(*tunnel, ports, lines),
        _ => {}
    }
    let mut copies: SmallVec<[(InterfaceIndex, NeighborId); 16]> = SmallVec::new();
    for port in members {
        let Port::Neighbor(neighbor) = port else { return (action::UP, 0) };
        let Some(interface) = interfaces.get(neighbor) else { return (action::UP, 0) };
        if copies.iter().any(|(other, _)| other == interface) {
            return (action::UP, 0);
        }
        copies.push((*interface, *neighbor));
    }
    if lines.set_copies(set, &copies) { (action::COPY, set.0) } else { (action::UP, 0) }
}
