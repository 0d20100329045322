//! The fast path of a whole router: configured, looked at, switched off by obstacles, and forwarding whoever dies.

use serde_json::Value;
use sluice_router_lab::bird::{commit, kill};
use sluice_router_lab::xdp::{
    FAR, Network, PLAIN, counted, forwarding, is_forwarded, is_live, off, ping, port, without_loss,
};
use sluice_router_lab::{RouterLab, possible, share};
use std::path::PathBuf;

#[test]
fn a_router_forwards_by_xdp() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = PLAIN.up();
    for (address, reason) in FAR {
        assert!(is_forwarded(&lab, address, reason), "{}", forwarding(&lab));
    }

    let metrics = lab.ask(&["show", "metrics", "fea"]).to_string();
    for part in ["fea_forwarding_packets", "forwarded-ipv4", "eth0"] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }

    // The router's own addresses and what has no route are the kernel's.
    ping(&lab, "10.1.0.1");
    assert!(counted(&lab, "eth0", "kernel") >= 20);

    // A rule that the program does not know turns IPv4 off, and IPv6 stays on.
    let ip = |words: &[&str]| lab.lab.exec("sluice", "ip", words.iter().copied()).unwrap();
    ip(&["rule", "add", "from", "192.0.2.1", "table", "100"]);
    lab.until("IPv4 is off", |lab| off(lab, "ipv4").contains("policy rule"));
    let before = counted(&lab, "eth0", "forwarded-ipv4");
    ping(&lab, "203.0.113.1");
    assert_eq!(counted(&lab, "eth0", "forwarded-ipv4"), before);
    ip(&["rule", "del", "from", "192.0.2.1", "table", "100"]);
    lab.until("IPv4 is on", |lab| off(lab, "ipv4") == "[]");
    // So does a route of another program that precedes: its prefix goes to the kernel.
    ip(&["route", "add", "203.0.113.1/32", "via", "10.2.0.2", "proto", "static"]);
    let kernel = |lab: &RouterLab| {
        let before = counted(lab, "eth0", "kernel");
        ping(lab, "203.0.113.1");
        counted(lab, "eth0", "kernel") >= before + 20
    };
    lab.until("the other program's route is the kernel's", kernel);
    ip(&["route", "del", "203.0.113.1/32"]);
    lab.until("Sluice's route forwards again", |lab| !kernel(lab));

    // A route to the same prefix that the kernel prefers overrides Sluice's: each display shows it.
    let overridden = |lab: &RouterLab| {
        let shown = lab.ask(&["show", "routes", "203.0.113.0/24"]);
        let degraded = lab.ask(&["status"]).to_string().contains("does not use the route to 203.0.113.0/24");
        (shown["routes"][0]["overridden_by"].clone(), degraded)
    };
    assert_eq!(overridden(&lab), (Value::Null, false));
    ip(&["route", "add", "203.0.113.0/24", "via", "10.2.0.2", "proto", "dhcp"]);
    let dhcp = serde_json::json!({ "protocol": 16, "metric": 0 });
    lab.until("the route is overridden", |lab| overridden(lab) == (dhcp.clone(), true));
    ip(&["route", "del", "203.0.113.0/24", "proto", "dhcp"]);
    lab.until("the kernel uses Sluice's route", |lab| overridden(lab) == (Value::Null, false));

    commit(&lab, "set interfaces forwarding engine kernel");
    lab.until("the kernel forwards alone", |lab| forwarding(lab)["configured"] == "kernel" && !is_live(lab));
    let attached = ip(&["link", "show", "eth0"]);
    assert!(!attached.contains("xdp"), "{attached}");
    ping(&lab, "203.0.113.1");
}

/// Packets flow while each process is killed and replaced, and while the router stops: the programs stay.
#[test]
fn the_programs_forward_whoever_dies() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = PLAIN.up();
    ping(&lab, "203.0.113.1");
    without_loss(&lab, FAR[0].0, "processes that end", || {
        for component in ["fea", "rib"] {
            kill(&lab, component);
            lab.until("the fast path forwards by the new tables", is_live);
        }
        let done = lab.cli(&["restart", "fea"]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        lab.until("the fast path forwards by the new tables", is_live);
        let before = counted(&lab, "eth0", "forwarded-ipv4");
        lab.until("packets are counted on", |lab| counted(lab, "eth0", "forwarded-ipv4") > before);
        let stopped = lab.cli(&["stop"]);
        assert!(stopped.status.success());
        let attached = lab.lab.exec("sluice", "ip", ["link", "show", "eth0"]).unwrap();
        assert!(attached.contains("xdp"), "{attached}");
        ping(&lab, "203.0.113.1");
    });
}

/// A router of another version finds the links of the old root program: it makes a chain of its own beside, and moves the links
/// there when that chain forwards. What makes a version another one is the hash in the name of the chain's folder.
#[test]
fn another_version_takes_the_links_over_without_a_loss() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = PLAIN.up();
    let chains = |lab: &RouterLab| -> Vec<PathBuf> {
        // The bpffs is mounted where the router's processes see it.
        let root = PathBuf::from(format!("/proc/{}/root", lab.pid("rib").unwrap()));
        let folder = root.join(lab.run_dir().strip_prefix("/").unwrap()).join("forwarding/bpf");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.display().to_string().contains("/chain-")).collect()
    };
    let names = |lab: &RouterLab| -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        chains(lab).iter().map(name).collect()
    };
    let [own] = &chains(&lab)[..] else { panic!("{:?}", names(&lab)) };
    let present = names(&lab);
    without_loss(&lab, FAR[0].0, "another version", || {
        std::fs::rename(own, own.with_file_name("chain-of-another-version")).unwrap();
        kill(&lab, "fea");
        lab.until("the fast path forwards by the new chain", |lab| is_live(lab) && names(lab) == present);
    });
    for (address, reason) in FAR {
        assert!(is_forwarded(&lab, address, reason), "{}", forwarding(&lab));
    }
}

/// Interfaces go down, get another MTU and another name and are removed; another program is attached before Sluice's.
#[test]
fn ports_follow_their_interfaces() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = PLAIN.up();
    let ip = |words: &[&str]| lab.lab.exec("sluice", "ip", words.iter().copied()).unwrap();
    let is_fast = |lab: &RouterLab| {
        let before = counted(lab, "eth0", FAR[0].1);
        ping(lab, FAR[0].0);
        counted(lab, "eth0", FAR[0].1) > before
    };
    lab.until("packets are forwarded by XDP", is_fast);

    ip(&["link", "set", "eth1", "down"]);
    lab.until("the port is down", |lab| port(lab, "eth1")["refusal"] == "it is down");
    ip(&["link", "set", "eth1", "up"]);
    ip(&["-6", "address", "replace", "2001:db8:2::1/64", "dev", "eth1", "nodad"]);
    lab.until("the port is back", |lab| port(lab, "eth1")["refusal"] == "");
    lab.until("the route is back", |lab| lab.kernel_text("-4").contains("203.0.113.0/24"));
    lab.until("packets are forwarded by XDP", is_fast);

    // Larger packets than the new MTU are the kernel's, which fragments them.
    ip(&["link", "set", "eth1", "mtu", "1400"]);
    lab.lab.exec("b", "ip", ["link", "set", "eth0", "mtu", "1400"]).unwrap();
    let large = |lab: &RouterLab| {
        let before = counted(lab, "eth0", "size");
        let words = ["-q", "-c", "3", "-i", "0.01", "-W", "5", "-M", "dont", "-s", "1450", "203.0.113.1"];
        let said = lab.lab.exec("a", "ping", words).unwrap();
        assert!(said.contains(" 0% packet loss"), "{said}");
        counted(lab, "eth0", "size") >= before + 3
    };
    lab.until("large packets are the kernel's", large);

    ip(&["link", "set", "eth1", "down"]);
    ip(&["link", "set", "eth1", "name", "uplink"]);
    ip(&["link", "set", "uplink", "up"]);
    lab.until("the port has its new name", |lab| port(lab, "uplink")["refusal"] == "");
    assert_eq!(port(&lab, "eth1"), Value::Null);
    lab.until("the route is back", |lab| lab.kernel_text("-4").contains("203.0.113.0/24"));
    lab.until("packets are forwarded by XDP", is_fast);

    // The far end takes no frames of XDP programs: the kernel forwards to it, and no packet vanishes.
    let set_gro = |on| lab.lab.inside("b", || sluice_lab::ethtool::set_gro("eth0", on).unwrap()).unwrap();
    set_gro(false);
    let why = |lab: &RouterLab| port(lab, "uplink")["sent"].to_string();
    lab.until("the far end is known to take no frames", |lab| why(lab).contains("GRO"));
    lab.until("packets are forwarded by the kernel", |lab| !is_fast(lab));
    set_gro(true);
    lab.until("the far end takes frames", |lab| why(lab) == "[]");
    lab.until("packets are forwarded by XDP", is_fast);

    // A new interface on which a program of somebody else is attached, until that program goes.
    ip(&["link", "add", "spare", "type", "veth", "peer", "name", "other"]);
    lab.lab
        .inside("sluice", || {
            let program = sluice_bpf::Loader::new(sluice_bpf::Embedded::Drop).load().unwrap();
            let link = sluice_bpf::Link::attach("spare", program.program()).unwrap();
            ip(&["link", "set", "spare", "up"]);
            lab.until("the other program is left alone", |lab| {
                port(lab, "spare")["refusal"].as_str().is_some_and(|why| why.contains("another XDP program"))
            });
            drop(link);
        })
        .unwrap();
    ip(&["link", "set", "spare", "mtu", "1450"]);
    lab.until("the interface is a port", |lab| port(lab, "spare")["refusal"] == "");
    ip(&["link", "del", "spare"]);
    lab.until("the interface is gone", |lab| port(lab, "spare") == Value::Null);
    lab.until("packets are forwarded by XDP", is_fast);
}

/// BIRD as the far node, which announces routes by BGP; one route is static.
const WITH_BGP: Network<'static> = Network {
    far: (
        "bird",
        "daemon = 'bird'
loopback = ['203.0.113.1/32', '198.51.100.1/32', '2001:db8:a::1/128']
routes = ['default via 10.2.0.1', 'default via 2001:db8:2::1']
config = '''
router id 10.2.0.2;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:a::/48 blackhole; }
protocol bgp sluice {
    local 10.2.0.2 as 64501; neighbor 10.2.0.1 as 64500;
    connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import none; export where source = RTS_STATIC; };
    ipv6 { import none; export where source = RTS_STATIC; next hop address 2001:db8:2::2; };
}
'''",
    ),
    config: "
interfaces { forwarding { engine xdp; } }
protocols {
    static { route 203.0.113.0/24 { next-hop 10.2.0.2; } }
    bgp {
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        neighbor 10.2.0.2 { peer-as 64501; connect-retry-time 1; ipv6-unicast enabled; }
    }
}
",
    routes: 3,
    ..PLAIN
};

/// Sluice's routes in the kernel's table, by prefix.
fn in_kernel(lab: &RouterLab) -> Vec<String> {
    let of = |family| lab.lab.exec("sluice", "ip", [family, "route", "show", "proto", "83"]).unwrap();
    let text = of("-4") + &of("-6");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

const STATIC: [&str; 1] = ["203.0.113.0/24"];
const ALL: [&str; 3] = ["198.51.100.0/24", "203.0.113.0/24", "2001:db8:a::/48"];

/// The kernel has no route of BGP, and packets to these routes flow: while a new process fills new tables, and while the engine changes.
#[test]
fn routes_of_bgp_are_not_in_the_kernel() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = WITH_BGP.up();
    assert_eq!(
        (forwarding(&lab)["configured"].as_str(), in_kernel(&lab)),
        (Some("xdp"), STATIC.map(String::from).to_vec())
    );
    for (address, reason) in [("198.51.100.1", "forwarded-ipv4"), ("2001:db8:a::1", "forwarded-ipv6")] {
        assert!(is_forwarded(&lab, address, reason), "{}", forwarding(&lab));
    }

    let no_loss = |what: &str, act: &dyn Fn()| without_loss(&lab, "198.51.100.1", what, act);
    no_loss("another FEA", &|| {
        kill(&lab, "fea");
        WITH_BGP.until_ready(&lab);
        assert_eq!(in_kernel(&lab), STATIC);
        let before = counted(&lab, "eth0", "forwarded-ipv4");
        lab.until("packets are counted on", |lab| counted(lab, "eth0", "forwarded-ipv4") > before);
    });
    // The list names external routes that the kernel has too.
    no_loss("another list", &|| {
        commit(&lab, "set interfaces forwarding kernel-prefix 198.51.0.0/16");
        lab.until("the kernel has the route of the list", |lab| in_kernel(lab) == ALL[..2]);
        commit(&lab, "delete interfaces forwarding kernel-prefix");
        lab.until("the kernel has internal routes only", |lab| in_kernel(lab) == STATIC);
    });
    no_loss("both and back", &|| {
        commit(&lab, "set interfaces forwarding engine both");
        lab.until("the kernel has all routes", |lab| in_kernel(lab) == ALL);
        assert!(is_live(&lab));
        commit(&lab, "set interfaces forwarding engine xdp");
        lab.until("the kernel has internal routes only", |lab| in_kernel(lab) == STATIC);
    });
    no_loss("the kernel", &|| {
        commit(&lab, "set interfaces forwarding engine kernel");
        lab.until("the kernel forwards alone", |lab| !is_live(lab));
        assert_eq!(in_kernel(&lab), ALL);
    });
    no_loss("from the kernel", &|| {
        commit(&lab, "set interfaces forwarding engine xdp");
        lab.until("the kernel has internal routes only", |lab| in_kernel(lab) == STATIC);
        assert!(is_live(&lab));
    });
}
