//! Layouts and numbers in Rust beside those of the compiled C programs.
#![cfg(feature = "xdp")]

use crate::btf;
use sluice_bpf::Embedded;
use sluice_bpf::layout::balance::{
    self, Addresses, Block, Class, Interface, LastHello, Mode, Neighbors, Side,
};
use sluice_bpf::layout::xip::{
    self, CacheAction, CacheLine, CacheSlot, ReasonCount, Set, SetMember, Settings, Source, Tunnel,
};
use sluice_bpf::layout::*;
use std::collections::BTreeMap;
use std::mem::offset_of;

macro_rules! same {
    ($types:expr, $c:literal, $rust:ident { $($field:ident),* }) => {
        let mut members = BTreeMap::new();
        $(members.insert(stringify!($field).to_owned(), offset_of!($rust, $field));)*
        assert_eq!($types.structs.get($c), Some(&(size_of::<$rust>(), members)), "struct {}", $c);
    };
}

#[test]
fn structs_have_the_same_sizes_and_offsets() {
    let root = btf::types(Embedded::Root.object().unwrap());
    same!(root, "count", Count { packets, octets });
    let protocols = btf::types(Embedded::Protocols.object().unwrap());
    same!(protocols, "protocol", Protocol { packets, is_dropped });
    same!(root, "port", Port { mac, number, flags, skipped });
    let ip = btf::types(Embedded::Ip.object().unwrap());
    same!(ip, "ipv4_node", Ipv4Node { entry });
    same!(ip, "ipv6_node", Ipv6Node { entry });
    same!(ip, "bucket_block", BucketBlock { member });
    same!(ip, "member", Member { action, interface, mtu, destination, source });
    let cache = btf::types(Embedded::Xip.object().unwrap());
    same!(cache, "xip_slot", CacheSlot { tag, answer });
    same!(cache, "xip_line", CacheLine { slot });
    same!(cache, "xip_tunnel", Tunnel { address, port, reserved });
    same!(
        cache,
        "xip_settings",
        Settings {
            key,
            line_shift,
            shadow_interval,
            multiplier,
            punt_interval,
            punt_burst,
            has_reports,
            tunnel_address,
            tunnel_port,
            has_checksum,
            ether_type,
            reserved
        }
    );
    same!(cache, "xip_copy", SetMember { interface, member });
    same!(cache, "xip_set", Set { version, count, copy });
    same!(cache, "xip_source", Source { time });
    same!(cache, "xip_count", ReasonCount { packets });
    let sink = btf::types(Embedded::Sink.object().unwrap());
    same!(sink, "tally", Tally { received, octets, duplicates, reordered, late, expected, first, last });
    same!(sink, "window", Window { word, seen });
    let generator = btf::types(Embedded::Pktgen.object().unwrap());
    same!(generator, "generator", Generator { sent, idle, first, last });
    same!(generator, "destination", Destination { address });
}

#[test]
fn numbers_are_the_same() {
    let root = btf::types(Embedded::Root.object().unwrap());
    assert_eq!(root.numbers["LAYOUT_VERSION"], LAYOUT_VERSION);
    assert_eq!(root.numbers["REASONS"], REASONS);
    for reason in Reason::ALL {
        let name = format!("REASON_{}", reason.name().to_uppercase().replace('-', "_"));
        assert_eq!(root.numbers[&name], reason.index(), "{name}");
    }
    let empty = btf::types(Embedded::Empty.object().unwrap());
    assert_eq!(empty.numbers["SLOTS"], SLOTS);
    for slot in Slot::ALL {
        let name = format!("SLOT_{}", slot.name().to_uppercase());
        assert_eq!(empty.numbers[&name], slot.index(), "{name}");
    }
    let reasons = root.numbers.keys().filter(|name| name.starts_with("REASON_")).count();
    let slots = empty.numbers.keys().filter(|name| name.starts_with("SLOT_")).count();
    assert_eq!((reasons, slots), (Reason::ALL.len(), Slot::ALL.len()));
}

#[test]
fn actions_and_flags_are_the_same() {
    let ip = btf::types(Embedded::Ip.object().unwrap());
    let actions = [
        ("MEMBER_KERNEL", MemberAction::Kernel),
        ("MEMBER_FORWARD", MemberAction::Forward),
        ("MEMBER_DROP", MemberAction::Drop),
        ("MEMBER_UNRESOLVED", MemberAction::Unresolved),
    ];
    for (name, action) in actions {
        assert_eq!(ip.numbers[name], action as u32, "{name}");
    }
    let flags = ["PORT_IPV4", "PORT_IPV6", "PORT_PROMISCUOUS"].map(|name| ip.numbers[name]);
    assert_eq!(flags, [PORT_IPV4, PORT_IPV6, PORT_PROMISCUOUS]);
    let of_kind = |kind: &str| ip.numbers.keys().filter(|name| name.starts_with(kind)).count();
    assert_eq!((of_kind("MEMBER_"), of_kind("PORT_")), (actions.len(), flags.len()));
}

#[test]
fn actions_and_reasons_of_xip_are_the_same() {
    let program = btf::types(Embedded::Xip.object().unwrap());
    let actions = [
        ("XIP_UP", CacheAction::Up),
        ("XIP_DIG", CacheAction::Dig),
        ("XIP_FORWARD", CacheAction::Forward),
        ("XIP_DROP", CacheAction::Drop),
        ("XIP_UNREACHABLE", CacheAction::Unreachable),
        ("XIP_UNSUPPORTED", CacheAction::Unsupported),
        ("XIP_TUNNEL", CacheAction::Tunnel),
        ("XIP_COPY", CacheAction::Copy),
    ];
    for (name, action) in actions {
        assert_eq!(program.numbers[name], action as u32, "{name}");
    }
    for (number, name) in xip::REASON_NAMES {
        let name = format!("XIP_{}", name.to_uppercase().replace('-', "_"));
        assert_eq!(program.numbers[&name], number, "{name}");
    }
    assert_eq!(program.numbers["XIP_REASONS"], xip::REASONS);
    // The number of all reasons is one more name.
    let of_xip = program.numbers.keys().filter(|name| name.starts_with("XIP_")).count();
    assert_eq!(of_xip, actions.len() + xip::REASON_NAMES.len() + 1);
}

#[test]
fn structs_of_the_balancer_have_the_same_sizes_and_offsets() {
    use balance::{Led, Port, ReasonCount, Settings};
    let program = btf::types(Embedded::Balance.object().unwrap());
    same!(program, "balance_interface", Interface { mac, port, side, reserved });
    same!(program, "balance_port", Port { mac, reserved, interface, reserved_after });
    same!(program, "balance_heard", LastHello { time, epoch, counter });
    same!(program, "balance_class", Class { mode, count, member });
    same!(program, "balance_block", Block { element });
    same!(program, "balance_neighbors", Neighbors { entry });
    same!(program, "balance_addresses", Addresses { entry });
    same!(
        program,
        "balance_settings",
        Settings { seed, silence, key, ether_type, control, inners, inner, class }
    );
    same!(program, "balance_count", ReasonCount { packets });
    same!(program, "balance_led", Led { packets, octets });
}

#[test]
fn sides_modes_and_reasons_of_the_balancer_are_the_same() {
    let program = btf::types(Embedded::Balance.object().unwrap());
    let sides =
        [("BALANCE_NONE", Side::None), ("BALANCE_OUTER", Side::Outer), ("BALANCE_INNER", Side::Inner)];
    for (name, side) in sides {
        assert_eq!(program.numbers[name], side as u32, "{name}");
    }
    let modes =
        [("BALANCE_OFF", Mode::Off), ("BALANCE_ROUND_ROBIN", Mode::RoundRobin), ("BALANCE_FLOW", Mode::Flow)];
    for (name, mode) in modes {
        assert_eq!(program.numbers[name], mode as u32, "{name}");
    }
    for (number, name) in balance::REASON_NAMES {
        let name = format!("BALANCE_{}", name.to_uppercase().replace('-', "_"));
        assert_eq!(program.numbers[&name], number, "{name}");
    }
    assert_eq!(program.numbers["BALANCE_REASONS"], balance::REASONS);
    // The number of all reasons is one more name.
    let of_balance = program.numbers.keys().filter(|name| name.starts_with("BALANCE_")).count();
    assert_eq!(of_balance, sides.len() + modes.len() + balance::REASON_NAMES.len() + 1);
}

#[test]
fn maps_of_the_balancer_have_the_sizes_that_user_space_expects() {
    let program = aya_obj::Object::parse(Embedded::Balance.object().unwrap()).unwrap();
    let maps = [
        ("balance_interfaces", INTERFACES, size_of::<Interface>()),
        ("balance_ports", balance::PORTS, size_of::<balance::Port>()),
        ("balance_heard", balance::ELEMENTS, size_of::<LastHello>()),
        ("balance_classes", balance::CLASSES as u32, size_of::<Class>()),
        ("balance_blocks", balance::BLOCKS, size_of::<Block>()),
        ("balance_neighbors", balance::NEIGHBOR_LINES, size_of::<Neighbors>()),
        ("balance_addresses", balance::ADDRESS_LINES, size_of::<Addresses>()),
        ("balance_settings", 1, size_of::<balance::Settings>()),
        ("balance_counts", balance::CPUS * balance::REASONS, size_of::<balance::ReasonCount>()),
        ("balance_led", balance::CPUS * balance::CLASSES as u32, size_of::<balance::Led>()),
    ];
    for (name, entries, octets) in maps {
        let map = &program.maps[name];
        assert_eq!((map.max_entries(), map.value_size() as usize), (entries, octets), "{name}");
    }
}

#[test]
fn maps_of_xip_have_the_sizes_that_user_space_expects() {
    let program = aya_obj::Object::parse(Embedded::Xip.object().unwrap()).unwrap();
    let maps = [
        ("xip_lines", xip::LINES, size_of::<CacheLine>()),
        ("xip_members", xip::MEMBERS, size_of::<Member>()),
        ("xip_tunnels", xip::TUNNELS, size_of::<Tunnel>()),
        ("xip_sets", xip::SETS, size_of::<Set>()),
        ("xip_settings", 1, size_of::<Settings>()),
        ("xip_sources", xip::SOURCES, size_of::<Source>()),
        ("xip_counts", xip::CPUS * xip::REASONS, size_of::<ReasonCount>()),
    ];
    for (name, entries, octets) in maps {
        let map = &program.maps[name];
        assert_eq!((map.max_entries(), map.value_size() as usize), (entries, octets), "{name}");
    }
    let sockets = &program.maps["xip_receivers"];
    assert_eq!(sockets.max_entries(), INTERFACES * sluice_bpf::receiver::QUEUES);
}

#[test]
fn maps_have_the_sizes_that_user_space_expects() {
    let ip = aya_obj::Object::parse(Embedded::Ip.object().unwrap()).unwrap();
    let tables = [
        ("ports", INTERFACES, size_of::<Port>()),
        ("ipv4_root", IPV4_ROOT_WORDS, 8),
        ("ipv4_nodes", IPV4_NODES, size_of::<Ipv4Node>()),
        ("ipv6_root", IPV6_ROOT_WORDS, 8),
        ("ipv6_nodes", IPV6_NODES, size_of::<Ipv6Node>()),
        ("groups", GROUPS, 8),
        ("buckets", BUCKET_BLOCKS, size_of::<BucketBlock>()),
        ("members", MEMBERS, size_of::<Member>()),
        ("ipv4_sources", IPV4_SOURCE_WORDS, size_of::<u64>()),
        ("counts", PORTS * REASONS, size_of::<Count>()),
    ];
    for (name, entries, octets) in tables {
        let map = &ip.maps[name];
        assert_eq!((map.max_entries(), map.value_size() as usize), (entries, octets), "{name}");
        // BPF_MAP_TYPE_ARRAY and BPF_F_MMAPABLE, but for the counters of each CPU.
        let (kind, flags) = if name == "counts" { (6, 0) } else { (2, 1 << 10) };
        assert_eq!((map.map_type(), map.map_flags()), (kind, flags), "{name}");
    }
    let chain: Vec<&str> = ip.maps.keys().map(String::as_str).collect();
    assert!(chain.contains(&"slots"), "{chain:?}");
}

#[test]
fn reasons_have_outcomes() {
    let of = |outcome| Reason::ALL.iter().filter(|reason| reason.outcome() == outcome).count();
    assert_eq!((of(Outcome::Forwarded), of(Outcome::Dropped)), (4, 2));
    assert!(Reason::ALL.iter().all(|reason| reason.index() < REASONS));
}

/// `struct stamp` is only reached through pointers, so that no object has its type.
#[test]
fn the_stamp_is_laid_out_as_it_is_sent() {
    assert_eq!((size_of::<Stamp>(), offset_of!(Stamp, stream), offset_of!(Stamp, sequence)), (16, 4, 8));
}
