// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Reading frames with bounds checks that the verifier accepts.
#ifndef SLUICE_PARSE_H
#define SLUICE_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// The EtherTypes of XIP: packets, and packets with a header extension.
#define ETHERTYPE_XIP 0xC0DE
#define ETHERTYPE_XIP_EXTENDED 0xC0DF

// Words of frames and maps, whatever the type of the fields that they cover.
typedef __u32 __attribute__((may_alias)) word32;
typedef __u16 __attribute__((may_alias)) half16;

enum class {
    CLASS_OTHER,
    CLASS_IPV4,
    CLASS_IPV6,
    CLASS_XIP,
    CLASS_MALFORMED,
};

static __always_inline void *frame_start(struct xdp_md *ctx)
{
    return (void *)(long)ctx->data;
}

static __always_inline void *frame_end(struct xdp_md *ctx)
{
    return (void *)(long)ctx->data_end;
}

// Returns the class of the frame's EtherType without a look at the packet. Frames with a VLAN tag are of class other.
static __always_inline enum class ether_class(struct xdp_md *ctx)
{
    struct ethhdr *ethernet = frame_start(ctx);
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return CLASS_MALFORMED;
    switch (bpf_ntohs(ethernet->h_proto)) {
    case ETH_P_IP:
        return CLASS_IPV4;
    case ETH_P_IPV6:
        return CLASS_IPV6;
    case ETHERTYPE_XIP:
    case ETHERTYPE_XIP_EXTENDED:
        return CLASS_XIP;
    default:
        return CLASS_OTHER;
    }
}

// Returns true if the IPv4 header (RFC 791, section 3.1) lies within the frame and its lengths agree with the frame.
static __always_inline int ipv4_fits(struct xdp_md *ctx)
{
    void *end = frame_end(ctx);
    struct iphdr *ip = frame_start(ctx) + sizeof(struct ethhdr);
    if ((void *)(ip + 1) > end)
        return 0;
    __u64 available = ctx->data_end - ctx->data - sizeof(struct ethhdr);
    __u32 header = ip->ihl * 4;
    __u32 total = bpf_ntohs(ip->tot_len);
    return ip->version == 4 && header >= sizeof(*ip) && total >= header && total <= available;
}

// Returns true if the IPv6 header (RFC 8200, section 3) lies within the frame and its length agrees with the frame.
static __always_inline int ipv6_fits(struct xdp_md *ctx)
{
    void *end = frame_end(ctx);
    struct ipv6hdr *ip = frame_start(ctx) + sizeof(struct ethhdr);
    if ((void *)(ip + 1) > end)
        return 0;
    __u64 available = ctx->data_end - ctx->data - sizeof(struct ethhdr);
    return ip->version == 6 && sizeof(*ip) + bpf_ntohs(ip->payload_len) <= available;
}

// Returns the frame's class; malformed if an IP header contradicts the frame.
static __always_inline enum class classify(struct xdp_md *ctx)
{
    enum class class = ether_class(ctx);
    if (class == CLASS_IPV4 && !ipv4_fits(ctx))
        return CLASS_MALFORMED;
    if (class == CLASS_IPV6 && !ipv6_fits(ctx))
        return CLASS_MALFORMED;
    return class;
}

#endif
