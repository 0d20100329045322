// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The balancer of a cluster that forwards as one router. A frame of a neighbor is led to an element by the element's MAC
// address for the port; a frame of an element leaves by a port, with the port's virtual MAC address as its source. Only MAC
// addresses are written. Rules: docs/cluster.md.
#include "array.h"
#include "balance.h"
#include "chain.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// The variables keep the names of the numbers in the object's type information.
const volatile enum balance_reason balance_reasons = BALANCE_REASONS;
const volatile enum balance_side balance_last_side = BALANCE_INNER;
const volatile enum balance_mode balance_last_mode = BALANCE_FLOW;

TABLE(balance_interfaces, INTERFACES, struct balance_interface);
TABLE(balance_ports, BALANCE_PORTS, struct balance_port);
TABLE(balance_heard, BALANCE_ELEMENTS, struct balance_heard);
TABLE(balance_classes, BALANCE_CLASSES, struct balance_class);
TABLE(balance_blocks, BALANCE_BLOCKS, struct balance_block);
TABLE(balance_neighbors, BALANCE_NEIGHBOR_LINES, struct balance_neighbors);
TABLE(balance_addresses, BALANCE_ADDRESS_LINES, struct balance_addresses);
TABLE(balance_settings, 1, struct balance_settings);
TABLE(balance_counts, BALANCE_CPUS * BALANCE_REASONS, struct balance_count);
TABLE(balance_led, BALANCE_CPUS * BALANCE_CLASSES, struct balance_led);

// The turns of round robin on each CPU: those of the classes, and one of the inner interfaces.
struct balance_turns {
    __u32 element[BALANCE_CLASSES];
    __u32 inner;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct balance_turns);
} balance_turns SEC(".maps");

// The rows of the table that are tried before the members are.
#define ROW_STEPS 8
// The members that are tried.
#define MEMBER_STEPS 64

static __always_inline void note(enum balance_reason reason)
{
    __u32 index = (bpf_get_smp_processor_id() & (BALANCE_CPUS - 1)) * BALANCE_REASONS + reason;
    struct balance_count *count = bpf_map_lookup_elem(&balance_counts, &index);
    if (count)
        count->packets += 1;
}

// Counts a frame of a class that is led to an element.
static __always_inline void note_led(struct xdp_md *ctx, __u32 class)
{
    __u32 index = (bpf_get_smp_processor_id() & (BALANCE_CPUS - 1)) * BALANCE_CLASSES + (class & (BALANCE_CLASSES - 1));
    struct balance_led *led = bpf_map_lookup_elem(&balance_led, &index);
    if (led) {
        led->packets += 1;
        led->octets += ctx->data_end - ctx->data;
    }
}

static __always_inline int drop(struct xdp_md *ctx, struct port *port, enum balance_reason reason)
{
    note(reason);
    return end_at(ctx, port, REASON_DROPPED, XDP_DROP);
}

static __always_inline int send(struct xdp_md *ctx, struct port *port, enum balance_reason reason, __u32 interface)
{
    note(reason);
    return end_at(ctx, port, REASON_BALANCED, bpf_redirect(interface, 0));
}

// Returns true if the element exists and is not silent.
static __always_inline int is_live(__u32 element, __u64 since)
{
    if (!element)
        return 0;
    if (!since)
        return 1;
    struct balance_heard *heard = bpf_map_lookup_elem(&balance_heard, &element);
    return heard && *(volatile __u64 *)&heard->time >= since;
}

static __always_inline __u32 member_of(struct balance_class *class, __u32 at)
{
    // The compiler would remove the mask, but the verifier does not know that a remainder is small.
    asm volatile("" : "+r"(at));
    return class->member[at & (BALANCE_MEMBERS - 1)];
}

// Returns a live member of the class from the member number `from` on, or 0 if `MEMBER_STEPS` are silent.
static __always_inline __u32 live_member(struct balance_class *class, __u32 from, __u32 count, __u64 since)
{
    // A remainder and no comparison with the end, which would make each turn a new case for the verifier.
#pragma clang loop unroll(disable)
    for (__u32 step = 0; step < MEMBER_STEPS; step++) {
        __u32 element = member_of(class, (from + step) % count);
        if (is_live(element, since))
            return element;
    }
    return 0;
}

static __always_inline __u32 row_element(__u32 class, __u32 row)
{
    __u32 index = class * BALANCE_CLASS_BLOCKS + (row / BALANCE_BLOCK & (BALANCE_CLASS_BLOCKS - 1));
    struct balance_block *block = bpf_map_lookup_elem(&balance_blocks, &index);
    return block ? block->element[row & (BALANCE_BLOCK - 1)] : 0;
}

// Returns the element of the row, or the next live element behind the row, or 0 if `ROW_STEPS` rows are silent. The rows behind
// the last one are empty.
static __always_inline __u32 live_row(__u32 class, __u32 row, __u64 since)
{
#pragma clang loop unroll(disable)
    for (__u32 step = 0; step < ROW_STEPS; step++) {
        __u32 element = row_element(class, row + step);
        if (is_live(element, since))
            return element;
    }
    return 0;
}

// Returns the inner interface by a number of which each value is as likely, or 0.
static __always_inline __u32 inner_of(struct balance_settings *settings, __u32 number)
{
    __u32 inners = settings->inners;
    if (!inners || inners > BALANCE_INNERS)
        return 0;
    __u32 at = number % inners;
    asm volatile("" : "+r"(at));
    return settings->inner[at & (BALANCE_INNERS - 1)];
}

// The first choice was silent, and another one was taken.
#define CHOSEN_NEXT (1 << 16)
// All choices were silent, and the first was taken: hello frames may be lost where other frames are not.
#define CHOSEN_SILENT (1 << 17)
// The place of the class by which the element was chosen.
#define CHOSEN_CLASS 18

// Chooses an element of the class `number`, and an inner interface, for a packet with the flow hash `hash`. Returns the element
// in the low 16 bits, a set of `CHOSEN_...`, the class at the bit `CHOSEN_CLASS`, and the interface in the high 32 bits; 0 stands for none. A function of its own,
// which the verifier checks once and not for each way to it.
__attribute__((noinline)) __u64 choose(__u32 number, __u32 hash)
{
    __u32 zero = 0;
    number &= BALANCE_CLASSES - 1;
    struct balance_settings *settings = bpf_map_lookup_elem(&balance_settings, &zero);
    struct balance_turns *turns = bpf_map_lookup_elem(&balance_turns, &zero);
    struct balance_class *class = bpf_map_lookup_elem(&balance_classes, &number);
    if (class && class->mode == BALANCE_OFF) {
        number = 0;
        class = bpf_map_lookup_elem(&balance_classes, &number);
    }
    if (!settings || !turns || !class)
        return 0;
    __u32 mode = class->mode, count = class->count;
    if (count > BALANCE_MEMBERS)
        count = BALANCE_MEMBERS;
    if (mode == BALANCE_OFF || !count)
        return 0;
    // The clock may be younger than the silence. The coarse clock moves each few milliseconds, and costs less than the exact one.
    __u64 since = 0, silence = settings->silence;
    if (silence) {
        __u64 now = bpf_ktime_get_coarse_ns();
        since = now > silence ? now - silence : 1;
    }
    __u32 first = 0, element = 0, interface, from;
    if (mode == BALANCE_FLOW) {
        // The row has the high bits of the hash, and the interface the low ones.
        interface = inner_of(settings, hash & 0xffff);
        __u32 row = (__u64)hash * BALANCE_ROWS >> 32;
        first = row_element(number, row);
        element = live_row(number, row, since);
        from = hash % count;
    } else {
        interface = inner_of(settings, turns->inner++);
        from = turns->element[number]++ % count;
        first = member_of(class, from);
    }
    if (!element)
        element = live_member(class, from, count, since);
    if (!element)
        element = first | CHOSEN_SILENT;
    else if (element != first)
        element |= CHOSEN_NEXT;
    return (__u64)interface << 32 | number << CHOSEN_CLASS | element;
}

// Returns true for an address of the router itself.
static __always_inline int is_own(struct balance_settings *settings, __u64 first, __u64 second)
{
    __u64 hash = mix(mix(settings->seed, first), second);
    hash = mix(hash, 0);
#pragma unroll
    for (int way = 0; way < 2; way++) {
        __u32 index = hash >> (way * 32) & (BALANCE_ADDRESS_LINES - 1);
        struct balance_addresses *line = bpf_map_lookup_elem(&balance_addresses, &index);
        if (!line)
            return 0;
#pragma unroll
        for (int i = 0; i < BALANCE_ADDRESSES_PER_LINE; i++) {
            if (line->entry[i][0] == first && line->entry[i][1] == second)
                return first || second;
        }
    }
    return 0;
}

// Returns true for packets that only the control plane may treat: IGMP (RFC 3376), multicast of the link 224.0.0/24
// (RFC 5771), broadcast, the router's own addresses.
static __always_inline int is_control4(struct balance_settings *settings, struct iphdr *ip)
{
    __u32 to = bpf_ntohl(ip->daddr);
    if (ip->protocol == IPPROTO_IGMP || to >> 8 == 0xe00000 || to == 0xffffffff)
        return 1;
    return is_own(settings, 0, (__u64)ip->daddr << 32 | bpf_htonl(0xffff));
}

// Returns true for packets that only the control plane may treat: multicast of the interface and of the link (RFC 4291,
// section 2.7) and MLD (RFC 3810), link-local addresses, the router's own addresses.
static __always_inline int is_control6(struct balance_settings *settings, struct ipv6hdr *ip)
{
    __u8 *to = ip->daddr.s6_addr;
    if (to[0] == 0xff && ((to[1] & 0xf) <= 2 || ip->nexthdr == IPPROTO_HOPOPTS))
        return 1;
    if (to[0] == 0xfe && (to[1] & 0xc0) == 0x80)
        return 1;
    word32 *word = (void *)to;
    return is_own(settings, word[0] | (__u64)word[1] << 32, word[2] | (__u64)word[3] << 32);
}

static __always_inline void write_element(struct ethhdr *ethernet, __u32 element, __u16 port)
{
    struct balance_mac *mac = (void *)ethernet->h_dest;
    mac->prefix[0] = BALANCE_PREFIX_FIRST;
    mac->prefix[1] = BALANCE_PREFIX_SECOND;
    mac->element = bpf_htons(element);
    mac->port = bpf_htons(port);
}

// Sends a frame of a neighbor to the control plane.
static __always_inline int to_control(struct xdp_md *ctx, struct port *port, struct balance_settings *settings, __u16 number)
{
    struct ethhdr *ethernet = frame_start(ctx);
    __u32 element = settings->control, interface = inner_of(settings, 0);
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return drop(ctx, port, BALANCE_SHORT);
    if (!element)
        return drop(ctx, port, BALANCE_NO_CONTROL);
    if (!interface)
        return drop(ctx, port, BALANCE_NO_INNER);
    write_element(ethernet, element, number);
    return send(ctx, port, BALANCE_CONTROL, interface);
}

// Treats a frame of a neighbor.
static __always_inline int inward(struct xdp_md *ctx, struct port *port, struct balance_settings *settings, struct balance_interface *from)
{
    struct ethhdr *ethernet = frame_start(ctx);
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return drop(ctx, port, BALANCE_SHORT);
    __u64 mac = mac_number(from->mac);
    if (!(ethernet->h_dest[0] & 1) && mac_number(ethernet->h_dest) != mac)
        return end_at(ctx, port, REASON_STATION, XDP_PASS);
    __be16 type;
    void *packet = behind_tags(ctx, &type);
    if (!packet)
        return drop(ctx, port, BALANCE_SHORT);
    if (is_element((void *)ethernet->h_source) || mac_number(ethernet->h_source) == mac)
        return drop(ctx, port, BALANCE_SPOOFED);
    if (type && (type == settings->ether_type[0] || type == settings->ether_type[1]))
        return drop(ctx, port, BALANCE_SPOOFED);
    __u32 hash, dscp;
    if (type == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = packet;
        if ((void *)(ip + 1) > frame_end(ctx))
            return drop(ctx, port, BALANCE_SHORT);
        if (is_control4(settings, ip))
            return to_control(ctx, port, settings, from->port);
        hash = balance_flow4(ctx, ip, settings->seed);
        dscp = ip->tos >> 2;
    } else if (type == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = packet;
        if ((void *)(ip + 1) > frame_end(ctx))
            return drop(ctx, port, BALANCE_SHORT);
        if (is_control6(settings, ip))
            return to_control(ctx, port, settings, from->port);
        hash = ipv6_flow(ctx, ip, settings->seed);
        dscp = bpf_ntohs(*(half16 *)ip) >> 6;
    } else {
        return to_control(ctx, port, settings, from->port);
    }
    __u64 choice = choose(settings->class[dscp & 63], hash);
    __u32 element = choice & 0xffff, interface = choice >> 32;
    if (!element)
        return drop(ctx, port, BALANCE_NO_ROUTER);
    if (!interface)
        return drop(ctx, port, BALANCE_NO_INNER);
    ethernet = frame_start(ctx);
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return drop(ctx, port, BALANCE_SHORT);
    if (choice & CHOSEN_NEXT)
        note(BALANCE_PASSED_OVER);
    if (choice & CHOSEN_SILENT)
        note(BALANCE_ALL_SILENT);
    note_led(ctx, (__u32)choice >> CHOSEN_CLASS);
    write_element(ethernet, element, from->port);
    return send(ctx, port, BALANCE_BALANCED, interface);
}

// Notes the time of an authentic hello frame. User space gets all frames of the cluster, and judges those that are no hello
// frames of this version.
static __always_inline int take_hello(struct xdp_md *ctx, struct port *port, struct balance_settings *settings)
{
    struct balance_hello *hello = frame_start(ctx) + sizeof(struct ethhdr);
    if ((void *)(hello + 1) > frame_end(ctx) || hello->version != BALANCE_VERSION || hello->kind != BALANCE_KIND_HELLO) {
        note(BALANCE_ANNOUNCED);
        return end_at(ctx, port, REASON_SLOW_PATH, XDP_PASS);
    }
    word32 *half = (void *)hello;
    __u64 word[3];
#pragma unroll
    for (int i = 0; i < 3; i++)
        word[i] = half[2 * i] | (__u64)half[2 * i + 1] << 32;
    __u64 tag = half[6] | (__u64)half[7] << 32;
    int is_authentic = 0;
#pragma unroll
    for (int i = 0; i < BALANCE_KEYS; i++) {
        __u64 *key = settings->key[i];
        if (key[0] | key[1])
            is_authentic |= sip_tag(key, word) == tag;
    }
    __u32 element = bpf_ntohs(hello->element);
    struct balance_heard *heard = bpf_map_lookup_elem(&balance_heard, &element);
    if (!is_authentic || !heard || !element || hello->length)
        return drop(ctx, port, BALANCE_FORGED);
    __u64 epoch = bpf_be64_to_cpu(word[1]), counter = bpf_be64_to_cpu(word[2]);
    if (epoch < heard->epoch || (epoch == heard->epoch && counter <= heard->counter))
        return drop(ctx, port, BALANCE_REPLAYED);
    heard->epoch = epoch;
    heard->counter = counter;
    *(volatile __u64 *)&heard->time = bpf_ktime_get_coarse_ns();
    note(BALANCE_HELLO);
    return end_at(ctx, port, REASON_SLOW_PATH, XDP_PASS);
}

// Returns the port of a neighbor's MAC address, or 0.
static __always_inline __u32 neighbor_port(struct balance_settings *settings, __u64 mac)
{
    __u64 hash = mix(mix(settings->seed, mac), 0);
#pragma unroll
    for (int way = 0; way < 2; way++) {
        __u32 index = hash >> (way * 32) & (BALANCE_NEIGHBOR_LINES - 1);
        struct balance_neighbors *line = bpf_map_lookup_elem(&balance_neighbors, &index);
        if (!line)
            return 0;
#pragma unroll
        for (int i = 0; i < BALANCE_NEIGHBORS_PER_LINE; i++) {
            __u64 entry = *(volatile __u64 *)&line->entry[i];
            if ((entry & 0xffffffffffff) == mac)
                return entry >> 48;
        }
    }
    return 0;
}

// Writes the MAC address `to` in place of `from` where ARP and neighbor discovery have the sender's address in the packet.
// Neighbors would otherwise learn the address that the control plane has on the interconnect. A function of its own, which the
// verifier checks for itself.
static __attribute__((noinline)) int write_own(struct xdp_md *ctx, __u64 from, __u64 to)
{
    __be16 type = 0;
    void *end = frame_end(ctx), *packet = behind_tags(ctx, &type);
    if (!packet)
        return 0;
    if (type == bpf_htons(ETH_P_ARP)) {
        struct balance_arp *arp = packet;
        if ((void *)(arp + 1) > end || arp->hardware_length != 6 || arp->protocol_length != 4)
            return 0;
        if (mac_number(arp->sender) == from)
            write_mac(arp->sender, to);
        if (mac_number(arp->target) == from)
            write_mac(arp->target, to);
        return 0;
    }
    struct ipv6hdr *ip = packet;
    struct balance_icmp6 *icmp = (void *)(ip + 1);
    if (type != bpf_htons(ETH_P_IPV6) || (void *)(icmp + 1) > end || ip->nexthdr != IPPROTO_ICMPV6)
        return 0;
    __u32 offset = discovery_length(icmp->type);
    if (!offset)
        return 0;
#pragma clang loop unroll(disable)
    for (int i = 0; i < BALANCE_OPTIONS; i++) {
        struct balance_option *option = (void *)icmp + (offset & 0x3fff);
        asm volatile("" : "+r"(option));
        if ((void *)(option + 1) > end || !option->length)
            return 0;
        offset += option->length * 8;
        // The link-layer address of the source, and of the target.
        if (option->type < 1 || option->type > 2 || option->length != 1 || mac_number(option->mac) != from)
            continue;
        write_mac(option->mac, to);
        // RFC 1624, equation 3.
        __u32 sum = (__u16)~icmp->checksum;
#pragma unroll
        for (int word = 0; word < 3; word++)
            sum += (__u16)~(from >> (16 * word)) + (__u16)(to >> (16 * word));
        sum = (sum & 0xffff) + (sum >> 16);
        icmp->checksum = ~((sum & 0xffff) + (sum >> 16));
    }
    return 0;
}

// Treats a frame of the interconnect. Frames of machines as such, as opposed to elements, go on along the chain.
static __always_inline int outward(struct xdp_md *ctx, struct port *port, struct balance_settings *settings)
{
    struct ethhdr *ethernet = frame_start(ctx);
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return drop(ctx, port, BALANCE_SHORT);
    __be16 type = ethernet->h_proto;
    if (type && (type == settings->ether_type[0] || type == settings->ether_type[1]))
        return take_hello(ctx, port, settings);
    struct balance_mac *source = (void *)ethernet->h_source;
    if (!is_element(source))
        return continue_after(ctx, SLOT_BALANCE);
    __u32 number = bpf_ntohs(source->port);
    int is_control = settings->control && bpf_ntohs(source->element) == settings->control;
    int is_group = ethernet->h_dest[0] & 1;
    if (!is_control) {
        if (!behind_tags(ctx, &type))
            return drop(ctx, port, BALANCE_SHORT);
        if (is_group || (type != bpf_htons(ETH_P_IP) && type != bpf_htons(ETH_P_IPV6)))
            return drop(ctx, port, BALANCE_NOT_CONTROL);
    }
    if (!is_group) {
        __u32 known = neighbor_port(settings, mac_number(ethernet->h_dest));
        // The control plane answers neighbors that are not in the table yet.
        if (!known && !is_control)
            return drop(ctx, port, BALANCE_NO_NEIGHBOR);
        if (known && known != BALANCE_SEVERAL)
            number = known;
    }
    struct balance_port *to = bpf_map_lookup_elem(&balance_ports, &number);
    if (!to || !to->interface)
        return drop(ctx, port, BALANCE_NO_PORT);
    __u64 mac = mac_number(to->mac);
    if (is_control)
        write_own(ctx, mac_number(ethernet->h_source), mac);
    ethernet = frame_start(ctx);
    if ((void *)(ethernet + 1) > frame_end(ctx))
        return drop(ctx, port, BALANCE_SHORT);
    write_mac(ethernet->h_source, mac);
    return send(ctx, port, is_control ? BALANCE_FROM_CONTROL : BALANCE_RETURNED, to->interface);
}

SEC("xdp")
int sluice_balance(struct xdp_md *ctx)
{
    struct port *port = port_of(ctx);
    __u32 zero = 0, interface = ctx->ingress_ifindex;
    struct balance_settings *settings = bpf_map_lookup_elem(&balance_settings, &zero);
    struct balance_interface *from = bpf_map_lookup_elem(&balance_interfaces, &interface);
    __u32 side = from ? from->side : BALANCE_NONE;
    if (settings && from && side == BALANCE_OUTER)
        return inward(ctx, port, settings, from);
    if (settings && side == BALANCE_INNER)
        return outward(ctx, port, settings);
    return continue_after(ctx, SLOT_BALANCE);
}
