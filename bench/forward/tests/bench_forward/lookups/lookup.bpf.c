// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Asks the forwarding tables and the kernel where packets go, an address a run.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "tables.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The largest number of addresses of a batch.
#define BATCH 65536
#define AF_INET 2
#define AF_INET6 10

// The interface from which the packets come.
const volatile __u32 incoming = 0;

// An IPv4 address has the first four octets.
struct question {
    __u8 address[16];
};

struct answer {
    // The result of the kernel's look-up (`BPF_FIB_LKUP_RET_...`), and the frame that the kernel would send.
    __u32 kernel;
    __u32 kernel_interface;
    __u8 kernel_destination[6];
    __u8 kernel_source[6];
    // The member of the tables.
    __u32 action;
    __u32 interface;
    __u8 destination[6];
    __u8 source[6];
};

// The place of the next question, and the family of all.
struct progress {
    __u32 next;
    __u32 family;
};

TABLE(questions, BATCH, struct question);
TABLE(answers, BATCH, struct answer);
TABLE(progresses, 1, struct progress);

static __always_inline void ask_kernel(struct xdp_md *ctx, __u32 family, struct question *question, struct answer *answer)
{
    struct bpf_fib_lookup route;
    __builtin_memset(&route, 0, sizeof(route));
    route.family = family;
    route.ifindex = incoming;
    if (family == AF_INET)
        __builtin_memcpy(&route.ipv4_dst, question->address, 4);
    else
        __builtin_memcpy(route.ipv6_dst, question->address, 16);
    answer->kernel = bpf_fib_lookup(ctx, &route, sizeof(route), 0);
    answer->kernel_interface = route.ifindex;
    __builtin_memcpy(answer->kernel_destination, route.dmac, 6);
    __builtin_memcpy(answer->kernel_source, route.smac, 6);
}

// As the program `ip` does for the flow of hash 0.
static __always_inline void ask_tables(__u32 family, struct question *question, struct answer *answer)
{
    __u32 index = family == AF_INET ? ipv4_group(*(__be32 *)question->address) : ipv6_group(question->address);
    answer->action = MEMBER_KERNEL;
    __u64 *way = bpf_map_lookup_elem(&groups, &index);
    if (!way)
        return;
    index = *way;
    if (*way >> 32) {
        struct bucket_block *block = bpf_map_lookup_elem(&buckets, &index);
        if (!block)
            return;
        index = block->member[0];
    }
    struct member *member = bpf_map_lookup_elem(&members, &index);
    if (!member)
        return;
    answer->action = member->action;
    answer->interface = member->interface;
    __builtin_memcpy(answer->destination, member->destination, 6);
    __builtin_memcpy(answer->source, member->source, 6);
}

SEC("xdp")
int sluice_lookup(struct xdp_md *ctx)
{
    __u32 zero = 0;
    struct progress *progress = bpf_map_lookup_elem(&progresses, &zero);
    if (!progress)
        return XDP_ABORTED;
    __u32 place = progress->next++;
    struct question *question = bpf_map_lookup_elem(&questions, &place);
    struct answer *answer = bpf_map_lookup_elem(&answers, &place);
    if (!question || !answer)
        return XDP_ABORTED;
    ask_kernel(ctx, progress->family, question, answer);
    ask_tables(progress->family, question, answer);
    return XDP_PASS;
}
