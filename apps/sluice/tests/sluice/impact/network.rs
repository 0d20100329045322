//! The router under test between four sessions with real neighbors: external and internal, IPv4 and IPv6.

use crate::SLUICE;
use crate::impact::kernel;
use crate::impact::touched::{Reported, Touched};
use crate::impact::wire::{Capture, Packet, What};
use serde_json::Value;
use sluice_config::Node;
use sluice_router_lab::RouterLab;
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub const OUTER4: &str = "10.1.0.2";
pub const OUTER6: &str = "2001:db8:1::2";
pub const INNER4: &str = "10.2.0.2";
pub const INNER6: &str = "2001:db8:2::2";
pub const NEIGHBORS: [&str; 4] = [OUTER4, OUTER6, INNER4, INNER6];

/// The longest wait for an effect, and for quiet.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time without an event that counts as quiet: what must not happen has no other end.
const QUIET: Duration = Duration::from_millis(400);
/// The quiet time after a session began or ended: a neighbor about to connect, as happens after a second, still
/// cancels the connection.
const QUIET_SESSIONS: Duration = Duration::from_millis(1500);

/// The configuration, a statement each.
pub const BASE: &[&str] = &[
    "interfaces interface extra description before",
    "interfaces interface extra enabled true",
    "interfaces interface extra mtu 1500",
    "interfaces interface extra address 10.9.0.1/24",
    "interfaces interface extra address 2001:db8:9::1/64",
    "protocols static route 203.0.113.0/24 next-hop 10.2.0.2",
    "protocols static route 203.0.113.0/24 next-hop 10.2.0.3",
    "protocols static route 198.51.100.0/24 reject",
    "protocols static xid-route hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 local",
    "protocols static xid-route ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 gateway hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2",
    "xip interface extra",
    "xip principal lpm",
    "xip principal-number ether number 98",
    "xip lpm from-ip-routes origin static",
    "cluster element 1",
    "cluster interconnect inner",
    "cluster class 1 dscp 46",
    "cluster key 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
    "cluster member 1 role control",
    "cluster member 2 role balancer",
    "cluster port 1 balancer 2",
    "cluster port 1 interface out1",
    "cluster port 1 mac 02:00:00:00:01:01",
    "cluster port 1 address 10.77.1.1/24",
    "rpki cache a address 10.2.0.77",
    "rpki cache a port 3323",
    "rpki filter a as 64999",
    "protocols bgp local-as 64500",
    "protocols bgp router-id 10.0.0.1",
    "protocols bgp default-policy accept",
    "protocols bgp bmp station a address 10.2.0.77",
    "protocols bgp bmp station a port 5000",
    "protocols bgp network 192.0.2.0/24",
    "protocols bgp network 2001:db8:100::/48",
    "protocols bgp neighbor 10.1.0.2 peer-as 64501",
    "protocols bgp neighbor 10.1.0.2 hold-time 9",
    "protocols bgp neighbor 10.1.0.2 connect-retry-time 1",
    "protocols bgp neighbor 2001:db8:1::2 peer-as 64501",
    "protocols bgp neighbor 2001:db8:1::2 hold-time 9",
    "protocols bgp neighbor 2001:db8:1::2 connect-retry-time 1",
    "protocols bgp neighbor 10.2.0.2 peer-as 64500",
    "protocols bgp neighbor 10.2.0.2 hold-time 9",
    "protocols bgp neighbor 10.2.0.2 connect-retry-time 1",
    "protocols bgp neighbor 2001:db8:2::2 peer-as 64500",
    "protocols bgp neighbor 2001:db8:2::2 hold-time 9",
    "protocols bgp neighbor 2001:db8:2::2 connect-retry-time 1",
];

/// The announcements of each neighbor.
pub fn routes_of(neighbor: &str) -> &'static [&'static str] {
    match neighbor {
        OUTER4 => &["100.64.1.0/24"],
        OUTER6 => &["2001:db8:a::/48"],
        INNER4 => &["100.64.2.0/24"],
        INNER6 => &["2001:db8:b::/48"],
        _ => &[],
    }
}

const OUTER: &str = "
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 100.64.1.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:a::/48 blackhole; }
template bgp sluice { connect delay time 1; connect retry time 1; error wait time 1, 1; error forget time 1; graceful restart off; }
protocol bgp four from sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500;
    ipv4 { import all; export all; };
}
protocol bgp six from sluice {
    local 2001:db8:1::2 as 64501; neighbor 2001:db8:1::1 as 64500;
    ipv6 { import all; export all; };
}
";

const INNER: &str = "
router id 10.2.0.2;
protocol device { }
protocol static { ipv4; route 100.64.2.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:b::/48 blackhole; }
template bgp sluice { connect delay time 1; connect retry time 1; error wait time 1, 1; error forget time 1; graceful restart off; }
protocol bgp four from sluice {
    local 10.2.0.2 as 64500; neighbor 10.2.0.1 as 64500;
    ipv4 { import all; export all; };
}
protocol bgp six from sluice {
    local 2001:db8:2::2 as 64500; neighbor 2001:db8:2::1 as 64500;
    ipv6 { import all; export all; };
}
";

fn topology() -> String {
    let base = BASE.iter().map(|line| format!("{line};\n")).collect::<String>();
    format!(
        "[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n{base}'''\n\
         [nodes.outer]\ndaemon = 'bird'\nconfig = '''{OUTER}'''\n\
         [nodes.inner]\ndaemon = 'bird'\nconfig = '''{INNER}'''\n\
         [nodes.side]\n\
         [[links]]\na = 'sluice:outer'\nb = 'outer:sluice'\n\
         a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']\nb_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']\n\
         [[links]]\na = 'sluice:inner'\nb = 'inner:sluice'\n\
         a_addresses = ['10.2.0.1/24', '2001:db8:2::1/64']\nb_addresses = ['10.2.0.2/24', '2001:db8:2::2/64']\n\
         [[links]]\na = 'sluice:extra'\nb = 'side:sluice'\n"
    )
}

/// A moment, and the state at the moment.
pub struct Moment {
    packets: usize,
    events: usize,
    processes: BTreeMap<String, u64>,
}

pub struct Network {
    pub lab: RouterLab,
    /// True if the outer neighbor's configuration differs from the first.
    is_partner_changed: Cell<bool>,
    capture: RefCell<Capture>,
    /// The beginnings and ends of connections and sessions in the capture, and when there was last one more.
    sessions: Cell<(usize, Instant)>,
}

impl Network {
    /// Starts the network; returns once the network is quiet.
    pub fn up() -> Self {
        let mut lab = RouterLab::up(&topology().parse().unwrap(), Path::new(SLUICE));
        let dir = lab.lab.dir("sluice");
        let mut capture = lab.lab.command("sluice", "tcpdump").unwrap();
        // Its buffer holds frames of the longest length: with the length that it takes by itself those are eight, and it
        // loses packets on a busy machine.
        capture.args(["-s", "4096", "-B", "8192"]);
        capture.args(["-i", "any", "-n", "-U", "--immediate-mode", "-Z", "root", "-y", "LINUX_SLL2", "-w"]);
        capture.arg(dir.join("wire.pcap")).arg("tcp").stdout(Stdio::null()).stderr(Stdio::null());
        lab.lab.spawn("sluice", "capture", capture).unwrap();
        let mut monitor = lab.lab.command("sluice", "ip").unwrap();
        monitor.args(["-o", "monitor", "label", "link", "address", "route", "nexthop"]);
        monitor.stdout(std::fs::File::create(dir.join("kernel.log")).unwrap()).stderr(Stdio::null());
        lab.lab.spawn("sluice", "monitor", monitor).unwrap();
        let network = Network {
            lab,
            is_partner_changed: Cell::new(false),
            capture: RefCell::default(),
            sessions: Cell::new((0, Instant::now())),
        };
        assert!(network.settle(&BTreeSet::new()), "never quiet: {}\n{}", network.summary(), network.log());
        let received = || network.packets().iter().any(|p| p.what == What::Keepalive);
        assert!(network.until(received), "nothing is captured");
        network
    }

    /// Returns the schema of the running router.
    pub fn schema(&self) -> Vec<Node> {
        let reply = self.lab.ask(&["call", "manager/manager.v1.Configuration/GetSchema"]);
        let text = find(&reply, "json").unwrap_or_else(|| panic!("no schema: {reply}"));
        serde_json::from_str(text).unwrap()
    }

    /// Returns the configuration of the running router.
    pub fn configuration(&self) -> Value {
        self.lab.ask(&["show", "configuration"])
    }

    /// Checks and commits; both must report equal effects.
    pub fn commit(&self, statements: &[String]) -> Result<Reported, String> {
        let mut words = vec!["configure"];
        words.extend(statements.iter().map(String::as_str));
        words.extend(["commit check", "commit comment \"impact\""]);
        let output = self.lab.cli(&words);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let refused = || format!("refused: {answer} {}", String::from_utf8_lossy(&output.stderr));
        let results = answer["results"].as_array().ok_or_else(refused)?;
        let [.., check, commit] = &results[..] else { return Err(refused()) };
        let reported = Reported::of(&check["result"]["effects"]);
        let done = Reported::of(&commit["result"]["effects"]);
        match reported == done {
            true => Ok(reported),
            false => Err(format!("`commit check` said {reported:?}, `commit` {done:?}")),
        }
    }

    /// Changes the outer neighbor's configuration; `None` restores the first configuration.
    pub fn partner(&self, replace: &Option<(&str, &str)>) {
        if replace.is_none() && !self.is_partner_changed.get() {
            return;
        }
        let text = replace.map_or(OUTER.into(), |(from, to)| {
            assert!(OUTER.contains(from));
            OUTER.replacen(from, to, 1)
        });
        self.is_partner_changed.set(replace.is_some());
        let file = self.lab.lab.dir("outer").join("partner.conf");
        std::fs::write(&file, text).unwrap();
        let answer = self.lab.birdc("outer", &format!("configure \"{}\"", file.display()));
        assert!(answer.contains("Reconfigur"), "{answer}");
    }

    /// Returns the packets so far.
    pub fn packets(&self) -> Ref<'_, [Packet]> {
        let mut capture = self.capture.borrow_mut();
        let mut octets = Vec::new();
        if let Ok(mut file) = File::open(self.lab.lab.dir("sluice").join("wire.pcap")) {
            file.seek(SeekFrom::Start(capture.length)).unwrap();
            file.read_to_end(&mut octets).unwrap();
        }
        capture.feed(&octets);
        drop(capture);
        Ref::map(self.capture.borrow(), |capture| &capture.packets[..])
    }

    fn events(&self) -> String {
        std::fs::read_to_string(self.lab.lab.dir("sluice").join("kernel.log")).unwrap()
    }

    pub fn processes(&self) -> BTreeMap<String, u64> {
        let all = self.lab.ask(&["show", "processes"]);
        let each = all["processes"].as_array().into_iter().flatten();
        let pid =
            |p: &Value| Some((p["component"].as_str()?.to_string(), p["pid"].as_u64().filter(|n| *n > 0)?));
        each.filter_map(pid).collect()
    }

    pub fn now(&self) -> Moment {
        Moment { packets: self.packets().len(), events: self.events().len(), processes: self.processes() }
    }

    /// Returns the effects observed since a moment.
    pub fn touched(&self, since: &Moment) -> Touched {
        let now = self.processes();
        let components = since.processes.keys().chain(now.keys());
        let changed = components.filter(|c| since.processes.get(*c) != now.get(*c));
        Touched { processes: changed.cloned().collect(), ..self.events_since(since) }
    }

    /// Returns the packets since a moment, other than KEEPALIVEs, for people.
    pub fn packets_since(&self, since: &Moment) -> String {
        let packets = self.packets();
        let packets = packets[since.packets..].iter().filter(|p| p.what != What::Keepalive);
        packets.map(|packet| format!("{packet}\n")).collect()
    }

    /// Returns the effects observed since a moment on the wire and in the kernel.
    pub fn events_since(&self, since: &Moment) -> Touched {
        let mut touched = Touched::default();
        for packet in &self.packets()[since.packets..] {
            let is_ours = !is_neighbor(packet.from);
            let neighbor = if is_ours { packet.to } else { packet.from }.to_string();
            match &packet.what {
                What::Keepalive => continue,
                What::Session | What::Connect => drop(touched.sessions.insert(neighbor)),
                What::Update(prefixes) if is_ours => {
                    touched.sent.entry(neighbor).or_default().extend(prefixes.iter().cloned());
                }
                What::Update(_) | What::Refresh => {}
            }
            touched.any = true;
        }
        let events = kernel::events(&self.events()[since.events..]);
        (touched.interfaces, touched.kernel) = (events.interrupted, events.routes);
        touched.any |= events.any;
        touched
    }

    /// Waits until `so` returns true; returns false after [`PATIENCE`].
    pub fn until(&self, so: impl FnMut() -> bool) -> bool {
        sluice_lab::until(PATIENCE, so)
    }

    /// Waits until every session is up, with its routes, except sessions of the neighbors `down`, and the network is
    /// quiet.
    pub fn settle(&self, down: &BTreeSet<String>) -> bool {
        let mut last = ((0, 0), Instant::now());
        sluice_lab::until(PATIENCE, || {
            let counts = |p: &&Packet| {
                let neighbor = if is_neighbor(p.from) { p.from } else { p.to };
                p.what != What::Keepalive && !down.contains(&neighbor.to_string())
            };
            let packets = self.packets();
            let seen = (packets.iter().filter(counts).count(), self.events().len());
            if last.0 != seen {
                last = (seen, Instant::now());
            }
            let is_session = |p: &&Packet| matches!(p.what, What::Session | What::Connect);
            let sessions = packets.iter().filter(counts).filter(is_session).count();
            drop(packets);
            if self.sessions.get().0 != sessions {
                self.sessions.set((sessions, Instant::now()));
            }
            let is_quiet = last.1.elapsed() >= QUIET && self.sessions.get().1.elapsed() >= QUIET_SESSIONS;
            is_quiet && self.is_up(down) && self.lab.ready()
        })
    }

    fn is_up(&self, down: &BTreeSet<String>) -> bool {
        let all = self.lab.ask(&["show", "bgp", "neighbor"]);
        let has_routes = |n: &&Value| {
            let mut families = n["families"].as_array().into_iter().flatten();
            n["state"] == "Established" && families.any(|f| f["prefixes_received"] == "1")
        };
        let up = all["neighbors"].as_array().into_iter().flatten().filter(has_routes);
        let up: BTreeSet<&str> = up.filter_map(|n| n["address"].as_str()).collect();
        NEIGHBORS.iter().all(|n| up.contains(n) != down.contains(*n))
    }

    pub fn summary(&self) -> String {
        self.lab.ask(&["show", "bgp", "summary"]).to_string()
    }

    pub fn log(&self) -> String {
        self.lab.lab.log("sluice", "sluice")
    }
}

fn is_neighbor(address: IpAddr) -> bool {
    NEIGHBORS.contains(&address.to_string().as_str())
}

/// Returns a text member anywhere in an answer.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    match value {
        Value::Object(members) => members
            .get(name)
            .and_then(Value::as_str)
            .or_else(|| members.values().find_map(|member| find(member, name))),
        Value::Array(all) => all.iter().find_map(|one| find(one, name)),
        _ => None,
    }
}
