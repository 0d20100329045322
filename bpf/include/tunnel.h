// SPDX-License-Identifier: MIT OR GPL-2.0-only
// XIP packets in UDP datagrams over IPv4 (docs/xia/wire.md). The datagrams are those that the kernel makes for the socket of
// user space: all that the program cannot treat alike is left to that socket.
#ifndef SLUICE_TUNNEL_H
#define SLUICE_TUNNEL_H

#include <linux/in.h>
#include <linux/udp.h>
#include "count.h"
#include "flow.h"
#include "xip.h"

#define ADDRESS_FAMILY_IPV4 2
// The TTL and the bit "don't fragment" that the kernel's datagrams have (RFC 791, section 3.1).
#define TUNNEL_TTL 64
#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_PLAIN 0x45
// The longest datagram, with its header, whose checksum is computed: more than a frame of one page has room for.
#define TUNNEL_LARGEST 4096
// The octets in front of a packet in a tunnel.
#define TUNNEL_HEADERS (sizeof(struct iphdr) + sizeof(struct udphdr))

typedef __u64 __attribute__((may_alias)) word64;

static __always_inline __u32 fold(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

// Returns the ones' complement sum (RFC 1071) of `length` octets of the frame from `offset` on, `TUNNEL_LARGEST` at most. A function
// of its own, which the verifier checks once.
__attribute__((noinline)) __u32 sum_of(struct xdp_md *ctx, __u32 offset, __u32 length)
{
    void *end = frame_end(ctx), *at = frame_start(ctx) + (offset & 63);
    __u64 sum = 0;
#pragma clang loop unroll(disable)
    for (__u32 done = 8; done <= TUNNEL_LARGEST; done += 8) {
        word64 *word = at;
        if (done > length || (void *)(word + 1) > end)
            break;
        sum += (*word & 0xffffffff) + (*word >> 32);
        at = word + 1;
    }
    if (length & 4) {
        word32 *word = at;
        if ((void *)(word + 1) > end)
            return 0;
        sum += *word;
        at = word + 1;
    }
    if (length & 2) {
        half16 *half = at;
        if ((void *)(half + 1) > end)
            return 0;
        sum += *half;
        at = half + 1;
    }
    if (length & 1) {
        __u8 *octet = at;
        if ((void *)(octet + 1) > end)
            return 0;
        sum += bpf_htons(*octet << 8);
    }
    return fold(sum);
}

// Returns the sum of a datagram with its pseudo header (RFC 768). `length` is that of the datagram.
static __always_inline __u32 datagram_sum(struct xdp_md *ctx, __u32 from, __u32 to, __u32 length)
{
    __u32 datagram = sum_of(ctx, sizeof(struct ethhdr) + sizeof(struct iphdr), length);
    return fold((__u64)from + to + bpf_htons(IPPROTO_UDP) + bpf_htons(length) + datagram);
}

// Removes octets behind the first `length` octets of the frame. Returns true if none is left.
static __always_inline int trim(struct xdp_md *ctx, __u32 length)
{
    __u32 found = ctx->data_end - ctx->data;
    return found == length || (found > length && !bpf_xdp_adjust_tail(ctx, (int)length - (int)found));
}

// Takes the XIP packet out of a datagram for this host's end of the tunnels: the frame is one of XIP afterwards. Returns 0, and
// changes nothing, if the frame is no such datagram or an unusual one, and -1 if the frame is lost.
__attribute__((noinline)) int from_tunnel(struct xdp_md *ctx)
{
    __u32 zero = 0;
    struct xip_settings *settings = bpf_map_lookup_elem(&xip_settings, &zero);
    struct ethhdr *ethernet = frame_start(ctx);
    struct iphdr *ip = (void *)(ethernet + 1);
    struct udphdr *udp = (void *)(ip + 1);
    if (!settings || (void *)(udp + 1) > frame_end(ctx))
        return 0;
    if (!settings->tunnel_address || ip->daddr != settings->tunnel_address || udp->dest != settings->tunnel_port)
        return 0;
    if (*(__u8 *)ip != IPV4_PLAIN || ip->protocol != IPPROTO_UDP || ip->frag_off & bpf_htons(IPV4_FRAGMENT))
        return 0;
    __u32 total = bpf_ntohs(ip->tot_len), length = bpf_ntohs(udp->len);
    if (total != sizeof(*ip) + length || length <= sizeof(*udp) || length > TUNNEL_LARGEST)
        return 0;
    if (sizeof(*ethernet) + total > ctx->data_end - ctx->data)
        return 0;
    __u32 has_checksum = udp->check, from = ip->saddr, to = ip->daddr;
    if (sum_of(ctx, sizeof(*ethernet), sizeof(*ip)) != 0xffff)
        return 0;
    if (has_checksum && datagram_sum(ctx, from, to, length) != 0xffff)
        return 0;
    if (!trim(ctx, sizeof(*ethernet) + total))
        return 0;
    // The trimmed frame has the same start.
    word32 *mac = frame_start(ctx);
    if ((void *)(mac + 3) > frame_end(ctx))
        return -1;
    word32 first = mac[0], second = mac[1], third = mac[2];
    if (bpf_xdp_adjust_head(ctx, TUNNEL_HEADERS))
        return -1;
    mac = frame_start(ctx);
    half16 *type = (void *)(mac + 3);
    if ((void *)(type + 1) > frame_end(ctx))
        return -1;
    mac[0] = first;
    mac[1] = second;
    mac[2] = third;
    *type = settings->ether_type;
    return 1;
}

// Puts the XIP packet of `length` octets in the frame into a datagram to `end` (`struct xip_tunnel` as a word), and takes a hop. Returns
// the interface by which the kernel sends such datagrams, 0 if only user space can send this one (nothing has changed), and -1 if
// the frame is lost.
__attribute__((noinline)) int into_tunnel(struct xdp_md *ctx, __u64 end, __u32 length)
{
    __u32 zero = 0, datagram = sizeof(struct udphdr) + length;
    struct xip_settings *settings = bpf_map_lookup_elem(&xip_settings, &zero);
    struct xip_tunnel far = *(struct xip_tunnel *)&end;
    if (!settings || !far.port || datagram > TUNNEL_LARGEST)
        return 0;
    __u64 own = *(volatile word64 *)&settings->tunnel_address;
    struct {
        __u32 address;
        __u16 port;
        __u16 has_checksum;
    } near = *(typeof(near) *)&own;
    if (!near.address)
        return 0;
    struct bpf_fib_lookup way = {
        .family = ADDRESS_FAMILY_IPV4,
        .l4_protocol = IPPROTO_UDP,
        .sport = near.port,
        .dport = far.port,
        .tot_len = sizeof(struct iphdr) + datagram,
        .ifindex = ctx->ingress_ifindex,
        .ipv4_src = near.address,
        .ipv4_dst = far.address,
    };
    if (bpf_fib_lookup(ctx, &way, sizeof(way), 0) != BPF_FIB_LKUP_RET_SUCCESS)
        return 0;
    // Where the fast path is off for IPv4, the packet filter may have a word on the datagram.
    __u32 interface = way.ifindex;
    struct port *port = bpf_map_lookup_elem(&ports, &interface);
    if (!port || !(port->flags & PORT_IPV4))
        return 0;
    if (!trim(ctx, sizeof(struct ethhdr) + length) || bpf_xdp_adjust_head(ctx, -(int)TUNNEL_HEADERS))
        return 0;
    struct ethhdr *ethernet = frame_start(ctx);
    struct iphdr *ip = (void *)(ethernet + 1);
    struct udphdr *udp = (void *)(ip + 1);
    struct xip_header *header = (void *)(udp + 1);
    if ((void *)(header + 1) > frame_end(ctx))
        return -1;
    header->hop_limit -= 1;
    __builtin_memcpy(ethernet->h_dest, way.dmac, ETH_ALEN);
    __builtin_memcpy(ethernet->h_source, way.smac, ETH_ALEN);
    ethernet->h_proto = bpf_htons(ETH_P_IP);
    *(__u8 *)ip = IPV4_PLAIN;
    ip->tos = 0;
    ip->tot_len = bpf_htons(sizeof(*ip) + datagram);
    ip->id = 0;
    ip->frag_off = bpf_htons(IPV4_DONT_FRAGMENT);
    ip->ttl = TUNNEL_TTL;
    ip->protocol = IPPROTO_UDP;
    ip->check = 0;
    ip->saddr = near.address;
    ip->daddr = far.address;
    udp->source = near.port;
    udp->dest = far.port;
    udp->len = bpf_htons(datagram);
    udp->check = 0;
    __u32 ip_check = ~sum_of(ctx, sizeof(*ethernet), sizeof(*ip));
    __u32 udp_check = near.has_checksum ? ~datagram_sum(ctx, near.address, far.address, datagram) & 0xffff : 0;
    // A checksum of 0 would say that there is none (RFC 768).
    if (near.has_checksum && !udp_check)
        udp_check = 0xffff;
    ip = frame_start(ctx) + sizeof(*ethernet);
    udp = (void *)(ip + 1);
    if ((void *)(udp + 1) > frame_end(ctx))
        return -1;
    ip->check = ip_check;
    udp->check = udp_check;
    return interface;
}

#endif
