//! Two neighbors announce the same routes, and the better one's process is killed: the RIB knows the backup, a single
//! group moves every route, and the kernel ends with BGP's choice.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

/// Routes of each neighbor.
const ROUTES: usize = 500;

fn topology() -> String {
    let routes: String =
        (0..ROUTES).map(|n| format!("route 20.{}.{}.0/24 blackhole;\n", n / 256, n % 256)).collect();
    let feed = |name: &str, number: u8, prepend: &str| {
        format!(
            "[nodes.{name}]\ndaemon = \"bird\"\nconfig = '''\nrouter id 10.{number}.0.2;\nprotocol device {{ }}\n\
             protocol static announced {{ ipv4;\n{routes}}}\n\
             filter longer {{ {prepend} accept; }}\n\
             protocol bgp sluice {{ local 10.{number}.0.2 as 6450{number}; neighbor 10.{number}.0.1 as 64500;\n\
             ipv4 {{ import none; export filter longer; }}; }}\n'''\n\
             [[links]]\na = \"sluice:{name}\"\nb = \"{name}:sluice\"\na_addresses = [\"10.{number}.0.1/24\"]\n\
             b_addresses = [\"10.{number}.0.2/24\"]\n"
        )
    };
    let router = "[nodes.sluice]\ndaemon = \"sluice\"\nconfig = '''\nprotocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept;\n\
        neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; }\n\
        neighbor 10.2.0.2 { peer-as 64502; connect-retry-time 1; } } }\n'''\n";
    format!("{router}{}{}", feed("better", 1, ""), feed("longer", 2, "bgp_path.prepend(64502);"))
}

/// The number of routes by which the kernel sends packets out of an interface.
fn leaving_by(lab: &RouterLab, interface: &str) -> usize {
    let asked: String = (0..ROUTES).map(|n| format!("route get 20.{}.{}.1\n", n / 256, n % 256)).collect();
    let line = format!("printf '{asked}' | ip -4 -o -force -batch - 2>/dev/null");
    let output = lab.lab.output("sluice", "sh", ["-c", &line]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.contains(&format!(" dev {interface} "))).count()
}

/// Returns the gateways of a route in the RIB, each with true if a backup.
fn gateways(lab: &RouterLab) -> Vec<(String, bool)> {
    let shown = lab.ask(&["show", "routes", "20.0.7.0/24"]);
    let hops = shown["routes"][0]["next_hops"].as_array().cloned().unwrap_or_default();
    let hop = |hop: &Value| Some((hop["gateway"].as_str()?.to_string(), hop["backup"] == true));
    hops.iter().filter_map(hop).collect()
}

#[test]
fn routes_of_a_lost_neighbor_move_at_once() {
    let _share = share();
    if !possible() {
        return;
    }
    let mut lab = RouterLab::up(&topology().parse().unwrap(), Path::new(SLUICE));
    let pair = [("10.1.0.2".to_string(), false), ("10.2.0.2".to_string(), true)];
    lab.until("all routes lead to the better neighbor", |l| leaving_by(l, "better") == ROUTES);
    lab.until("the RIB knows the backup", |l| gateways(l) == pair);

    lab.lab.stop("better", true).unwrap();
    lab.until("all routes lead to the other neighbor", |l| leaving_by(l, "longer") == ROUTES);
    lab.until("BGP has said so too", |l| gateways(l) == [("10.2.0.2".to_string(), false)]);
    assert_eq!((leaving_by(&lab, "better"), leaving_by(&lab, "longer")), (0, ROUTES));

    lab.lab.start("better").unwrap();
    lab.until("all routes lead to the better neighbor again", |l| leaving_by(l, "better") == ROUTES);
    lab.until("the RIB knows the backup again", |l| gateways(l) == pair);
}
