//! A router between two hosts, over links prepared for XDP, and the questions about its fast path.

use crate::{RouterLab, executable};
use serde_json::Value;
use sluice_lab::Topology;
use std::process::{Child, Stdio};

/// The addresses of the far host, with the reasons that count packets to them as forwarded.
pub const FAR: [(&str, &str); 2] = [("203.0.113.1", "forwarded-ipv4"), ("2001:db8:99::1", "forwarded-ipv6")];

/// A network: the host `a` and a far node, each on a link to the router `sluice`.
pub struct Network<'a> {
    /// The statements of node `a`.
    pub near: &'a str,
    /// The name and the statements of the far node.
    pub far: (&'a str, &'a str),
    /// The router's configuration.
    pub config: &'a str,
    /// The routes that the fast path has when all is up.
    pub routes: u64,
}

/// A far host with an address of each family behind it, and static routes to both.
pub const PLAIN: Network<'static> = Network {
    near: "routes = ['default via 10.1.0.1', 'default via 2001:db8:1::1']",
    far: (
        "b",
        "loopback = ['203.0.113.1/32', '2001:db8:99::1/128']\n\
         routes = ['default via 10.2.0.1', 'default via 2001:db8:2::1']",
    ),
    config: "
interfaces { forwarding { engine both; } }
protocols {
    static {
        route 203.0.113.0/24 { next-hop 10.2.0.2; }
        route 2001:db8:99::/48 { next-hop 2001:db8:2::2; }
    }
}
",
    routes: 2,
};

impl Network<'_> {
    fn topology(&self) -> Topology {
        let Network { near, far: (far, statements), config, .. } = self;
        let text = format!(
            "[nodes.a]\n{near}\n[nodes.{far}]\n{statements}\n\
             [nodes.sluice]\ndaemon = 'sluice'\nconfig = '''{config}'''\n\
             [[links]]\na = 'a:eth0'\nb = 'sluice:eth0'\nxdp = true\n\
             a_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']\n\
             b_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']\n\
             [[links]]\na = '{far}:eth0'\nb = 'sluice:eth1'\nxdp = true\n\
             a_addresses = ['10.2.0.2/24', '2001:db8:2::2/64']\n\
             b_addresses = ['10.2.0.1/24', '2001:db8:2::1/64']\n"
        );
        text.parse().unwrap()
    }

    /// Brings the network up, until the fast path has all routes and neighbors.
    pub fn up(&self) -> RouterLab {
        self.up_with(executable())
    }

    /// Brings the network up with an executable, until the fast path has all routes and neighbors.
    pub fn up_with(&self, program: &std::path::Path) -> RouterLab {
        let lab = RouterLab::up(&self.topology(), program);
        self.until_ready(&lab);
        lab
    }

    /// Waits until the fast path forwards by all routes. A link's carrier may be reported after the fast path is live, and routes
    /// over the link come with it.
    pub fn until_ready(&self, lab: &RouterLab) {
        let routes = self.routes.to_string();
        lab.until("the fast path has all routes", |lab| {
            let shown = forwarding(lab);
            shown["live"] == true && shown["routes"] == *routes && shown["unresolved"] == "0"
        });
    }
}

/// The answer to `show forwarding`.
pub fn forwarding(lab: &RouterLab) -> Value {
    lab.ask(&["show", "forwarding"])
}

/// Returns true if the fast path forwards.
pub fn is_live(lab: &RouterLab) -> bool {
    forwarding(lab)["live"] == true
}

/// Returns the part of the answer that describes an interface; null if there is none.
pub fn port(lab: &RouterLab, interface: &str) -> Value {
    let shown = forwarding(lab);
    let ports = shown["ports"].as_array().cloned().unwrap_or_default();
    ports.into_iter().find(|port| port["name"] == interface).unwrap_or_default()
}

/// Returns the packets of an interface that were counted under a reason.
pub fn counted(lab: &RouterLab, interface: &str, reason: &str) -> u64 {
    let port = port(lab, interface);
    let counts = port["counts"].as_array().unwrap_or_else(|| panic!("no port {interface}: {port}"));
    let counts = counts.iter().filter(|count| count["reason"] == reason);
    counts.map(|count| sluice_load::wide(&count["packets"]).unwrap()).sum()
}

/// Returns the link-layer address of an interface of the router.
pub fn station(lab: &RouterLab, interface: &str) -> [u8; 6] {
    let link = lab.lab.exec("sluice", "ip", ["-o", "link", "show", interface]).unwrap();
    let address = link.split_once("link/ether ").unwrap().1.split(' ').next().unwrap();
    let octets: Vec<u8> = address.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    octets.try_into().unwrap()
}

/// Returns the reasons for which the kernel forwards packets of a family (`ipv4`, `ipv6`) that the first interface receives.
pub fn off(lab: &RouterLab, family: &str) -> String {
    port(lab, "eth0")[format!("received_{family}")].to_string()
}

/// Runs `ping` on `a` and returns the output, with any exit status.
pub fn ping_with(lab: &RouterLab, words: &[&str]) -> String {
    let output = lab.lab.output("a", "ping", words.iter().copied()).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends 20 echo requests from `a`; returns true if all were answered.
pub fn is_answered(lab: &RouterLab, address: &str) -> bool {
    let said = ping_with(lab, &["-q", "-c", "20", "-i", "0.01", "-W", "5", address]);
    said.contains(" 0% packet loss")
}

/// Sends 20 echo requests from `a`; panics if an answer is missing.
pub fn ping(lab: &RouterLab, address: &str) {
    assert!(is_answered(lab, address), "{address} does not answer: {}", forwarding(lab));
}

/// Sends echo requests from `a`; returns true if all were answered and the fast path forwarded them.
pub fn is_forwarded(lab: &RouterLab, address: &str, reason: &str) -> bool {
    let before = counted(lab, "eth0", reason);
    is_answered(lab, address) && counted(lab, "eth0", reason) >= before + 20
}

/// Echo requests from `a` without a pause.
pub struct Flood(Child);

impl Flood {
    /// Starts to send 500 requests a second.
    pub fn start(lab: &RouterLab, address: &str) -> Self {
        let mut ping = lab.lab.command("a", "ping").unwrap();
        ping.args(["-q", "-i", "0.002", "-W", "5", address]).stdout(Stdio::piped());
        Flood(ping.spawn().unwrap())
    }

    /// Stops, and returns the summary of `ping`.
    pub fn stop(mut self, lab: &RouterLab) -> String {
        lab.signal("-INT", self.0.id().into());
        let said = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        self.0.wait().unwrap();
        said
    }
}

/// Sends echo requests while `act` runs; panics if an answer is missing.
pub fn without_loss(lab: &RouterLab, address: &str, what: &str, act: impl FnOnce()) {
    let flood = Flood::start(lab, address);
    act();
    let said = flood.stop(lab);
    assert!(said.contains(" 0% packet loss"), "{what}: {said}");
}
