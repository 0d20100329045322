// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The forwarding tables and the way from an address to a member. Each index is checked by the map that it leads into, so
// that any content of the maps ends in a member or in none.
#ifndef SLUICE_TABLES_H
#define SLUICE_TABLES_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "array.h"
#include "layout.h"

TABLE(ipv4_root, IPV4_ROOT_WORDS, __u64);
TABLE(ipv4_nodes, IPV4_NODES, struct ipv4_node);
TABLE(ipv6_root, IPV6_ROOT_WORDS, __u64);
TABLE(ipv6_nodes, IPV6_NODES, struct ipv6_node);
TABLE(groups, GROUPS, __u64);
TABLE(buckets, BUCKET_BLOCKS, struct bucket_block);
TABLE(members, MEMBERS, struct member);
TABLE(ipv4_sources, IPV4_SOURCE_WORDS, __u64);

// The octets of an IPv6 address below the root's 24 bits: no way has more nodes.
#define IPV6_DEPTH 13

// Returns the group of an IPv4 address in network order. The group may lie beyond the map's end.
static __always_inline __u32 ipv4_group(__be32 address)
{
    __u32 host = bpf_ntohl(address);
    __u32 index = host >> 10;
    __u64 *word = bpf_map_lookup_elem(&ipv4_root, &index);
    if (!word)
        return GROUP_KERNEL;
    __u32 entry = (*word >> ((host >> 8 & 3) * 16)) & 0xffff;
    if (!(entry & IPV4_NODE))
        return entry;
    index = entry & ~IPV4_NODE;
    struct ipv4_node *node = bpf_map_lookup_elem(&ipv4_nodes, &index);
    // A node within a node is beyond the last octet; such an entry is no group either.
    return node ? node->entry[host & 0xff] : GROUP_KERNEL;
}

// Returns true if packets with this IPv4 source go to the kernel: the host's own addresses, and others with their hashes.
static __always_inline int ipv4_source_is_kernels(__be32 address)
{
    __u32 bit = bpf_ntohl(address) * 0x9e3779b1u >> 16;
    __u32 index = bit >> 6;
    __u64 *word = bpf_map_lookup_elem(&ipv4_sources, &index);
    return word && (*word >> (bit & 63) & 1);
}

// Returns the group of the IPv6 address at `octets`. The group may lie beyond the map's end.
static __always_inline __u32 ipv6_group(const __u8 *octets)
{
    __u32 index = octets[0] << 15 | octets[1] << 7 | octets[2] >> 1;
    __u64 *word = bpf_map_lookup_elem(&ipv6_root, &index);
    if (!word)
        return GROUP_KERNEL;
    __u32 entry = *word >> ((octets[2] & 1) * 32);
#pragma clang loop unroll(disable)
    for (int depth = 0; depth < IPV6_DEPTH; depth++) {
        if (!(entry & IPV6_NODE))
            break;
        index = entry & ~IPV6_NODE;
        struct ipv6_node *node = bpf_map_lookup_elem(&ipv6_nodes, &index);
        if (!node)
            return GROUP_KERNEL;
        entry = node->entry[octets[3 + depth]];
    }
    return entry ? entry : GROUP_IPV6_DEFAULT;
}

#endif
