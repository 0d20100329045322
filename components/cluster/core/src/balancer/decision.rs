//! The rules of the program `bpf/balance.bpf.c` in Rust: tests compare both, and simulations run without a kernel.

use crate::balancer::flow;
use crate::balancer::reason::Reason;
use crate::balancer::words::{
    BLOCK, CLASS_BLOCKS, CLASSES, DSCP, INNER, INNERS, KEYS, MEMBERS, Map, NUMBERS, Place, SEED, SEVERAL,
    SILENCE, Words,
};
use crate::balancer::{classes, lines, maglev};
use crate::frames::frame::{InnerMac, Mac};
use crate::frames::header::{Kind, Stamp, VERSION};
use crate::frames::hello::HELLO_LEN;
use crate::frames::sip::{SipKey, sip};
use crate::inventory::ElementId;
use crate::mac::is_inner;
use core::net::IpAddr;

const ETHERNET: usize = 14;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const MOST_TAGS: usize = 2;
/// The rows, and the members, that are tried before all count as silent.
const ROW_STEPS: u32 = 8;
const MEMBER_STEPS: u32 = 64;

/// The treatment of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The chain of programs continues.
    Continue,
    /// The frame is for another station.
    Station,
    /// User space gets the frame.
    Up(Reason),
    /// An authentic hello frame of an element; user space gets the frame, and the program notes the time.
    Hello(ElementId, Stamp),
    /// The frame is dropped.
    Drop(Reason),
    /// The frame leaves by an interface of the given index.
    Send {
        /// The reason.
        reason: Reason,
        /// The interface.
        interface: u32,
        /// The frame's new MAC address: the destination inward, the source outward.
        mac: Mac,
        /// [`Reason::PassedOver`] or [`Reason::AllSilent`], if so.
        besides: Option<Reason>,
    },
}

/// The turns of round robin, which the program keeps for each CPU.
#[derive(Clone, Copy, Default, Debug)]
pub struct Turns {
    /// The turn of each class.
    pub element: [u32; CLASSES],
    /// The turn of the inner interfaces.
    pub inner: u32,
}

/// A frame's place and time.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The index of the incoming interface.
    pub interface: u32,
    /// The frame from the Ethernet header on.
    pub frame: &'a [u8],
    /// Nanoseconds since boot.
    pub now: u64,
}

/// Decides on a frame. The frame's own headers have passed the checks of the root program.
pub fn decide(words: &impl Words, turns: &mut Turns, arrival: Arrival<'_>) -> Decision {
    let settings = Settings(words);
    let load = |word| words.load(Place::new(Map::Interfaces, arrival.interface, word));
    match load(1) & 0xffff_ffff {
        1 => inward(&settings, turns, arrival, load(0)),
        2 => outward(&settings, arrival.frame),
        _ => Decision::Continue,
    }
}

/// The settings as the program reads them.
struct Settings<'w, W>(&'w W);

impl<W: Words> Settings<'_, W> {
    fn word(&self, word: u16) -> u64 {
        self.0.load(Place::new(Map::Settings, 0, word))
    }

    fn seed(&self) -> u64 {
        self.word(SEED)
    }

    fn control(&self) -> u16 {
        (self.word(NUMBERS) >> 32) as u16
    }

    fn is_cluster(&self, ether_type: u16) -> bool {
        let numbers = self.word(NUMBERS);
        let own = [numbers as u16, (numbers >> 16) as u16].map(u16::swap_bytes);
        ether_type != 0 && own.contains(&ether_type)
    }

    /// Returns the inner interface by a number; 0 if there is none.
    fn inner(&self, number: u32) -> u32 {
        let count = (self.word(NUMBERS) >> 48) as u32;
        if count == 0 || count > INNERS as u32 {
            return 0;
        }
        let at = number % count;
        (self.word(INNER + at as u16 / 2) >> (32 * (at % 2))) as u32
    }

    fn class_of(&self, dscp: u8) -> u32 {
        let word = self.word(DSCP + u16::from(dscp) / 8);
        (word >> (8 * (dscp % 8))) as u32 % CLASSES as u32
    }

    fn is_own(&self, address: IpAddr) -> bool {
        lines::has_address(self.0, lines::address_words(address), self.seed())
    }

    fn keys(&self) -> [SipKey; 2] {
        [0, 2].map(|at| [self.word(KEYS + at), self.word(KEYS + at + 1)])
    }
}

fn mac(frame: &[u8], at: usize) -> Option<Mac> {
    frame.get(at..)?.first_chunk().map(|octets| Mac(*octets))
}

fn half(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().map(|octets| u16::from_be_bytes(*octets))
}

/// Returns the EtherType behind the tags, and the packet.
pub(crate) fn behind_tags(frame: &[u8]) -> Option<(u16, &[u8])> {
    let (mut ether_type, mut at) = (half(frame, ETHERNET - 2)?, ETHERNET);
    for _ in 0..MOST_TAGS {
        if TAGS.contains(&ether_type) {
            ether_type = half(frame, at + 2)?;
            at += 4;
        }
    }
    Some((ether_type, frame.get(at..)?))
}

/// Treats a frame of a neighbor. `port` is the word with the port's virtual MAC address and number.
fn inward<W: Words>(
    settings: &Settings<'_, W>,
    turns: &mut Turns,
    arrival: Arrival<'_>,
    port: u64,
) -> Decision {
    let frame = arrival.frame;
    let (virtual_mac, number) = (port & 0xffff_ffff_ffff, (port >> 48) as u16);
    let (Some(to), Some(from)) = (mac(frame, 0), mac(frame, 6)) else { return Decision::Drop(Reason::Short) };
    if !to.is_group() && to.number() != virtual_mac {
        return Decision::Station;
    }
    let Some((ether_type, packet)) = behind_tags(frame) else { return Decision::Drop(Reason::Short) };
    if is_inner(from) || from.number() == virtual_mac || settings.is_cluster(ether_type) {
        return Decision::Drop(Reason::Spoofed);
    }
    let (is_control, hash, dscp) = match ether_type {
        IPV4 => {
            let Some(header) = packet.first_chunk::<20>() else { return Decision::Drop(Reason::Short) };
            (is_control4(settings, header), flow::ipv4(packet, settings.seed()), header[1] >> 2)
        }
        IPV6 => {
            let Some(header) = packet.first_chunk::<40>() else { return Decision::Drop(Reason::Short) };
            let traffic = header[0] << 4 | header[1] >> 4;
            (is_control6(settings, header), flow::ipv6(packet, settings.seed()), traffic >> 2)
        }
        _ => (true, 0, 0),
    };
    if is_control {
        let interface = settings.inner(0);
        return match ElementId::new(settings.control()) {
            None => Decision::Drop(Reason::NoControl),
            Some(_) if interface == 0 => Decision::Drop(Reason::NoInner),
            Some(element) => Decision::Send {
                reason: Reason::Control,
                interface,
                mac: InnerMac { element, port: number }.mac(),
                besides: None,
            },
        };
    }
    let choice = choose(settings, turns, settings.class_of(dscp), hash, arrival.now);
    let Some(element) = ElementId::new(choice.element) else { return Decision::Drop(Reason::NoRouter) };
    if choice.interface == 0 {
        return Decision::Drop(Reason::NoInner);
    }
    let mac = InnerMac { element, port: number }.mac();
    Decision::Send { reason: Reason::Balanced, interface: choice.interface, mac, besides: choice.besides }
}

fn is_control4<W: Words>(settings: &Settings<'_, W>, header: &[u8; 20]) -> bool {
    let [.., a, b, c, d] = *header;
    let is_link = [a, b, c] == [224, 0, 0] || [a, b, c, d] == [255; 4];
    header[9] == 2 || is_link || settings.is_own(IpAddr::from([a, b, c, d]))
}

fn is_control6<W: Words>(settings: &Settings<'_, W>, header: &[u8; 40]) -> bool {
    let Some(to) = header.last_chunk::<16>() else { return false };
    let is_group = to[0] == 0xff && (to[1] & 0xf <= 2 || header[6] == 0);
    let is_link = to[0] == 0xfe && to[1] & 0xc0 == 0x80;
    is_group || is_link || settings.is_own(IpAddr::from(*to))
}

/// A choice; 0 stands for no element and for no interface.
#[derive(Default)]
struct Choice {
    element: u16,
    interface: u32,
    besides: Option<Reason>,
}

fn choose<W: Words>(
    settings: &Settings<'_, W>,
    turns: &mut Turns,
    class: u32,
    hash: u32,
    now: u64,
) -> Choice {
    let load = |class, word| settings.0.load(Place::new(Map::Classes, class, word));
    let class = if load(class, 0) as u32 == classes::OFF { 0 } else { class };
    let (mode, count) = (load(class, 0) as u32, ((load(class, 0) >> 32) as u32).min(MEMBERS as u32));
    if mode == classes::OFF || count == 0 {
        return Choice::default();
    }
    let silence = settings.word(SILENCE);
    let since = (silence != 0).then(|| now.saturating_sub(silence).max(1));
    let is_live = |element: u16| {
        let last_hello = settings.0.load(Place::new(Map::Hellos, element.into(), 0));
        element != 0 && since.is_none_or(|since| last_hello >= since)
    };
    let member = |at: u32| quarter(load(class, 1 + (at / 4) as u16), at);
    let row_element = |row: u32| {
        let (block, at) = (row / BLOCK as u32 % CLASS_BLOCKS as u32, row % BLOCK as u32);
        let place = Place::new(Map::Blocks, class * CLASS_BLOCKS as u32 + block, (at / 4) as u16);
        quarter(settings.0.load(place), at)
    };
    let (first, from, interface, by_row) = if mode == classes::FLOW {
        let row = maglev::row(hash);
        let by_row = (row..row + ROW_STEPS).map(row_element).find(|element| is_live(*element));
        (row_element(row), hash % count, settings.inner(hash & 0xffff), by_row)
    } else {
        let from = turns.element.get_mut(class as usize).map(take_turn).unwrap_or_default() % count;
        let inner = take_turn(&mut turns.inner);
        (member(from), from, settings.inner(inner), None)
    };
    let by_member =
        || (0..MEMBER_STEPS).map(|step| member((from + step) % count)).find(|element| is_live(*element));
    match by_row.or_else(by_member) {
        None => Choice { element: first, interface, besides: Some(Reason::AllSilent) },
        Some(element) => {
            Choice { element, interface, besides: (element != first).then_some(Reason::PassedOver) }
        }
    }
}

/// Returns a turn, and makes the next one.
fn take_turn(turn: &mut u32) -> u32 {
    let taken = *turn;
    *turn = taken.wrapping_add(1);
    taken
}

/// Returns the element at `at` of a word of four.
fn quarter(word: u64, at: u32) -> u16 {
    (word >> (16 * (at % 4))) as u16
}

/// Treats a frame of the interconnect.
fn outward<W: Words>(settings: &Settings<'_, W>, frame: &[u8]) -> Decision {
    let (Some(to), Some(from)) = (mac(frame, 0), mac(frame, 6)) else { return Decision::Drop(Reason::Short) };
    let Some(ether_type) = half(frame, ETHERNET - 2) else { return Decision::Drop(Reason::Short) };
    if settings.is_cluster(ether_type) {
        return hello(settings, frame.get(ETHERNET..).unwrap_or_default());
    }
    if !is_inner(from) {
        return Decision::Continue;
    }
    let [_, _, element @ .., high, low] = from.0;
    let (element, mut port) = (u16::from_be_bytes(element), u16::from_be_bytes([high, low]));
    let is_control = settings.control() != 0 && element == settings.control();
    if !is_control {
        let Some((ether_type, _)) = behind_tags(frame) else { return Decision::Drop(Reason::Short) };
        if to.is_group() || ![IPV4, IPV6].contains(&ether_type) {
            return Decision::Drop(Reason::NotControl);
        }
    }
    if !to.is_group() {
        port = match lines::neighbor(settings.0, to, settings.seed()) {
            0 if !is_control => return Decision::Drop(Reason::NoNeighbor),
            0 | SEVERAL => port,
            known => known,
        };
    }
    let load = |word| settings.0.load(Place::new(Map::Ports, port.into(), word));
    let interface = load(1) as u32;
    if interface == 0 {
        return Decision::Drop(Reason::NoPort);
    }
    let [a, b, c, d, e, f, ..] = load(0).to_le_bytes();
    let reason = if is_control { Reason::FromControl } else { Reason::Returned };
    Decision::Send { reason, interface, mac: Mac([a, b, c, d, e, f]), besides: None }
}

/// Treats the payload of a frame of the cluster.
fn hello<W: Words>(settings: &Settings<'_, W>, octets: &[u8]) -> Decision {
    let Some(octets) = octets.first_chunk::<HELLO_LEN>() else { return Decision::Up(Reason::Announced) };
    if octets[0] != VERSION || octets[1] != Kind::Hello as u8 {
        return Decision::Up(Reason::Announced);
    }
    let (words, _) = octets.as_chunks::<8>();
    let [_, epoch, counter, tag] = words else { return Decision::Up(Reason::Announced) };
    let signed = octets.get(..octets.len() - 8).unwrap_or_default();
    let is_tag = |key: &SipKey| *key != [0, 0] && sip(*key, signed) == u64::from_le_bytes(*tag);
    let is_authentic = settings.keys().iter().any(is_tag);
    let has_length = octets[4..8] != [0; 4];
    let element = ElementId::new(u16::from_be_bytes([octets[2], octets[3]]));
    let Some(element) = element.filter(|_| is_authentic && !has_length) else {
        return Decision::Drop(Reason::Forged);
    };
    let stamp = Stamp { epoch: u64::from_be_bytes(*epoch), counter: u64::from_be_bytes(*counter) };
    let load = |word| settings.0.load(Place::new(Map::Hellos, element.number().into(), word));
    if stamp <= (Stamp { epoch: load(1), counter: load(2) }) {
        return Decision::Drop(Reason::Replayed);
    }
    Decision::Hello(element, stamp)
}
