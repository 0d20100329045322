//! Leaves whose meaning decides the second value to try, and the expected effects. A leaf not named here is changed to
//! a different value of its type, and only the effects of its class are expected.

use crate::impact::network::{INNER4, NEIGHBORS, OUTER4, OUTER6};
use crate::impact::particulars::{PLAIN, Special, entry, value};
use crate::impact::proofs;
use sluice_config::Impact;

const OUTER4_AS: &str = "local 10.1.0.2 as 64501;";
const OTHER_KEY: &str = "6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b";
const ROUTE: &[&str] = &["203.0.113.0/24"];
const DEFAULT: &[&str] = &["0.0.0.0/0"];
const REJECTED: &[&str] = &["198.51.100.0/24"];
const ALL_ROUTES: &[&str] = &[
    "203.0.113.0/24",
    "198.51.100.0/24",
    "100.64.1.0/24",
    "100.64.2.0/24",
    "2001:db8:a::/48",
    "2001:db8:b::/48",
];

const USER: Special = entry(
    &["set system user ann role read-only", "set system user ann uid 70123"],
    &["delete system user ann"],
);
const IP_NEIGHBOR: Special = entry(
    &["set xip lpm from-ip-routes neighbor 10.2.0.2 hid hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3"],
    &["delete xip lpm from-ip-routes neighbor 10.2.0.2"],
);
const ROUTER_CERTIFICATE: Special = entry(
    &["set rpki cache a tls certificate router.crt", "set rpki cache a tls key router.key"],
    &["delete rpki cache a tls"],
);
const OWN_HOST: Special = entry(
    &[concat!(
        "set xip host far private-key ",
        include_str!("../../../../../components/xip/process/tests/keys/far.txt")
    )],
    &["delete xip host far"],
);
/// A payload for a prefix that this router announces itself: no policy asks.
const OWN_ROA: Special = entry(&["set rpki roa 192.0.2.0/24 64501"], &["delete rpki roa 192.0.2.0/24 64501"]);
const OWN_ASPA: Special = entry(&["set rpki aspa 64998 provider 64999"], &["delete rpki aspa 64998"]);
const GROUP: Special = entry(
    &["set system user ann role read-only", "set system user ann group nogroup"],
    &["delete system user ann"],
);
const ROLE: Special = entry(
    &[
        "set system role reader call rib/rib.v1.Rib/GetRoutes",
        "set system role reader command \"clear bgp\"",
        "set system role reader read protocols",
        "set system role reader write protocols",
    ],
    &["delete system role reader"],
);
const STATICS: &[&str] = &["203.0.113.0/24", "198.51.100.0/24"];

/// A policy of the RIB that rejects all static routes.
const IMPORT: Special = Special {
    statements: Some((
        &["set policy policy-statement strict term all then reject", "set rib origin static import strict"],
        &["delete rib", "delete policy"],
    )),
    kernel: STATICS,
    ..PLAIN
};

/// Next hops on subnets are reached whatever the policy.
const RESOLVE: Special =
    entry(&[STRICT, "set rib resolve-next-hops-by strict"], &["delete rib", "delete policy"]);

/// Static routes go into BGP, through a policy.
const REDISTRIBUTE: Special = Special {
    statements: Some((
        &[
            "set policy policy-statement all term all then accept",
            "set protocols bgp redistribute static policy all",
        ],
        &["delete protocols bgp redistribute static", "delete policy"],
    )),
    sent: STATICS,
    ..PLAIN
};

/// An aggregate to which no route contributes.
const AGGREGATE: Special = entry(
    &[
        STRICT,
        "set protocols bgp aggregate 172.16.0.0/12 summary-only",
        "set protocols bgp aggregate 172.16.0.0/12 as-set",
        "set protocols bgp aggregate 172.16.0.0/12 contributors strict",
    ],
    &["delete protocols bgp aggregate 172.16.0.0/12", "delete policy"],
);

/// Routes of all neighbors, and the router's own networks.
const LEARNED: &[&str] = &["100.64.1.0/24", "100.64.2.0/24", "2001:db8:a::/48", "2001:db8:b::/48"];
const NETWORKS: &[&str] = &["192.0.2.0/24", "2001:db8:100::/48"];

/// A policy of BGP that rejects everything, in a statement.
const fn strict(set: &'static [&'static str], delete: &'static [&'static str]) -> Special {
    Special { statements: Some((set, delete)), ..PLAIN }
}

const STRICT: &str = "set policy policy-statement strict term all then reject";

/// By path, without keys.
pub const SPECIAL: &[(&str, Special)] = &[
    ("system/user/name", USER),
    ("system/user/role", USER),
    ("system/user/uid", USER),
    ("system/user/group", GROUP),
    ("system/role/name", ROLE),
    ("system/role/call", ROLE),
    ("system/role/command", ROLE),
    ("system/role/read", ROLE),
    ("system/role/write", ROLE),
    (
        "interfaces/interface/name",
        Special {
            statements: Some((&["set interfaces interface lo"], &["delete interfaces interface lo"])),
            ..PLAIN
        },
    ),
    ("interfaces/interface/enabled", Special { proof: Some(proofs::link_is_down), ..PLAIN }),
    ("interfaces/interface/mtu", Special { value: Some("1279"), proof: Some(proofs::mtu_is_1279), ..PLAIN }),
    (
        "interfaces/interface/address",
        Special { value: Some("10.9.1.1/24"), proof: Some(proofs::address_is_there), ..PLAIN },
    ),
    ("interfaces/forwarding/ipv4", Special { proof: Some(proofs::ipv4_is_not_forwarded), ..PLAIN }),
    ("interfaces/forwarding/ipv6", Special { proof: Some(proofs::ipv6_is_not_forwarded), ..PLAIN }),
    ("interfaces/forwarding/kernel-prefix", value("203.0.113.0/24")),
    ("interfaces/forwarding/preferred-source", value("203.0.113.9")),
    ("interfaces/forwarding/install-routes", Special { value: Some("false"), kernel: ALL_ROUTES, ..PLAIN }),
    (
        "protocols/static/route/prefix",
        Special {
            statements: Some((
                &["set protocols static route 203.0.114.0/24 discard"],
                &["delete protocols static route 203.0.114.0/24"],
            )),
            kernel: &["203.0.114.0/24"],
            ..PLAIN
        },
    ),
    ("protocols/static/route/distance", Special { value: Some("7"), may: ROUTE, ..PLAIN }),
    ("protocols/static/route/metric", Special { may: ROUTE, ..PLAIN }),
    ("protocols/static/route/tag", Special { may: ROUTE, ..PLAIN }),
    ("rib/origin/name", IMPORT),
    ("rib/origin/import", IMPORT),
    ("rib/resolve-next-hops-by", RESOLVE),
    (
        "protocols/bgp/network-policy",
        Special {
            sent: NETWORKS,
            ..strict(
                &[STRICT, "set protocols bgp network-policy strict"],
                &["delete protocols bgp network-policy", "delete policy"],
            )
        },
    ),
    ("protocols/bgp/aggregate/prefix", AGGREGATE),
    ("protocols/bgp/aggregate/summary-only", AGGREGATE),
    ("protocols/bgp/aggregate/as-set", AGGREGATE),
    ("protocols/bgp/aggregate/contributors", AGGREGATE),
    (
        "protocols/bgp/aggregate-policy",
        strict(
            &[STRICT, "set protocols bgp aggregate-policy strict"],
            &["delete protocols bgp aggregate-policy", "delete policy"],
        ),
    ),
    (
        "protocols/bgp/neighbor/export",
        Special {
            sent: &["192.0.2.0/24"],
            ..strict(
                &[STRICT, "set protocols bgp neighbor 10.1.0.2 export strict"],
                &["delete protocols bgp neighbor 10.1.0.2 export", "delete policy"],
            )
        },
    ),
    (
        "protocols/bgp/neighbor/default-policy",
        Special { value: Some("reject"), kernel: &["100.64.1.0/24"], sent: &["100.64.1.0/24"], ..PLAIN },
    ),
    (
        "protocols/bgp/default-policy",
        Special { value: Some("reject"), kernel: LEARNED, sent: NETWORKS, ..PLAIN },
    ),
    (
        "protocols/bgp/neighbor/group",
        Special {
            statements: Some((
                &[
                    "set protocols bgp group g hold-time 10",
                    "set protocols bgp neighbor 10.1.0.2 group g",
                    "delete protocols bgp neighbor 10.1.0.2 hold-time",
                ],
                &[
                    "set protocols bgp neighbor 10.1.0.2 hold-time 9",
                    "delete protocols bgp neighbor 10.1.0.2 group",
                    "delete protocols bgp group g",
                ],
            )),
            proof: Some(proofs::hold_time_is_10),
            ..PLAIN
        },
    ),
    ("protocols/bgp/redistribute/origin", REDISTRIBUTE),
    ("protocols/bgp/redistribute/policy", REDISTRIBUTE),
    (
        "protocols/static/route/next-hop/gateway",
        Special {
            statements: Some((
                &["set protocols static route 203.0.113.0/24 next-hop 10.2.0.4"],
                &["delete protocols static route 203.0.113.0/24 next-hop 10.2.0.4"],
            )),
            kernel: ROUTE,
            ..PLAIN
        },
    ),
    ("protocols/static/route/next-hop/interface", Special { value: Some("inner"), may: ROUTE, ..PLAIN }),
    ("protocols/static/route/next-hop/weight", Special { kernel: ROUTE, ..PLAIN }),
    ("protocols/static/route/interface", Special { value: Some("inner"), kernel: ROUTE, ..PLAIN }),
    ("protocols/static/route/discard", DISCARD),
    ("protocols/static/route/reject", DISCARD),
    (
        "protocols/static/xid-route/xid",
        entry(
            &["set protocols static xid-route lpm-0a00000000000000000000000000000000000000/8 discard"],
            &["delete protocols static xid-route lpm-0a00000000000000000000000000000000000000/8"],
        ),
    ),
    ("protocols/static/xid-route/distance", value("7")),
    (
        "protocols/static/xid-route/gateway/xid",
        entry(
            &[
                "set protocols static xid-route ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 gateway hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3",
            ],
            &[
                "delete protocols static xid-route ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 gateway hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3",
            ],
        ),
    ),
    ("protocols/static/xid-route/interface", NEIGHBOR),
    ("protocols/static/xid-route/link-layer-address", NEIGHBOR),
    ("protocols/static/xid-route/local", OTHER_HID),
    (
        "protocols/static/xid-route/discard",
        entry(
            &[
                "delete protocols static xid-route hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 local",
                "set protocols static xid-route hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 discard",
            ],
            &[
                "delete protocols static xid-route hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 discard",
                "set protocols static xid-route hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 local",
            ],
        ),
    ),
    (
        "xip/principal-number/principal",
        entry(&["set xip principal-number zf number 99"], &["delete xip principal-number zf"]),
    ),
    ("xip/ethertype/packets", value("34997")),
    ("xip/ethertype/neighbors", value("34998")),
    ("xip/host/name", OWN_HOST),
    ("xip/host/private-key", OWN_HOST),
    ("xip/interface/name", entry(&["set xip interface inner"], &["delete xip interface inner"])),
    ("xip/lpm/from-ip-routes/origin", value("bgp")),
    ("xip/lpm/from-ip-routes/neighbor/address", IP_NEIGHBOR),
    ("xip/lpm/from-ip-routes/neighbor/hid", IP_NEIGHBOR),
    ("xip/tunnel/local", value("10.1.0.1")),
    (
        "cluster/element",
        entry(
            &["set cluster member 3 role control", "set cluster element 3"],
            &["set cluster element 1", "delete cluster member 3"],
        ),
    ),
    (
        "cluster/interconnect",
        entry(
            &["delete cluster interconnect inner", "set cluster interconnect extra"],
            &["delete cluster interconnect extra", "set cluster interconnect inner"],
        ),
    ),
    ("cluster/key", value(OTHER_KEY)),
    ("cluster/other-key", value(OTHER_KEY)),
    ("cluster/address", value("192.0.2.9")),
    ("cluster/class/number", entry(&["set cluster class 2 dscp 8"], &["delete cluster class 2"])),
    ("cluster/class/dscp", value("34")),
    (
        "cluster/class/role",
        entry(
            &["set cluster member 3 role filter", "set cluster class 1 role filter"],
            &["delete cluster class 1 role", "delete cluster member 3"],
        ),
    ),
    ("cluster/member/number", entry(&["set cluster member 3 role spare"], &["delete cluster member 3"])),
    (
        "cluster/member/role",
        entry(
            &["delete cluster member 1 role control", "set cluster member 1 role spare"],
            &["delete cluster member 1 role spare", "set cluster member 1 role control"],
        ),
    ),
    (
        "cluster/port/number",
        entry(
            &[
                "set cluster port 2 balancer 2",
                "set cluster port 2 interface out2",
                "set cluster port 2 mac 02:00:00:00:01:02",
                "set cluster port 2 address 10.77.2.1/24",
            ],
            &["delete cluster port 2"],
        ),
    ),
    (
        "cluster/port/balancer",
        entry(
            &["set cluster member 3 role balancer", "set cluster port 1 balancer 3"],
            &["set cluster port 1 balancer 2", "delete cluster member 3"],
        ),
    ),
    ("cluster/port/interface", value("out9")),
    (
        "cluster/store/endpoint/address",
        entry(&["set cluster store endpoint 10.77.1.9"], &["delete cluster store endpoint 10.77.1.9"]),
    ),
    (
        "cluster/store/endpoint/port",
        entry(
            &["set cluster store endpoint 10.77.1.9 port 2380"],
            &["delete cluster store endpoint 10.77.1.9"],
        ),
    ),
    ("cluster/member/address", value("10.77.1.9")),
    (
        "cluster/store/member",
        entry(
            &["set cluster member 1 address 10.77.1.9", "set cluster store member 1"],
            &["delete cluster store member 1", "delete cluster member 1 address"],
        ),
    ),
    ("cluster/store/name", value("other")),
    ("cluster/store/origin", value("static")),
    ("cluster/port/mac", value("02:00:00:00:01:09")),
    ("cluster/port/address", value("10.77.9.1/24")),
    ("protocols/bgp/local-as", Special { value: Some("64499"), down: &NEIGHBORS, ..PLAIN }),
    ("protocols/bgp/router-id", value("10.0.0.99")),
    ("rpki/cache/name", entry(&["set rpki cache b address 10.2.0.78"], &["delete rpki cache b"])),
    ("rpki/cache/address", value("10.2.0.79")),
    ("rpki/cache/local-address", value("10.2.0.1")),
    (
        "rpki/cache/tls/server-name",
        entry(&["set rpki cache a tls server-name cache.example"], &["delete rpki cache a tls"]),
    ),
    (
        "rpki/cache/tls/authorities",
        entry(&["set rpki cache a tls authorities others.crt"], &["delete rpki cache a tls"]),
    ),
    ("rpki/cache/tls/certificate", ROUTER_CERTIFICATE),
    ("rpki/cache/tls/key", ROUTER_CERTIFICATE),
    ("rpki/roa/prefix", OWN_ROA),
    ("rpki/roa/as", OWN_ROA),
    (
        "rpki/roa/max-length",
        entry(&["set rpki roa 192.0.2.0/24 64501 max-length 26"], &["delete rpki roa 192.0.2.0/24 64501"]),
    ),
    ("rpki/filter/name", entry(&["set rpki filter b as 64998"], &["delete rpki filter b"])),
    ("rpki/filter/prefix", value("192.0.2.0/24")),
    ("rpki/aspa/customer", OWN_ASPA),
    ("rpki/aspa/provider", OWN_ASPA),
    ("rpki/aspa-filter", value("64998")),
    (
        "protocols/bgp/bmp/station/name",
        entry(
            &[
                "set protocols bgp bmp station b address 10.2.0.78",
                "set protocols bgp bmp station b port 5000",
            ],
            &["delete protocols bgp bmp station b"],
        ),
    ),
    ("protocols/bgp/bmp/station/address", value("10.2.0.79")),
    ("protocols/bgp/bmp/station/local-address", value("10.2.0.1")),
    ("protocols/bgp/mrt/table/interval", value("3600")),
    ("protocols/bgp/mrt/table/keep", value("25")),
    ("protocols/bgp/mrt/table/maximum-size", value("4097")),
    ("protocols/bgp/mrt/updates/interval", value("3600")),
    ("protocols/bgp/mrt/updates/keep", value("25")),
    ("protocols/bgp/mrt/updates/maximum-size", value("4097")),
    ("protocols/bgp/cluster-id", value("10.0.0.99")),
    ("protocols/bgp/threads", value("1")),
    (
        "protocols/bgp/graceful-shutdown",
        Special { value: Some("true"), sent: &["100.64.1.0/24", "100.64.2.0/24"], ..PLAIN },
    ),
    ("protocols/bgp/network", Special { value: Some("192.0.2.128/25"), sent: &["192.0.2.128/25"], ..PLAIN }),
    // The static route is there.
    ("protocols/bgp/network-while-present", Special { value: Some("203.0.113.0/24"), sent: ROUTE, ..PLAIN }),
    // The RIB answers after the commit, so that `commit check` announces nothing.
    (
        "protocols/bgp/neighbor/default-originate/while-present",
        Special {
            sent: DEFAULT,
            ..entry(
                &["set protocols bgp neighbor 10.1.0.2 default-originate while-present 203.0.113.0/24"],
                &["delete protocols bgp neighbor 10.1.0.2 default-originate"],
            )
        },
    ),
    (
        "protocols/bgp/neighbor/default-originate/policy",
        entry(
            &[
                "set policy policy-statement all term all then accept",
                "set protocols bgp neighbor 10.1.0.2 default-originate policy all",
            ],
            &["delete protocols bgp neighbor 10.1.0.2 default-originate", "delete policy"],
        ),
    ),
    (
        "protocols/bgp/neighbor/address",
        Special {
            on: Some(OUTER6),
            statements: Some((
                &["delete protocols bgp neighbor 2001:db8:1::2"],
                &[
                    "set protocols bgp neighbor 2001:db8:1::2 peer-as 64501",
                    "set protocols bgp neighbor 2001:db8:1::2 hold-time 9",
                    "set protocols bgp neighbor 2001:db8:1::2 connect-retry-time 1",
                ],
            )),
            down: &[OUTER6],
            ..PLAIN
        },
    ),
    (
        "protocols/bgp/neighbor/peer-as",
        Special { value: Some("64502"), partner: Some((OUTER4_AS, "local 10.1.0.2 as 64502;")), ..PLAIN },
    ),
    ("protocols/bgp/neighbor/enabled", Special { value: Some("false"), down: &[OUTER4], ..PLAIN }),
    ("protocols/bgp/neighbor/passive", Special { proof: Some(proofs::waits_for_the_neighbor), ..PLAIN }),
    ("protocols/bgp/neighbor/port", value("1790")),
    ("protocols/bgp/neighbor/hold-time", Special { proof: Some(proofs::hold_time_is_10), ..PLAIN }),
    ("protocols/bgp/neighbor/local-address", value("10.1.0.1")),
    (
        "protocols/bgp/neighbor/password",
        Special {
            value: Some("hush"),
            partner: Some((OUTER4_AS, "local 10.1.0.2 as 64501; password \"hush\";")),
            ..PLAIN
        },
    ),
    ("protocols/bgp/neighbor/multihop", value("2")),
    (
        "protocols/bgp/neighbor/prefix-filter-send",
        entry(
            &[
                "set policy prefix-list all prefix \"0.0.0.0/0 orlonger\"",
                "set protocols bgp neighbor 10.1.0.2 prefix-filter-send all",
            ],
            &["delete protocols bgp neighbor 10.1.0.2 prefix-filter-send", "delete policy"],
        ),
    ),
    (
        "protocols/bgp/neighbor/ttl-security",
        Special {
            value: Some("true"),
            partner: Some((OUTER4_AS, "local 10.1.0.2 as 64501; ttl security on;")),
            ..PLAIN
        },
    ),
    ("protocols/bgp/neighbor/route-reflector-client", Special { on: Some(INNER4), ..PLAIN }),
    ("protocols/bgp/neighbor/allow-as-in", value("1")),
    ("protocols/bgp/neighbor/add-path/send", value("all")),
    ("protocols/bgp/neighbor/next-hop-self", Special { on: Some(INNER4), ..PLAIN }),
    (
        "protocols/bgp/neighbor/ipv4-unicast/enabled",
        Special { on: Some(OUTER6), value: Some("true"), ..PLAIN },
    ),
    ("protocols/bgp/neighbor/ipv6-unicast/enabled", value("true")),
    (
        "protocols/bgp/neighbor/xid/enabled",
        entry(
            &[
                "set protocols bgp neighbor 10.1.0.2 xid enabled true",
                "set protocols bgp neighbor 10.1.0.2 xid next-hop hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3",
            ],
            &["delete protocols bgp neighbor 10.1.0.2 xid"],
        ),
    ),
    ("protocols/bgp/neighbor/xid/next-hop", value("hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3")),
];

const OTHER_HID: Special = entry(
    &["set protocols static xid-route hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3 local"],
    &["delete protocols static xid-route hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3"],
);
const NEIGHBOR: Special = entry(
    &[
        "set protocols static xid-route hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3 interface inner",
        "set protocols static xid-route hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3 link-layer-address 02:00:00:00:00:01",
    ],
    &["delete protocols static xid-route hid-c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3"],
);
const DISCARD: Special = Special {
    statements: Some((
        &[
            "delete protocols static route 198.51.100.0/24 reject",
            "set protocols static route 198.51.100.0/24 discard",
        ],
        &[
            "delete protocols static route 198.51.100.0/24 discard",
            "set protocols static route 198.51.100.0/24 reject",
        ],
    )),
    kernel: REJECTED,
    ..PLAIN
};

const EXTRA: &[&str] = &[
    "set interfaces interface extra description before",
    "set interfaces interface extra enabled true",
    "set interfaces interface extra mtu 1500",
    "set interfaces interface extra address 10.9.0.1/24",
    "set interfaces interface extra address 2001:db8:9::1/64",
];

/// Changes of more than a leaf, and values of leaves with an unusual meaning: name, class, subject, and effects.
pub const MORE: &[(&str, Impact, &str, Special)] = &[
    (
        "interfaces/interface/mtu (enough for IPv6)",
        Impact::Soft,
        "extra",
        Special {
            statements: Some((
                &["set interfaces interface extra mtu 1400"],
                &["set interfaces interface extra mtu 1500"],
            )),
            ..PLAIN
        },
    ),
    (
        "interfaces/interface (with its addresses)",
        Impact::Reset,
        "extra",
        Special { statements: Some((&["delete interfaces interface extra"], EXTRA)), ..PLAIN },
    ),
    (
        "interfaces (all that is configured)",
        Impact::Reset,
        "extra",
        Special {
            statements: Some((&["delete interfaces"], EXTRA)),
            proof: Some(proofs::sockets_are_opened),
            ..PLAIN
        },
    ),
    (
        "protocols/static (the component)",
        Impact::Restart,
        "static",
        Special {
            statements: Some((
                &["delete protocols static"],
                &[
                    "set protocols static route 203.0.113.0/24 next-hop 10.2.0.2",
                    "set protocols static route 203.0.113.0/24 next-hop 10.2.0.3",
                    "set protocols static route 198.51.100.0/24 reject",
                    "set protocols static xid-route hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 local",
                    "set protocols static xid-route ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 gateway hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2",
                ],
            )),
            kernel: &["203.0.113.0/24", "198.51.100.0/24"],
            ..PLAIN
        },
    ),
    (
        "protocols/bgp/neighbor/next-hop-self (of an external neighbor)",
        Impact::Refilter,
        OUTER4,
        Special {
            statements: Some((
                &["set protocols bgp neighbor 10.1.0.2 next-hop-self true"],
                &["delete protocols bgp neighbor 10.1.0.2 next-hop-self"],
            )),
            sent: &["100.64.2.0/24"],
            ..PLAIN
        },
    ),
];
