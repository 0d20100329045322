// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The packet generator: runs on live frames, writes all headers of the next packet and sends the frame out of the
// interface. The kernel reuses frames without resetting them, so that each round rewrites every header, and the octets of a
// raw frame that may have changed on the way.
#include <linux/in.h>
#include <linux/udp.h>
#include "layout.h"
#include "parse.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define IPV4_HEADERS (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define IPV6_HEADERS (sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

// The longest frame without its check sequence, rounded up to whole words of 64 bits.
#define RAW_WORDS 190

// 4 or 6, or 0 for raw frames.
const volatile __u32 family = 4;
const volatile __u32 stream = 0;
// The Ethernet, IP and UDP headers. Destination address and checksums are zero.
const volatile __u8 headers[64];
// The octets of a raw frame, and the number of octets that each round writes. The octets behind stay as the kernel made them.
const volatile __u64 raw[RAW_WORDS];
const volatile __u32 raw_octets = 0;
// The offset of a raw frame's stamp; 0 for frames without a stamp.
const volatile __u32 raw_stamp = 0;
// The offset at which a raw frame has the first 4 octets of the destination; 0 for frames without a destination.
const volatile __u32 raw_destination = 0;
// The sum of the IPv4 header's 16-bit words.
const volatile __u32 ip_sum = 0;
// The sum of the 16-bit words of the UDP pseudo-header, the UDP header, and magic and stream of the stamp.
const volatile __u32 udp_sum = 0;
// The number of destinations less 1; the number is a power of two and the size of the map `destinations`.
const volatile __u32 destination_mask = 0;
// Packets in a row to one destination, and source ports used in turn.
const volatile __u32 flow_length = 1;
const volatile __u32 flows = 1;
// Packets to send; 0 without a limit.
const volatile __u64 limit = 0;
// Nanoseconds between packets of this program in 1/1024; 0 for full speed.
const volatile __u64 gap = 0;
// Several programs share a stream: the sequence number of the first packet, and the distance to the next.
const volatile __u64 offset = 0;
const volatile __u64 stride = 1;
// 1 + the sequence number that the generator leaves out; 0 to send each. Tests prove by it that a sink sees a loss.
const volatile __u64 omitted = 0;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct generator);
} generators SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct destination);
} destinations SEC(".maps");

// Returns the ones' complement sum (RFC 1071) of a sum of 16-bit words.
static __always_inline __u16 fold(__u32 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static __always_inline __u32 sum_words(const void *data, __u32 words)
{
    const __u16 *word = data;
    __u32 sum = 0;
    for (__u32 i = 0; i < words; i++)
        sum += word[i];
    return sum;
}

// Writes ports, checksum and stamp. `sum` is the sum of the destination's words. A zero checksum is sent as 0xffff
// (RFC 768).
static __always_inline void write_udp(struct udphdr *udp, __u32 sum, __u64 sequence, __u32 flow)
{
    struct stamp *stamp = (void *)(udp + 1);
    __u16 first = bpf_ntohs(udp->source);
    udp->source = bpf_htons(first + flow);
    stamp->magic = bpf_htonl(STAMP_MAGIC);
    stamp->stream = bpf_htonl(stream);
    stamp->sequence = bpf_cpu_to_be64(sequence);
    __u16 check = ~fold(udp_sum + sum + udp->source + sum_words(&stamp->sequence, 4));
    udp->check = check ? check : 0xffff;
}

static __always_inline int write_ipv4(struct xdp_md *ctx, struct destination *to, __u64 sequence, __u32 flow)
{
    __u8 *start = frame_start(ctx);
    if ((void *)(start + IPV4_HEADERS + sizeof(struct stamp)) > frame_end(ctx))
        return 0;
    for (__u32 i = 0; i < IPV4_HEADERS; i++)
        start[i] = headers[i];
    struct iphdr *ip = (void *)(start + sizeof(struct ethhdr));
    __builtin_memcpy(&ip->daddr, to->address, sizeof(ip->daddr));
    __u32 sum = sum_words(to->address, 2);
    ip->check = ~fold(ip_sum + sum);
    write_udp((void *)(ip + 1), sum, sequence, flow);
    return 1;
}

static __always_inline int write_ipv6(struct xdp_md *ctx, struct destination *to, __u64 sequence, __u32 flow)
{
    __u8 *start = frame_start(ctx);
    if ((void *)(start + IPV6_HEADERS + sizeof(struct stamp)) > frame_end(ctx))
        return 0;
    for (__u32 i = 0; i < IPV6_HEADERS; i++)
        start[i] = headers[i];
    struct ipv6hdr *ip = (void *)(start + sizeof(struct ethhdr));
    __builtin_memcpy(&ip->daddr, to->address, sizeof(to->address));
    write_udp((void *)(ip + 1), sum_words(to->address, 8), sequence, flow);
    return 1;
}

static __always_inline int write_raw(struct xdp_md *ctx, struct destination *to, __u64 sequence)
{
    __u8 *start = frame_start(ctx);
    const volatile __u8 *octets = (const volatile __u8 *)raw;
    for (__u32 i = 0; i < RAW_WORDS && i < raw_octets / 8; i++) {
        __u64 *word = (__u64 *)start + i;
        if ((void *)(word + 1) > frame_end(ctx))
            return 0;
        *word = raw[i];
    }
    // The octets behind the last whole word.
    for (__u32 i = 0; i < 7; i++) {
        __u32 at = (raw_octets & ~7u) + i;
        if (at >= raw_octets || at >= RAW_WORDS * 8)
            break;
        if ((void *)(start + at + 1) > frame_end(ctx))
            return 0;
        start[at] = octets[at];
    }
    if (raw_destination) {
        __u8 *place = start + raw_destination;
        if ((void *)(place + 4) > frame_end(ctx))
            return 0;
        __builtin_memcpy(place, to->address, 4);
    }
    if (!raw_stamp)
        return 1;
    struct stamp *stamp = (void *)(start + raw_stamp);
    if ((void *)(stamp + 1) > frame_end(ctx))
        return 0;
    stamp->magic = bpf_htonl(STAMP_MAGIC);
    stamp->stream = bpf_htonl(stream);
    stamp->sequence = bpf_cpu_to_be64(sequence);
    return 1;
}

static __always_inline int write_packet(struct xdp_md *ctx, struct destination *to, __u64 sequence, __u32 flow)
{
    if (family == 0)
        return write_raw(ctx, to, sequence);
    if (family == 4)
        return write_ipv4(ctx, to, sequence, flow);
    return write_ipv6(ctx, to, sequence, flow);
}

SEC("xdp")
int sluice_pktgen(struct xdp_md *ctx)
{
    __u32 zero = 0;
    struct generator *generator = bpf_map_lookup_elem(&generators, &zero);
    if (!generator)
        return XDP_DROP;
    __u64 count = generator->sent;
    if (limit && count >= limit)
        return XDP_DROP;
    __u64 now = bpf_ktime_get_ns();
    if (!count)
        generator->first = now;
    if (gap && now < generator->first + ((count * gap) >> 10)) {
        generator->idle += 1;
        return XDP_DROP;
    }
    __u64 sequence = offset + count * stride;
    __u64 burst = sequence / flow_length;
    __u32 index = burst & destination_mask;
    struct destination *to = bpf_map_lookup_elem(&destinations, &index);
    if (!to || !write_packet(ctx, to, sequence, burst % flows))
        return XDP_DROP;
    generator->sent = count + 1;
    generator->last = now;
    if (omitted == sequence + 1)
        return XDP_DROP;
    return XDP_TX;
}
