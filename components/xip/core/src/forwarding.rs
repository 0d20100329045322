//! A packet's way through this host: decisions on its rows, copies, local delivery, and messages to its sender.

use crate::answers::Answers;
use crate::cache::Lines;
use crate::io::{Output, Pong, PongKind};
use crate::links::Links;
use crate::ports::Port;
use crate::row::Row;
use crate::waiting::{Arrival, WaitingPacket, WaitingPackets};
use crate::walk::{DropReason, PacketFacts, Routed, RowError, Rows, follow};
use crate::wire::header::next_header;
use crate::wire::xcmp::{self, Echo, Message, Quote};
use crate::wire::{Dag, ETHERTYPE_XIP, LinkDestination, Packet, PacketHead, PacketMut, udp};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{Instant, Xid};
use sluice_machine::Outbox;

/// Messages to senders in a second.
const MESSAGES: u64 = 100;
/// The largest packet in a tunnel: a UDP datagram's content over IPv4.
const TUNNEL_MTU: usize = 65_507;
/// Copies of copies that a packet may cause.
const MOST_COPIES: usize = 256;

/// Counts of packets by what became of them.
#[derive(Clone, Debug, Default)]
pub struct PacketCounts(BTreeMap<&'static str, u64>);

impl PacketCounts {
    fn count(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// Returns the counts with their names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// Returns a count; 0 for a name that was not counted.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// The packet path of this host.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    counts: PacketCounts,
    /// True if XCMP messages are sent.
    pub(crate) has_xcmp: bool,
    /// The second in which messages are counted, and their number.
    messages: (u64, u64),
    /// Packets whose decision is pending.
    pub(crate) waiting: WaitingPackets,
}

/// The state that a packet's way needs.
pub(crate) struct Context<'a, L> {
    pub(crate) now: Instant,
    pub(crate) answers: &'a mut Answers<L>,
    pub(crate) links: &'a Links,
    /// This host's address.
    pub(crate) own: Dag,
    /// The number of answers that the packet has waited for.
    pub(crate) waits: u8,
}

struct PacketRows<'a, 'b>(&'b mut PacketMut<'a>);

impl Rows for PacketRows<'_, '_> {
    fn row(&self, is_input: bool) -> Result<Row, RowError> {
        let packet = self.0.packet().map_err(|_| RowError::Malformed)?;
        packet.row(is_input).map_err(|error| match error {
            crate::wire::RowError::AtSink => RowError::AtSink,
            crate::wire::RowError::Edges(_) => RowError::Malformed,
        })
    }

    fn select(&mut self, edge: u8) {
        // The row was valid when it was decided on.
        let _ = self.0.select(edge);
    }

    fn row_count(&self) -> usize {
        self.0.packet().map_or(0, |packet| packet.num_dst())
    }
}

fn name_of(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Row(RowError::AtSink) => "at-sink",
        DropReason::Row(RowError::Malformed) => "bad-row",
        DropReason::Unreachable => "not-reached",
        DropReason::HopLimit => "hop-limit",
        DropReason::TooBig => "too-big",
        DropReason::Unsupported => "not-supported",
        DropReason::Asked => "dropped",
        DropReason::TooManyRows => "too-many-rows",
    }
}

impl Forwarding {
    /// Returns the counts.
    pub fn counts(&self) -> &PacketCounts {
        &self.counts
    }

    /// Routes a packet that came from a device or a tunnel.
    pub(crate) fn receive<L: Lines>(
        &mut self,
        context: &mut Context<'_, L>,
        link: LinkDestination,
        octets: Vec<u8>,
        out: &mut Outbox<Output>,
    ) {
        match Packet::receive(link, &octets) {
            Ok(_) if link == LinkDestination::Group => self.route(context, octets, Arrival::ToGroup, out),
            Ok(_) => self.route(context, octets, Arrival::ToThisHost, out),
            Err(error) => self.counts.count(error.name()),
        }
    }

    /// Routes a packet, its copies, and the messages that both cause.
    pub(crate) fn route<L: Lines>(
        &mut self,
        context: &mut Context<'_, L>,
        octets: Vec<u8>,
        arrival: Arrival,
        out: &mut Outbox<Output>,
    ) {
        let mut waiting = alloc::vec![(octets, arrival)];
        let mut left = MOST_COPIES;
        while let Some((octets, arrival)) = waiting.pop() {
            if left == 0 {
                self.counts.count("too-many-copies");
                continue;
            }
            left -= 1;
            self.route_one(context, octets, arrival, &mut waiting, out);
        }
    }

    fn route_one<L: Lines>(
        &mut self,
        context: &mut Context<'_, L>,
        mut octets: Vec<u8>,
        arrival: Arrival,
        waiting: &mut Vec<(Vec<u8>, Arrival)>,
        out: &mut Outbox<Output>,
    ) {
        let Ok(mut packet) = PacketMut::parse(&mut octets) else { return self.counts.count("malformed") };
        let length = packet.octets().len();
        let hop_limit = packet.packet().map_or(0, |packet| packet.hop_limit());
        let is_input = arrival != Arrival::Made;
        let facts = PacketFacts { is_input, hop_limit, octets: length };
        let Context { now, answers, links, .. } = context;
        let routed = follow(
            &mut PacketRows(&mut packet),
            facts,
            |row| answers.answer(*now, row),
            |port| mtu(links, port),
        );
        match routed {
            // No errors either: all hosts of the group would report.
            Routed::Send { .. }
            | Routed::Replicate { .. }
            | Routed::Drop(DropReason::Unreachable | DropReason::HopLimit)
                if arrival == Arrival::ToGroup =>
            {
                self.counts.count("group");
            }
            Routed::Send { port, .. } => {
                // The hop limit was above 0, or the packet was made here.
                let _ = is_input && packet.decrement_hop_limit();
                octets.truncate(length);
                self.send(context, port, octets, out);
            }
            Routed::Replicate { ports, local, .. } => {
                let _ = is_input && packet.decrement_hop_limit();
                let ports = context.answers.router().ports().set(ports).unwrap_or_default().to_vec();
                if let Some(edge) = local {
                    let mut copy = packet.octets().to_vec();
                    let is_selected =
                        PacketMut::parse(&mut copy).is_ok_and(|mut copy| copy.select(edge).is_ok());
                    let is_at_sink = Packet::parse(&copy).is_ok_and(|copy| copy.is_at_sink());
                    if is_selected && is_at_sink {
                        // A filter that is a sink has no socket.
                        self.counts.count("not-supported");
                    } else if is_selected {
                        waiting.push((copy, Arrival::Made));
                    }
                }
                octets.truncate(length);
                for port in ports {
                    if octets.len() > mtu(context.links, port) {
                        self.counts.count("too-big");
                    } else {
                        self.send(context, port, octets.clone(), out);
                    }
                }
            }
            Routed::Deliver(_) | Routed::Drop(DropReason::Unsupported) => {
                let is_delivery = matches!(routed, Routed::Deliver(_));
                octets.truncate(length);
                self.arrive(context, octets, is_delivery, waiting, out);
            }
            Routed::PerPacket(_) => self.counts.count("per-packet"),
            Routed::Unanswered => {
                octets.truncate(length);
                self.wait(context, octets, arrival);
            }
            Routed::Drop(reason) => {
                self.counts.count(name_of(reason));
                let kind = match reason {
                    DropReason::Unreachable => Some(PongKind::Unreachable),
                    DropReason::HopLimit => Some(PongKind::TimeExceeded),
                    _ => None,
                };
                if let Some(kind) = kind {
                    self.report(context, &octets, kind, waiting);
                }
            }
        }
    }

    /// Keeps a packet until the pending decision on its row can be made.
    fn wait<L: Lines>(&mut self, context: &Context<'_, L>, octets: Vec<u8>, arrival: Arrival) {
        self.counts.count(match context.answers.pending() {
            None => "unanswered",
            Some(_) if context.waits >= WaitingPackets::MOST_WAITS => "waited-too-often",
            Some(xid) => {
                let packet = WaitingPacket { xid, octets, arrival, waits: context.waits };
                if self.waiting.push(packet) { "waited" } else { "no-room-to-wait" }
            }
        });
    }

    /// Takes in a packet at a sink of this host.
    fn arrive<L: Lines>(
        &mut self,
        context: &mut Context<'_, L>,
        octets: Vec<u8>,
        is_delivery: bool,
        waiting: &mut Vec<(Vec<u8>, Arrival)>,
        out: &mut Outbox<Output>,
    ) {
        let Ok(packet) = Packet::parse(&octets) else { return };
        if packet.next_header() == next_header::XCMP {
            return self.message(context, &packet, waiting, out);
        }
        if !is_delivery {
            return self.counts.count("not-supported");
        }
        let sink = packet.destination_row(packet.edges_row()).map(|node| node.xid);
        if let Some(xid) = sink {
            self.counts.count("delivered");
            out.push(Output::Deliver { xid, octets });
        }
    }

    /// Answers an XCMP message for this host.
    fn message<L: Lines>(
        &mut self,
        context: &mut Context<'_, L>,
        packet: &Packet<'_>,
        waiting: &mut Vec<(Vec<u8>, Arrival)>,
        out: &mut Outbox<Output>,
    ) {
        let message = match Message::decode(packet.payload()) {
            Ok(message) => message,
            Err(error) => return self.counts.count(error.name()),
        };
        match message {
            Message::Echo(echo) => {
                if self.may_send(context.now) && xcmp::may_report(packet) {
                    let mut answer = Vec::new();
                    if xcmp::put_answer(packet, context.own, &Message::EchoReply(echo), &mut answer).is_ok() {
                        self.counts.count("echo-answered");
                        waiting.push((answer, Arrival::Made));
                    }
                }
            }
            Message::EchoReply(Echo { identifier, sequence, .. }) => {
                let (from, kind) = (packet.source(), PongKind::Reply);
                let pong = Pong { identifier, sequence, from, kind, arrived: Dag::EMPTY };
                out.push(Output::Pong(Box::new(pong)));
            }
            Message::Unreachable(quote) => self.quoted(packet, quote, PongKind::Unreachable, out),
            Message::TimeExceeded(quote) => self.quoted(packet, quote, PongKind::TimeExceeded, out),
        }
    }

    /// Finds the echo request that an error quotes.
    fn quoted(&mut self, packet: &Packet<'_>, quote: Quote<'_>, kind: PongKind, out: &mut Outbox<Output>) {
        let Some((arrived, echo)) = quoted_echo(quote.packet) else {
            return self.counts.count("foreign-error");
        };
        let (identifier, sequence) = echo;
        let pong = Pong { identifier, sequence, from: packet.source(), kind, arrived };
        out.push(Output::Pong(Box::new(pong)));
    }

    fn may_send(&mut self, now: Instant) -> bool {
        if !self.has_xcmp {
            return false;
        }
        let second = now.saturating_since(Instant::ZERO).as_secs();
        if self.messages.0 != second {
            self.messages = (second, 0);
        }
        self.messages.1 += 1;
        self.messages.1 <= MESSAGES
    }

    /// Sends the sender of a packet a message about it.
    fn report<L>(
        &mut self,
        context: &Context<'_, L>,
        octets: &[u8],
        kind: PongKind,
        waiting: &mut Vec<(Vec<u8>, Arrival)>,
    ) {
        let Ok(packet) = Packet::parse(octets) else { return };
        if !xcmp::may_report(&packet) || !self.may_send(context.now) {
            return;
        }
        let quote = Quote::of(&packet);
        let message = match kind {
            PongKind::TimeExceeded => Message::TimeExceeded(quote),
            _ => Message::Unreachable(quote),
        };
        let mut answer = Vec::new();
        if xcmp::put_answer(&packet, context.own, &message, &mut answer).is_ok() {
            self.counts.count("reported");
            waiting.push((answer, Arrival::Made));
        }
    }

    fn send<L: Lines>(
        &mut self,
        context: &Context<'_, L>,
        port: Port,
        octets: Vec<u8>,
        out: &mut Outbox<Output>,
    ) {
        match port {
            Port::Neighbor(neighbor) => match context.links.member(neighbor) {
                Some(member) => {
                    self.counts.count("sent");
                    out.push(Output::Send { to: member.station, ether_type: ETHERTYPE_XIP, octets });
                }
                None => self.counts.count("no-member"),
            },
            Port::Tunnel(tunnel) => {
                let far_end: Option<Xid> = context.answers.router().ports().far_end(tunnel);
                match far_end.and_then(|xid| udp::end(xid).ok()) {
                    Some(to) => {
                        self.counts.count("tunneled");
                        out.push(Output::Datagram { to, octets });
                    }
                    None => self.counts.count("no-tunnel"),
                }
            }
        }
    }

    /// Makes an echo request.
    pub(crate) fn ping(own: Dag, ping: &crate::io::Ping) -> Option<Vec<u8>> {
        let data = alloc::vec![0; usize::from(ping.octets)];
        let mut payload = Vec::new();
        Message::Echo(Echo { identifier: ping.identifier, sequence: ping.sequence, data: &data })
            .put(&mut payload);
        let head = PacketHead {
            next_header: next_header::XCMP,
            hop_limit: ping.hop_limit,
            ..PacketHead::new(ping.destination, own)
        };
        let mut octets = Vec::new();
        head.put(&payload, &mut octets).ok()?;
        Some(octets)
    }
}

fn mtu(links: &Links, port: Port) -> usize {
    match port {
        Port::Neighbor(neighbor) => links.member(neighbor).map_or(usize::MAX, |member| member.mtu as usize),
        Port::Tunnel(_) => TUNNEL_MTU,
    }
}

/// Returns the address, with its marks, and identifier and sequence number of an echo request at the beginning of a quoted packet,
/// whose end may be missing.
fn quoted_echo(octets: &[u8]) -> Option<(Dag, (u16, u16))> {
    let rows = usize::from(*octets.get(5)?) + usize::from(*octets.get(6)?);
    let header = 8 + 28 * rows;
    let mut whole = octets.get(..header)?.to_vec();
    // The quote may lack the payload's end.
    if let Some(length) = whole.get_mut(2..4) {
        length.copy_from_slice(&[0, 0]);
    }
    let packet = Packet::parse(&whole).ok()?;
    let [kind, _, _, _, a, b, c, d] = *octets.get(header..)?.first_chunk::<8>()?;
    let is_echo = packet.next_header() == next_header::XCMP && kind == 8;
    is_echo.then(|| (packet.destination(), (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))))
}
