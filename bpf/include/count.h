// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Counting by reason. All programs of a chain share the map `counts`.
#ifndef SLUICE_COUNT_H
#define SLUICE_COUNT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "layout.h"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, REASONS);
    __type(key, __u32);
    __type(value, struct count);
} counts SEC(".maps");

static __always_inline void count_frame(struct xdp_md *ctx, __u32 reason)
{
    struct count *count = bpf_map_lookup_elem(&counts, &reason);
    if (!count)
        return;
    count->packets += 1;
    count->octets += ctx->data_end - ctx->data;
}

// Counts the frame under `reason` and returns `verdict`: the last statement of a program that ends the chain.
static __always_inline int end(struct xdp_md *ctx, __u32 reason, int verdict)
{
    count_frame(ctx, reason);
    return verdict;
}

#endif
