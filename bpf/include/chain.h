// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The chain of programs: tail calls through the slots, in fixed order.
#ifndef SLUICE_CHAIN_H
#define SLUICE_CHAIN_H

#include "count.h"
#include "layout.h"
#include "parse.h"

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, SLOTS);
    __type(key, __u32);
    __type(value, __u32);
} slots SEC(".maps");

// Continues with the first filled slot after `done` that the port does not skip; pass -1 to begin. A tail call through an
// empty slot fails, and the next slot is tried. At the end of the chain, the slots of the frame's class get the frame. Returns only
// if no slot took the frame: the kernel gets it.
static __always_inline int continue_after(struct xdp_md *ctx, int done)
{
    struct port *port = port_of(ctx);
    __u32 skipped = port ? port->skipped : 0;
    if (done < SLOT_POLICE && !(skipped & (1 << SLOT_POLICE)))
        bpf_tail_call(ctx, &slots, SLOT_POLICE);
    if (done < SLOT_FLOW && !(skipped & (1 << SLOT_FLOW)))
        bpf_tail_call(ctx, &slots, SLOT_FLOW);
    if (done < SLOT_BALANCE && !(skipped & (1 << SLOT_BALANCE)))
        bpf_tail_call(ctx, &slots, SLOT_BALANCE);
    enum class class = ether_class(ctx);
    // XIP packets have an EtherType that the operator may choose, and come in datagrams over IPv4 too.
    if (done < SLOT_XIP && class != CLASS_IPV6 && !(skipped & (1 << SLOT_XIP)))
        bpf_tail_call(ctx, &slots, SLOT_XIP);
    if (done < SLOT_IP && (class == CLASS_IPV4 || class == CLASS_IPV6))
        bpf_tail_call(ctx, &slots, SLOT_IP);
    return end_at(ctx, port, class == CLASS_OTHER ? REASON_OTHER_ETHERTYPE : REASON_NO_TAKER, XDP_PASS);
}

#endif
