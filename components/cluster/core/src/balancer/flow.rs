//! The flow hash: addresses, protocol, and the ports of TCP and UDP. Twin of `bpf/include/flow.h`.
//!
//! Only a packet's first fragment has the ports, so that all fragments are hashed without ports: the fragments of a packet take
//! one way. Fragmented packets of a flow may take another way than its whole packets. The alternative, to hash all packets by
//! addresses alone, would lead all flows between two hosts to one element.

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Mixes a word into a hash.
pub fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}

/// Returns the word of 32 bits at `at`, little endian; 0 beyond the end.
fn word(packet: &[u8], at: usize) -> u64 {
    let octets = packet.get(at..).and_then(|rest| rest.first_chunk::<4>());
    octets.map_or(0, |octets| u32::from_le_bytes(*octets).into())
}

/// Returns both ports at `at`; 0 if the protocol has none, or if the packet ends before.
fn ports(packet: &[u8], at: usize, protocol: u8) -> u64 {
    if protocol == TCP || protocol == UDP { word(packet, at) } else { 0 }
}

/// Returns the flow hash of an IPv4 packet of at least 20 octets. Packets with options are hashed without ports.
pub fn ipv4(packet: &[u8], seed: u64) -> u32 {
    let octet = |at: usize| packet.get(at).copied().unwrap_or_default();
    let is_fragment = octet(6) & 0x3f != 0 || octet(7) != 0;
    let has_options = octet(0) & 0x0f != 5;
    let both = if is_fragment || has_options { 0 } else { ports(packet, 20, octet(9)) };
    let hash = mix(seed, word(packet, 12) << 32 | word(packet, 16));
    (mix(mix(hash, u64::from(octet(9)) << 32 | both), 0) >> 32) as u32
}

/// Returns the flow hash of an IPv6 packet of at least 40 octets. Packets with extension headers, a fragment's among them, are
/// hashed without ports.
pub fn ipv6(packet: &[u8], seed: u64) -> u32 {
    let next = packet.get(6).copied().unwrap_or_default();
    let addresses = [8, 16, 24, 32].into_iter();
    let hash = addresses.fold(seed, |hash, at| mix(hash, word(packet, at) << 32 | word(packet, at + 4)));
    (mix(mix(hash, u64::from(next) << 32 | ports(packet, 40, next)), 0) >> 32) as u32
}
