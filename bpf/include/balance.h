// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The balancer's layouts, its frames, and its hashes. `platform/bpf/src/layout/balance.rs` has the Rust twins.
#ifndef SLUICE_BALANCE_H
#define SLUICE_BALANCE_H

#include "flow.h"
#include "layout.h"
#include "parse.h"

// The sides of an interface.
enum balance_side {
    // The interface is not the balancer's: the chain continues.
    BALANCE_NONE = 0,
    // Neighbors are behind the interface.
    BALANCE_OUTER = 1,
    // The interconnect is behind the interface.
    BALANCE_INNER = 2,
};

// An interface of this host, at its index.
struct balance_interface {
    // The port's virtual MAC address, and its number in the cluster; unused for an inner interface.
    __u8 mac[6];
    __u16 port;
    enum balance_side side;
    __u32 reserved;
};

// An outer port, at its number in the cluster. Interface 0: the port is another balancer's.
#define BALANCE_PORTS (1 << 16)

struct balance_port {
    __u8 mac[6];
    __u16 reserved;
    __u32 interface;
    __u32 reserved_after;
};

// Elements by number. Element 0 does not exist.
#define BALANCE_ELEMENTS (1 << 16)

// The last authentic hello frame of an element. Only the program writes.
struct balance_heard {
    // Nanoseconds since boot; 0 if no hello frame came.
    __u64 time;
    __u64 epoch;
    __u64 counter;
};

// Classes of packets, each with elements and a table of its own.
#define BALANCE_CLASSES 8
#define BALANCE_MEMBERS 256

enum balance_mode {
    // Packets of the class are treated as those of class 0.
    BALANCE_OFF = 0,
    BALANCE_ROUND_ROBIN = 1,
    // By the flow hash and the class's table.
    BALANCE_FLOW = 2,
};

struct balance_class {
    enum balance_mode mode;
    // The number of members.
    __u32 count;
    __u16 member[BALANCE_MEMBERS];
};

// The tables of Maglev: a prime number of rows a class, in blocks. The last rows of the last block are unused.
#define BALANCE_ROWS 16381
#define BALANCE_BLOCK 128
#define BALANCE_CLASS_BLOCKS 128
#define BALANCE_BLOCKS (BALANCE_CLASSES * BALANCE_CLASS_BLOCKS)

struct balance_block {
    __u16 element[BALANCE_BLOCK];
};

// The neighbors of all ports: lines of 64 octets, a neighbor in either of two. An entry has the MAC address in its low 48
// bits and the port in its high 16; 0 is empty.
#define BALANCE_NEIGHBOR_LINES (1 << 11)
#define BALANCE_NEIGHBORS_PER_LINE 8
// The port of a MAC address that is behind several ports: the frame's source names the port.
#define BALANCE_SEVERAL 0xffff

struct balance_neighbors {
    __u64 entry[BALANCE_NEIGHBORS_PER_LINE];
};

// The router's own addresses: lines of 64 octets, an address in either of two. IPv4 addresses are mapped into IPv6
// (RFC 4291, section 2.5.5.2). The address :: is empty.
#define BALANCE_ADDRESS_LINES (1 << 10)
#define BALANCE_ADDRESSES_PER_LINE 4

struct balance_addresses {
    __u64 entry[BALANCE_ADDRESSES_PER_LINE][2];
};

#define BALANCE_INNERS 8
#define BALANCE_KEYS 2

struct balance_settings {
    // The seed of all hashes.
    __u64 seed;
    // The nanoseconds without a hello frame after which an element is passed over; 0 if elements send none.
    __u64 silence;
    // The keys of hello frames; a key of zeros is none.
    __u64 key[BALANCE_KEYS][2];
    // The EtherTypes of the cluster's frames, in network order; 0 is none.
    __be16 ether_type[2];
    // The element that is the control plane; 0 if there is none.
    __u16 control;
    // The number of inner interfaces, and their indices.
    __u16 inners;
    __u32 inner[BALANCE_INNERS];
    // The class of a packet by its DSCP (RFC 2474).
    __u8 class[64];
};

// The reasons by which frames are counted, on each CPU.
enum balance_reason {
    // To a router, and to the control plane.
    BALANCE_BALANCED = 0,
    BALANCE_CONTROL = 1,
    // Out of a port, from a router and from the control plane.
    BALANCE_RETURNED = 2,
    BALANCE_FROM_CONTROL = 3,
    // Frames of the cluster: authentic hello frames, and others, for user space.
    BALANCE_HELLO = 4,
    BALANCE_ANNOUNCED = 5,
    // Hello frames with a wrong tag, and with a counter that is not larger than the last.
    BALANCE_FORGED = 6,
    BALANCE_REPLAYED = 7,
    // Counted besides another reason: the first choice was silent; all choices were.
    BALANCE_PASSED_OVER = 8,
    BALANCE_ALL_SILENT = 9,
    // Dropped: headers that end early.
    BALANCE_SHORT = 10,
    // Dropped: from a neighbor with a MAC address of an element or of this port, or with an EtherType of the cluster.
    BALANCE_SPOOFED = 11,
    // Dropped: no element in the class, no control plane, no inner interface.
    BALANCE_NO_ROUTER = 12,
    BALANCE_NO_CONTROL = 13,
    BALANCE_NO_INNER = 14,
    // Dropped: a destination that is no neighbor, a port of another balancer.
    BALANCE_NO_NEIGHBOR = 15,
    BALANCE_NO_PORT = 16,
    // Dropped: only the control plane may send such a frame.
    BALANCE_NOT_CONTROL = 17,
    BALANCE_REASONS = 32,
};

// The counters of a CPU begin at `CPU * BALANCE_REASONS`; CPUs above this number share counters.
#define BALANCE_CPUS 256

struct balance_count {
    __u64 packets;
};

// The frames and octets of a class that were led to elements, on one CPU. The counters of a CPU begin at `CPU * BALANCE_CLASSES`.
struct balance_led {
    __u64 packets;
    __u64 octets;
};

// The first octets of an element's MAC address for a port; element and port follow.
#define BALANCE_PREFIX_FIRST 0x02
#define BALANCE_PREFIX_SECOND 0x5c

struct balance_mac {
    __u8 prefix[2];
    __be16 element;
    __be16 port;
};

// A tag of IEEE 802.1Q, behind the EtherType of a tag.
struct balance_tag {
    __be16 control;
    __be16 ether_type;
};

// The number of tags behind which the packet is looked for.
#define BALANCE_TAGS 2

// The payload of a hello frame. Format: docs/cluster.md.
struct balance_hello {
    __u8 version;
    __u8 kind;
    __be16 element;
    __be32 length;
    __be64 epoch;
    __be64 counter;
    __u64 tag;
} __attribute__((packed));

#define BALANCE_VERSION 1
#define BALANCE_KIND_HELLO 1

static __always_inline int is_element(struct balance_mac *mac)
{
    return mac->prefix[0] == BALANCE_PREFIX_FIRST && mac->prefix[1] == BALANCE_PREFIX_SECOND;
}

// Returns a MAC address as a number, the first octet in the lowest bits.
static __always_inline __u64 mac_number(__u8 *mac)
{
    return *(word32 *)mac | (__u64)*(half16 *)(mac + 4) << 32;
}

static __always_inline void write_mac(__u8 *to, __u64 mac)
{
    *(word32 *)to = mac;
    *(half16 *)(to + 4) = mac >> 32;
}

// ARP for Ethernet and IPv4 (RFC 826). The addresses of the protocol lie between.
struct balance_arp {
    __be16 hardware;
    __be16 protocol;
    __u8 hardware_length;
    __u8 protocol_length;
    __be16 operation;
    __u8 sender[6];
    __u8 sender_protocol[4];
    __u8 target[6];
    __u8 target_protocol[4];
};

// The beginning of an ICMPv6 message (RFC 4443).
struct balance_icmp6 {
    __u8 type;
    __u8 code;
    __u16 checksum;
};

// An option of neighbor discovery (RFC 4861, section 4.6) with a link-layer address. The length counts 8 octets.
struct balance_option {
    __u8 type;
    __u8 length;
    __u8 mac[6];
};

// The options that are looked at.
#define BALANCE_OPTIONS 4

// Returns the octets in front of the options of a message of neighbor discovery, or 0 for other messages.
static __always_inline __u32 discovery_length(__u8 type)
{
    switch (type) {
    case 133: // Router Solicitation
        return 8;
    case 134: // Router Advertisement
        return 16;
    case 135: // Neighbor Solicitation
    case 136: // Neighbor Advertisement
        return 24;
    case 137: // Redirect
        return 40;
    default:
        return 0;
    }
}

// Returns the packet behind the tags, and sets the EtherType in network order. A frame that ends within a tag has none: null.
static __always_inline void *behind_tags(struct xdp_md *ctx, __be16 *ether_type)
{
    struct ethhdr *ethernet = frame_start(ctx);
    struct balance_tag *tag = (void *)(ethernet + 1);
    if ((void *)tag > frame_end(ctx))
        return 0;
    *ether_type = ethernet->h_proto;
#pragma unroll
    for (int i = 0; i < BALANCE_TAGS; i++) {
        if (*ether_type != bpf_htons(ETH_P_8021Q) && *ether_type != bpf_htons(ETH_P_8021AD))
            break;
        if ((void *)(tag + 1) > frame_end(ctx))
            return 0;
        *ether_type = tag->ether_type;
        tag += 1;
    }
    return tag;
}

// Returns the flow hash of a packet. Behind IPv4 options the ports are not looked for.
static __always_inline __u32 balance_flow4(struct xdp_md *ctx, struct iphdr *ip, __u64 seed)
{
    if (ip->ihl == 5)
        return ipv4_flow(ctx, ip, seed);
    __u64 hash = mix(seed, (__u64)ip->saddr << 32 | ip->daddr);
    return mix(mix(hash, (__u64)ip->protocol << 32), 0) >> 32;
}

#define SIP_TURN(word, bits) ((word) << (bits) | (word) >> (64 - (bits)))

static __always_inline void sip_rounds(__u64 v[4], int rounds)
{
#pragma unroll
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = SIP_TURN(v[1], 13) ^ v[0];
        v[3] = SIP_TURN(v[3], 16) ^ v[2];
        v[0] = SIP_TURN(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = SIP_TURN(v[1], 17) ^ v[2];
        v[3] = SIP_TURN(v[3], 21) ^ v[0];
        v[2] = SIP_TURN(v[2], 32);
    }
}

// Returns SipHash-2-4 (Aumasson and Bernstein, 2012) of three words.
static __always_inline __u64 sip_tag(__u64 *key, __u64 *word)
{
    __u64 v[4] = {
        key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
        key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573,
    };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __u64 next = i < 3 ? word[i] : 24ULL << 56;
        v[3] ^= next;
        sip_rounds(v, 2);
        v[0] ^= next;
    }
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
