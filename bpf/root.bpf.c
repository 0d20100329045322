// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The root program: checks the headers of each frame, then continues with the first filled slot of the chain.
#include "chain.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The layouts with which this program was compiled.
const volatile enum layout layout = LAYOUT_VERSION;
// The number of reasons. The variable keeps the names of the reasons in the object's type information.
const volatile enum reason reasons = REASONS;

SEC("xdp")
int sluice_root(struct xdp_md *ctx)
{
    // The kernel drops and counts malformed packets itself, and operators know the kernel's counters.
    if (classify(ctx) == CLASS_MALFORMED)
        return end(ctx, REASON_MALFORMED, XDP_PASS);
    return continue_after(ctx, -1);
}
