// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Forwards IPv4 and IPv6 by the tables of `tables.h` (RFC 1812, sections 5.2 and 5.3; RFC 8200). The kernel gets each
// packet that needs more than a look-up: options, ICMP errors, fragmentation, the router's own addresses, neighbors
// without a MAC address. Such a packet is unchanged; only a packet that is sent is written to.
#include "chain.h"
#include "flow.h"
#include "station.h"
#include "tables.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// A router's own number: routers in a row that hash alike would use a part of each other's members only.
const volatile __u64 flow_seed = 0;

// Returns true for addresses that only the kernel may judge: 0/8, 127/8, multicast, reserved and broadcast (224/3).
static __always_inline int ipv4_is_martian(__be32 address)
{
    __u8 first = bpf_ntohl(address) >> 24;
    return first == 0 || first == 127 || first >= 224;
}

// Returns true for addresses that only the kernel may judge: unspecified, loopback and IPv4-mapped (::/64), link-local,
// site-local and multicast (fe00::/7).
static __always_inline int ipv6_is_martian(struct in6_addr *address)
{
    word32 *word = (void *)address;
    return (word[0] | word[1]) == 0 || address->s6_addr[0] >= 0xfe;
}

// Returns true if the header's checksum is right (RFC 1812, section 5.2.2): the ones' complement sum of all words of 16
// bits is 0xffff (RFC 1071).
static __always_inline int ipv4_is_intact(struct iphdr *ip)
{
    word32 *word = (void *)ip;
    __u64 sum = (__u64)word[0] + word[1] + word[2] + word[3] + word[4];
    sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    return ((sum + (sum >> 16)) & 0xffff) == 0xffff;
}

// Subtracts 1 from the TTL. The word with the TTL becomes smaller by 0x0100, so that its complement, the checksum, becomes
// larger by the same (RFC 1624).
static __always_inline void decrement_ttl(struct iphdr *ip)
{
    __u32 check = ip->check + bpf_htons(0x0100);
    ip->check = check + (check >= 0xffff);
    ip->ttl -= 1;
}

// Returns the hash of the flow of a packet whose header is at `ip`.
static __always_inline __u32 flow_of(struct xdp_md *ctx, void *ip, int is_ipv6)
{
    return is_ipv6 ? ipv6_flow(ctx, ip, flow_seed) : ipv4_flow(ctx, ip, flow_seed);
}

// Returns the member of a group for the packet, or null. Only a group with buckets needs the flow hash.
static __always_inline struct member *choose(struct xdp_md *ctx, __u32 group, void *ip, int is_ipv6)
{
    volatile __u64 *word = bpf_map_lookup_elem(&groups, &group);
    if (!word)
        return 0;
    __u64 way = *word;
    __u32 index = way;
    if (way >> 32) {
        struct bucket_block *block = bpf_map_lookup_elem(&buckets, &index);
        if (!block)
            return 0;
        index = block->member[flow_of(ctx, ip, is_ipv6) & (BUCKETS - 1)];
    }
    return bpf_map_lookup_elem(&members, &index);
}

// Returns `forwarded` if the packet of `length` octets may be sent to `member`, else the reason against it.
static __always_inline enum reason judge(struct xdp_md *ctx, struct member *member, __u32 length, enum reason forwarded)
{
    if (!member)
        return REASON_KERNEL;
    __u32 action = member->action;
    if (action == MEMBER_DROP)
        return REASON_BLACKHOLE;
    if (action == MEMBER_UNRESOLVED)
        return REASON_UNRESOLVED;
    if (action != MEMBER_FORWARD)
        return REASON_KERNEL;
    if (length > member->mtu)
        return REASON_SIZE;
    if (member->interface == ctx->ingress_ifindex)
        return REASON_SAME_INTERFACE;
    return forwarded;
}

// Sets `member` and `length`, that of the packet, and writes the packet's new headers, or returns the reason for which the packet is not
// sent.
static __always_inline enum reason forward_ipv4(struct xdp_md *ctx, struct port *port, struct member **member, __u32 *length)
{
    struct ethhdr *ethernet = frame_start(ctx);
    struct iphdr *ip = (void *)(ethernet + 1);
    if ((void *)(ip + 1) > frame_end(ctx))
        return REASON_MALFORMED;
    if (!port || !(port->flags & PORT_IPV4))
        return REASON_OFF;
    if (!is_for(ethernet, port))
        return REASON_STATION;
    if (ip->ihl != 5)
        return REASON_OPTIONS;
    if (!ipv4_is_intact(ip))
        return REASON_MALFORMED;
    if (ip->ttl <= 1)
        return REASON_TTL;
    if (ipv4_is_martian(ip->saddr) || ipv4_is_martian(ip->daddr) || ipv4_source_is_kernels(ip->saddr))
        return REASON_MARTIAN;
    *length = bpf_ntohs(ip->tot_len);
    *member = choose(ctx, ipv4_group(ip->daddr), ip, 0);
    enum reason reason = judge(ctx, *member, *length, REASON_FORWARDED_IPV4);
    if (reason == REASON_FORWARDED_IPV4) {
        decrement_ttl(ip);
        write_macs(ethernet, *member);
    }
    return reason;
}

// Does for IPv6 what `forward_ipv4` does for IPv4.
static __always_inline enum reason forward_ipv6(struct xdp_md *ctx, struct port *port, struct member **member, __u32 *length)
{
    struct ethhdr *ethernet = frame_start(ctx);
    struct ipv6hdr *ip = (void *)(ethernet + 1);
    if ((void *)(ip + 1) > frame_end(ctx))
        return REASON_MALFORMED;
    if (!port || !(port->flags & PORT_IPV6))
        return REASON_OFF;
    if (!is_for(ethernet, port))
        return REASON_STATION;
    if (ip->nexthdr == IPPROTO_HOPOPTS)
        return REASON_OPTIONS;
    if (ip->hop_limit <= 1)
        return REASON_TTL;
    if (ipv6_is_martian(&ip->saddr) || ipv6_is_martian(&ip->daddr))
        return REASON_MARTIAN;
    *length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
    *member = choose(ctx, ipv6_group(ip->daddr.s6_addr), ip, 1);
    enum reason reason = judge(ctx, *member, *length, REASON_FORWARDED_IPV6);
    if (reason == REASON_FORWARDED_IPV6) {
        ip->hop_limit -= 1;
        write_macs(ethernet, *member);
    }
    return reason;
}

// Removes what lies behind the packet of `length` octets, such as padding to the shortest frame. Pointers into the frame end here.
static __always_inline void cut(struct xdp_md *ctx, __u32 length)
{
    __s64 surplus = frame_end(ctx) - frame_start(ctx) - (__s64)(sizeof(struct ethhdr) + length);
    if (surplus > 0)
        bpf_xdp_adjust_tail(ctx, -(int)surplus);
}

SEC("xdp")
int sluice_ip(struct xdp_md *ctx)
{
    struct port *port = port_of(ctx);
    struct member *member = 0;
    __u32 length = 0;
    enum class class = ether_class(ctx);
    enum reason reason = REASON_OTHER_ETHERTYPE;
    if (class == CLASS_IPV4)
        reason = forward_ipv4(ctx, port, &member, &length);
    else if (class == CLASS_IPV6)
        reason = forward_ipv6(ctx, port, &member, &length);
    if (reason == REASON_BLACKHOLE)
        return end_at(ctx, port, reason, XDP_DROP);
    if (reason > REASON_FORWARDED_IPV6 || !member)
        return end_at(ctx, port, reason, XDP_PASS);
    int verdict = end_at(ctx, port, reason, bpf_redirect(member->interface, 0));
    cut(ctx, length);
    return verdict;
}
