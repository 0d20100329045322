//! BGP is killed and begins again, under traffic (RFC 4724): that of neighbors, whose routes stay, and that of Sluice, whose neighbors
//! keep its routes. No packet is lost. A neighbor that does not come back loses its routes after the time that it asked for.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod router_lab;

use router_lab::{RouterLab, SLUICE, possible_with_frr, share};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const NEIGHBOR: &str = "10.1.0.2";
const ROUTE: &str = "198.51.100.0/24";
/// The kernel of the neighbor's node answers there, whatever its daemon does.
const TARGET: &str = "198.51.100.1";

const FRR: &str = "daemon = 'frr'
config = '''
router bgp 64501
 bgp router-id 10.1.0.2
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 bgp graceful-restart restart-time 10
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 10.1.0.1 remote-as 64500
 neighbor 10.1.0.1 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
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
'''";

fn up(neighbor: &str) -> RouterLab {
    let lab = start(neighbor);
    lab.until("the route is in the kernel", has_route);
    lab
}

/// Starts a router with a neighbor, which may announce nothing by itself.
fn start(neighbor: &str) -> RouterLab {
    let text = format!(
        "[nodes.neighbor]\n{neighbor}\nroutes = ['local 198.51.100.0/24 dev lo']\n\
         [nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n\
         protocols {{ bgp {{ local-as 64500; router-id 10.1.0.1; default-policy accept;\n\
         neighbor {NEIGHBOR} {{ peer-as 64501; connect-retry-time 1; }} }} }}\n'''\n\
         [[links]]\na = 'sluice:feed'\nb = 'neighbor:sluice'\na_addresses = ['10.1.0.1/24']\nb_addresses = ['10.1.0.2/24']\n"
    );
    RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE))
}

fn has_route(lab: &RouterLab) -> bool {
    lab.kernel_text("-4").contains(ROUTE)
}

/// Sends 100 packets a second for so many seconds.
fn ping(lab: &RouterLab, seconds: u32) -> Child {
    let count = (seconds * 100).to_string();
    let mut ping = lab.lab.command("sluice", "ping").unwrap();
    ping.args(["-n", "-q", "-i", "0.01", "-W", "1", "-c", &count, TARGET]).stdout(Stdio::piped());
    ping.spawn().unwrap()
}

fn restarts(neighbor: &str) {
    let mut lab = up(neighbor);
    lab.until("the End-of-RIB marker has come", |lab| lab.established(NEIGHBOR));
    let ping = ping(&lab, 8);
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the session is down", |lab| !lab.established(NEIGHBOR));
    assert!(has_route(&lab), "the route stays");
    lab.until("the event is in the log", |lab| lab.whole_log().contains("bgp.restart.begin"));
    lab.lab.start("neighbor").unwrap();
    lab.until("the session is up again", |lab| lab.established(NEIGHBOR));
    let output = ping.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" 0% packet loss"), "{text}");
    assert!(has_route(&lab) && !lab.whole_log().contains("bgp.restart.too-long"));

    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the session is down", |lab| !lab.established(NEIGHBOR));
    assert!(has_route(&lab), "the route stays again");
    lab.until_within(Duration::from_secs(40), "the time for the restart is over", |lab| !has_route(lab));
    assert!(lab.whole_log().contains("bgp.restart.too-long"));
}

#[test]
fn frr_restarts_and_no_packet_is_lost() {
    let _share = share();
    if possible_with_frr() {
        restarts(FRR);
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
}

const SLUICE_BETWEEN: &str = "
[nodes.frr]
daemon = 'frr'
config = '''
router bgp 64501
 bgp router-id 10.1.0.2
 no bgp ebgp-requires-policy
 neighbor 10.1.0.1 remote-as 64500
 neighbor 10.1.0.1 timers connect 1
'''
[nodes.bird]
daemon = 'bird'
routes = ['10.1.0.0/24 via 10.2.0.1', 'local 203.0.113.0/24 dev lo']
config = '''
router id 10.2.0.2;
protocol device { }
protocol static { ipv4; route 203.0.113.0/24 blackhole; }
protocol bgp sluice {
    local 10.2.0.2 as 64502; neighbor 10.2.0.1 as 64500; graceful restart aware;
    connect delay time 1; connect retry time 1; error wait time 1, 2; ipv4 { import all; export all; };
}
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { bgp {
    local-as 64500; router-id 10.1.0.1; default-policy accept; graceful-restart { restart-time 60; }
    neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; }
    neighbor 10.2.0.2 { peer-as 64502; connect-retry-time 1; }
} }
'''
[[links]]
a = 'sluice:frr'
b = 'frr:sluice'
a_addresses = ['10.1.0.1/24']
b_addresses = ['10.1.0.2/24']
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.2.0.1/24']
b_addresses = ['10.2.0.2/24']
";

#[test]
fn sluice_restarts_and_its_neighbors_keep_its_routes() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let lab = RouterLab::up(&SLUICE_BETWEEN.parse().unwrap(), Path::new(SLUICE));
    let of_kernel = |lab: &RouterLab| {
        let output = lab.lab.output("frr", "ip", ["route"]).unwrap();
        String::from_utf8(output.stdout).unwrap().contains("203.0.113.0/24")
    };
    lab.until("FRR forwards to the route", of_kernel);
    let mut ping = lab.lab.command("frr", "ping").unwrap();
    ping.args(["-n", "-q", "-i", "0.01", "-W", "1", "-c", "800", "203.0.113.1"]).stdout(Stdio::piped());
    let ping = ping.spawn().unwrap();
    let before = lab.pid("bgp").unwrap();
    lab.kill(before);
    lab.until("another process has both sessions", |lab| {
        lab.pid("bgp").is_some_and(|pid| pid != before)
            && ["10.1.0.2", "10.2.0.2"].iter().all(|neighbor| lab.established(neighbor))
    });
    let text = ping.wait_with_output().unwrap().stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains(" 0% packet loss"), "{text}");
    assert!(of_kernel(&lab));
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
    lab.until("the End-of-RIB marker has come", |lab| lab.established(NEIGHBOR));
    let ping = ping(&lab, 4);
    lab.lab.control("neighbor", "clear bgp 10.1.0.1").unwrap();
    lab.until("routes stay", |lab| lab.whole_log().contains("bgp.restart.begin"));
    assert!(has_route(&lab));
    lab.until("the session is up again", |lab| lab.established(NEIGHBOR));
    let text = ping.wait_with_output().unwrap().stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains(" 0% packet loss"), "{text}");

    let shutdown = "configure terminal\nrouter bgp 64501\nneighbor 10.1.0.1 shutdown\n";
    lab.lab.control("neighbor", shutdown).unwrap();
    lab.until("routes go", |lab| !has_route(lab));
    let log = lab.whole_log();
    assert!(log.contains("hard reset (6/9): cease: administrative shutdown (6/2)"), "{log}");
}

const BIRD: &str = "daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol bgp sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500;
    graceful restart on; graceful restart time 1;
    long lived graceful restart on; long lived stale time 6;
    connect delay time 1; connect retry time 1; error wait time 1, 2; ipv4 { import all; export all; };
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
    lab.until("the session is up", |lab| lab.established(NEIGHBOR));
    let marks = |lab: &RouterLab| lab.whole_log().matches("bgp.restart.long-lived").count();
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the time for the restart is over", |lab| marks(lab) == 1);
    assert!(has_route(&lab));
    lab.until("the route is marked", |lab| route_in_bgp(lab).contains("65535:6"));
    lab.lab.start("neighbor").unwrap();
    lab.until("the route is announced again", |lab| {
        lab.established(NEIGHBOR) && !route_in_bgp(lab).contains("65535:6")
    });
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the time for the restart is over again", |lab| marks(lab) == 2);
    assert!(has_route(&lab));
    lab.until_within(Duration::from_secs(30), "the long time is over too", |lab| !has_route(lab));
}

/// Returns the route of the neighbor in BGP, as JSON.
fn route_in_bgp(lab: &RouterLab) -> String {
    lab.ask(&["show", "bgp", "routes", ROUTE]).to_string()
}

const GOBGP: &str = r#"daemon = 'gobgp'
config = '''
[global.config]
as = 64501
router-id = "10.1.0.2"
[[neighbors]]
[neighbors.config]
neighbor-address = "10.1.0.1"
peer-as = 64500
[neighbors.timers.config]
connect-retry = 1
[neighbors.graceful-restart.config]
enabled = true
restart-time = 6
[[neighbors.afi-safis]]
[neighbors.afi-safis.config]
afi-safi-name = "ipv4-unicast"
[neighbors.afi-safis.mp-graceful-restart.config]
enabled = true
'''"#;

fn is_installed(program: &str, version: &str) -> bool {
    let is_there = std::process::Command::new(program).arg(version).output().is_ok();
    if !is_there {
        sluice_testkit::skipped(format_args!("{program} is not installed"));
    }
    is_there
}

/// GoBGP is killed: no packet is lost for the time that GoBGP asked for, after which the routes go.
#[test]
fn routes_of_gobgp_stay_for_the_time_of_a_restart() {
    let _share = share();
    if !possible_with_frr() || !is_installed("gobgpd", "--version") {
        return;
    }
    let mut lab = start(GOBGP);
    lab.lab.control("neighbor", &format!("global rib add {ROUTE} nexthop 10.1.0.2")).unwrap();
    lab.until("the route is in the kernel", has_route);
    let ping = ping(&lab, 3);
    lab.lab.stop("neighbor", true).unwrap();
    lab.until("the event is in the log", |lab| lab.whole_log().contains("bgp.restart.begin"));
    assert!(!lab.established(NEIGHBOR) && has_route(&lab), "the route stays");
    let text = ping.wait_with_output().unwrap().stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains(" 0% packet loss"), "{text}");
    lab.until_within(Duration::from_secs(30), "the time for the restart is over", |lab| !has_route(lab));
    assert!(lab.whole_log().contains("bgp.restart.too-long"));
}

/// BGP of Sluice is killed: GoBGP and OpenBGPD, neither of which has routes in the kernel here, keep the routes.
#[test]
fn gobgp_and_openbgpd_keep_routes_while_sluice_restarts() {
    let _share = share();
    if !possible_with_frr() || !is_installed("gobgpd", "--version") || !is_installed("bgpd", "-V") {
        return;
    }
    let openbgpd = "daemon = 'openbgpd'\nconfig = '''\nAS 64501\nrouter-id 10.1.0.2\nfib-update no\nnexthop qualify via default\n\
         neighbor 10.1.0.1 {\n remote-as 64500\n announce restart yes\n }\nallow from any\nallow to any\n'''\n";
    let gobgp = GOBGP.replace("10.1.0.", "10.3.0.").replace("as = 64501", "as = 64503");
    let frr = SLUICE_BETWEEN.find("[nodes.frr]").unwrap()..SLUICE_BETWEEN.find("[nodes.bird]").unwrap();
    let mut text = SLUICE_BETWEEN.to_owned();
    text.replace_range(frr, &format!("[nodes.frr]\n{openbgpd}[nodes.gobgp]\n{gobgp}\n"));
    let text = text
        .replace("nodes.frr", "nodes.openbgpd")
        .replace(":frr'", ":openbgpd'")
        .replace("'frr:", "'openbgpd:");
    let text = text.replace(
        "    neighbor 10.2.0.2",
        "    neighbor 10.3.0.2 { peer-as 64503; connect-retry-time 1; }\n    neighbor 10.2.0.2",
    ) + "[[links]]\na = 'sluice:gobgp'\nb = 'gobgp:sluice'\na_addresses = ['10.3.0.1/24']\nb_addresses = ['10.3.0.2/24']\n";
    let lab = RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE));
    let of_openbgpd = |lab: &RouterLab| {
        lab.lab.control("openbgpd", "show rib").unwrap_or_default().contains("203.0.113.0/24")
    };
    let of_gobgp = |lab: &RouterLab| {
        lab.lab.control("gobgp", "global rib").unwrap_or_default().contains("203.0.113.0/24")
    };
    lab.until("OpenBGPD has the route", of_openbgpd);
    lab.until("GoBGP has the route", of_gobgp);
    let before = lab.pid("bgp").unwrap();
    lab.kill(before);
    lab.until("another process has all sessions", |lab| {
        assert!(of_openbgpd(lab) && of_gobgp(lab), "a neighbor lost the route");
        lab.pid("bgp").is_some_and(|pid| pid != before)
            && ["10.1.0.2", "10.2.0.2", "10.3.0.2"].iter().all(|neighbor| lab.established(neighbor))
    });
    assert!(of_openbgpd(&lab) && of_gobgp(&lab));
}
