// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Copies of XIP packets: the maps that the program `xip` and the program of outgoing copies (`copy.bpf.c`) share.
#ifndef SLUICE_COPY_H
#define SLUICE_COPY_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "array.h"
#include "layout.h"
#include "parse.h"

TABLE(xip_members, XIP_MEMBERS, struct member);
TABLE(xip_sets, XIP_SETS, struct xip_set);
TABLE(xip_counts, XIP_CPUS *XIP_REASONS, struct xip_count);

// The packet's set and its version, in the place of the frame's link-layer addresses until the copy leaves.
struct copy_mark {
    word32 set;
    word32 version;
};

// Counts a packet under a reason on this CPU, and returns the count. An array for all CPUs, because a process without
// privileges can map that one, but not an array for each CPU.
static __always_inline __u64 note(enum xip_reason reason)
{
    __u32 index = (bpf_get_smp_processor_id() & (XIP_CPUS - 1)) * XIP_REASONS + reason;
    struct xip_count *count = bpf_map_lookup_elem(&xip_counts, &index);
    return count ? ++count->packets : 0;
}

#endif
