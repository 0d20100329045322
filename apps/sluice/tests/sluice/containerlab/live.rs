//! The topologies as labs in network namespaces: sessions come up, and routes and packets take the paths that the READMEs
//! describe.

use crate::containerlab::SLUICE;
use crate::containerlab::topology::Topology;
use serde_json::Value;
use sluice_lab::{Lab, LabOptions, available};
use std::process::{Command, Output};
use std::time::Duration;

/// The longest wait for sessions and routes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A topology that runs.
struct Live {
    lab: Lab,
    topology: Topology,
}

impl Live {
    /// Brings a topology up and waits for every session. Returns `None` if the machine lacks rights or a daemon.
    fn up(name: &str, daemons: &[&str]) -> Option<Self> {
        if let Err(reason) = available() {
            sluice_testkit::skipped(reason);
            return None;
        }
        if let Some(daemon) =
            daemons.iter().find(|daemon| Command::new(daemon).arg("--version").output().is_err())
        {
            sluice_testkit::skipped(format!("{daemon} is not installed"));
            return None;
        }
        let topology = Topology::read(name);
        let options = LabOptions { sluice: Some(SLUICE.into()), ..LabOptions::unique(name) };
        let lab = Lab::up(&topology.lab(), options).unwrap();
        for (node, about) in &topology.nodes {
            for line in &about.exec {
                let mut words = line.split(' ');
                lab.exec(node, words.next().unwrap(), words).unwrap();
            }
        }
        let live = Live { lab, topology };
        live.until("all sessions are up", || {
            let mut routers = live.topology.routers();
            routers.all(|(node, router)| live.summary(node)["established"] == router.neighbors.len())
        });
        Some(live)
    }

    /// Runs a command of Sluice on a node.
    fn sluice(&self, node: &str, words: &[&str]) -> Output {
        let mut command = self.lab.command(node, SLUICE).unwrap();
        command.args(words).arg("--json").arg("--run-dir").arg(self.lab.dir(node).join("run"));
        command.output().unwrap()
    }

    fn ask(&self, node: &str, words: &[&str]) -> Value {
        serde_json::from_slice(&self.sluice(node, words).stdout).unwrap_or_default()
    }

    fn summary(&self, node: &str) -> Value {
        self.ask(node, &["show", "bgp", "summary"])
    }

    fn until(&self, what: &str, so: impl FnMut() -> bool) {
        if !sluice_lab::until(PATIENCE, so) {
            let nodes = self.topology.routers().map(|(node, _)| node);
            let states = nodes.map(|node| {
                let routes = self.ask(node, &["show", "bgp", "routes"]);
                format!("{node}: {}\n{routes}\n{}\n", self.summary(node), self.lab.log(node, "sluice"))
            });
            panic!("never: {what}\n{}", states.collect::<String>());
        }
    }

    /// Waits until a node's paths to a prefix have the given AS paths, the best one first.
    fn until_paths(&self, node: &str, prefix: &str, expected: &[&str]) {
        self.until(&format!("{node} has the paths {expected:?} to {prefix}"), || {
            let routes = self.ask(node, &["show", "bgp", "routes", prefix]);
            let mut paths: Vec<&Value> =
                routes["routes"][0]["paths"].as_array().into_iter().flatten().collect();
            paths.sort_by_key(|path| path["best"] != true);
            paths.iter().map(|path| path["as_path"].as_str().unwrap()).eq(expected.iter().copied())
        });
    }

    /// Waits until the gateway of a node's route is `gateway`.
    fn until_gateway(&self, node: &str, prefix: &str, gateway: &str) {
        self.until(&format!("{node} reaches {prefix} by {gateway}"), || {
            let routes = self.ask(node, &["show", "routes", prefix]);
            routes["routes"][0]["forwarding"][0]["gateway"] == gateway
        });
    }

    /// Waits until `to` answers packets of a node from the address `from`.
    fn until_answered(&self, node: &str, from: &str, to: &str) {
        let words = ["-c1", "-W1", "-I", from, to];
        self.until(&format!("{to} answers {from} of {node}"), || {
            self.lab.output(node, "ping", words).is_ok_and(|output| output.status.success())
        });
    }

    fn configure(&self, node: &str, statement: &str) {
        let output = self.sluice(node, &["configure", statement, "commit"]);
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn two_routers() {
    let Some(live) = Live::up("two-routers", &[]) else { return };
    live.until_paths("r1", "198.51.2.0/24", &["65002"]);
    live.until_answered("r1", "198.51.1.1", "198.51.2.1");
    live.until_answered("r1", "2001:db8:1::1", "2001:db8:2::1");
}

#[test]
fn triangle() {
    let Some(live) = Live::up("triangle", &[]) else { return };
    live.until_paths("a", "203.0.113.0/24", &["65010", "65010"]);
    live.until_gateway("a", "203.0.113.0/24", "10.1.0.2");
    live.until_answered("a", "192.0.2.1", "203.0.113.1");
    live.configure("a", "set protocols bgp neighbor 10.1.0.2 enabled false");
    live.until_gateway("a", "203.0.113.0/24", "10.0.0.2");
    live.until_answered("a", "192.0.2.1", "203.0.113.1");
}

#[test]
fn bird_and_frr() {
    let Some(live) = Live::up("bird-and-frr", &["bird", "/usr/lib/frr/bgpd"]) else { return };
    live.until_paths("sluice", "203.0.113.0/24", &["65101"]);
    live.until_paths("sluice", "198.51.100.0/24", &["65102"]);
    live.until_answered("sluice", "192.0.2.1", "203.0.113.1");
    live.until_answered("sluice", "192.0.2.1", "198.51.100.1");
    let bird = live.lab.control("bird", "show route").unwrap();
    assert!(bird.contains("192.0.2.0/24"), "{bird}");
    assert!(!bird.contains("198.51.100.0/24"), "a route of one provider reaches another provider\n{bird}");
}

#[test]
fn exchange() {
    let Some(live) = Live::up("exchange", &[]) else { return };
    for member in 2..=4 {
        // The members send routes of other members to nobody.
        live.until_paths("m1", &format!("198.51.{member}.0/24"), &[&format!("6500{member}")]);
        live.until_gateway("m1", &format!("2001:db8:{member}::/48"), &format!("2001:db8::{member}"));
        live.until_answered("m1", "198.51.1.1", &format!("198.51.{member}.1"));
    }
}

#[test]
fn dual_homed() {
    let Some(live) = Live::up("dual-homed", &[]) else { return };
    live.until_paths("transit", "192.0.2.0/24", &["65101 65000"]);
    live.until_paths("upstream-b", "192.0.2.0/24", &["65200 65101 65000", "65000"]);
    live.until_gateway("ce1", "203.0.113.0/24", "10.1.0.2");
    live.until_answered("ce1", "192.0.2.1", "203.0.113.1");
    live.configure("ce1", "set protocols bgp neighbor 10.1.0.2 enabled false");
    live.until_paths("transit", "192.0.2.0/24", &["65102 65000"]);
    live.until_gateway("ce1", "203.0.113.0/24", "10.0.0.2");
    live.until_answered("ce1", "192.0.2.1", "203.0.113.1");
}
