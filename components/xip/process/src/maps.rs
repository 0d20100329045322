//! The maps of the program `xip` in this process's memory.

use sluice_base::InterfaceIndex;
use sluice_bpf::BpfError;
use sluice_bpf::array::MappedArray;
use sluice_bpf::layout::{MemberAction, xip};
use sluice_xip::answer::{NeighborId, PortSetId, TunnelId};
use sluice_xip::cache::{HashKey, KEY_WORDS, Lines};
use sluice_xip::links;
use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;

/// The names of the maps, in the order in which the FEA hands them out (`components/fea/core/src/xdp/programs.rs`).
pub const NAMES: [&str; 7] =
    ["xip_lines", "xip_members", "xip_tunnels", "xip_sets", "xip_settings", "xip_sources", "xip_counts"];

/// The lines of the cache, and the tunnels and sets of neighbors in answers.
#[derive(Debug)]
pub struct CacheLines {
    lines: MappedArray,
    tunnels: MappedArray,
    sets: MappedArray,
    /// The last version of a set.
    versions: u32,
}

impl Lines for CacheLines {
    fn load(&self, word: usize) -> u64 {
        // A word beyond the map is that of an empty slot.
        self.lines.load_word(word).unwrap_or_default()
    }

    fn store(&mut self, word: usize, value: u64) {
        self.lines.store_word(word, value);
    }

    fn lines(&self) -> usize {
        self.lines.len()
    }

    fn set_tunnel(&mut self, number: TunnelId, end: SocketAddrV4) -> bool {
        self.tunnels.store64(number.0 as usize, 0, tunnel_word(end, 0))
    }

    fn set_copies(&mut self, number: PortSetId, copies: &[(InterfaceIndex, NeighborId)]) -> bool {
        let set = number.0 as usize;
        let (Some(version), Some(count)) = (self.sets.load32(set, 0), self.sets.load32(set, 1)) else {
            return false;
        };
        if copies.len() > xip::SET_MEMBERS {
            return false;
        }
        // A member as a word of the map: the interface and the member's number.
        let words = copies.iter().map(|(interface, neighbor)| {
            let ([a, b, c, d], [e, f, g, h]) = (interface.number().to_ne_bytes(), neighbor.0.to_ne_bytes());
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        });
        let mut stored = (1..).zip(words.clone());
        let is_same = version != 0
            && count as usize == copies.len()
            && stored.all(|(place, word)| self.sets.load64(set, place) == Some(word));
        if is_same {
            // Packets that the program has given out name the version.
            return true;
        }
        self.sets.store32(set, 0, 0);
        self.sets.store32(set, 1, copies.len() as u32);
        for (place, word) in (1..).zip(words) {
            self.sets.store64(set, place, word);
        }
        self.versions = self.versions.wrapping_add(1).max(1);
        self.sets.store32(set, 0, self.versions)
    }
}

/// Returns an address and a port in network order, and a flag, as one word.
fn tunnel_word(end: SocketAddrV4, flag: u16) -> u64 {
    let ([a, b, c, d], [e, f], [g, h]) = (end.ip().octets(), end.port().to_be_bytes(), flag.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// A neighbor for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The outgoing interface's index.
    pub interface: u32,
    /// The largest packet in octets, without the header of the link layer.
    pub mtu: u32,
    /// The neighbor's link-layer address.
    pub destination: [u8; 6],
    /// The interface's link-layer address.
    pub source: [u8; 6],
}

impl From<links::Member> for Member {
    fn from(member: links::Member) -> Self {
        Member {
            interface: member.station.interface.number(),
            mtu: member.mtu,
            destination: member.station.mac.0,
            source: member.source.0,
        }
    }
}

/// Settings of the program besides the hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramSettings {
    /// The number of hits of which one comes to this process; 0 for none.
    pub shadow_interval: u32,
    /// Packets a second that one source may send to this process, at least 1.
    pub punts_per_second: u32,
    /// Packets that a source may send at once.
    pub punt_burst: u32,
    /// True if undeliverable packets come to this process, for reports to their senders.
    pub has_reports: bool,
    /// The EtherType of packets.
    pub ether_type: u16,
    /// The host's end of the tunnels.
    pub tunnel: Option<TunnelEnd>,
}

/// The host's end of the tunnels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunnelEnd {
    /// The address and port.
    pub local: SocketAddrV4,
    /// True if datagrams have a UDP checksum.
    pub has_checksum: bool,
}

/// The maps except the lines.
#[derive(Debug)]
pub struct ProgramMaps {
    members: MappedArray,
    settings: MappedArray,
    counts: MappedArray,
}

/// Words of 32 bits of a member.
const MEMBER_WORDS: usize = 6;

impl ProgramMaps {
    /// Maps the maps of the program; `map` returns the descriptor of a name of [`NAMES`].
    ///
    /// # Errors
    ///
    /// If a map is smaller than its layout, or cannot be mapped.
    pub fn new<'fd>(
        map: impl Fn(&str) -> Result<BorrowedFd<'fd>, BpfError>,
    ) -> Result<(CacheLines, Self), BpfError> {
        // A component may not ask for the shapes of maps; the FEA that made them has the same layouts as this process.
        let array =
            |name, entries: u32, octets| MappedArray::with_shape(map(name)?, entries as usize, octets);
        let lines = array("xip_lines", xip::LINES, size_of::<xip::CacheLine>())?;
        let tunnels = array("xip_tunnels", xip::TUNNELS, size_of::<xip::Tunnel>())?;
        let sets = array("xip_sets", xip::SETS, size_of::<xip::Set>())?;
        let versions = (0..sets.len()).filter_map(|set| sets.load32(set, 0)).max().unwrap_or_default();
        let maps = ProgramMaps {
            members: array("xip_members", xip::MEMBERS, MEMBER_WORDS * 4)?,
            settings: array("xip_settings", 1, size_of::<xip::Settings>())?,
            counts: array("xip_counts", xip::CPUS * xip::REASONS, size_of::<xip::ReasonCount>())?,
        };
        Ok((CacheLines { lines, tunnels, sets, versions }, maps))
    }

    /// Writes the key of the hashes and the shift of a line's hash. No slot may have a tag.
    pub fn set_hashes(&self, key: &HashKey, line_shift: u32) {
        for (word, value) in key.words.iter().enumerate() {
            self.settings.store32(0, word, *value);
        }
        self.settings.store32(0, KEY_WORDS, line_shift);
        self.settings.store64(0, (KEY_WORDS + 2) / 2, key.multiplier);
    }

    /// Writes the other settings.
    pub fn set_settings(&self, settings: ProgramSettings) {
        let interval = 1_000_000_000 / u64::from(settings.punts_per_second.max(1));
        self.settings.store32(0, KEY_WORDS + 1, settings.shadow_interval);
        self.settings.store64(0, (KEY_WORDS + 4) / 2, interval);
        self.settings.store64(0, (KEY_WORDS + 6) / 2, interval.saturating_mul(settings.punt_burst.into()));
        self.settings.store64(0, (KEY_WORDS + 8) / 2, settings.has_reports.into());
        let end = settings.tunnel.map(|tunnel| tunnel_word(tunnel.local, tunnel.has_checksum.into()));
        self.settings.store64(0, (KEY_WORDS + 10) / 2, end.unwrap_or_default());
        self.settings.store32(0, KEY_WORDS + 12, settings.ether_type.to_be().into());
    }

    /// Writes a neighbor. Numbers beyond the map are left out, and their packets are dropped and counted.
    pub fn set_member(&self, number: u32, member: Member) {
        let [a, b, c, d, e, f] = member.destination;
        let [g, h, i, j, k, l] = member.source;
        let addresses = [[a, b, c, d], [e, f, g, h], [i, j, k, l]];
        // The action comes last: without it, the program sends nothing.
        let number = number as usize;
        self.members.store32(number, 0, MemberAction::Kernel as u32);
        self.members.store32(number, 1, member.interface);
        self.members.store32(number, 2, member.mtu);
        for (word, octets) in (3..).zip(addresses) {
            self.members.store32(number, word, u32::from_ne_bytes(octets));
        }
        self.members.store32(number, 0, MemberAction::Forward as u32);
    }

    /// Makes the program drop what is for a neighbor.
    pub fn clear_member(&self, number: u32) {
        self.members.store32(number as usize, 0, MemberAction::Kernel as u32);
    }

    /// Returns the counts of packets by reason, over all CPUs.
    pub fn counts(&self) -> [u64; xip::REASONS as usize] {
        let mut sums = [0_u64; xip::REASONS as usize];
        for cpu in 0..xip::CPUS as usize {
            for (reason, sum) in sums.iter_mut().enumerate() {
                let count = self.counts.load_word(cpu * xip::REASONS as usize + reason);
                *sum = sum.wrapping_add(count.unwrap_or_default());
            }
        }
        sums
    }
}
