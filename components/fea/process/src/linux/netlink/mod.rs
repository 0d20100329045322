//! Netlink: the kernel's routing messages (rtnetlink(7)), encoded, decoded and carried.
//!
//! Routes go out in datagrams of many messages. No message requests an acknowledgement: the kernel processes a datagram
//! before the send returns, and reports each refusal, with the message's sequence number; so an empty receive queue after a send
//! means success.

pub mod decode;
pub mod encode;
pub mod socket;
pub mod sources;

/// Numbers of the kernel's interface (linux/netlink.h, rtnetlink.h, nexthop.h, if_link.h, if_addr.h).
pub mod number {
    /// Message: an error, or an acknowledgement.
    pub(crate) const NLMSG_ERROR: u16 = 2;
    /// Message: the end of a dump.
    pub(crate) const NLMSG_DONE: u16 = 3;
    /// Message: the state of a link.
    pub(crate) const RTM_NEWLINK: u16 = 16;
    /// Message: a link is gone.
    pub(crate) const RTM_DELLINK: u16 = 17;
    /// Request: links.
    pub(crate) const RTM_GETLINK: u16 = 18;
    /// Message: an address is there.
    pub(crate) const RTM_NEWADDR: u16 = 20;
    /// Message: an address is gone.
    pub(crate) const RTM_DELADDR: u16 = 21;
    /// Request: addresses.
    pub(crate) const RTM_GETADDR: u16 = 22;
    /// Message: the state of a route.
    pub const RTM_NEWROUTE: u16 = 24;
    /// Message: a route is gone.
    pub(crate) const RTM_DELROUTE: u16 = 25;
    /// Request: routes.
    pub const RTM_GETROUTE: u16 = 26;
    /// Message: the state of a next-hop object.
    pub(crate) const RTM_NEWNEXTHOP: u16 = 104;
    /// Message: a next-hop object is gone.
    pub(crate) const RTM_DELNEXTHOP: u16 = 105;
    /// Request: next-hop objects.
    pub(crate) const RTM_GETNEXTHOP: u16 = 106;

    /// Message: the state of a neighbor.
    pub(crate) const RTM_NEWNEIGH: u16 = 28;
    /// Message: a neighbor is gone.
    pub(crate) const RTM_DELNEIGH: u16 = 29;
    /// Request: neighbors.
    pub(crate) const RTM_GETNEIGH: u16 = 30;
    /// Request: settings of neighbors.
    pub(crate) const RTM_SETNEIGHTBL: u16 = 67;
    /// Settings attribute: the name of the table.
    pub(crate) const NDTA_NAME: u16 = 1;
    /// Settings attribute: the settings of an interface.
    pub(crate) const NDTA_PARMS: u16 = 6;
    /// Attribute in [`NDTA_PARMS`]: the interface.
    pub(crate) const NDTPA_IFINDEX: u16 = 1;
    /// Attribute in [`NDTA_PARMS`]: requests to programs of the host.
    pub(crate) const NDTPA_APP_PROBES: u16 = 9;
    /// Attribute in [`NDTA_PARMS`]: requests to the neighbor's last known address.
    pub(crate) const NDTPA_UCAST_PROBES: u16 = 10;
    /// Attribute in [`NDTA_PARMS`]: requests on the link.
    pub(crate) const NDTPA_MCAST_PROBES: u16 = 11;

    /// Message: a rule exists.
    pub(crate) const RTM_NEWRULE: u16 = 32;
    /// Message: a rule is gone.
    pub(crate) const RTM_DELRULE: u16 = 33;
    /// Request: rules.
    pub(crate) const RTM_GETRULE: u16 = 34;
    /// Message: a queueing discipline exists.
    pub(crate) const RTM_NEWQDISC: u16 = 36;
    /// Message: a queueing discipline is gone.
    pub(crate) const RTM_DELQDISC: u16 = 37;
    /// Request: queueing disciplines.
    pub(crate) const RTM_GETQDISC: u16 = 38;
    /// Request: settings of interfaces.
    pub(crate) const RTM_GETNETCONF: u16 = 82;

    /// Message: a setting of an interface, or of the host.
    pub(crate) const RTM_NEWNETCONF: u16 = 80;

    /// Flag: a request.
    pub const NLM_F_REQUEST: u16 = 0x1;
    /// Flag: an answer is wanted in any case.
    pub(crate) const NLM_F_ACK: u16 = 0x4;
    /// Flag of an answer: the dump is inconsistent.
    pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
    /// Flag of a new thing: replace an old object.
    pub(crate) const NLM_F_REPLACE: u16 = 0x100;
    /// Flag of a new thing: only if absent.
    pub(crate) const NLM_F_EXCL: u16 = 0x200;
    /// Flag of a new thing: create if absent.
    pub(crate) const NLM_F_CREATE: u16 = 0x400;
    /// Flag of a get: a dump.
    pub(crate) const NLM_F_DUMP: u16 = 0x300;
    /// Flag of an error: only the header of the request is repeated.
    pub(crate) const NLM_F_CAPPED: u16 = 0x100;
    /// Flag of an error: attributes with details follow.
    pub(crate) const NLM_F_ACK_TLVS: u16 = 0x200;
    /// Attribute of an error: words.
    pub(crate) const NLMSGERR_ATTR_MSG: u16 = 1;

    /// Route attribute: destination.
    pub const RTA_DST: u16 = 1;
    /// Route attribute: interface.
    pub const RTA_OIF: u16 = 4;
    /// Route attribute: gateway of the route's family.
    pub const RTA_GATEWAY: u16 = 5;
    /// Route attribute: preference; lower is better.
    pub const RTA_PRIORITY: u16 = 6;
    /// The source address of the host's own packets.
    pub(crate) const RTA_PREFSRC: u16 = 7;
    /// Route attribute: several next hops.
    pub(crate) const RTA_MULTIPATH: u16 = 9;
    /// Route attribute: gateway of a different family.
    pub const RTA_VIA: u16 = 18;
    /// Flag of a route request: the answer names the route's table.
    pub(crate) const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
    /// Flag of a route request: the answer is the table's entry and not a packet's way.
    pub const RTM_F_FIB_MATCH: u32 = 0x2000;
    /// Route attribute: table, if larger than an octet.
    pub(crate) const RTA_TABLE: u16 = 15;
    /// Route attribute: next-hop object.
    pub(crate) const RTA_NH_ID: u16 = 30;

    /// Next-hop attribute: the number.
    pub(crate) const NHA_ID: u16 = 1;
    /// Next-hop attribute: members of a group.
    pub(crate) const NHA_GROUP: u16 = 2;
    /// Next-hop attribute: packets are dropped.
    pub(crate) const NHA_BLACKHOLE: u16 = 4;
    /// Next-hop attribute: interface.
    pub(crate) const NHA_OIF: u16 = 5;
    /// Next-hop attribute: gateway.
    pub(crate) const NHA_GATEWAY: u16 = 6;

    /// Link attribute: link-layer address.
    pub(crate) const IFLA_ADDRESS: u16 = 1;
    /// Link attribute: name.
    pub(crate) const IFLA_IFNAME: u16 = 3;
    /// Link attribute: largest packet.
    pub(crate) const IFLA_MTU: u16 = 4;

    /// Link attribute: the link below.
    pub(crate) const IFLA_LINK: u16 = 5;
    /// Link attribute: kind and settings of a virtual link.
    pub(crate) const IFLA_LINKINFO: u16 = 18;
    /// Link attribute: a text of the operator or of the link's creator.
    pub(crate) const IFLA_IFALIAS: u16 = 20;
    /// Attribute in [`IFLA_LINKINFO`]: the kind.
    pub(crate) const IFLA_INFO_KIND: u16 = 1;
    /// Attribute in [`IFLA_LINKINFO`]: settings of the kind.
    pub(crate) const IFLA_INFO_DATA: u16 = 2;
    /// Setting of a macvlan link: the mode.
    pub(crate) const IFLA_MACVLAN_MODE: u16 = 1;
    /// Mode: no frames between links on the same link.
    pub(crate) const MACVLAN_MODE_PRIVATE: u32 = 1;
    /// Link attribute: the queueing discipline.
    pub(crate) const IFLA_QDISC: u16 = 6;
    /// Link attribute: the bridge or bond to which the link belongs.
    pub(crate) const IFLA_MASTER: u16 = 10;

    /// Neighbor attribute: network address.
    pub(crate) const NDA_DST: u16 = 1;
    /// Neighbor attribute: link-layer address.
    pub(crate) const NDA_LLADDR: u16 = 2;
    /// Neighbor attribute: the program of the entry.
    pub(crate) const NDA_PROTOCOL: u16 = 12;
    /// Neighbor attribute: more flags.
    pub(crate) const NDA_FLAGS_EXT: u16 = 15;
    /// Neighbor flag: the kernel keeps the neighbor resolved without traffic.
    pub(crate) const NTF_EXT_MANAGED: u32 = 1;
    /// Neighbor state: no answer.
    pub(crate) const NUD_FAILED: u16 = 0x20;
    /// Neighbor state: valid until changed.
    pub(crate) const NUD_PERMANENT: u16 = 0x80;
    /// No protocol resolves the neighbor (include/uapi/linux/neighbor.h).
    pub(crate) const NUD_NOARP: u16 = 0x40;
    /// Neighbor state: known, and not confirmed lately.
    pub(crate) const NUD_STALE: u16 = 0x04;
    /// Neighbor states in which the link-layer address is usable: reachable, stale, delay, probe, no ARP, permanent.
    pub(crate) const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

    /// Action of a rule: packets are looked up in the rule's table.
    pub(crate) const FR_ACT_TO_TBL: u8 = 1;
    /// Rule attribute: priority.
    pub(crate) const FRA_PRIORITY: u16 = 6;
    /// Rule attribute: table.
    pub(crate) const FRA_TABLE: u16 = 15;
    /// Rule attribute: protocol of the rule.
    pub(crate) const FRA_PROTOCOL: u16 = 21;
    /// Rule attribute: the lower bound of routes' prefix lengths; -1 without a bound.
    pub(crate) const FRA_SUPPRESS_PREFIXLEN: u16 = 14;

    /// Attribute of a queueing discipline: kind.
    pub(crate) const TCA_KIND: u16 = 1;

    /// Address attribute: the address, or the far end's.
    pub(crate) const IFA_ADDRESS: u16 = 1;
    /// Address attribute: the own address.
    pub(crate) const IFA_LOCAL: u16 = 2;
    /// Address attribute: the program that set the address (Linux 5.18 and later; ignored by older versions).
    pub const IFA_PROTO: u16 = 11;
    /// Address attribute: 32 flags.
    pub(crate) const IFA_FLAGS: u16 = 8;
    /// Address flag: no duplicate address detection.
    pub(crate) const IFA_F_NODAD: u32 = 0x02;
    /// Address flag: usable while tentative.
    pub const IFA_F_OPTIMISTIC: u32 = 0x04;
    /// Address flag: duplicate address detection is not over.
    pub(crate) const IFA_F_TENTATIVE: u32 = 0x40;

    /// Setting attribute: the interface, or [`NETCONFA_IFINDEX_ALL`].
    pub(crate) const NETCONFA_IFINDEX: u16 = 1;
    /// Setting attribute: whether packets are forwarded.
    pub(crate) const NETCONFA_FORWARDING: u16 = 2;
    /// Setting attribute: the check of source addresses (RFC 3704): 0 none, 1 strict, 2 loose.
    pub(crate) const NETCONFA_RP_FILTER: u16 = 3;
    /// Value of [`NETCONFA_IFINDEX`]: the switch of the whole host.
    pub(crate) const NETCONFA_IFINDEX_ALL: u32 = u32::MAX;

    /// The bits of the type in an attribute's type field.
    pub(crate) const NLA_TYPE_MASK: u16 = 0x3fff;
}
