// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The budget of an element of a laboratory: frames beyond a rate are dropped, the others go on along the chain. No limit of a control
// group stops the threads of the kernel that poll interfaces, so that the rate is counted in nanoseconds of a fixed cost per frame (the
// generic cell rate algorithm, ITU-T I.371).
#include "array.h"
#include "chain.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The cost of a frame, and the cost that may be spent at once, in nanoseconds.
const volatile __u64 cost = 0;
const volatile __u64 burst = 0;
// 1 if frames within the budget end here, as at a sink.
const volatile __u32 ends = 0;

// Interfaces on several processors share one budget.
struct budget {
    // The time at which everything that was spent is earned again.
    __u64 spent_until;
    __u64 within;
    __u64 beyond;
};

TABLE(budgets, 1, struct budget);

// Attempts to spend while other processors spend.
#define ATTEMPTS 16

static __always_inline int spend(struct budget *budget)
{
    __u64 now = bpf_ktime_get_ns();
#pragma unroll
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        __u64 before = *(volatile __u64 *)&budget->spent_until;
        __u64 from = before > now ? before : now;
        if (from - now > burst)
            return 0;
        if (__sync_val_compare_and_swap(&budget->spent_until, before, from + cost) == before)
            return 1;
    }
    return 0;
}

SEC("xdp")
int sluice_budget(struct xdp_md *ctx)
{
    __u32 zero = 0;
    struct budget *budget = bpf_map_lookup_elem(&budgets, &zero);
    if (!budget || !spend(budget)) {
        if (budget)
            __sync_fetch_and_add(&budget->beyond, 1);
        return end(ctx, REASON_DROPPED, XDP_DROP);
    }
    __sync_fetch_and_add(&budget->within, 1);
    if (ends)
        return end(ctx, REASON_DROPPED, XDP_DROP);
    return continue_after(ctx, -1);
}
