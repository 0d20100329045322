// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Layouts shared with user space. `platform/bpf/src/layout.rs` has the Rust twins; a test compares both by BTF.
#ifndef SLUICE_LAYOUT_H
#define SLUICE_LAYOUT_H

#include <linux/types.h>

// The version of the layouts of shared maps. A change of a map or a struct raises the number.
enum layout {
    LAYOUT_VERSION = 1,
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

// The reasons by which frames are counted.
enum reason {
    // Each frame that reached the root program.
    REASON_RECEIVED = 0,
    // Frames given to the kernel.
    REASON_PASSED = 1,
    // Frames dropped by a program of the chain.
    REASON_DROPPED = 2,
    // Frames sent out of an interface by a program of the chain.
    REASON_FORWARDED = 3,
    // Frames too short or with a wrong length field; the kernel gets them and counts them as well.
    REASON_MALFORMED = 4,
    // Well-formed IPv4, IPv6 and XIP frames, and frames of other EtherTypes.
    REASON_IPV4 = 5,
    REASON_IPV6 = 6,
    REASON_XIP = 7,
    REASON_OTHER = 8,
    REASONS = 32,
};

// The frames and octets of one reason on one CPU.
struct count {
    __u64 packets;
    __u64 octets;
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
    // Packets handed to the interface; also the next sequence number.
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
