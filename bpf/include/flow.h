// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The flow hash: addresses, protocol and ports, so that the packets of a flow take one way and stay in order.
#ifndef SLUICE_FLOW_H
#define SLUICE_FLOW_H

#include <linux/in.h>
#include "parse.h"

// Fragments: the bit for more fragments and the offset (RFC 791, section 3.1).
#define IPV4_FRAGMENT 0x3fff

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
}

// Returns both ports of a TCP or UDP header at `header`, or 0 if the packet has another protocol or the ports are missing.
static __always_inline __u32 ports_at(struct xdp_md *ctx, void *header, __u8 protocol)
{
    word32 *both = header;
    if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || (void *)(both + 1) > frame_end(ctx))
        return 0;
    return *both;
}

// Returns the flow hash of a packet without options. Each bit depends on all that is hashed.
static __always_inline __u32 ipv4_flow(struct xdp_md *ctx, struct iphdr *ip, __u64 seed)
{
    // Only the first fragment has the ports, and all fragments must take one way.
    __u32 both = ip->frag_off & bpf_htons(IPV4_FRAGMENT) ? 0 : ports_at(ctx, ip + 1, ip->protocol);
    __u64 hash = mix(seed, (__u64)ip->saddr << 32 | ip->daddr);
    hash = mix(hash, (__u64)ip->protocol << 32 | both);
    return mix(hash, 0) >> 32;
}

// Returns the flow hash of a packet. Behind extension headers, a fragment's among them, the ports are not looked for.
static __always_inline __u32 ipv6_flow(struct xdp_md *ctx, struct ipv6hdr *ip, __u64 seed)
{
    word32 *source = (void *)&ip->saddr, *destination = (void *)&ip->daddr;
    __u64 hash = mix(seed, (__u64)source[0] << 32 | source[1]);
    hash = mix(hash, (__u64)source[2] << 32 | source[3]);
    hash = mix(hash, (__u64)destination[0] << 32 | destination[1]);
    hash = mix(hash, (__u64)destination[2] << 32 | destination[3]);
    hash = mix(hash, (__u64)ip->nexthdr << 32 | ports_at(ctx, ip + 1, ip->nexthdr));
    return mix(hash, 0) >> 32;
}

#endif
