// SPDX-License-Identifier: MIT OR GPL-2.0-only
// An empty program for any slot: continues with the chain or ends it with a fixed verdict. Tests and benchmarks fill
// slots with it; a new program begins as a copy.
#include "chain.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The slot of this copy of the program.
const volatile enum slot slot = SLOT_POLICE;
// 1 if the program drops each frame instead of continuing.
const volatile __u32 drops = 0;

SEC("xdp")
int sluice_empty(struct xdp_md *ctx)
{
    if (drops)
        return end(ctx, REASON_DROPPED, XDP_DROP);
    return continue_after(ctx, slot);
}
