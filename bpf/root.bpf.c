// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The root program: counts and classifies each frame, then continues with the first filled slot of the chain.
#include "chain.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The layouts with which this program was compiled.
const volatile enum layout layout = LAYOUT_VERSION;
// The number of reasons. The variable keeps the names of the reasons in the object's type information.
const volatile enum reason reasons = REASONS;

SEC("xdp")
int sluice_root(struct xdp_md *ctx)
{
    count_frame(ctx, REASON_RECEIVED);
    switch (classify(ctx)) {
    case CLASS_MALFORMED:
        // The kernel drops and counts such packets itself, and operators know the kernel's counters.
        count_frame(ctx, REASON_MALFORMED);
        return end(ctx, REASON_PASSED, XDP_PASS);
    case CLASS_IPV4:
        count_frame(ctx, REASON_IPV4);
        break;
    case CLASS_IPV6:
        count_frame(ctx, REASON_IPV6);
        break;
    case CLASS_XIP:
        count_frame(ctx, REASON_XIP);
        break;
    case CLASS_OTHER:
        count_frame(ctx, REASON_OTHER);
        break;
    }
    return continue_after(ctx, -1);
}
