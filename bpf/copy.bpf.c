// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Sends copies of XIP packets. The program `xip` gives a packet for several neighbors to all interfaces of XIP at once; this
// program runs for the copy of each interface, and drops the copy unless the packet's set has a neighbor there.
#include "copy.h"
#include "station.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Returns the number of the set's member on the interface, or `XIP_MEMBERS` if there is none.
static __always_inline __u32 member_at(struct xip_set *set, __u32 interface)
{
    __u32 count = set->count;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < XIP_SET_MEMBERS; i++) {
        if (i >= count)
            break;
        if (set->copy[i].interface == interface)
            return set->copy[i].member;
    }
    return XIP_MEMBERS;
}

SEC("xdp/devmap")
int sluice_copy(struct xdp_md *ctx)
{
    struct ethhdr *ethernet = frame_start(ctx);
    struct copy_mark *mark = (void *)ethernet;
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return XDP_DROP;
    __u32 number = mark->set, version = mark->version;
    struct xip_set *set = bpf_map_lookup_elem(&xip_sets, &number);
    if (!set)
        return XDP_DROP;
    __u32 index = member_at(set, ctx->egress_ifindex);
    if (index == XIP_MEMBERS)
        return XDP_DROP;
    struct member *member = bpf_map_lookup_elem(&xip_members, &index);
    // User space clears the version before it changes the set.
    if (!member || member->action != MEMBER_FORWARD || *(volatile __u32 *)&set->version != version) {
        note(XIP_NO_MEMBER);
        return XDP_DROP;
    }
    if (ctx->data_end - ctx->data > (__u64)member->mtu + sizeof(*ethernet)) {
        note(XIP_TOO_BIG);
        return XDP_DROP;
    }
    write_macs(ethernet, member);
    note(XIP_COPIED);
    return XDP_PASS;
}
