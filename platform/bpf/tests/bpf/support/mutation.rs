//! Frames made from captures and from good packets, changed by a generator that makes the same frames each time.

use super::frame::{ETHERNET, SENDER, ipv4, ipv6, set_checksum};
use super::tables::ROUTER;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Numbers that look random and are the same each time (Marsaglia's xorshift).
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }

    /// Returns one of some values.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// Returns the Ethernet frames and the raw IP packets of all captures of the shared data, with the test's MAC addresses.
/// `None`, and the test prints why it goes without captures, if there is no such folder.
pub fn captured() -> Option<Vec<Vec<u8>>> {
    const ETHERNET_LINK: u32 = 1;
    const RAW_LINK: u32 = 101;
    let manifest = sluice_testkit::read("data/pcap-manifest.tsv")?;
    let manifest = String::from_utf8_lossy(&manifest);
    let mut frames = vec![];
    for file in manifest.lines().skip(1).filter_map(|line| line.split('\t').next()) {
        let capture = sluice_testkit::read(&format!("data/{file}")).unwrap_or_default();
        for (link, octets) in sluice_testkit::capture::frames(&capture) {
            let (ether_type, packet) = match (link, octets) {
                (ETHERNET_LINK, _) if octets.len() > ETHERNET => (&octets[12..ETHERNET], &octets[ETHERNET..]),
                (RAW_LINK, [first, ..]) if first >> 4 == 6 => (&[0x86, 0xdd][..], octets),
                (RAW_LINK, [_, ..]) => (&[0x08, 0x00][..], octets),
                _ => continue,
            };
            frames.push([&ROUTER[..], &SENDER, ether_type, packet].concat());
        }
    }
    Some(frames)
}

/// Changes frames: addresses, header fields, single octets, the length.
pub struct Mutation<'a> {
    pub random: Random,
    /// Frames to begin with, beside good packets.
    pub captured: &'a [Vec<u8>],
    pub sources: &'a [IpAddr],
    /// Addresses, of which the last octet is changed at times.
    pub destinations: &'a [IpAddr],
    /// The greatest length of a frame in octets.
    pub longest: usize,
}

impl Mutation<'_> {
    /// Returns the next frame.
    pub fn frame(&mut self) -> Vec<u8> {
        let mut frame = match self.captured {
            [] => self.good(),
            captured if self.random.below(2) == 0 => captured[self.random.below(captured.len())].clone(),
            _ => self.good(),
        };
        // Most captured packets are of protocols between neighbors: to multicast groups, with TTL 1.
        if self.random.below(8) > 0 {
            self.set_addresses(&mut frame);
            self.set_ttl(&mut frame);
        }
        if self.random.below(3) == 0 {
            for _ in 0..=self.random.below(3) {
                let end = if self.random.below(4) == 0 { frame.len() } else { frame.len().min(60) };
                let at = self.random.below(end);
                frame[at] = self.random.next() as u8;
            }
        }
        let is_ipv4 = frame.len() >= ETHERNET + 20 && frame[12..14] == [8, 0];
        let header = frame.get(ETHERNET).map_or(0, |first| usize::from(first & 15) * 4);
        if is_ipv4 && header >= 20 && frame.len() >= ETHERNET + header && self.random.below(8) > 0 {
            set_checksum(&mut frame);
        }
        match self.random.below(12) {
            0 => frame.truncate(self.random.below(frame.len())),
            1 => frame.extend((0..self.random.below(300)).map(|octet| octet as u8 ^ 0x5a)),
            _ => {}
        }
        // The shortest frame that a packet socket sends, and the longest.
        frame.resize(frame.len().clamp(ETHERNET + 1, self.longest), 0);
        frame
    }

    fn good(&mut self) -> Vec<u8> {
        let payload = self.random.of(&[0, 1, 18, 100, 1000, 1332, 1352, 1372, 1373, 1400, 1450]);
        match self.random.below(2) {
            0 => ipv4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, payload),
            _ => ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, payload),
        }
    }

    fn set_addresses(&mut self, frame: &mut [u8]) {
        let (at, octets, is_ipv4) = match (&frame[12..14], frame.len()) {
            ([0x08, 0x00], 34..) => (26, 4, true),
            ([0x86, 0xdd], 54..) => (22, 16, false),
            _ => return,
        };
        for (pool, at) in [(self.sources, at), (self.destinations, at + octets)] {
            let address = loop {
                let address = self.random.of(pool);
                if address.is_ipv4() == is_ipv4 {
                    break address;
                }
            };
            let place = &mut frame[at..at + octets];
            match address {
                IpAddr::V4(address) => place.copy_from_slice(&address.octets()),
                IpAddr::V6(address) => place.copy_from_slice(&address.octets()),
            }
        }
        if self.random.below(4) == 0 {
            frame[at + 2 * octets - 1] = self.random.next() as u8;
        }
    }

    fn set_ttl(&mut self, frame: &mut [u8]) {
        let ttl = self.random.of(&[0, 1, 2, 3, 64, 64, 64, 64, 128, 255]);
        match (&frame[12..14], frame.len()) {
            ([0x08, 0x00], 34..) => frame[22] = ttl,
            ([0x86, 0xdd], 54..) => frame[21] = ttl,
            _ => {}
        }
    }
}
