// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The generator's other end: drops stamped packets and counts losses, duplicates and reordering by sequence number.
// Other frames pass. Counts are exact while one receive queue gets the stream.
#include <linux/in.h>
#include <linux/udp.h>
#include "layout.h"
#include "parse.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The stream whose packets are counted.
const volatile __u32 stream = 0;
// The number of words of the window; a power of two and the size of the map `seen`.
const volatile __u32 words = 65536;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct tally);
} tallies SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 65536);
    __type(key, __u32);
    __type(value, struct window);
} seen SEC(".maps");

// Returns the offset of the UDP payload, or 0 if the frame has none at the place where the generator puts it.
static __always_inline __u32 payload_offset(struct xdp_md *ctx)
{
    void *start = frame_start(ctx), *end = frame_end(ctx);
    if (ether_class(ctx) == CLASS_IPV4) {
        struct iphdr *ip = start + sizeof(struct ethhdr);
        if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
            return 0;
        return sizeof(struct ethhdr) + sizeof(*ip) + sizeof(struct udphdr);
    }
    if (ether_class(ctx) == CLASS_IPV6) {
        struct ipv6hdr *ip = start + sizeof(struct ethhdr);
        if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
            return 0;
        return sizeof(struct ethhdr) + sizeof(*ip) + sizeof(struct udphdr);
    }
    return 0;
}

static __always_inline void count_sequence(struct tally *tally, __u64 sequence)
{
    __u64 word = sequence / 64 + 1;
    __u32 index = (sequence / 64) & (words - 1);
    struct window *window = bpf_map_lookup_elem(&seen, &index);
    if (!window)
        return;
    if (word < window->word) {
        tally->late += 1;
        return;
    }
    if (word > window->word) {
        window->word = word;
        window->seen = 0;
    }
    __u64 bit = 1ULL << (sequence & 63);
    if (window->seen & bit) {
        tally->duplicates += 1;
        return;
    }
    window->seen |= bit;
    if (sequence < tally->expected)
        tally->reordered += 1;
    else
        tally->expected = sequence + 1;
}

SEC("xdp")
int sluice_sink(struct xdp_md *ctx)
{
    __u32 offset = payload_offset(ctx);
    if (!offset || offset > 128)
        return XDP_PASS;
    struct stamp *stamp = frame_start(ctx) + offset;
    if ((void *)(stamp + 1) > frame_end(ctx))
        return XDP_PASS;
    if (stamp->magic != bpf_htonl(STAMP_MAGIC) || stamp->stream != bpf_htonl(stream))
        return XDP_PASS;
    __u32 zero = 0;
    struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
    if (!tally)
        return XDP_PASS;
    __u64 now = bpf_ktime_get_ns();
    if (!tally->received)
        tally->first = now;
    tally->last = now;
    tally->octets += ctx->data_end - ctx->data;
    count_sequence(tally, bpf_be64_to_cpu(stamp->sequence));
    tally->received += 1;
    return XDP_DROP;
}
