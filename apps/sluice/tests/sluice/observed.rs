//! Tools to observe the path of routes: the points of `sluice profile`, and packets recorded by `sluice lab capture`.

use crate::SLUICE;
use sluice_router_lab::{Count, RouterLab, possible, share};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const NEIGHBOR: &str = "10.1.0.2";
/// Routes announced by the neighbor on request.
const ROUTES: usize = 50;

/// A router with a route of its neighbor: the next hop of every later route is resolved, so that later events are
/// caused by UPDATEs alone.
fn up() -> RouterLab {
    let routes: String = (0..ROUTES).map(|n| format!("route 20.0.{n}.0/24 blackhole; ")).collect();
    let topology = format!(
        "[nodes.sluice]
daemon = 'sluice'
config = '''
protocols bgp {{
    local-as 64500;
    router-id 10.0.0.1;
    default-policy accept;
    neighbor {NEIGHBOR} {{ peer-as 64501; connect-retry-time 1; }}
}}
'''
[nodes.bird]
daemon = 'bird'
config = '''
router id {NEIGHBOR};
protocol device {{ }}
protocol static known {{ ipv4; route 20.1.0.0/24 blackhole; }}
protocol static announced {{ disabled; ipv4; {routes} }}
protocol bgp sluice {{
    local {NEIGHBOR} as 64501; neighbor 10.1.0.1 as 64500;
    connect delay time 1; connect retry time 1; error wait time 1, 1;
    ipv4 {{ import all; export all; }};
}}
'''
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.1.0.1/24']
b_addresses = ['{NEIGHBOR}/24']
"
    );
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    lab.until("a route is in the kernel", |l| l.kernel() == Count { v4: 1, v6: 0 });
    lab
}

/// Makes the neighbor announce its routes, and waits until the kernel has the routes.
fn announce(lab: &RouterLab) {
    lab.birdc("bird", "enable announced");
    lab.until("the routes are in the kernel", |l| l.kernel() == Count { v4: ROUTES + 1, v6: 0 });
}

#[test]
fn the_profile_shows_a_route_at_eight_points() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = up();
    let mut profile = Command::new(SLUICE);
    profile.args(["profile", "--json", "--seconds", "60", "--routes", &ROUTES.to_string(), "--run-dir"]);
    let profile = profile.arg(lab.run_dir()).stdout(Stdio::piped()).spawn().unwrap();
    lab.until("all points are on", |l| {
        let is_on = |class: &str| {
            let points = l.ask(&["call", &format!("{class}/common.v1.Profile/ListPoints")]);
            let points = points["points"].as_array().cloned().unwrap_or_default();
            !points.is_empty() && points.iter().all(|point| point["enabled"] == true)
        };
        ["bgp", "rib", "fea"].into_iter().all(is_on)
    });
    announce(&lab);
    let output = profile.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = ROUTES.to_string();
    assert_eq!(shown["routes"], all, "{shown:#}");
    let points = shown["points"].as_array().unwrap();
    let components: Vec<&str> = points.iter().filter_map(|point| point["component"].as_str()).collect();
    assert_eq!(components, ["bgp", "bgp", "bgp", "rib", "rib", "rib", "fea", "fea"]);
    assert!(points.iter().all(|point| point["count"] == all), "{shown:#}");
    // Each route meets one point after the other, and it takes time to get to the kernel.
    for statistic in ["min_ms", "avg_ms", "max_ms"] {
        let times: Vec<f64> = points.iter().filter_map(|point| point[statistic].as_f64()).collect();
        assert!(times.len() == 8 && times.is_sorted() && times[0] < times[7], "{statistic}: {shown:#}");
    }
}

#[test]
fn a_capture_in_a_lab_has_the_messages_of_a_session() {
    let _share = share();
    if !possible() {
        return;
    }
    for tool in ["tcpdump", "tshark"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return sluice_testkit::skipped(format_args!("{tool} is not installed"));
        }
    }
    let lab = up();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.pcap");
    let mut capture = Command::new(SLUICE)
        .args(["lab", "capture", "--lab", lab.lab.name(), "sluice:bird", "--write"])
        .arg(&file)
        .args(["tcp", "port", "179"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(capture.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("listening on bird")), "tcpdump prints when it records");
    lab.birdc("bird", "restart sluice");
    announce(&lab);
    lab.signal("-INT", capture.id().into());
    assert!(capture.wait().unwrap().success());

    let Some(packets) = sluice_testkit::tshark::decode(&file, "bgp", &[]) else { return };
    let all = |field: &str| -> Vec<&str> { packets.iter().flat_map(|packet| packet.shown(field)).collect() };
    for kind in ["1", "2", "4"] {
        assert!(all("bgp.type").contains(&kind), "messages of type {kind}: {packets:?}");
    }
    let mut opened = all("bgp.open.myas");
    opened.sort_unstable();
    opened.dedup();
    assert_eq!(opened, ["64500", "64501"]);
    let mut announced = all("bgp.nlri_prefix");
    announced.sort_unstable();
    let mut expected: Vec<String> = (0..ROUTES).map(|n| format!("20.0.{n}.0")).collect();
    expected.push("20.1.0.0".into());
    expected.sort_unstable();
    assert_eq!(announced, expected);
    let complaints: Vec<&str> = packets.iter().flat_map(|packet| packet.complaints()).collect();
    assert_eq!(complaints, [""; 0]);
}
