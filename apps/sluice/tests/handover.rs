//! Hand-over between real neighbours: BIRD and FRR, without graceful restart, see nothing of a component that restarts, the kernel's
//! routes do not change and no packet is lost; and whatever a new process lacks, the old one goes on.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

use serde_json::Value;
use sluice_lab::{Lab, LabOptions, Topology, available};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

/// Prefixes that BIRD announces: 100.0.0.0/24 and so on.
const PREFIXES: usize = 10_000;

/// Routes that the router's kernel has from it: those, FRR's prefix, and a static one.
const ROUTES: usize = PREFIXES + 2;

const SLUICE_CONFIG: &str = "protocols {
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        network 192.0.2.0/24;
        neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; }
        neighbor 10.2.0.2 { peer-as 64502; connect-retry-time 1; }
    }
    static { route 192.0.2.0/24 { discard; } }
}";

const FRR_CONFIG: &str = "router bgp 64502
 bgp router-id 10.2.0.2
 bgp graceful-restart-disable
 no bgp ebgp-requires-policy
 neighbor 10.2.0.1 remote-as 64500
 neighbor 10.2.0.1 timers connect 1
 address-family ipv4 unicast
  network 203.0.113.0/24
 exit-address-family
ip route 203.0.113.0/24 blackhole";

fn bird_config() -> String {
    let mut text = String::from(
        "router id 10.1.0.2;
protocol device { }
protocol bgp four {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; graceful restart off; connect delay time 1;
    ipv4 { import all; export all; };
}
protocol static { ipv4;
",
    );
    for n in 0..PREFIXES {
        writeln!(text, "route 100.{}.{}.0/24 blackhole;", n / 256, n % 256).unwrap();
    }
    text + "}\n"
}

fn topology() -> Topology {
    let bird = bird_config();
    format!(
        "[nodes.sluice]\ndaemon = \"sluice\"\nconfig = '''\n{SLUICE_CONFIG}\n'''\n\
         [nodes.bird]\ndaemon = \"bird\"\nconfig = '''\n{bird}\n'''\n\
         [nodes.frr]\ndaemon = \"frr\"\nconfig = '''\n{FRR_CONFIG}\n'''\n\
         [[links]]\na = \"sluice:bird\"\nb = \"bird:sluice\"\na_addresses = [\"10.1.0.1/24\"]\nb_addresses = [\"10.1.0.2/24\"]\n\
         [[links]]\na = \"sluice:frr\"\nb = \"frr:sluice\"\na_addresses = [\"10.2.0.1/24\"]\nb_addresses = [\"10.2.0.2/24\"]\n"
    )
    .parse()
    .unwrap()
}

/// A router between both neighbours, converged.
struct Network {
    lab: Lab,
}

/// What neighbours and the router say of the sessions: all of this is to go on.
#[derive(PartialEq, Debug)]
struct Sessions {
    /// Messages other than KEEPALIVE as BIRD, FRR and Sluice count them, and how often sessions were lost.
    counted: Vec<String>,
}

impl Network {
    fn up() -> Option<Self> {
        if let Err(reason) = available() {
            sluice_testkit::skipped(reason);
            return None;
        }
        let bird = Command::new("bird").arg("--version").output().is_ok();
        if !bird || !Path::new("/usr/lib/frr/bgpd").exists() {
            sluice_testkit::skipped("BIRD or FRR is not installed");
            return None;
        }
        let options = LabOptions { sluice: Some(SLUICE.into()), ..LabOptions::unique("handover") };
        let lab = Lab::up(&topology(), options).unwrap();
        let network = Network { lab };
        network.until("all routes are in the kernel and with FRR", || {
            network.routes() == ROUTES && network.told_frr() == PREFIXES as u64 + 1
        });
        for (node, words) in [
            ("sluice", ["sysctl", "-qw", "net.ipv4.ip_forward=1"].as_slice()),
            ("bird", &["ip", "address", "add", "100.0.7.1/32", "dev", "lo"]),
            ("bird", &["ip", "route", "add", "10.2.0.0/24", "via", "10.1.0.1"]),
            ("frr", &["ip", "route", "replace", "100.0.7.0/24", "via", "10.2.0.1"]),
        ] {
            let output = network.lab.output(node, words[0], &words[1..]).unwrap();
            assert!(output.status.success(), "{words:?}: {output:?}");
        }
        Some(network)
    }

    fn until(&self, what: &str, so: impl FnMut() -> bool) {
        let came = sluice_lab::until(Duration::from_secs(30), so);
        assert!(came, "never: {what}\n{}\n{}", self.bgp(), self.log());
    }

    fn log(&self) -> String {
        self.lab.log("sluice", "sluice")
    }

    fn sluice(&self, words: &[&str]) -> Output {
        let run_dir = self.lab.dir("sluice").join("run").display().to_string();
        Command::new(SLUICE).args(words).args(["--json", "--run-dir", &run_dir]).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_slice(&self.sluice(words).stdout).unwrap_or_default()
    }

    /// Neighbours by address.
    fn bgp(&self) -> Value {
        let answer = self.json(&["show", "bgp", "neighbor"]);
        let all = answer["neighbors"].as_array().cloned().unwrap_or_default();
        all.into_iter().map(|n| (n["address"].as_str().unwrap_or_default().to_owned(), n)).collect()
    }

    /// Prefixes that FRR was told.
    fn told_frr(&self) -> u64 {
        self.bgp()["10.2.0.2"]["families"][0]["prefixes_sent"].as_str().map_or(0, |n| n.parse().unwrap())
    }

    fn pid(&self, component: &str) -> u64 {
        let answer = self.json(&["show", "processes"]);
        let all = answer["processes"].as_array().cloned().unwrap_or_default();
        let process = all.iter().find(|p| p["component"] == component);
        process.and_then(|p| p["pid"].as_u64()).unwrap_or(0)
    }

    /// Routes in the router's kernel by BGP.
    fn routes(&self) -> usize {
        let output = self.lab.output("sluice", "ip", ["route", "show", "proto", "83"]).unwrap();
        String::from_utf8_lossy(&output.stdout).lines().filter(|l| !l.starts_with(['\t', ' '])).count()
    }

    /// What is to go on, and how long the sessions are up by Sluice's word and FRR's (ms).
    fn sessions(&self) -> (Sessions, [u64; 3]) {
        let bgp = self.bgp();
        let mut counted = Vec::new();
        let mut up = [0; 3];
        for (place, address) in ["10.1.0.2", "10.2.0.2"].into_iter().enumerate() {
            let neighbor = &bgp[address];
            assert_eq!(neighbor["state"], "Established", "{address}\n{}", self.log());
            counted.push(format!("{address} {} {}", neighbor["sent"]["update"], neighbor["flaps"]));
            up[place] = neighbor["uptime_ms"].as_str().map_or(0, |n| n.parse().unwrap());
        }
        let bird = self.lab.control("bird", "show protocols all four").unwrap();
        let wanted = |l: &&str| {
            ["four ", "Import updates", "Import withdraws", "Export updates"].iter().any(|w| l.contains(w))
        };
        // Since when it is up, but for the last digits: BIRD's own clocks differ by a millisecond.
        let rounded = |line: &str| match line.split_once('.') {
            Some((before, _)) => before[..before.len() - 1].to_owned(),
            None => line.to_owned(),
        };
        counted.extend(bird.lines().filter(wanted).map(rounded));
        let frr = self.lab.control("frr", "show bgp neighbors 10.2.0.1 json").unwrap();
        let frr: Value = serde_json::from_str(&frr).unwrap_or_default();
        let frr = &frr["10.2.0.1"];
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
        let mut command = self.lab.command(node, words[0]).unwrap();
        command.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Does something while packets flow through the router and the kernel's routes are watched: none of the packets may be lost, no
    /// route may change, and sessions go on.
    fn unnoticed(&self, what: &str, act: impl FnOnce()) {
        let (before, up) = self.sessions();
        let monitor = self.spawn("sluice", &["ip", "monitor", "route"]);
        let ping = self.spawn("frr", &["ping", "-q", "-i", "0.002", "-I", "10.2.0.2", "100.0.7.1"]);
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

#[test]
fn a_restart_that_nobody_notices() {
    let Some(network) = Network::up() else { return };
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
    // The session lives: what a neighbour says and hears later is as ever.
    let socket = network.lab.dir("bird").join("bird.ctl").display().to_string();
    network.lab.exec("bird", "birdc", ["-s", &socket, "disable", "static1"]).unwrap();
    network.until("withdrawals arrive everywhere", || network.routes() == ROUTES - PREFIXES);
    network.until("FRR hears of it", || network.told_frr() == 1);
}

#[test]
fn whatever_the_new_process_lacks_the_old_one_goes_on() {
    let Some(network) = Network::up() else { return };
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
