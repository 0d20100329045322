// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Counts packets by IP protocol, and drops those of the protocols that the map's owner marked. A small program for the slot
// police: an example of a program whose map belongs to a component outside the FEA.
#include "chain.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PROTOCOLS);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct protocol);
} protocols SEC(".maps");

// Returns the IP protocol number (the next header of IPv6), or -1 for other frames.
static __always_inline int protocol_of(struct xdp_md *ctx)
{
    void *start = frame_start(ctx), *end = frame_end(ctx);
    enum class class = ether_class(ctx);
    if (class == CLASS_IPV4) {
        struct iphdr *ip = start + sizeof(struct ethhdr);
        return (void *)(ip + 1) > end ? -1 : ip->protocol;
    }
    if (class == CLASS_IPV6) {
        struct ipv6hdr *ip = start + sizeof(struct ethhdr);
        return (void *)(ip + 1) > end ? -1 : ip->nexthdr;
    }
    return -1;
}

SEC("xdp")
int sluice_protocols(struct xdp_md *ctx)
{
    int number = protocol_of(ctx);
    if (number < 0)
        return continue_after(ctx, SLOT_POLICE);
    __u32 key = number;
    struct protocol *protocol = bpf_map_lookup_elem(&protocols, &key);
    if (protocol) {
        __sync_fetch_and_add(&protocol->packets, 1);
        if (protocol->is_dropped)
            return end(ctx, REASON_DROPPED, XDP_DROP);
    }
    return continue_after(ctx, SLOT_POLICE);
}
