//! A router of many machines between FRR and BIRD: balancers, a switch, routers, and the control plane on the node `sluice`.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::RouterLab;
use sluice_router_lab::xip::{at, commit_at, run};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The element numbers of balancers, routers and the control plane begin here.
const BALANCERS: u16 = 1;
const ROUTERS: u16 = 11;
const CONTROL: u16 = 21;

/// The hosts behind FRR and behind BIRD, four of each family, by which there are several flows.
pub const NEAR: [&str; 8] = [
    "198.51.100.1",
    "198.51.100.2",
    "198.51.100.3",
    "198.51.100.4",
    "2001:db8:f::1",
    "2001:db8:f::2",
    "2001:db8:f::3",
    "2001:db8:f::4",
];
/// A host behind BIRD, by family.
const FAR: [&str; 2] = ["203.0.113.1", "2001:db8:b::1"];

/// The host at the third port.
const THIRD: &str = "10.0.3.2";

/// The machines of the router.
#[derive(Clone, Copy)]
pub struct Shape {
    pub balancers: u16,
    pub routers: u16,
    /// The servers of the store. With a store, routers get the control plane's routes, and have no static routes.
    pub store: u16,
    /// True if elements run the store themselves: the candidates for the control plane and the first router.
    pub own_store: bool,
    /// True with a second candidate for the control plane, on the node `c2`.
    pub second: bool,
    /// True with a third outer port, of the first balancer, to the node `host`.
    pub third: bool,
    /// Routes that FRR and BIRD announce besides those of their hosts.
    pub more: [u32; 2],
}

impl Shape {
    /// Returns so many balancers and routers with one control plane, without a store and without further routes.
    pub const fn of(balancers: u16, routers: u16) -> Self {
        Shape { balancers, routers, store: 0, own_store: false, second: false, third: false, more: [0; 2] }
    }

    pub fn balancer_nodes(self) -> Vec<String> {
        (1..=self.balancers).map(|number| format!("b{number}")).collect()
    }

    pub fn router_nodes(self) -> Vec<String> {
        (1..=self.routers).map(|number| format!("r{number}")).collect()
    }

    pub fn nodes(self) -> Vec<String> {
        [self.balancer_nodes(), self.router_nodes(), self.control_nodes()].concat()
    }

    /// Returns true if the routers get their routes through a store.
    pub fn has_store(self) -> bool {
        self.store > 0 || self.own_store
    }

    /// Returns the nodes of all elements, with the elements' numbers.
    pub fn elements(self) -> Vec<(String, u16)> {
        let balancers = self.balancer_nodes().into_iter().zip(BALANCERS..);
        let routers = self.router_nodes().into_iter().zip(ROUTERS..);
        balancers.chain(routers).chain(self.control_nodes().into_iter().zip(CONTROL..)).collect()
    }

    fn control_nodes(self) -> Vec<String> {
        ["sluice", "c2"].into_iter().take(1 + usize::from(self.second)).map(String::from).collect()
    }

    /// Returns the balancer and the interface of an outer port: ports are spread over the balancers.
    fn outer(self, port: u16) -> (u16, String) {
        ((port - 1) % self.balancers + 1, format!("out{port}"))
    }

    /// Returns the part of the configuration that all elements share.
    fn cluster(self, element: u16, interconnect: &str) -> String {
        let member = |number: u16, role: &str| match self.own_store {
            true => format!("member {number} {{ role {role}; address {}; }} ", inner(number)),
            false => format!("member {number} {{ role {role}; }} "),
        };
        let balancers = (0..self.balancers).map(|n| member(BALANCERS + n, "balancer"));
        let routers = (0..self.routers).map(|n| member(ROUTERS + n, "router"));
        let controls = (0..1 + u16::from(self.second)).map(|n| member(CONTROL + n, "control"));
        let members: String = balancers.chain(routers).chain(controls).collect();
        let port = |number: u16| {
            let (balancer, interface) = self.outer(number);
            format!(
                "port {number} {{ balancer {balancer}; interface {interface}; mac 02:00:00:00:01:0{number}; \
                 address [ 10.0.{number}.1/24 fd0{number}::1/64 ]; }} "
            )
        };
        let ports: String = (1..=2 + u16::from(self.third)).map(port).collect();
        let key = "5a".repeat(32);
        let endpoints: String =
            (0..self.store).map(|number| format!("endpoint {}; ", server(number))).collect();
        let store = match self.store {
            0 if self.own_store => format!("store {{ member [ {ROUTERS} {CONTROL} {} ]; }}", CONTROL + 1),
            0 => String::new(),
            _ => format!("store {{ {endpoints} }}"),
        };
        format!(
            "cluster {{ element {element}; interconnect {interconnect}; key {key}; {members} {ports} {store} }}\n"
        )
    }

    fn topology(self) -> String {
        let node = |name: &str, config: &str| {
            format!("[nodes.{name}]\ndaemon = 'sluice'\nconfig = '''{config}'''\n")
        };
        let mut text = String::new();
        for number in 1..=self.balancers {
            let config = self.cluster(number, "in0") + "interfaces { forwarding { engine both; } }\n";
            text += &node(&format!("b{number}"), &config);
        }
        for number in 1..=self.routers {
            let config = self.cluster(ROUTERS + number - 1, "eth0");
            if self.has_store() {
                text += &node(&format!("r{number}"), &config);
                continue;
            }
            let config = config
                + "protocols { static { route 198.51.100.0/24 { next-hop 10.0.1.2; }\n\
                   route 203.0.113.0/24 { next-hop 10.0.2.2; }\n\
                   route 2001:db8:f::/48 { next-hop fd01::2; }\n\
                   route 2001:db8:b::/48 { next-hop fd02::2; } } }\n";
            text += &node(&format!("r{number}"), &config);
        }
        let bgp = "protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept;\n\
                   neighbor 10.0.1.2 { peer-as 64501; connect-retry-time 1; }\n\
                   neighbor fd01::2 { peer-as 64501; connect-retry-time 1; }\n\
                   neighbor 10.0.2.2 { peer-as 64502; connect-retry-time 1; }\n\
                   neighbor fd02::2 { peer-as 64502; connect-retry-time 1; } } }\n";
        for (number, name) in (0..).zip(self.control_nodes()) {
            text += &node(&name, &(self.cluster(CONTROL + number, "eth0") + bgp));
        }
        text += "[nodes.s]\ndaemon = 'switch'\n";
        text += &outside(self.more);
        if self.store > 0 {
            text += "[nodes.e]\n";
        }
        if self.third {
            text += "[nodes.host]\n";
        }
        let mut link = |a: &str, b: &str, more: &str| {
            text += &format!("[[links]]\na = '{a}'\nb = '{b}'\nxdp = true\n{more}");
        };
        let third = self.third.then_some(("host", 3));
        for (node, port) in [("frr", 1), ("bird", 2)].into_iter().chain(third) {
            let (balancer, interface) = self.outer(port);
            let addresses = format!("a_addresses = ['10.0.{port}.2/24', 'fd0{port}::2/64']\n");
            link(&format!("{node}:eth0"), &format!("b{balancer}:{interface}"), &addresses);
        }
        let address = |element: u16| match self.has_store() {
            false => String::new(),
            true => format!("a_addresses = ['{}/24']\n", inner(element)),
        };
        for number in 1..=self.balancers {
            link(&format!("b{number}:in0"), &format!("s:b{number}"), &address(BALANCERS + number - 1));
        }
        for number in 1..=self.routers {
            link(&format!("r{number}:eth0"), &format!("s:r{number}"), &address(ROUTERS + number - 1));
        }
        for (number, name) in (0..).zip(self.control_nodes()) {
            link(&format!("{name}:eth0"), &format!("s:{name}"), &address(CONTROL + number));
        }
        if self.store > 0 {
            let all: Vec<String> = (0..self.store).map(|number| format!("'{}/24'", server(number))).collect();
            link("e:eth0", "s:e", &format!("a_addresses = [{}]\n", all.join(", ")));
        }
        text
    }
}

/// Returns FRR and BIRD with hosts behind, and with more routes.
fn outside([frr, bird]: [u32; 2]) -> String {
    let of_frr: String = (0..frr).map(|n| format!("ip route {} blackhole\n", more_of_frr(n))).collect();
    let of_bird: String = (0..bird).map(|n| format!("route {} blackhole; ", more_of_bird(n))).collect();
    let loopback = |hosts: &[&str]| {
        let width = |host: &str| if host.contains(':') { 128 } else { 32 };
        let all: Vec<String> = hosts.iter().map(|host| format!("'{host}/{}'", width(host))).collect();
        all.join(", ")
    };
    format!(
        "[nodes.frr]\ndaemon = 'frr'\nloopback = [{}]\nconfig = '''
ip route 198.51.100.0/24 blackhole
{of_frr}ipv6 route 2001:db8:f::/48 blackhole
router bgp 64501
 bgp router-id 10.0.1.2
 no bgp ebgp-requires-policy
 neighbor 10.0.1.1 remote-as 64500
 neighbor 10.0.1.1 timers connect 1
 neighbor fd01::1 remote-as 64500
 neighbor fd01::1 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
  redistribute static
  no neighbor fd01::1 activate
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:f::/48
  neighbor fd01::1 activate
 exit-address-family
'''\n\
         [nodes.bird]\ndaemon = 'bird'\nloopback = [{}]\nconfig = '''
router id 10.0.2.2;
protocol device {{ }}
protocol kernel {{ ipv4 {{ export where net.len != 29; }}; }}
protocol kernel {{ ipv6 {{ export all; }}; }}
protocol static {{ ipv4; route 203.0.113.0/24 blackhole; {of_bird}}}
protocol static {{ ipv6; route 2001:db8:b::/48 blackhole; }}
template bgp outside {{ connect delay time 1; connect retry time 1; error wait time 1, 2; }}
protocol bgp sluice from outside {{
    local 10.0.2.2 as 64502; neighbor 10.0.2.1 as 64500; ipv4 {{ import all; export where source = RTS_STATIC; }};
}}
protocol bgp sluice6 from outside {{
    local fd02::2 as 64502; neighbor fd02::1 as 64500; ipv6 {{ import all; export where source = RTS_STATIC; }};
}}
'''\n",
        loopback(&NEAR),
        loopback(&FAR)
    )
}

/// Returns one of FRR's further routes.
pub fn more_of_frr(number: u32) -> String {
    format!("{}/29", std::net::Ipv4Addr::from_bits(0x1400_0000 + number * 8))
}

/// Returns one of BIRD's further routes.
pub fn more_of_bird(number: u32) -> String {
    format!("{}/29", std::net::Ipv4Addr::from_bits(0x1c00_0000 + number * 8))
}

/// The servers of the store, on the node `e`.
pub struct Store(Vec<Child>);

/// Returns the address of an element on the interconnect.
pub fn inner(element: u16) -> String {
    format!("10.9.0.{element}")
}

/// Returns the address of a server, on the interconnect.
pub fn server(number: u16) -> String {
    format!("10.9.0.{}", 254 - number)
}

impl Store {
    /// Starts the servers, with the data of earlier ones.
    pub fn start(lab: &RouterLab, count: u16) -> Self {
        let url = |number: u16, port: u16| format!("http://{}:{port}", server(number));
        let all: Vec<String> = (0..count).map(|number| format!("e{number}={}", url(number, 2380))).collect();
        let start = |number: u16| {
            let mut command = lab.lab.command("e", "etcd").unwrap();
            let (name, clients, peers) = (format!("e{number}"), url(number, 2379), url(number, 2380));
            command.args(["--heartbeat-interval", "50", "--election-timeout", "500", "--log-level", "error"]);
            command.args(["--name", &name, "--initial-cluster", &all.join(",")]);
            command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
            command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
            command.arg("--data-dir").arg(lab.lab.dir("e").join(name));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        Store((0..count).map(start).collect())
    }

    /// Kills a server.
    pub fn kill(&mut self, lab: &RouterLab, number: u16) {
        let server = &mut self.0[usize::from(number)];
        lab.signal("-KILL", u64::from(server.id()));
        server.wait().unwrap();
    }
}

/// The router with its neighbors, converged.
pub struct Network {
    pub lab: RouterLab,
    pub store: Option<Store>,
    pub shape: Shape,
}

impl Network {
    pub fn up(shape: Shape) -> Self {
        Self::up_with(shape, Path::new(SLUICE))
    }

    /// Brings the router up with an executable.
    pub fn up_with(shape: Shape, program: &Path) -> Self {
        let lab = RouterLab::up(&shape.topology().parse().unwrap(), program);
        let store = (shape.store > 0).then(|| Store::start(&lab, shape.store));
        let network = Network { lab, store, shape };
        if shape.own_store {
            network.hand_out_certificates();
        }
        if shape.third {
            for (node, route) in [("host", "default via 10.0.3.1"), ("frr", "10.0.3.0/24 via 10.0.1.1")] {
                let words = [&["route", "add"], &route.split(' ').collect::<Vec<_>>()[..]].concat();
                network.lab.lab.exec(node, "ip", words).unwrap();
            }
        }
        network.until("BGP's sessions are up", |network| {
            network.shape.control_nodes().iter().any(|node| network.has_sessions(node))
        });
        network.until("all elements are present", |network| {
            network
                .shape
                .nodes()
                .iter()
                .all(|node| network.states(node).iter().all(|s| s == "up" || s == "own"))
        });
        network.until("hosts reach each other", |network| {
            NEAR.iter().all(|from| network.ping(from, 1, "64").contains(" 1 received"))
        });
        network
    }

    /// Makes the authority on the node `sluice`, and invites all other elements.
    fn hand_out_certificates(&self) {
        let done = |node: &str, words: &[&str]| {
            let output = run(&self.lab, node, &[&["cluster"], words].concat());
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        };
        let control = CONTROL.to_string();
        done("sluice", &["init", &control, "--address", &inner(CONTROL)]);
        for (node, number) in self.shape.elements().iter().filter(|(node, _)| node != "sluice") {
            let file = self.lab.lab.dir(node).join("invitation").display().to_string();
            done("sluice", &["invite", &number.to_string(), "--address", &inner(*number), "--into", &file]);
            done(node, &["join", &file]);
        }
    }

    /// Returns true if a candidate for the control plane has sessions with all neighbors.
    pub fn has_sessions(&self, node: &str) -> bool {
        let shown = at(&self.lab, node, &["show", "bgp", "neighbor"]);
        let neighbors = shown["neighbors"].as_array().cloned().unwrap_or_default();
        neighbors.len() == 4 && neighbors.iter().all(|neighbor| neighbor["state"] == "Established")
    }

    /// Asks until it is so, for two minutes.
    pub fn until(&self, what: &str, mut so: impl FnMut(&Self) -> bool) {
        let is_so = sluice_lab::until(Duration::from_secs(120), || so(self));
        let shown = |node: &String| {
            let ask = |words: &[&str]| at(&self.lab, node, words).to_string();
            format!(
                "{node}: {}\n{}\n{}\n{}\n{}",
                ask(&["status"]),
                ask(&["show", "cluster"]),
                ask(&["show", "cluster", "neighbors"]),
                ask(&["show", "cluster", if self.shape.has_store() { "store" } else { "counters" }]),
                self.lab.lab.log(node, "sluice")
            )
        };
        let report = || self.shape.nodes().iter().map(shown).collect::<String>();
        assert!(is_so, "never: {what}\n{}", report());
    }

    /// Returns the states of all elements, as an element knows them.
    pub fn states(&self, node: &str) -> Vec<String> {
        self.elements(node, "state")
    }

    /// Returns a field of all elements, as an element knows them.
    pub fn elements(&self, node: &str, field: &str) -> Vec<String> {
        let shown = at(&self.lab, node, &["show", "cluster"]);
        let elements = shown["elements"].as_array().cloned().unwrap_or_else(|| vec![Value::Null]);
        let text = |element: &Value| match &element[field] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        elements.iter().map(text).collect()
    }

    /// Returns the frames that a balancer counted by a reason.
    pub fn counted(&self, node: &str, by: &str, reason: &str) -> u64 {
        let shown = at(&self.lab, node, &["show", "cluster", "counters"]);
        let counters = shown["counters"].as_array().cloned().unwrap_or_default();
        let of = counters.iter().filter(|counter| counter["by"] == by && counter["reason"] == reason);
        of.filter_map(|counter| sluice_load::wide(&counter["count"])).sum()
    }

    /// Returns a field of an element's view of the store.
    pub fn stored(&self, node: &str, field: &str) -> String {
        let shown = at(&self.lab, node, &["show", "cluster", "store"]);
        match &shown[field] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// Commits statements on some nodes.
    pub fn commit(&self, nodes: &[String], statements: &[&str]) {
        let statements: Vec<String> = statements.iter().map(ToString::to_string).collect();
        nodes.iter().for_each(|node| commit_at(&self.lab, node, &statements));
    }

    /// Kills a component of a node.
    pub fn kill(&self, node: &str, component: &str) {
        let shown = at(&self.lab, node, &["show", "processes"]);
        let processes = shown["processes"].as_array().cloned().unwrap_or_default();
        let process = processes.iter().find(|process| process["component"] == component);
        let pid = process.and_then(|process| sluice_load::wide(&process["pid"])).unwrap();
        self.lab.kill(pid);
    }

    /// Pings the far host of the family from a near host.
    pub fn ping(&self, from: &str, count: u32, ttl: &str) -> String {
        self.ping_with(from, count, &["-t", ttl])
    }

    /// Pings the far host of the family from a near host, with more arguments.
    pub fn ping_with(&self, from: &str, count: u32, more: &[&str]) -> String {
        let count = count.to_string();
        let words = ["-n", "-c", &count, "-i", "0.05", "-W", "2", "-I", from];
        let output = self.lab.lab.output("frr", "ping", [&words, more, &[far(from)]].concat()).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns true if hosts behind FRR reach the host at the third port.
    pub fn reaches_third(&self) -> bool {
        let words = ["-n", "-c", "1", "-W", "2", "-I", NEAR[0], THIRD];
        let output = self.lab.lab.output("frr", "ping", words).unwrap();
        String::from_utf8_lossy(&output.stdout).contains(" 1 received")
    }

    /// Returns the packets that a router's kernel has forwarded.
    pub fn forwarded(&self, node: &str) -> u64 {
        let text = self.lab.lab.exec(node, "cat", ["/proc/net/snmp", "/proc/net/snmp6"]).unwrap();
        let v4 = text.lines().filter(|line| line.starts_with("Ip: ")).nth(1);
        let v4 = v4.and_then(|line| line.split(' ').nth(6)?.parse::<u64>().ok()).unwrap_or(0);
        let v6 = text.lines().filter(|line| line.starts_with("Ip6OutForwDatagrams"));
        v4 + v6.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>()
    }
}

/// Returns the far host of a near host's family.
fn far(from: &str) -> &'static str {
    FAR[usize::from(from.contains(':'))]
}

/// The time between two requests of a host.
pub const INTERVAL: Duration = Duration::from_millis(5);

/// Echo requests of all near hosts, one each [`INTERVAL`].
pub struct Traffic(Vec<Requests>);

/// The echo requests of a host.
struct Requests {
    ping: Child,
    /// The sequence number of the newest answer.
    newest: Arc<AtomicU32>,
    /// Reads the answers; returns their sequence numbers.
    reader: JoinHandle<BTreeSet<u32>>,
}

/// The results of a host's requests.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Requests up to the last one that was answered.
    pub sent: u32,
    /// Requests without an answer.
    pub lost: u32,
}

impl Traffic {
    /// Starts, and waits until each host has as many answers as of half a second without a loss.
    pub fn start(network: &Network) -> Self {
        Self::between(network, NEAR.iter().map(|from| (*from, far(from))))
    }

    /// Starts requests to the host at the third port only, as [`Traffic::start`] does.
    pub fn start_to_third(network: &Network) -> Self {
        Self::between(network, NEAR.iter().filter(|from| !from.contains(':')).map(|from| (*from, THIRD)))
    }

    fn between<'a>(network: &Network, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let start = |(from, to): (&str, &str)| {
            let mut ping = network.lab.lab.command("frr", "ping").unwrap();
            let interval = INTERVAL.as_secs_f64().to_string();
            ping.args(["-n", "-i", &interval, "-W", "2", "-I", from, to]);
            let mut ping = ping.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let answers = BufReader::new(ping.stdout.take().unwrap());
            let newest = Arc::new(AtomicU32::new(0));
            let seen = Arc::clone(&newest);
            let reader = std::thread::spawn(move || {
                let mut answered = BTreeSet::new();
                for number in answers.lines().filter_map(|line| sequence(&line.unwrap())) {
                    answered.insert(number);
                    seen.fetch_max(number, Ordering::Relaxed);
                }
                answered
            });
            Requests { ping, newest, reader }
        };
        let traffic = Traffic(pairs.map(start).collect());
        traffic.until(network, "each host is answered", |newest, _| newest > 100);
        traffic
    }

    /// Waits until it is so of each host: the sequence numbers of the newest answers, now and at the call.
    fn until(&self, network: &Network, what: &str, so: impl Fn(u32, u32) -> bool) {
        let newest = || self.0.iter().map(|requests| requests.newest.load(Ordering::Relaxed));
        let before: Vec<u32> = newest().collect();
        network.until(what, |_| newest().zip(&before).all(|(now, before)| so(now, *before)));
    }

    /// Stops when each host has an answer to a request that was sent since, and returns what became of the requests of each host.
    pub fn stop(self, network: &Network) -> Vec<Outcome> {
        self.until(network, "each host is answered still", |now, before| now > before + 1);
        let stop = |mut requests: Requests| {
            network.lab.signal("-INT", u64::from(requests.ping.id()));
            let answered = requests.reader.join().unwrap();
            requests.ping.wait().unwrap();
            let sent = answered.last().copied().unwrap_or(0);
            Outcome { sent, lost: sent - answered.len() as u32 }
        };
        self.0.into_iter().map(stop).collect()
    }
}

/// Returns the sequence number of an answer, which counts from 1.
fn sequence(line: &str) -> Option<u32> {
    line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok()
}
