//! BGP is killed and begins again, under traffic (RFC 4724): that of neighbors, whose routes stay, and that of Sluice, whose neighbors
//! keep its routes. No packet is lost. A neighbor that does not come back loses its routes after the time that it asked for.

use crate::SLUICE;
use crate::interop_matrix::proved;
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The neighbor's addresses, with a session of each family.
const NEIGHBORS: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
/// The routes of the neighbor, of IPv4 and of IPv6.
const ROUTES: [&str; 2] = ["198.51.100.0/24", "2001:db8:198::/48"];
/// The kernel of the neighbor's node answers there, whatever its daemon does.
const TARGETS: [&str; 2] = ["198.51.100.1", "2001:db8:198::1"];

const FRR: &str = "daemon = 'frr'
config = '''
router bgp 64501
 bgp router-id 10.1.0.2
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 bgp graceful-restart restart-time 10
 no bgp ebgp-requires-policy
 no bgp network import-check
 no bgp default ipv4-unicast
 neighbor 10.1.0.1 remote-as 64500
 neighbor 10.1.0.1 timers connect 1
 neighbor 2001:db8:1::1 remote-as 64500
 neighbor 2001:db8:1::1 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
  neighbor 10.1.0.1 activate
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:198::/48
  neighbor 2001:db8:1::1 activate
 exit-address-family
'''";

const EXABGP: &str = "daemon = 'exabgp'
config = '''
neighbor 10.1.0.1 {
    router-id 10.1.0.2; local-address 10.1.0.2; local-as 64501; peer-as 64500;
    capability { graceful-restart 10; }
    family { ipv4 unicast; }
    static { route 198.51.100.0/24 next-hop self; }
}
neighbor 2001:db8:1::1 {
    router-id 10.1.0.2; local-address 2001:db8:1::2; local-as 64501; peer-as 64500;
    capability { graceful-restart 10; }
    family { ipv6 unicast; }
    static { route 2001:db8:198::/48 next-hop self; }
}
'''";

fn up(neighbor: &str) -> RouterLab {
    let lab = start(neighbor);
    lab.until("the routes are in the kernel", has_routes);
    lab
}

/// Starts a router with a neighbor, which may announce nothing by itself.
fn start(neighbor: &str) -> RouterLab {
    RouterLab::up(&text(neighbor, "").parse().unwrap(), Path::new(SLUICE))
}

/// Returns the topology of a router with a neighbor; `more` are further statements about neighbors.
fn text(neighbor: &str, more: &str) -> String {
    let [v4, v6] = NEIGHBORS;
    format!(
        "[nodes.neighbor]\n{neighbor}\nroutes = ['local 198.51.100.0/24 dev lo', 'local 2001:db8:198::/48 dev lo']\n\
         [nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n\
         protocols {{ bgp {{ local-as 64500; router-id 10.1.0.1; default-policy accept;\n\
         neighbor {v4} {{ peer-as 64501; connect-retry-time 1; }}\n\
         neighbor {v6} {{ peer-as 64501; connect-retry-time 1; }}\n{more} }} }}\n'''\n\
         [[links]]\na = 'sluice:feed'\nb = 'neighbor:sluice'\n\
         a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']\nb_addresses = ['{v4}/24', '{v6}/64']\n"
    )
}

/// Returns the number of the neighbor's routes in the kernel.
fn routes(lab: &RouterLab) -> usize {
    ROUTES.iter().zip(["-4", "-6"]).filter(|(route, family)| lab.kernel_text(family).contains(*route)).count()
}

/// Returns true if the kernel has the neighbor's routes of both families.
fn has_routes(lab: &RouterLab) -> bool {
    routes(lab) == ROUTES.len()
}

/// Returns true if both sessions are up.
fn is_up(lab: &RouterLab) -> bool {
    NEIGHBORS.iter().all(|address| lab.established(address))
}

/// Returns true if no session is up.
fn is_down(lab: &RouterLab) -> bool {
    !NEIGHBORS.iter().any(|address| lab.established(address))
}

/// Returns the number of occurrences of an event in the log.
fn reports(lab: &RouterLab, event: &str) -> usize {
    lab.whole_log().matches(event).count()
}

/// Packets on their way to both targets, 100 a second to each.
struct Pings([Child; 2]);

impl Pings {
    /// Sends packets from a node for so many seconds.
    fn start(lab: &RouterLab, node: &str, targets: [&str; 2], seconds: u32) -> Pings {
        Pings(targets.map(|target| {
            let count = (seconds * 100).to_string();
            let mut ping = lab.lab.command(node, "ping").unwrap();
            ping.args(["-n", "-q", "-i", "0.01", "-W", "1", "-c", &count, target]).stdout(Stdio::piped());
            ping.spawn().unwrap()
        }))
    }

    /// Waits for the last packets, and requires that none was lost.
    fn none_was_lost(self) {
        for ping in self.0 {
            let text = ping.wait_with_output().unwrap().stdout;
            let text = String::from_utf8_lossy(&text);
            assert!(text.contains(" 0% packet loss"), "{text}");
        }
    }
}

fn restarts(neighbor: &str) {
    let mut lab = up(neighbor);
    lab.until("the sessions are up", is_up);
    let pings = Pings::start(&lab, "sluice", TARGETS, 8);
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the sessions are down", is_down);
    assert!(has_routes(&lab), "the routes stay");
    lab.until("the events are in the log", |lab| reports(lab, "bgp.restart.begin") == 2);
    lab.lab.start("neighbor").unwrap();
    lab.until("the sessions are up again", is_up);
    pings.none_was_lost();
    assert!(has_routes(&lab) && reports(&lab, "bgp.restart.too-long") == 0);

    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the sessions are down", is_down);
    assert!(has_routes(&lab), "the routes stay again");
    lab.until_within(Duration::from_secs(40), "the time for the restart is over", |lab| routes(lab) == 0);
    assert_eq!(reports(&lab, "bgp.restart.too-long"), 2);
}

#[test]
fn frr_restarts_and_no_packet_is_lost() {
    let _share = share();
    if possible_with_frr() {
        restarts(FRR);
        proved("graceful restart of the peer (RFC 4724)", &["FRR"]);
    }
}

#[test]
fn exabgp_restarts_and_no_packet_is_lost() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    if std::process::Command::new("exabgp").arg("--version").output().is_err() {
        return sluice_testkit::skipped("ExaBGP is not installed");
    }
    restarts(EXABGP);
    proved("graceful restart of the peer (RFC 4724)", &["ExaBGP"]);
}

const SLUICE_BETWEEN: &str = "
[nodes.frr]
daemon = 'frr'
config = '''
router bgp 64501
 bgp router-id 10.1.0.2
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 10.1.0.1 remote-as 64500
 neighbor 10.1.0.1 timers connect 1
 neighbor 2001:db8:1::1 remote-as 64500
 neighbor 2001:db8:1::1 timers connect 1
 address-family ipv4 unicast
  neighbor 10.1.0.1 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:1::1 activate
 exit-address-family
'''
[nodes.bird]
daemon = 'bird'
routes = [
    '10.1.0.0/24 via 10.2.0.1', '2001:db8:1::/64 via 2001:db8:2::1',
    'local 203.0.113.0/24 dev lo', 'local 2001:db8:203::/48 dev lo',
]
config = '''
router id 10.2.0.2;
protocol device { }
protocol static { ipv4; route 203.0.113.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:203::/48 blackhole; }
template bgp sluice {
    graceful restart aware; connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp four from sluice {
    local 10.2.0.2 as 64502; neighbor 10.2.0.1 as 64500; ipv4 { import all; export all; };
}
protocol bgp six from sluice {
    local 2001:db8:2::2 as 64502; neighbor 2001:db8:2::1 as 64500; ipv6 { import all; export all; };
}
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { bgp {
    local-as 64500; router-id 10.1.0.1; default-policy accept; graceful-restart { restart-time 60; }
    neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; }
    neighbor 2001:db8:1::2 { peer-as 64501; connect-retry-time 1; }
    neighbor 10.2.0.2 { peer-as 64502; connect-retry-time 1; }
    neighbor 2001:db8:2::2 { peer-as 64502; connect-retry-time 1; }
} }
'''
[[links]]
a = 'sluice:frr'
b = 'frr:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.2.0.1/24', '2001:db8:2::1/64']
b_addresses = ['10.2.0.2/24', '2001:db8:2::2/64']
";

/// The routes of BIRD behind Sluice.
const BEHIND: [&str; 2] = ["203.0.113.0/24", "2001:db8:203::/48"];

/// Kills BGP, and waits until the next process has a session with each neighbor; `check` looks at the lab meanwhile.
fn kill_bgp(lab: &RouterLab, neighbors: &[&str], check: impl Fn(&RouterLab)) {
    let before = lab.pid("bgp").unwrap();
    lab.kill(before);
    lab.until("another process has all sessions", |lab| {
        check(lab);
        lab.pid("bgp").is_some_and(|pid| pid != before)
            && neighbors.iter().all(|neighbor| lab.established(neighbor))
    });
    check(lab);
}

#[test]
fn sluice_restarts_and_its_neighbors_keep_its_routes() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let lab = RouterLab::up(&SLUICE_BETWEEN.parse().unwrap(), Path::new(SLUICE));
    let of_kernel = |lab: &RouterLab| {
        BEHIND.iter().zip(["-4", "-6"]).all(|(prefix, family)| {
            let output = lab.lab.output("frr", "ip", [family, "route"]).unwrap();
            String::from_utf8(output.stdout).unwrap().contains(prefix)
        })
    };
    lab.until("FRR forwards to the routes", of_kernel);
    let pings = Pings::start(&lab, "frr", ["203.0.113.1", "2001:db8:203::1"], 8);
    kill_bgp(&lab, &["10.1.0.2", "2001:db8:1::2", "10.2.0.2", "2001:db8:2::2"], |_| {});
    pings.none_was_lost();
    assert!(of_kernel(&lab));
    proved("graceful restart of Sluice (RFC 4724)", &["FRR"]);
}

/// FRR ends the session with a NOTIFICATION, and both sides go on forwarding (RFC 8538); after a Hard Reset the routes go.
#[test]
fn a_notification_of_frr_keeps_routes_unless_it_is_a_hard_reset() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let lab = up(&FRR.replace(
        " no bgp ebgp",
        " bgp graceful-restart notification\n no bgp hard-administrative-reset\n no bgp ebgp",
    ));
    lab.until("the sessions are up", is_up);
    let pings = Pings::start(&lab, "sluice", TARGETS, 4);
    lab.lab.control("neighbor", "clear bgp *").unwrap();
    lab.until("routes stay", |lab| reports(lab, "bgp.restart.begin") == 2);
    assert!(has_routes(&lab));
    lab.until("the sessions are up again", is_up);
    pings.none_was_lost();

    let shutdown = "configure terminal\nrouter bgp 64501\n\
                    neighbor 10.1.0.1 shutdown\nneighbor 2001:db8:1::1 shutdown\n";
    lab.lab.control("neighbor", shutdown).unwrap();
    lab.until("routes go", |lab| routes(lab) == 0);
    let reset = "hard reset (6/9): cease: administrative shutdown (6/2)";
    for neighbor in NEIGHBORS {
        lab.until("the Hard Reset is in the log", |lab| {
            let log = lab.whole_log();
            log.lines().any(|line| line.contains(neighbor) && line.contains(reset))
        });
    }
    proved("NOTIFICATION with graceful restart (RFC 8538)", &["FRR"]);
}

const BIRD: &str = "daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:198::/48 blackhole; }
template bgp sluice {
    graceful restart on; graceful restart time 1;
    long lived graceful restart on; long lived stale time 15;
    connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp four from sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; ipv4 { import all; export all; };
}
protocol bgp six from sluice {
    local 2001:db8:1::2 as 64501; neighbor 2001:db8:1::1 as 64500; ipv6 { import all; export all; };
}
'''";

/// BIRD is away for longer than its restart may take: its routes stay as a last resort, until it is back or the time is over (RFC 9494).
#[test]
fn routes_of_bird_stay_as_a_last_resort() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let mut lab = up(BIRD);
    lab.until("the sessions are up", is_up);
    let marks = |lab: &RouterLab| reports(lab, "bgp.restart.long-lived");
    let marked = |lab: &RouterLab| {
        let is_marked =
            |route: &&&str| lab.ask(&["show", "bgp", "routes", route]).to_string().contains("65535:6");
        ROUTES.iter().filter(is_marked).count()
    };
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the time for the restart is over", |lab| marks(lab) == 2);
    assert!(has_routes(&lab));
    lab.until("the routes are marked", |lab| marked(lab) == 2);
    lab.lab.start("neighbor").unwrap();
    lab.until("the routes are announced again", |lab| is_up(lab) && marked(lab) == 0);
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the time for the restart is over again", |lab| marks(lab) == 4);
    assert!(has_routes(&lab));
    lab.until("the long time is over too", |lab| routes(lab) == 0);
    proved("long-lived graceful restart (RFC 9494)", &["BIRD"]);
}

/// Returns a GoBGP of an AS with a session of each family; `v4` and `v6` begin the addresses of its link.
fn gobgp(asn: u32, v4: &str, v6: &str) -> String {
    let neighbor = |address: &str, family: &str| {
        format!(
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{address}\"\npeer-as = 64500\n\
             [neighbors.timers.config]\nconnect-retry = 1\n\
             [neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 10\n\
             [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{family}-unicast\"\n\
             [neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n"
        )
    };
    format!(
        "daemon = 'gobgp'\nconfig = '''\n[global.config]\nas = {asn}\nrouter-id = \"{v4}2\"\n{}{}'''",
        neighbor(&format!("{v4}1"), "ipv4"),
        neighbor(&format!("{v6}1"), "ipv6")
    )
}

fn is_installed(program: &str, version: &str) -> bool {
    let is_there = std::process::Command::new(program).arg(version).output().is_ok();
    if !is_there {
        sluice_testkit::skipped(format_args!("{program} is not installed"));
    }
    is_there
}

/// Announces the neighbor's routes by GoBGP's command line.
fn announce_by_gobgp(lab: &RouterLab) {
    for (route, (hop, family)) in ROUTES.into_iter().zip(NEIGHBORS.into_iter().zip(["ipv4", "ipv6"])) {
        lab.lab.control("neighbor", &format!("global rib add {route} nexthop {hop} -a {family}")).unwrap();
    }
}

/// Drops what the neighbor's node sends in BGP's connections, or no longer; other packets pass.
fn hold_bgp(lab: &RouterLab, holds: bool) {
    for family in ["-4", "-6"] {
        for side in ["sport", "dport"] {
            let rule = [
                family,
                "rule",
                if holds { "add" } else { "del" },
                "ipproto",
                "tcp",
                side,
                "179",
                "blackhole",
            ];
            lab.lab.exec("neighbor", "ip", rule).unwrap();
        }
    }
}

/// Returns true if the paths of the neighbor's routes are there, and are those of a lost session or not.
fn are_stale(lab: &RouterLab, stale: bool) -> bool {
    ROUTES.iter().all(|route| {
        let path = lab.ask(&["show", "bgp", "routes", route])["routes"][0]["paths"][0].clone();
        path["stale"] == stale
    })
}

/// The routes of OpenBGPD.
const OF_OPENBGPD: [&str; 2] = ["192.0.2.0/24", "2001:db8:192::/48"];

/// GoBGP is killed and started again: no packet is lost, and the routes are announced again. When GoBGP stays away, the routes go after
/// the time that GoBGP asked for (the long test). OpenBGPD promises End-of-RIB markers alone, for no family: its routes go with its sessions, and come
/// again.
#[test]
fn gobgp_restarts_and_no_packet_is_lost() {
    let _share = share();
    if possible_with_frr() && is_installed("gobgpd", "--version") && is_installed("bgpd", "-V") {
        restart_gobgp(Path::new(SLUICE));
    }
    proved("graceful restart of the peer (RFC 4724)", &["GoBGP"]);
}

#[test]
fn routes_of_gobgp_go_after_its_restart_time() {
    let program = sluice_testkit::long!("restart time");
    let _share = share();
    if !possible_with_frr() || !is_installed("gobgpd", "--version") || !is_installed("bgpd", "-V") {
        return;
    }
    let mut lab = restart_gobgp(&program);
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the routes stay again", |lab| reports(lab, "bgp.restart.begin") == 4);
    assert!(is_down(&lab) && has_routes(&lab), "the routes stay again");
    lab.until_within(Duration::from_secs(40), "the time for the restart is over", |lab| routes(lab) == 0);
    assert_eq!(reports(&lab, "bgp.restart.too-long"), 2);
}

/// Restarts GoBGP and OpenBGPD under traffic.
fn restart_gobgp(program: &Path) -> RouterLab {
    let [of_v4, of_v6] = OF_OPENBGPD;
    let openbgpd = format!(
        "[nodes.openbgpd]\ndaemon = 'openbgpd'\nconfig = '''\nAS 64502\nrouter-id 10.4.0.2\nfib-update no\n\
         nexthop qualify via default\nnetwork {of_v4}\nnetwork {of_v6}\n\
         neighbor 10.4.0.1 {{\n remote-as 64500\n announce restart yes\n }}\n\
         neighbor 2001:db8:4::1 {{\n remote-as 64500\n announce restart yes\n }}\n\
         allow from any\nallow to any\n'''\n\
         [[links]]\na = 'sluice:openbgpd'\nb = 'openbgpd:sluice'\n\
         a_addresses = ['10.4.0.1/24', '2001:db8:4::1/64']\nb_addresses = ['10.4.0.2/24', '2001:db8:4::2/64']\n"
    );
    let more = "neighbor 10.4.0.2 { peer-as 64502; connect-retry-time 1; }\n\
                neighbor 2001:db8:4::2 { peer-as 64502; connect-retry-time 1; }";
    let text = text(&gobgp(64501, "10.1.0.", "2001:db8:1::"), more) + &openbgpd;
    let mut lab = RouterLab::up(&text.parse().unwrap(), program);
    let of_openbgpd = |lab: &RouterLab| {
        let all = OF_OPENBGPD.iter().zip(["-4", "-6"]);
        all.filter(|(route, family)| lab.kernel_text(family).contains(*route)).count()
    };
    announce_by_gobgp(&lab);
    lab.until("the routes are in the kernel", |lab| has_routes(lab) && of_openbgpd(lab) == 2);
    let pings = Pings::start(&lab, "sluice", TARGETS, 8);
    for node in ["neighbor", "openbgpd"] {
        lab.lab.stop(node, true).unwrap();
    }
    lab.until("the events are in the log", |lab| reports(lab, "bgp.restart.begin") == 2);
    lab.until("the routes of OpenBGPD go", |lab| of_openbgpd(lab) == 0);
    assert!(is_down(&lab) && has_routes(&lab) && are_stale(&lab, true), "the routes of GoBGP stay");
    // GoBGP has its routes before it has a session, as a router that read a configuration would.
    hold_bgp(&lab, true);
    for node in ["neighbor", "openbgpd"] {
        lab.lab.start(node).unwrap();
    }
    announce_by_gobgp(&lab);
    hold_bgp(&lab, false);
    lab.until("the routes are announced again", |lab| is_up(lab) && are_stale(lab, false));
    lab.until("OpenBGPD announces its routes again", |lab| of_openbgpd(lab) == 2);
    pings.none_was_lost();
    assert!(has_routes(&lab) && reports(&lab, "bgp.restart.too-long") == 0);
    lab
}

/// The questions for the routes of each family.
const OPENBGPD_RIB: [&str; 2] = ["show rib", "show rib"];
const GOBGP_RIB: [&str; 2] = ["global rib -a ipv4", "global rib -a ipv6"];

/// BGP of Sluice is killed: GoBGP and OpenBGPD, neither of which has routes in the kernel here, keep the routes.
#[test]
fn gobgp_and_openbgpd_keep_routes_while_sluice_restarts() {
    let _share = share();
    if !possible_with_frr() || !is_installed("gobgpd", "--version") || !is_installed("bgpd", "-V") {
        return;
    }
    let openbgpd = "daemon = 'openbgpd'\nconfig = '''\nAS 64501\nrouter-id 10.1.0.2\nfib-update no\nnexthop qualify via default\n\
         neighbor 10.1.0.1 {\n remote-as 64500\n announce restart yes\n }\n\
         neighbor 2001:db8:1::1 {\n remote-as 64500\n announce restart yes\n }\n\
         allow from any\nallow to any\n'''\n";
    let gobgp = gobgp(64503, "10.3.0.", "2001:db8:3::");
    let frr = SLUICE_BETWEEN.find("[nodes.frr]").unwrap()..SLUICE_BETWEEN.find("[nodes.bird]").unwrap();
    let mut text = SLUICE_BETWEEN.to_owned();
    text.replace_range(frr, &format!("[nodes.frr]\n{openbgpd}[nodes.gobgp]\n{gobgp}\n"));
    let text = text
        .replace("nodes.frr", "nodes.openbgpd")
        .replace(":frr'", ":openbgpd'")
        .replace("'frr:", "'openbgpd:");
    let text = text.replace(
        "    neighbor 10.2.0.2",
        "    neighbor 10.3.0.2 { peer-as 64503; connect-retry-time 1; }\n\
         \x20   neighbor 2001:db8:3::2 { peer-as 64503; connect-retry-time 1; }\n    neighbor 10.2.0.2",
    ) + "[[links]]\na = 'sluice:gobgp'\nb = 'gobgp:sluice'\n\
         a_addresses = ['10.3.0.1/24', '2001:db8:3::1/64']\nb_addresses = ['10.3.0.2/24', '2001:db8:3::2/64']\n";
    let lab = RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE));
    let has = |lab: &RouterLab, node: &str, questions: [&str; 2]| {
        BEHIND
            .iter()
            .zip(questions)
            .all(|(prefix, question)| lab.lab.control(node, question).unwrap_or_default().contains(prefix))
    };
    let of_openbgpd = |lab: &RouterLab| has(lab, "openbgpd", OPENBGPD_RIB);
    let of_gobgp = |lab: &RouterLab| has(lab, "gobgp", GOBGP_RIB);
    lab.until("OpenBGPD has the routes", of_openbgpd);
    lab.until("GoBGP has the routes", of_gobgp);
    let neighbors = ["10.1.0.2", "2001:db8:1::2", "10.2.0.2", "2001:db8:2::2", "10.3.0.2", "2001:db8:3::2"];
    // A control program that does not answer does not mean that routes are gone.
    let lost = |lab: &RouterLab, node: &str, questions: [&str; 2]| {
        let mut asked = BEHIND.iter().zip(questions);
        asked.any(|(prefix, question)| {
            lab.lab.control(node, question).is_ok_and(|text| !text.contains(prefix))
        })
    };
    kill_bgp(&lab, &neighbors, |lab| {
        let is_lost = lost(lab, "openbgpd", OPENBGPD_RIB) || lost(lab, "gobgp", GOBGP_RIB);
        assert!(!is_lost, "a neighbor lost a route: {}", lab.lab.log("sluice", "sluice"));
    });
    assert!(of_openbgpd(&lab) && of_gobgp(&lab));
    proved("graceful restart of Sluice (RFC 4724)", &["OpenBGPD", "GoBGP"]);
}
