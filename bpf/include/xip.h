// SPDX-License-Identifier: MIT OR GPL-2.0-only
// XIP packets: the header, the rows of addresses, and the hashes of a row.
#ifndef SLUICE_XIP_H
#define SLUICE_XIP_H

#include "parse.h"

#define XIP_HEADER_VERSION 1
#define XIP_MOST_ROWS 9
#define XIP_MOST_EDGES 4
// The value of `last_node` that stands for the entry node, whose edges are in the last row.
#define XIP_ENTRY_NODE 0x7e
#define XIP_EMPTY_EDGE 0x7f
#define XIP_CHOSEN 0x80

struct xip_header {
    __u8 version;
    __u8 next_header;
    __be16 payload_length;
    __u8 hop_limit;
    __u8 destinations;
    __u8 sources;
    __u8 last_node;
};

struct xip_row {
    // The type and the ID.
    __u8 xid[24];
    __u8 edge[XIP_MOST_EDGES];
};

// Both hashes of a row.
struct xip_hashes {
    __u64 line;
    __u64 tag;
};

// Returns the frame's end, loaded anew: the compiler would keep a copy of 32 bits for lengths, which is no pointer to the
// verifier.
static __always_inline void *xip_end(struct xdp_md *ctx)
{
    return (void *)(long)*(volatile __u32 *)&ctx->data_end;
}

static __always_inline struct xip_header *xip_of(struct xdp_md *ctx)
{
    return frame_start(ctx) + sizeof(struct ethhdr);
}

// Adds the product of two words of the message, each shifted by a word of the key, to both hashes (the hash NH of UMAC,
// RFC 4418, section 5.2; the second hash has the key shifted by four words).
static __always_inline void xip_mix(struct xip_hashes *hashes, volatile __u32 *key, int at, __u32 a, __u32 b)
{
    hashes->tag += (__u64)(__u32)(a + key[at]) * (__u32)(b + key[at + 1]);
    hashes->line += (__u64)(__u32)(a + key[at + 4]) * (__u32)(b + key[at + 5]);
}

#endif
