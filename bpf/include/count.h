// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Counting by port and reason. All programs of a chain share the maps `ports` and `counts`.
#ifndef SLUICE_COUNT_H
#define SLUICE_COUNT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "layout.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, INTERFACES);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct port);
} ports SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, PORTS * REASONS);
    __type(key, __u32);
    __type(value, struct count);
} counts SEC(".maps");

// Returns the entry of the incoming interface, or null beyond the map's end.
static __always_inline struct port *port_of(struct xdp_md *ctx)
{
    __u32 interface = ctx->ingress_ifindex;
    return bpf_map_lookup_elem(&ports, &interface);
}

// Counts the frame for `port` under `reason` and returns `verdict`.
static __always_inline int end_at(struct xdp_md *ctx, struct port *port, enum reason reason, int verdict)
{
    __u32 index = reason;
    if (port)
        index += port->number * REASONS;
    struct count *count = bpf_map_lookup_elem(&counts, &index);
    if (count) {
        count->packets += 1;
        count->octets += ctx->data_end - ctx->data;
    }
    return verdict;
}

// Counts the frame under `reason` and returns `verdict`: the last statement of a program that ends the chain.
static __always_inline int end(struct xdp_md *ctx, enum reason reason, int verdict)
{
    return end_at(ctx, port_of(ctx), reason, verdict);
}

#endif
