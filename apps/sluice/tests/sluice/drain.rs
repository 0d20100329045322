//! `sluice drain` between real neighbors: two routers of an AS, an outside neighbor with both, an inside neighbor with
//! both. Traffic leaves the drained router, both ways and without a loss; the router stays drained when its BGP is
//! killed; and `undrain` brings the traffic back.

use crate::SLUICE;
use serde_json::Value;
use sluice_lab::{Lab, LabOptions, Topology, available, until};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A router; `{OUT}` and `{IN}` are its subnets to the neighbors outside and inside, `{ID}` is its number.
const ROUTER: &str = "protocols { bgp { local-as 65000; router-id 10.{ID}.0.1; default-policy accept;
    neighbor {OUT}2 { peer-as 65101; connect-retry-time 1; }
    neighbor {IN}2 { peer-as 65000; connect-retry-time 1; next-hop-self; }
} }";

/// A BIRD, which ignores the community by default (RFC 8326, appendix B.3).
const OUTSIDE: &str = "router id 10.1.0.2;
protocol device { }
protocol kernel { {FAMILY} { export where source = RTS_BGP; }; }
protocol static { {FAMILY}; route {PREFIX} blackhole; }
filter in_filter { if (65535, 0) ~ bgp_community then bgp_local_pref = 0; accept; }
template bgp customer {
    local as 65101; connect delay time 1; connect retry time 1; error wait time 1, 2;
    {FAMILY} { import filter in_filter; export where source = RTS_STATIC; };
}
protocol bgp a from customer { neighbor {A}1 as 65000; }
protocol bgp b from customer { neighbor {B}1 as 65000; }";

const INSIDE: &str = "router id 10.3.0.2;
protocol device { }
protocol kernel { {FAMILY} { export where source = RTS_BGP; }; }
protocol static { {FAMILY}; route {PREFIX} blackhole; }
template bgp ours {
    direct;
    local as 65000; connect delay time 1; connect retry time 1; error wait time 1, 2;
    {FAMILY} { import all; export where source = RTS_STATIC; };
}
protocol bgp a from ours { neighbor {A}1 as 65000; }
protocol bgp b from ours { neighbor {B}1 as 65000; }";

/// A family's addresses.
struct Addresses {
    /// BIRD's name of the family.
    name: &'static str,
    /// The subnets 1 to 4 between routers and neighbors, without the host's number.
    subnets: [&'static str; 4],
    /// Bits of a subnet, and of a host.
    lengths: [u8; 2],
    /// The prefixes of `outside` and `inside`, and a host in each.
    prefixes: [(&'static str, &'static str); 2],
}

const IPV4: Addresses = Addresses {
    name: "ipv4",
    subnets: ["10.1.0.", "10.2.0.", "10.3.0.", "10.4.0."],
    lengths: [24, 32],
    prefixes: [("203.0.113.0/24", "203.0.113.1"), ("192.0.2.0/24", "192.0.2.1")],
};
const IPV6: Addresses = Addresses {
    name: "ipv6",
    subnets: ["fd00:1::", "fd00:2::", "fd00:3::", "fd00:4::"],
    lengths: [64, 128],
    prefixes: [("2001:db8:a::/48", "2001:db8:a::1"), ("2001:db8:b::/48", "2001:db8:b::1")],
};

impl Addresses {
    /// Host `host` of subnet `n`.
    fn host(&self, n: usize, host: u8) -> String {
        format!("{}{host}", self.subnets[n - 1])
    }

    fn topology(&self) -> Topology {
        let [mask, one] = self.lengths;
        let router = |out: usize, inside: usize| {
            let text = ROUTER.replace("{OUT}", self.subnets[out - 1]);
            text.replace("{IN}", self.subnets[inside - 1]).replace("{ID}", &out.to_string())
        };
        let neighbor = |text: &str, a: usize, b: usize, prefix: &str| {
            let text = text.replace("{FAMILY}", self.name).replace("{PREFIX}", prefix);
            text.replace("{A}", self.subnets[a - 1]).replace("{B}", self.subnets[b - 1])
        };
        let link = |n: usize, router: char, other: &str| {
            let (own, its) = (self.host(n, 1), self.host(n, 2));
            format!(
                "[[links]]\na = '{router}:{other}'\nb = '{other}:to-{router}'\n\
                 a_addresses = ['{own}/{mask}']\nb_addresses = ['{its}/{mask}']\n"
            )
        };
        let links = [
            link(1, 'a', "outside"),
            link(2, 'b', "outside"),
            link(3, 'a', "inside"),
            link(4, 'b', "inside"),
        ];
        let [(outside_prefix, outside_host), (inside_prefix, inside_host)] = self.prefixes;
        let (a, b) = (router(1, 3), router(2, 4));
        let outside = neighbor(OUTSIDE, 1, 2, outside_prefix);
        let inside = neighbor(INSIDE, 3, 4, inside_prefix);
        format!(
            "[nodes.a]\ndaemon = 'sluice'\nconfig = '''{a}'''\n[nodes.b]\ndaemon = 'sluice'\nconfig = '''{b}'''\n\
             [nodes.outside]\ndaemon = 'bird'\nloopback = ['{outside_host}/{one}']\nconfig = '''{outside}'''\n\
             [nodes.inside]\ndaemon = 'bird'\nloopback = ['{inside_host}/{one}']\nconfig = '''{inside}'''\n{}",
            links.concat()
        )
        .parse()
        .unwrap()
    }
}

struct Network(Lab, &'static Addresses);

impl Network {
    fn up(addresses: &'static Addresses) -> Option<Self> {
        if let Err(reason) = available() {
            sluice_testkit::skipped(reason);
            return None;
        }
        if Command::new("bird").arg("--version").output().is_err() {
            sluice_testkit::skipped("BIRD is not installed");
            return None;
        }
        let options = LabOptions { sluice: Some(SLUICE.into()), ..LabOptions::unique("drain") };
        Some(Network(Lab::up(&addresses.topology(), options).unwrap(), addresses))
    }

    /// Returns the answer of the router `a`.
    fn sluice(&self, words: &[&str]) -> (String, Value) {
        let run_dir = self.0.dir("a").join("run").display().to_string();
        let run = |extra: &[&str]| {
            let all = [words, extra, &["--run-dir", &run_dir]].concat();
            String::from_utf8_lossy(&Command::new(SLUICE).args(all).output().unwrap().stdout).into_owned()
        };
        match words[0] {
            "status" | "show" => (run(&[]), serde_json::from_str(&run(&["--json"])).unwrap_or_default()),
            _ => (run(&[]), Value::Null),
        }
    }

    fn until(&self, what: &str, so: impl FnMut() -> bool) {
        let came = until(Duration::from_secs(30), so);
        let show = |node: &str| self.0.control(node, "show route all").unwrap_or_default();
        assert!(
            came,
            "never: {what}\n{}\n{}\n{}",
            show("outside"),
            show("inside"),
            self.0.log("a", "sluice")
        );
    }

    /// Returns the router on the path between the loopback addresses of `outside` and `inside`: the sender of "time
    /// exceeded".
    fn on_the_way(&self, from: &str) -> String {
        let [(_, outside), (_, inside)] = self.1.prefixes;
        let (own, other) = if from == "outside" { (outside, inside) } else { (inside, outside) };
        let words = ["-n", "-c1", "-W1", "-t1", "-I", own, other];
        let output = self.0.output(from, "ping", words).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let who = text.lines().find_map(|l| l.strip_prefix("From ")?.split(' ').next().map(str::to_owned));
        who.unwrap_or_default()
    }

    /// Waits until the paths lead through the router in the given subnets.
    fn until_by(&self, outside: usize, inside: usize) {
        let (outside, inside) = (self.1.host(outside, 1), self.1.host(inside, 1));
        self.until(&format!("the ways are by {outside} and {inside}"), || {
            self.on_the_way("outside") == outside && self.on_the_way("inside") == inside
        });
    }

    /// Returns a BIRD's route to the opposite prefix from the router `a`.
    fn advertised_by_a(&self, node: &str) -> String {
        let (prefix, _) = self.1.prefixes[usize::from(node == "outside")];
        self.0.control(node, &format!("show route protocol a all for {prefix}")).unwrap_or_default()
    }
}

fn traffic_leaves(addresses: &'static Addresses) {
    let Some(network) = Network::up(addresses) else { return };
    let is_drained = || {
        let (outside, inside) = (network.advertised_by_a("outside"), network.advertised_by_a("inside"));
        [outside.contains("(65535,0)"), inside.contains("(65535,0)"), inside.contains("BGP.local_pref: 0")]
    };
    network.until_by(1, 3);
    assert_eq!(is_drained(), [false; 3]);
    let mut ping = network.0.command("outside", "ping").unwrap();
    let [(_, outside), (_, inside)] = addresses.prefixes;
    ping.args(["-q", "-i", "0.005", "-I", outside, inside]).stdout(Stdio::piped());
    let ping = ping.spawn().unwrap();

    // Both ends connect at the start, so that a session may have been replaced once before.
    let flaps = |summary: &Value| -> Vec<Value> {
        summary["sessions"].as_array().unwrap().iter().map(|session| session["flaps"].clone()).collect()
    };
    let flaps_before = flaps(&network.sluice(&["show", "bgp", "summary"]).1);
    let (said, _) = network.sluice(&["drain", "comment", "a new line card"]);
    let filtered = format!("filtered again: {}, {}", addresses.host(1, 2), addresses.host(3, 2));
    assert!(said.contains(&filtered) && said.contains("undrain"), "{said}");
    network.until_by(2, 4);
    assert_eq!(is_drained(), [true; 3]);
    let (said, status) = network.sluice(&["status"]);
    assert!(said.contains("\ndrained: ") && status["drained"] == true, "{said}");
    let (said, summary) = network.sluice(&["show", "bgp", "summary"]);
    assert!(said.contains("draining: ") && summary["graceful_shutdown"] == true, "{said}");
    let sessions = summary["sessions"].as_array().unwrap();
    assert!(sessions.iter().all(|s| s["state"] == "Established"), "{summary:#}");
    assert_eq!(flaps(&summary), flaps_before, "{summary:#}");
    let (said, _) = network.sluice(&["drain"]);
    assert!(said.starts_with("nothing to commit"), "{said}");

    assert!(Command::new("kill").args(["-INT", &ping.id().to_string()]).status().unwrap().success());
    let text = String::from_utf8_lossy(&ping.wait_with_output().unwrap().stdout).into_owned();
    assert!(text.contains(" 0% packet loss"), "{text}");

    // Killed, it comes back drained.
    let (_, processes) = network.sluice(&["show", "processes"]);
    let all = processes["processes"].as_array().unwrap();
    let pid = all.iter().find(|p| p["component"] == "bgp").unwrap()["pid"].to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    network.until("the new process announces it too", || {
        let (_, summary) = network.sluice(&["show", "bgp", "summary"]);
        let (_, now) = network.sluice(&["show", "processes"]);
        now != processes && summary["established"] == 2 && is_drained() == [true; 3]
    });
    network.until_by(2, 4);

    let (said, _) = network.sluice(&["undrain"]);
    assert!(said.contains("not drained"), "{said}");
    network.until_by(1, 3);
    assert_eq!(is_drained(), [false; 3]);
    let (said, status) = network.sluice(&["status"]);
    assert!(!said.contains("drained") && status["drained"] == false, "{said}");
    let (_, revisions) = network.sluice(&["show", "revisions"]);
    assert_eq!(revisions["revisions"][1]["comment"], "a new line card");
}

#[test]
fn traffic_leaves_who_is_drained() {
    traffic_leaves(&IPV4);
}

#[test]
fn traffic_leaves_who_is_drained_over_ipv6() {
    traffic_leaves(&IPV6);
}
