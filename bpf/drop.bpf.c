// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Drops and counts every frame; the floor against which chains are measured.
#include "count.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("xdp")
int sluice_drop(struct xdp_md *ctx)
{
    return end(ctx, REASON_DROPPED, XDP_DROP);
}
