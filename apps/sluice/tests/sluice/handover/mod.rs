//! Hand-over between real neighbors: BIRD, and FRR from a listen range, without graceful restart, notice nothing of a restarting component,
//! the kernel's routes do not change and no packet is lost; and whenever a new process fails, the old process goes on.

mod listeners;
mod replaced_file;
mod undone;

use crate::SLUICE;
use serde_json::Value;
use sluice_lab::Topology;
use sluice_router_lab::{RouterLab, possible_with_frr};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Prefixes announced by BIRD.
const PREFIXES: usize = 10_000;

/// Routes of the router in the kernel: the prefixes of BIRD, FRR's prefix, and a static route.
const ROUTES: usize = PREFIXES + 2;

/// A family's addresses.
struct Addresses {
    /// The name of the family in BIRD, FRR and Sluice.
    name: &'static str,
    /// The router and BIRD on their subnet, the router and FRR on theirs.
    bird: [&'static str; 2],
    frr: [&'static str; 2],
    /// The subnet of the router and FRR.
    frr_subnet: &'static str,
    /// Bits of a subnet, and of a host.
    lengths: [u8; 2],
    /// The prefixes of the router and of FRR.
    networks: [&'static str; 2],
    /// A prefix of BIRD's, and a host in the prefix.
    target: [&'static str; 2],
    nth: fn(usize) -> String,
}

const IPV4: Addresses = Addresses {
    name: "ipv4",
    bird: ["10.1.0.1", "10.1.0.2"],
    frr: ["10.2.0.1", "10.2.0.2"],
    frr_subnet: "10.2.0.0/24",
    lengths: [24, 32],
    networks: ["192.0.2.0/24", "203.0.113.0/24"],
    target: ["100.0.7.0/24", "100.0.7.1"],
    nth: |n| format!("100.{}.{}.0/24", n / 256, n % 256),
};
const IPV6: Addresses = Addresses {
    name: "ipv6",
    bird: ["fd00:1::1", "fd00:1::2"],
    frr: ["fd00:2::1", "fd00:2::2"],
    frr_subnet: "fd00:2::/64",
    lengths: [64, 128],
    networks: ["2001:db8:a::/48", "2001:db8:f::/48"],
    target: ["2a00:100:7::/48", "2a00:100:7::1"],
    nth: |n| format!("2a00:100:{n:x}::/48"),
};

impl Addresses {
    fn sluice_config(&self) -> String {
        let (bird, frr, network) = (self.bird[1], self.frr_subnet, self.networks[0]);
        format!(
            "protocols {{
    bgp {{
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        network {network};
        neighbor {bird} {{ peer-as 64501; connect-retry-time 1; }}
        group dynamic;
        listen-range {frr} {{ group dynamic; peer-as 64502; }}
    }}
    static {{ route {network} {{ discard; }} }}
}}"
        )
    }

    fn frr_config(&self) -> String {
        let (router, network, name) = (self.frr[0], self.networks[1], self.name);
        let route = if name == "ipv4" { "ip" } else { "ipv6" };
        format!(
            "router bgp 64502
 bgp router-id 10.2.0.2
 bgp graceful-restart-disable
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor {router} remote-as 64500
 neighbor {router} timers connect 1
 address-family {name} unicast
  neighbor {router} activate
  network {network}
 exit-address-family
{route} route {network} blackhole"
        )
    }

    fn bird_config(&self) -> String {
        let ([router, own], name) = (self.bird, self.name);
        let mut text = format!(
            "router id 10.1.0.2;
protocol device {{ }}
protocol bgp four {{
    local {own} as 64501; neighbor {router} as 64500; graceful restart off; connect delay time 1;
    {name} {{ import all; export all; }};
}}
protocol static {{ {name};
"
        );
        for n in 0..PREFIXES {
            writeln!(text, "route {} blackhole;", (self.nth)(n)).unwrap();
        }
        text + "}\n"
    }

    fn topology(&self) -> Topology {
        let (sluice, bird, frr) = (self.sluice_config(), self.bird_config(), self.frr_config());
        let mask = self.lengths[0];
        let link = |other: &str, [own, its]: [&str; 2]| {
            format!(
                "[[links]]\na = 'sluice:{other}'\nb = '{other}:sluice'\n\
                 a_addresses = ['{own}/{mask}']\nb_addresses = ['{its}/{mask}']\n"
            )
        };
        format!(
            "[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n{sluice}\n'''\n\
             [nodes.bird]\ndaemon = 'bird'\nconfig = '''\n{bird}\n'''\n\
             [nodes.frr]\ndaemon = 'frr'\nconfig = '''\n{frr}\n'''\n{}{}",
            link("bird", self.bird),
            link("frr", self.frr)
        )
        .parse()
        .unwrap()
    }
}

/// A router between both neighbors, converged.
struct Network {
    router: RouterLab,
    addresses: &'static Addresses,
}

/// The sessions as seen by the neighbors and the router: every session is to go on.
#[derive(PartialEq, Debug)]
struct Sessions {
    /// Messages other than KEEPALIVE as counted by BIRD, FRR and Sluice, and the number of lost sessions.
    counted: Vec<String>,
}

impl Network {
    fn up(addresses: &'static Addresses) -> Option<Self> {
        if !possible_with_frr() {
            return None;
        }
        let network = Network { router: RouterLab::up(&addresses.topology(), Path::new(SLUICE)), addresses };
        network.until("all routes are in the kernel and with FRR", || {
            network.routes() == ROUTES && network.sent_to_frr() == PREFIXES as u64 + 1
        });
        let Addresses { bird, frr, frr_subnet, lengths: [_, one], target: [prefix, host], .. } = addresses;
        for (node, words) in [
            ("bird", format!("address add {host}/{one} dev lo")),
            ("bird", format!("route add {frr_subnet} via {}", bird[0])),
            ("frr", format!("route replace {prefix} via {}", frr[0])),
        ] {
            network.router.lab.exec(node, "ip", words.split(' ')).unwrap();
        }
        Some(network)
    }

    fn until(&self, what: &str, so: impl Fn() -> bool) {
        self.router.until_within(Duration::from_secs(30), what, |_| so());
    }

    fn log(&self) -> String {
        self.router.lab.log("sluice", "sluice")
    }

    fn sluice(&self, words: &[&str]) -> Output {
        self.router.cli(words)
    }

    /// Returns the number of prefixes sent to FRR.
    fn sent_to_frr(&self) -> u64 {
        let neighbor = self.router.neighbor(self.addresses.frr[1]);
        let families = neighbor["families"].as_array().into_iter().flatten();
        let mut of_family = families.filter(|family| family["family"] == self.addresses.name);
        of_family.find_map(|family| family["prefixes_sent"].as_str()?.parse().ok()).unwrap_or(0)
    }

    fn pid(&self, component: &str) -> u64 {
        self.router.pid(component).unwrap_or(0)
    }

    /// Routes in the router's kernel by BGP.
    fn routes(&self) -> usize {
        let count = self.router.kernel();
        if self.addresses.name == "ipv4" { count.v4 } else { count.v6 }
    }

    /// Returns the state that must go on, and the uptime of the sessions according to Sluice and FRR (ms).
    fn sessions(&self) -> (Sessions, [u64; 3]) {
        let mut counted = Vec::new();
        let mut up = [0; 3];
        for (place, address) in [self.addresses.bird[1], self.addresses.frr[1]].into_iter().enumerate() {
            let neighbor = self.router.neighbor(address);
            assert_eq!(neighbor["state"], "Established", "{address}\n{}", self.log());
            counted.push(format!("{address} {} {}", neighbor["sent"]["update"], neighbor["flaps"]));
            up[place] = neighbor["uptime_ms"].as_str().map_or(0, |n| n.parse().unwrap());
        }
        let bird = self.router.lab.control("bird", "show protocols all four").unwrap();
        let wanted = |l: &&str| {
            ["four ", "Import updates", "Import withdraws", "Export updates"].iter().any(|w| l.contains(w))
        };
        // Since when it is up, but for the last digits: BIRD's own clocks differ by a millisecond.
        let rounded = |line: &str| match line.split_once('.') {
            Some((before, _)) => before[..before.len() - 1].to_owned(),
            None => line.to_owned(),
        };
        counted.extend(bird.lines().filter(wanted).map(rounded));
        let router = self.addresses.frr[0];
        let frr = self.router.lab.control("frr", &format!("show bgp neighbors {router} json")).unwrap();
        let frr: Value = serde_json::from_str(&frr).unwrap_or_default();
        let frr = &frr[router];
        let stats = &frr["messageStats"];
        counted.push(format!(
            "{} {} {} {} {}",
            stats["updatesRecv"],
            stats["updatesSent"],
            stats["notificationsRecv"],
            stats["opensRecv"],
            frr["connectionsDropped"]
        ));
        up[2] = frr["bgpTimerUpMsec"].as_u64().unwrap_or(0);
        (Sessions { counted }, up)
    }

    fn spawn(&self, node: &str, words: &[&str]) -> Child {
        let mut command = self.router.lab.command(node, words[0]).unwrap();
        command.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs `act` while packets flow through the router and the kernel's routes are watched: no packet may be lost, no
    /// route may change, and sessions go on.
    fn unnoticed(&self, what: &str, act: impl FnOnce()) {
        let (before, up) = self.sessions();
        let monitor = self.spawn("sluice", &["ip", "monitor", "route"]);
        let (from, to) = (self.addresses.frr[1], self.addresses.target[1]);
        let ping = self.spawn("frr", &["ping", "-q", "-i", "0.002", "-I", from, to]);
        act();
        // A while longer, for what might come late.
        sluice_lab::until(Duration::from_secs(2), || false);
        let interrupt = |child: &Child, signal: &str| {
            Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap()
        };
        interrupt(&ping, "-INT");
        let ping = ping.wait_with_output().unwrap();
        interrupt(&monitor, "-TERM");
        let monitor = monitor.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ping.stdout).into_owned();
        println!("{what}: {}", text.lines().find(|l| l.contains("packet loss")).unwrap_or(&text));
        assert!(text.contains(" 0% packet loss"), "{what}: {text}\n{}", self.log());
        let changed = String::from_utf8_lossy(&monitor.stdout).into_owned();
        assert!(changed.is_empty(), "{what}: the kernel's routes changed:\n{changed}");
        let (after, up_after) = self.sessions();
        assert_eq!(before, after, "{what}\n{}", self.log());
        assert!(up.iter().zip(&up_after).all(|(a, b)| a < b), "{what}: {up:?} {up_after:?}");
        assert_eq!(self.routes(), ROUTES, "{what}");
    }
}

fn nobody_notices(addresses: &'static Addresses) {
    let Some(network) = Network::up(addresses) else { return };
    for component in ["static", "bgp", "bgp", "rib", "fea", "bgp", "rib"] {
        let pid = network.pid(component);
        network.unnoticed(&format!("restart {component}"), || {
            let output = network.sluice(&["restart", component]);
            assert!(output.status.success(), "{component}: {output:?}\n{}", network.log());
            println!("{}", String::from_utf8_lossy(&output.stdout));
        });
        assert_ne!(network.pid(component), pid);
    }
    let pid = network.pid("bgp");
    network.unnoticed("restart manager", || {
        let output = network.sluice(&["restart", "manager"]);
        assert!(output.status.success(), "{output:?}\n{}", network.log());
        network.until("the next life has taken over", || {
            network.log().contains("taken over from an earlier life") && network.pid("bgp") == pid
        });
    });
    network.unnoticed("upgrade bgp", || {
        let output = network.sluice(&["upgrade", "bgp", "--binary", SLUICE]);
        assert!(output.status.success(), "{output:?}\n{}", network.log());
    });
    // The session lives: routes are exchanged as before.
    network.router.birdc("bird", "disable static1");
    network.until("withdrawals arrive everywhere", || network.routes() == ROUTES - PREFIXES);
    network.until("FRR receives it", || network.sent_to_frr() == 1);
}

#[test]
fn a_restart_that_nobody_notices() {
    nobody_notices(&IPV4);
}

#[test]
fn a_restart_that_nobody_notices_over_ipv6() {
    nobody_notices(&IPV6);
}

#[test]
fn whatever_the_new_process_lacks_the_old_one_goes_on() {
    let Some(network) = Network::up(&IPV4) else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let refused = |binary: &str| {
        let output = network.sluice(&["upgrade", "bgp", "--binary", binary]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let pid = network.pid("bgp");
    network.unnoticed("one that ends at once", || {
        let reason = refused("/bin/false");
        assert!(reason.contains("exit status: 1"), "{reason}");
    });
    network.unnoticed("one that does nothing", || {
        let reason = refused(&script("hangs", "exec sleep 60"));
        assert!(reason.contains("did not come up in time"), "{reason}");
    });
    network.unnoticed("one that expects another process before it", || {
        refused(&script("stranger", &format!("SLUICE_PREDECESSOR=1 exec {SLUICE} \"$@\"")));
    });
    assert_eq!(network.pid("bgp"), pid);
    // With too few descriptors a process fails at one step or another of all there are.
    network.unnoticed("those that lack descriptors", || {
        for limit in 5..16 {
            let binary =
                script(&format!("lacks{limit}"), &format!("ulimit -n {limit}; exec {SLUICE} \"$@\""));
            let output = network.sluice(&["upgrade", "bgp", "--binary", &binary]);
            println!("{limit} descriptors: {}", String::from_utf8_lossy(&output.stdout).replace('\n', " "));
            if output.status.success() {
                break;
            }
            assert_eq!(network.pid("bgp"), pid);
        }
    });
}
