// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Forwards XIP packets by the cache of answers. User space decides on each row once and writes the answer; a packet
// whose row has no answer goes to user space, within the budget of its source. Format: docs/xia/wire.md.
#include "array.h"
#include "chain.h"
#include "copy.h"
#include "station.h"
#include "xip.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The variables keep the names of the reasons and actions in the object's type information.
const volatile enum xip_reason xip_reasons = XIP_REASONS;
const volatile enum xip_action xip_last_action = XIP_COPY;

TABLE(xip_lines, XIP_LINES, struct xip_line);
TABLE(xip_tunnels, XIP_TUNNELS, struct xip_tunnel);
TABLE(xip_settings, 1, struct xip_settings);
TABLE(xip_sources, XIP_SOURCES, struct xip_source);

// The interfaces of XIP, each with the program `copy`. The FEA fills the map: interfaces have their numbers in its namespace.
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
    __uint(max_entries, XIP_DEVICES);
    __type(key, __u32);
    __type(value, struct bpf_devmap_val);
} xip_devices SEC(".maps");

// The AF_XDP sockets for packets to user space, by interface and receive queue. The FEA fills the map.
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, INTERFACES * RECEIVER_QUEUES);
    __type(key, __u32);
    __type(value, __u32);
} xip_receivers SEC(".maps");

// The tunnels read the settings.
#include "tunnel.h"

static __always_inline int drop(struct xdp_md *ctx, struct port *port, enum xip_reason reason)
{
    note(reason);
    return end_at(ctx, port, REASON_DROPPED, XDP_DROP);
}

// Returns true if the source of the packet may send one more packet to user space, and counts that packet against the
// budget. A source is a sender on an interface.
static __always_inline int is_covered(struct xdp_md *ctx, struct xip_settings *settings)
{
    struct ethhdr *ethernet = frame_start(ctx);
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return 0;
    word32 *sender = (void *)(ethernet->h_source + 2);
    __u64 mixed = ((__u64)(*sender ^ ctx->ingress_ifindex * 0x85ebca6b)) * settings->multiplier;
    __u32 index = mixed >> 52 & (XIP_SOURCES - 1);
    struct xip_source *source = bpf_map_lookup_elem(&xip_sources, &index);
    if (!source)
        return 0;
    __u64 now = bpf_ktime_get_ns();
    volatile __u64 *place = &source->time;
    __u64 time = *place;
    if (time < now)
        time = now;
    if (time - now > settings->punt_burst)
        return 0;
    *place = time + settings->punt_interval;
    return 1;
}

// Gives a packet to user space: to the AF_XDP socket of its interface and queue, or to the kernel for the packet socket.
static __always_inline int to_user(struct xdp_md *ctx, struct port *port, struct xip_settings *settings)
{
    if (!is_covered(ctx, settings))
        return drop(ctx, port, XIP_OVER_BUDGET);
    note(XIP_TO_USER);
    __u32 verdict = XDP_PASS;
    // A queue without a socket gives the packet to the kernel, and so to the packet socket.
    if (ctx->rx_queue_index < RECEIVER_QUEUES && ctx->data_end - ctx->data <= RECEIVER_LARGEST_FRAME)
        verdict = bpf_redirect_map(&xip_receivers, ctx->ingress_ifindex * RECEIVER_QUEUES + ctx->rx_queue_index, XDP_PASS);
    return end_at(ctx, port, REASON_SLOW_PATH, verdict);
}

// Returns the answer for a row, or -1 if the cache has none.
static __always_inline __u64 find(struct xip_hashes *hashes, struct xip_settings *settings)
{
    __u32 index = hashes->line * settings->multiplier >> (settings->line_shift & 63);
    struct xip_line *line = bpf_map_lookup_elem(&xip_lines, &index);
    __u64 wanted = hashes->tag & ~(__u64)XIP_TAG_USED;
    if (!line || !wanted)
        return -1;
#pragma unroll
    for (int i = 0; i < XIP_SLOTS_PER_LINE; i++) {
        volatile __u64 *place = &line->slot[i].tag;
        __u64 tag = *place;
        if ((tag & ~(__u64)XIP_TAG_USED) != wanted)
            continue;
        __u64 answer = *(volatile __u64 *)&line->slot[i].answer;
        // User space clears the tag before it stores another row's answer.
        if (*place != tag && (*place & ~(__u64)XIP_TAG_USED) != wanted)
            return -1;
        // A bit set in an empty slot is harmless: the tag matches no row.
        if (!(tag & XIP_TAG_USED))
            __sync_fetch_and_or(&line->slot[i].tag, XIP_TAG_USED);
        return answer;
    }
    return -1;
}

// The state of a packet on its way through the rows.
struct way {
    __u32 row;
    __u32 rows;
};

// Hashes the row `way->row`, or returns a reason against the packet. Edges lead to later rows, except for those of the
// entry node, which are in the last row.
static __always_inline enum xip_reason hash_row(struct xdp_md *ctx, struct way *way, struct xip_hashes *hashes, struct xip_settings *settings)
{
    void *rows = (void *)(xip_of(ctx) + 1), *end = xip_end(ctx);
    __u32 row = way->row;
    if (row >= XIP_MOST_ROWS)
        return XIP_BAD_ROW;
    struct xip_row *from = rows + row * sizeof(struct xip_row);
    // The compiler may check another register's bounds than the one that it reads by.
    asm volatile("" : "+r"(from));
    if ((void *)(from + 1) > end)
        return XIP_SHORT_ROWS;
    if (row + 1 != way->rows && from->edge[0] == XIP_EMPTY_EDGE)
        return XIP_AT_SINK;
    __u32 shape = 0, is_over = 0, least = row + 1 == way->rows ? 0 : row + 1;
#pragma unroll
    for (int i = 0; i < XIP_MOST_EDGES; i++) {
        __u32 edge = from->edge[i];
        if (edge == XIP_EMPTY_EDGE) {
            is_over = 1;
            continue;
        }
        if (is_over || edge >= way->rows || edge < least || edge >= XIP_MOST_ROWS)
            return XIP_BAD_ROW;
        struct xip_row *to = rows + edge * sizeof(struct xip_row);
        asm volatile("" : "+r"(to));
        if ((void *)(to + 1) > end)
            return XIP_SHORT_ROWS;
        word32 *word = (void *)to->xid;
#pragma unroll
        for (int pair = 0; pair < 3; pair++)
            xip_mix(hashes, settings->key, 6 * i + 2 * pair, word[2 * pair], word[2 * pair + 1]);
        __u32 is_sink = edge + 1 == way->rows || to->edge[0] == XIP_EMPTY_EDGE;
        shape |= (2 | is_sink) << (2 * i);
    }
    if (!shape)
        return XIP_BAD_ROW;
    xip_mix(hashes, settings->key, 24, shape, 0);
    return XIP_HIT;
}

// Marks an edge of the row, makes the row to which the edge leads the last node, and returns that row.
static __always_inline int select_edge(struct xdp_md *ctx, struct way *way, __u32 edge)
{
    struct xip_header *header = xip_of(ctx);
    void *end = xip_end(ctx);
    if ((void *)(header + 1) > end || way->row >= XIP_MOST_ROWS || edge >= XIP_MOST_EDGES)
        return -1;
    __u8 *place = (void *)(header + 1) + way->row * sizeof(struct xip_row) + sizeof(((struct xip_row *)0)->xid);
    place += edge;
    asm volatile("" : "+r"(place));
    if ((void *)(place + 1) > end)
        return -1;
    __u8 to = *place & ~XIP_CHOSEN;
    *place = to | XIP_CHOSEN;
    header->last_node = to;
    return to;
}

// Counts an undeliverable packet, and drops it unless its sender gets a report.
static __always_inline int fail(struct xdp_md *ctx, struct port *port, struct xip_settings *settings, enum xip_reason reason)
{
    if (!settings->has_reports)
        return drop(ctx, port, reason);
    note(reason);
    return to_user(ctx, port, settings);
}

static __always_inline int forward(struct xdp_md *ctx, struct port *port, struct xip_settings *settings, __u32 index)
{
    struct ethhdr *ethernet = frame_start(ctx);
    struct xip_header *header = (void *)(ethernet + 1);
    struct member *member = bpf_map_lookup_elem(&xip_members, &index);
    if ((void *)(header + 1) > frame_end(ctx) || !member || member->action != MEMBER_FORWARD)
        return drop(ctx, port, XIP_NO_MEMBER);
    if (!header->hop_limit)
        return fail(ctx, port, settings, XIP_HOP_LIMIT);
    if (ctx->data_end - ctx->data > (__u64)member->mtu + sizeof(*ethernet))
        return drop(ctx, port, XIP_TOO_BIG);
    header->hop_limit -= 1;
    write_macs(ethernet, member);
    note(XIP_SENT);
    return end_at(ctx, port, REASON_FORWARDED_XIP, bpf_redirect(member->interface, 0));
}

// Returns the far end of a tunnel as a word (`struct xip_tunnel`), 0 for none.
static __always_inline __u64 far_end(__u32 index)
{
    struct xip_tunnel *tunnel = bpf_map_lookup_elem(&xip_tunnels, &index);
    return tunnel ? *(volatile word64 *)tunnel : 0;
}

// Sends a packet of `length` octets to the far end `end` of a tunnel.
static __always_inline int tunnel(struct xdp_md *ctx, struct port *port, struct xip_settings *settings, __u64 end, __u32 length)
{
    struct xip_header *header = xip_of(ctx);
    if ((void *)(header + 1) > frame_end(ctx))
        return drop(ctx, port, XIP_SHORT_FIXED_HEADER);
    if (!header->hop_limit)
        return fail(ctx, port, settings, XIP_HOP_LIMIT);
    int interface = into_tunnel(ctx, end, length);
    if (interface < 0)
        return drop(ctx, port, XIP_NO_MEMBER);
    if (!interface) {
        note(XIP_NO_WAY);
        return to_user(ctx, port, settings);
    }
    note(XIP_TUNNELED);
    return end_at(ctx, port, REASON_FORWARDED_XIP, bpf_redirect(interface, 0));
}

// Returns the version of a set, 0 while the set has none.
static __always_inline __u32 set_version(__u32 index)
{
    struct xip_set *set = bpf_map_lookup_elem(&xip_sets, &index);
    return set ? *(volatile __u32 *)&set->version : 0;
}

// Gives a packet to all interfaces of XIP, whose program `copy` sends the copies for the members of the set.
static __always_inline int replicate(struct xdp_md *ctx, struct port *port, struct xip_settings *settings, __u32 set, __u32 version)
{
    struct ethhdr *ethernet = frame_start(ctx);
    struct xip_header *header = (void *)(ethernet + 1);
    if ((void *)(header + 1) > frame_end(ctx))
        return drop(ctx, port, XIP_SHORT_FIXED_HEADER);
    if (!header->hop_limit)
        return fail(ctx, port, settings, XIP_HOP_LIMIT);
    if (!version)
        return to_user(ctx, port, settings);
    header->hop_limit -= 1;
    struct copy_mark *mark = (void *)ethernet;
    mark->set = set;
    mark->version = version;
    note(XIP_REPLICATED);
    return end_at(ctx, port, REASON_FORWARDED_XIP, bpf_redirect_map(&xip_devices, 0, BPF_F_BROADCAST));
}

// Returns the first check at reception that the header's first 8 octets fail (docs/xia/wire.md), or XIP_HIT.
static __always_inline enum xip_reason check_header(struct xip_header *header)
{
    if (header->version != XIP_HEADER_VERSION)
        return XIP_VERSION;
    if (header->destinations < 1 || header->destinations > XIP_MOST_ROWS)
        return XIP_DESTINATION_ROWS;
    if (header->sources > XIP_MOST_ROWS)
        return XIP_SOURCE_ROWS;
    if (header->last_node >= header->destinations && header->last_node != XIP_ENTRY_NODE)
        return XIP_LAST_NODE;
    return XIP_HIT;
}

SEC("xdp")
int sluice_xip(struct xdp_md *ctx)
{
    struct port *port = port_of(ctx);
    if (ether_class(ctx) == CLASS_IPV4) {
        struct ethhdr *outer = frame_start(ctx);
        if ((void *)(outer + 1) > frame_end(ctx) || !port || !(port->flags & PORT_IPV4) || !is_for(outer, port))
            return continue_after(ctx, SLOT_XIP);
        int taken = from_tunnel(ctx);
        if (taken < 0)
            return drop(ctx, port, XIP_SHORT_FIXED_HEADER);
        if (!taken)
            return continue_after(ctx, SLOT_XIP);
        note(XIP_FROM_TUNNEL);
    }
    struct ethhdr *ethernet = frame_start(ctx);
    struct xip_header *header = (void *)(ethernet + 1);
    __u32 zero = 0;
    struct xip_settings *settings = bpf_map_lookup_elem(&xip_settings, &zero);
    if (!settings || (void *)(ethernet + 1) > frame_end(ctx) || ethernet->h_proto != settings->ether_type)
        return continue_after(ctx, SLOT_XIP);
    if ((void *)(header + 1) > frame_end(ctx))
        return drop(ctx, port, XIP_SHORT_FIXED_HEADER);
    if (!port || !is_for(ethernet, port))
        return end_at(ctx, port, REASON_STATION, XDP_PASS);
    enum xip_reason fault = check_header(header);
    if (fault != XIP_HIT)
        return drop(ctx, port, fault);
    __u64 available = ctx->data_end - ctx->data - sizeof(*ethernet);
    __u64 length = sizeof(*header) + (header->destinations + header->sources) * sizeof(struct xip_row);
    if (length > available)
        return drop(ctx, port, XIP_SHORT_ROWS);
    length += bpf_ntohs(header->payload_length);
    if (length > available)
        return drop(ctx, port, XIP_SHORT_PAYLOAD);
    struct way way = {.rows = header->destinations};
    way.row = header->last_node == XIP_ENTRY_NODE ? way.rows - 1 : header->last_node;
    if (header->last_node != XIP_ENTRY_NODE && header->last_node + 1 == way.rows)
        return drop(ctx, port, XIP_AT_SINK);
#pragma clang loop unroll(disable)
    for (int step = 0; step < XIP_MOST_ROWS; step++) {
        struct xip_hashes hashes = {};
        enum xip_reason reason = hash_row(ctx, &way, &hashes, settings);
        if (reason != XIP_HIT)
            return drop(ctx, port, reason);
        __u64 answer = find(&hashes, settings);
        if (answer == (__u64)-1) {
            note(XIP_MISS);
            return to_user(ctx, port, settings);
        }
        __u64 hits = note(XIP_HIT);
        __u32 shadow = settings->shadow_interval;
        if (shadow && hits % shadow == 0) {
            note(XIP_SHADOWED);
            return to_user(ctx, port, settings);
        }
        __u32 action = answer & 0xff, index = answer >> 32;
        if (action == XIP_FORWARD)
            return forward(ctx, port, settings, index);
        if (action == XIP_COPY) {
            __u32 version = set_version(index);
            // A number of a set or a tunnel is given out again when no answer has it any more.
            if (find(&hashes, settings) != answer)
                version = 0;
            return replicate(ctx, port, settings, index, version);
        }
        if (action == XIP_TUNNEL) {
            __u64 end = far_end(index);
            if (find(&hashes, settings) != answer)
                end = 0;
            return tunnel(ctx, port, settings, end, length);
        }
        if (action == XIP_DROP)
            return drop(ctx, port, XIP_DROPPED);
        if (action == XIP_UNREACHABLE)
            return fail(ctx, port, settings, XIP_NOT_REACHED);
        // A message about packets may be for this host where other packets are not.
        if (action == XIP_UNSUPPORTED && !header->next_header)
            return drop(ctx, port, XIP_NOT_SUPPORTED);
        if (action != XIP_DIG)
            return to_user(ctx, port, settings);
        note(XIP_DUG);
        int row = select_edge(ctx, &way, answer >> 8 & 0xff);
        if (row < 0 || row + 1 >= way.rows)
            return drop(ctx, port, XIP_AT_SINK);
        way.row = row;
    }
    return drop(ctx, port, XIP_BAD_ROW);
}
