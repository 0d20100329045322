//! A router with a small table: dying processes, a flapping peer beside a peer sending garbage, a link going down.

use crate::SLUICE;
use crate::survival::feed::{FEED, fed, feed_of};
use sluice_load::RoutingTable;
use sluice_router_lab::{Count, Machine, RouterLab, possible, share};
use std::path::Path;

/// Routes of the feed, of each family.
const ROUTES: usize = 1500;
/// The feed's table, and the static route.
pub const WHOLE: Count = Count { v4: ROUTES + 1, v6: ROUTES };

const TOPOLOGY: &str = "
[nodes.stranger]
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols {
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        neighbor 10.1.0.2 { peer-as 64501; ipv6-unicast enabled; connect-retry-time 1; }
        neighbor 10.2.0.2 { peer-as 64502; }
    }
    static { route 192.0.2.0/24 discard; }
}
'''
[[links]]
a = 'sluice:stranger'
b = 'stranger:sluice'
a_addresses = ['10.2.0.1/24']
b_addresses = ['10.2.0.2/24']
";

/// A converged router, and the router's share of the machine.
fn converged() -> Option<(RouterLab, Machine)> {
    converged_with(Path::new(SLUICE))
}

/// Runs the test with `program` as the router.
pub fn converged_with(program: &Path) -> Option<(RouterLab, Machine)> {
    let share = share();
    if !possible() {
        return None;
    }
    let prefixes = (0..ROUTES).flat_map(|i| {
        let (high, low) = (i / 256, i % 256);
        [format!("20.{high}.{low}.0/24"), format!("2001:db8:{:x}::/48", 0x1000 + i)]
    });
    let table = RoutingTable::with_made_up_paths(prefixes.map(|p| (p.parse().unwrap(), None)));
    let lab = RouterLab::up(&fed(TOPOLOGY, feed_of(&table).config()), program);
    lab.until("the table is in the kernel", |l| l.kernel() == WHOLE);
    Some((lab, share))
}

/// Returns true if the RIB has the whole table.
pub fn rib_is_whole(lab: &RouterLab) -> bool {
    lab.rib("bgp").0 == Count { v4: ROUTES, v6: ROUTES }
}

/// Each component in turn: forwarding goes on all the time, the component returns, and no stale route stays.
#[test]
fn any_component_killed() {
    let Some((lab, _share)) = converged() else { return };
    for component in ["bgp", "rib", "fea", "static"] {
        let pid = lab.pid(component).unwrap();
        lab.kill(pid);
        lab.until(&format!("{component} is back"), |l| {
            let log = || l.lab.log("sluice", "sluice");
            assert_eq!(l.kernel(), WHOLE, "{component} died and routes went with it\n{}", log());
            l.ready() && l.pid(component).is_some_and(|new| new != pid && new != 0)
        });
        lab.until("the session is up", |l| l.established(FEED));
        lab.until("the RIB has it all", rib_is_whole);
        assert_eq!(lab.kernel(), WHOLE, "after {component}");
        let sockets = std::fs::read_dir(lab.run_dir().join("xrl")).unwrap();
        let left = sockets.filter_map(|s| s.unwrap().file_name().into_string().ok());
        let left: Vec<String> = left.filter(|name| name.starts_with(&format!("{pid}-"))).collect();
        assert!(left.is_empty(), "{component} is dead and left {left:?}");
    }
    // What the neighbor withdraws is gone from the kernel: nothing is kept from an earlier life.
    lab.birdc("feed", "disable feed4");
    lab.until("IPv4 is withdrawn", |l| l.kernel() == Count { v4: 1, v6: ROUTES });
}

/// The FEA has exactly its rights over the network and XDP programs, and no further component has any; none can gain more.
#[test]
fn components_have_no_more_rights_than_they_need() {
    let Some((lab, _share)) = converged() else { return };
    // CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON and CAP_BPF (capabilities(7)).
    let of_fea = 1_u64 << 10 | 1 << 12 | 1 << 13 | 1 << 38 | 1 << 39;
    for (component, expected) in [("fea", of_fea), ("rib", 0), ("bgp", 0), ("static", 0)] {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", lab.pid(component).unwrap())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
        };
        assert_eq!([field("CapEff"), field("CapPrm")], [expected; 2], "{component}");
        assert_eq!([field("CapInh"), field("CapAmb")], [0; 2], "{component}");
        assert_eq!(field("NoNewPrivs"), 1, "{component}");
    }
}

/// BGP checks its tables while a neighbor withdraws and announces every route: the checks find no error, and BGP goes
/// on.
#[test]
fn the_checks_of_tables_are_switched_on_in_a_live_router() {
    let Some((lab, _share)) = converged() else {
        return;
    };
    let pid = lab.pid("bgp");
    for on in ["true", "false"] {
        let said = lab.cli(&["call", &format!("bgp/bgp.v1.Bgp/SetCheck?on:bool={on}")]);
        assert!(said.status.success(), "{said:?}");
        lab.birdc("feed", "disable feed4");
        lab.until("IPv4 is withdrawn", |l| l.kernel() == Count { v4: 1, v6: ROUTES });
        lab.birdc("feed", "enable feed4");
        lab.until("IPv4 is back", |l| l.kernel() == WHOLE);
    }
    assert_eq!((lab.pid("bgp"), lab.restarts()), (pid, 0));
    assert!(lab.established(FEED));
}

/// The manager dies: everything goes on, sessions too; the next manager takes the processes over.
#[test]
fn the_manager_killed() {
    let Some((mut lab, _share)) = converged() else { return };
    let bgp = lab.pid("bgp");
    lab.kill(lab.pid("manager").unwrap());
    assert_eq!(lab.kernel(), WHOLE);
    lab.lab.stop("sluice", true).unwrap();
    lab.lab.start("sluice").unwrap();
    lab.until("the router answers again", |l| l.ready() && l.established(FEED));
    assert_eq!(lab.pid("bgp"), bgp, "the process was taken over, not started anew");
    assert_eq!(lab.neighbor(FEED)["flaps"], "0");
    assert_eq!(lab.kernel(), WHOLE);
}

/// A peer flaps twenty times, while a stranger on a configured address sends garbage.
#[test]
fn a_peer_flaps_and_another_sends_garbage() {
    let Some((lab, _share)) = converged() else { return };
    let garbage =
        "for i in $(seq 20); do head -c 2000 /dev/urandom > /dev/tcp/10.2.0.1/179; done 2>/dev/null";
    let mut stranger = lab.lab.command("stranger", "bash").unwrap();
    let mut stranger = stranger.args(["-c", garbage]).spawn().unwrap();
    for _ in 0..20 {
        lab.birdc("feed", "disable sluice");
        lab.until("the session is down", |l| !l.established(FEED));
        lab.birdc("feed", "enable sluice");
        lab.until("the session is up again", |l| l.established(FEED));
    }
    stranger.wait().unwrap();
    lab.until("the table is in the kernel again", |l| l.kernel() == WHOLE);
    assert_eq!(lab.restarts(), 0);
}

#[test]
fn a_link_goes_down_and_comes_back() {
    let Some((lab, _share)) = converged() else { return };
    let ip = |words: &str| lab.lab.exec("sluice", "ip", words.split(' ')).unwrap();
    ip("link set feed down");
    lab.until("routes over the link are gone", |l| l.kernel() == Count { v4: 1, v6: 0 });
    ip("link set feed up");
    // The kernel dropped the interface's IPv6 addresses with the link, as it always does.
    ip("-6 addr replace 2001:db8:1::1/64 dev feed nodad");
    lab.until("everything is back", |l| l.kernel() == WHOLE);
}
