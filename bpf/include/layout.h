// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Layouts shared with user space. `platform/bpf/src/layout.rs` has the Rust twins; a test compares both by BTF.
#ifndef SLUICE_LAYOUT_H
#define SLUICE_LAYOUT_H

#include <linux/types.h>

// The version of the layouts of shared maps. A change of a map or a struct raises the number.
enum layout {
    LAYOUT_VERSION = 5,
};

// The slots of the chain, in the order in which a frame visits the programs.
enum slot {
    SLOT_POLICE = 0,
    SLOT_FLOW = 1,
    SLOT_BALANCE = 2,
    SLOT_XIP = 3,
    SLOT_IP = 4,
    SLOTS = 8,
};

// The reasons by which frames are counted. Each frame is counted once, by the reason with which its way through the
// chain ends.
enum reason {
    // Sent out of an interface by a program of the chain.
    REASON_FORWARDED_IPV4 = 0,
    REASON_FORWARDED_IPV6 = 1,
    REASON_FORWARDED_XIP = 2,
    // Dropped by a program's decision, and by a route that drops.
    REASON_DROPPED = 3,
    REASON_BLACKHOLE = 4,
    // All others are passed to the kernel. An EtherType that no slot takes.
    REASON_OTHER_ETHERTYPE = 5,
    // Too short, a wrong length field or a wrong IPv4 header checksum; the kernel counts such packets too.
    REASON_MALFORMED = 6,
    // The fast path is off for the interface or the address family.
    REASON_OFF = 7,
    // The destination MAC address is not the port's: broadcast, multicast, other stations.
    REASON_STATION = 8,
    // The route leads to the kernel, or there is no route.
    REASON_KERNEL = 9,
    // The neighbor's MAC address is not known.
    REASON_UNRESOLVED = 10,
    // The TTL or hop limit is 1 or 0.
    REASON_TTL = 11,
    // IPv4 options, IPv6 hop-by-hop options.
    REASON_OPTIONS = 12,
    // Larger than the MTU of the outgoing interface, padding included.
    REASON_SIZE = 13,
    // A source or destination address that is never forwarded (RFC 1812, section 5.3.7).
    REASON_MARTIAN = 14,
    // The outgoing interface is the incoming one; the kernel sends redirects.
    REASON_SAME_INTERFACE = 15,
    // No program took the frame.
    REASON_NO_TAKER = 16,
    // A component decides on the packet: the answer to its row is not in the cache, or names the component.
    REASON_SLOW_PATH = 17,
    // Sent to an element of the cluster, or out of a port for one.
    REASON_BALANCED = 18,
    REASONS = 32,
};

// The number of ports with counters of their own. Port 0 counts for all interfaces without an entry.
#define PORTS 256

// The frames and octets of one reason on one CPU.
struct count {
    __u64 packets;
    __u64 octets;
};

// The interfaces of the map `ports`: the indices below this number.
#define INTERFACES (1 << 16)

// Bits of a port's flags.
enum port_flag {
    // The fast path is on for the family.
    PORT_IPV4 = 1,
    PORT_IPV6 = 2,
    // The FEA made the interface promiscuous. Programs do not read this.
    PORT_PROMISCUOUS = 4,
};

// An interface, at its index.
struct port {
    __u8 mac[6];
    // The port's number among the counters, from 1; 0 for an interface that is no port of the router.
    __u16 number;
    // A set of `enum port_flag`.
    enum port_flag flags;
    // The slots whose programs do not see the port's frames: bit `1 << SLOT_...`. The slot ip has the flags instead.
    __u32 skipped;
};

// The forwarding tables. Both roots are read by 64-bit words. An IPv4 word has the 16-bit entries of four prefixes of 24
// bits, an IPv6 word the 32-bit entries of two, the lowest prefix in the lowest bits. An entry is a group, or with its top
// bit set a node: the entries by the next octet of the address.
#define IPV4_ROOT_WORDS (1 << 22)
#define IPV4_NODES (1 << 15)
#define IPV4_NODE 0x8000
#define IPV6_ROOT_WORDS (1 << 23)
#define IPV6_NODES (1 << 16)
#define IPV6_NODE 0x80000000

// Node 0 is never used.
struct ipv4_node {
    __u16 entry[256];
};

struct ipv6_node {
    __u32 entry[256];
};

// A group is a 64-bit word. If the high 32 bits are 0, the low 32 bits are a member, else a block of buckets.
#define GROUPS (1 << 15)
// The groups of the default routes. The entry 0 leads there in both families.
#define GROUP_IPV4_DEFAULT 0
#define GROUP_IPV6_DEFAULT 1
// The group whose frames go to the kernel.
#define GROUP_KERNEL 2

// Bits of IPv4 sources whose packets go to the kernel, by a hash of the address.
#define IPV4_SOURCE_WORDS (1 << 10)

#define BUCKET_BLOCKS (1 << 12)
#define BUCKETS 128

// The members of a group by the low bits of the flow hash.
struct bucket_block {
    __u32 member[BUCKETS];
};

// Member 0 is all zeros: to the kernel.
#define MEMBERS (1 << 14)

enum member_action {
    MEMBER_KERNEL = 0,
    MEMBER_FORWARD = 1,
    MEMBER_DROP = 2,
    MEMBER_UNRESOLVED = 3,
};

// A neighbor, or another end of routes. A member never changes while an entry of the tables leads to it.
struct member {
    enum member_action action;
    // The outgoing interface's index.
    __u32 interface;
    // The largest IP packet in octets.
    __u32 mtu;
    // The MAC addresses of the frame, in the frame's order.
    __u8 destination[6];
    __u8 source[6];
};

// The IP protocol numbers.
#define PROTOCOLS 256

// The packets of an IP protocol, and whether they are dropped.
struct protocol {
    __u64 packets;
    // 1 if packets are dropped; user space writes the field.
    __u64 is_dropped;
};

// The receive queues of an interface that have a place in a map of AF_XDP sockets, and the octets of the largest frame that
// such a socket takes. Other frames go to the kernel.
#define RECEIVER_QUEUES 8
#define RECEIVER_LARGEST_FRAME 1792

// The cache of XIP's answers: lines of 64 octets, one cache line of the processor each. A row of an address is hashed
// twice; one hash chooses the line, the other is the tag of the slot. User space writes a slot's answer first and its tag
// last, and clears the tag before the answer of another row takes the slot.
#define XIP_LINES (1 << 19)
#define XIP_SLOTS_PER_LINE 4
// The tag's lowest bit: the program sets it at the first hit after user space cleared it.
#define XIP_TAG_USED 1

struct xip_slot {
    // A hash without its lowest bit, and the bit `XIP_TAG_USED`; 0 for an empty slot.
    __u64 tag;
    // The action in bits 0 to 7, the edge in bits 8 to 15, the index in bits 32 to 63.
    __u64 answer;
};

struct xip_line {
    struct xip_slot slot[XIP_SLOTS_PER_LINE];
};

// The treatment of a packet whose row has an answer.
enum xip_action {
    // User space treats each packet.
    XIP_UP = 0,
    // Select the edge and go on from the row to which it leads.
    XIP_DIG = 1,
    // Send to the member `index`.
    XIP_FORWARD = 2,
    // Drop: an entry asks for it.
    XIP_DROP = 3,
    // Drop: no edge leads anywhere.
    XIP_UNREACHABLE = 4,
    // Drop: the XID is this host's, but does not work in this place.
    XIP_UNSUPPORTED = 5,
    // Send in a UDP datagram to the tunnel `index`.
    XIP_TUNNEL = 6,
    // Send a copy to each member of the set `index`.
    XIP_COPY = 7,
};

// The number of neighbors with a `struct member` in the map `xip_members`.
#define XIP_MEMBERS (1 << 14)
#define XIP_TUNNELS (1 << 12)

// The far end of a tunnel, in network order: one word, so that user space changes the entry by one store.
struct xip_tunnel {
    __u32 address;
    // 0 in an entry without a far end.
    __u16 port;
    __u16 reserved;
};

// Sets of members that get copies, of at most `XIP_SET_MEMBERS` members, each on another interface.
#define XIP_SETS (1 << 11)
#define XIP_SET_MEMBERS 63

// The interfaces of XIP for copies.
#define XIP_DEVICES 1024

struct xip_copy {
    // The interface's index.
    __u32 interface;
    // The member's number in `xip_members`.
    __u32 member;
};

struct xip_set {
    // 0 while user space changes the set; otherwise another number than that of the set's former content.
    __u32 version;
    __u32 count;
    struct xip_copy copy[XIP_SET_MEMBERS];
};

// Words of the hashes' key: two for each pair of 32-bit words of a row, four more by which the second hash is shifted.
#define XIP_KEY_WORDS 30

// User space writes the settings once, before the first answer, and changes a key only while no slot has a tag.
struct xip_settings {
    __u32 key[XIP_KEY_WORDS];
    // 64 less the number of bits of a line's index.
    __u32 line_shift;
    // Each such hit goes to user space too, which compares the answer with a fresh decision; 0 for none.
    __u32 shadow_interval;
    // An odd number: the multiplier of the hash that chooses the line.
    __u64 multiplier;
    // Nanoseconds between two packets of one source to user space, and the burst in nanoseconds.
    __u64 punt_interval;
    __u64 punt_burst;
    // 1 if user space reports undeliverable packets to their senders: such packets go there, within the budget.
    __u64 has_reports;
    // This host's end of all tunnels, in network order: one word. The address 0 stands for none.
    __u32 tunnel_address;
    __u16 tunnel_port;
    // 1 if the UDP checksum of datagrams sent is computed.
    __u16 has_checksum;
    // The EtherType of XIP packets, in network order.
    __u16 ether_type;
    __u16 reserved[3];
};

// Sources of packets to user space, by a hash of interface and sender.
#define XIP_SOURCES (1 << 12)

// The time, in nanoseconds since boot, at which the source has used up all that it was allowed.
struct xip_source {
    __u64 time;
};

// The reasons by which XIP packets are counted, on each CPU.
enum xip_reason {
    XIP_HIT = 0,
    XIP_MISS = 1,
    XIP_SHADOWED = 2,
    // Packets for user space that the source's budget did not cover.
    XIP_OVER_BUDGET = 3,
    XIP_TO_USER = 4,
    // The checks at reception (docs/xia/wire.md); more of them below.
    XIP_SHORT_FIXED_HEADER = 5,
    XIP_VERSION = 6,
    XIP_BAD_ROW = 7,
    XIP_AT_SINK = 8,
    // The packet cannot leave.
    XIP_HOP_LIMIT = 9,
    XIP_TOO_BIG = 10,
    XIP_NO_MEMBER = 11,
    XIP_NO_ROUTE = 12,
    // By answers.
    XIP_SENT = 13,
    XIP_TUNNELED = 14,
    XIP_DROPPED = 15,
    XIP_NOT_REACHED = 16,
    XIP_NOT_SUPPORTED = 17,
    XIP_DUG = 18,
    // Taken out of a datagram for this host's end of the tunnels.
    XIP_FROM_TUNNEL = 19,
    // Left to user space: the datagram does not fit the way to the far end, or there is no way yet.
    XIP_NO_WAY = 20,
    // Packets given to all interfaces for copies, and copies sent.
    XIP_REPLICATED = 21,
    XIP_COPIED = 22,
    XIP_DESTINATION_ROWS = 23,
    XIP_SOURCE_ROWS = 24,
    XIP_LAST_NODE = 25,
    XIP_SHORT_ROWS = 26,
    XIP_SHORT_PAYLOAD = 27,
    XIP_REASONS = 32,
};

// The counters of a CPU begin at `CPU * XIP_REASONS`; CPUs above this number share counters.
#define XIP_CPUS 256

struct xip_count {
    __u64 packets;
};

// The first octets of a generated packet's UDP payload, in network order.
struct stamp {
    __u32 magic;
    __u32 stream;
    __u64 sequence;
};

#define STAMP_MAGIC 0x534c5543

// The generator's position. The generator's program writes all fields.
struct generator {
    // Packets handed to the interface.
    __u64 sent;
    // Rounds in which no packet was due.
    __u64 idle;
    // Clock of the first and the last packet, in nanoseconds since boot.
    __u64 first;
    __u64 last;
};

// A destination of generated packets, in network order. An IPv4 address has the first 4 octets.
struct destination {
    __u8 address[16];
};

// A sink's knowledge of the sequence numbers.
struct tally {
    // Packets with a stamp of the sink's stream.
    __u64 received;
    __u64 octets;
    // Packets with a sequence number that the sink had counted before.
    __u64 duplicates;
    // First copies of packets with a sequence number below one that the sink had counted before.
    __u64 reordered;
    // Packets too old for the window; the sink cannot tell whether they are duplicates.
    __u64 late;
    // The highest sequence number and 1.
    __u64 expected;
    // Clock of the first and the last packet, in nanoseconds since boot.
    __u64 first;
    __u64 last;
};

// One word of a sink's window: the received ones of 64 sequence numbers.
struct window {
    // The word's number (sequence / 64) and 1; 0 if the word was never used.
    __u64 word;
    __u64 seen;
};

#endif
